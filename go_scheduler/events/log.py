"""The log, the first listener: it writes a line for some events, and for runs."""

from __future__ import annotations

import logging
import math
import threading
from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.errors import StoreUnavailableError
from go_scheduler.events.instance_events import RunEnded

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from go_scheduler.clock import Clock
    from go_scheduler.events.event import Event

_LOG = logging.getLogger("go_scheduler.runs")
_LINE = "%s: instance %s, attempt %d, %.3f s late, took %.3f s: %s"
_LINES = 5
_MOST = 1000
_MINUTE = timedelta(minutes=1)
_IDS = ("definition_id", "instance_id", "attempt", "node")


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
        """Allow lines again, as at a new tick. Log how many lines were left out."""
        left_out, self._lines = self._lines - self._most, 0
        if left_out > 0:
            self._log.warning("%d more such lines were left out", left_out)

    def write(
        self,
        level: int,
        message: str,
        *args: object,
        ids: Mapping[str, object] = {},
        error: BaseException | None = None,
    ) -> None:
        """Write a line, unless there were enough already.

        Args:
            level: One of the levels of ``logging``.
            message: With a place for each of ``args``, or for each value of a mapping.
            *args: The values.
            ids: Attributes of the record. Whole numbers stay, all else becomes text.
            error: Written with its traceback. A store that is away is no fault in any
                code: its traceback is written at level DEBUG only.
        """
        self._lines += 1
        if self._lines > self._most:
            return
        extra = {
            key: value if isinstance(value, int) else str(value)
            for key, value in ids.items()
        }
        is_away = isinstance(error, StoreUnavailableError)
        if is_away and not self._log.isEnabledFor(logging.DEBUG):
            error = None
        self._log.log(level, message, *args, exc_info=error, extra=extra)


class Log(BoundedLog):
    """Writes the events of one part of a node.

    Args:
        room: The logger's name behind ``go_scheduler.``.
        bounded: Whether it writes at most five lines between two calls of ``begin``.
    """

    def __init__(self, room: str, *, bounded: bool) -> None:
        log = logging.getLogger(f"go_scheduler.{room}")
        super().__init__(log, most=_LINES if bounded else math.inf)

    def hear(self, event: Event) -> None:
        """Write the event's line, if it has one."""
        line = event._line
        if line is None:
            return
        values = {each.name: getattr(event, each.name) for each in fields(event)}
        error = values.get("exception") if line.with_traceback else None
        name, id = values.get("name"), values.get("definition_id")
        values |= {"of": name or id, "what": name or f"definition {id}", **line.values}
        ids = line.ids
        if ids is None:
            ids = [each for each in _IDS if values.get(each) is not None]
        self.write(
            line.level,
            line.text,
            {
                key: value.total_seconds() if isinstance(value, timedelta) else value
                for key, value in values.items()
            },
            ids={each: values[each] for each in ids},
            error=error,
        )


def log_run(event: Event) -> None:
    """Write how a run ended, and how late it began."""
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


class GivenBackLately:
    """Recognises repeated give-backs, which the log leaves out for a minute.

    Args:
        clock: Measures the minute.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last: dict[tuple[UUID, str], timedelta] = {}

    def again(self, definition_id: UUID, reason: str) -> bool:
        """Note a give-back; return whether it is a repeated one."""
        now, key = self._clock.elapsed(), (definition_id, reason)
        with self._lock:
            last = self._last.pop(key, None)
            self._last[key] = now
            if len(self._last) > _MOST:
                del self._last[next(iter(self._last))]
        return last is not None and now - last <= _MINUTE
