"""Why: what waits, for what and since when, as the real loops leave it."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.client.on_demand import Job
from go_scheduler.models import State, TaskDefinition
from go_scheduler.policies import Overlap, RetryPolicy
from go_scheduler.stores.memory import MemoryStore
from go_scheduler.testing.builders import HOUR, MINUTE, NOBODY, SECOND
from go_scheduler.testing.clock import START
from go_scheduler.triggers.simple import (
    ExecuteOnceTrigger,
    IntervalTrigger,
    OnDemandTrigger,
)
from go_scheduler.why import Because
from tests.behaviour.house import Later
from tests.client.house import House, fail

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock

ONCE = RetryPolicy(max_attempts=1)
LATER = RetryPolicy(delay=30 * MINUTE)
DB = "db"


@pytest.fixture
def busy(store: Store, clock: ManualClock) -> House:
    """A house in which what has begun goes on."""
    house = House(store, clock, executor=Later())
    house.schedule(OnDemandTrigger(), lock=DB, name="first")
    house.scheduler.run_now(house.definition.id)
    house.run_for(SECOND)
    return house


def test_what_runs_of_a_paused_one_is_told_and_that_it_is_paused(busy: House) -> None:
    busy.scheduler.pause(busy.definition.id, "no more")
    why = busy.why()
    assert why.because is Because.RUNNING
    assert " It is paused since 2030-01-01 00:00:01 UTC (no more), so that" in why.text


def test_it_is_held_by_a_node_of_a_host_until_then(house: House) -> None:
    house.schedule(IntervalTrigger(HOUR))
    house.run_for(SECOND)
    [node] = house.scheduler.nodes()
    why = house.why()
    assert why.because is Because.HELD
    assert why.node is not None
    assert why.instance is not None
    assert why.until == why.instance.expires_at
    assert (
        f"2030-01-01 01:00:00 UTC, and is held by {node}. Its claim holds" in why.text
    )
    assert node.pid is not None
    assert f"pid {node.pid}" in why.text
    assert why.text.endswith(" Its definition fires next at 2030-01-01 02:00:00 UTC.")


def test_it_waits_in_a_queue_that_no_node_has_served_since(
    store: Store, clock: ManualClock
) -> None:
    mail = House(store, clock, queues=["mail"])
    mail.run_for(SECOND)
    [gone] = mail.scheduler.nodes()
    mail.scheduler.stop()
    house = House(store, clock)
    house.schedule(ExecuteOnceTrigger(START + MINUTE), queue="mail")
    to_come = house.why().text
    house.run_for(10 * MINUTE)
    why = house.why()
    assert (why.because, why.since) == (Because.WAITS_FOR_NODE, START + MINUTE)
    since = "the last was " + str(gone) + ", seen at 2030-01-01 00:00:01 UTC"
    assert f"no living node serves the queue 'mail'; {since}." in why.text
    # It is known before it is due that nobody would take it.
    assert " But no " in to_come


def test_it_waits_in_a_queue_of_its_own(house: House) -> None:
    task = TaskDefinition.id_for("task send")
    house.schedule(OnDemandTrigger(), id=task)
    house.scheduler.enqueue_all("send", [Job(overrides={"queue": "mail"})])
    house.run_for(MINUTE)
    why = house.why()
    assert why.because is Because.WAITS_FOR_NODE
    assert "no living node serves the queue 'mail'" in why.text


def test_it_is_run_again_at_a_time_after_an_error(
    store: Store, clock: ManualClock
) -> None:
    # It is claimed no sooner than it has to be.
    house = House(store, clock, fail, retry=LATER, runner_window=MINUTE)
    house.schedule(ExecuteOnceTrigger(START + MINUTE))
    house.run_for(2 * MINUTE)
    [instance] = house.scheduler.list_instances()
    for why in (house.why(), house.scheduler.why(instance.id)):
        assert (why.because, why.until) == (Because.RETRY, START + 31 * MINUTE)
        assert why.text == (
            "It runs again at 2030-01-01 00:31:00 UTC, in 29 min. Last error:"
            " ValueError: no paper."
        )


def test_it_is_found_by_its_fire_time_whenever_its_jitter_lets_it_run(
    house: House,
) -> None:
    # By this id some ten are done within ten minutes; by another it may be one.
    house.schedule(IntervalTrigger(SECOND * 5), jitter=HOUR, id=NOBODY)
    house.run_for(timedelta(0))
    while not any(each.completed_at for each in house.scheduler.list_instances()):
        house.clock.advance(10 * MINUTE)
    done = house.scheduler.list_instances(state=State.COMPLETED)
    for each in done[:: len(done) // 5]:
        assert each.fire_time is not None
        why = house.why(each.fire_time)
        assert why.instance is not None
        assert (why.because, why.instance.id) == (Because.COMPLETED, each.id)


def test_when_its_jitter_will_let_it_run_is_told_before(house: House) -> None:
    house.schedule(ExecuteOnceTrigger(START + HOUR), jitter=HOUR)
    text = house.why().text
    house.run_for(SECOND)
    [made] = house.scheduler.list_instances()
    at = made.execute_at.replace(tzinfo=None).isoformat(" ", "microseconds")
    assert f", and is to run at {at} UTC by its jitter; " in text
    assert f"It is due at {at} UTC by its jitter, and is held by " in house.why().text
    waiting = House(house.store, house.clock, queues=["other"])
    waiting.schedule(ExecuteOnceTrigger(START + HOUR), jitter=HOUR)
    waiting.run_for(SECOND)
    assert re.search(r"It is due at .+ UTC by its jitter, in ", waiting.why().text)


def test_of_a_task_what_waits_is_found_among_all_that_is_to_come(
    store: Store, clock: ManualClock
) -> None:
    house = House(store, clock, queues=["other"])
    house.schedule(OnDemandTrigger())
    waits = house.scheduler.run_now(house.definition.id)
    for _ in range(101):
        house.scheduler.run_now(house.definition.id, at=START + 9 * HOUR)
    house.run_for(MINUTE)
    why = house.why()
    assert why.instance is not None
    assert (why.because, why.instance.id) == (Because.WAITS_FOR_NODE, waits.id)


def test_the_one_of_its_own_definition_that_it_waits_for_is_named(busy: House) -> None:
    busy.schedule(OnDemandTrigger(), overlap=Overlap.BUFFER_ALL)
    runs = busy.scheduler.run_now(busy.definition.id)
    busy.clock.advance(SECOND)
    waits = busy.scheduler.run_now(busy.definition.id)
    busy.clock.advance(SECOND)
    asked = [busy.scheduler.why(waits.id), busy.why(waits.execute_at)]
    [node] = busy.scheduler.nodes()
    for why in asked:
        assert why.because is Because.PARKED
        assert why.holder is not None
        assert why.holder.id == runs.id
        assert (
            "and waits until another one of its definition has ended. Instance"
            f" {runs.id}: It is running, since 2030-01-01 00:00:01 UTC, on {node}."
        ) in why.text


def test_who_has_the_lock_that_it_waits_for_is_named(busy: House) -> None:
    first = busy.definition
    [runs] = busy.scheduler.list_instances()
    busy.schedule(OnDemandTrigger(), lock=DB)
    waits = busy.scheduler.run_now(busy.definition.id)
    busy.clock.advance(SECOND)
    asked = [busy.why(), busy.scheduler.why(waits.id)]
    [node] = busy.scheduler.nodes()
    for why in asked:
        assert why.because is Because.PARKED
        assert why.holder is not None
        assert why.holder.id == runs.id
        assert (
            f"waits until whatever has the lock 'db' has ended. Instance {runs.id} of"
            f" definition {first.id} (first): It is running, since 2030-01-01 00:00:00"
            f" UTC, on {node}. Its claim holds until"
        ) in why.text


def test_what_is_run_again_by_hand_has_its_last_error(
    store: Store, clock: ManualClock
) -> None:
    house = House(store, clock, fail, retry=ONCE)
    house.schedule(OnDemandTrigger())
    failed = house.scheduler.run_now(house.definition.id)
    house.run_for(SECOND)
    house.scheduler.stop()
    house.scheduler.retry(failed.id)
    for why in (house.why(), house.scheduler.why(failed.id)):
        assert why.because is Because.WAITS_FOR_NODE
        assert why.text.endswith(
            " It has run before. Last error: ValueError: no paper. It was made to run"
            " again, by hand, at 2030-01-01 00:00:01 UTC."
        )


@pytest.mark.parametrize("engine", ["memory"])
@pytest.mark.parametrize("at", [None, START, START + HOUR])
def test_it_takes_a_few_short_reads(
    busy: House, monkeypatch: pytest.MonkeyPatch, at: Any
) -> None:
    busy.schedule(OnDemandTrigger(), lock=DB)
    busy.scheduler.run_now(busy.definition.id)
    busy.clock.advance(SECOND)
    reads = list[str]()

    def noted(name: str) -> None:
        read = getattr(MemoryStore, name)

        def note(self: MemoryStore, *args: object, **asked: Any) -> object:
            reads.append(name)
            assert asked.get("limit", 1) <= 100
            return read(self, *args, **asked)

        monkeypatch.setattr(MemoryStore, name, note)

    for name in dir(MemoryStore):
        if name.startswith(("get_", "list_", "slot_")):
            noted(name)
    busy.why(at)
    assert len(reads) <= 8
    assert "list_contacts" in reads
