"""Why a run on a bus has not begun: what says whom it waits for, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler import MemoryStore
from go_scheduler.client import Client
from go_scheduler.models import Stage
from go_scheduler.running.remote_runs import HandedOut
from go_scheduler.stores.messages import Claim, Renewal
from go_scheduler.testing.builders import MINUTE, claim_of, running

if TYPE_CHECKING:
    from go_scheduler.models import TaskInstance
    from go_scheduler.testing import ManualClock


def published(store: MemoryStore) -> TaskInstance:
    """A run that is on the bus, for a minute."""
    run = running(store)
    renewal = Renewal(
        claim=claim_of(run), lease=MINUTE, handed_on=True, stage=Stage.PUBLISHED
    )
    assert store.renew_claims([renewal]).done
    return store.get_instance(run.id)


def test_why_says_that_what_is_published_waits_for_a_worker(clock: ManualClock) -> None:
    store = MemoryStore(clock)
    run = published(store)
    assert "for a worker to accept it" in Client(store).why(run.id).text


def test_why_says_who_has_accepted_what_has_not_begun(clock: ManualClock) -> None:
    store = MemoryStore(clock)
    run, client = published(store), Client(store)
    client.accept(run.id, run.attempt, worker="mail 7", by=MINUTE)
    assert client.why(run.id).text == (
        "It was accepted at 2030-01-01 00:00:00 UTC, by the worker 'mail 7', which is"
        " to begin it by 2030-01-01 00:01:00 UTC. Else it has failed, and any node"
        " takes it over."
    )


def test_why_names_no_time_as_one_to_come_that_is_over(clock: ManualClock) -> None:
    store = MemoryStore(clock)
    lost, begun = published(store), published(store)
    client = Client(store)
    client.accept(begun.id, begun.attempt, worker="mail 7", by=MINUTE)
    clock.advance(MINUTE)
    over = " 2030-01-01 00:01:00 UTC. That is overdue: a node that serves its queue"
    assert f"and was to be accepted by a worker by{over}" in client.why(lost.id).text
    why = client.why(begun.id).text
    assert f"which was to begin it by{over}" in why
    assert "But no node is alive that takes anything: start a scheduler." in why


def test_of_more_than_it_remembers_the_oldest_is_forgotten(clock: ManualClock) -> None:
    store = MemoryStore(clock)
    handed_out = HandedOut(most=1)
    first, second = running(store), running(store)
    handed_out.add(first)
    handed_out.add(second)
    assert handed_out.get(Claim.of(first)) is None
    assert handed_out.get(Claim.of(second)) is not None
