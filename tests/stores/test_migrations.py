"""One schema comes to be, whoever makes it and however many begin at once."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from alembic.runtime.migration import MigrationContext
from sqlalchemy import make_url, text
from sqlalchemy.schema import CreateIndex, CreateTable, DDLElement

from go_scheduler import ExecuteOnceTrigger, IntervalTrigger, Scheduler, State
from go_scheduler.client import Client
from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.models import TaskDefinition
from go_scheduler.policies import RetryPolicy
from go_scheduler.stores import open_store
from go_scheduler.stores.filters import Filter
from go_scheduler.stores.migrations.history import (
    CREATE_TABLE,
    History,
    MigrationLock,
    create_lock_table_sql,
    history,
    read_revisions,
    write_revision,
    write_revision_sql,
)
from go_scheduler.stores.migrations.operating import operations, sql_of
from go_scheduler.stores.sql import schema
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.schema import DIALECTS, Schema, main, schema_sql
from go_scheduler.stores.sql.store import SQLStore
from go_scheduler.stores.sql.tables import is_on, metadata
from tests.conftest import SQL, engines
from tests.patience import FAILED_AFTER
from tests.servers import connected, fresh_database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from alembic.operations import Operations
    from sqlalchemy import Connection

    from go_scheduler import TaskInstance

HEAD = history().head
VERSIONS = Path(__file__).parent / "versions"
LONG = History(VERSIONS)
"""A history of more revisions than one."""
FIRST, MIDDLE, LAST = (each.revision for each in LONG.after(None))
SECOND = timedelta(seconds=1)


engine = engines(["sqlite", *SQL[1:]])


@pytest.fixture
def empty_url(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[[], str]]:
    """Makes empty databases, and answers the URL of each."""
    with ExitStack() as stack:
        if engine == "sqlite":
            names = iter(range(1000))
            yield lambda: f"sqlite:///{tmp_path / f'{next(names)}.db'}"
        else:
            fixture = "cockroachdb_url" if engine == "cockroachdb" else "postgresql_url"
            server = request.getfixturevalue(fixture)
            yield lambda: stack.enter_context(fresh_database(server))


@pytest.fixture
def url(empty_url: Callable[[], str]) -> str:
    """The URL of an empty database."""
    return empty_url()


@pytest.fixture
def store(url: str) -> Iterator[SQLStore]:
    """A store on an empty database, not initialized."""
    with closing_store(url) as store:
        yield store


@pytest.fixture
def other(url: str) -> Iterator[SQLStore]:
    """Another store on the same database, not initialized."""
    with closing_store(url) as store:
        yield store


@pytest.fixture
def long_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the schema a history of more revisions than one."""
    monkeypatch.setattr(schema, "history", lambda: LONG)


@contextmanager
def closing_store(url: str) -> Iterator[SQLStore]:
    """A store that is closed in the end."""
    store = open_store(url)
    assert isinstance(store, SQLStore)
    try:
        yield store
    finally:
        store.close()


def execute(store: SQLStore, *statements: str) -> None:
    """Do something to a store's database."""

    def each_by_itself(connection: Connection) -> None:
        for each in statements:
            connection.execute(text(each))

    change(store, each_by_itself)


def change(store: SQLStore, work: Callable[[Connection], None]) -> None:
    """Change a schema, for which a busy server has as long as for a migration."""

    def patiently(connection: Connection) -> None:
        if store._dialect.name != "sqlite":
            schema._be_patient(connection)
        work(connection)

    store._database.run(Lane.BY_HAND, patiently)


def query(store: SQLStore, statement: str) -> Sequence[tuple[object, ...]]:
    """Ask a store's database something."""
    return store._database.run(
        Lane.BY_HAND,
        lambda each: [tuple(row) for row in each.execute(text(statement))],
    )


def revisions(store: SQLStore) -> Sequence[str]:
    """What the version table says."""
    return store._database.run(Lane.BY_HAND, read_revisions)


def run_sql(url: str, script: str) -> None:
    """Run a script of SQL, as an administrator would."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(make_url(url).database or "")) as file:
            file.executescript(script)
        return
    with connected(url) as connection:
        for statement in script.split(";\n"):
            connection.execute(statement.encode())


def only_checking(store: SQLStore) -> SQLStore:
    """The store as if it had been opened with ``migrate=False``."""
    store._schema = Schema(store._dialect.name, migrate=False)
    return store


def migrate_to_the_middle(store: SQLStore) -> None:
    """Leave a database as somebody does who stops half way."""

    def climb(connection: Connection) -> None:
        alembic = operations(connection)
        for script in LONG.after(None):
            script.module.upgrade(alembic)
            if script.revision == MIDDLE:
                break

    change(store, climb)
    execute(store, CREATE_TABLE, write_revision_sql(MIDDLE, previous=None))


_TABLES = "({})".format(", ".join(f"'{name}'" for name in metadata.tables))
_COLUMNS = f"""
SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
       pg_get_expr(d.adbin, d.adrelid)
  FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
  LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
 WHERE c.relname IN {_TABLES}
   AND NOT a.attisdropped
 ORDER BY c.relname, a.attnum
"""
_INDEXES = f"""
SELECT indexname, indexdef FROM pg_indexes
 WHERE tablename IN {_TABLES}
 ORDER BY indexname
"""
_CONSTRAINTS = f"""
SELECT o.conname, pg_get_constraintdef(o.oid)
  FROM pg_constraint AS o JOIN pg_class AS c ON c.oid = o.conrelid
 WHERE c.relname IN {_TABLES}
   AND o.contype <> 'n'
 ORDER BY o.conname
"""
_SQLITE = f"""
SELECT name, sql FROM sqlite_master
 WHERE tbl_name IN {_TABLES}
 ORDER BY name
"""
METADATA_INDEX = "task_contents_metadata_idx"


def described(store: SQLStore) -> Sequence[tuple[object, ...]]:
    """Every column, index and constraint, but what only the migrations know of."""
    on_sqlite = store._dialect.name == "sqlite"
    asked = [_SQLITE] if on_sqlite else [_COLUMNS, _INDEXES, _CONSTRAINTS]
    return [
        tuple(re.sub(r"[\s\"]+", " ", str(each)) for each in row)
        for statement in asked
        for row in query(store, statement)
        if row[0] != METADATA_INDEX
    ]


def test_a_migrated_schema_is_what_the_tables_say(
    empty_url: Callable[[], str],
) -> None:
    with (
        closing_store(empty_url()) as migrated,
        closing_store(empty_url()) as created,
    ):
        migrated.initialize()
        change(created, metadata.create_all)
        assert described(migrated) == re_named(described(created), created, migrated)
        assert len(described(migrated)) > 10


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_written_down_is_what_the_tables_say(dialect: str) -> None:
    """Where no server of this kind is, too."""
    context = MigrationContext.configure(dialect_name=dialect)
    tables = metadata.sorted_tables
    indexes = [
        CreateIndex(each)
        for table in tables
        for each in table.indexes
        if is_on(each, dialect)
    ]
    said: list[DDLElement] = [*map(CreateTable, tables), *indexes]
    texts = [str(each.compile(dialect=context.dialect)) for each in said]
    written = sql_of(history().after(None), dialect)
    assert {*_as_written("; ".join(texts))} <= {*_as_written(written)}


def _as_written(sql: str) -> Sequence[str]:
    plain = re.sub(r"\bIF NOT EXISTS |\bIF EXISTS ", "", sql)
    return [re.sub(r"\s+", " ", each).strip() for each in plain.split(";")]


def re_named(
    rows: Sequence[tuple[object, ...]], one: SQLStore, other: SQLStore
) -> Sequence[tuple[object, ...]]:
    """The same, as if they had been found in the other's database."""
    if one._dialect.name == "sqlite":
        return rows
    name, other_name = (
        str(query(each, "SELECT current_database()")[0][0]) for each in (one, other)
    )
    return [tuple(str(each).replace(name, other_name) for each in row) for row in rows]


def test_metadata_is_indexed_where_it_can_be(engine: str, store: SQLStore) -> None:
    store.initialize()
    of_file = "SELECT sql FROM sqlite_master WHERE name = "
    of_server = "SELECT indexdef FROM pg_indexes WHERE indexname = "
    asked = of_file if engine == "sqlite" else of_server
    found = query(store, f"{asked}'{METADATA_INDEX}'")
    assert [*found] == [] if engine == "sqlite" else "gin (metadata_" in str(found)


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_pages_of_instances_have_room_for_updates(store: SQLStore) -> None:
    store.initialize()
    asked = "SELECT reloptions FROM pg_class WHERE relname = 'task_instances'"
    assert query(store, asked) == [(["fillfactor=70"],)]


@pytest.mark.usefixtures("long_history")
def test_each_step_does_no_harm_when_repeated(store: SQLStore) -> None:
    store.initialize()
    before = described(store)

    def again(connection: Connection) -> None:
        for script in LONG.after(None):
            script.module.upgrade(operations(connection))

    change(store, again)
    assert described(store) == before
    previous = None
    for script in LONG.after(None):
        steps = sql_of(LONG.after(previous), store._dialect.name)
        others = sql_of(LONG.after(script.revision), store._dialect.name)
        assert steps.endswith(others)
        previous = script.revision


def test_labels_and_keys_of_debouncing_are_unique_only_while_they_count(
    engine: str, store: SQLStore
) -> None:
    store.initialize()
    now = "0" if engine == "sqlite" else "now()"

    def define(number: int, label: str, deleted_at: str = "NULL") -> None:
        execute(
            store,
            "INSERT INTO task_definitions"
            " (key, id, queue, revision, created_at, label, deleted_at) VALUES"
            f" ('{number:032}', '{number:032}', 'q', 1, {now}, {label}, {deleted_at})",
        )

    def debounce(number: int, key: str, ended: str = "NULL, NULL") -> None:
        execute(
            store,
            "INSERT INTO task_instances (id, definition_key, queue, execute_at, due_at,"
            f" debounce_key, completed_at, outcome) VALUES ('{number:032}',"
            f" '{1:032}', 'q', {now}, {now}, {key}, {ended})",
        )

    for insert, former in (
        (define, now),
        (debounce, f"{now}, 'skipped'"),
    ):
        insert(1, "'a'")
        insert(2, "'a'", former)
        insert(3, "NULL")
        insert(4, "NULL")
        with pytest.raises(StoreError, match=r"(?i)unique"):
            insert(5, "'a'")


MADE = {
    "2026.11.29b": {
        "cockroachdb": "2f6cc029d216e012",
        "postgresql": "a6e18041dab83472",
        "sqlite": "b773753d391217a2",
    },
}
"""Of the statements of each revision the digest. It is never changed: databases exist
that were made by them. What is to be different is a revision of its own."""


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_revision_is_ever_edited(dialect: str) -> None:
    found = {
        # SQLAlchemy has not always written the same.
        each.revision: sql_of([each], dialect).replace("DEFAULT (0)", "DEFAULT 0")
        for each in history().after(None)
    }
    digests = {
        revision: sha256(" ".join(sql.split()).encode()).hexdigest()[:16]
        for revision, sql in found.items()
    }
    assert digests == {revision: each[dialect] for revision, each in MADE.items()}


# Printed SQL.


@pytest.mark.usefixtures("long_history")
def test_the_printed_sql_goes_on_from_a_revision(
    engine: str, url: str, store: SQLStore
) -> None:
    migrate_to_the_middle(store)
    sql = schema_sql(engine, since=MIDDLE)
    assert "task_definitions_id_key" not in sql
    run_sql(url, sql)
    only_checking(store).initialize()


@pytest.mark.usefixtures("long_history")
def test_the_command_says_what_it_does_not_know(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["sqlite", "--since", "7777"])
    assert f"no revision '7777'; there are {FIRST} to {LAST}" in capsys.readouterr().err
    main(["sqlite", "--since", LAST])
    assert capsys.readouterr().out == ""


# What is found at the start.


@pytest.mark.usefixtures("long_history")
def test_a_schema_that_is_behind_is_named_with_the_way_on(
    engine: str, store: SQLStore
) -> None:
    migrate_to_the_middle(store)
    with pytest.raises(
        StoreError,
        match=rf"at revision {MIDDLE},.* {LAST} is .*schema {engine} --since {MIDDLE}`",
    ):
        only_checking(store).initialize()


# Nodes of the version before.


@pytest.mark.slow
def test_nodes_of_the_version_before_go_on_and_rows_stay(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(VERSIONS / "r0001_first.py", tmp_path)
    before = History(tmp_path)
    monkeypatch.setattr(schema, "history", lambda: before)
    ran = threading.Semaphore(0)
    often = TaskDefinition(trigger=IntervalTrigger(SECOND / 20), name="often")

    def handle(instance: TaskInstance) -> None:
        if instance.definition.name != often.name:
            raise ValueError
        ran.release()

    with closing_store(url) as old, closing_store(url) as new:
        failing, waiting = (
            Client(old).schedule(
                TaskDefinition(
                    trigger=ExecuteOnceTrigger(old.now()),
                    queue=queue,
                    retry=RetryPolicy(max_attempts=1),
                )
            )
            for queue in ("default", "of nobody")
        )
        with Scheduler(handle, old) as node:
            node.schedule(often)
            while not (failed := old.select(Filter(states=(State.FAILED,)))):
                take(ran, 1)
            others = old.select(Filter(definition_id=waiting.id))
            assert {each.definition.id for each in failed} == {failing.id}
            monkeypatch.setattr(schema, "history", lambda: LONG)
            new.initialize()
            # More than were claimed before.
            take(ran, 60)
            assert node.health().ok
        assert new.select(Filter(states=(State.FAILED,))) == failed
        assert new.select(Filter(definition_id=waiting.id)) == others
        assert query(new, "SELECT DISTINCT extra FROM task_instances") == [("none",)]
        only_checking(new).initialize()
        [audited] = Client(new).audit(ids=[often.id])
        assert sum(audited.counts.values()) > 60
        assert not audited.broken
        monkeypatch.setattr(schema, "history", lambda: before)
        with pytest.raises(StoreError, match=rf"revision {LAST}, .* newer"):
            old.initialize()


def take(ran: threading.Semaphore, count: int) -> None:
    """Wait for so many runs."""
    for _ in range(count):
        assert ran.acquire(timeout=FAILED_AFTER)


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
@pytest.mark.usefixtures("long_history")
def test_an_index_whose_building_was_interrupted_is_built_anew(
    store: SQLStore,
) -> None:
    of_index = "indexrelid = to_regclass('task_instances_extra_idx')"
    migrate_to_the_middle(store)
    execute(
        store,
        "CREATE INDEX task_instances_extra_idx ON task_instances (extra)",
        f"UPDATE pg_index SET indisvalid = false WHERE {of_index}",
    )
    store.initialize()
    asked = f"SELECT indisvalid FROM pg_index WHERE {of_index}"
    assert query(store, asked) == [(True,)]


# A migration that is slow, paused or dead.


_HANG = """
import sys
from datetime import timedelta
from pathlib import Path
from go_scheduler.stores import open_store
from go_scheduler.stores.migrations.history import History
from go_scheduler.stores.sql import schema

url, versions, middle = sys.argv[1:]
history = History(Path(versions))
schema.history = lambda: history
module = next(s.module for s in history.after(None) if s.revision == middle)
upgrade = module.upgrade

def hang(op):
    upgrade(op)
    print("in the middle", flush=True)
    sys.stdin.read()

module.upgrade = hang
store = open_store(url)
store._schema = schema.Schema(store._dialect.name, True, lock=timedelta(seconds=1))
store.initialize()
"""


@pytest.mark.usefixtures("long_history")
def test_a_migration_goes_on_where_a_killed_one_was(url: str, store: SQLStore) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _HANG, url, str(VERSIONS), MIDDLE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"in the middle\n"
        assert revisions(store) == [FIRST]
        process.kill()
    store.initialize()
    assert revisions(store) == [LAST]
    only_checking(store).initialize()


class Pause:
    """Stops whoever comes first to the middle of a migration, after its statement."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached = threading.Event()
        self.over = threading.Event()
        [_, middle, _] = LONG.after(None)
        module = middle.module
        self._upgrade: Callable[[Operations], None] = module.upgrade
        monkeypatch.setattr(module, "upgrade", self._pause)

    def _pause(self, op: Operations) -> None:
        self._upgrade(op)
        if not self.reached.is_set():
            self.reached.set()
            assert self.over.wait(FAILED_AFTER)


@contextmanager
def paused_in_the_middle(store: SQLStore, pause: Pause) -> Iterator[None]:
    """Let a store's migration stop in the middle for a while; then it must succeed."""
    with ThreadPoolExecutor(1) as threads:
        initialized = threads.submit(store.initialize)
        try:
            assert pause.reached.wait(FAILED_AFTER)
            yield
        finally:
            pause.over.set()
        initialized.result(FAILED_AFTER)


@pytest.mark.usefixtures("long_history")
def test_a_slow_migration_keeps_its_lock_and_others_do_not_wait_for_ever(
    store: SQLStore, other: SQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough for a busy machine to keep it, and short enough to be waited for.
    lock = 2 * SECOND
    store._schema = Schema(store._dialect.name, True, lock=lock)
    other._schema = Schema(other._dialect.name, True, lock=lock, patience=1.5 * lock)
    pause = Pause(monkeypatch)
    with paused_in_the_middle(store, pause):
        with pytest.raises(
            StoreUnavailableError,
            match=r"brought up to date by .*, process \d+, .*3 s",
        ):
            other.initialize()
        assert revisions(store) == [FIRST]
    assert revisions(store) == [LAST]


@pytest.mark.usefixtures("long_history")
def test_who_lost_the_lock_in_the_middle_changes_nothing_any_more(
    store: SQLStore, other: SQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = "0" if other._dialect.name == "sqlite" else "now()"
    with paused_in_the_middle(store, Pause(monkeypatch)):
        execute(other, f"UPDATE go_scheduler_lock SET expires_at = {now}")
        other.initialize()
        assert revisions(other) == [LAST]
    assert revisions(store) == [LAST]


@pytest.mark.parametrize(("previous", "revision"), [(None, FIRST), (FIRST, MIDDLE)])
def test_a_step_that_ends_after_the_lock_was_lost_is_not_noted(
    store: SQLStore, other: SQLStore, previous: str | None, revision: str
) -> None:
    execute(store, create_lock_table_sql(store._dialect.name), CREATE_TABLE)
    if previous is not None:
        execute(store, write_revision_sql(previous, previous=None))
    late = MigrationLock(store._database, store._dialect.name, length=timedelta(0))
    assert late.acquire()
    before = revisions(store)
    assert MigrationLock(
        other._database, other._dialect.name, length=timedelta(0)
    ).acquire()
    written = store._database.run(
        Lane.BY_HAND,
        lambda each: write_revision(each, revision, previous=previous, lock=late),
    )
    assert not written
    assert revisions(store) == before


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_steps_may_take_longer_than_other_statements(
    store: SQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    module = history().after(None)[0].module
    upgrade: Callable[[Operations], None] = module.upgrade

    def ask(op: Operations) -> None:
        found.append(op.get_bind().scalar(text("SHOW statement_timeout")))
        upgrade(op)

    monkeypatch.setattr(module, "upgrade", ask)
    store.initialize()
    assert found == ["1h"]
    assert query(store, "SHOW statement_timeout") == [("10s",)]


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_who_loses_the_race_for_a_table_tries_again(
    store: SQLStore, other: SQLStore
) -> None:
    def race(connection: Connection) -> None:
        connection.execute(text(create_lock_table_sql("postgresql")))
        initialized = threads.submit(store.initialize)
        waits = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        while not query(other, waits)[0][0]:
            assert not initialized.done()
        racers.append(initialized)

    racers: list[Future[None]] = []
    with ThreadPoolExecutor(1) as threads:
        other._database.transact(race)
        racers[0].result(FAILED_AFTER)
    assert store.retries["overtaken"] >= 1
    assert revisions(store) == [HEAD]
