"""Where the clocks of a zone are changed within a part of time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from go_scheduler.triggers.wall.zone_changes import zone_changes

if TYPE_CHECKING:
    from go_scheduler.dashboard.strips.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockChange:
    """A change of the clocks.

    Attributes:
        at: When it is.
        share: Where it is in the window, from 0 to 1.
        text: What it is, for a person to read.
    """

    at: datetime
    share: float
    text: str


def clock_changes(timezone: str | None, window: Window) -> list[ClockChange]:
    """All that there are in a zone within a window, earliest first.

    Args:
        timezone: The name of the zone; None: there is none, and so no change.
        window: The part of time.
    """
    if timezone is None:
        return []
    return [
        ClockChange(at=at, share=window.share(at), text=text)
        for at, text in zone_changes(timezone, window.start, window.end)
    ]
