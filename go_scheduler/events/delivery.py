"""Delivery: hands events to a user's listener, which may raise, block or be slow."""

from __future__ import annotations

import os
import threading
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import DrivingClock
from go_scheduler.events.listening import EventsDropped, ListenerFailed
from go_scheduler.events.log import Log
from go_scheduler.formatting import shown

if TYPE_CHECKING:
    from go_scheduler.clock import Clock
    from go_scheduler.events.event import Event
    from go_scheduler.events.listening import Listener

MOST_WAITING = 10_000
"""The most events that wait for one listener; further ones are dropped."""

_IDLE = timedelta(seconds=1)
_SAY_EVERY = timedelta(minutes=1)


class Delivery:
    """Calls one listener on a thread of its own, and keeps nobody else waiting.

    The thread is a daemon that is started for an event and ends a second after the
    last. On a driving clock, which has no threads, the listener is called in place.

    Args:
        listener: What is called.
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
        with self._condition:
            if len(self._waiting) < MOST_WAITING:
                self._waiting.append(event)
                self._go_on()
                return
            self.dropped += 1
        self._say_dropped()

    def close(self, until: timedelta) -> None:
        """Wait until all events are told and the thread has ended.

        Args:
            until: The elapsed time at which to give up.
        """
        with self._condition:
            thread = self._thread
            if thread is None:
                return
            self._closing = True
            self._condition.notify_all()
            while self._thread is thread and self._clock.elapsed() < until:
                self._clock.wait(self._condition, until)
            has_ended = self._thread is not thread
        if has_ended:
            thread.join()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._condition = threading.Condition()
        self._waiting: deque[Event] = deque()
        self._thread: threading.Thread | None = None
        self._closing = False
        # The threads in which the listener is being called.
        self._callers: set[int] = set()

    def _go_on(self) -> None:
        """Wake the thread, or start one; the lock is held."""
        if self._thread is not None:
            self._condition.notify_all()
            return
        name = f"go_scheduler listener {self._name}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            thread.start()
        # No thread could be started; the next event tries again.
        except RuntimeError:
            return
        self._closing = False
        self._thread = thread

    def _run(self) -> None:
        while events := self._take():
            for event in events:
                self._call(event)

    def _take(self) -> list[Event]:
        """Wait up to a second for events; if there are none, the thread ends."""
        with self._condition:
            until = self._clock.elapsed() + _IDLE
            while not (self._waiting or self._closing):
                if self._clock.elapsed() >= until:
                    break
                self._clock.wait(self._condition, until)
            events = list(self._waiting)
            self._waiting.clear()
            if not events:
                self._thread = None
                self._condition.notify_all()
            return events

    def _call(self, event: Event) -> None:
        # A listener called in place may itself cause events.
        is_outer = not self.is_current
        self._callers.add(threading.get_ident())
        try:
            self._listener(event)
        # Foreign code: not even a SystemExit may affect anybody else.
        except BaseException as error:
            self._say_failed(event, error)
        finally:
            if is_outer:
                self._callers.discard(threading.get_ident())

    def _say_failed(self, event: Event, error: BaseException) -> None:
        elapsed = self._clock.elapsed()
        if self._log_begun is None or elapsed >= self._log_begun + _SAY_EVERY:
            self._log_begun = elapsed
            self._log.begin()
        told = type(event).__name__
        self._log.hear(ListenerFailed(listener=self._name, told=told, exception=error))

    def _say_dropped(self) -> None:
        elapsed = self._clock.elapsed()
        if self._said is None or elapsed >= self._said + _SAY_EVERY:
            self._said = elapsed
            self._log.hear(EventsDropped(listener=self._name, count=self.dropped))
