"""The event bus: what happens is told to it; it tells the log, and then listeners."""

from __future__ import annotations

import logging
import math
import os
import threading
from contextlib import contextmanager
from copy import copy
from dataclasses import fields
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from go_scheduler.clock import ZERO, Clock, DrivingClock, SystemClock
from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.events import (
    LoopFailed,
    LoopRecovered,
    NodeStarted,
    RunEnded,
    StoreAway,
    StoreBack,
)
from go_scheduler.events.event import Event, Hears, Instrument, Listener, Watched
from go_scheduler.formatting import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from uuid import UUID


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


MOST_WAITING = 10_000
"""The most events that wait for one listener; further ones are dropped."""

_IDLE = timedelta(seconds=1)


class Delivery:
    """Calls one listener on a thread of its own, and keeps nobody else waiting.

    The thread is a daemon that is started for an event and ends a second after the
    last. On a driving clock, which has no threads, the listener is called in place.

    Args:
        listener: What is called; it may raise, block or be slow.
        clock: Measures elapsed time.

    Attributes:
        dropped: How many events were not told, as too many were waiting.
    """

    def __init__(self, listener: Listener, clock: Clock) -> None:
        self._listener = listener
        self._name = str(getattr(listener, "__qualname__", shown(listener)))
        self._clock = clock
        self._in_place = isinstance(clock, DrivingClock)
        self._log = Log("events", bounded=True)
        self._log_begun: timedelta | None = None
        self._said: timedelta | None = None
        self.dropped = 0
        self._begin()

    @property
    def is_current(self) -> bool:
        """Whether this is called by the listener itself."""
        return threading.get_ident() in self._callers

    def put(self, event: Event) -> None:
        """Queue an event for the listener; never raises, never waits."""
        if self._in_place:
            self._call(event)
            return
        if self._process != os.getpid():
            # Forked since: the thread is gone, and the lock may have been held.
            self._begin()
        with self._lock:
            if self._waiting.qsize() < MOST_WAITING:
                self._waiting.put(event)
                self._start()
                return
            self.dropped += 1
        elapsed = self._clock.elapsed()
        if self._said is None or elapsed >= self._said + _MINUTE:
            self._said = elapsed
            self._log.write(
                logging.WARNING,
                "the listener %s is too slow: %d events have been dropped so far",
                self._name,
                self.dropped,
            )

    def close(self, until: timedelta) -> None:
        """Wait until all events are told and the thread has ended.

        Args:
            until: The elapsed time at which to give up.
        """
        with self._lock:
            thread = self._thread
            if thread is None:
                return
            self._closing = True
            # Wakes the thread.
            self._waiting.put(None)
        thread.join(max(until - self._clock.elapsed(), ZERO).total_seconds())

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._waiting: SimpleQueue[Event | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closing = False
        # The threads in which the listener is being called.
        self._callers: set[int] = set()

    def _start(self) -> None:
        """Start the thread, unless it runs; the lock is held."""
        if self._thread is not None:
            return
        name = f"go_scheduler listener {self._name}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._closing = False
        try:
            thread.start()
        # No thread could be started; the next event tries again.
        except RuntimeError:
            return
        self._thread = thread

    def _run(self) -> None:
        while True:
            seconds = 0 if self._closing else _IDLE.total_seconds()
            try:
                event = self._waiting.get(timeout=seconds)
            except Empty:
                event = None
            if event is not None:
                self._call(event)
                continue
            with self._lock:
                # An event may have come since.
                if self._waiting.empty():
                    self._thread = None
                    return

    def _call(self, event: Event) -> None:
        # A listener called in place may itself cause events.
        is_outer = not self.is_current
        self._callers.add(threading.get_ident())
        try:
            self._listener(event)
        # Foreign code: not even a SystemExit may affect anybody else.
        except BaseException as error:
            elapsed = self._clock.elapsed()
            if self._log_begun is None or elapsed >= self._log_begun + _MINUTE:
                self._log_begun = elapsed
                self._log.begin()
            self._log.write(
                logging.ERROR,
                "the listener %s failed when it was told of %s: %r",
                self._name,
                type(event).__name__,
                error,
                error=error,
            )
        finally:
            if is_outer:
                self._callers.discard(threading.get_ident())


class StoreWatch:
    """Tells when the store is away: as soon as a loop fails because of it.

    Args:
        clock: Measures for how long.
        tell: Called with the events.
    """

    HEARD = (LoopFailed, LoopRecovered, NodeStarted)

    def __init__(self, clock: Clock, tell: Callable[[Event], None]) -> None:
        self._clock = clock
        self._tell = tell
        self._failing: set[str] = set()
        self._since: timedelta = ZERO

    def hear(self, event: Event) -> None:
        """Take an event: a loop has failed or goes on, or a node has started."""
        was_away = bool(self._failing)
        if isinstance(event, NodeStarted):
            self._failing.clear()
        elif isinstance(event, LoopFailed) and isinstance(event.exception, StoreError):
            self._failing.add(event.loop)
            if not was_away:
                self._since = self._clock.elapsed()
                self._tell(StoreAway(loop=event.loop, error=event.error))
        else:
            assert isinstance(event, LoopFailed | LoopRecovered)
            self._failing.discard(event.loop)
        if was_away and not self._failing:
            self._tell(StoreBack(away=self._clock.elapsed() - self._since))


class Events:
    """Passes on what is told to the listeners that hear such events.

    Args:
        listeners: Users' listeners; the log hears everything without being among them.
        clock: Measures elapsed time; None: the system's.
        log_runs: Whether the log has a line for each run.

    Attributes:
        instrument: The first listener that is an ``Instrument``, if one is.
        count_fired: Called with firings, to count what they have made.
    """

    def __init__(
        self,
        listeners: Sequence[Hears] = (),
        clock: Clock | None = None,
        *,
        log_runs: bool = False,
    ) -> None:
        self._clock = SystemClock() if clock is None else clock
        self._deliveries = [Delivery(each.listener, self._clock) for each in listeners]
        self._takers: list[tuple[Callable[[Event], None], tuple[type[Event], ...]]] = [
            (delivery.put, each.kinds)
            for delivery, each in zip(self._deliveries, listeners, strict=True)
        ]
        if log_runs:
            self._takers.append((log_run, (RunEnded,)))
        instruments = (each for each in listeners if isinstance(each, Instrument))
        self.instrument = next(instruments, None)
        self.count_fired: Callable[[Sequence[Any]], None] = lambda firings: None
        # The takers of each kind of event, filled when first needed.
        self._lock = threading.Lock()
        self._taking: dict[type[Event], tuple[Callable[[Event], None], ...]] = {}
        if self.wanted(StoreAway) or self.wanted(StoreBack):
            watch = StoreWatch(self._clock, self.pass_on)
            self._takers.append((watch.hear, watch.HEARD))

    @property
    def dropped(self) -> int:
        """How many events were told to no listener that should have heard them."""
        return sum(each.dropped for each in self._deliveries)

    @property
    def is_own_thread(self) -> bool:
        """Whether this is called by a listener."""
        return any(each.is_current for each in self._deliveries)

    def wanted(self, kind: type[Event]) -> bool:
        """Whether a user's listener hears events of this class."""
        return bool(self._takers_of(kind))

    def pass_on(self, event: Event) -> None:
        """Tell the users' listeners."""
        for take in self._takers_of(type(event)):
            take(event)

    @contextmanager
    def told(
        self, take: Callable[[Event], None], *kinds: type[Event]
    ) -> Iterator[None]:
        """Add a listener within this context; it is called in place.

        Args:
            take: Called with each event; must neither wait nor raise.
            kinds: Kinds of events that are told whether or not a listener was there
                from the start.
        """
        taker = take, kinds
        with self._lock:
            self._takers.append(taker)
            self._taking.clear()
        try:
            yield
        finally:
            with self._lock:
                self._takers.remove(taker)
                self._taking.clear()

    def counting(self, count: Callable[[Sequence[Any]], None]) -> Events:
        """A copy, for a node that counts what fires."""
        counting = copy(self)
        counting.count_fired = count
        return counting

    def watch(self, node: Watched) -> None:
        """Have the instrument look at a node from now on, if there is one."""
        if self.instrument is not None:
            self.instrument.watch(node)

    def teller(self, room: str, *, bounded: bool = False) -> Teller:
        """Make a teller, by which a part of a node tells events.

        Args:
            room: Names the logger, behind ``go_scheduler.``.
            bounded: Whether the log writes but a few lines from one ``begin`` of the
                teller to the next.
        """
        return Teller(self, Log(room, bounded=bounded))

    def close(self, until: timedelta) -> None:
        """Wait until the listeners have heard all, and their threads have ended.

        Args:
            until: The elapsed time at which to give up.
        """
        for delivery in self._deliveries:
            delivery.close(until)

    def _takers_of(self, kind: type[Event]) -> tuple[Callable[[Event], None], ...]:
        found = self._taking.get(kind)
        if found is None:
            with self._lock:
                found = tuple(
                    take for take, kinds in self._takers if issubclass(kind, kinds)
                )
                self._taking[kind] = found
        return found


class Teller:
    """Tells the events of one part of a node: to the log first, then to listeners.

    Events that come by the thousand are made only if they are ``wanted``; the log has
    no line for them.

    Args:
        events: The hub.
        log: The part's log.
    """

    def __init__(self, events: Events, log: Log) -> None:
        self._events = events
        self._log = log
        self.wanted = events.wanted
        self.count_fired = events.count_fired

    def begin(self) -> None:
        """Begin a tick: the log may write again."""
        self._log.begin()

    def tell(self, event: Event) -> None:
        """Tell what has happened."""
        self._log.hear(event)
        self._events.pass_on(event)


LOG_ALONE = Events()
"""Events without listeners: they are only logged."""
