"""A user's own transaction: what is scheduled or completed in it commits with it."""

from __future__ import annotations

import gc
import re
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Connection, event, func, select, text
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from go_scheduler.client import Client
from go_scheduler.errors import (
    StoreError,
    StoreUnavailableError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.events import Event, InstanceFinished
from go_scheduler.handlers import HandlerRegistry
from go_scheduler.models import State, TaskDefinition
from go_scheduler.policies import CatchUp
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.cockroachdb import CockroachDBStore
from go_scheduler.stores.messages import Renewal
from go_scheduler.stores.sql import store as sql_store
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.store import SQLStore
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    SECOND,
    at_once,
    claim,
    claim_of,
    counts_by_state,
    finish,
    fire,
    pending,
    put,
    renew,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.simple import (
    ExecuteOnceTrigger,
    IntervalTrigger,
    OnDemandTrigger,
)
from tests.conftest import LOCKING, SQL, engines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock
    from tests.shop import Begin, Shop


engine = engines(SQL)


class Watching(Client):
    """A client that notes when it would look for what is due."""

    looks = 0

    def _look(self, stored: TaskDefinition | None = None) -> None:
        self.looks += 1


@contextmanager
def before(target: Any, words: str, call: Callable[[], object]) -> Iterator[None]:
    """Make a call before each statement that these words match."""

    def come_first(_: object, __: object, statement: str, *___: object) -> None:
        if re.search(words, statement, re.DOTALL):
            call()

    event.listen(target, "before_cursor_execute", come_first)
    yield
    event.remove(target, "before_cursor_execute", come_first)


READS_INSTANCES = "^(?!.*INSERT).*FROM task_instances"


def execute(shop: Shop, statement: str) -> None:
    with shop.engine.begin() as connection:
        connection.execute(text(statement))


@pytest.fixture
def client(store: Store) -> Watching:
    return Watching(store)


def once(at: datetime = START, **values: object) -> TaskDefinition:
    return TaskDefinition(trigger=ExecuteOnceTrigger(at), **values)  # type: ignore[arg-type]


# Scheduling.


@pytest.mark.parametrize("engine", SQL[:1])
def test_a_driver_that_is_told_when_to_begin_is_not_in_autocommit(
    client: Client, shop: Shop
) -> None:
    @event.listens_for(shop.engine, "connect")
    def leave_it_to_us(driver: Any, record: object) -> None:
        driver.isolation_level = None

    @event.listens_for(shop.engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    # Of those there are already it has not been told.
    shop.engine.dispose()
    with shop.engine.connect() as connection:
        client.schedule(once(), connection=connection)
    assert client.list_definitions() == []
    with shop.engine.connect() as connection:
        client.schedule(once(), connection=connection)
        connection.commit()
    assert len(client.list_definitions()) == 1


@pytest.mark.parametrize("engine", ["postgresql"])
def test_a_connection_may_have_another_encoding(client: Client, shop: Shop) -> None:
    names = ["müde", "träge"]
    with shop.engine.begin() as connection:
        connection.exec_driver_sql("SET LOCAL client_encoding = 'latin1'")
        new = [once(name=each) for each in names]
        client.schedule_all(new, connection=connection)
    assert {each.name for each in client.list_definitions()} == {*names}
    with shop.engine.connect() as connection:
        connection.exec_driver_sql("SET client_encoding = 'latin1'")
        with pytest.raises(StoreError, match="a text cannot be kept"):
            client.schedule(once(name="\N{SNOWMAN}"), connection=connection)


@pytest.mark.parametrize("engine", ["postgresql"])
@pytest.mark.parametrize(
    ("edit", "changed"),
    [
        ({"name": "new", "metadata": {"new": True}}, set()),
        ({"catch_up": CatchUp(grace=MINUTE)}, set()),
        ({"trigger": IntervalTrigger(MINUTE)}, {"to come"}),
        ({"jitter": SECOND}, {"to come"}),
        ({"expire_after": MINUTE}, {"to come", "runs", "retried"}),
        ({"queue": "other"}, {"to come", "runs", "retried"}),
    ],
)
def test_an_open_edit_locks_only_the_instances_that_it_changes(
    client: Client,
    store: Store,
    clock: ManualClock,
    shop: Shop,
    edit: dict[str, Any],
    changed: set[str],
) -> None:
    read = put(store)
    fire(
        store, read, START, START + SECOND, START + MINUTE, next_fire_time=START + HOUR
    )
    [retried] = claim(store)
    assert finish(store, retried, None, retry_in=SECOND / 2)
    clock.advance(SECOND)
    given = dict(zip(["retried", "runs"], claim(store), strict=True))
    [given["to come"]] = claim(store, ahead=HOUR)

    with shop.engine.begin() as connection:
        new = replace(store.get_definition(read.id), revision=None, **edit)
        client.schedule(new, connection=connection)
        renewals = [
            Renewal(claim=claim_of(each), lease=HOUR) for each in given.values()
        ]
        answer = store.renew_claims(renewals)
        busy = {name for name, each in given.items() if each.id in answer.busy}
        assert busy == changed
        assert len(answer.done) == len(given) - len(changed)
    kept = {name for name, each in given.items() if renew(store, each)}
    lost = {"to come"} if edit.keys() & {"trigger", "jitter", "queue"} else set()
    assert kept == {*given} - lost


@pytest.mark.parametrize("engine", ["cockroachdb"])
def test_a_list_from_the_past_waits_for_no_open_transaction(
    client: Client, store_url: str, shop: Shop
) -> None:
    new = client.schedule(once())
    # What is read next is some five seconds old. Before this, that may be what another
    # test left, or of a time at which there were no tables.
    with shop.engine.connect() as connection:
        age = func.now() - func.follower_read_timestamp()
        connection.execute(select(func.pg_sleep(func.extract("epoch", age))))
    with closing(CockroachDBStore(store_url, follower_reads=True)) as past:
        assert past.select_definitions() == [new]
        with shop.engine.begin() as connection:
            client.schedule(replace(new, name="new"), connection=connection)
            assert [each.name for each in past.select_definitions()] == [None]
            assert set(counts_by_state(past).values()) == {0}


# Being told of the commit.


def test_a_session_tells_of_its_commit_and_a_connection_does_not(
    client: Watching, shop: Shop
) -> None:
    sessions = scoped_session(sessionmaker(shop.engine))
    client.schedule(once(), connection=sessions)
    sessions.rollback()
    sessions.execute(select(1))
    sessions.commit()
    client.schedule(once(), connection=sessions)
    assert client.looks == 0
    sessions.commit()
    assert client.looks == 1
    # What is closed without a commit was rolled back.
    client.schedule(once(), connection=sessions)
    sessions.remove()
    # A connection would tell too early.
    with shop.engine.begin() as connection:
        client.schedule(once(), connection=connection)
    assert client.looks == 1
    assert len(client.list_definitions()) == 2
    gc.collect()
    assert not sql_store._waiting


@pytest.mark.parametrize("engine", LOCKING)
def test_they_look_once_what_is_around_a_savepoint_has_committed(
    client: Watching, shop: Shop
) -> None:
    with Session(shop.engine) as session:
        with session.begin_nested() as savepoint:
            client.schedule(once(), connection=session)
            savepoint.rollback()
        del savepoint
        with session.begin_nested():
            client.schedule(once(), connection=session)
            with session.begin_nested():
                client.schedule(once(), connection=session)
        assert client.looks == 0
        session.commit()
        assert client.looks == 2
        with session.begin_nested():
            client.schedule(once(), connection=session)
        session.rollback()
        shop.order(session)
        session.commit()
    assert client.looks == 2
    assert len(client.list_definitions()) == 2
    gc.collect()
    assert not sql_store._waiting


# Work on demand.

SEND = TaskDefinition(
    trigger=OnDemandTrigger(), id=TaskDefinition.id_for("task send"), name="send"
)


def test_a_task_of_a_registry_is_enqueued_in_a_transaction_after_a_check(
    store: Store, clock: ManualClock, shop: Shop, begin: Begin
) -> None:
    handlers = HandlerRegistry()

    @handlers.task("send")
    def send(order: int) -> None: ...

    scheduler = Scheduler(handlers, store, clock=clock)
    with (
        begin() as connection,
        pytest.raises(
            TaskDefinitionNotFoundError, match=r"the first check\(\); call one of them"
        ),
    ):
        scheduler.enqueue("send", order=7, connection=connection)
    scheduler.check()
    with begin() as connection:
        added = scheduler.enqueue("send", order=7, connection=connection)
    assert scheduler.get_instance(added.id).payload == {"order": 7}


def commit_once_somebody_waits(shop: Shop, open_one: Connection) -> None:
    """Commit when another transaction waits for a lock."""
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    with shop.engine.connect() as connection:
        while not connection.scalar(waiting):
            connection.rollback()
    open_one.commit()


@pytest.mark.parametrize("engine", ["postgresql"])
@pytest.mark.parametrize("joins", [True, False])
def test_of_two_that_add_one_key_the_second_waits_and_finds_it(
    client: Client, shop: Shop, joins: bool
) -> None:
    client.schedule(SEND)
    first = shop.engine.connect()
    added = client.enqueue("send", key="k", connection=first)

    def add() -> TaskInstance:
        if not joins:
            return client.enqueue("send", key="k")
        with shop.engine.begin() as connection:
            return client.enqueue("send", key="k", connection=connection)

    found, _ = at_once(add, lambda: commit_once_somebody_waits(shop, first))
    first.close()
    assert found == client.get_instance(added.id)


@pytest.mark.parametrize("engine", ["postgresql"])
def test_who_adds_a_key_that_goes_meanwhile_is_told_to_repeat(
    client: Client, shop: Shop
) -> None:
    client.schedule(SEND)
    client.enqueue("send", key="k")
    delete = partial(execute, shop, "DELETE FROM task_instances")
    with (
        shop.engine.connect() as connection,
        before(connection, READS_INSTANCES, delete),
        pytest.raises(StoreUnavailableError, match="repeat the transaction"),
    ):
        client.enqueue("send", key="k", connection=connection)
    with shop.engine.begin() as connection:
        assert client.enqueue("send", key="k", connection=connection).key == "k"


@pytest.mark.parametrize("engine", LOCKING)
def test_a_key_whose_instance_is_cleaned_up_before_it_is_read_is_added_after_all(
    client: Client, store: Store, shop: Shop
) -> None:
    assert isinstance(store, SQLStore)
    client.schedule(SEND)
    first = client.enqueue("send", key="k")
    statements = iter(["DELETE FROM task_instances"])

    def clean_up() -> None:
        for each in statements:
            execute(shop, each)

    with before(store._database._engines[Lane.NEW], READS_INSTANCES, clean_up):
        again = client.enqueue("send", key="k")
    assert again.id != first.id
    assert client.get_instance(again.id) == again


@pytest.mark.parametrize("engine", ["postgresql"])
def test_who_adds_within_a_transaction_holds_up_edits_and_no_fire(
    client: Client, store: Store, shop: Shop
) -> None:
    read = client.schedule(TaskDefinition(trigger=IntervalTrigger(HOUR)))
    joined = shop.engine.connect()
    client.run_now(read.id, connection=joined)
    client.run_now(read.id)
    fire(store, read, START)
    deleted, _ = at_once(
        lambda: client.delete_definition(read.id),
        lambda: commit_once_somebody_waits(shop, joined),
    )
    joined.close()
    assert deleted
    assert client.counts()[State.PENDING] == 0


@pytest.mark.parametrize("engine", LOCKING)
@pytest.mark.parametrize(
    ("most", "lock"), [(None, "FOR KEY SHARE"), (5, "FOR NO KEY UPDATE")]
)
def test_who_adds_within_a_transaction_never_asks_for_a_stronger_lock(
    client: Client, shop: Shop, most: int | None, lock: str
) -> None:
    # On CockroachDB, of two who share the first one would have to repeat.
    task = client.schedule(TaskDefinition(trigger=OnDemandTrigger(), max_queue=most))
    locks = []
    with shop.engine.connect() as connection:
        event.listen(
            connection,
            "before_cursor_execute",
            lambda _connection, _cursor, statement, *_: locks.extend(
                re.findall("FOR (?:NO |KEY |UPDATE|SHARE)+", statement)
            ),
        )
        for _ in range(2):
            client.run_now(task.id, connection=connection)
    assert {each.strip() for each in locks} == {lock}


# On CockroachDB the transaction comes before that edit.
@pytest.mark.parametrize("engine", LOCKING[:1])
def test_who_adds_to_what_is_limited_meanwhile_is_told_to_repeat(
    client: Client, shop: Shop
) -> None:
    task = client.schedule(SEND)
    limit = partial(client.schedule, replace(task, max_queue=1))
    with (
        shop.engine.connect() as connection,
        before(connection, "INSERT INTO task_instances", limit),
        pytest.raises(StoreUnavailableError, match="repeat the transaction"),
    ):
        client.enqueue("send", connection=connection)
    assert client.counts()[State.PENDING] == 0


# What is changed by hand.


def test_of_a_cancel_is_told_once_it_has_committed(
    store: Store, clock: ManualClock, shop: Shop
) -> None:
    heard: list[Event] = []
    with Scheduler(None, store, clock=clock, listeners=[heard.append]) as scheduler:
        added = [pending(store) for _ in range(2)]
        with Session(shop.engine) as session:
            scheduler.cancel(added[0].id, connection=session)
            session.rollback()
            scheduler.cancel(added[1].id, connection=session)
            assert not any(isinstance(each, InstanceFinished) for each in heard)
            session.commit()
    ended = [each for each in heard if isinstance(each, InstanceFinished)]
    assert [each.instance_id for each in ended] == [added[1].id]


@pytest.mark.parametrize("engine", LOCKING)
def test_who_edits_what_is_edited_meanwhile_is_told_to_repeat(
    client: Client, shop: Shop
) -> None:
    new = client.schedule(once(START + HOUR))
    rename = partial(client.schedule, replace(new, name="other"))
    with (
        shop.engine.connect() as connection,
        before(connection, "UPDATE task_definitions", rename),
        pytest.raises(StoreUnavailableError, match="repeat the transaction"),
    ):
        client.pause(new.id, connection=connection)
    with shop.engine.begin() as connection:
        assert client.pause(new.id, connection=connection).name == "other"
