"""Short names for what the store suite's tests do over and over."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from go_scheduler.clock import ZERO
from go_scheduler.models import Cancelled, Outcome, TaskDefinition
from go_scheduler.stores.messages import (
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

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from go_scheduler.json import JSON
    from go_scheduler.models import Skipped, TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock
    from go_scheduler.triggers.base import Trigger

_FAILED_AFTER = 120


def at_once(*calls: Callable[[], object]) -> list[object]:
    """Make calls at the same moment, each in its own thread.

    Returns:
        What they returned, in the order of the calls.
    """
    barrier = threading.Barrier(len(calls))
    results: dict[int, object] = {}
    errors: list[BaseException] = []

    def run(number: int, call: Callable[[], object]) -> None:
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
    name: str | None = None,
    queue: str = "default",
    metadata: Mapping[str, JSON] | None = None,
    expire_after: timedelta | None = None,
) -> TaskDefinition:
    """A definition that fires at the clock's start; ``key`` makes ids that sort."""
    made = TaskDefinition(
        trigger=trigger,
        name=name,
        queue=queue,
        metadata=metadata or {},
        expire_after=expire_after,
        next_fire_time=next_fire_time,
    )
    return made if key is None else replace(made, id=UUID(int=key))


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
    assert store.fire_definitions([step]).done == {read.id}
    return instances(store, read)


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


def passed_on(store: Store, clock: ManualClock) -> tuple[TaskInstance, TaskInstance]:
    """An instance as its first owner has it, and as the second one has it."""
    first = running(store)
    clock.advance(LEASE)
    [second] = claim(store, OTHER_NODE, lapsed=True)
    return first, second


def claim_of(instance: TaskInstance) -> Claim:
    """The claim that the owner of an instance has to show."""
    return Claim(instance_id=instance.id, attempt=instance.attempt)


def start(store: Store, *given: TaskInstance) -> Sequence[TaskInstance]:
    """Start instances under the claims they were read with."""
    return store.start_instances(claimant(), [claim_of(each) for each in given]).done


def renew(store: Store, *given: TaskInstance) -> Mapping[UUID, bool]:
    """Renew claims for one lease."""
    renewals = [Renewal(claim=claim_of(each), lease=LEASE) for each in given]
    return store.renew_claims(renewals).done


def hand_on(
    store: Store, instance: TaskInstance, *, lease: timedelta, worker: str | None = None
) -> Mapping[UUID, bool]:
    """Hand on a run, for so long at least."""
    renewal = Renewal(
        claim=claim_of(instance), lease=lease, handed_on=True, worker=worker
    )
    return store.renew_claims([renewal]).done


def finish(
    store: Store,
    instance: TaskInstance,
    outcome: Outcome | None = Outcome.COMPLETED,
    *,
    retry_in: timedelta = ZERO,
    hung: bool = False,
    error: str | None = None,
    next_fire_time: datetime | None = None,
) -> bool:
    """Finish one run, called when it was started, and tell whether it was accepted."""
    end = RunOutcome(
        claim=claim_of(instance),
        started_at=instance.started_at,
        outcome=outcome,
        retry_in=retry_in,
        hung=hung,
        error=error,
        next_fire_time=next_fire_time,
    )
    return store.finish_instances([end]).done == {instance.id}


def release(store: Store, instance: TaskInstance, delay: timedelta = ZERO) -> bool:
    """Give one instance back, and tell whether it was accepted."""
    given_back = Release(claim=claim_of(instance), delay=delay)
    return store.release_instances([given_back]).done == {instance.id}


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
