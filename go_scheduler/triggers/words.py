"""English words that triggers describe themselves with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
WEEKDAYS = (
    *("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
)
"""As Python numbers them: monday is 0."""


def listed(words: Sequence[str]) -> str:
    """One or more words as people list them: ``a, b and c``."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last
