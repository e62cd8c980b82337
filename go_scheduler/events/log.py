"""The log, the first listener: it writes a line for some events, and for runs."""

from __future__ import annotations

import logging
import math
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.events.bounded_log import BoundedLog
from go_scheduler.events.instance_events import RunEnded
from go_scheduler.events.lines import line_of

if TYPE_CHECKING:
    from go_scheduler.events.event import Event

_LOG = logging.getLogger("go_scheduler.runs")
_LINE = "%s: instance %s, attempt %d, %.3f s late, took %.3f s: %s"


class RunLog:
    """Writes how each run ended, and how late it began."""

    HEARD = (RunEnded,)

    def hear(self, event: Event) -> None:
        """Write the line of a run that has ended."""
        assert isinstance(event, RunEnded)
        _LOG.info(
            _LINE,
            event.name or event.definition_id,
            event.instance_id,
            event.attempt,
            event.late.total_seconds(),
            event.took.total_seconds(),
            event.outcome or f"runs again in {event.retry_in}",
            extra={
                "instance_id": str(event.instance_id),
                "definition_id": str(event.definition_id),
                # What is called `name` of a record is its logger's.
                "definition_name": event.name,
                "queue": event.queue,
                "attempt": event.attempt,
                "late_ms": _milliseconds(event.late),
                "duration_ms": _milliseconds(event.took),
                "outcome": None if event.outcome is None else str(event.outcome),
                "retry_in_ms": _milliseconds(event.retry_in),
                "worker": event.worker,
            },
        )


def _milliseconds(duration: timedelta | None) -> float | None:
    if duration is None:
        return None
    return round(duration / timedelta(milliseconds=1), 3)


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
