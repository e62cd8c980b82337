"""What is called often costs few statements, and reads nothing that is known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.client import Client
from go_scheduler.clock import ZERO
from go_scheduler.models import TaskDefinition
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.sql import puts
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.reader import ContentsCache
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    SECOND,
    claim,
    claimed,
    definition,
    end_of,
    fire,
    firing,
    pending,
    put,
    put_and_start,
    running,
    start,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers import ExecuteOnceTrigger, OnDemandTrigger
from tests import servers
from tests.conftest import SQL
from tests.statements import executed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from go_scheduler.stores.postgresql.store import PostgreSQLStore
    from go_scheduler.stores.sql.store import SQLStore
    from go_scheduler.testing.clock import ManualClock

SEND = TaskDefinition(
    id=TaskDefinition.id_for("task send"), trigger=OnDemandTrigger(), name="send"
)
SQLITE, POSTGRESQL, _ = (pytest.mark.parametrize("engine", [each]) for each in SQL)
BOTH = pytest.mark.parametrize("engine", SQL[:2])


def look(store: SQLStore) -> None:
    """Have a claim look for other priorities: for a second, the next ones do not."""
    assert claim(store, queues=["another"]) == []


def soon() -> TaskDefinition:
    return TaskDefinition(trigger=ExecuteOnceTrigger(START + HOUR))


ADDS = ["BEGIN", "SELECT", "WITH", "WITH", "COMMIT"]
PUTS = ["BEGIN", "WITH", "WITH", "WITH", "COMMIT"]
CALLS: dict[str, tuple[Callable[[Client], object], Sequence[str], Sequence[str]]] = {
    "schedule": (lambda client: client.schedule(soon()), ["WITH"], PUTS),
    "schedule many": (
        lambda client: client.schedule_all(soon() for _ in range(100)),
        *(["BEGIN", "WITH"], PUTS),
    ),
    "enqueue": (lambda client: client.enqueue("send", order=7), ["WITH"], ADDS),
    "enqueue many": (
        lambda client: client.enqueue_all("send", [{"order": n} for n in range(100)]),
        *(["WITH"], ADDS),
    ),
}


@BOTH
@pytest.mark.parametrize("call", CALLS)
def test_what_is_put_in_costs_few_statements(
    store: SQLStore, engine: str, call: str
) -> None:
    client = Client(store)
    client.check()
    client.schedule(SEND)
    client.enqueue("send")
    make, postgresql, sqlite = CALLS[call]
    with executed(store) as statements:
        make(client)
    expected = postgresql if engine == "postgresql" else sqlite
    assert [each.split()[0] for each in statements] == expected


@POSTGRESQL
def test_the_first_one_asks_for_the_time_and_later_ones_know_it(
    own_time_store: PostgreSQLStore,
) -> None:
    client = Client(own_time_store)
    client.check()
    with executed(own_time_store) as statements:
        client.schedule(soon())
        assert len(statements) == 2
        assert "INSERT INTO task_definitions" in statements[1]
        own_time_store.now_between()
        client.schedule(soon())
    assert len(statements) == 3


@SQLITE
def test_what_is_due_costs_one_insert_more_to_be_started(store: SQLStore) -> None:
    new = definition(START, trigger=ExecuteOnceTrigger(START))
    with executed(store) as statements:
        started = put_and_start(store, firing(new)).started
    assert len(started) == 1
    assert [each.split()[0] for each in statements] == [*PUTS[:-1], "WITH", "COMMIT"]


@BOTH
def test_an_end_costs_one_statement_whether_it_is_kept_or_deleted(
    store: SQLStore, engine: str
) -> None:
    given = [running(store) for _ in range(4)]
    ends = [end_of(each, has_slot=False) for each in given]
    over = [replace(each, deletes=True) for each in ends]
    first = "WITH" if engine == "postgresql" else "BEGIN"
    for some in (over[:2], ends[2:]):
        with executed(store) as statements:
            assert len(store.finish_instances(some).done) == 2
        assert statements[0].split()[0] == first
        assert len([each for each in statements if "task_instances" in each]) == 1
    # Nothing more is written of what has ended, kept or not.
    with executed(store) as statements:
        assert store.finish_instances([*over, *ends]).done == set()
    changed = [each for each in statements if "task_definitions" in each]
    assert engine == "postgresql" or changed == []


@POSTGRESQL
def test_one_that_is_there_is_tried_as_a_new_one_once(store: SQLStore) -> None:
    old = put(store)
    with executed(store) as statements:
        assert store.put_definitions([replace(old, revision=None)]).definitions == [old]
    assert sum("INSERT INTO task_definitions" in each for each in statements) == 1


@POSTGRESQL
@pytest.mark.parametrize("at_the_end", [False, True])
def test_many_more_are_inserted_by_statements_of_a_bounded_size(
    store: SQLStore, monkeypatch: pytest.MonkeyPatch, *, at_the_end: bool
) -> None:
    monkeypatch.setattr(puts, "_LARGEST", 4)
    # So it is once the main thread has ended, though others go on.
    monkeypatch.setattr("concurrent.futures.thread._shutdown", at_the_end)
    given = [definition(key=key) for key in range(10)]
    with executed(store) as statements:
        put_all = store.put_definitions(given).definitions
    assert [each == "BEGIN" for each in statements] == [True, False, False, False]
    assert [each.id for each in put_all] == [each.id for each in given]


@POSTGRESQL
def test_a_node_of_the_normal_class_alone_sends_one_statement_for_a_claim(
    store: SQLStore,
) -> None:
    with executed(store, Lane.BY_TIME) as statements:
        for _ in range(9):
            claim(store)
    assert len(statements) == 9
    assert len([each for each in statements if "UNION ALL" in each]) == 1


@POSTGRESQL
@pytest.mark.parametrize("queues", [["default"], ["default", "other"]])
def test_what_another_node_has_put_into_a_class_of_its_own_is_claimed(
    store: SQLStore, store_url: str, clock: ManualClock, queues: list[str]
) -> None:
    assert claim(store, queues=queues) == []
    new = replace(definition(queue=queues[-1]), priority=0)
    with servers.opened(store_url, clock, has_tables=True) as other:
        given = pending(other, new)
    clock.advance(SECOND)
    [found] = claim(store, queues=queues)
    assert found.id == given.id


@pytest.mark.parametrize("engine", SQL)
def test_an_idle_scheduler_asks_little(store: SQLStore, clock: ManualClock) -> None:
    with Scheduler(lambda _: None, store, clock=clock):
        # Until it knows that nothing has lapsed.
        clock.advance(MINUTE)
        with executed(store) as statements:
            clock.advance(10 * MINUTE)
    asked = [each for each in statements if each not in ("BEGIN IMMEDIATE", "COMMIT")]
    assert len(asked) <= 3.4 * 10 * 60


# Contents: what of a definition changes seldom, which each process remembers.


@POSTGRESQL
def test_what_many_definitions_hold_is_known_once_they_are_committed_and_fire_soon(
    store: SQLStore,
) -> None:
    soon = [definition(key=key) for key in range(2)]
    later = definition(START + HOUR, key=2)
    with executed(store, Lane.BY_TIME) as statements:
        store.put_definitions([*soon, later])
        store.due_definitions(ahead=ZERO, limit=10)
        assert not any("task_contents" in each for each in statements)
        store.due_definitions(ahead=HOUR, limit=10)
    assert any("task_contents" in each for each in statements)


@POSTGRESQL
def test_what_is_put_is_claimed_and_started_without_its_contents_being_read(
    store: SQLStore,
) -> None:
    given = replace(definition(START + SECOND), metadata={"a": "'\\\"{,é"})
    [new] = store.put_definitions([given]).definitions
    fire(store, new, START + SECOND)
    look(store)
    with executed(store, Lane.BY_TIME, Lane.BY_KEY) as statements:
        [instance] = claim(store, ahead=SECOND)
        [started] = start(store, instance)
    known = replace(new, next_fire_time=None, completed_at=START)
    assert instance.definition == started.definition == known
    assert len(statements) == 2


@BOTH
@pytest.mark.parametrize("lapsed", [True, False])
def test_contents_that_are_needed_but_once_are_read_by_the_claim_and_not_remembered(
    store: SQLStore, engine: str, clock: ManualClock, *, lapsed: bool
) -> None:
    given = claimed(store) if lapsed else pending(store)
    clock.advance(HOUR)
    store._reader._contents = ContentsCache()
    look(store)
    with executed(store, Lane.BY_TIME) as statements:
        [instance] = claim(store, lapsed=lapsed)
    assert instance.definition == given.definition
    assert instance.definition.trigger == given.definition.trigger
    assert engine == "sqlite" or len(statements) == (2 if lapsed else 1)
    assert not store._reader._contents._entries


@BOTH
def test_contents_that_are_needed_again_are_read_apart_and_remembered(
    store: SQLStore, engine: str
) -> None:
    goes_on = put(store)
    fire(store, goes_on, START, next_fire_time=START + HOUR)
    is_to_start = pending(store, definition(START + SECOND))
    store._reader._contents = ContentsCache()
    look(store)
    with executed(store, Lane.BY_TIME, Lane.BY_KEY) as statements:
        taken = claim(store, ahead=SECOND)
        start(store, *(each for each in taken if each.started_at is None))
    assert {each.definition.id: each.definition.trigger for each in taken} == {
        goes_on.id: goes_on.trigger,
        is_to_start.definition.id: is_to_start.definition.trigger,
    }
    assert engine == "sqlite" or len(statements) == 3
    assert len(store._reader._contents._entries) == 2
