"""One schema comes to be, whoever makes it and however many begin at once."""

from __future__ import annotations

import logging
import re
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import make_url, text

from go_scheduler.errors import ConfigurationError, StoreError, StoreUnavailableError
from go_scheduler.stores import open_store
from go_scheduler.stores.migrations import version
from go_scheduler.stores.migrations.history import History, history
from go_scheduler.stores.migrations.lock import MigrationLock, create_lock_table_sql
from go_scheduler.stores.migrations.operating import operations, sql_of
from go_scheduler.stores.sql import schema
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.schema import DIALECTS, Schema, main, schema_sql
from go_scheduler.stores.sql.store import SQLStore
from go_scheduler.stores.sql.tables import metadata
from go_scheduler.stores.sqlite.store import SQLiteStore
from tests.patience import FAILED_AFTER
from tests.servers import fresh_database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from alembic.operations import Operations
    from sqlalchemy import Connection

ENGINES = [
    "sqlite",
    pytest.param("postgresql", marks=pytest.mark.slow),
    pytest.param("cockroachdb", marks=pytest.mark.slow),
]
HEAD = history().head
VERSIONS = Path(__file__).parent / "versions"
LONG = History(VERSIONS)
"""A history of more revisions than one."""
FIRST, MIDDLE, LAST = (each.revision for each in LONG.after(None))
SECOND = timedelta(seconds=1)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The kind of database."""
    kind: str = request.param
    return kind


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
    return store._database.run(Lane.BY_HAND, version.read_revisions)


def run_sql(url: str, script: str) -> None:
    """Run a script of SQL, as an administrator would."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(make_url(url).database or "")) as file:
            file.executescript(script)
        return
    libpq = make_url(url).set(drivername="postgresql")
    with psycopg.connect(
        libpq.render_as_string(hide_password=False), autocommit=True
    ) as connection:
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
    execute(
        store,
        version.CREATE,
        version.write_revision_sql(MIDDLE, previous=None),
    )


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
    asked = [_COLUMNS, _INDEXES, _CONSTRAINTS]
    if store._dialect.name == "sqlite":
        asked = [_SQLITE]
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
    if engine == "sqlite":
        found = query(
            store, f"SELECT sql FROM sqlite_master WHERE name = '{METADATA_INDEX}'"
        )
        assert not found
    else:
        found = query(
            store,
            f"SELECT indexdef FROM pg_indexes WHERE indexname = '{METADATA_INDEX}'",
        )
        assert "gin (metadata_search" in str(found[0][0])


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


def test_wherever_the_first_revision_stops_it_can_be_done_again(
    store: SQLStore, empty_url: Callable[[], str], engine: str
) -> None:
    def stop_after(count: int, connection: Connection) -> None:
        for each in statements[:count]:
            connection.execute(text(each))

    statements = sql_of(history().after(None), engine).rstrip(";\n").split(";\n")
    assert len(statements) > 20
    with closing_store(empty_url()) as whole:
        whole.initialize()
        complete = described(whole)
        # A server takes its time to make a database.
        step = 1 if engine == "sqlite" else len(statements) // 3
        for count in range(1, len(statements) + 1, step):
            with closing_store(empty_url()) as stopped:
                change(stopped, partial(stop_after, count))
                stopped.initialize()
                assert described(stopped) == re_named(complete, whole, stopped)


def test_a_first_revision_that_has_been_edited_has_another_name() -> None:
    described = "; ".join(
        f"{table.name}: {', '.join(sorted(each.name or '' for each in parts))}"
        for table in metadata.sorted_tables
        for parts in (table.columns, table.indexes)
    )
    digest = sha256(described.encode()).hexdigest()[:8]
    # Until the first release: not the digest alone is to be changed.
    assert (HEAD, digest) == ("2026.11.28a", "01338a80")


# Printed SQL.


def test_the_printed_sql_makes_a_schema_that_the_store_accepts(
    engine: str, empty_url: Callable[[], str]
) -> None:
    url = empty_url()
    printed = subprocess.run(
        [sys.executable, "-m", "go_scheduler.stores.sql.schema", engine],
        capture_output=True,
        text=True,
        check=True,
        timeout=FAILED_AFTER,
    )
    assert printed.stderr == ""
    for _ in range(2):
        run_sql(url, printed.stdout)
    with closing_store(url) as store, closing_store(empty_url()) as migrated:
        only_checking(store).initialize()
        assert revisions(store) == [HEAD]
        migrated.initialize()
        assert described(store) == re_named(described(migrated), migrated, store)


@pytest.mark.usefixtures("long_history")
def test_the_printed_sql_goes_on_from_a_revision(
    engine: str, url: str, store: SQLStore
) -> None:
    migrate_to_the_middle(store)
    sql = schema_sql(engine, since=MIDDLE)
    assert "task_definitions_id_key" not in sql
    run_sql(url, sql)
    only_checking(store).initialize()


def test_no_sql_is_printed_for_what_is_up_to_date() -> None:
    assert schema_sql("sqlite", since=HEAD) == ""


@pytest.mark.parametrize("dialect", DIALECTS)
def test_only_postgresql_and_cockroachdb_are_told_of_time_zones_and_json(
    dialect: str,
) -> None:
    sql = schema_sql(dialect)
    assert ("TIMESTAMP WITH TIME ZONE" in sql) == (dialect != "sqlite")
    assert ("USING gin" in sql) == (dialect != "sqlite")
    assert ("fillfactor" in sql) == (dialect == "postgresql")
    assert "jsonb_path_ops" not in sql


@pytest.mark.usefixtures("long_history")
def test_the_command_says_what_it_does_not_know(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["sqlite", "--since", "7777"])
    assert f"no revision '7777'; there are {FIRST} to {LAST}" in capsys.readouterr().err
    main(["sqlite", "--since", LAST])
    assert capsys.readouterr().out == ""


def test_sql_for_an_unknown_database_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="one of cockroachdb, postgresql, s"):
        schema_sql("oracle")


# What is found at the start.


def test_a_schema_that_is_missing_is_named_when_it_may_not_be_made(
    engine: str, store: SQLStore
) -> None:
    with pytest.raises(
        StoreError, match=rf"no schema yet.* {HEAD} is needed.*schema {engine}`"
    ):
        only_checking(store).initialize()


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


@pytest.mark.usefixtures("long_history")
def test_a_half_migrated_schema_is_completed(
    store: SQLStore, empty_url: Callable[[], str]
) -> None:
    migrate_to_the_middle(store)
    store.initialize()
    assert revisions(store) == [LAST]
    with closing_store(empty_url()) as whole:
        whole.initialize()
        assert described(store) == re_named(described(whole), whole, store)


@pytest.mark.parametrize("migrate", [True, False])
def test_a_newer_schema_is_left_alone(store: SQLStore, migrate: bool) -> None:
    store.initialize()
    execute(store, "UPDATE go_scheduler_schema_version SET version_num = '9999'")
    store._schema = Schema(store._dialect.name, migrate)
    with pytest.raises(StoreError, match=r"revision 9999,.* newer go_scheduler"):
        store.initialize()
    assert revisions(store) == ["9999"]


@pytest.mark.parametrize("migrate", [True, False])
@pytest.mark.parametrize("earlier", ["0019", "0005"])
def test_a_schema_from_before_the_first_release_is_left_alone(
    store: SQLStore, migrate: bool, earlier: str
) -> None:
    execute(
        store,
        "CREATE TABLE task_definitions (key TEXT)",
        version.CREATE,
        version.write_revision_sql(earlier, previous=None),
    )
    store._schema = Schema(store._dialect.name, migrate)
    with pytest.raises(
        StoreError, match=rf"revision {earlier}, .*before the first .*: recreate the"
    ):
        store.initialize()
    assert revisions(store) == [earlier]
    with pytest.raises(StoreError, match="task_instances"):
        execute(store, "SELECT * FROM task_instances")


@pytest.mark.parametrize("migrate", [True, False])
def test_a_version_table_with_two_revisions_is_refused(
    store: SQLStore, migrate: bool
) -> None:
    store.initialize()
    execute(store, "INSERT INTO go_scheduler_schema_version VALUES ('0003')")
    store._schema = Schema(store._dialect.name, migrate)
    with pytest.raises(StoreError, match=f"says 0003, {HEAD}, and should say one"):
        store.initialize()


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("task_definitions", "note"),
        ("task_contents", "name"),
        ("task_instances", "skipped_reason"),
    ],
)
def test_a_column_that_is_missing_is_named(
    store: SQLStore, table: str, column: str
) -> None:
    store.initialize()
    execute(store, f"ALTER TABLE {table} DROP COLUMN {column}")
    with pytest.raises(StoreError, match=rf"SELECT from {table}, .*\b{column}\b"):
        store.initialize()


def test_a_table_that_is_missing_is_named(store: SQLStore) -> None:
    store.initialize()
    execute(store, "DROP TABLE task_contents")
    with pytest.raises(StoreError, match="SELECT from task_contents, and cannot"):
        store.initialize()


@pytest.fixture
def user(url: str, store: SQLStore) -> Iterator[SQLStore]:
    """A store on the database of ``store`` as a user who may do nothing yet."""
    name = f"go_scheduler_test_{uuid4().hex}"
    execute(store, f"CREATE ROLE {name} LOGIN")
    with closing_store(
        make_url(url).set(username=name).render_as_string(hide_password=False)
    ) as user:
        yield user
    execute(store, f"DROP OWNED BY {name}", f"DROP ROLE {name}")


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
@pytest.mark.parametrize("missing", ["SELECT from", "INSERT into", "UPDATE", "DELETE"])
def test_a_right_that_is_missing_is_named(
    store: SQLStore, user: SQLStore, missing: str
) -> None:
    store.initialize()
    name = query(user, "SELECT current_user")[0][0]
    execute(
        store,
        "GRANT SELECT, INSERT, UPDATE, DELETE"
        f" ON {', '.join(metadata.tables)} TO {name}",
        f"GRANT SELECT ON go_scheduler_schema_version TO {name}",
    )
    user.initialize()
    execute(store, f"REVOKE {missing.split()[0]} ON task_instances FROM {name}")
    with pytest.raises(StoreError, match=rf"{missing}.*task_instances.*permission"):
        user.initialize()


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_user_who_may_not_migrate_is_told_who_else_may(
    store: SQLStore, user: SQLStore
) -> None:
    execute(store, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    with pytest.raises(
        StoreError,
        match=r"cannot be brought up to date: permission.*schema postgresql`",
    ):
        user.initialize()


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_database_that_is_busy_is_not_taken_for_a_wrong_one(
    url: str, store: SQLStore
) -> None:
    store.initialize()
    hasty = SQLiteStore(url, busy_timeout=timedelta(0))
    with (
        closing(hasty),
        closing(sqlite3.connect(make_url(url).database or "")) as writer,
    ):
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="locked"):
            hasty.initialize()


# Many at once.


_INITIALIZE = """
import sys
from go_scheduler.stores import open_store

for line in sys.stdin:
    store = open_store(line.strip())
    answer = "done"
    try:
        store.initialize()
    except Exception as error:
        answer = repr(error)
    store.close()
    print(answer, flush=True)
"""
_ROUNDS = 50


@contextmanager
def python(program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs a program, and is gone in the end."""
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def tell(process: subprocess.Popen[str], line: str) -> None:
    """Write a line to a process."""
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def hear(process: subprocess.Popen[str]) -> str:
    """Read a line from a process."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.parametrize("engine", ["sqlite", "postgresql"], indirect=True)
def test_two_processes_start_on_an_empty_database_and_one_schema_results(
    engine: str, url: str, store: SQLStore, tmp_path: Path
) -> None:
    store.initialize()
    expected = described(store)
    with python(_INITIALIZE) as one, python(_INITIALIZE) as another:
        for _ in range(_ROUNDS):
            if engine == "sqlite":
                store.close()
                for file in tmp_path.iterdir():
                    file.unlink()
            else:
                execute(store, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
            for process in (one, another):
                tell(process, url)
            assert [hear(one), hear(another)] == ["done", "done"]
            assert revisions(store) == [HEAD]
            assert described(store) == expected


def test_ten_stores_start_at_once(empty_url: Callable[[], str]) -> None:
    url = empty_url()
    with ExitStack() as stack, ThreadPoolExecutor(10) as threads:
        stores = [stack.enter_context(closing_store(url)) for _ in range(10)]
        list(threads.map(lambda store: store.initialize(), stores))
        assert revisions(stores[0]) == [HEAD]


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
    with python(_HANG, url, str(VERSIONS), MIDDLE) as process:
        assert hear(process) == "in the middle"
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
        module = next(
            each.module for each in LONG.after(None) if each.revision == MIDDLE
        )
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
    with paused_in_the_middle(store, Pause(monkeypatch)):
        execute(
            other,
            "UPDATE go_scheduler_lock SET expires_at ="
            + ("0" if other._dialect.name == "sqlite" else "now()"),
        )
        other.initialize()
        assert revisions(other) == [LAST]
    assert revisions(store) == [LAST]


@pytest.mark.parametrize(("previous", "revision"), [(None, FIRST), (FIRST, MIDDLE)])
def test_a_step_that_ends_after_the_lock_was_lost_is_not_noted(
    store: SQLStore, other: SQLStore, previous: str | None, revision: str
) -> None:
    execute(store, create_lock_table_sql(store._dialect.name), version.CREATE)
    if previous is not None:
        execute(store, version.write_revision_sql(previous, previous=None))
    late = MigrationLock(store._database, store._dialect.name, length=timedelta(0))
    assert late.acquire()
    before = revisions(store)
    assert MigrationLock(
        other._database, other._dialect.name, length=timedelta(0)
    ).acquire()
    written = store._database.run(
        Lane.BY_HAND,
        lambda each: version.write_revision(
            each, revision, previous=previous, lock=late
        ),
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


def test_an_up_to_date_schema_needs_no_lock(store: SQLStore, other: SQLStore) -> None:
    store.initialize()
    assert MigrationLock(
        store._database, store._dialect.name, length=60 * SECOND
    ).acquire()
    other._schema = Schema(other._dialect.name, True, patience=timedelta(0))
    other.initialize()


def test_one_owner_has_the_lock_until_it_is_released(
    store: SQLStore, other: SQLStore
) -> None:
    execute(store, create_lock_table_sql(store._dialect.name))
    one = MigrationLock(store._database, store._dialect.name, length=60 * SECOND)
    another = MigrationLock(other._database, other._dialect.name, length=60 * SECOND)
    assert one.acquire()
    assert not another.acquire()
    assert another.last_owner() == one.owner
    with one.kept():
        assert not another.acquire()
    assert another.acquire()
    assert another.fence == one.fence + 1


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


def test_a_migration_prints_nothing_and_leaves_logging_as_it_was(
    store: SQLStore, capfd: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    before = root.level, list(root.handlers), logging.getLogger("alembic").level
    store.initialize()
    assert capfd.readouterr() == ("", "")
    assert before == (
        root.level,
        list(root.handlers),
        logging.getLogger("alembic").level,
    )
