"""The SQLite store keeps every promise of the interface, in one file of many users."""

from __future__ import annotations

import multiprocessing
import shutil
import sqlite3
import threading
from collections import deque
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock
from uuid import UUID, uuid4

import pytest
from sqlalchemy import event, exc

from go_scheduler.clock import ZERO
from go_scheduler.errors import QueueFullError, StoreError, StoreUnavailableError
from go_scheduler.models import OPEN, Outcome, State
from go_scheduler.stores.filters import CLAIMABLE, CLAIMED, Filter, Order
from go_scheduler.stores.messages import Addition, Answer
from go_scheduler.stores.sql.database import Lane, Overtaken
from go_scheduler.stores.sqlite.store import SQLiteStore, WriteLock
from go_scheduler.testing.builders import (
    HOUR,
    NOBODY,
    SECOND,
    add,
    claim,
    clean_up,
    counts_by_state,
    definition,
    end_of,
    finish,
    fire,
    firing,
    ids,
    pending,
    put,
    running,
    start,
    task,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.stores import StoreSuite
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence, Set
    from pathlib import Path

    from sqlalchemy import Connection

    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

_SHORT = timedelta(milliseconds=100)


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store's file is."""
    return tmp_path / "store.db"


@pytest.fixture
def store(clock: ManualClock, path: Path, sqlite_file: Path) -> Iterator[SQLiteStore]:
    """An empty store that has its tables, whose writes do not wait for the disk."""
    shutil.copy(sqlite_file, path)
    store = SQLiteStore(
        url_of(path), clock=clock, durable=False, busy_timeout=10 * _SHORT
    )
    yield store
    pools = [engine.pool for engine in store._database._engines.values()]
    assert not any(pool.checkedout() for pool in pools)  # type: ignore[attr-defined]
    store.close()


@contextmanager
def other(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection of somebody else's."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


class TestSQLiteStore(StoreSuite):
    """``SQLiteStore`` against the suite."""

    @pytest.fixture
    def store(self, store: SQLiteStore) -> Store:
        """The same as for the other tests of this module."""
        return store


class TestLocks:
    def test_a_write_looks_for_the_lock_again(
        self, store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        instance = running(store)
        with other(path) as connection:
            connection.execute("BEGIN IMMEDIATE")
            commit = partial(connection.execute, "COMMIT")
            at_the_first_error(store, monkeypatch, commit)
            assert finish(store, instance)

    def test_an_empty_file_that_another_process_writes_is_initialized_after_it(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with (
            closing(SQLiteStore(url_of(path), durable=False)) as store,
            other(path) as connection,
        ):
            connection.execute("BEGIN IMMEDIATE")
            commit = partial(connection.execute, "COMMIT")
            at_the_first_error(store, monkeypatch, commit)
            store.initialize()
            assert store.select_definitions() == []

    def test_a_transaction_that_fails_is_over(self, store: SQLiteStore) -> None:
        def delete_and_fail(connection: Connection) -> None:
            connection.exec_driver_sql("DELETE FROM task_definitions")
            raise ZeroDivisionError

        def is_open(connection: Connection) -> object:
            return connection.connection.dbapi_connection.in_transaction  # type: ignore[union-attr]

        new = put(store)
        with pytest.raises(ZeroDivisionError):
            store._database.transact(delete_and_fail)
        assert store._database.run(Lane.BY_KEY, is_open) is False
        assert store.select_definitions() == [new]

    def test_threads_are_served_in_turn(
        self, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        served: list[str] = []
        waiting = store._database._write_lock._waiting

        execute = store._database.execute

        def note(connection: Connection, sql: str, *values: Any) -> Sequence[Any]:
            if sql.startswith("BEGIN"):
                served.append(threading.current_thread().name)
            return execute(connection, sql, *values)

        def write() -> None:
            # Left to SQLite's own wait, who asks again at once would be the next.
            for _ in range(3):
                put(store)

        threads = [threading.Thread(target=write, name=name) for name in "abc"]

        def come(_: object) -> None:
            monkeypatch.setattr(store._database, "execute", note)
            for number, thread in enumerate(threads, 1):
                thread.start()
                while len(waiting) < number:
                    pass

        store._database.transact(come)
        for thread in threads:
            thread.join(FAILED_AFTER)
        assert served[:3] == ["a", "b", "c"]
        assert len(served) == 9


def at_the_first_error(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch, call: Callable[[], object]
) -> None:
    """Make a call when what the store executes meets its first error."""
    execute = store._database.execute
    calls = iter([call])

    def react(*given: Any) -> Sequence[Any]:
        try:
            return execute(*given)
        except exc.DBAPIError:
            for each in calls:
                each()
            raise

    monkeypatch.setattr(store._database, "execute", react)


@pytest.mark.chaos
def test_processes_never_claim_the_same_instance(path: Path) -> None:
    with closing(SQLiteStore(url_of(path), durable=False)) as store:
        store.initialize()
        now = store.now()
        times = [now - number * SECOND for number in range(1, 301)]
        fire(store, put(store, definition(times[0])), *times)
        context = multiprocessing.get_context("spawn")
        with context.Pool(3) as pool:
            drained = pool.map_async(drain, [url_of(path)] * 3, chunksize=1)
            answers: list[list[UUID]] = drained.get(FAILED_AFTER)
        taken = [each for answer in answers for each in answer]
        assert len(taken) == len(set(taken)) == 300
        assert counts_by_state(store)[State.COMPLETED] == 300


def drain(url: str) -> list[UUID]:
    with closing(SQLiteStore(url, durable=False)) as store:
        done: list[UUID] = []
        node = uuid4()
        while page := claim(store, node, limit=7):
            ends = [end_of(each) for each in page]
            assert store.finish_instances(ends).done == set(ids(page))
            done += ids(page)
        return done


def test_what_sqlite_cannot_keep_is_an_error_of_the_store(store: SQLiteStore) -> None:
    instance = running(store)
    with pytest.raises(StoreError, match="cannot be kept"):
        finish(store, instance, Outcome.FAILED, error="\ud800")
    with pytest.raises(StoreError, match="cannot keep"):
        store.select_definitions(limit=2**70)
    assert finish(store, instance)


# Connections and locks, where a file would not go wrong when asked to.


def test_a_duration_beyond_64_bits_is_an_error_of_the_store(store: SQLiteStore) -> None:
    with pytest.raises(StoreError, match="cannot keep a duration"):
        finish(store, running(store), None, retry_in=timedelta.max)


def test_two_ends_of_one_instance_in_a_batch_count_one_after_the_other(
    store: SQLiteStore,
) -> None:
    new = replace(definition(), lock="one at a time")
    pending(store, new)
    [first] = start(store, *claim(store))
    again, late = (end_of(first, outcome) for outcome in (None, Outcome.COMPLETED))
    assert store.finish_instances([again, late]).done == {first.id}
    ended = store.get_instance(first.id)
    assert (ended.state, ended.ended_attempt) == (State.COMPLETED, 1)
    assert store.slot_holder("lock:one at a time") is None


def test_what_was_deleted_as_it_ended_is_told_though_others_cannot_be_written(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, stays = running(store), running(store)

    def fail(_: object) -> Answer[Set[UUID]]:
        raise StoreError("no end can be written")

    monkeypatch.setattr(store, "_finish", fail)
    left = end_of(stays, Outcome.FAILED)
    answer = store.finish_instances([end_of(gone, deletes=True), left])
    assert (answer.done, answer.busy) == ({gone.id}, {stays.id})
    with pytest.raises(StoreError, match="no end can be written"):
        store.finish_instances([end_of(gone, deletes=True), left])


def test_what_no_json_holds_affects_no_other_row(
    store: SQLiteStore, path: Path
) -> None:
    odd, even = put(store, definition()), put(store, definition())
    damage = "UPDATE task_definitions SET expire_after = 9e999, queue = x'ff'"
    with other(path) as connection:
        connection.execute(f"{damage} WHERE id = ?", [odd.id.hex])
    fired = store.fire_definitions([firing(odd), firing(even)])
    assert fired.done == {odd.id, even.id}


def test_more_queues_than_one_statement_can_name_are_claimed(
    store: SQLiteStore,
) -> None:
    queues = [f"queue {number}" for number in range(130)]
    given = [pending(store, definition(queue=each)) for each in (queues[0], queues[-1])]
    # Four priorities are looked for.
    assert {*ids(claim(store, queues=queues))} == {*ids(given)}


def test_few_may_wait_from_an_edit_of_another_process_on(
    store: SQLiteStore, path: Path, clock: ManualClock
) -> None:
    of = put(store, task())
    add(store, of)
    with closing(SQLiteStore(url_of(path), clock=clock)) as another:
        another.put_definitions([replace(of, max_queue=1, when_full="refuse")])
    with pytest.raises(QueueFullError):
        store.add_instances(of.id, [Addition() for _ in range(5)])
    assert len(store.select(Filter(definition_id=of.id))) == 1


def test_a_file_of_another_number_of_shards_is_refused(store: SQLiteStore) -> None:
    store._dialect.shards = 16
    with pytest.raises(StoreError, match="made with 1 shards"):
        store.initialize()


def test_one_id_under_two_keys_is_added_once(store: SQLiteStore) -> None:
    of = put(store, task())
    id = uuid4()
    added = store.add_instances(of.id, [Addition(id=id, key=key) for key in "ab"])
    assert [each.key for each in added] == ["a", "a"]


def test_a_transaction_that_ended_by_itself_is_not_rolled_back(
    store: SQLiteStore,
) -> None:
    def work(connection: Connection) -> None:
        connection.exec_driver_sql("ROLLBACK")
        raise LookupError

    with pytest.raises(LookupError):
        store._database.transact(work)
    assert store._database.transact(lambda connection: 5) == 5


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (sqlite3.SQLITE_BUSY, Overtaken),
        (sqlite3.SQLITE_FULL, exc.OperationalError),
    ],
)
def test_two_that_make_a_write_ahead_log_do_not_fail(
    store: SQLiteStore,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    raised: type[Exception],
) -> None:
    error = sqlite3.OperationalError()
    error.sqlite_errorcode = code
    answers = Mock(side_effect=[exc.OperationalError("", {}, error), [("delete",)]])
    monkeypatch.setattr(store._database, "execute", answers)
    with pytest.raises(raised):
        store._database._use_log(Mock())
    with pytest.raises(StoreError, match="has the journal delete"):
        store._database._use_log(Mock())


def test_a_write_lock_that_is_not_passed_on_is_given_up() -> None:
    lock = WriteLock(0)
    with (
        lock.taken(),
        pytest.raises(StoreUnavailableError, match="writing for 0 s"),
        lock.taken(),
    ):
        pass
    with lock.taken():
        pass


def test_a_write_lock_that_is_passed_on_at_the_last_moment_is_taken() -> None:
    class Passed(deque[Any]):
        def append(self, item: Any) -> None:
            """Pass it on at once."""

    lock = WriteLock(0)
    lock._taken = True
    lock._waiting = Passed()
    with lock.taken():
        pass
    assert not lock._taken


# What another process writes.


def test_what_another_process_writes_changes_the_version_and_nothing_else_does(
    store: SQLiteStore, path: Path, clock: ManualClock
) -> None:
    version = store._database.version
    first = version()
    mine = pending(store)
    assert ids(claim(store)) == [mine.id]
    assert version() == first
    with closing(SQLiteStore(url_of(path), clock=clock)) as other:
        # A look that finds nothing is no write: two nodes do not wake each other.
        assert not claim(other)
        assert not other.due_definitions(ahead=ZERO, limit=1)
        assert version() == first
        put(other)
        assert version() != first


def test_hints_come_when_the_version_is_another_one(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = iter([1, 1, 1, 2])
    monkeypatch.setattr(store._database, "version", lambda: next(versions))
    hints = store.hints()
    assert hints.wait()
    assert hints.wait()
    assert not list(versions)


LAST_FIRST = {"order": Order.END, "descending": True, "scan_limit": 9}


@pytest.mark.parametrize(
    ("where", "read", "index"),
    [
        (CLAIMED, {"order": Order.EXPIRY}, "task_instances_lease_idx"),
        (
            CLAIMABLE,
            {"order": Order.DUE, "scan_limit": 9},
            "task_instances_claimable_idx",
        ),
        (Filter(states=[State.FAILED]), LAST_FIRST, "task_instances_failed_idx"),
        (Filter(states=[State.COMPLETED]), LAST_FIRST, "task_instances_ended_idx"),
        (Filter(states=[State.SKIPPED]), LAST_FIRST, "task_instances_unrun_idx"),
        (Filter(definition_id=NOBODY, states=OPEN), {}, "task_instances_open_idx"),
        (Filter(definition_id=NOBODY, key="a"), {}, "task_instances_key_key"),
        (
            Filter(definition_id=NOBODY, fired_since=START),
            {"order": Order.FIRE_TIME},
            "task_instances_2 (definition_key=? AND fire_time>?)",
        ),
    ],
)
def test_a_page_is_read_by_its_index(
    store: SQLiteStore, path: Path, where: Filter, read: dict[str, Any], index: str
) -> None:
    asked: list[tuple[str, Any]] = []

    def note(_: object, __: object, text: str, values: object, *___: object) -> None:
        asked.append((text, values))

    engine = store._database._engines[Lane.BY_HAND]
    event.listen(engine, "before_cursor_execute", note)
    for number in range(2):
        # What waits is read queue by queue.
        pending(store, definition(START + HOUR, key=number))
    store.select(where, **read)
    with closing(sqlite3.connect(path)) as by_hand:
        plans = [
            step[3]
            for text, values in asked
            if "FROM task_instances" in text
            for step in by_hand.execute(f"EXPLAIN QUERY PLAN {text}", values)
        ]
    assert any(index in each for each in plans), plans
    assert not any(each == "SCAN task_instances" for each in plans), plans


@pytest.mark.parametrize(
    "broken",
    [
        "completed_at = -8000000000000000000",
        "completed_at = 1.5",
        "completed_at = 'yesterday'",
        f"id = x'{'61' * 32}'",
        "id = 'one'",
    ],
)
def test_an_ended_row_that_cannot_be_read_keeps_no_other_from_being_deleted(
    store: SQLiteStore, path: Path, clock: ManualClock, broken: str
) -> None:
    for _ in range(3):
        finish(store, running(store))
    clock.advance(HOUR)
    one = "WHERE rowid = (SELECT min(rowid) FROM task_instances)"
    with other(path) as by_hand:
        by_hand.execute(f"UPDATE task_instances SET {broken} {one}")
        # Two instances, and their definitions.
        assert clean_up(store) == 4
        [(left,)] = by_hand.execute("SELECT count(*) FROM task_instances")
    assert left == 1


def test_a_bounded_search_by_key_goes_by_the_queues_of_instances(
    store: SQLiteStore,
) -> None:
    of = put(store)
    additions = [Addition(key="one"), Addition(key="two", overrides={"queue": "own"})]
    [one, two] = store.add_instances(of.id, additions)
    for made, queues in ((one, {of.queue}), (two, {"own"})):
        for key in ("one", "two"):
            where = Filter(key=key, queues=queues)
            found = store.select(where, limit=10, scan_limit=10)
            assert [each.id for each in found] == [made.id] * (made.key == key)
