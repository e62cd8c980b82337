"""Calls of nodes that are made again while somebody else has locked what they are for.

Of calls that are made at the same moment any may be told that it is busy, the more so
on a busy machine; a node then asks again.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from go_scheduler.errors import StoreUnavailableError
from go_scheduler.models import Outcome
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Release, RunOutcome
from go_scheduler.testing.builders import HOUR, claim_of, claimant

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Answer, Claim, Firing

_Row = TypeVar("_Row")
_Done = TypeVar("_Done")


def started(store: Store, *given: TaskInstance) -> Sequence[TaskInstance]:
    """Start instances under the claims they were read with."""
    return started_all(store, [claim_of(each) for each in given])


def started_all(store: Store, claims: Sequence[Claim]) -> Sequence[TaskInstance]:
    """Start instances under these claims."""
    start = partial(store.start_instances, claimant())
    return _done(start, claims, lambda each: each.instance_id)


def finished(
    store: Store, instance: TaskInstance, outcome: Outcome = Outcome.COMPLETED
) -> bool:
    """Finish one run, and tell whether it was accepted."""
    end = RunOutcome(
        claim=claim_of(instance), started_at=instance.started_at, outcome=outcome
    )
    return bool(_done(store.finish_instances, [end], _instance_of))


def released(store: Store, instance: TaskInstance) -> bool:
    """Give one instance back for an hour, and tell whether it was accepted."""
    release = Release(claim=claim_of(instance), delay=HOUR)
    return bool(_done(store.release_instances, [release], _instance_of))


def fired(store: Store, firings: Sequence[Firing]) -> Sequence[UUID]:
    """Fire definitions; those that were not fired by another."""
    return _done(store.fire_definitions, firings, lambda each: each.definition.id)


def backfilled(
    store: Store, definition: TaskDefinition, fire_times: Sequence[datetime]
) -> Sequence[datetime]:
    """Give fire times their instances; those that no other has given them."""
    made: list[Sequence[datetime]] = []
    while not made:
        with suppress(StoreUnavailableError):
            made.append(
                store.backfill_instances(definition, fire_times, overlap=Overlap.ALLOW)
            )
    return made[0]


def _done(
    call: Callable[[Sequence[_Row]], Answer[Collection[_Done]]],
    rows: Sequence[_Row],
    id_of: Callable[[_Row], UUID],
) -> Sequence[_Done]:
    """What a call has done in the end, made again for the rows that were busy."""
    done: list[_Done] = []
    while rows:
        answer = call(rows)
        done += answer.done
        rows = [each for each in rows if id_of(each) in answer.busy]
    return done


def _instance_of(row: RunOutcome | Release) -> UUID:
    return row.claim.instance_id
