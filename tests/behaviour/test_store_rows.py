"""What is scheduled, run and cleaned up on every kind of store, and much of it."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from go_scheduler import (
    CatchUp,
    ConfigurationError,
    CronTrigger,
    Job,
    Overlap,
    RetryPolicy,
    State,
    TaskDefinition,
)
from go_scheduler.testing.clock import START
from tests.behaviour.store_house import (
    DAY,
    HOUR,
    MINUTE,
    MOMENT,
    NOW,
    SECOND,
    SELDOM,
    House,
    ids,
    once,
    pages,
    running,
    task,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from go_scheduler import Store, TaskInstance
    from go_scheduler.client import Client
    from go_scheduler.testing import ManualClock


EVERY_FIELD = TaskDefinition(
    trigger=CronTrigger("0 9 * * MON-FRI", timezone="Europe/Berlin"),
    key='a key, with: "signs"; and é',
    name="Über 'quoted' \\ ✓",
    queue="a queue, with: signs; and é",
    priority=3,
    metadata={"deep": [{"a": [1, 2.5, None, True, "\n\"'"]}], "ключ": "😀"},
    expire_after=timedelta(seconds=90.5),
    timeout=timedelta(seconds=45),
    start_timeout=MINUTE,
    heartbeat_timeout=timedelta(seconds=7),
    retry=RetryPolicy(
        max_attempts=5,
        delay=SECOND,
        factor=1.5,
        max_delay=HOUR,
        jitter=0.25,
        stop_on=["KeyError"],
    ),
    catch_up=CatchUp(mode="none", grace=MINUTE, within=HOUR, drop_after=DAY),
    jitter=timedelta(seconds=3),
    overlap=Overlap.BUFFER_ONE,
    lock="printer",
    max_per_node=2,
    max_queue=9,
    when_full="drop",
)


EDITS: Mapping[str, object] = {
    "name": "other",
    "queue": "other",
    "priority": 0,
    "metadata": {"deep": []},
    "expire_after": MINUTE,
    "timeout": None,
    "start_timeout": HOUR,
    "heartbeat_timeout": None,
    "retry": RetryPolicy(max_attempts=6),
    "catch_up": None,
    "jitter": None,
    "overlap": Overlap.ALLOW,
    "lock": "other",
    "max_per_node": None,
    "max_queue": None,
    "when_full": "refuse",
    "key": None,
}


def test_each_field_can_be_edited_and_the_same_again_changes_nothing(
    client: Client,
) -> None:
    assert {"trigger", "id", *EDITS} == {
        each.name for each in fields(TaskDefinition) if each.compare
    }
    was = client.schedule(EVERY_FIELD)
    assert client.get_definition(was.id).is_same(EVERY_FIELD)
    for revision, (name, value) in enumerate(EDITS.items(), 2):
        edited = replace(was, **{name: value})  # type: ignore[arg-type]
        assert not edited.is_same(was)
        was = client.schedule(edited)
        assert (was.revision, was.is_same(edited)) == (revision, True)
        assert was.next_fire_time == START + timedelta(hours=8)
        assert client.schedule(replace(was, revision=None)).revision == revision
        assert client.get_definition(was.id).is_same(edited)


def test_metadata_may_be_as_large_as_it_says(client: Client) -> None:
    large = {"text": "é" * 32_000}
    new = client.schedule(once(metadata=large))
    assert client.get_definition(new.id).metadata == large
    with pytest.raises(ConfigurationError, match="metadata"):
        once(metadata={"text": "é" * 33_000})


def test_of_many_each_is_answered_in_its_place(client: Client) -> None:
    old = client.schedule_all(once(id=UUID(int=number)) for number in range(1, 520, 2))
    given = [
        once(id=UUID(int=number), name="edited" if number % 2 else None)
        for number in reversed(range(520))
    ]
    stored = client.schedule_all(given)
    assert ids(stored) == ids(given)
    assert [each.revision for each in stored] == [2, 1] * 260
    assert {each.revision for each in old} == {1}


def test_many_are_made_and_answered_in_their_order(client: Client) -> None:
    client.schedule(task())
    jobs: list[Job] = [Job(payload={"n": n}) for n in range(700)]
    jobs[3] = Job(payload={"n": 3}, key="k", at=START + HOUR)
    jobs[650] = Job(payload={"n": 650}, key="k")
    made = client.enqueue_all("send", jobs)
    numbers = [each.payload["n"] for each in made]  # type: ignore[index]
    assert numbers == [3 if n == 650 else n for n in range(700)]
    assert made[650].id == made[3].id
    found = [each for page in pages(client.list_instances, limit=250) for each in page]
    assert {each.id for each in found} == {*ids(made)}
    assert len(found) == 699


def numbers(given: list[TaskInstance]) -> list[object]:
    """What they were enqueued with."""
    return [(each.payload or {}).get("n") for each in given]


def test_what_is_due_is_run_once_and_nothing_early(house: House) -> None:
    house.task()
    for n, after in enumerate((5 * SECOND, -HOUR, 2 * SECOND, NOW)):
        house.scheduler.enqueue("send", at=START + after, n=n)
    house.clock.advance(NOW)
    assert numbers(house.called) == [1, 3]
    house.clock.advance(2 * SECOND - MOMENT)
    assert numbers(house.called) == [1, 3]
    house.clock.advance(MOMENT)
    assert numbers(house.called) == [1, 3, 2]
    house.clock.advance(3 * SECOND)
    assert numbers(house.called) == [1, 3, 2, 0]
    for each in house.called:
        assert (each.attempt, each.runs) == (1, 1)
        assert each.started_at == max(each.due_at, START)
    house.clock.advance(MINUTE)
    assert len(house.called) == 4


def test_what_is_created_and_due_runs_at_once_and_not_at_the_next_look(
    store: Store, clock: ManualClock
) -> None:
    with running(store, clock, **SELDOM) as house:
        clock.advance(NOW)
        one = house.once(NOW)
        of = house.task()
        many = house.scheduler.enqueue_all("send", [{"n": n} for n in range(3)])
        by_hand = house.scheduler.run_now(of.id)
        clock.advance(NOW)
        [fired] = house.of(one)
        expected = {fired.id, *ids(many), by_hand.id}
        assert {*ids(house.called)} == expected
        assert fired.fire_time == START
        assert {house.state(each) for each in house.called} == {State.RUNNING}
        assert house.scheduler.get_definition(one.id).state == "completed"
        # What another has to run, or is paused, or to come, does not.
        house.once(NOW, queue="another")
        house.once(NOW, paused=True)
        house.once(HOUR)
        house.task("later")
        house.scheduler.enqueue("later", delay=HOUR)
        clock.advance(NOW)
        assert len(house.called) == 5


def test_more_than_a_batch_is_cleaned_up_at_once(
    store: Store, clock: ManualClock
) -> None:
    with running(store, clock, retention=MINUTE) as house:
        of = house.task()
        made = house.scheduler.enqueue_all("send", [{"n": n} for n in range(1100)])
        house.scheduler.schedule_all(once(START + HOUR, paused=True) for _ in range(3))
        house.scheduler.delete_definition(of.id)
        assert house.scheduler.counts()[State.PENDING] == 0
        house.task()
        kept = house.scheduler.enqueue_all("send", [{}] * 600)
        for each in kept[:520]:
            house.scheduler.cancel(each.id)
        assert len(made) == 1100
        house.scheduler.pause(TaskDefinition.id_for("task send"))
        house.rest(2 * MINUTE)
        counts = house.scheduler.counts()
        assert {each.value: n for each, n in counts.items() if n} == {"pending": 80}
