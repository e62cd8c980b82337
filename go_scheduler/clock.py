"""Time: the only module that reads a clock or waits for one."""

from __future__ import annotations

import threading
import time
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from go_scheduler.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

ZERO = timedelta(0)
CENTURY = timedelta(days=36_525)
_MICROSECOND = timedelta(microseconds=1)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_ELAPSED_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@runtime_checkable
class Clock(Protocol):
    """What tells the time and waits for it."""

    def now(self) -> datetime:
        """The time of day, in UTC."""

    def elapsed(self) -> timedelta:
        """Time since some fixed point; it never runs back."""

    def wait(self, condition: threading.Condition, until: timedelta | None) -> None:
        """Wait on a held condition until it is notified or ``elapsed()`` is ``until``.

        Args:
            condition: Held by the caller; released while waiting.
            until: The value of ``elapsed()`` to return at; None waits for the
                notification alone. May return early, so callers look again.
        """


class Driven(Protocol):
    """What a driving clock calls: a step that is due at a known time."""

    @property
    def due(self) -> timedelta | None:
        """The ``elapsed()`` at which the next step is due; None: not until woken."""

    def step(self) -> None:
        """Do what is due."""


@runtime_checkable
class DrivingClock(Clock, Protocol):
    """A clock that itself calls what is due, so that no threads are needed."""

    @property
    def executor(self) -> Executor:
        """Runs the handlers."""

    def attach(self, driven: Driven) -> None:
        """Call ``driven.step()`` whenever it is due, until it is detached."""

    def detach(self, driven: Driven) -> None:
        """Stop calling it."""


class SystemClock:
    """The machine's clock; elapsed time goes on while the machine is suspended."""

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return datetime.now(UTC)

    def elapsed(self) -> timedelta:
        """Time since the machine started, suspension included where it is known."""
        return _MICROSECOND * (time.clock_gettime_ns(_ELAPSED_CLOCK) // 1000)

    def wait(self, condition: threading.Condition, until: timedelta | None) -> None:
        """Wait on a held condition until notified, or until that elapsed time."""
        if until is None:
            condition.wait()
        elif (left := until - self.elapsed()) > ZERO:
            # A wait beyond TIMEOUT_MAX (292 years, or 49 days on some platforms)
            # raises.
            condition.wait(min(left.total_seconds(), threading.TIMEOUT_MAX))


class _Reading(NamedTuple):
    round_trip: timedelta
    answered: timedelta
    time: datetime

    def at(self, elapsed: timedelta) -> datetime:
        return self.time + (elapsed - self.answered)


class StoreClock:
    """A node's copy of its store's time: it may lag by a round trip, never lead.

    The copy is the store's answer plus the time since that answer arrived. Of the
    answers of the last two minutes the one with the shortest round trip is used, unless
    the newest shows that the store's clock has been set since. At the start the store
    is asked several times, so that the copy does not depend on one slow answer. The
    copy runs back only if the store's clock was set back.

    An answer only proves that the store's time lies between the answer and the answer
    plus the round trip. If the user vouches for the node's own clock, the copy is that
    clock minus its error, kept within these bounds.

    Args:
        clock: Measures elapsed time and waits.
        read: Asks the store for its time.
        error: The most by which the clocks of node and store differ; None: unknown.
        at_start: How often the store is asked at the start, unless an answer is fast.
    """

    _FAST = timedelta(microseconds=100)
    _READ_EVERY = timedelta(seconds=10)
    _KEEP = timedelta(minutes=2)

    def __init__(
        self,
        clock: Clock,
        read: Callable[[], datetime],
        *,
        error: timedelta | None = None,
        at_start: int = 5,
    ) -> None:
        self.base = clock
        # The node's own elapsed time; bound once, for each run asks for it.
        self.elapsed: Callable[[], timedelta] = clock.elapsed
        self._read = read
        self._error = error
        self._at_start = at_start
        self._readings: deque[_Reading] = deque()
        self._best: _Reading | None = None
        self._floor = _LONG_AGO
        # Refreshed by whichever loop comes first; two at once would mix their readings.
        self._lock = threading.Lock()

    def refresh(self, *, waits: bool = False) -> None:
        """Ask the store for its time, if the last answer is older than ten seconds.

        Args:
            waits: Whether to wait while another thread asks. Otherwise the last known
                time is used, however old; that suits callers that ask regularly.
        """
        if self._is_fresh():
            return
        # A loop that has a copy does not wait while another asks for a better one.
        if not self._lock.acquire(blocking=waits or self._best is None):
            return
        try:
            if not self._readings:
                self._begin()
            elif not self._is_fresh():
                self._take(self._ask())
        finally:
            self._lock.release()

    def _is_fresh(self) -> bool:
        if self._best is None:
            return False
        return self.base.elapsed() - self._readings[-1].answered < self._READ_EVERY

    def _begin(self) -> None:
        for _ in range(self._at_start):
            self._take(self._ask())
            if self.round_trip <= self._FAST:
                return

    def _ask(self) -> _Reading:
        sent = self.base.elapsed()
        time = self._read()
        answered = self.base.elapsed()
        return _Reading(answered - sent, answered, time)

    def now(self) -> datetime:
        """The store's time, or a little earlier; never later."""
        return self.at(self.base.elapsed())

    def at(self, elapsed: timedelta) -> datetime:
        """The store's time when the elapsed time is this, or a little earlier."""
        if self._best is None:
            self.refresh()
            assert self._best is not None
        # Read in this order: the floor is written before the best that it belongs to.
        best = self._best
        copy = best.time + (elapsed - best.answered)
        if self._error is not None:
            vouched = self.base.now() - (self.base.elapsed() - elapsed) - self._error
            copy = max(copy, min(vouched, copy + best.round_trip))
        return copy if copy > self._floor else self._floor

    @property
    def round_trip(self) -> timedelta:
        """The most by which the store's time can be later than this copy of it."""
        return ZERO if self._best is None else self._best.round_trip

    def wait(self, condition: threading.Condition, until: timedelta | None) -> None:
        """Wait as the node's own clock does."""
        self.base.wait(condition, until)

    def _take(self, new: _Reading) -> None:
        if self._best is not None:
            # Once the store's clock was set back, going on would lead it.
            was_set = not _agree(self._readings[-1], new)
            self._floor = _LONG_AGO if was_set else self.now()
        kept = (
            old
            for old in self._readings
            if new.answered - old.answered < self._KEEP and _agree(old, new)
        )
        self._readings = deque([*kept, new])
        self._best = min(self._readings)


def _agree(old: _Reading, new: _Reading) -> bool:
    """Whether both readings fit one clock that was not set in between."""
    earliest = old.at(new.answered)
    return (
        earliest <= new.time + new.round_trip + _MICROSECOND
        and new.time <= earliest + old.round_trip + _MICROSECOND
    )


def check_same(clock: Clock, of_the_store: Clock | None) -> None:
    """Refuse two different clocks if one of them is a driving clock."""
    apart = clock is not of_the_store
    if apart and any(isinstance(each, DrivingClock) for each in (clock, of_the_store)):
        raise ConfigurationError(
            "the store must have the same manual clock as the scheduler: pass it to"
            " both"
        )
