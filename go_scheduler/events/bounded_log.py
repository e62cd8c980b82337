"""Logging that cannot flood: a few lines at a time, and how many were left out."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from go_scheduler.errors import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping

_LINES = 5


class BoundedLog:
    """Writes at most five lines between two calls of ``begin``.

    Args:
        log: Where to write.
        most: Another number of lines.
    """

    def __init__(self, log: logging.Logger, *, most: float = _LINES) -> None:
        self._log = log
        self._most = most
        self._lines = 0

    def begin(self) -> None:
        """Begin anew, as at a tick: say how much was left out since the last time."""
        left_out, self._lines = self._lines - self._most, 0
        if left_out > 0:
            self._log.warning("%d more such lines were left out", left_out)

    def write(
        self,
        level: int,
        message: str,
        *args: object,
        ids: Mapping[str, object],
        error: BaseException | None = None,
    ) -> None:
        """Write a line, unless there were enough already.

        Args:
            level: One of the levels of ``logging``.
            message: With a place for each of ``args``.
            *args: What goes there.
            ids: Given to the record as attributes, as text what is no whole number.
            error: Written with its traceback, if that is worth its lines.
        """
        self._lines += 1
        if self._lines <= self._most:
            extra = {
                key: value if isinstance(value, int) else str(value)
                for key, value in ids.items()
            }
            shown = None if error is None else traceback_of(error, self._log)
            self._log.log(level, message, *args, exc_info=shown, extra=extra)


def traceback_of(error: BaseException, log: logging.Logger) -> BaseException | None:
    """The error, if its traceback is worth a hundred lines of a log.

    That of a store that is away tells of no fault in any code: it is for those who ask
    for all there is.
    """
    is_away = isinstance(error, StoreUnavailableError)
    return None if is_away and not log.isEnabledFor(logging.DEBUG) else error
