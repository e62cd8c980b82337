"""The ticker: calls a loop's tick on a thread, again and again, whatever it raises."""

from __future__ import annotations

import random
import threading
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO, Clock, DrivingClock
from go_scheduler.events import LoopFailed, LoopRecovered
from go_scheduler.events.event_bus import LOG_ALONE, Events
from go_scheduler.formatting import shown

if TYPE_CHECKING:
    from collections.abc import Callable


_SAMPLES = 100
_SHORTEST_LEAD = timedelta(milliseconds=20)
_PER_INSTANCE = timedelta(microseconds=30)
_MOST_GROWTH = timedelta(seconds=10)
# Two for the turn of the loop before, one for its own, and two for the lead.
_ANSWERS_AHEAD = 5
# What one of several looks has to wait is forgotten by and by: they seldom all come.
_LESS = 0.9


class Pace:
    """A loop's window, which grows by itself while the store is slow.

    Nine in ten of the recent answers are as fast as is reckoned with. A loop that looks
    for several, one after the other, adds how long all of them take. No more than ten
    seconds are added.

    Args:
        window: How far ahead the loop looks when the store answers at once.
    """

    def __init__(self, window: timedelta) -> None:
        self.window = window
        # Several threads take note of what they have waited for.
        self._lock = threading.Lock()
        self._samples: deque[timedelta] = deque(maxlen=_SAMPLES)
        self._slow = ZERO
        self._slowest = ZERO
        self._waited = ZERO

    def took(self, duration: timedelta) -> None:
        """Take note of how long an answer took."""
        with self._lock:
            self._samples.append(duration)
            ordered = sorted(self._samples)
            self._slow = ordered[(len(ordered) - 1) * 9 // 10]
            self._slowest = ordered[len(ordered) * 99 // 100]

    def waited(self, duration: timedelta) -> None:
        """Take note of how long one look had to wait until all others were taken."""
        self._waited = max(duration, self._waited * _LESS)

    @property
    def ahead(self) -> timedelta:
        """How far ahead to look now."""
        growth = _ANSWERS_AHEAD * self._slow + self._waited
        return self.window + min(growth, _MOST_GROWTH)

    def lead(self, unstarted: int) -> timedelta:
        """How long before an instance is due its start is to be recorded.

        Twice the recent 99th percentile of the answers, and more for every instance
        that is held, so that a crowd due at one instant is started in time as well; at
        most half of what it looks ahead.

        Args:
            unstarted: How many are held and not started.
        """
        lead = max(_SHORTEST_LEAD, 2 * self._slowest) + unstarted * _PER_INSTANCE
        return min(lead, self.ahead / 2)


_AFTER = tuple(timedelta(milliseconds=each) for each in (20, 50, 100, 200))


class Repeats:
    """When a look that was asked for is to be repeated; never, if nothing settles.

    Args:
        clock: Measures elapsed time.
        settling: How long the store's scans may leave out what has been committed.
    """

    def __init__(self, clock: Clock, *, settling: timedelta) -> None:
        self._clock = clock
        self._after = _AFTER if settling > ZERO else ()
        self._due: deque[timedelta] = deque()

    def begin(self) -> None:
        """Repeat the look that is taken now, and none before it."""
        elapsed = self._clock.elapsed()
        self._due = deque(elapsed + each for each in self._after)

    def take(self) -> bool:
        """Whether a repeat is due, which is then taken."""
        elapsed = self._clock.elapsed()
        due = False
        while self._due and self._due[0] <= elapsed:
            self._due.popleft()
            due = True
        return due

    @property
    def wait(self) -> timedelta | None:
        """How long until the next one; None: there is none."""
        return max(ZERO, self._due[0] - self._clock.elapsed()) if self._due else None


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
