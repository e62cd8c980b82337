"""What is put in costs few statements, and survives the end of every connection."""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import event

from go_scheduler import ExecuteOnceTrigger, Scheduler, TaskDefinition
from go_scheduler.client.client import Client
from go_scheduler.clock import SystemClock
from go_scheduler.models import State
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sqlite.store import SQLiteStore
from go_scheduler.testing.builders import claimant, definition, firing
from go_scheduler.testing.clock import START
from go_scheduler.triggers import OnDemandTrigger
from tests import servers
from tests.faults import kill_connections

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.sql.store import SQLStore

SEND = TaskDefinition(
    id=TaskDefinition.id_for("task send"), trigger=OnDemandTrigger(), name="send"
)
LONG = 120


@pytest.fixture
def store(postgresql_url: str) -> Iterator[PostgreSQLStore]:
    """One on the server's own time, as in production."""
    servers.delete_all_rows(postgresql_url)
    store = PostgreSQLStore(postgresql_url)
    yield store
    store.close()


@pytest.fixture
def client(store: PostgreSQLStore) -> Client:
    client = Client(store)
    client.check()
    client.schedule(SEND)
    return client


@contextmanager
def sent(store: SQLStore) -> Iterator[list[str]]:
    """All that is sent to the server meanwhile, by whatever connection."""
    statements: list[str] = []

    def note(connection: object, cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    # On SQLite several lanes have one engine.
    engines = {store._database._engines[lane] for lane in Lane}
    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    yield statements
    for engine in engines:
        event.remove(engine, "before_cursor_execute", note)


def soon() -> TaskDefinition:
    return TaskDefinition(
        trigger=ExecuteOnceTrigger(SystemClock().now() + timedelta(days=1))
    )


def test_one_new_definition_costs_one_statement(
    store: PostgreSQLStore, client: Client
) -> None:
    with sent(store) as statements:
        client.schedule(soon())
    [statement] = statements
    assert "INSERT INTO task_definitions" in statement


def test_the_first_one_asks_for_the_time_as_well(
    store: PostgreSQLStore, postgresql_url: str
) -> None:
    client = Client(store)
    client.check()
    with sent(store) as statements:
        client.schedule(soon())
    _, insert = statements
    assert "INSERT INTO task_definitions" in insert


def test_what_is_enqueued_to_a_task_that_is_known_costs_one_statement(
    store: PostgreSQLStore, client: Client
) -> None:
    client.enqueue("send", order=6)
    with sent(store) as statements:
        client.enqueue("send", order=7)
    [statement] = statements
    assert "INSERT INTO task_instances" in statement


def test_the_end_of_all_connections_loses_nothing_that_is_put_and_doubles_nothing(
    client: Client, postgresql_url: str
) -> None:
    given = []
    for number in range(3):
        kill_connections(postgresql_url)
        given.append(client.schedule(soon()).id)
        kill_connections(postgresql_url)
        client.enqueue("send", order=number)
        kill_connections(postgresql_url)
        client.enqueue_all("send", [{"order": number}])
    kill_connections(postgresql_url)
    listed = {each.id for each in client.list_definitions()}
    assert listed == {*given, SEND.id}
    enqueued = client.list_instances(definition_id=SEND.id)
    orders = sorted(str(each.payload) for each in enqueued)
    assert orders == [f"{{'order': {number}}}" for number in (0, 0, 1, 1, 2, 2)]


def test_what_is_due_runs_once_though_all_connections_end_before_it_is_put(
    store: PostgreSQLStore, postgresql_url: str
) -> None:
    called: list[TaskInstance] = []
    came = threading.Event()

    def handle(instance: TaskInstance) -> None:
        called.append(instance)
        came.set()

    with Scheduler(handle, store) as scheduler:
        for number in range(3):
            came.clear()
            kill_connections(postgresql_url)
            now = ExecuteOnceTrigger(SystemClock().now())
            put = scheduler.schedule(TaskDefinition(trigger=now))
            assert came.wait(LONG), number
            assert called[-1].definition.id == put.id
    assert len(called) == 3
    states = {scheduler.get_instance(each.id).state for each in called}
    assert states == {State.COMPLETED}


def test_the_time_of_the_store_is_between_what_is_told_without_asking(
    store: PostgreSQLStore, client: Client
) -> None:
    store.now_between()
    with sent(store) as statements:
        earliest, _ = store.now_between()
    assert statements == []
    now = store.now()
    _, latest = store.now_between()
    assert earliest <= now <= latest


def test_one_new_definition_costs_sqlite_one_look_and_two_inserts(
    tmp_path: Path,
) -> None:
    with closing(SQLiteStore(f"sqlite:///{tmp_path}/store.db")) as store:
        client = Client(store)
        client.check()
        with sent(store) as statements:
            client.schedule(soon())
            client.schedule_all([soon() for _ in range(100)])
    begins = ["BEGIN", "SELECT", "INSERT", "INSERT", "COMMIT"]
    assert [each.split()[0] for each in statements] == begins * 2


def test_what_is_enqueued_costs_sqlite_one_look_and_one_insert(tmp_path: Path) -> None:
    with closing(SQLiteStore(f"sqlite:///{tmp_path}/store.db")) as store:
        client = Client(store)
        client.check()
        client.schedule(SEND)
        with sent(store) as statements:
            client.enqueue("send", order=7)
            client.enqueue_all("send", [{"order": number} for number in range(100)])
    inserts = ["BEGIN", "SELECT", "INSERT", "COMMIT"]
    assert [each.split()[0] for each in statements] == inserts * 2


def test_what_is_due_costs_sqlite_one_insert_more_to_be_started(
    tmp_path: Path,
) -> None:
    new = definition(SystemClock().now(), trigger=ExecuteOnceTrigger(START))
    with closing(SQLiteStore(f"sqlite:///{tmp_path}/store.db")) as store:
        store.initialize()
        with sent(store) as statements:
            _, started = store.put_and_start(firing(new), claimant())
    assert started is not None
    begins = ["BEGIN", "SELECT", "INSERT", "INSERT", "INSERT", "COMMIT"]
    assert [each.split()[0] for each in statements] == begins
