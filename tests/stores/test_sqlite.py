"""The SQLite store keeps every promise of the interface, in one file of many users."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest
from sqlalchemy import create_engine, event

from go_scheduler.checks import NOTE_LIMIT
from go_scheduler.clock import ZERO
from go_scheduler.errors import (
    ConfigurationError,
    StoreError,
    StoreUnavailableError,
)
from go_scheduler.models import Outcome, State
from go_scheduler.stores.messages import Position, RunOutcome
from go_scheduler.stores.opening import open_store
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.reader import ContentsCache
from go_scheduler.stores.sqlite.store import SQLiteStore
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    SECOND,
    claim,
    claim_of,
    clean_up,
    definition,
    ended,
    finish,
    fire,
    ids,
    instances,
    pending,
    put,
    running,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.stores import StoreSuite
from go_scheduler.triggers.stored import UnknownTrigger
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
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


def write(path: Path, statement: str, *parameters: object) -> None:
    """Write by hand."""
    with other(path) as connection:
        assert connection.execute(statement, parameters).rowcount == 1


class TestSQLiteStore(StoreSuite):
    """``SQLiteStore`` against the suite."""

    @pytest.fixture
    def store(self, store: SQLiteStore) -> Store:
        """The same as for the other tests of this module."""
        return store


class TestUrls:
    def test_a_file_may_be_named_relative_to_where_the_process_is(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        with closing(SQLiteStore("sqlite:///here.db")) as store:
            monkeypatch.chdir("/")
            store.initialize()
        assert (tmp_path / "here.db").exists()

    @pytest.mark.parametrize("scheme", ["sqlite", "sqlite+pysqlite"])
    def test_a_file_may_be_named_from_the_root(self, path: Path, scheme: str) -> None:
        with closing(open_store(f"{scheme}:///{path}")) as store:
            store.initialize()
        assert path.exists()

    @pytest.mark.parametrize(
        "url", ["sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite+pysqlite://"]
    )
    def test_a_database_in_memory_is_refused(self, url: str) -> None:
        with pytest.raises(ConfigurationError, match="MemoryStore, memory://"):
            SQLiteStore(url)

    def test_the_url_of_another_database_is_refused_without_its_password(self) -> None:
        with pytest.raises(ConfigurationError, match="sqlite:///relative") as caught:
            SQLiteStore("postgresql://me:secret@host/database")
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize(
        "url", ["sqlite://host/file.db", "sqlite:///file.db?mode=ro", "file.db", ""]
    )
    def test_what_names_no_file_is_refused(self, url: str) -> None:
        with pytest.raises(ConfigurationError, match=r"sqlite:///relative/file\.db"):
            SQLiteStore(url)

    def test_a_negative_wait_is_refused(self, path: Path) -> None:
        with pytest.raises(ConfigurationError, match="busy_timeout"):
            SQLiteStore(url_of(path), busy_timeout=-SECOND)

    def test_an_old_sqlite_is_refused(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
        with pytest.raises(ConfigurationError, match=r"SQLite 3\.35 or newer"):
            SQLiteStore(url_of(path))

    def test_a_store_shows_its_file(self, path: Path) -> None:
        assert repr(SQLiteStore(url_of(path))) == f"SQLiteStore('sqlite:///{path}')"


class TestFiles:
    def test_a_missing_directory_is_named(self, tmp_path: Path) -> None:
        store = SQLiteStore(url_of(tmp_path / "missing" / "store.db"))
        with pytest.raises(ConfigurationError, match="missing of the store's file"):
            store.initialize()

    @pytest.mark.parametrize(("durable", "level"), [(True, 2), (False, 1)])
    def test_writes_wait_for_the_disk_unless_told_otherwise(
        self, path: Path, durable: bool, level: int
    ) -> None:
        with closing(SQLiteStore(url_of(path), durable=durable)) as store:
            store.initialize()
            found = store._database.transact(
                lambda connection: [
                    connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                    for name in ("journal_mode", "synchronous")
                ]
            )
        assert found == ["wal", level]

    def test_a_file_that_is_no_database_is_an_error(self, path: Path) -> None:
        path.write_bytes(b"This is no database, and it is long enough to be sure." * 20)
        with (
            closing(SQLiteStore(url_of(path))) as store,
            pytest.raises(StoreError, match="not a database") as caught,
        ):
            store.initialize()
        assert type(caught.value) is StoreError
        assert str(caught.value).startswith(f"{path}: ")

    def test_a_file_that_cannot_be_opened_may_come_back(
        self, store: SQLiteStore, path: Path
    ) -> None:
        store.close()
        hidden = path.rename(path.with_suffix(".hidden"))
        path.mkdir()
        with pytest.raises(StoreUnavailableError, match="unable to open"):
            put(store)
        path.rmdir()
        hidden.rename(path)
        put(store)

    def test_a_full_disk_is_an_outage_that_ends(self, store: SQLiteStore) -> None:
        instance = running(store)
        pages = on_every_connection(store, "PRAGMA page_count")
        on_every_connection(store, f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreUnavailableError, match="full"):
            store.put_definitions([definition() for _ in range(1000)])
        assert len(store.list_definitions()) == 1
        on_every_connection(store, f"PRAGMA max_page_count = {2**30}")
        assert len(store.put_definitions([definition() for _ in range(1000)])) == 1000
        assert finish(store, instance)

    def test_a_file_that_cannot_be_written_can_be_read(
        self, store: SQLiteStore
    ) -> None:
        given = pending(store)
        on_every_connection(store, "PRAGMA query_only = ON")
        with pytest.raises(StoreError, match="readonly") as refused:
            claim(store)
        assert not isinstance(refused.value, StoreUnavailableError)
        assert instances(store, given.definition) == [given]
        on_every_connection(store, "PRAGMA query_only = OFF")
        assert ids(claim(store)) == [given.id]

    def test_what_was_stored_is_there_when_the_file_is_opened_again(
        self, store: SQLiteStore, clock: ManualClock, path: Path
    ) -> None:
        given = running(store, definition(metadata={"é": [1, {}]}))
        store.close()
        with closing(SQLiteStore(url_of(path), clock=clock)) as again:
            again.initialize()
            assert again.get_instance(given.id) == given
            assert finish(again, given)


def on_every_connection(store: SQLiteStore, pragma: str) -> object:
    """Set what belongs to a connection, on those that exist and on those to come."""

    def set_it(connection: sqlite3.Connection, _: object) -> None:
        connection.execute(pragma).close()

    store.close()
    for engine in set(store._database._engines.values()):
        event.listen(engine, "connect", set_it)

    def ask(connection: Connection) -> object:
        found = connection.exec_driver_sql(pragma)
        return found.scalar() if found.returns_rows else None

    return store._database.run(Lane.BY_KEY, ask)


class TestLocks:
    def test_while_another_process_writes_nothing_is_written_and_all_can_be_read(
        self, store: SQLiteStore, path: Path
    ) -> None:
        instance = running(store)
        waiting = pending(store)
        with other(path) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            for call in (
                partial(finish, store, instance),
                partial(claim, store),
                partial(put, store),
            ):
                with pytest.raises(StoreUnavailableError, match="locked"):
                    call()
            assert store.get_instance(instance.id) == instance
            assert store.due_definitions(ahead=HOUR, limit=10) == []
            connection.execute("ROLLBACK")
        assert finish(store, instance)
        assert [each.id for each in claim(store)] == [waiting.id]

    def test_a_claim_of_nothing_waits_for_nobody(
        self, store: SQLiteStore, path: Path
    ) -> None:
        running(store)
        with other(path) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            assert claim(store) == []
            connection.execute("ROLLBACK")

    def test_a_user_whose_own_transaction_is_in_the_way_learns_what_to_pass(
        self, store: SQLiteStore, path: Path
    ) -> None:
        with other(path) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailableError) as caught:
                put(store)
            connection.execute("ROLLBACK")
        assert str(caught.value) == (
            f"{path}: database is locked (SQLITE_BUSY): another transaction has written"
            " to it and is still open; if it is one of yours, pass it as connection="
        )

    def test_a_write_looks_for_the_lock_again(
        self, store: SQLiteStore, path: Path
    ) -> None:
        instance = running(store)
        with other(path) as connection:
            connection.execute("BEGIN IMMEDIATE")
            at_the_first_error(store, partial(connection.execute, "COMMIT"))
            assert finish(store, instance)

    def test_an_empty_file_that_another_process_writes_is_initialized_after_it(
        self, path: Path
    ) -> None:
        with (
            closing(SQLiteStore(url_of(path), durable=False)) as store,
            other(path) as connection,
        ):
            connection.execute("BEGIN IMMEDIATE")
            at_the_first_error(store, partial(connection.execute, "COMMIT"))
            store.initialize()
            assert store.list_definitions() == []

    def test_a_transaction_that_fails_is_over(self, store: SQLiteStore) -> None:
        def delete_and_fail(connection: Connection) -> None:
            with store._database.transaction(connection):
                connection.exec_driver_sql("DELETE FROM task_definitions")
                raise ZeroDivisionError

        def fail(connection: Connection) -> object:
            with pytest.raises(ZeroDivisionError):
                delete_and_fail(connection)
            return connection.connection.dbapi_connection.in_transaction  # type: ignore[union-attr]

        new = put(store)
        assert store._database.run(Lane.BY_KEY, fail) is False
        assert store.list_definitions() == [new]

    def test_a_killed_process_leaves_nothing_half_done(
        self, store: SQLiteStore, path: Path
    ) -> None:
        given = pending(store)
        kill_while_writing(path, "UPDATE task_instances SET attempt = 77")
        assert store.get_instance(given.id) == given
        assert ids(claim(store)) == [given.id]

    def test_reads_take_no_lock_that_keeps_others_from_writing(
        self, store: SQLiteStore, path: Path
    ) -> None:
        given = pending(store)

        with other(path) as connection:
            connection.execute("BEGIN")
            connection.execute("SELECT * FROM task_instances").fetchone()
            [mine] = claim(store)
            assert finish(store, mine)
            connection.execute("COMMIT")
        assert store.get_instance(given.id).state is State.COMPLETED

    def test_threads_are_served_in_turn(self, store: SQLiteStore) -> None:
        served: list[str] = []
        waiting = store._database._write_lock._waiting

        def note(_: object, __: object, statement: str, *___: object) -> None:
            if statement.startswith("BEGIN"):
                served.append(threading.current_thread().name)

        def write() -> None:
            # Left to SQLite's own wait, who asks again at once would be the next.
            for _ in range(3):
                put(store)

        threads = [threading.Thread(target=write, name=name) for name in "abc"]

        def come(_: object) -> None:
            event.listen(
                store._database._engines[Lane.BY_KEY], "before_cursor_execute", note
            )
            for number, thread in enumerate(threads, 1):
                thread.start()
                while len(waiting) < number:
                    pass

        store._database.transact(come)
        for thread in threads:
            thread.join(FAILED_AFTER)
        assert served[:3] == ["a", "b", "c"]
        assert len(served) == 9


def at_the_first_error(store: SQLiteStore, call: Callable[[], object]) -> None:
    """Make a call when the connection that writes meets its first error."""
    engine = store._database._engines[Lane.BY_KEY]

    def react(_: object) -> None:
        call()

    event.listen(engine, "handle_error", react, once=True)


_WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
connection.execute(sys.argv[2])
print("written", flush=True)
sys.stdin.read()
"""


def kill_while_writing(path: Path, statement: str) -> None:
    """Kill a process within a transaction."""
    with subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path), statement],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        written = process.stdout.readline()
        process.kill()
    assert written == b"written\n"


@pytest.mark.chaos
class TestProcesses:
    def test_two_processes_may_initialize_an_empty_file_at_once(
        self, tmp_path: Path
    ) -> None:
        context = multiprocessing.get_context("spawn")
        urls = [url_of(tmp_path / f"{number}.db") for number in range(10)]
        with context.Pool(2) as pool:
            made = pool.starmap_async(initialize_all, [(urls,), (urls,)], chunksize=1)
            assert made.get(FAILED_AFTER) == [10, 10]

    def test_processes_never_claim_the_same_instance(self, path: Path) -> None:
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
            assert store.counts()[State.COMPLETED] == 300

    def test_a_forked_process_is_told_that_it_cannot_use_the_file(
        self, store: SQLiteStore, path: Path
    ) -> None:
        put(store)
        new = SQLiteStore(url_of(path))
        assert in_child(lambda: put(store)) == "StoreError"
        assert in_child(lambda: put(new)) == "StoreError"
        assert len(store.list_definitions()) == 1

    def test_a_store_that_was_closed_before_the_fork_can_be_used_after_it(
        self, store: SQLiteStore
    ) -> None:
        put(store)
        store.close()
        assert in_child(lambda: put(store)) == "TaskDefinition"
        assert len(store.list_definitions()) == 2


def initialize_all(urls: Sequence[str]) -> int:
    for url in urls:
        with closing(SQLiteStore(url, durable=False)) as store:
            store.initialize()
            assert store.list_definitions() == []
    return len(urls)


def drain(url: str) -> list[UUID]:
    with closing(SQLiteStore(url, durable=False)) as store:
        done: list[UUID] = []
        node = uuid4()
        while page := claim(store, node, limit=7):
            outcomes = [
                RunOutcome(
                    claim=claim_of(each),
                    started_at=each.started_at,
                    outcome=Outcome.COMPLETED,
                )
                for each in page
            ]
            assert store.finish_instances(outcomes).done == set(ids(page))
            done += ids(page)
        return done


def in_child(call: Callable[[], object]) -> str:
    """The type of what a call returns or raises in a forked process."""
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            try:
                answer = type(call()).__name__
            except BaseException as error:
                answer = type(error).__name__
            os.write(writer, answer.encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(child, 0)
    return answer


class TestRowsWrittenByHand:
    """Each spoils itself, and nothing else."""

    @pytest.mark.parametrize(
        ("column", "value"),
        [
            ("next_fire_time", -(2**60)),
            ("next_fire_time", 1.5),
            ("expire_after", "soon"),
            ("expire_after", -1),
            ("queue", b"\xff"),
            ("queue", ""),
            ("paused", "maybe"),
            ("completed_at", "yesterday"),
            ("revision", "first"),
            ("created_at", "once"),
            ("note", b"\xff"),
            ("paused_at", "lately"),
        ],
    )
    def test_a_definition(
        self, store: SQLiteStore, path: Path, column: str, value: object
    ) -> None:
        bad, good = put(store, definition(key=1)), put(store, definition(key=2))
        write(
            path,
            f"UPDATE task_definitions SET {column} = ? WHERE id = ?",
            value,
            bad.id.hex,
        )
        assert len(store.list_definitions()) == 2
        [first] = store.list_definitions(limit=1)
        assert good in store.list_definitions(after=Position.of_definition(first))
        assert good in store.due_definitions(ahead=ZERO, limit=10)
        assert good in due_by_pages(store)
        assert [each.fire_time for each in fire(store, good, START)] == [START]
        assert len(claim(store)) == 1

    def test_a_note_is_read_as_far_as_it_can_be_kept(
        self, store: SQLiteStore, path: Path
    ) -> None:
        noted = put(store, definition())
        write(path, "UPDATE task_definitions SET note = ?", "a\0b" + "c" * NOTE_LIMIT)
        found = store.get_definition(noted.id)
        assert found.trigger == noted.trigger
        assert found.note == "ab" + "c" * (NOTE_LIMIT - 2)

    @pytest.mark.parametrize(
        ("column", "value"),
        [
            ("trigger_kind", "unheard-of"),
            ("trigger_kind", b"\xff"),
            ("trigger_state", "{"),
            ("trigger_state", "[" * 100_000),
            ("metadata", "{"),
            ("metadata", "[1]"),
            ("metadata", "CAST(x'22ff22' AS TEXT)"),
            ("policies", "[]"),
            ("policies", '{"unheard-of": 1}'),
            ("policies", '{"retry": {"unheard-of": 1}}'),
            ("name", b"\xff"),
        ],
    )
    def test_a_definitions_contents(
        self, store: SQLiteStore, path: Path, column: str, value: object
    ) -> None:
        bad = put(store, definition(key=1, metadata={"a": 1}))
        good = put(store, definition(key=2, metadata={"a": 1}))
        value_sql = "?"
        if isinstance(value, str) and value.startswith("CAST"):
            value_sql, value = value, bad.id.hex
            parameters: tuple[object, ...] = (value,)
        else:
            parameters = (value, bad.id.hex)
        write(
            path,
            f"UPDATE task_contents SET {column} = {value_sql} WHERE key ="
            " (SELECT key FROM task_definitions WHERE id = ?)",
            *parameters,
        )
        listed = store.list_definitions()
        assert ids(listed) == [bad.id, good.id]
        assert isinstance(listed[0].trigger, UnknownTrigger)
        assert good in store.list_definitions(metadata={"a": 1})
        assert ids(store.due_definitions(ahead=ZERO, limit=10)) == [bad.id, good.id]
        fire(store, good, START)
        assert len(claim(store)) == 1

    def test_a_definition_without_contents(
        self, store: SQLiteStore, path: Path
    ) -> None:
        bad, good = put(store, definition(key=1)), put(store, definition(key=2))
        write(
            path,
            "DELETE FROM task_contents WHERE key ="
            " (SELECT key FROM task_definitions WHERE id = ?)",
            bad.id.hex,
        )
        assert store.list_definitions(metadata={}) == [good]
        # As another process reads it, which has not put it.
        with closing(SQLiteStore(f"sqlite:///{path}", clock=store.clock)) as other:
            due = other.due_definitions(ahead=ZERO, limit=10)
        assert isinstance(due[0].trigger, UnknownTrigger)
        assert due[1] == good

    @pytest.mark.parametrize(
        ("column", "value"),
        [
            ("id", "6BA7B8109DAD11D180B400C04FD430C8"),
            ("id", "no id"),
            ("definition_key", "nobody's"),
            ("expire_after", "soon"),
            ("fire_time", "noon"),
            ("execute_at", "noon"),
            ("due_at", "noon"),
            ("due_at", -(2**62)),
            ("claimable_at", "noon"),
            ("claimable_at", -(2**62)),
            ("attempt", "third"),
            ("runs", "many"),
            ("expires_at", "noon"),
            ("claimed_by", "me"),
            ("started_at", "noon"),
            ("error", b"\xff"),
            ("error", "CAST(x'ff' AS TEXT)"),
            ("cancel_requested", "maybe"),
            ("skipped_count", "some"),
        ],
    )
    def test_an_instance(
        self, store: SQLiteStore, path: Path, column: str, value: object
    ) -> None:
        bad = pending(store, definition(START - SECOND))
        good = pending(store)
        of_bad = bad.definition
        sql, parameters = "?", [value, bad.id.hex]
        if isinstance(value, str) and value.startswith("CAST"):
            sql, parameters = value, [bad.id.hex]
        write(
            path,
            f"UPDATE task_instances SET {column} = {sql} WHERE id = ?",
            *parameters,
        )
        assert len(store.list_instances()) == 2
        assert sum(store.counts().values()) >= 1
        assert len(instances(store, of_bad)) == (column != "definition_key")
        claimed = claim(store, limit=2, lapsed=True)
        assert {*ids(claimed)} <= {bad.id, good.id}
        [mine] = [each for each in claimed if each.id == good.id]
        assert finish(store, mine)

    def test_a_claim_that_cannot_be_judged(
        self, store: SQLiteStore, clock: ManualClock, path: Path
    ) -> None:
        bad, good = running(store), running(store)
        write(
            path,
            "UPDATE task_instances SET expires_at = -1, due_at = 'x' WHERE id = ?",
            bad.id.hex,
        )
        clock.advance(LEASE)
        assert ids(claim(store, limit=1, lapsed=True)) == [good.id]

    def test_an_unknown_outcome(self, store: SQLiteStore, path: Path) -> None:
        bad, good = ended(store), ended(store)
        write(
            path,
            "UPDATE task_instances SET outcome = 'odd' WHERE id = ?",
            bad.id.hex,
        )
        assert good in store.list_instances()
        assert store.counts()[State.COMPLETED] == 1
        assert isinstance(store.get_instance(bad.id).definition.trigger, UnknownTrigger)
        assert clean_up(store, older_than=ZERO, limit=10) == 4

    def test_an_orphan(self, store: SQLiteStore, path: Path) -> None:
        bad, good = pending(store), pending(store)
        write(path, "DELETE FROM task_definitions WHERE id = ?", bad.definition.id.hex)
        claimed = claim(store)
        assert set(ids(claimed)) == {bad.id, good.id}
        for each in claimed:
            assert finish(store, each)
            assert isinstance(each.definition.trigger, UnknownTrigger) == (
                each.id == bad.id
            )


def due_by_pages(store: Store) -> list[object]:
    found: list[object] = []
    after = None
    while page := store.due_definitions(ahead=ZERO, after=after, limit=1):
        found += page
        after = page[-1]
        assert len(found) <= 2, "a page comes again and again"
    return found


class TestTransactionsOfUsers:
    def test_a_connection_in_autocommit_is_refused(
        self, store: SQLiteStore, path: Path
    ) -> None:
        engine = create_engine(url_of(path), isolation_level="AUTOCOMMIT")
        with (
            engine.connect() as connection,
            pytest.raises(ConfigurationError, match="autocommit"),
        ):
            store.join(connection).put_definitions([definition()])
        engine.dispose()

    def test_what_is_put_and_finished_is_there_when_it_commits(
        self, store: SQLiteStore, path: Path
    ) -> None:
        instance = running(store)
        outcome = RunOutcome(
            claim=claim_of(instance),
            started_at=START,
            outcome=Outcome.COMPLETED,
            result='{"größe":[1]}',
        )
        engine = create_engine(url_of(path))
        with engine.connect() as connection:
            [new] = store.join(connection).put_definitions([definition()])
            assert store.finish_instance_in(connection, outcome)
            assert ids(store.list_definitions()) == [instance.definition.id]
            connection.rollback()
            assert store.get_instance(instance.id) == instance
            [new] = store.join(connection).put_definitions([definition()])
            assert store.finish_instance_in(connection, outcome)
            connection.commit()
        engine.dispose()
        assert store.get_definition(new.id) == new
        found = store.get_instance(instance.id)
        assert (found.state, found.result) == (State.COMPLETED, {"größe": [1]})

    def test_a_race_with_somebody_else_asks_for_another_try(
        self, store: SQLiteStore, path: Path
    ) -> None:
        engine = create_engine(url_of(path), connect_args={"timeout": 0})
        with engine.connect() as connection, other(path) as rival:
            rival.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailableError, match="locked"):
                store.join(connection).put_definitions([definition()])
            rival.execute("ROLLBACK")
        engine.dispose()


@pytest.mark.parametrize("text", ["😀 é", "quote ' and \\ and \n", '{"a": [1]}'])
def test_an_error_is_kept_whatever_is_in_it(store: SQLiteStore, text: str) -> None:
    instance = running(store)
    assert finish(store, instance, Outcome.FAILED, error=text)
    assert store.get_instance(instance.id).error == text


def test_what_sqlite_cannot_keep_is_an_error_of_the_store(store: SQLiteStore) -> None:
    instance = running(store)
    with pytest.raises(StoreError, match="cannot be kept"):
        finish(store, instance, Outcome.FAILED, error="\ud800")
    with pytest.raises(StoreError, match="cannot keep"):
        store.list_definitions(limit=2**70)
    assert finish(store, instance)


def test_contents_that_are_needed_but_once_are_read_by_the_claim_and_not_remembered(
    store: SQLiteStore,
) -> None:
    given = pending(store, definition(metadata={"a": 1}))
    store._reader._contents = ContentsCache()
    [instance] = claim(store)
    assert instance.started_at is not None
    assert instance.definition == given.definition
    assert instance.definition.trigger == given.definition.trigger
    assert not store._reader._contents._entries


def test_contents_that_are_needed_again_are_read_apart_and_remembered(
    store: SQLiteStore,
) -> None:
    goes_on = put(store)
    fire(store, goes_on, START, next_fire_time=START + HOUR)
    is_to_start = pending(store, definition(START + SECOND))
    store._reader._contents = ContentsCache()
    taken = claim(store, ahead=SECOND)
    assert {each.definition.id: each.definition.trigger for each in taken} == {
        goes_on.id: goes_on.trigger,
        is_to_start.definition.id: is_to_start.definition.trigger,
    }
    assert len(store._reader._contents._entries) == 2
