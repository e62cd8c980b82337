"""Definitions on every kind of store, as whoever schedules them sees them."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from functools import partial
from threading import Barrier, Thread
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
    QueueFullError,
    RetryPolicy,
    State,
    TaskDefinition,
    TaskDefinitionNotFoundError,
)
from go_scheduler.client import Client
from go_scheduler.testing.clock import START
from tests.behaviour.store_house import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    House,
    ids,
    once,
    pages,
    running,
    task,
)
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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


def test_one_and_true_are_not_the_same_in_metadata(client: Client) -> None:
    new = client.schedule(once(metadata={"a": 1}))
    again = client.schedule(replace(new, metadata={"a": True}))
    assert again.revision == 2
    assert client.get_definition(new.id).metadata["a"] is True


def test_metadata_may_be_as_large_as_it_says(client: Client) -> None:
    large = {"text": "é" * 32_000}
    new = client.schedule(once(metadata=large))
    assert client.get_definition(new.id).metadata == large
    with pytest.raises(ConfigurationError, match="metadata"):
        once(metadata={"text": "é" * 33_000})


def test_another_trigger_starts_anew_and_what_it_had_made_goes(
    store: Store, clock: ManualClock
) -> None:
    with running(store, clock, schedule_window=HOUR, lease=HOUR) as house:
        of = house.scheduler.schedule(
            TaskDefinition(trigger=IntervalTrigger(10 * MINUTE, anchor=START))
        )
        house.rest(10 * MINUTE)
        [runs, *to_come] = house.of(of)
        assert runs.state is State.RUNNING
        assert {each.state for each in to_come} == {State.PENDING}
        moved = house.scheduler.schedule(replace(of, trigger=HOURLY, revision=None))
        assert moved.next_fire_time == START + HOUR
        assert ids(house.of(of)) == [runs.id]
        assert house.complete(runs)
        house.rest(50 * MINUTE)
        fired = [each.fire_time for each in house.of(of)]
        assert fired[:2] == [START + 10 * MINUTE, START + HOUR]


def test_what_had_passed_and_not_fired_is_recorded_as_skipped_by_an_edit(
    client: Client, clock: ManualClock
) -> None:
    of = client.schedule(TaskDefinition(trigger=HOURLY))
    clock.advance(2 * HOUR + MINUTE)
    later = ExecuteOnceTrigger(START + DAY)
    client.schedule(replace(of, trigger=later, revision=None))
    [record] = client.list_instances(definition_id=of.id)
    assert record.state is State.SKIPPED
    assert record.skipped is not None
    found = (record.skipped.first, record.skipped.last, record.skipped.count)
    assert found == (START + HOUR, START + 2 * HOUR, 2)


def test_an_edit_moves_what_waits_to_another_queue(
    store: Store, clock: ManualClock
) -> None:
    with running(store, clock, queues=["other"]) as house:
        of = house.task()
        waits = house.scheduler.run_now(of.id)
        clock.advance(2 * SECOND)
        assert house.called == []
        house.scheduler.schedule(replace(of, queue="other"))
        clock.advance(SECOND)
        assert ids(house.called) == [waits.id]
        assert house.called[0].definition.queue == "other"


@pytest.mark.parametrize("revision", [0, 1, 3])
def test_an_edit_of_another_revision_is_a_conflict_and_none_of_its_batch_is_put(
    client: Client, revision: int
) -> None:
    was = client.schedule(once())
    now = client.schedule(replace(was, name="b"))
    new = once()
    with pytest.raises(ConflictError):
        client.schedule_all([new, replace(now, name="c", revision=revision)])
    assert client.get_definition(now.id) == now
    assert client.list_definitions() == [now]


def test_revision_zero_is_of_one_that_is_to_be_new(client: Client) -> None:
    new = client.schedule(once(revision=0))
    assert new.revision == 1
    with pytest.raises(ConflictError):
        client.schedule(replace(new, revision=0))


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


def test_metadata_is_found_by_what_it_contains_however_deep(client: Client) -> None:
    given: Mapping[str, Any] = {"a": {"b": [{"c": 1, "d": "x"}, "é'\"\\%"]}, "n": 1.5}
    of = client.schedule(once(metadata=given))
    client.schedule(once(metadata={"a": {"b": []}, "n": 2}))
    for contained, found in (
        ({"a": {}}, 2),
        ({"a": {"b": [{"c": 1}]}}, 1),
        ({"a": {"b": [{"c": 1, "d": "x"}]}, "n": 1.5}, 1),
        ({"a": {"b": ["é'\"\\%"]}}, 1),
        ({"a": {"b": [{"c": 2}]}}, 0),
        ({"a": {"b": "é'\"\\%"}}, 0),
        ({"a": []}, 0),
        ({"n": 2.0}, 1),
        ({"n": True}, 0),
        ({"n": "1.5"}, 0),
    ):
        assert len(client.list_definitions(metadata=contained)) == found, contained  # type: ignore[arg-type]
    assert client.list_definitions(metadata=given) == [of]


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


def test_a_pause_takes_back_what_is_to_come_and_freezes_what_has_passed(
    store: Store, clock: ManualClock
) -> None:
    settings: dict[str, Any] = {"queues": ["another"]}
    settings |= {"schedule_window": HOUR, "runner_window": MINUTE, "lease": HOUR}
    with running(store, clock, **settings) as house:
        every = IntervalTrigger(10 * MINUTE, anchor=START)
        of = house.scheduler.schedule(
            TaskDefinition(trigger=every, catch_up=CatchUp(mode="all"))
        )
        house.rest(10 * MINUTE)
        house.rest(15 * MINUTE)
        assert len(house.of(of)) > 3
        paused = house.scheduler.pause(of.id, "why")
        assert (paused.state, paused.note) == ("paused", "why")
        assert paused.paused_at == START + 25 * MINUTE
        assert (paused.next_fire_time, paused.revision) == (START + 30 * MINUTE, 2)
        kept = house.of(of)
        assert [each.fire_time for each in kept] == [
            START + number * 10 * MINUTE for number in (1, 2)
        ]
        assert house.scheduler.backlog() == []
        assert house.scheduler.list_waiting() == []
        house.rest(MINUTE)
        again = house.scheduler.pause(of.id, "for another reason")
        assert (again.paused_at, again.note) == (paused.paused_at, "for another reason")
        house.rest(9 * MINUTE)
        resumed = house.scheduler.resume(of.id)
        assert (resumed.state, resumed.note, resumed.paused_at) == (
            "active",
            None,
            None,
        )
        assert resumed.last_pause is not None
        assert resumed.last_pause.since == paused.paused_at
        assert ids(house.scheduler.list_waiting()) == ids(kept)
        house.rest(MINUTE)
        fired = [each.fire_time for each in house.of(of)]
        assert fired[:4] == [START + number * 10 * MINUTE for number in range(1, 5)]


def test_what_runs_when_it_is_paused_goes_on_and_what_fails_waits(
    store: Store, clock: ManualClock
) -> None:
    with running(store, clock) as house:
        runs = house.run(retry=RetryPolicy(delay=SECOND, max_attempts=3))
        house.scheduler.pause(runs.definition.id)
        assert house.scheduler.extend(runs.id, runs.attempt, HOUR) == "go on"
        assert house.fail(runs)
        clock.advance(2 * SECOND)
        assert len(house.called) == 1
        house.scheduler.resume(runs.definition.id)
        clock.advance(SECOND)
        assert [each.attempt for each in house.called] == [1, 2]


def test_a_new_one_may_be_paused_and_an_edit_keeps_it_so(client: Client) -> None:
    new = client.schedule(once(paused=True, note="not yet"))
    assert (new.state, new.note, new.paused_at) == ("paused", "not yet", START)
    edited = client.schedule(replace(new, name="b", paused=False, note=None))
    assert (edited.state, edited.note) == ("paused", "not yet")
    assert client.resume(new.id).state == "active"


def test_deleted_means_gone_with_what_has_not_started(
    store: Store, clock: ManualClock
) -> None:
    with running(store, clock) as house:
        of = house.task(lock="one")
        runs, ended, waits = (house.scheduler.run_now(of.id) for _ in range(3))
        clock.advance(SECOND)
        first = house.called[0]
        assert house.complete(first)
        clock.advance(SECOND)
        second = house.called[1]
        assert {first.id, second.id} < {runs.id, ended.id, waits.id}
        assert house.scheduler.delete_definition(of.id)
        assert not house.scheduler.delete_definition(of.id)
        with pytest.raises(TaskDefinitionNotFoundError):
            house.scheduler.get_definition(of.id)
        assert house.of(of) == []
        assert house.state(first) is State.COMPLETED
        # What ran has lost its claim, and its result is dropped.
        assert house.state(second) is State.CANCELLED
        assert house.scheduler.extend(second.id, second.attempt, HOUR) == "lost"
        assert not house.complete(second)
        counts = house.scheduler.counts()
        assert {each: n for each, n in counts.items() if n} == {
            "completed": 1,
            "cancelled": 1,
        }
        # The same id is a new definition, with nothing of the former one.
        new = house.task()
        assert house.of(new) == []
        assert new.revision is not None
        assert new.revision > (of.revision or 0)


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


def test_an_id_that_was_made_up_is_not_remembered(
    forgetful: House, clock: ManualClock
) -> None:
    made_up = forgetful.once()
    clock.advance(SECOND)
    forgetful.rest(2 * MINUTE)
    assert forgetful.scheduler.list_definitions() == []
    again = forgetful.scheduler.schedule(
        TaskDefinition(trigger=made_up.trigger, id=made_up.id)
    )
    assert again.state == "active"


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


def test_of_versions_the_highest_counts(client: Client) -> None:
    def declared(*names: str, version: int | None) -> set[str | None]:
        new = [task(each) for each in names]
        client.declare(new, owner="shop", version=version)
        return {each.name for each in client.list_definitions(owner="shop")}

    assert declared("a", version=None) == {"a"}
    assert declared("b", version=7) == {"b"}
    assert declared("a", version=6) == {"b"}
    assert declared("a", version=None) == {"b"}
    assert declared("b", "c", version=7) == {"b", "c"}
    assert declared("a", version=8) == {"a"}


def test_what_others_have_is_refused_and_nothing_of_it_is_declared(
    client: Client,
) -> None:
    client.declare([task("a")], owner="shop")
    free = client.schedule(task("free"))
    for taken, said in (("a", "the set of 'shop'"), ("free", "in no declared set")):
        with pytest.raises(ConfigurationError, match=said):
            client.declare([task("new"), task(taken)], owner="site")
    assert client.list_definitions(owner="site") == []
    assert len(client.list_definitions()) == 2
    client.declare([task("free")], owner="site", adopt=True)
    adopted = client.get_definition(free.id)
    assert (adopted.owner, adopted.revision) == ("site", 1)
    # An edit keeps whose it is.
    assert client.schedule(replace(adopted, name="b", owner=None)).owner == "site"


def test_a_stale_revision_leaves_the_whole_set_as_it_was(client: Client) -> None:
    [was] = client.declare([task("a")], owner="shop")
    client.schedule(replace(was, name="b"))
    with pytest.raises(ConflictError):
        client.declare([replace(was, name="c"), task("d")], owner="shop", version=9)
    assert [each.name for each in client.list_definitions()] == ["b"]
    client.declare([task("e")], owner="shop", version=1)
    assert [each.name for each in client.list_definitions()] == ["e"]


def at_once(*calls: Callable[[], object]) -> list[object]:
    """Make calls on threads of their own at one moment; what each came to."""
    start = Barrier(len(calls))
    found: list[object] = [None for _ in calls]

    def make(number: int, call: Callable[[], object]) -> None:
        start.wait(FAILED_AFTER)
        try:
            found[number] = call()
        except Exception as error:
            found[number] = error

    threads = [Thread(target=make, args=each) for each in enumerate(calls)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(FAILED_AFTER)
    return found


def test_of_two_owners_at_once_one_has_it_and_the_other_is_refused(
    client: Client,
) -> None:
    for number in range(3):
        new = task(f"task {number}")
        client.schedule(new)
        owners = (f"shop {number}", f"site {number}")
        found = at_once(
            *(partial(client.declare, [new], owner=each, adopt=True) for each in owners)
        )
        refused = [each for each in found if isinstance(each, ConfigurationError)]
        assert len(refused) == 1, found
        owner = client.get_definition(new.id).owner
        assert owner == owners[found.index(refused[0]) - 1]


def test_of_two_that_schedule_one_id_at_once_each_takes_effect_once(
    client: Client,
) -> None:
    for number in range(3):
        id = UUID(int=100 + number)
        found = at_once(
            *(partial(client.schedule, once(id=id, name=name)) for name in "ab")
        )
        revisions = sorted(each.revision or 0 for each in found)  # type: ignore[attr-defined]
        assert revisions[1] == revisions[0] + 1
        kept = client.get_definition(id)
        assert kept.revision == revisions[1]


def test_of_two_that_enqueue_one_key_at_once_one_makes_it(client: Client) -> None:
    client.schedule(task())
    for key in "abc":
        made = at_once(*[partial(client.enqueue, "send", key=key)] * 3)
        assert len({each.id for each in made}) == 1  # type: ignore[attr-defined]
    assert len(client.list_instances()) == 3


def test_of_many_that_enqueue_at_once_no_more_wait_than_may(client: Client) -> None:
    client.schedule(task(max_queue=3))
    found = at_once(*[partial(client.enqueue, "send")] * 6)
    refused = [each for each in found if isinstance(each, QueueFullError)]
    assert len(refused) == 3, found
    assert client.counts()[State.PENDING] == 3


def test_what_a_set_loses_is_deleted_with_what_waits(
    store: Store, clock: ManualClock
) -> None:
    with running(store, clock) as house:
        [of] = house.scheduler.declare([task("a", lock="l")], owner="shop")
        for _ in range(2):
            house.scheduler.run_now(of.id)
        clock.advance(SECOND)
        [runs] = house.called
        house.scheduler.declare([], owner="shop")
        assert house.scheduler.list_instances(definition_id=of.id) == []
        assert house.state(runs) is State.CANCELLED
        clock.advance(NOW)
        assert len(house.called) == 1
