"""The schema of a database: made, checked and refused, and what is wrong with one."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from sqlite3 import connect
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import make_url

from go_scheduler import ConfigurationError, StoreUnavailableError
from go_scheduler.client import Client
from go_scheduler.doctor import Severity, diagnose
from go_scheduler.errors import StoreError
from go_scheduler.stores import open_store
from go_scheduler.stores.sql.schema import schema_sql
from tests.behaviour.store_house import once, opened, task
from tests.patience import FAILED_AFTER
from tests.servers import fresh_database, libpq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from go_scheduler.doctor import Finding
    from tests.redis_servers import RedisServer

NO_SQLITE = [
    pytest.param("postgresql", marks=pytest.mark.slow),
    pytest.param("cockroachdb", marks=pytest.mark.slow),
]
ENGINES = ["sqlite", *NO_SQLITE]
VERSIONS = "go_scheduler_schema_version"


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The kind of database."""
    kind: str = request.param
    return kind


@pytest.fixture
def empty(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[[], str]]:
    """Makes empty databases, and answers the URL of each."""
    names = iter(range(1000))
    with ExitStack() as stack:
        if engine == "sqlite":
            yield lambda: f"sqlite:///{tmp_path / f'{next(names)}.db'}"
        else:
            server = request.getfixturevalue(f"{engine}_url")
            yield lambda: stack.enter_context(fresh_database(server))


@pytest.fixture
def url(empty: Callable[[], str]) -> str:
    """The URL of an empty database."""
    return empty()


@pytest.fixture
def made(url: str) -> str:
    """The URL of a database of the test's own, which has the schema."""
    initialize(url)
    return url


def initialize(url: str, **options: Any) -> None:
    with opened(url, **options) as store:
        store.initialize()


def execute(url: str, *statements: str) -> Sequence[tuple[Any, ...]]:
    """Execute statements by hand; the rows of the last one."""
    rows: Sequence[tuple[Any, ...]] = []
    if url.startswith("sqlite:"):
        with closing(connect(make_url(url).database or "")) as file, file:
            for each in statements:
                rows = file.execute(each).fetchall()
        return rows
    with psycopg.connect(libpq(url), autocommit=True) as connection:
        for each in statements:
            cursor = connection.execute(each.encode())
            rows = [] if cursor.description is None else cursor.fetchall()
    return rows


def schema(url: str) -> Sequence[tuple[Any, ...]]:
    """Every column and index that there is."""
    if url.startswith("sqlite:"):
        found = execute(url, "SELECT name, sql FROM sqlite_master ORDER BY name")
        return [(name, re.sub(r'[\s"]+', " ", sql or "")) for name, sql in found]
    columns = execute(
        url,
        "SELECT table_name, column_name, data_type, is_nullable"
        " FROM information_schema.columns WHERE table_schema = 'public'"
        " ORDER BY 1, 2",
    )
    names = "SELECT tablename, indexname FROM pg_indexes WHERE schemaname = 'public'"
    return [*columns, *execute(url, f"{names} ORDER BY 1, 2")]


def revision(url: str) -> str:
    [[found]] = execute(url, f"SELECT version_num FROM {VERSIONS}")
    return str(found)


def script(url: str, sql: str) -> None:
    """Execute what was printed, as an administrator would."""
    execute(url, *(each for each in sql.split(";\n") if each.strip()))


# Made.


def test_an_empty_database_has_it_once_it_is_used_and_nothing_is_printed(
    url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    with opened(url) as store:
        client = Client(store)
        new = client.schedule(once())
        store.initialize()
        assert client.get_definition(new.id) == new
    assert capfd.readouterr() == ("", "")
    assert (root.level, list(root.handlers)) == before
    with opened(url, migrate=False) as store:
        assert Client(store).get_definition(new.id) == new


def test_many_that_start_at_once_make_it_once(empty: Callable[[], str]) -> None:
    url, alone = empty(), empty()
    initialize(alone)
    with ExitStack() as stack, ThreadPoolExecutor(6) as threads:
        stores = [stack.enter_context(opened(url)) for _ in range(6)]
        list(threads.map(lambda store: store.initialize(), stores))
        for each in stores:
            assert Client(each).schedule(once()).revision == 1
        assert len(Client(stores[0]).list_definitions()) == 6
    assert schema(url) == schema(alone)


def test_wherever_somebody_stopped_who_made_it_it_is_completed(
    empty: Callable[[], str], engine: str
) -> None:
    whole = empty()
    initialize(whole)
    statements = [each for each in schema_sql(engine).split(";\n") if each.strip()]
    assert len(statements) > 20
    step = 5 if engine == "sqlite" else len(statements) // 2
    for count in range(1, len(statements), step):
        url = empty()
        execute(url, *statements[:count])
        initialize(url)
        assert schema(url) == schema(whole)


def test_the_right_of_a_process_that_died_lapses(made: str, engine: str) -> None:
    past = "0" if engine == "sqlite" else "now()"
    lock = f"UPDATE go_scheduler_lock SET owner = 'nobody', expires_at = {past}"
    execute(made, f"DELETE FROM {VERSIONS}", lock)
    initialize(made)
    assert revision(made)


def test_what_is_up_to_date_waits_for_nobody_who_has_the_right(
    made: str, engine: str
) -> None:
    later = str(2**60) if engine == "sqlite" else "now() + interval '1 day'"
    lock = f"UPDATE go_scheduler_lock SET owner = 'nobody', expires_at = {later}"
    execute(made, lock)
    initialize(made)


# Printed.


@pytest.mark.slow
def test_the_printed_sql_makes_one_that_a_store_accepts(
    empty: Callable[[], str], engine: str
) -> None:
    url, whole = empty(), empty()
    printed = subprocess.run(
        [sys.executable, "-m", "go_scheduler.stores.sql.schema", engine],
        capture_output=True,
        text=True,
        check=True,
        timeout=FAILED_AFTER,
    ).stdout
    assert printed == schema_sql(engine)
    initialize(whole)
    # It may be run again.
    for _ in range(2):
        script(url, printed)
    initialize(url, migrate=False)
    with opened(url, migrate=False) as store:
        assert Client(store).schedule(once()).revision == 1
    assert revision(url) == revision(whole)


@pytest.mark.parametrize("engine", ["sqlite"])
def test_nothing_is_printed_of_what_there_is(made: str) -> None:
    assert schema_sql("sqlite", since=revision(made)) == ""
    with pytest.raises(ConfigurationError, match="no revision '7777'"):
        schema_sql("sqlite", since="7777")
    with pytest.raises(ConfigurationError, match="one of cockroachdb, postgresql, s"):
        schema_sql("oracle")


# Refused.


def test_one_that_is_missing_is_named_when_it_may_not_be_made(
    url: str, engine: str
) -> None:
    if engine == "sqlite":
        Path(make_url(url).database or "").touch()
    with pytest.raises(StoreError, match=rf"no schema yet.*schema {engine}`") as no:
        initialize(url, migrate=False)
    assert type(no.value) is StoreError


@pytest.mark.parametrize("migrate", [True, False])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE {} SET version_num = '9999'", "revision 9999,.* newer go_scheduler"),
        (
            "UPDATE {} SET version_num = '0019'",
            "0019, .*before .*, the first that .*: recreate",
        ),
        ("INSERT INTO {} VALUES ('0003')", "says 0003, .*, and should say one"),
        ("ALTER TABLE task_definitions DROP COLUMN note", r"\bnote\b"),
        ("ALTER TABLE task_instances DROP COLUMN skipped_reason", "skipped_reason"),
        ("DROP TABLE task_contents", "SELECT from task_contents, and cannot"),
    ],
)
def test_another_one_is_refused_and_left_as_it_is(
    made: str, change: str, said: str, migrate: bool
) -> None:
    execute(made, change.format(VERSIONS))
    before = schema(made)
    with pytest.raises(StoreError, match=said) as refused:
        initialize(made, migrate=migrate)
    assert type(refused.value) is StoreError
    assert schema(made) == before


@pytest.mark.parametrize("migrate", [True, False])
def test_a_database_of_another_number_of_shards_is_refused(
    made: str, engine: str, migrate: bool
) -> None:
    number = 16 if engine == "cockroachdb" else 1
    shards = "FROM task_settings WHERE name = 'shards'"
    assert execute(made, f"SELECT value {shards}") == [(str(number),)]
    execute(made, "UPDATE task_settings SET value = '8' WHERE name = 'shards'")
    said = f"made with 8 shards, .* go_scheduler has {number}: use"
    with pytest.raises(StoreError, match=said):
        initialize(made, migrate=migrate)
    # One that has run nothing yet is made by whoever comes first.
    execute(made, f"DELETE {shards}")
    initialize(made, migrate=migrate)
    assert execute(made, f"SELECT value {shards}") == [(str(number),)]


@pytest.fixture
def user(made: str) -> Iterator[str]:
    """The URL of a user of that database who may do nothing yet."""
    name = f"go_scheduler_test_{uuid4().hex}"
    execute(made, f"CREATE ROLE {name} LOGIN")
    yield make_url(made).set(username=name).render_as_string(hide_password=False)
    execute(made, f"DROP OWNED BY {name}", f"DROP ROLE {name}")


RIGHTS = "SELECT, INSERT, UPDATE, DELETE"


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["postgresql"])
@pytest.mark.parametrize("missing", RIGHTS.split(", "))
def test_a_right_that_is_missing_is_named(made: str, user: str, missing: str) -> None:
    name = make_url(user).username
    execute(made, f"GRANT {RIGHTS} ON ALL TABLES IN SCHEMA public TO {name}")
    initialize(user)
    execute(made, f"REVOKE {missing} ON task_instances FROM {name}")
    with pytest.raises(StoreError, match=rf"{missing}.*task_instances.*permission"):
        initialize(user)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["postgresql"])
def test_a_user_who_may_not_make_it_is_told_who_else_may(made: str, user: str) -> None:
    execute(
        made,
        "DROP SCHEMA public CASCADE",
        "CREATE SCHEMA public",
        "GRANT USAGE ON SCHEMA public TO PUBLIC",
    )
    said = r"cannot be brought up to date: permission.*schema postgresql`"
    with pytest.raises(StoreError, match=said):
        initialize(user)


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_file_that_somebody_writes_is_busy_and_not_wrong(made: str) -> None:
    with closing(connect(make_url(made).database or "")) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="locked"):
            initialize(made, busy_timeout=timedelta(0))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["postgresql"])
def test_a_store_may_be_in_a_schema_of_its_own(made: str) -> None:
    execute(made, "CREATE SCHEMA other")
    options: dict[str, Any] = {"connect_args": {"options": "-c search_path=other"}}
    with opened(made) as here, opened(made, **options) as there:
        there.initialize()
        Client(there).schedule(task())
        assert Client(here).list_definitions() == []


# What a database says of itself.


def wrong(url: str) -> dict[str, Finding]:
    """What of it is not as it should be."""
    with closing(open_store(url)) as store:
        found = list(store.examine())
    return {each.name: each for each in found if each.severity is not Severity.OK}


def test_what_is_broken_is_found_and_its_statement_mends_it(made: str) -> None:
    assert wrong(made) == {}
    execute(made, "DROP INDEX task_instances_open_idx")
    missing = wrong(made)
    assert {*missing} == {"index-missing"}
    statement = missing["index-missing"].statement
    assert statement is not None
    execute(made, statement)
    assert wrong(made) == {}
    execute(made, f"UPDATE {VERSIONS} SET version_num = '9999'")
    assert {*wrong(made)} == {"schema-ahead"}
    execute(made, f"UPDATE {VERSIONS} SET version_num = '0001'")
    assert {*wrong(made)} == {"schema-unknown"}
    execute(made, "DROP TABLE task_runs")
    assert "table-missing" in wrong(made)
    execute(made, f"DELETE FROM {VERSIONS}")
    with closing(open_store(made)) as store:
        report = diagnose(store)
    assert report.worst is Severity.ERROR
    [found] = [each for each in report.findings if each.name == "schema-missing"]
    assert found.statement == "go_scheduler migrate"


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["postgresql"])
def test_an_index_that_is_not_valid_is_found_and_its_statement_mends_it(
    made: str,
) -> None:
    one = "indexrelid = 'task_instances_open_idx'::regclass"
    execute(made, f"UPDATE pg_index SET indisvalid = false WHERE {one}")
    found = wrong(made)
    assert {*found} == {"index-invalid"}
    assert "task_instances_open_idx of task_instances" in found["index-invalid"].seen
    execute(made, str(found["index-invalid"].statement))
    assert wrong(made) == {}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["postgresql"])
def test_a_user_who_may_only_read_is_told_what_it_may_not_see(
    made: str, user: str
) -> None:
    assert "not-allowed" in wrong(user)
    name = make_url(user).username
    execute(made, f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}")
    with closing(psycopg.connect(libpq(made))):
        assert {*wrong(user)} <= {"sessions-hidden", "not-allowed"}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["postgresql"])
def test_a_database_that_takes_no_writes_is_found_and_a_write_says_so(
    made: str,
) -> None:
    change = f"ALTER DATABASE {make_url(made).database}"
    read_only = f"{change} SET default_transaction_read_only"
    with opened(made) as store:
        client = Client(store)
        of = client.schedule(once())
        execute(made, f"{read_only} = on")
        assert {*wrong(made)} == {"read-only"}
        # What is connected by now may write.
        store.close()
        assert client.list_definitions() == [of]
        with pytest.raises(StoreUnavailableError, match="25006"):
            client.schedule(once())
        with pytest.raises(StoreUnavailableError, match="25006"):
            initialize(made)
        execute(made, "SET default_transaction_read_only = off", f"{read_only} = off")
        store.close()
        assert client.schedule(once()).revision == 1


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_file_is_examined_and_not_made_or_changed(made: str, tmp_path: Path) -> None:
    missing = tmp_path / "none.db"
    with closing(open_store(f"sqlite:///{missing}")) as store:
        report = diagnose(store)
    assert not report.reached
    assert f"there is no file {missing}" in report.findings[-1].seen
    assert not missing.exists()
    execute(made, "PRAGMA wal_checkpoint(TRUNCATE)")
    path = make_url(made).database or ""
    with open(path, "rb") as file:
        before = file.read()
    assert wrong(made) == {}
    with open(path, "rb") as file:
        assert file.read() == before


# What a Redis says of itself.


@pytest.fixture
def by_hand(redis_server: RedisServer) -> Iterator[Any]:
    """Somebody else's connection; what it has set is as it was in the end."""
    names = ("maxmemory", "maxmemory-policy", "appendonly", "appendfsync")
    with redis_server.client() as client:
        before = {name: client.config_get(name)[name] for name in names}
        yield client
        for name, value in before.items():
            client.config_set(name, value)


@pytest.fixture
def redis_url(redis_server: RedisServer, by_hand: Any) -> str:
    """The URL of a store in Redis that has something."""
    by_hand.flushdb()
    with opened(redis_server.url) as store:
        Client(store).schedule(task())
    return redis_server.url


@pytest.mark.slow
def test_what_a_redis_may_lose_is_found(redis_url: str, by_hand: Any) -> None:
    assert wrong(redis_url) == {}
    by_hand.config_set("maxmemory", "1gb")
    by_hand.config_set("maxmemory-policy", "allkeys-lru")
    by_hand.config_set("appendfsync", "no")
    found = wrong(redis_url)
    assert found.keys() == {"evicting", "may-lose"}
    by_hand.config_set("maxmemory", "0")
    by_hand.config_set("appendonly", "no")
    assert wrong(redis_url)["may-lose"].seen.startswith("appendonly is no: ")
    by_hand.replicaof("127.0.0.1", "1")
    try:
        assert wrong(redis_url)["read-only"].seen == "a replica of 127.0.0.1"
    finally:
        by_hand.replicaof("NO", "ONE")


@pytest.mark.slow
def test_what_a_user_of_a_redis_may_not_ask_is_said(
    redis_url: str, by_hand: Any
) -> None:
    rights = ("on", ">secret", "~*", "&*", "+@all", "-config")
    by_hand.execute_command("ACL", "SETUSER", "few", *rights)
    try:
        assert "not-allowed" in wrong(redis_url.replace("//", "//few:secret@"))
    finally:
        by_hand.execute_command("ACL", "DELUSER", "few")
    with opened("redis://127.0.0.1:1") as store, pytest.raises(StoreUnavailableError):
        store.examine()
