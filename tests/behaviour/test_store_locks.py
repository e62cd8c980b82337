"""What another transaction has locked holds up only itself, while that is open."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from sqlalchemy import make_url

from go_scheduler import (
    DelayTrigger,
    IntervalTrigger,
    RetryPolicy,
    State,
    StoreUnavailableError,
    TaskDefinition,
)
from go_scheduler.client import Client
from go_scheduler.testing.clock import START
from tests.behaviour.house import meanwhile
from tests.behaviour.store_house import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    House,
    ids,
    once,
    opened,
    running,
    task,
)
from tests.servers import libpq

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path
    from uuid import UUID

    from go_scheduler import Store
    from go_scheduler.testing import ManualClock

pytestmark = pytest.mark.slow
LOCKING = ["postgresql", "cockroachdb"]
"""Where a transaction locks rows, and not the whole database."""
INSTANCES, DEFINITIONS = "task_instances", "task_definitions"


@contextmanager
def transaction(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A transaction of somebody else's, which ends with the block."""
    with psycopg.connect(libpq(url), prepare_threshold=None) as connection:
        yield connection
        connection.rollback()


@contextmanager
def locked(url: str, table: str, rows: Collection[UUID]) -> Iterator[None]:
    """Rows that another transaction has written, and not committed."""
    with transaction(url) as connection:
        statement = f"UPDATE {table} SET queue = queue WHERE id = ANY(%s)"
        assert connection.execute(statement.encode(), [list(rows)]).rowcount
        yield


@pytest.mark.parametrize("engine", LOCKING)
@pytest.mark.parametrize("trigger", ["interval", "delay"])
def test_locked_definitions_fire_once_they_are_free_and_others_at_once(
    house: House, store_url: str, trigger: str
) -> None:
    kinds = {"interval": IntervalTrigger(5 * SECOND, anchor=START)}
    of = kinds.get(trigger, DelayTrigger(5 * SECOND))
    made = house.scheduler.schedule_all(TaskDefinition(trigger=of) for _ in range(10))
    house.answer = lambda _: None
    aside = {*ids(made[:3])}
    with locked(store_url, DEFINITIONS, aside):
        house.clock.advance(6 * SECOND)
        fired = [each.definition.id for each in house.called]
        assert sorted(fired) == sorted({*ids(made)} - aside)
    house.clock.advance(3 * SECOND)
    fired = [each.definition.id for each in house.called]
    assert sorted(fired) == sorted(ids(made))
    assert {each.fire_time for each in house.called} == {START + 5 * SECOND}


@pytest.mark.parametrize("engine", LOCKING)
@pytest.mark.parametrize("few", [1, 5])
@pytest.mark.parametrize("end", ["returns", "raises"])
def test_ends_of_locked_instances_are_recorded_once_they_are_free(
    house: House, store_url: str, end: str, few: int
) -> None:
    """They wait in the outbox, and nothing runs again."""
    of = house.task(retry=RetryPolicy(max_attempts=1))
    made = house.scheduler.enqueue_all("send", [{}] * 12)
    aside = {*ids(made[:few])}
    expected = State.COMPLETED if end == "returns" else State.FAILED
    with ExitStack() as lock:

        def answer(instance: Any) -> None:
            # The start has been recorded; what it comes to meets the lock.
            if len(house.called) == 1:
                lock.enter_context(locked(store_url, INSTANCES, aside))
            if end == "raises":
                raise ValueError("no paper")

        house.answer = answer
        house.clock.advance(2 * SECOND)
        assert {each.state for each in map(house.again, made[few:])} == {expected}
        # What is locked is read by others, but on CockroachDB.
        if store_url.startswith("postgresql"):
            open_ones = {each.state for each in map(house.again, made[:few])}
            assert open_ones == {State.RUNNING}
    house.clock.advance(10 * SECOND)
    assert {each.state for each in house.of(of)} == {expected}
    assert len(house.called) == 12


@pytest.mark.parametrize("engine", LOCKING)
def test_claims_of_locked_instances_are_renewed_once_they_are_free(
    house: House, store_url: str, clock: ManualClock
) -> None:
    """What another transaction keeps for less than a lease is not lost."""
    runs = [house.run() for _ in range(2)]
    with locked(store_url, INSTANCES, [runs[0].id]):
        kept = house.scheduler.extend(runs[1].id, 1, 2 * HOUR)
        assert kept == "go on"
        with pytest.raises(StoreUnavailableError):
            house.scheduler.extend(runs[0].id, 1, 2 * HOUR)
    assert house.scheduler.extend(runs[0].id, 1, 2 * HOUR) == "go on"
    assert house.again(runs[0]).expires_at == clock.now() + 2 * HOUR


@pytest.mark.parametrize("engine", ["postgresql"])
def test_while_a_table_is_locked_nothing_is_lost_and_then_all_goes_on(
    house: House, store_url: str
) -> None:
    house.answer = lambda _: None
    of = house.task()
    made = house.scheduler.enqueue("send")
    other = house.once(2 * SECOND)
    with transaction(store_url) as connection:
        connection.execute("LOCK TABLE task_instances, task_definitions")
        house.clock.advance(3 * SECOND)
        assert house.called == []
    house.clock.advance(5 * SECOND)
    assert [each.definition.id for each in house.called] == [of.id, other.id]
    assert house.state(made) is State.COMPLETED
    assert house.scheduler.health().ok


@pytest.mark.parametrize("engine", LOCKING)
def test_a_call_that_meets_a_lock_says_what_to_do_and_may_be_repeated(
    store: Store, store_url: str
) -> None:
    client = Client(store)
    of = client.schedule(once())
    with locked(store_url, DEFINITIONS, [of.id]):
        # Reads wait for nobody, but on CockroachDB.
        if store_url.startswith("postgresql"):
            assert client.get_definition(of.id) == of
        with pytest.raises(StoreUnavailableError) as refused:
            client.pause(of.id)
        assert "if it is one of yours, pass it as connection=" in str(refused.value)
    assert client.pause(of.id).paused


# SQLite: who writes has the whole file.


@pytest.fixture
def sqlite_url(own_file: Path) -> str:
    """That of a file of the test's own, which has the tables."""
    return f"sqlite:///{own_file}"


@pytest.fixture
def sqlite(sqlite_url: str, clock: ManualClock) -> Iterator[Store]:
    """A store that waits for no other process for long."""
    short: dict[str, Any] = {"busy_timeout": timedelta(milliseconds=50)}
    with opened(sqlite_url, clock, durable=False, **short) as store:
        yield store


@contextmanager
def writing(url: str, how: str = "EXCLUSIVE") -> Iterator[sqlite3.Connection]:
    """Another process that has begun to write."""
    path = make_url(url).database or ""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"BEGIN {how}")
        yield connection
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def test_while_another_process_writes_nothing_is_written_and_all_can_be_read(
    sqlite: Store, sqlite_url: str, clock: ManualClock
) -> None:
    with running(sqlite, clock) as house:
        run = house.run()
        waits = house.scheduler.run_now(run.definition.id, delay=2 * SECOND)
        with writing(sqlite_url):
            for call in (
                lambda: house.complete(run),
                lambda: house.task("other"),
                lambda: house.scheduler.cancel(waits.id),
                lambda: house.scheduler.delete_definition(run.definition.id),
            ):
                with pytest.raises(StoreUnavailableError, match="locked"):
                    call()
            assert house.again(run) == run
            assert len(house.scheduler.list_instances()) == 2
            clock.advance(3 * SECOND)
            assert len(house.called) == 1
        clock.advance(10 * SECOND)
        assert ids(house.called) == [run.id, waits.id]
        assert house.complete(run)


def test_a_user_whose_own_transaction_is_in_the_way_learns_what_to_pass(
    sqlite: Store, sqlite_url: str
) -> None:
    client = Client(sqlite)
    path = make_url(sqlite_url).database
    with writing(sqlite_url, "IMMEDIATE"), pytest.raises(StoreUnavailableError) as no:
        client.schedule(task())
    assert str(no.value) == (
        f"{path}: database is locked (SQLITE_BUSY): another transaction has written"
        " to it and is still open; if it is one of yours, pass it as connection="
    )
    assert client.schedule(task()).revision == 1


def test_a_node_with_nothing_to_do_waits_for_nobody(
    sqlite: Store, sqlite_url: str, clock: ManualClock
) -> None:
    with running(sqlite, clock) as house:
        clock.advance(SECOND)
        with writing(sqlite_url):
            clock.advance(NOW)
            house.scheduler.health()
        assert house.scheduler.health().ok


def test_reads_keep_nobody_from_writing(
    sqlite: Store, sqlite_url: str, clock: ManualClock
) -> None:
    with running(sqlite, clock) as house, writing(sqlite_url, "DEFERRED") as reader:
        reader.execute("SELECT * FROM task_instances").fetchall()
        run = house.run()
        assert house.complete(run)
        assert house.state(run) is State.COMPLETED


def test_a_store_waits_for_who_writes_as_long_as_it_is_said(
    sqlite_url: str, clock: ManualClock
) -> None:
    with opened(sqlite_url, clock, busy_timeout=MINUTE) as store:
        client = Client(store)
        client.check()
        with (
            writing(sqlite_url, "IMMEDIATE") as other,
            meanwhile(lambda: client.schedule(task())),
        ):
            assert client.list_definitions() == []
            other.execute("COMMIT")
        assert len(client.list_definitions()) == 1
