"""The log of runs: a line for each, for who asks for it."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.events.instance_events import RunEnded

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
