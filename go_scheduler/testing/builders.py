"""Short names for the calls and values that the tests of stores repeat."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    overload,
)
from uuid import UUID

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.errors import TaskInstanceNotFoundError
from go_scheduler.models import Cancelled, Outcome, Stage, State, TaskDefinition
from go_scheduler.stores.messages import (
    Addition,
    Claim,
    Claimant,
    Firing,
    Release,
    Renewal,
    Retention,
    RunOutcome,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.settling import settle
from go_scheduler.triggers.delay import DelayTrigger
from go_scheduler.triggers.interval import IntervalTrigger
from go_scheduler.triggers.on_demand import OnDemandTrigger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from go_scheduler.models import Skipped, TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Answer
    from go_scheduler.testing.clock import ManualClock
    from go_scheduler.triggers.base import Trigger

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Row = TypeVar("_Row")

_FAILED_AFTER = 120


def at_once(*calls: Callable[[], _T]) -> list[_T]:
    """Make calls at the same moment, each in its own thread.

    Returns:
        What they returned, in the order of the calls.
    """
    barrier = threading.Barrier(len(calls))
    results: dict[int, _T] = {}
    errors: list[BaseException] = []

    def run(number: int, call: Callable[[], _T]) -> None:
        try:
            barrier.wait(_FAILED_AFTER)
            results[number] = call()
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=run, args=pair, daemon=True)
        for pair in enumerate(calls)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_FAILED_AFTER)
    if errors:
        raise errors[0]
    assert len(results) == len(calls), f"a call took longer than {_FAILED_AFTER} s"
    return [results[number] for number in range(len(calls))]


TICK = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
YEAR = timedelta(days=365)
LEASE = timedelta(seconds=20)
EXPIRE_AFTER = timedelta(minutes=5)
NOBODY = UUID(int=2**128 - 1)
"""An id that nothing has."""

HOURLY = IntervalTrigger(HOUR, anchor=START)
WAITING = DelayTrigger(HOUR)
NODE = UUID(int=1)
OTHER_NODE = UUID(int=2)


def definition(
    next_fire_time: datetime | None = START,
    *,
    trigger: Trigger = HOURLY,
    key: int | None = None,
    **fields: Any,
) -> TaskDefinition:
    """A definition that fires at the clock's start; ``key`` makes ids that sort."""
    made = TaskDefinition(trigger=trigger, next_fire_time=next_fire_time, **fields)
    return made if key is None else replace(made, id=UUID(int=key))


def task(**fields: Any) -> TaskDefinition:
    """A definition that fires only on demand."""
    return definition(None, trigger=OnDemandTrigger(), **fields)


def put(store: Store, new: TaskDefinition | None = None) -> TaskDefinition:
    """Put one definition and return it as stored."""
    [stored] = store.put_definitions([new or definition()])
    return stored


def kept_by_store(given: TaskDefinition) -> tuple[object, ...]:
    """The fields that a store keeps and equality leaves out."""
    return (
        given.next_fire_time,
        given.paused,
        given.note,
        given.completed_at,
        given.revision,
    )


def firing(
    read: TaskDefinition,
    *fire_times: datetime,
    skipped: Skipped | None = None,
    next_fire_time: datetime | None = None,
) -> Firing:
    """A step of a definition; at its ``next_fire_time`` unless told otherwise."""
    if not fire_times and skipped is None and read.next_fire_time is not None:
        fire_times = (read.next_fire_time,)
    return Firing(
        definition=read,
        fire_times=fire_times,
        skipped=skipped,
        next_fire_time=next_fire_time,
    )


def fire(
    store: Store,
    read: TaskDefinition,
    *fire_times: datetime,
    next_fire_time: datetime | None = None,
) -> Sequence[TaskInstance]:
    """Fire a definition and return all its instances."""
    step = firing(read, *fire_times, next_fire_time=next_fire_time)
    assert fire_steps(store, step) == [read.id]
    return instances(store, read)


def fire_steps(store: Store, *steps: Firing) -> list[UUID]:
    """Fire definitions; answer the ids of those that no other has fired."""
    return _until_done(store.fire_definitions, steps, lambda each: each.definition.id)


def add(store: Store, /, to: TaskDefinition, **fields: Any) -> TaskInstance:
    """Add one instance and return it as answered."""
    [added] = store.add_instances(to.id, [Addition(**fields)])
    return added


def instances(store: Store, of: TaskDefinition) -> Sequence[TaskInstance]:
    """The instances of a definition, as stored."""
    return store.list_instances(definition_id=of.id)


def due(
    store: Store,
    *,
    ahead: timedelta = HOUR,
    after: TaskDefinition | None = None,
    limit: int = 100,
) -> list[TaskDefinition]:
    """A page of what is due, within an hour unless told otherwise."""
    settle(store)
    return list(store.due_definitions(ahead=ahead, after=after, limit=limit))


def clean_up(
    store: Store,
    *,
    older_than: timedelta = ZERO,
    failed_older_than: timedelta | None = None,
    remember: timedelta = YEAR,
    limit: int = 100,
) -> int:
    """Delete what ended long ago; what failed as soon as the rest, unless told."""
    settle(store)
    retention = Retention(
        ended=older_than,
        failed=older_than if failed_older_than is None else failed_older_than,
        remembered=remember,
    )
    return store.delete_finished(retention, limit=limit)


def pending(store: Store, new: TaskDefinition | None = None) -> TaskInstance:
    """A new definition's one instance, which nobody has claimed."""
    [instance] = fire(store, put(store, new))
    return instance


def claimed(
    store: Store, new: TaskDefinition | None = None, *, node: UUID = NODE
) -> TaskInstance:
    """A new definition's one instance, claimed and not started."""
    given = pending(store, new or definition(START + SECOND))
    [instance] = claim(store, node, ahead=given.due_at - store.now())
    assert instance.started_at is None, "give it a fire time that is still to come"
    return instance


def running(
    store: Store, new: TaskDefinition | None = None, *, node: UUID = NODE
) -> TaskInstance:
    """A new definition's one instance, claimed and started."""
    pending(store, new)
    [instance] = claim(store, node, lead=ZERO)
    assert instance.started_at is not None, "give it a fire time that has come"
    return instance


def waiting_for_retry(
    store: Store, new: TaskDefinition | None = None, *, retry_in: timedelta = ZERO
) -> TaskInstance:
    """A new definition's one instance, which has run once and is to run again."""
    instance = running(store, new)
    assert finish(store, instance, None, retry_in=retry_in)
    return store.get_instance(instance.id)


def fail_again(store: Store, instance: TaskInstance, times: int) -> TaskInstance:
    """Let a running instance fail so many times; answer its next run."""
    for _ in range(times):
        assert finish(store, instance, None, error=f"attempt {instance.attempt}")
        [instance] = claim(store)
    return instance


def ended(
    store: Store,
    new: TaskDefinition | None = None,
    outcome: Outcome = Outcome.COMPLETED,
) -> TaskInstance:
    """A new definition's one instance, run and ended."""
    instance = running(store, new)
    assert finish(store, instance, outcome)
    return store.get_instance(instance.id)


def claimant(
    node: UUID = NODE,
    *,
    queues: Iterable[str] = ("default",),
    lease: timedelta = LEASE,
    expire_after: timedelta = EXPIRE_AFTER,
) -> Claimant:
    """A node."""
    return Claimant(
        node=node, queues=tuple(queues), lease=lease, expire_after=expire_after
    )


def claim(
    store: Store,
    node: UUID = NODE,
    *,
    queues: Iterable[str] = ("default",),
    ahead: timedelta = ZERO,
    lead: timedelta = ZERO,
    limit: int = 100,
    lapsed: bool = False,
) -> Sequence[TaskInstance]:
    """Claim for a node; what is due now, unless told otherwise."""
    settle(store)
    return store.claim_instances(
        claimant(node, queues=queues),
        ahead=ahead,
        lead=lead,
        limit=limit,
        lapsed=ZERO if lapsed else None,
    )


def passed_on(
    store: Store, clock: ManualClock, new: TaskDefinition | None = None
) -> tuple[TaskInstance, TaskInstance]:
    """An instance as its first owner has it, and as the second one has it."""
    first = running(store, new)
    clock.advance(LEASE)
    [second] = claim(store, OTHER_NODE, lapsed=True)
    return first, second


def claim_of(instance: TaskInstance) -> Claim:
    """The claim that the owner of an instance has to show."""
    return Claim(instance_id=instance.id, attempt=instance.attempt)


def start(store: Store, *given: TaskInstance) -> list[TaskInstance]:
    """Start instances under the claims they were read with."""
    claims = [claim_of(each) for each in given]
    call = partial(store.start_instances, claimant())
    return _until_done(call, claims, lambda each: each.instance_id)


def renew(
    store: Store, *given: TaskInstance, lease: timedelta = LEASE
) -> Mapping[UUID, bool]:
    """Renew claims, for one lease unless told otherwise."""
    renewals = [Renewal(claim=claim_of(each), lease=lease) for each in given]
    return store.renew_claims(renewals).done


def hand_on(
    store: Store, /, instance: TaskInstance, *, lease: timedelta, **fields: Any
) -> Mapping[UUID, bool]:
    """Hand a run on to a worker, for this lease at least."""
    claim = claim_of(instance)
    renewal = Renewal(claim=claim, lease=lease, handed_on=True, **fields)
    return store.renew_claims([renewal]).done


WORKER = "Gerät ä \"'\\,{}%s:x \U0001f40d"


def report_stage(
    store: Store,
    instance: TaskInstance,
    stage: Stage | None,
    *,
    lease: timedelta = MINUTE,
    worker: str | None = WORKER,
    progress: str | None = None,
) -> Mapping[UUID, bool]:
    """Report how far a run has come on a bus; a published one has no worker yet."""
    named = worker if stage in (Stage.ACCEPTED, Stage.STARTED) else None
    return hand_on(
        store, instance, lease=lease, worker=named, stage=stage, progress=progress
    )


def finish(
    store: Store,
    /,
    instance: TaskInstance,
    outcome: Outcome | None = Outcome.COMPLETED,
    **fields: Any,
) -> bool:
    """Finish one run, called when it was started, and tell whether it was accepted.

    Args:
        store: Where the run is stored.
        instance: The run, as it was claimed.
        outcome: How it ended; None: it failed and is to run again.
        **fields: Other fields of its ``RunOutcome``.
    """
    fields = {"started_at": instance.started_at, **fields}
    end = RunOutcome(claim=claim_of(instance), outcome=outcome, **fields)
    return bool(_until_done(store.finish_instances, [end], _instance_of))


def release(
    store: Store,
    instance: TaskInstance,
    delay: timedelta = ZERO,
    *,
    reason: str | None = None,
) -> bool:
    """Give one instance back, and tell whether it was accepted."""
    given_back = Release(claim=claim_of(instance), delay=delay, reason=reason)
    return bool(_until_done(store.release_instances, [given_back], _instance_of))


def _instance_of(row: RunOutcome | Release) -> UUID:
    return row.claim.instance_id


def _until_done(
    call: Callable[[Sequence[_Row]], Answer[Collection[_T]]],
    rows: Sequence[_Row],
    id_of: Callable[[_Row], UUID],
) -> list[_T]:
    """What a call has done in the end, repeated for the rows that were busy.

    Of calls that are made at the same moment any may be told that a row is busy, the
    more so on a busy machine; a node then asks again.
    """
    done: list[_T] = []
    while rows:
        answer = call(rows)
        done += answer.done
        rows = [each for each in rows if id_of(each) in answer.busy]
    return done


def cancel(
    store: Store, *given: TaskInstance, next_fire_time: datetime | None = None
) -> Mapping[UUID, Cancelled]:
    """Cancel instances; ``next_fire_time`` is that of definitions that wait."""
    return store.cancel_instances({each.id: next_fire_time for each in given})


def ids(given: Iterable[TaskDefinition | TaskInstance]) -> list[UUID]:
    """Their ids, in their order."""
    return [each.id for each in given]


def times(given: Collection[TaskInstance]) -> list[datetime | None]:
    """Their fire times, in their order."""
    return [each.fire_time for each in given]


class _Method(Generic[_P, _T]):
    """Makes a function of a store a method of ``Rig``."""

    def __init__(self, function: Callable[Concatenate[Store, _P], _T]) -> None:
        self._function = function

    def __get__(self, rig: Rig, owner: type[Rig]) -> Callable[_P, _T]:
        return partial(self._function, rig.store)


class Rig:
    """A test rig: a store, its clock, and the calls that the suite's tests repeat."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.advance = clock.advance
        self.now = store.now

    put = _Method(put)
    fire = _Method(fire)
    fire_steps = _Method(fire_steps)
    add = _Method(add)
    instances = _Method(instances)
    due = _Method(due)
    clean_up = _Method(clean_up)
    pending = _Method(pending)
    claimed = _Method(claimed)
    running = _Method(running)
    waiting_for_retry = _Method(waiting_for_retry)
    ended = _Method(ended)
    fail_again = _Method(fail_again)
    claim = _Method(claim)
    start = _Method(start)
    renew = _Method(renew)
    hand_on = _Method(hand_on)
    report_stage = _Method(report_stage)
    finish = _Method(finish)
    release = _Method(release)
    cancel = _Method(cancel)

    @overload
    def read(self, given: TaskInstance) -> TaskInstance: ...
    @overload
    def read(self, given: TaskDefinition) -> TaskDefinition: ...
    def read(
        self, given: TaskInstance | TaskDefinition
    ) -> TaskInstance | TaskDefinition:
        """Read an instance or a definition again, as it is stored now."""
        if isinstance(given, TaskDefinition):
            return self.store.get_definition(given.id)
        return self.store.get_instance(given.id)

    def fired(
        self, new: TaskDefinition, *fire_times: datetime
    ) -> Sequence[TaskInstance]:
        """Put a definition, fire it and return its instances, in their order."""
        return self.fire(self.put(new), *fire_times)

    def state_of(self, instance: TaskInstance) -> State | None:
        """The state of an instance by now; None: it has been removed."""
        try:
            return self.read(instance).state
        except TaskInstanceNotFoundError:
            return None

    def pause(self, read: TaskDefinition, *, note: str | None = None) -> TaskDefinition:
        """Pause one definition and return it as stored."""
        [paused] = self.store.pause_definitions([read.id], note=note)
        return paused

    def resume(self, *read: TaskDefinition) -> list[TaskDefinition]:
        """Resume definitions and return them as stored."""
        return [*self.store.resume_definitions(ids(read))]

    def delete(self, *read: TaskDefinition) -> Mapping[UUID, Collection[UUID]]:
        """Delete definitions; answer as the store does."""
        return self.store.delete_definitions(ids(read))

    def reopen(self, *given: TaskInstance) -> set[UUID]:
        """Reopen instances; answer the ids of those that run again."""
        return {*self.store.reopen_instances(ids(given))}

    def take_over(self) -> Sequence[TaskInstance]:
        """Claim for the other node what is due, and what has lapsed."""
        return self.claim(OTHER_NODE, lapsed=True)

    def passed_on(
        self, new: TaskDefinition | None = None
    ) -> tuple[TaskInstance, TaskInstance]:
        """Let a claim lapse; answer the instance of its first and its second owner."""
        return passed_on(self.store, self.clock, new)


class StoreTests:
    """A part of the suite for stores."""

    @pytest.fixture
    def rig(self, store: Store, clock: ManualClock) -> Rig:
        """What the tests use."""
        return Rig(store, clock)
