"""Calls of nodes that are made again while somebody else has locked what they are for.

Of calls that are made at the same moment any may be told that it is busy, the more so
on a busy machine; a node then asks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.models import Outcome
from go_scheduler.stores.messages import Release, RunOutcome
from go_scheduler.testing.builders import HOUR, claim_of, claimant

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Claim, Firing


def started(store: Store, *given: TaskInstance) -> Sequence[TaskInstance]:
    """Start instances under the claims they were read with."""
    return started_all(store, [claim_of(each) for each in given])


def started_all(store: Store, claims: Sequence[Claim]) -> Sequence[TaskInstance]:
    """Start instances under these claims."""
    found: list[TaskInstance] = []
    while claims:
        answer = store.start_instances(claimant(), claims)
        found += answer.done
        claims = [each for each in claims if each.instance_id in answer.busy]
    return found


def finished(
    store: Store, instance: TaskInstance, outcome: Outcome = Outcome.COMPLETED
) -> bool:
    """Finish one run, and tell whether it was accepted."""
    end = RunOutcome(
        claim=claim_of(instance), started_at=instance.started_at, outcome=outcome
    )
    done: set[UUID] = set()
    ends = [end]
    while ends:
        answer = store.finish_instances(ends)
        done.update(answer.done)
        ends = [each for each in ends if each.claim.instance_id in answer.busy]
    return done == {instance.id}


def released(store: Store, instance: TaskInstance) -> bool:
    """Give one instance back for an hour, and tell whether it was accepted."""
    done: set[UUID] = set()
    releases = [Release(claim=claim_of(instance), delay=HOUR)]
    while releases:
        answer = store.release_instances(releases)
        done.update(answer.done)
        releases = [each for each in releases if each.claim.instance_id in answer.busy]
    return done == {instance.id}


def fired(store: Store, firings: Sequence[Firing]) -> set[UUID]:
    """Fire definitions; those that were not fired by another."""
    won: set[UUID] = set()
    while firings:
        answer = store.fire_definitions(firings)
        won.update(answer.done)
        firings = [each for each in firings if each.definition.id in answer.busy]
    return won
