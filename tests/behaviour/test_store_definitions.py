"""Definitions on every kind of store, as whoever schedules them sees them."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from go_scheduler import (
    CatchUp,
    ConfigurationError,
    ConflictError,
    CronTrigger,
    DefinitionState,
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    OnDemandTrigger,
    Overlap,
    RetryPolicy,
    TaskDefinition,
    TaskDefinitionNotFoundError,
)
from go_scheduler.client import Client
from go_scheduler.testing.clock import START
from tests.behaviour.store_house import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    House,
    ids,
    once,
    pages,
    running,
    task,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from go_scheduler import Store
    from go_scheduler.testing import ManualClock
    from go_scheduler.triggers import Trigger

HOURLY = IntervalTrigger(HOUR, anchor=START)


@pytest.fixture
def client(store: Store) -> Client:
    client = Client(store)
    client.check()
    return client


EVERY_FIELD = TaskDefinition(
    trigger=CronTrigger("0 9 * * MON-FRI", timezone="Europe/Berlin"),
    id=UUID(int=7),
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


def test_every_field_is_kept_as_it_was_scheduled(client: Client) -> None:
    stored = client.schedule(EVERY_FIELD)
    [listed] = client.list_definitions()
    for found in (stored, listed, client.get_definition(EVERY_FIELD.id)):
        assert found.is_same(EVERY_FIELD)
        assert found.next_fire_time == START + timedelta(hours=8)
        assert (found.revision, found.named, found.state) == (1, True, "active")


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
}


def test_each_field_can_be_edited_and_the_same_again_changes_nothing(
    client: Client,
) -> None:
    assert {"trigger", "id", *EDITS} == {
        each.name for each in fields(TaskDefinition) if each.compare
    }
    was = client.schedule(EVERY_FIELD)
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


# Lists.


@pytest.fixture
def listed(client: Client) -> dict[str, TaskDefinition]:
    """Definitions of all kinds, of which each id sorts as its name does."""
    given: dict[str, Any] = {
        "a": {"trigger": ExecuteOnceTrigger(START + HOUR), "name": "print"},
        "b": {"trigger": HOURLY, "queue": "mail", "metadata": {"of": [1, 2]}},
        "c": {"trigger": OnDemandTrigger(), "name": "printer", "queue": "mail"},
        "d": {"trigger": ExecuteOnceTrigger(START + MINUTE), "metadata": {"of": [2]}},
        "e": {"trigger": ExecuteOnceTrigger(START + HOUR), "queue": "fax"},
        "f": {"trigger": HOURLY, "name": "print", "paused": True, "note": "why"},
        "g": {"trigger": DelayTrigger(DAY), "name": "Print"},
    }
    made = {
        name: client.schedule(TaskDefinition(id=UUID(int=key), **each))
        for key, (name, each) in enumerate(given.items(), 1)
    }
    for owner, theirs in (("shop", "ab"), ("site", "e")):
        client.declare([made[each] for each in theirs], owner=owner, adopt=True)
    return {each: client.get_definition(one.id) for each, one in made.items()}


CONDITIONS: list[tuple[dict[str, Any], str]] = [
    ({}, "abcdefg"),
    ({"ids": [UUID(int=2), UUID(int=6), UUID(int=99)]}, "bf"),
    ({"ids": []}, ""),
    ({"name": "print"}, "af"),
    ({"queue": "mail"}, "bc"),
    ({"queue": "none"}, ""),
    ({"queues": ["mail", "fax", "none"]}, "bce"),
    ({"queues": []}, ""),
    ({"owner": "shop"}, "ab"),
    ({"owners": ["shop", "site"]}, "abe"),
    ({"owners": ["none"]}, ""),
    ({"queues": ["mail", "fax"], "owners": ["shop", "site"]}, "be"),
    ({"metadata": {}}, "abcdefg"),
    ({"metadata": {"of": [2]}}, "bd"),
    ({"metadata": {"of": [2, 1]}}, "b"),
    ({"metadata": {"of": []}}, "bd"),
    ({"metadata": {"of": 2}}, ""),
    ({"metadata": {"to": None}}, ""),
    ({"state": "active"}, "abcdeg"),
    ({"state": DefinitionState.PAUSED}, "f"),
    ({"state": "completed"}, ""),
    ({"name": "print", "state": "paused"}, "f"),
    ({"name": "print", "queue": "mail"}, ""),
    ({"soonest_first": True}, "dabefgc"),
    ({"soonest_first": True, "queue": "mail"}, "bc"),
    ({"soonest_first": True, "state": "active"}, "dabegc"),
    ({"soonest_first": True, "owners": ["site", "shop"]}, "abe"),
    ({"soonest_first": True, "ids": [UUID(int=1), UUID(int=3), UUID(int=4)]}, "dac"),
]


def test_lists_are_of_what_meets_every_condition_in_their_order_page_after_page(
    client: Client, listed: dict[str, TaskDefinition]
) -> None:
    names = {each.id: name for name, each in listed.items()}
    for conditions, expected in CONDITIONS:
        found = client.list_definitions(**conditions)
        assert "".join(names[each.id] for each in found) == expected, conditions
        assert [listed[names[each.id]] for each in found] == found
        for limit in (1, 2, 3):
            paged = pages(client.list_definitions, limit=limit, **conditions)
            parts = ["".join(names[each.id] for each in page) for page in paged]
            assert "".join(parts) == expected, (conditions, limit)
            assert all(len(each) == limit for each in parts[:-1])


def test_names_are_searched_by_how_they_begin(
    client: Client, listed: dict[str, TaskDefinition]
) -> None:
    def found(prefix: str, **conditions: Any) -> str:
        names = {each.id: name for name, each in listed.items()}
        searched = client.search_names(prefix, **conditions)
        return "".join(names[each.id] for each in searched)

    assert found("print") == "acf"
    assert found("printe") == "c"
    assert found("P") == "g"
    assert found("%") == found("_") == found("rint") == ""
    assert found("print", limit=2) == "ac"
    assert found("print", queues=["mail"]) == "c"
    assert found("print", owners=["shop"]) == "a"


def test_a_long_list_is_read_whole(client: Client) -> None:
    made = client.schedule_all(once(START + HOUR) for _ in range(1200))
    read = [
        each
        for page in pages(client.list_definitions, limit=500, soonest_first=True)
        for each in page
    ]
    assert ids(read) == sorted(ids(made))
    chosen = client.list_definitions(ids=ids(made), limit=1000)
    assert len(chosen) == 1000


# Paused, resumed, deleted.


def test_an_edit_of_one_that_was_deleted_and_made_anew_is_a_conflict(
    client: Client,
) -> None:
    was = client.schedule(once(id=UUID(int=7)))
    client.delete_definition(was.id)
    client.schedule(once(id=UUID(int=7)))
    with pytest.raises(ConflictError):
        client.schedule(replace(was, name="b"))


def test_what_is_not_there_is_said_to_be_missing(client: Client) -> None:
    nobody = uuid4()
    for call in (client.get_definition, client.pause, client.resume):
        with pytest.raises(TaskDefinitionNotFoundError) as caught:
            call(nobody)
        assert caught.value.definition_id == nobody
    assert not client.delete_definition(nobody)


def test_a_completed_one_says_when_and_is_live_again_with_another_trigger(
    store: Store, clock: ManualClock
) -> None:
    with running(store, clock) as house:
        of = house.once(5 * SECOND)
        assert of.state == "active"
        clock.advance(5 * SECOND)
        done = house.scheduler.get_definition(of.id)
        assert (done.state, done.next_fire_time) == ("completed", None)
        assert done.completed_at is not None
        assert START <= done.completed_at <= START + 5 * SECOND
        assert house.scheduler.list_definitions(state="completed") == [done]
        at = ExecuteOnceTrigger(START + HOUR)
        again = house.scheduler.schedule(replace(done, trigger=at))
        assert (again.state, again.completed_at) == ("active", None)
        house.rest(HOUR)
        assert len(house.called) == 2


# Remembered ids.


def program(house: House, trigger: Trigger) -> TaskDefinition:
    """What a program schedules at each of its starts."""
    new = TaskDefinition(trigger=trigger, id=UUID(int=7))
    return house.scheduler.schedule(new)


@pytest.fixture
def forgetful(store: Store, clock: ManualClock) -> Any:
    """A scheduler that cleans up soon, and remembers for a day."""
    settings = {"retention": MINUTE, "remember": DAY, "retention_failed": HOUR}
    with running(store, clock, **settings) as house:
        house.answer = lambda _: None
        yield house


def test_an_id_that_has_ended_and_is_gone_does_not_run_again_with_its_trigger(
    forgetful: House, clock: ManualClock
) -> None:
    trigger = ExecuteOnceTrigger(START)
    program(forgetful, trigger)
    clock.advance(SECOND)
    forgetful.rest(2 * MINUTE)
    assert forgetful.scheduler.list_definitions() == []
    again = program(forgetful, trigger)
    assert (again.state, again.next_fire_time) == ("completed", None)
    assert again.completed_at == START
    forgetful.rest(MINUTE)
    assert len(forgetful.called) == 1
    assert forgetful.scheduler.list_definitions() == []


@pytest.mark.parametrize(
    "forgotten", ["by another trigger", "by a delete", "after its time"]
)
def test_an_id_that_is_not_remembered_any_more_runs_again(
    forgetful: House, clock: ManualClock, forgotten: str
) -> None:
    trigger = ExecuteOnceTrigger(START)
    program(forgetful, trigger)
    clock.advance(SECOND)
    forgetful.rest(2 * MINUTE)
    assert len(forgetful.called) == 1
    if forgotten == "by another trigger":
        trigger = ExecuteOnceTrigger(START + SECOND)
    elif forgotten == "by a delete":
        # There was nothing to delete but what was remembered.
        assert not forgetful.scheduler.delete_definition(UUID(int=7))
    else:
        forgetful.rest(DAY)
    assert program(forgetful, trigger).state == "active"
    clock.advance(SECOND)
    assert len(forgetful.called) == 2


# Declared sets.


def test_a_set_is_what_its_owner_has_declared_last(client: Client) -> None:
    def declared(*names: str, **options: Any) -> dict[str, int | None]:
        client.declare([task(each) for each in names], owner="shop", **options)
        found = client.list_definitions(owner="shop")
        return {str(each.name): each.revision for each in found}

    other = client.schedule(task("other"))
    assert declared("a", "b") == {"a": 1, "b": 1}
    assert declared("b", "a") == {"a": 1, "b": 1}
    assert declared("b", "c") == {"b": 1, "c": 1}
    # What is removed by a pause stays in the set until it is declared again.
    assert declared("c", removed="pause") == {"b": 2, "c": 1}
    [paused] = client.list_definitions(state="paused")
    assert paused.name == "b"
    assert "shop" in (paused.note or "")
    assert declared("b", "c") == {"b": 3, "c": 1}
    assert client.list_definitions(state="paused") == []
    assert declared("c", removed="keep") == {"b": 3, "c": 1}
    assert declared() == {}
    assert client.list_definitions() == [other]
