"""The log, the first listener: writes what is to be read of some events."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from go_scheduler.events.bounded_log import BoundedLog
from go_scheduler.events.lines import line_of

if TYPE_CHECKING:
    from go_scheduler.events.event import Event


class Log:
    """Writes what one part of a node tells, under the name of the part's room.

    Args:
        room: The logger's name behind ``go_scheduler.``.
        bounded: Whether it writes a few lines only from one ``begin`` to the next.
    """

    def __init__(self, room: str, *, bounded: bool) -> None:
        log = logging.getLogger(f"go_scheduler.{room}")
        self._lines = BoundedLog(log) if bounded else BoundedLog(log, most=math.inf)

    def begin(self) -> None:
        """Begin anew, as at a tick: say how much was left out since the last time."""
        self._lines.begin()

    def hear(self, event: Event) -> None:
        """Write the event's line, if it has one."""
        line = line_of(event)
        if line is not None:
            self._lines.write(
                line.level, line.message, *line.args, ids=line.ids, error=line.error
            )
