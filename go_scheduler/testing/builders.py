"""Short names for the calls and values that the tests of stores repeat."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime, timedelta
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
from go_scheduler.models import (
    Cancelled,
    Outcome,
    Stage,
    State,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.stores.filters import Filter, Page
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
from go_scheduler.testing.clock import START, ManualClock, settle
from go_scheduler.triggers.simple import DelayTrigger, IntervalTrigger, OnDemandTrigger
from go_scheduler.triggers.times import LAST_INSTANT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Answer, Own, Put
    from go_scheduler.triggers.base import Trigger

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Row = TypeVar("_Row")

_FAILED_AFTER = 120
_MOST_LISTED = 100_000


def at_once(*calls: Callable[[], _T]) -> list[_T]:
    """Make all calls at the same moment, each in its own thread.

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
EVERY_TWO_HOURS = IntervalTrigger(2 * HOUR, anchor=START)
WAITING = DelayTrigger(HOUR)
NODE = UUID(int=1)
OTHER_NODE = UUID(int=2)


def definition(
    next_fire_time: datetime | None = START,
    *,
    trigger: Trigger = HOURLY,
    key: int | str | None = None,
    **fields: Any,
) -> TaskDefinition:
    """A definition that fires at the clock's start; a number makes ids that sort."""
    if isinstance(key, str):
        fields["key"] = key
    made = TaskDefinition(trigger=trigger, next_fire_time=next_fire_time, **fields)
    return replace(made, id=UUID(int=key)) if isinstance(key, int) else made


def task(**fields: Any) -> TaskDefinition:
    """A definition that fires only on demand."""
    return definition(None, trigger=OnDemandTrigger(), **fields)


def put(store: Store, new: TaskDefinition | None = None) -> TaskDefinition:
    """Put one definition and return it as stored."""
    [stored] = store.put_definitions([new or definition()]).definitions
    return stored


def put_and_start(store: Store, step: Firing) -> Put:
    """Put the definition of a firing, for a node that may have its instance."""
    new = step.definition
    return store.put_definitions([new], firings=[step], claimant=claimant())


def revision_of(given: TaskDefinition) -> int:
    """The revision of a definition that a store has returned."""
    assert given.revision is not None, f"{given} is stored without a revision"
    return given.revision


def kept_by_store(given: TaskDefinition) -> tuple[object, ...]:
    """The fields that a store keeps and equality leaves out."""
    return (
        given.next_fire_time,
        given.paused,
        given.note,
        given.completed_at,
        given.revision,
    )


def firing(read: TaskDefinition, /, *fire_times: datetime, **fields: Any) -> Firing:
    """A step of a definition; at its ``next_fire_time`` unless told otherwise."""
    if not fire_times and "skipped" not in fields and read.next_fire_time is not None:
        fire_times = (read.next_fire_time,)
    fields = {"fire_times": fire_times, "next_fire_time": None, **fields}
    return Firing(definition=read, **fields)


def fire(
    store: Store, read: TaskDefinition, /, *fire_times: datetime, **fields: Any
) -> Sequence[TaskInstance]:
    """Fire a definition and return all its instances; ``fields`` go to ``firing``."""
    assert fire_steps(store, firing(read, *fire_times, **fields)) == [read.id]
    return instances(store, read)


def fire_steps(store: Store, *steps: Firing) -> list[UUID]:
    """Fire definitions; return the ids of those that fired."""
    return _until_done(store.fire_definitions, steps, lambda each: each.definition.id)


def add(store: Store, /, to: TaskDefinition, **fields: Any) -> TaskInstance:
    """Add one instance and return the answer of the store."""
    [added] = store.add_instances(to.id, [Addition(**fields)])
    return added


def instances(store: Store, of: TaskDefinition) -> Sequence[TaskInstance]:
    """The instances of a definition, as stored."""
    return store.select(Filter(definition_id=of.id))


def counts_by_state(store: Store, **conditions: Any) -> dict[State, int]:
    """How many instances are in each state, of those that meet all conditions."""
    [found] = store.count([Filter(**conditions)])
    assert not any(each.more for each in found.values()), "without a bound all count"
    return {state: each.count for state, each in found.items()}


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


def all_pages(read: Callable[..., Page[_T]], *, limit: int) -> list[_T]:
    """Read all pages of a list; no page may have more items than the limit.

    Args:
        read: Reads the page that comes after its argument ``after``.
        limit: How many a page may have.
    """
    found: list[_T] = []
    after = None
    while True:
        page = read(after=after, limit=limit)
        assert len(page) <= limit, f"a page has {len(page)} items, and not {limit}"
        found += page
        assert len(found) < _MOST_LISTED, "a page is listed again and again"
        if (after := page.next) is None:
            return found


def clean_up(
    store: Store,
    *,
    older_than: timedelta = ZERO,
    failed_older_than: timedelta | None = None,
    remember: timedelta = YEAR,
    limit: int = 100,
) -> int:
    """Delete what has ended; by default failed instances like all others."""
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
    """A new definition's one instance, which has failed once and waits to run again."""
    instance = running(store, new)
    assert finish(store, instance, None, retry_in=retry_in)
    return store.get_instance(instance.id)


def fail_again(store: Store, instance: TaskInstance, times: int) -> TaskInstance:
    """Let a running instance fail this many times; return its next run."""
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


def unclaimed(of: TaskDefinition, like: TaskInstance, **fields: Any) -> TaskInstance:
    """An unclaimed instance, made at the clock's start, with the id of another one.

    Args:
        of: Its definition.
        like: The instance whose id it has.
        **fields: Its other fields; it is due at ``execute_at``.
    """
    due_at = fields["execute_at"]
    return TaskInstance(
        id=like.id, definition=of, due_at=due_at, created_at=START, **fields
    )


def claimant(
    node: UUID = NODE,
    *,
    queues: Iterable[str] = ("default",),
    lease: timedelta = LEASE,
    expire_after: timedelta = EXPIRE_AFTER,
    names: Collection[str] | None = None,
    own: Mapping[str, Own] | None = None,
) -> Claimant:
    """A node, with what it needs to claim."""
    return Claimant(
        node=node,
        queues=tuple(queues),
        lease=lease,
        expire_after=expire_after,
        names=names,
        own=own,
    )


def claim(
    store: Store,
    node: UUID = NODE,
    *,
    queues: Iterable[str] = ("default",),
    ahead: timedelta = ZERO,
    lead: timedelta = ZERO,
    limit: int = 100,
    lapsed: bool | timedelta = False,
    deadline: datetime = LAST_INSTANT,
    expire_after: timedelta = EXPIRE_AFTER,
    own: Mapping[str, Own] | None = None,
) -> Sequence[TaskInstance]:
    """Claim for a node; what is due now, unless told otherwise.

    Args:
        store: Where to claim.
        node: The node.
        queues: The queues that it serves.
        ahead: How far ahead of the due time.
        lead: How far ahead of the due time to start.
        limit: How many at most.
        lapsed: Whether to take over claims that have lapsed, or how long ago.
        deadline: When it is too late to claim.
        expire_after: How long a run holds that does not say so itself.
        own: By queue, the shards from which the node claims first.
    """
    settle(store)
    lapsed_for = (ZERO if lapsed else None) if isinstance(lapsed, bool) else lapsed
    of = claimant(node, queues=queues, expire_after=expire_after, own=own)
    return store.claim_instances(
        of,
        ahead=ahead,
        lead=lead,
        limit=limit,
        lapsed=lapsed_for,
        deadline=deadline,
    )


def passed_on(
    store: Store, clock: ManualClock, new: TaskDefinition | None = None
) -> tuple[TaskInstance, TaskInstance]:
    """Let a claim lapse; return the instance of the first and of the second owner."""
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


def renewal_of(
    instance: TaskInstance, lease: timedelta = HOUR, **fields: Any
) -> Renewal:
    """The renewal of a claim."""
    return Renewal(claim=claim_of(instance), lease=lease, **fields)


def renew(
    store: Store, *given: TaskInstance, lease: timedelta = LEASE
) -> Mapping[UUID, bool]:
    """Renew claims, for one lease unless told otherwise."""
    return store.renew_claims([renewal_of(each, lease) for each in given]).done


def hand_on(
    store: Store, /, instance: TaskInstance, *, lease: timedelta, **fields: Any
) -> Mapping[UUID, bool]:
    """Hand a run on to a worker; the claim holds for this lease or longer."""
    renewal = renewal_of(instance, lease, handed_on=True, **fields)
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
    """Report the stage of a run on a bus; a published run has no worker yet."""
    named = worker if stage in (Stage.ACCEPTED, Stage.STARTED) else None
    return hand_on(
        store, instance, lease=lease, worker=named, stage=stage, progress=progress
    )


def end_of(
    instance: TaskInstance, outcome: Outcome | None = Outcome.COMPLETED, **fields: Any
) -> RunOutcome:
    """The end of a run that was called when it was started."""
    fields = {"started_at": instance.started_at, **fields}
    return RunOutcome(claim=claim_of(instance), outcome=outcome, **fields)


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
    end = end_of(instance, outcome, **fields)
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
    """Repeat a call for the rows that were busy; return all that was done.

    When several calls are made at one moment, the store may answer any of them that a
    row is busy. A node then asks again.
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
    """Cancel instances; a definition whose trigger waits gets ``next_fire_time``."""
    return store.cancel_instances({each.id: next_fire_time for each in given})


def check(*given: object, case: object = "", **expected: object) -> None:
    """Compare these fields of each value; ``case`` is shown if one differs."""
    for each in given:
        found = {name: getattr(each, name) for name in expected}
        assert found == expected, case


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
        self.now = clock.now

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

    def check(
        self, *given: TaskInstance | TaskDefinition, case: object = "", **expected: Any
    ) -> None:
        """Read instances or definitions again, and compare these fields of each."""
        check(*(self.read(each) for each in given), case=case, **expected)

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

    def edit(self, read: TaskDefinition, **values: Any) -> TaskDefinition:
        """Put a definition with other values and return it as stored."""
        return self.put(replace(read, **values))

    def pause(self, read: TaskDefinition, *, note: str | None = None) -> TaskDefinition:
        """Pause one definition and return it as stored."""
        [paused] = self.store.pause_definitions([read.id], note=note)
        return paused

    def resume(self, *read: TaskDefinition) -> list[TaskDefinition]:
        """Resume definitions and return them as stored."""
        return [*self.store.resume_definitions(ids(read))]

    def delete(self, *read: TaskDefinition) -> Mapping[UUID, Collection[UUID]]:
        """Delete definitions and return the answer of the store."""
        return self.store.delete_definitions(ids(read))

    def reopen(self, *given: TaskInstance) -> set[UUID]:
        """Reopen instances; return the ids of those that run again."""
        return {*self.store.reopen_instances(ids(given))}

    def run_due(
        self, outcome: Outcome = Outcome.COMPLETED, **fields: Any
    ) -> Sequence[TaskInstance]:
        """Claim what is due now and finish it with this outcome; return the runs."""
        runs = self.claim()
        for run in runs:
            assert self.finish(run, outcome, **fields)
        return runs

    def take_over(self) -> Sequence[TaskInstance]:
        """Claim for the other node what is due and what has lapsed."""
        return self.claim(OTHER_NODE, lapsed=True)

    def passed_on(
        self, new: TaskDefinition | None = None
    ) -> tuple[TaskInstance, TaskInstance]:
        """Let a claim lapse; return the instance of its first and second owner."""
        return passed_on(self.store, self.clock, new)


class StoreTests:
    """A part of the suite for stores."""

    @pytest.fixture
    def rig(self, store: Store, clock: ManualClock) -> Rig:
        """The store, its clock and the calls of the tests."""
        return Rig(store, clock)
