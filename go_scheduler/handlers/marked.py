"""What is kept of a declared type beside its metadata, and is no business of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from go_scheduler.json import JSON

MARK = "go_scheduler.type"
"""What the metadata of a declared type has: its description, and its schema."""


def unmarked(metadata: Mapping[str, JSON]) -> dict[str, JSON]:
    """Metadata as those see it who run something, without what is said of its type."""
    return {name: value for name, value in metadata.items() if name != MARK}
