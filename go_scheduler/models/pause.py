"""A pause that has ended, as what was skipped for it tells of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause that has ended.

    Attributes:
        since: When it began.
        until: When the definition was resumed.
        note: Why it was paused.
    """

    since: datetime
    until: datetime
    note: str | None = None

    def explained(self, reason: str, first: datetime, last: datetime) -> str:
        """A reason why something was skipped, with the pause if that was part of it.

        Args:
            reason: The reason.
            first: When the first of what was skipped was to run.
            last: When the last of it was, or when that was decided.
        """
        if last < self.since or first > self.until:
            return reason
        paused = f"{reason}; paused from {_shown(self.since)} to {_shown(self.until)}"
        return _with_note(paused, self.note)


def explained_by_pause(reason: str, since: datetime, note: str | None) -> str:
    """A reason why something was skipped, with the pause that has not ended."""
    return _with_note(f"{reason}; paused since {_shown(since)}", note)


def _with_note(reason: str, note: str | None) -> str:
    return reason if note is None else f"{reason}: {note}"


def _shown(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
