"""The ticker: calls a loop's tick on a thread, again and again, whatever it raises."""

from __future__ import annotations

import random
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO, DrivingClock
from go_scheduler.events.hub import LOG_ALONE, Events
from go_scheduler.events.node_events import LoopFailed, LoopRecovered
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.clock import Clock

_JITTER = 0.2
_FIRST_BACKOFF = timedelta(milliseconds=100)


class Ticker:
    """Calls ``tick`` at once and then at an interval, or when it asks, until stopped.

    The thread is a daemon and survives every exception: it backs off and goes on. On a
    driving clock there is no thread; the clock calls the ticks.

    Args:
        name: For the thread and whoever is told of it.
        tick: Does what is due; answers how soon to be called again, None for the
            interval.
        interval: The longest time between two ticks, shortened at random by up to a
            fifth so that nodes do not tick in step; None: only when woken or asked for.
        clock: Measures the time between ticks.
        longest_backoff: The longest time between two ticks that fail.
        events: Told of ticks that fail.
    """

    def __init__(
        self,
        name: str,
        tick: Callable[[], timedelta | None],
        *,
        interval: timedelta | None,
        clock: Clock,
        longest_backoff: timedelta = timedelta(seconds=5),
        events: Events = LOG_ALONE,
    ) -> None:
        self._events = events.teller("ticking")
        self._longest_backoff = longest_backoff
        self.name = name
        self.last_good: timedelta | None = None
        self.error: BaseException | None = None
        self._tick = tick
        self._interval = interval
        self._clock = clock
        self._is_driven = isinstance(clock, DrivingClock)
        self._condition = threading.Condition()
        self._due: timedelta | None = None
        self._failures = 0
        self._stopping = False
        self._has_begun = False
        self._ticking: timedelta | None = None
        self._thread: threading.Thread | None = None

    @property
    def due(self) -> timedelta | None:
        """When the next tick is due, as the clock's elapsed time."""
        return self._due

    @property
    def late(self) -> timedelta:
        """How long a tick has been due, or under way; zero if it is neither."""
        ticking = self._ticking
        since = self._due if ticking is None else ticking
        return ZERO if since is None else max(ZERO, self._clock.elapsed() - since)

    @property
    def ended(self) -> bool:
        """Whether no further tick will begin, and none is under way."""
        if self._thread is not None:
            # One that is being started is not alive yet.
            has_begun = self._has_begun or self._stopping
            return has_begun and not self._thread.is_alive()
        return self._stopping and self._ticking is None

    @property
    def is_current(self) -> bool:
        """Whether this is called from one of its own ticks' thread."""
        return self._thread is threading.current_thread()

    def start(self) -> None:
        """Begin to tick; call it once."""
        self._due = self._clock.elapsed()
        if isinstance(self._clock, DrivingClock):
            self._clock.attach(self)
            return
        self._thread = threading.Thread(
            target=self._run, name=f"go_scheduler {self.name}", daemon=True
        )
        self._thread.start()

    def wake(self) -> None:
        """Tick as soon as possible, unless it is backing off."""
        with self._condition:
            # During a tick that may end a backing off, this may be too late for it.
            backing_off = self._failures and self._ticking is None
            if not backing_off and not self._stopping:
                self._due = self._clock.elapsed()
                self._condition.notify()

    def stop(self) -> None:
        """Let no further tick begin; returns at once."""
        with self._condition:
            self._stopping = True
            self._due = None
            self._condition.notify()
        if isinstance(self._clock, DrivingClock):
            self._clock.detach(self)

    def step(self) -> None:
        """Call the tick once and set when the next one is due."""
        with self._condition:
            self._due = None
            self._ticking = self._clock.elapsed()
        delay = self._call()
        with self._condition:
            self._ticking = None
            # A wake during the tick may have come too late for it: it calls for
            # another.
            if self._stopping or (self._due is not None and not self._failures):
                return
            self._due = None if delay is None else self._clock.elapsed() + delay

    def _run(self) -> None:
        self._has_begun = True
        while True:
            with self._condition:
                while not self._stopping and not self._is_due():
                    self._clock.wait(self._condition, self._due)
                if self._stopping:
                    return
            self.step()

    def _is_due(self) -> bool:
        return self._due is not None and self._due <= self._clock.elapsed()

    def _call(self) -> timedelta | None:
        try:
            asked = self._tick()
        # A thread that ends on SystemExit ends without a word.
        except BaseException as error:
            return self._back_off(error)
        if self._failures:
            event = LoopRecovered(loop=self.name, failures=self._failures)
            self._events.tell(event)
        self._failures = 0
        self.error = None
        self.last_good = self._clock.elapsed()
        return self._next(asked)

    def _next(self, asked: timedelta | None) -> timedelta | None:
        if self._interval is None:
            return asked
        interval = self._interval
        if not self._is_driven:
            interval *= 1 - _JITTER * random.random()
        return interval if asked is None else min(asked, interval)

    def _back_off(self, error: BaseException) -> timedelta:
        self._failures += 1
        self.error = error
        delay = min(
            self._longest_backoff, _FIRST_BACKOFF * 2 ** min(self._failures, 10)
        )
        self._events.tell(
            LoopFailed(
                loop=self.name,
                failures=self._failures,
                error=shown(error),
                exception=error,
            )
        )
        return timedelta(seconds=delay.total_seconds() * random.uniform(0.5, 1))
