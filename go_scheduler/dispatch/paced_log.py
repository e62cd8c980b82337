"""A log of what others send: whatever that is, it does not fill a disk."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.events.bounded_log import BoundedLog

if TYPE_CHECKING:
    import logging

    from go_scheduler.clock import Clock

_SECOND = timedelta(seconds=1)


class PacedLog:
    """Writes a few lines of each kind a second; how many more there were is told after.

    No kind leaves another one out: what is seldom may be what matters.

    Args:
        log: Where to write.
        clock: Measures seconds.
    """

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._kinds: dict[str, BoundedLog] = {}
        self._clock = clock
        self._begun = clock.elapsed()

    def write(
        self,
        level: int,
        message: str,
        *args: object,
        error: BaseException | None = None,
    ) -> None:
        """Write a line, unless there were enough of this message within this second."""
        # What nobody reads leaves no other line out.
        if not self._log.isEnabledFor(level):
            return
        now = self._clock.elapsed()
        if now >= self._begun + _SECOND:
            self._begun = now
            self.close()
        kind = self._kinds.setdefault(message, BoundedLog(self._log))
        kind.write(level, message, *args, ids={}, error=error)

    def close(self) -> None:
        """Say how many were left out: there is no next one."""
        for each in list(self._kinds.values()):
            each.begin()
