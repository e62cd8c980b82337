"""What behaviour tests share: nodes on one store, which fails as a test says, and time.

Everything here goes through what users can name: schedulers, stores, clocks, executors
and listeners. ``World`` has a ``ManualClock``, and no threads but those of handlers
that go on until the test ends them. ``ThreadedWorld`` has the real threads, on a clock
that can leap.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from go_scheduler import (
    ExecuteOnceTrigger,
    IntervalTrigger,
    MemoryStore,
    OnDemandTrigger,
    Run,
    Scheduler,
    State,
    Store,
    StoreError,
    StoreUnavailableError,
    TaskDefinition,
    TaskInstance,
    current_run,
)
from go_scheduler.clock import ZERO, SystemClock
from go_scheduler.events import Event
from go_scheduler.node import Phase
from go_scheduler.stores.filters import Order
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import counts_by_state
from go_scheduler.testing.clock import START
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from uuid import UUID

    from go_scheduler.clock import Clock, Driven
    from go_scheduler.handlers.registry import Handler

P = ParamSpec("P")
T = TypeVar("T")
Kind = TypeVar("Kind", bound=Event)


LEASE = timedelta(seconds=20)
"""The default ``lease``."""

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
MILLISECOND = timedelta(milliseconds=1)
MICROSECOND = timedelta(microseconds=1)


SELDOM: dict[str, Any] = {
    "schedule_window": 10 * MINUTE,
    "runner_window": 10 * MINUTE,
    "cleanup_window": HOUR,
    "lease": HOUR,
}
"""Settings of a node that looks seldom, for tests in which days pass."""


def seconds(count: float) -> timedelta:
    """So many seconds."""
    return timedelta(seconds=count)


def at(count: float) -> datetime:
    """So many seconds after the start of the clock."""
    return START + seconds(count)


def once(after: float = 0, **options: object) -> TaskDefinition:
    """What runs once, so many seconds after the start."""
    return TaskDefinition(trigger=ExecuteOnceTrigger(at(after)), **options)  # type: ignore[arg-type]


def several(count: int, after: float = 0, **options: object) -> list[TaskDefinition]:
    """So many that run once, all at that time."""
    return [once(after, **options) for _ in range(count)]


def every(interval: float, **options: object) -> TaskDefinition:
    """What runs each so many seconds, first at the start."""
    trigger = IntervalTrigger(seconds(interval), anchor=START)
    return TaskDefinition(trigger=trigger, **options)  # type: ignore[arg-type]


def run_now(node: Scheduler, count: int, **options: object) -> list[TaskInstance]:
    """Have a new task run so often."""
    task = TaskDefinition(trigger=OnDemandTrigger(), **options)  # type: ignore[arg-type]
    stored = node.schedule(task)
    return [node.run_now(stored.id) for _ in range(count)]


class FreezingClock(ManualClock):
    """A manual clock that can leave out the loops of one node, as SIGSTOP does."""

    def __init__(self) -> None:
        super().__init__()
        self._nodes: dict[str, list[Driven]] = {}
        self._starting: str | None = None

    @contextmanager
    def node(self, name: str) -> Iterator[None]:
        """What is attached meanwhile belongs to this node."""
        self._starting = name
        yield
        self._starting = None

    def attach(self, driven: Driven) -> None:
        if self._starting is not None:
            self._nodes.setdefault(self._starting, []).append(driven)
        super().attach(driven)

    def freeze(self, name: str) -> None:
        """Let no loop of a node tick any more; for good, as if its process had died."""
        for driven in self._nodes[name]:
            self.detach(driven)

    def thaw(self, name: str) -> None:
        """Let them tick again."""
        for driven in self._nodes[name]:
            super().attach(driven)


class LeapingClock:
    """The system's clock, which a test can let leap: for loops that have threads.

    Args:
        ahead: How far its time of day is ahead of the system's.
    """

    def __init__(self, ahead: timedelta = ZERO) -> None:
        self._system = SystemClock()
        self._ahead = ahead
        self._leapt = ZERO
        self._lock = threading.Lock()
        self._waiting: list[threading.Condition] = []

    def now(self) -> datetime:
        return self._system.now() + self._ahead + self._leapt

    def elapsed(self) -> timedelta:
        return self._system.elapsed() + self._leapt

    def wait(self, condition: threading.Condition, until: timedelta | None) -> None:
        with self._lock:
            self._waiting.append(condition)
        # Whatever leaps from now on notifies, once the condition is let go of.
        try:
            self._system.wait(condition, None if until is None else until - self._leapt)
        finally:
            with self._lock:
                self._waiting.remove(condition)

    def leap(self, by: timedelta) -> None:
        """Let so much time pass at once."""
        with self._lock:
            self._leapt += by
            waiting = [*self._waiting]
        for condition in waiting:
            with condition:
                condition.notify_all()


def take(clock: Clock, duration: timedelta) -> None:
    """Take so long on a clock: in a handler, in a store, or wherever else."""
    condition = threading.Condition()
    with condition:
        clock.wait(condition, clock.elapsed() + duration)


@contextmanager
def meanwhile(*calls: Callable[[], object]) -> Iterator[None]:
    """Make calls, each on a thread of its own; at the end all have returned."""
    threads = [threading.Thread(target=each, daemon=True) for each in calls]
    for each in threads:
        each.start()
    yield
    for each in threads:
        each.join(FAILED_AFTER)
        assert not each.is_alive()


def wait_until(condition: Callable[[], object]) -> None:
    """Wait for what is known only by looking."""
    for _ in range(int(FAILED_AFTER * 1000)):
        if condition():
            return
        threading.Event().wait(0.001)
    raise AssertionError("it never holds")


def wait_until_draining(scheduler: Scheduler) -> None:
    """Wait until a stop has been asked for, and nothing more begins.

    Its health tells it too, but is bad as well while a loop is late.
    """

    def drains() -> bool:
        node = scheduler._node
        return node is None or node._phase in (Phase.DRAINING, Phase.STOPPED)

    wait_until(drains)


@dataclass(eq=False)
class Called:
    """One call of a handler.

    Attributes:
        instance: What it was called with.
        at: When, by the clock.
        run: Its ``current_run()``.
    """

    instance: TaskInstance
    at: datetime
    run: Run
    _goes: threading.Event = field(default_factory=threading.Event)
    _done: threading.Event = field(default_factory=threading.Event)
    _result: object = None
    _error: BaseException | None = None

    def end(self, result: object = None, *, error: BaseException | None = None) -> None:
        """Let the handler return or raise, and wait until its scheduler knows."""
        self._result, self._error = result, error
        self._goes.set()
        assert self._done.wait(FAILED_AFTER)

    def work(self) -> object:
        """Go on until the test says otherwise."""
        assert self._goes.wait(10 * FAILED_AFTER)
        if self._error is not None:
            raise self._error
        return self._result


class Bench(Executor):
    """Calls handlers on threads; each call of ``handler`` goes on until it is ended.

    ``submit`` returns when the handler has been entered, so that nothing depends on how
    fast threads are.

    Attributes:
        calls: Of ``handler``, in their order.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._local = threading.local()
        self.calls: list[Called] = []

    def submit(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        future: Future[T] = Future()
        entered, done = threading.Event(), threading.Event()

        def work() -> None:
            self._local.entered, self._local.done = entered, done
            try:
                future.set_result(fn(*args, **kwargs))
            finally:
                done.set()
                entered.set()

        threading.Thread(target=work, daemon=True).start()
        assert entered.wait(FAILED_AFTER)
        return future

    def handler(self, instance: TaskInstance) -> object:
        called = Called(instance, self._clock.now(), current_run())
        called._done = self._local.done
        self.calls.append(called)
        self._local.entered.set()
        return called.work()

    @property
    def running(self) -> list[Called]:
        """Those that have not been ended."""
        return [each for each in self.calls if not each._done.is_set()]

    def end_all(self) -> None:
        """End whatever goes on."""
        for each in self.running:
            each.end()


class Later(Executor):
    """Keeps what is submitted until the test runs it, or forgets it.

    The handler is called by the test itself, and may move the clock meanwhile.
    """

    def __init__(self) -> None:
        self.waiting: deque[tuple[Future[Any], Callable[[], object]]] = deque()

    def submit(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        future: Future[T] = Future()
        self.waiting.append((future, lambda: fn(*args, **kwargs)))
        return future

    def run(self) -> None:
        """Call the first that waits, to its end."""
        future, call = self.waiting.popleft()
        future.set_result(call())


class Faults:
    """What goes wrong with a store, as the test says.

    Args:
        store: Its methods are wrapped.
        clock: Measures how slow it is.

    Attributes:
        away: Whether it cannot be reached; it can still be looked at.
        failing: What the methods of these names raise; they do nothing.
        losing: The names of the methods that do what they are asked, and whose answers
            are lost.
        bad: The ids of what cannot be written.
        locked: The ids of what another transaction has locked.
        where: The names of the methods for which the two hold.
        slow: How long each method takes.
        before: By the name of a method what happens once before it does anything.
        meanwhile: The same, between what it does and its answer.
        asked: The names of the methods that were called; those that were to start what
            they make end in ``and start``. By these names it is said what goes wrong.
        twice: Those of them that were to write one row twice, which no statement can.
    """

    _LOOKS = ("get_instance", "get_definition", "select_definitions")
    _UNTOUCHED = ("initialize", "close", "connect", "hints", "examine", "count")

    def __init__(self, store: Store, clock: Clock) -> None:
        self._clock = clock
        self.away = False
        self.failing: dict[str, BaseException] = {}
        self.losing: set[str] = set()
        self.bad: set[UUID] = set()
        self.locked: set[UUID] = set()
        self.where: set[str] = {*_BATCHES}
        self.slow: dict[str, timedelta] = {}
        self.before: dict[str, Callable[[], object]] = {}
        self.meanwhile: dict[str, Callable[[], object]] = {}
        self.asked: list[str] = []
        self.twice: set[str] = set()
        for name in dir(Store):
            call = getattr(store, name)
            is_method = callable(call) and not name.startswith("_")
            if is_method and name not in (*self._LOOKS, *self._UNTOUCHED):
                setattr(store, name, self._wrapped(name, call))

    def _wrapped(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def wrapped(*args: Any, **options: Any) -> Any:
            if name == "select" and options.get("order") is not Order.ID:
                # A test looks: remote runs are read in the order of ids.
                return call(*args, **options)
            starts = options.get("claimant") is not None
            asked = f"{name} and start" if starts else name
            self.asked.append(asked)
            self.before.pop(asked, lambda: None)()
            if self.away:
                raise StoreUnavailableError("away")
            if asked in self.failing:
                raise self.failing[asked]
            rows = _rows_of(name, args)
            if len({*map(_id_of, rows)}) < len(rows):
                self.twice.add(name)
            rows = rows if name in self.where else ()
            if self.bad.intersection(map(_id_of, rows)):
                raise StoreError("a bad row")
            busy = self.locked.intersection(map(_id_of, rows))
            answer = call(*_without(args, rows, busy), **options)
            if busy:
                answer = replace(answer, busy={*answer.busy, *busy})
            if asked in self.slow:
                take(self._clock, self.slow[asked])
            self.meanwhile.pop(asked, lambda: None)()
            if asked in self.losing:
                raise StoreUnavailableError("the answer is lost")
            return answer

        return wrapped


_BATCHES = {
    "start_instances": 1,
    "renew_claims": 0,
    "finish_instances": 0,
    "release_instances": 0,
    "fire_definitions": 0,
}
"""The methods that write batches, and which argument that is."""


def _rows_of(name: str, args: tuple[Any, ...]) -> Sequence[Any]:
    rows: Sequence[Any] = args[_BATCHES[name]] if name in _BATCHES else ()
    return rows


def _without(
    args: tuple[Any, ...], rows: Sequence[Any], busy: set[UUID]
) -> tuple[Any, ...]:
    left = [each for each in rows if _id_of(each) not in busy]
    return tuple(left if busy and each is rows else each for each in args)


def _id_of(row: Any) -> UUID:
    found: UUID
    if hasattr(row, "definition"):
        found = row.definition.id
    else:
        found = getattr(row, "claim", row).instance_id
    return found


class Heard:
    """A listener that keeps what it is told, and lets a test wait for it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._condition = threading.Condition()

    def __call__(self, event: Event) -> None:
        with self._condition:
            self.events.append(event)
            self._condition.notify_all()

    def of(self, *kinds: type[Kind]) -> list[Kind]:
        """Those of some kinds, in their order."""
        return [each for each in [*self.events] if isinstance(each, kinds)]

    def wait(self, kind: type[Kind], count: int = 1) -> list[Kind]:
        """Wait until there are so many of a kind."""
        assert self.hears(kind, count, FAILED_AFTER), f"heard {self.of(kind)}"
        return self.of(kind)

    def hears(self, kind: type[Kind], count: int, within: float) -> bool:
        """Whether there are so many of a kind within so many seconds."""
        with self._condition:
            return self._condition.wait_for(lambda: len(self.of(kind)) >= count, within)


class World:
    """Nodes on one store, and a clock that the test moves.

    Args:
        store: Makes the store; None: in memory.

    Attributes:
        called: What ``note`` was called with, a handler that returns at once.
    """

    def __init__(self, store: Callable[[Clock], Store] | None = None) -> None:
        self.clock = FreezingClock()
        self.store = MemoryStore(self.clock) if store is None else store(self.clock)
        self.faults = Faults(self.store, self.clock)
        self.bench = Bench(self.clock)
        self.heard = Heard()
        self.called: list[Called] = []

    def note(self, instance: TaskInstance) -> None:
        """A handler that returns at once."""
        self.called.append(Called(instance, self.clock.now(), current_run()))

    @property
    def times(self) -> list[float]:
        """When ``note`` was called, in seconds after the start."""
        return [(each.at - START).total_seconds() for each in self.called]

    def scheduler(self, handler: Handler | None, **settings: Any) -> Scheduler:
        """One that has not been started."""
        if handler == self.bench.handler:
            settings.setdefault("executor", self.bench)
        settings.setdefault("listeners", [self.heard])
        return Scheduler(handler, self.store, clock=self.clock, **settings)

    def node(
        self, handler: Handler | None, name: str = "node", /, **settings: Any
    ) -> Scheduler:
        """One that has been started; by its name its loops can be frozen."""
        scheduler = self.scheduler(handler, **settings)
        with self.clock.node(name):
            scheduler.start()
        return scheduler

    def begin(
        self, *definitions: TaskDefinition, name: str = "node", **settings: Any
    ) -> Scheduler:
        """A node that has begun these a second later; their runs go on."""
        node = self.node(self.bench.handler, name, **settings)
        node.schedule_all(definitions)
        self.advance(1)
        return node

    def advance(self, count: float) -> None:
        """Let so many seconds pass."""
        self.clock.advance(seconds(count))

    def until(self, condition: Callable[[], object], step: float = 0.05) -> None:
        """Let time pass, a little at a time, until this holds."""
        for _ in range(10_000):
            if condition():
                return
            self.advance(step)
        raise AssertionError(f"after {self.clock.elapsed()} it does not hold")

    def only(self) -> TaskInstance:
        """The one instance that there is."""
        [instance] = self.store.select()
        return instance

    def states(self) -> dict[State, int]:
        """How many instances are in each state in which there are any."""
        return {state: n for state, n in counts_by_state(self.store).items() if n}

    def close(self) -> None:
        """End the handlers that go on."""
        self.faults.away = False
        self.bench.end_all()
        assert self.faults.twice == set()


class ThreadedWorld:
    """The same with real threads, on a clock that can leap.

    Attributes:
        gate: What handlers wait for by ``hang``; set in the end.
    """

    def __init__(self) -> None:
        self.clock = LeapingClock()
        self.store = MemoryStore(self.clock)
        self.faults = Faults(self.store, self.clock)
        self.heard = Heard()
        self.gate = threading.Event()
        self._others = {*threading.enumerate()}
        self._began = threading.Semaphore(0)
        self._schedulers: list[Scheduler] = []

    def scheduler(self, handler: Handler | None, **settings: Any) -> Scheduler:
        """One that is stopped when the test is over."""
        settings.setdefault("listeners", [self.heard])
        scheduler = Scheduler(handler, self.store, clock=self.clock, **settings)
        self._schedulers.append(scheduler)
        return scheduler

    def node(self, handler: Handler | None, **settings: Any) -> Scheduler:
        """The same, started."""
        scheduler = self.scheduler(handler, **settings)
        scheduler.start()
        return scheduler

    def now(self, **options: object) -> TaskDefinition:
        """What is to run at once, and once."""
        trigger = ExecuteOnceTrigger(self.clock.now())
        return TaskDefinition(trigger=trigger, **options)  # type: ignore[arg-type]

    def leap(
        self,
        by: timedelta,
        kind: type[Kind],
        count: int = 1,
        *,
        again: timedelta | None = None,
    ) -> list[Kind]:
        """Let so much time pass until so many of a kind are heard.

        Args:
            by: How much.
            kind: Of which events.
            count: How many.
            again: How much more each time that they are not heard soon; None: a tenth.
        """
        again = by / 10 if again is None else again
        self.clock.leap(by)
        for _ in range(int(10 * FAILED_AFTER)):
            # What was about to wait when the clock leapt waits as long all the same.
            if self.heard.hears(kind, count, 0.1):
                return self.heard.of(kind)
            self.clock.leap(again)
        return self.heard.wait(kind, count)

    def hang(self) -> None:
        """What a handler does that hangs until the gate is opened."""
        self._began.release()
        assert self.gate.wait(10 * FAILED_AFTER)

    def wait_for_hanging(self, count: int = 1) -> None:
        """Wait until so many handlers more hang."""
        for _ in range(count):
            assert self._began.acquire(timeout=FAILED_AFTER)

    def close(self) -> None:
        """End all there is: no thread outlives it."""
        self.gate.set()
        for each in self._schedulers:
            each.stop(timedelta(seconds=FAILED_AFTER))
        for thread in {*threading.enumerate()} - self._others:
            if thread.name.startswith("go_scheduler "):
                wait_until(partial(_has_joined, thread))
                assert not thread.is_alive(), thread.name


def _has_joined(thread: threading.Thread) -> bool:
    """Wait for its end; false: it is only about to begin."""
    try:
        thread.join(FAILED_AFTER)
    except RuntimeError:
        return False
    return True
