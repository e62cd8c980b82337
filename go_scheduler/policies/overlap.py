"""Overlap: what becomes of what is due while another one runs."""

from __future__ import annotations

from enum import StrEnum

from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown


class Overlap(StrEnum):
    """What becomes of an instance that is due while another one runs.

    What runs and what waits is that of the same definition, on any node. An instance
    runs in this sense from its first start until it has ended, retries included.
    """

    ALLOW = "allow"
    """They run beside each other."""
    SKIP = "skip"
    """It is skipped."""
    BUFFER_ONE = "buffer_one"
    """It waits for the end of the other; if one waits already, it is skipped."""
    BUFFER_ALL = "buffer_all"
    """It waits for its turn; if a thousand wait already, it is skipped."""
    REPLACE = "replace"
    """The other is asked to stop, and it runs when that has ended. If one waits
    already, that one is skipped."""


def check_overlap(value: object) -> Overlap:
    """Check an overlap, given as such or as its text.

    Raises:
        ConfigurationError: It is no overlap.
    """
    for each in Overlap:
        # A member of a user's own StrEnum equals ours, but must not be kept.
        if each == value:
            return each
    values = ", ".join(repr(each.value) for each in Overlap)
    raise ConfigurationError(f"overlap must be one of {values}: {shown(value)}")
