"""Whole nodes on simulated time, with faults between each of them and one store.

Each node has a clock of its own. The time of the simulation is the store's.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from random import Random
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from go_scheduler.clock import ZERO, Driven
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.events import Event, InstanceEvent
from go_scheduler.models import TaskDefinition, TaskInstance
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.base import Store
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.memory.tables import Tables
from go_scheduler.triggers.times import MICROSECOND

_P = ParamSpec("_P")
_T = TypeVar("_T")
_MILLION = 1_000_000


class FaultKind(StrEnum):
    """What may go wrong."""

    REFUSED = "refused"
    LOST = "lost"
    LATE = "late"
    DELAYED = "delayed"
    SLOW = "slow"
    REPEATED = "repeated"
    OUTAGE = "outage"
    FROZEN = "frozen"
    KILLED = "killed"
    CLOCK = "clock"


_TEXTS = {
    FaultKind.REFUSED: "{call} is refused",
    FaultKind.LOST: "the answer to {call} is lost",
    FaultKind.LATE: "{call} is refused, and carried out {length} later all the same",
    FaultKind.DELAYED: "{call} is carried out {length} late",
    FaultKind.SLOW: "the answer to {call} is {length} late",
    FaultKind.REPEATED: "{call} is carried out again {length} later",
    FaultKind.OUTAGE: "the store does not answer for {length}",
    FaultKind.FROZEN: "frozen for {length}{after}",
    FaultKind.KILLED: "killed{after}, and started again {length} later",
    FaultKind.CLOCK: "its clock is off by {length} and by {rate:+d} ppm",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        at: When, since the start.
        kind: What it is.
        node: The number of the node, from 1 on; 0: all of them.
        call: Which method of the store: the first call of it from then on. None: the
            fault begins at its time, whatever is called.
        length: For how long, or how much later.
        rate: By how many millionths its clock is fast.
    """

    at: timedelta
    kind: FaultKind
    node: int = 0
    call: str | None = None
    length: timedelta = ZERO
    rate: int = 0

    def __str__(self) -> str:
        where = f"node {self.node}: " if self.node else ""
        return f"{self.at} {where}{self.what}"

    @property
    def what(self) -> str:
        """What happens, in words."""
        after = f" after {self.call}" if self.call else ""
        sign = "-" if self.length < ZERO else ""
        length = f"{sign}{abs(self.length)}"
        return _TEXTS[self.kind].format(
            call=self.call, length=length, after=after, rate=self.rate
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is simulated.

    Attributes:
        definitions: What is scheduled at the start.
        seed: Decides which handlers fail, how long they take, and all else by chance.
        nodes: How many nodes there are.
        start: The store's time at the start.
        span: The fire times of this time are judged.
        lease: How long claims hold.
        durations: How long runs last on average, by the ids of definitions.
        failures: The share of runs that fail.
    """

    definitions: Sequence[TaskDefinition]
    seed: int
    nodes: int
    start: datetime
    span: timedelta
    lease: timedelta
    durations: Mapping[UUID, timedelta]
    failures: float

    def work(self, instance: TaskInstance) -> tuple[timedelta, bool]:
        """How long the run that begins takes, and whether it fails."""
        when = instance.fire_time or instance.execute_at
        run = f"{self.seed} {instance.definition.id} {when} {instance.runs}"
        chance = Random(run)
        length = self.durations.get(instance.definition.id, ZERO)
        length *= chance.uniform(0.5, 1.5)
        return length, chance.random() < self.failures


_BEFORE = (FaultKind.REFUSED, FaultKind.LATE, FaultKind.DELAYED)
# Their answers are empty most of the time.
_READS = ("claim_instances", "due_definitions", "list_claimed")


class _Killed(BaseException):
    """The node in which this is raised is dead."""


class HandlerFailed(Exception):
    """What a simulated handler raises."""


@dataclass(slots=True, eq=False)
class Call:
    """One call of a handler.

    Attributes:
        node: Where.
        instance: What was called.
        at: When, since the start.
        ended_at: When it came back; None: never, as its node died.
        fails: Whether it raises.
    """

    node: Node
    instance: TaskInstance
    at: timedelta
    fails: bool
    length: timedelta
    ended_at: timedelta | None = None


@dataclass(slots=True, order=True)
class _Appointment:
    """What happens at a time: an act, or a thread goes on that has waited."""

    at: timedelta
    number: int
    node: Node | None = field(compare=False)
    act: Callable[[], object] | None = field(compare=False, default=None)
    turn: threading.Lock | None = field(compare=False, default=None)


class World:
    """The time, the store, the nodes and the faults of one simulation.

    One thread runs at any time, and goes on in the order of simulated time. What waits
    within a call keeps its thread, and another one goes on meanwhile.

    Args:
        setting: What is simulated.
        faults: What goes wrong.

    Attributes:
        elapsed: The time since the start.
        store: The store.
        calls: The calls of handlers so far.
        log: The lines so far.
        met: The faults that have happened so far, and when.
        moved_back: What has been moved to an earlier fire time by firing it.
        outages: When the store answered nobody.
    """

    def __init__(self, setting: Setting, faults: Sequence[Fault]) -> None:
        self.setting = setting
        self.elapsed = ZERO
        chance = Random(f"ids {setting.seed}")
        self.store = _SeededStore(self, lambda: UUID(int=chance.getrandbits(128)))
        self.calls: list[Call] = []
        self.log: list[str] = []
        self.met: list[tuple[timedelta, Fault]] = []
        self.moved_back: list[str] = []
        self.outages: list[tuple[timedelta, timedelta]] = []
        self.nodes: dict[int, Node] = {}
        self._lives: Counter[int] = Counter()
        self._clocks: dict[int, tuple[timedelta, int]] = {}
        self._pending: dict[tuple[int, str], deque[Fault]] = defaultdict(deque)
        self._instances: dict[UUID, str] = {}
        self._heap: list[_Appointment] = []
        self._numbers = count()
        self._idle: list[threading.Lock] = []
        self._threads: list[threading.Thread] = []
        self._over = False
        self._finished = threading.Semaphore(0)
        self._error: BaseException | None = None
        for fault in sorted(faults, key=lambda each: each.at):
            if fault.call is None:
                self.at(fault.at, partial(self._begin, fault))
            else:
                self._pending[fault.node, fault.call].append(fault)

    def now(self) -> datetime:
        """The store's time."""
        return self.setting.start + self.elapsed

    def run(self, end: Callable[[], bool], most: timedelta) -> None:
        """Start all nodes, and go on until the end, or for as long as that at most."""
        for number in range(1, self.setting.nodes + 1):
            self.at(ZERO, partial(self._start_node, number))

        def look() -> None:
            if self.elapsed >= self.setting.span + most or end():
                self._end()
            else:
                self.at(self.elapsed + timedelta(seconds=5), look)

        self.at(self.setting.span, look)
        self._hand_over()
        self._finished.acquire()
        if self._error is not None:
            raise self._error
        for thread in self._threads:
            thread.join()

    def at(
        self, at: timedelta, act: Callable[[], object], node: Node | None = None
    ) -> None:
        """Do something at a time; of a node, unless it is dead by then."""
        heappush(self._heap, _Appointment(at, next(self._numbers), node, act))

    def wait_for(self, node: Node, length: timedelta) -> None:
        """Let this thread of a node go on so much later.

        Raises:
            _Killed: The node is dead by then.
        """
        turn = threading.Lock()
        turn.acquire()
        at = self.elapsed + length
        appointment = _Appointment(at, next(self._numbers), node, turn=turn)
        heappush(self._heap, appointment)
        self._hand_over()
        turn.acquire()
        if not node.alive:
            raise _Killed

    def meets(self, node: Node, call: str) -> Fault | None:
        """The fault that a call of a node meets, if it meets one."""
        pending = self._pending.get((node.number, call))
        return pending[0] if pending and pending[0].at <= self.elapsed else None

    def meet(self, node: Node, fault: Fault) -> None:
        """Note that a call has met a fault, which happens once."""
        self._pending[node.number, str(fault.call)].popleft()
        self._note(fault, node)

    def hear(self, node: Node, event: Event) -> None:
        """Write an event into the log."""
        if not node.alive:
            return
        of = ""
        if isinstance(event, InstanceEvent):
            of = f" {self._instance_text(event.instance_id)} attempt {event.attempt}"
        values = "".join(
            f" {name}={each}" for name, each in _values(event, self.setting)
        )
        kind = type(event).__name__
        self.log.append(f"{self.elapsed} {node.name}: {kind}{of}{values}")

    def kill(self, node: Node, length: timedelta) -> None:
        """End a node without a word; another one takes its place later."""
        node.troubles.append((self.elapsed, timedelta.max))
        self._remove(node)
        self.at(self.elapsed + length, partial(self._start_node, node.number))

    def carry_out(self, name: str, call: partial[Any]) -> Any:
        """Have the store do something, and look whether a firing goes back in time."""
        if not name.startswith("fire_"):
            return call()
        ids = [firing.definition.id for firing in call.args[0]]
        before = {each: self.store.get_definition(each) for each in ids}
        answer = call()
        for id, old in before.items():
            new = self.store.get_definition(id).next_fire_time
            if new and (old.completed_at or (old.next_fire_time or new) > new):
                self.moved_back.append(f"{_name_of(old)} to {new}")
        return answer

    def _instance_text(self, id: UUID) -> str:
        if id not in self._instances:
            found = self.store.get_instance(id)
            at = found.fire_time or found.execute_at
            text = f"{_name_of(found.definition)} {at - self.setting.start}"
            self._instances[id] = text
        return self._instances[id]

    def _start_node(self, number: int) -> None:
        offset, rate = self._clocks.get(number, (ZERO, 0))
        self._lives[number] += 1
        node = Node(self, number, self._lives[number], offset=offset, rate=rate)
        self.nodes[number] = node
        node.start()

    def _remove(self, node: Node) -> None:
        node.alive = False
        del self.nodes[node.number]
        for each in self._heap:
            if each.node is node:
                each.at = self.elapsed
        heapify(self._heap)

    def _begin(self, fault: Fault) -> None:
        """Begin a fault that does not wait for a call."""
        node = self.nodes.get(fault.node)
        if fault.kind is FaultKind.CLOCK:
            # Only the time of day is ever set while a machine runs.
            _, rate = self._clocks.get(fault.node, (ZERO, 0))
            rate = rate if self.elapsed else fault.rate
            self._clocks[fault.node] = fault.length, rate
            if node is not None:
                node.offset = fault.length
        elif fault.kind is FaultKind.OUTAGE and not fault.node:
            self.outages.append((self.elapsed, self.elapsed + fault.length))
        elif node is None:
            return
        else:
            node.suffer(fault)
        self._note(fault, node)

    def _note(self, fault: Fault, node: Node | None) -> None:
        self.met.append((self.elapsed, fault))
        name = f"node {fault.node}" if node is None else node.name
        where = name if fault.node else "all nodes"
        self.log.append(f"{self.elapsed} {where}: FAULT {fault.what}")

    def _end(self) -> None:
        """Let all nodes die, and what waits in them come to its end."""
        for node in [*self.nodes.values()]:
            self._remove(node)
        self._heap = [each for each in self._heap if each.turn]
        heapify(self._heap)

    def _hand_over(self) -> None:
        """Let another thread go on."""
        if self._idle:
            self._idle.pop().release()
            return
        thread = threading.Thread(target=self._drive, name="simulation", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _drive(self) -> None:
        mine = threading.Lock()
        mine.acquire()
        try:
            while not self._over:
                act = self._next()
                if act is None:
                    self._stop()
                elif isinstance(act, _Appointment):
                    assert act.turn is not None
                    self._idle.append(mine)
                    act.turn.release()
                    mine.acquire()
                else:
                    with suppress(_Killed):
                        act()
        except BaseException as error:
            self._error = error
            self._stop()

    def _stop(self) -> None:
        self._over = True
        for each in self._idle:
            each.release()
        self._finished.release()

    def _next(self) -> Callable[[], object] | _Appointment | None:
        """Move the time on to what comes next; None: there is nothing more."""
        while True:
            due = next_node = None
            for each in self.nodes.values():
                at = each.due()
                if at is not None and (due is None or at < due):
                    due, next_node = at, each
            first = self._heap[0] if self._heap else None
            if due is not None and (first is None or due < first.at):
                assert next_node is not None
                self.elapsed = max(self.elapsed, due)
                return next_node.step
            if first is None:
                return None
            heappop(self._heap)
            node = first.node
            if node is not None and node.alive and node.frozen_until > first.at:
                first.at = node.frozen_until
                heappush(self._heap, first)
                continue
            self.elapsed = max(self.elapsed, first.at)
            if first.act is None:
                return first
            if node is None or node.alive:
                return first.act


class Node:
    """A node: a scheduler, the clock of its machine, and its way to the store.

    Args:
        world: Where it is.
        number: Its number.
        life: How many of this number there have been, with it.
        offset: How far its clock is off.
        rate: By how many millionths that is fast.

    Attributes:
        alive: Whether it has not been killed.
        troubles: When it was frozen, cut off, or dead.
        frozen_until: Until when it is not stepped.
        executor: Runs its handlers.
    """

    def __init__(
        self, world: World, number: int, life: int, *, offset: timedelta, rate: int
    ) -> None:
        self.number = number
        self.name = f"node {number}" if life == 1 else f"node {number}.{life}"
        self.offset = offset
        self.alive = True
        self.troubles: list[tuple[timedelta, timedelta]] = []
        self.frozen_until = ZERO
        self.executor: Executor = _Pool(self, world)
        self._cut_until = ZERO
        self._rate = _MILLION + rate
        self._read_at = self._read = timedelta(-1)
        self._world = world
        self._attached: dict[Driven, None] = {}
        self._stepping: set[Driven] = set()
        setting = world.setting
        self._scheduler = Scheduler(
            self._handle,
            _Connection(self, world),
            clock=self,
            queues=sorted({each.queue for each in setting.definitions}),
            max_workers=1000,
            lease=setting.lease,
            schedule_window=setting.lease / 10,
            runner_window=setting.lease / 10,
            retention=timedelta(days=10_000),
            listeners=[partial(world.hear, self)],
        )

    def now(self) -> datetime:
        """The time of day, as its machine has it."""
        return self._world.setting.start + self.offset + self.elapsed()

    def elapsed(self) -> timedelta:
        """The time since the start, as its machine measures it."""
        if self._world.elapsed is not self._read_at:
            self._read_at = self._world.elapsed
            real = self._read_at // MICROSECOND
            self._read = real * self._rate // _MILLION * MICROSECOND
        return self._read

    def wait(self, condition: threading.Condition, until: timedelta | None) -> None:
        """Return at once: only what stops a node waits, and nothing does."""

    def attach(self, driven: Driven) -> None:
        """Step this whenever it is due, until it is detached."""
        self._attached[driven] = None

    def detach(self, driven: Driven) -> None:
        """Leave it attached: once it has stopped it is never due."""

    def start(self) -> None:
        """Start the scheduler."""
        self._scheduler.start()

    def due(self) -> timedelta | None:
        """When something is to be stepped, in the time of the world."""
        found = self._first()
        return None if found is None else max(self._real(found[0]), self.frozen_until)

    def _real(self, elapsed: timedelta) -> timedelta:
        """When its machine has measured so much."""
        scaled = elapsed // MICROSECOND * _MILLION
        return -(-scaled // self._rate) * MICROSECOND

    def step(self) -> None:
        """Step what is due first."""
        found = self._first()
        assert found is not None
        _, driven = found
        self._stepping.add(driven)
        try:
            driven.step()
        finally:
            self._stepping.discard(driven)

    def _first(self) -> tuple[timedelta, Driven] | None:
        first = None
        for each in self._attached:
            due = each.due
            if due is None or each in self._stepping:
                continue
            if first is None or due < first[0]:
                first = due, each
        return first

    def suffer(self, fault: Fault) -> None:
        """Be frozen, killed or cut off."""
        until = self._world.elapsed + fault.length
        if fault.kind is FaultKind.KILLED:
            self._world.kill(self, fault.length)
            return
        self.trouble(fault.length)
        if fault.kind is FaultKind.FROZEN:
            self.frozen_until = max(self.frozen_until, until)
        else:
            self._cut_until = max(self._cut_until, until)

    def trouble(self, length: timedelta) -> None:
        """Note that it can do nothing for so long."""
        elapsed = self._world.elapsed
        self.troubles.append((elapsed, elapsed + length))

    def call(self, name: str, call: partial[Any]) -> Any:
        """Call the store, or meet what keeps from it."""
        world = self._world
        self._check_reach()
        fault = world.meets(self, name)
        carried_out = partial(world.carry_out, name, call)
        if fault is None:
            return carried_out()
        if fault.kind in _BEFORE:
            world.meet(self, fault)
            return self._call_later(fault, carried_out)
        found = carried_out()
        if name in _READS and not found:
            # It would change nothing: the fault waits for a call that counts.
            return found
        world.meet(self, fault)
        if fault.kind is FaultKind.LOST:
            raise StoreUnavailableError(f"the answer to {name} is lost")
        if fault.kind in (FaultKind.FROZEN, FaultKind.KILLED):
            self.suffer(fault)
            world.wait_for(self, ZERO)
            return found
        self.trouble(fault.length)
        world.wait_for(self, fault.length)
        return carried_out() if fault.kind is FaultKind.REPEATED else found

    def _call_later(self, fault: Fault, call: Callable[[], Any]) -> Any:
        """Refuse a call, or carry it out later, or both."""
        world = self._world
        answer: Future[Any] = Future()
        if fault.kind is not FaultKind.REFUSED:
            at = world.elapsed + fault.length
            world.at(at, partial(_settle, answer, call))
        if fault.kind is not FaultKind.DELAYED:
            raise StoreUnavailableError(f"{fault.call} is refused")
        self.trouble(fault.length)
        world.wait_for(self, fault.length)
        return answer.result()

    def _check_reach(self) -> None:
        elapsed = self._world.elapsed
        outages = self._world.outages
        is_out = any(elapsed < until for _, until in outages)
        if is_out or elapsed < self._cut_until or not self.alive:
            raise StoreUnavailableError("the store does not answer")

    def _handle(self, instance: TaskInstance) -> None:
        world = self._world
        length, fails = world.setting.work(instance)
        call = Call(self, instance, world.elapsed, fails, length)
        world.calls.append(call)
        if length:
            world.wait_for(self, length)
        call.ended_at = world.elapsed
        if fails:
            raise HandlerFailed("it fails by chance")


class _Pool(Executor):
    """Calls handlers of a node, each beside all others."""

    def __init__(self, node: Node, world: World) -> None:
        self._node = node
        self._world = world

    def submit(
        self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[_T]:
        """Call a function as the next thing that this node does."""
        future: Future[_T] = Future()
        call = partial(_settle, future, partial(fn, *args, **kwargs))
        self._world.at(self._world.elapsed, call, self._node)
        return future


class _SeededStore(MemoryStore):
    """The store of all nodes, in which ids are the same at each run."""

    def __init__(self, clock: World, new_id: Callable[[], UUID]) -> None:
        super().__init__()
        self._time = clock.now
        self._tables = Tables(new_id)


class _Connection(MemoryStore):
    """A node's way to the store, on which calls may meet faults.

    It holds nothing itself: all methods go to the store.
    """

    def __init__(self, node: Node, world: World) -> None:
        super().__init__(node)
        self.node = node
        self.store = world.store


def _sent(name: str) -> Callable[..., Any]:
    def send(self: _Connection, *args: Any, **kwargs: Any) -> Any:
        return self.node.call(name, partial(getattr(self.store, name), *args, **kwargs))

    return send


# These ask nothing of a database.
_OWN = ("initialize", "close", "connect", "hints", "examine")
for _name in dir(Store):
    is_method = callable(getattr(Store, _name)) and not _name.startswith("_")
    if is_method and _name not in _OWN:
        setattr(_Connection, _name, _sent(_name))


def _settle(future: Future[_T], call: Callable[[], _T]) -> None:
    """Set a future to what comes of a call."""
    try:
        result = call()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


def _name_of(definition: TaskDefinition) -> str:
    return definition.name or str(definition.id)


# What differs from run to run, or is in the line already.
_LEFT_OUT = {"instance_id", "definition_id", "attempt", "node", "exception", "queue"}


def _values(event: Event, setting: Setting) -> Iterator[tuple[str, object]]:
    """The other values of an event, for the log."""
    for each in fields(event):
        value = getattr(event, each.name)
        if each.name in _LEFT_OUT or value is None:
            continue
        if each.name == "name" and isinstance(event, InstanceEvent):
            continue
        if isinstance(value, datetime):
            value -= setting.start
        elif isinstance(value, Enum):
            value = value.value
        elif isinstance(value, str):
            value = value.strip().rpartition("\n")[2]
        yield each.name, value
