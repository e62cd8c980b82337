"""The clock that a test moves, handlers without threads, and waiting for a store."""

from __future__ import annotations

import threading
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import singledispatch
from operator import itemgetter
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from go_scheduler.clock import ZERO, Driven
from go_scheduler.errors import ConfigurationError, SchedulerStateError
from go_scheduler.formatting import shown
from go_scheduler.triggers.base import utc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from go_scheduler.stores.base import Store


START = datetime(2030, 1, 1, tzinfo=UTC)
"""Where a ``ManualClock`` starts when it is not told."""

_END = datetime.max.replace(tzinfo=UTC)
_MOST_STEPS = 100_000


class ManualClock:
    """A clock that moves only when it is told, and runs what falls due on the way.

    ```python
    clock = ManualClock()
    clock.advance(timedelta(minutes=5))
    ```

    One thread drives it, by ``advance`` or ``wait``, and all that is due runs in that
    thread. Other threads may read the time, attach and detach.

    Args:
        start: The time of day to start at; ``elapsed()`` starts at zero.

    Raises:
        ConfigurationError: ``start`` is not an aware datetime.
    """

    def __init__(self, start: datetime = START) -> None:
        self._start = utc(start, name="start")
        self._elapsed = ZERO
        self._executor = InlineExecutor()
        self._lock = threading.Lock()
        # Replaced, never changed, so that the driving thread reads it without the lock.
        self._attached: tuple[Driven, ...] = ()
        self._driver: int | None = None

    @property
    def executor(self) -> Executor:
        """Runs handlers in the thread that drives the clock."""
        return self._executor

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return self._start + self._elapsed

    def elapsed(self) -> timedelta:
        """The time this clock has been moved by so far."""
        return self._elapsed

    def attach(self, driven: Driven) -> None:
        """Call ``driven.step()`` whenever it is due, until it is detached.

        What is due at the same instant is called in the order of attachment. Attaching
        what is attached changes nothing.
        """
        with self._lock:
            if not any(each is driven for each in self._attached):
                self._attached = (*self._attached, driven)

    def detach(self, driven: Driven) -> None:
        """Call it no more; harmless if it is not attached."""
        with self._lock:
            kept = (each for each in self._attached if each is not driven)
            self._attached = tuple(kept)

    def advance(self, delta: timedelta) -> None:
        """Move the time on, and run all that falls due meanwhile, in time order.

        Each step runs with the clock at the instant it is due, and may attach, detach
        or wake others. What was due before runs first, at the present time. An error
        that a step raises leaves the clock where it was raised.

        A handler that is to take time waits on the clock, it does not advance it; if it
        waits beyond the end, the clock ends where that wait did.

        Args:
            delta: How far; zero runs what is due now.

        Raises:
            ConfigurationError: ``delta`` is negative or leads past the year 9999.
            SchedulerStateError: It was called from a step or while another thread
                drives the clock, or steps went on without end at one instant.
        """
        if not isinstance(delta, timedelta) or delta < ZERO:
            raise ConfigurationError(
                f"delta must be a timedelta of zero or more: {shown(delta)}"
            )
        with self._driving():
            self._refuse_past_the_end(delta)
            self._run_until(self._elapsed + delta)

    def wait(self, condition: threading.Condition, until: timedelta | None) -> None:
        """Run what falls due next instead of waiting for it.

        The condition is released meanwhile. It goes up to the next instant at which
        anything is due, but not past ``until``, runs all that is due then, and returns,
        as nothing tells whether the condition was notified: callers look again. If
        ``until`` has been reached already, nothing runs.

        Called from a step, a handler say, it runs nothing, since one step never
        interrupts another: it moves the time to ``until``, and what falls due meanwhile
        runs late, after the step.

        Args:
            condition: Held by the caller.
            until: The value of ``elapsed()`` to return at; None: no bound.

        Raises:
            ConfigurationError: ``until`` is past the year 9999.
            SchedulerStateError: ``until`` is None and nothing is due, or this is called
                from a step: it would hang for ever. Or another thread drives the clock.
        """
        if until is not None and until <= self._elapsed:
            return
        if self._driver == threading.get_ident():
            bound = _reachable(until, "a step of this clock waits without a bound")
            self._refuse_past_the_end(bound - self._elapsed)
            self._elapsed = bound
            return
        condition.release()
        try:
            with self._driving():
                dues = [each.due for each in self._attached]
                bounds = [each for each in (*dues, until) if each is not None]
                first = min(bounds, default=None)
                bound = _reachable(first, "nothing attached is due")
                self._refuse_past_the_end(bound - self._elapsed)
                self._run_until(bound)
        finally:
            condition.acquire()

    @contextmanager
    def _driving(self) -> Iterator[None]:
        with self._lock:
            if self._driver is not None:
                mine = self._driver == threading.get_ident()
                raise SchedulerStateError(
                    f"{'a step of this clock' if mine else 'another thread'} cannot"
                    " drive it while it is being driven: what is to take time, such"
                    " as a handler, waits on the clock instead"
                )
            self._driver = threading.get_ident()
        try:
            yield
        finally:
            self._driver = None

    def _run_until(self, target: timedelta) -> None:
        at, steps = self._elapsed, 0
        # A step that waits may end past the target; what is due by then runs as well.
        while (found := self._next(max(target, self._elapsed))) is not None:
            due, driven = found
            self._elapsed = max(self._elapsed, due)
            at, steps = self._elapsed, steps + 1 if self._elapsed == at else 1
            if steps > _MOST_STEPS:
                raise SchedulerStateError(
                    f"{_MOST_STEPS:,} steps ran at {self.now()} and the time does not"
                    f" go on: {shown(driven)} is due again and again"
                )
            driven.step()
        self._elapsed = max(self._elapsed, target)

    def _next(self, target: timedelta) -> tuple[timedelta, Driven] | None:
        """The driven that is due first; among equals, the one attached first."""
        dues = ((each.due, each) for each in self._attached)
        due = [(at, each) for at, each in dues if at is not None and at <= target]
        return min(due, key=itemgetter(0), default=None)

    def _refuse_past_the_end(self, delta: timedelta) -> None:
        if delta > _END - self.now():
            raise ConfigurationError(
                f"{delta} after {self.now()} is past the year 9999"
            )


def _reachable(until: timedelta | None, reason: str) -> timedelta:
    if until is None:
        raise SchedulerStateError(
            f"this wait would never end: {reason}, and no other thread moves the time"
        )
    return until


@singledispatch
def settle(store: Store) -> None:
    """Wait until the scans of a store see everything that was committed.

    ``StoreSuite`` and ``StoreMachine`` call this before each scan. It waits for as long
    as ``store.settling`` says, in real time. If your store can tell sooner that it has
    settled, register a function that waits for that:

    ```python
    @settle.register
    def settle_mine(store: MyStore) -> None:
        store.read_everything()
    ```

    Args:
        store: The store that is scanned next.
    """
    if store.settling:
        threading.Event().wait(store.settling.total_seconds())


_P = ParamSpec("_P")
_T = TypeVar("_T")


class InlineExecutor(Executor):
    """Runs what is submitted at once, in the caller's thread.

    It holds nothing, so that ``shutdown()`` has nothing to end and it can be used
    again.
    """

    def submit(
        self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[_T]:
        """Call a function and return its finished future.

        Args:
            fn: The function.
            *args: Its positional arguments.
            **kwargs: Its keyword arguments.

        Returns:
            A future that holds what the function returned, or whatever it raised:
            ``KeyboardInterrupt`` and ``SystemExit`` too, as they would be in a worker.
        """
        future: Future[_T] = Future()
        future.set_running_or_notify_cancel()
        try:
            result = fn(*args, **kwargs)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)
        return future
