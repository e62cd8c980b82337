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
    """Writes a few lines a second; how many were left out is told with the next one.

    Args:
        log: Where to write.
        clock: Measures seconds.
    """

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._bounded = BoundedLog(log)
        self._clock = clock
        self._begun = clock.elapsed()

    def write(
        self,
        level: int,
        message: str,
        *args: object,
        error: BaseException | None = None,
    ) -> None:
        """Write a line, unless there were enough within this second."""
        # What nobody reads leaves no other line out.
        if not self._log.isEnabledFor(level):
            return
        now = self._clock.elapsed()
        if now >= self._begun + _SECOND:
            self._begun = now
            self._bounded.begin()
        self._bounded.write(level, message, *args, ids={}, error=error)

    def close(self) -> None:
        """Say how many were left out: there is no next one."""
        self._bounded.begin()
