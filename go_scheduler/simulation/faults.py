"""A simulation with faults: what fails by a seed, and whether all promises held."""

from __future__ import annotations

import logging
import random
import warnings
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING
from uuid import UUID

from go_scheduler.checks import check_positive, check_type
from go_scheduler.client import Client
from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError, ScheduleWarning
from go_scheduler.formatting import shown
from go_scheduler.models import OPEN, Outcome, TaskDefinition, TaskInstance
from go_scheduler.policies import Overlap, RetryPolicy
from go_scheduler.simulation.nodes import Call, Fault, FaultKind, Setting, World
from go_scheduler.simulation.simulating import (
    EXPIRE_AFTER,
    check_number,
    checked,
    lengths_of,
)
from go_scheduler.stores.filters import Filter
from go_scheduler.stores.rules import slot_of
from go_scheduler.triggers.base import utc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from go_scheduler.stores.base import Store

START = datetime.fromisoformat("2030-01-01T00:00:00Z")
_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
_MOST = 30 * _MINUTE
# A clock that is 100 ppm fast leads by so much in the ten seconds between two readings.
_EARLY = timedelta(milliseconds=1)

CALLS = {
    "claim_instances": 6,
    "start_instances": 4,
    "finish_instances": 4,
    "fire_definitions": 6,
    "renew_claims": 3,
    "release_instances": 2,
    "note_contact": 2,
    "list_contacts": 1,
    "list_claimed": 2,
    "due_definitions": 3,
    "review_parked": 1,
    "get_instance": 1,
}
"""The methods of a store that faults may meet, and how often they do."""

_OF_CALLS = (
    FaultKind.REFUSED,
    FaultKind.LOST,
    FaultKind.LATE,
    FaultKind.DELAYED,
    FaultKind.SLOW,
    FaultKind.REPEATED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultReport:
    """What came of a simulation with faults.

    Attributes:
        seed: Its seed.
        log: A line for each event and each fault, in the order of time.
        problems: The promises that were broken, each in a sentence; empty: none.
        faults: The faults that happened.
        instances: How many instances were judged.
        calls: How many calls of handlers there were.
    """

    seed: int
    log: tuple[str, ...]
    problems: tuple[str, ...]
    faults: tuple[Fault, ...]
    instances: int
    calls: int
    _setting: Setting = field(repr=False, compare=False)

    def shrunk(self) -> FaultReport:
        """The same with as few faults as it takes to break the first of its promises.

        Faults are left out in halves at first, and one by one in the end. Without a
        problem it is the same report.
        """
        if not self.problems:
            return self
        broken = self.problems[0].partition(":")[0]
        best, size = self, max(1, len(self.faults) // 2)
        while True:
            smaller = _without_some(best, size, broken)
            if smaller is not None:
                best = smaller
            elif size == 1:
                return best
            size = max(1, min(size, len(best.faults)) // 2)


def _without_some(report: FaultReport, size: int, broken: str) -> FaultReport | None:
    """A report that is as bad without some of the faults; None: there is none."""
    smaller = None
    first = 0
    while first < len(report.faults):
        kept = report.faults[:first] + report.faults[first + size :]
        found = _simulated(report._setting, kept)
        if any(each.startswith(f"{broken}:") for each in found.problems):
            report = smaller = found
        else:
            first += size
    return smaller


def simulate_faults(
    definitions: Iterable[TaskDefinition],
    *,
    seed: int,
    nodes: int = 3,
    start: datetime = START,
    span: timedelta = timedelta(minutes=20),
    lease: timedelta = timedelta(seconds=20),
    durations: timedelta | Mapping[UUID, timedelta] = 5 * _SECOND,
    failures: float = 0.1,
    faults: Sequence[Fault] | None = None,
) -> FaultReport:
    """Run definitions on several nodes, while calls, clocks and nodes fail.

    Whole schedulers run on simulated time, over one ``MemoryStore``; handlers only
    wait. Faults stop after three quarters of the span. After its end it goes on until
    all that is due has ended. The same seed makes the same faults, and the same log.

    ```python
    report = simulate_faults(definitions, seed=7)
    if report.problems:
        print(*report.shrunk().faults)
    ```

    Args:
        definitions: What is scheduled at the start.
        seed: Decides all that happens by chance.
        nodes: How many nodes there are, at least 1.
        start: The store's time at the start.
        span: The fire times of this time are judged, above zero.
        lease: As for ``Scheduler``.
        durations: How long runs last on average: of all definitions, or by their ids.
        failures: The share of runs that fail, from 0 to 1.
        faults: What goes wrong; None: that follows from the seed.

    Raises:
        ConfigurationError: An argument is wrong.
    """
    given = checked(definitions)
    check_type("seed", seed, int)
    check_type("nodes", nodes, int)
    check_number("nodes", nodes)
    check_positive("span", span)
    if not 0 <= failures <= 1:
        raise ConfigurationError(f"failures must be from 0 to 1: {shown(failures)}")
    known = [
        replace(
            each,
            id=each.id if each.named else UUID(int=number),
            revision=None,
            completed_at=None,
        )
        for number, each in enumerate(given, start=1)
    ]
    pairs = zip(known, lengths_of(given, durations), strict=True)
    setting = Setting(
        definitions=known,
        seed=seed,
        nodes=nodes,
        start=utc(start, name="start"),
        span=span,
        lease=lease,
        durations={each.id: length for each, length in pairs},
        failures=failures,
    )
    if faults is None:
        faults = list(_planned(setting))
    for each in faults:
        _check_fault(each)
    return _simulated(setting, faults)


def _check_fault(fault: Fault) -> None:
    check_type("a fault", fault, Fault)
    check_type("the kind of a fault", fault.kind, FaultKind)
    may_begin_alone = fault.kind not in _OF_CALLS
    if fault.call is None and not may_begin_alone:
        raise ConfigurationError(f"a fault that is {fault.kind} needs a call")
    if fault.call is not None and fault.call not in CALLS:
        raise ConfigurationError(
            f"a fault meets one of {', '.join(CALLS)}, not {shown(fault.call)}"
        )


def _simulated(setting: Setting, faults: Sequence[Fault]) -> FaultReport:
    world = World(setting, faults)
    end = setting.start + setting.span
    state, disabled = random.getstate(), logging.root.manager.disable
    # Loops back off by chance; and the log of nodes that do not exist misleads.
    random.seed(setting.seed)
    logging.disable()
    try:
        with warnings.catch_warnings():
            # A schedule that people do not mean is none of a simulation's concern.
            warnings.simplefilter("ignore", ScheduleWarning)
            Client(world.store).schedule_all(setting.definitions)
        world.run(lambda: not any(_open(world.store, end)), _MOST)
    finally:
        random.setstate(state)
        logging.disable(disabled)
    instances = [
        each for each in world.store.select(limit=_MOST_ROWS) if each.execute_at < end
    ]
    return FaultReport(
        seed=setting.seed,
        log=tuple(world.log),
        problems=tuple(_Judge(world, instances).problems()),
        faults=tuple(fault for _, fault in world.met),
        instances=len(instances),
        calls=len(world.calls),
        _setting=setting,
    )


def _planned(setting: Setting) -> Iterator[Fault]:
    """The faults that follow from the seed.

    Each seed leaves out some kinds: what one kind of fault breaks another one may hide.
    """
    chance = random.Random(f"faults {setting.seed}")
    kinds = [each for each in FaultKind if chance.random() < 0.5]
    calm = setting.span * 0.75
    usual = setting.span / timedelta(minutes=20)

    def times(most: int) -> Iterator[timedelta]:
        for _ in range(round(chance.randint(1, most) * max(usual, 1))):
            yield calm * chance.random()

    def length(seconds: float, leases: float = 0.0) -> timedelta:
        """Some seconds, or a lease and more."""
        if chance.random() < leases:
            return setting.lease * chance.uniform(1, 3.5)
        return timedelta(milliseconds=chance.randint(1, round(seconds * 1000)))

    def call(share: float = 1.0) -> str | None:
        if chance.random() >= share:
            return None
        return chance.choices(list(CALLS), list(CALLS.values()))[0]

    for kind in kinds:
        for node in range(1, setting.nodes + 1):
            if kind is FaultKind.CLOCK:
                off = timedelta(milliseconds=chance.randint(-300_000, 300_000))
                rate = chance.randint(-100, 100)
                yield Fault(at=ZERO, kind=kind, node=node, length=off, rate=rate)
            elif kind in _OF_CALLS:
                for at in times(12):
                    late = ZERO if kind in _AT_ONCE else length(4, 0.1)
                    if kind is FaultKind.LATE:
                        late = min(late, 4 * _SECOND)
                    yield Fault(at=at, kind=kind, node=node, call=call(), length=late)
            elif kind in _OF_NODES:
                for at in times(2):
                    pause = length(*_OF_NODES[kind])
                    yield Fault(
                        at=at, kind=kind, node=node, call=call(0.7), length=pause
                    )
        if kind is FaultKind.OUTAGE:
            for at in times(3):
                of, pause = chance.randint(0, setting.nodes), length(5, 0.5)
                yield Fault(at=at, kind=kind, node=of, length=pause)


_AT_ONCE = (FaultKind.REFUSED, FaultKind.LOST)
# How many seconds they last at most, and how often a lease and more instead.
_OF_NODES = {FaultKind.KILLED: (60, 0.0), FaultKind.FROZEN: (6, 0.7)}
_DISTURBING = (
    FaultKind.FROZEN,
    FaultKind.KILLED,
    FaultKind.OUTAGE,
    # What a repeated claim has taken is known to nobody until it lapses.
    FaultKind.REPEATED,
)


class _Judge:
    """Finds the promises that were broken.

    Args:
        world: The simulation, which is over.
        instances: Those that are judged.
    """

    def __init__(
        self,
        world: World,
        instances: Sequence[TaskInstance],
    ) -> None:
        self._world = world
        self._setting = world.setting
        self._instances = instances
        self._calls: dict[UUID, list[Call]] = {}
        for call in world.calls:
            self._calls.setdefault(call.instance.id, []).append(call)

    def problems(self) -> Iterator[str]:
        """Each in a sentence that begins with the promise."""
        yield from self._of_schedule()
        for text in self._world.moved_back:
            yield f"moved back: {text}"
        for instance in self._instances:
            calls = self._calls.get(instance.id, [])
            yield from self._of_calls(instance, calls)
            yield from self._of_end(instance, calls)
        yield from self._of_slots()

    def _of_schedule(self) -> Iterator[str]:
        """Each fire time has one instance, or is in one record."""
        start = self._setting.start
        found = Client(self._world.store).audit(
            start,
            start + self._setting.span,
            retention=self._world.store.now() - start,
            unchanged_since=start,
        )
        for each in found:
            definition = each.definition
            for time in () if definition.paused else each.broken:
                at = f"{definition.name or definition.id} {time.at - start}"
                yield f"{time.verdict.value}: {at}: {time.reason}"
        records = [each for each in self._instances if each.fire_time is None]
        for instance in self._instances:
            if any(_is_in_record(instance, record) for record in records):
                text = _of(instance, start)
                yield f"doubled: {text}: it is recorded as skipped as well"

    def _of_calls(self, instance: TaskInstance, calls: Sequence[Call]) -> Iterator[str]:
        for call in calls:
            early = call.instance.due_at - self._setting.start - call.at
            if early > _EARLY:
                yield f"too early: {self._text(call)}, by {early}"
        for before, after in pairwise(calls):
            has_failed = before.fails and (before.ended_at or _NEVER) <= after.at
            if after.instance.attempt <= before.instance.attempt:
                yield f"called by a claim that is lost: {self._text(after)}"
            elif not (has_failed or self._is_excused(before, after.at)):
                yield f"called twice: {self._text(before)}, and {self._text(after)}"
            if has_failed:
                yield from self._of_lateness(after)
        if calls:
            yield from self._of_lateness(calls[0])

    def _of_lateness(self, call: Call) -> Iterator[str]:
        definition, lease = call.instance.definition, self._setting.lease
        due = max(ZERO, call.instance.due_at - self._setting.start)
        if call.at - due < lease * 3 / 4 or _waits_for_others(definition):
            return
        for at, fault in self._world.met:
            is_long = fault.kind in _DISTURBING or fault.length > 2 * _SECOND
            if is_long and at < call.at and at + fault.length + 3 * lease > due:
                return
        yield f"late: {self._text(call)}, by {call.at - due}"

    def _of_end(self, instance: TaskInstance, calls: Sequence[Call]) -> Iterator[str]:
        """It has ended, and as its runs say."""
        text = _of(instance, self._setting.start)
        definition, outcome = instance.definition, instance.outcome
        retry = definition.retry or RetryPolicy()
        error = instance.error or ""
        if outcome is None:
            yield f"left open: {text} is {instance.state.value}"
        elif outcome is Outcome.COMPLETED:
            if not any(each.ended_at and not each.fails for each in calls):
                yield f"ended for no reason: {text} is completed, and no run was"
        elif outcome is Outcome.FAILED:
            is_told = error.startswith(("not run again", "hanging")) or retry.stop_on
            if retry.allows(instance.runs) and not is_told:
                yield f"ended for no reason: {text} failed after {instance.runs} runs"
        elif outcome is Outcome.SKIPPED:
            if instance.skipped is None or not instance.skipped.reason:
                yield f"ended for no reason: {text} is skipped"
        elif definition.overlap is not Overlap.REPLACE:
            yield f"ended for no reason: {text} is cancelled"

    def _of_slots(self) -> Iterator[str]:
        """What excludes each other does not run at the same time."""
        running: dict[str, list[Call]] = {}
        for call in self._world.calls:
            fired = call.instance.fire_time is not None
            slot = slot_of(call.instance.definition, fired=fired)
            if slot is None:
                continue
            beside = running.setdefault(slot, [])
            beside[:] = [each for each in beside if (each.ended_at or _NEVER) > call.at]
            for each in beside:
                # What was taken over may be ended by the run that was given up.
                calls = self._calls[each.instance.id]
                is_same = each.instance.id == call.instance.id
                if not (
                    is_same or any(self._is_excused(one, call.at) for one in calls)
                ):
                    yield f"not alone: {self._text(each)}, and {self._text(call)}"
            beside.append(call)

    def _text(self, call: Call) -> str:
        of = _of(call.instance, self._setting.start)
        return f"{of} attempt {call.instance.attempt} on {call.node.name} at {call.at}"

    def _is_excused(self, call: Call, until: timedelta) -> bool:
        """Whether the node of a call could not renew its claim until then.

        Half a lease is enough: a renewal may be due when the trouble begins.
        """
        definition = call.instance.definition
        limits = (definition.timeout, definition.expire_after, EXPIRE_AFTER)
        if any(each is not None and call.length >= each for each in limits):
            return True
        since = call.at - self._setting.lease
        troubles = (
            min(end, until) - max(begin, since) for begin, end in call.node.troubles
        )
        lost = sum((max(ZERO, each) for each in troubles), start=ZERO)
        return lost >= self._setting.lease / 2


_NEVER = timedelta.max


def _waits_for_others(definition: TaskDefinition) -> bool:
    is_limited = definition.max_per_node is not None
    return is_limited or slot_of(definition, fired=True) is not None


def _of(instance: TaskInstance, start: datetime) -> str:
    at = instance.fire_time or instance.execute_at
    return f"{instance.definition.name or instance.definition.id} {at - start}"


def _is_in_record(instance: TaskInstance, record: TaskInstance) -> bool:
    at, skipped = instance.fire_time, record.skipped
    is_in = (
        at is not None and skipped is not None and skipped.first <= at <= skipped.last
    )
    return is_in and instance.definition.id == record.definition.id


def _open(store: Store, end: datetime) -> Iterator[bool]:
    """True for each fire time and each instance up to the end that has not ended."""
    for definition in store.select_definitions(limit=_MOST_ROWS):
        at = definition.next_fire_time
        yield at is not None and at < end and not definition.paused
    for state in OPEN:
        for each in store.select(Filter(states=[state]), limit=_MOST_ROWS):
            yield each.execute_at < end and not each.definition.paused


_MOST_ROWS = 1_000_000
