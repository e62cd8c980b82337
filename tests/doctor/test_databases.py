"""What is found of databases: on real ones, and of what servers may answer."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import ExitStack, closing
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import make_url
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import OperationalError

from go_scheduler.doctor import Severity, diagnose
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.stores import cockroachdb_questions, open_store
from go_scheduler.stores.migrations.history import history
from go_scheduler.stores.postgresql import questions as postgresql_questions
from go_scheduler.stores.postgresql.questions import within
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.questions import (
    TABLES,
    judged_indexes,
    judged_revision,
)
from go_scheduler.stores.sqlite import questions as sqlite_questions
from tests import servers
from tests.conftest import SQL
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sqlalchemy import Connection

    from go_scheduler.stores.findings import Finding

DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]
HEAD = history().head
NOT_SQLITE = SQL[1:]


def examined(url: str) -> list[Finding]:
    """What a store says of its database."""
    with closing(open_store(url)) as store:
        return list(store.examine())


def wrong(url: str) -> dict[str, Finding]:
    """What of it is not as it should be."""
    found = examined(url)
    return {each.name: each for each in found if each.severity is not Severity.OK}


def connect(url: str) -> psycopg.Connection[Any]:
    libpq = make_url(url).set(drivername="postgresql")
    return psycopg.connect(libpq.render_as_string(hide_password=False), autocommit=True)


def execute(url: str, *statements: str) -> None:
    if url.startswith("sqlite:"):
        with closing(sqlite3.connect(make_url(url).database or "")) as file, file:
            for each in statements:
                file.execute(each)
        return
    with connect(url) as connection:
        for each in statements:
            connection.execute(each.encode())


@pytest.fixture
def own_url(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[str]:
    """A database that a test may break, with the tables."""
    with ExitStack() as stack:
        if engine == "sqlite":
            url = f"sqlite:///{tmp_path / 'own.db'}"
        elif engine == "postgresql":
            server = request.getfixturevalue("postgresql_server")
            url = stack.enter_context(servers.fresh_database(server))
        else:
            url = stack.enter_context(servers.cockroachdb_database())
        with servers.opened(url):
            pass
        yield url


@pytest.mark.parametrize("engine", SQL, indirect=True)
def test_what_is_broken_is_found_and_its_statement_mends_it(
    engine: str, own_url: str
) -> None:
    assert wrong(own_url) == {}
    execute(own_url, "DROP INDEX task_instances_open_idx")
    missing = wrong(own_url)
    assert {*missing} == {"index-missing"}
    statement = missing["index-missing"].statement
    assert statement is not None
    assert " WHERE " in statement
    execute(own_url, statement)
    assert wrong(own_url) == {}
    execute(own_url, "UPDATE go_scheduler_schema_version SET version_num = '9999'")
    assert {*wrong(own_url)} == {"schema-ahead"}
    execute(own_url, "DROP TABLE task_runs")
    assert {*wrong(own_url)} == {"schema-ahead", "table-missing"}
    execute(own_url, "DELETE FROM go_scheduler_schema_version")
    with closing(open_store(own_url)) as store:
        report = diagnose(store)
    assert report.worst is Severity.ERROR
    assert "nodes" not in {each.name for each in report.findings}
    [found] = [each for each in report.findings if each.name == "schema-missing"]
    assert found.statement == "go_scheduler migrate"


@pytest.mark.parametrize(
    ("revisions", "name"),
    [
        ([HEAD], "schema"),
        ([], "schema-missing"),
        (["9999"], "schema-ahead"),
        (["0001"], "schema-unknown"),
        (["0001", HEAD], "schema-unknown"),
    ],
)
def test_the_revision_of_a_schema_is_judged(revisions: list[str], name: str) -> None:
    assert judged_revision(revisions).name == name


def test_a_schema_of_an_earlier_revision_is_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = history()
    monkeypatch.setattr(known, "_revisions", [HEAD, "9999"])
    found = judged_revision([HEAD])
    assert (found.name, found.statement) == ("schema-behind", "go_scheduler migrate")


@pytest.mark.parametrize("engine", NOT_SQLITE, indirect=True)
def test_a_user_who_may_only_read_is_told_what_it_may_not_see(
    engine: str, store_url: str
) -> None:
    name = f"go_scheduler_test_{uuid4().hex}"
    kind = "USER" if engine == "cockroachdb" else "ROLE"
    login = "" if engine == "cockroachdb" else " LOGIN"
    execute(store_url, f"CREATE {kind} {name}{login}")
    url = make_url(store_url).set(username=name).render_as_string(hide_password=False)
    assert "not-allowed" in wrong(url)
    execute(store_url, f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}")
    try:
        with connect(store_url), closing(open_store(url)) as store:
            report = diagnose(store)
    finally:
        execute(store_url, f"DROP OWNED BY {name}", f"DROP ROLE {name}")
    names = {each.name for each in report.findings}
    assert names & {"sessions-hidden", "not-allowed"}
    assert report.worst is Severity.WARNING
    [worst] = [each for each in report.findings if each.severity is report.worst]
    assert worst.name == "no-nodes"


@pytest.mark.parametrize("engine", NOT_SQLITE, indirect=True)
def test_a_transaction_and_a_lock_that_last_are_found(
    engine: str, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = cockroachdb_questions if engine == "cockroachdb" else postgresql_questions
    monkeypatch.setattr(of, "LONG", timedelta(0))
    monkeypatch.setattr(of, "LONG_WAIT", timedelta(0))
    execute(store_url, "INSERT INTO task_settings (name, value) VALUES ('a', 'b')")
    update = b"UPDATE task_settings SET value = 'c'"
    with connect(store_url) as holder, connect(store_url) as waiter:
        holder.execute(b"BEGIN")
        holder.execute(update)
        waits = threading.Thread(target=waiter.execute, args=[update])
        waits.start()
        # It is seen once the other has begun to wait.
        found = next(
            seen for _ in range(300) if "long-lock" in (seen := wrong(store_url))
        )
        holder.execute(b"COMMIT")
        waits.join(FAILED_AFTER)
    assert {"long-lock", "long-transaction"} <= {*found}
    assert found["long-transaction"].statement is not None


@pytest.mark.slow
def test_a_table_that_is_locked_as_a_whole_is_found(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql_questions, "LONG_WAIT", timedelta(0))
    with connect(postgresql_url) as holder:
        holder.execute(b"BEGIN")
        holder.execute(b"LOCK TABLE task_sets IN SHARE MODE")
        assert "all of task_sets locked" in wrong(postgresql_url)["long-lock"].seen


@pytest.mark.slow
def test_a_connection_that_is_lost_while_it_reads_is_said_to_be(
    postgresql_url: str,
) -> None:
    end = "SELECT pg_terminate_backend(pg_backend_pid())"

    def read(connection: Connection) -> object:
        return connection.exec_driver_sql(end)

    with servers.opened(postgresql_url, has_tables=True) as store:
        assert isinstance(store, PostgreSQLStore)
        with pytest.raises(StoreUnavailableError):
            store._database.run(
                Lane.BY_HAND, lambda each: within("READ ONLY", each, read)
            )


@pytest.mark.slow
def test_dead_rows_are_found_once_they_are_many(
    empty_database_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql_questions, "MANY_DEAD", 1)
    monkeypatch.setattr(postgresql_questions, "MANY_LIVE", 0)
    url = empty_database_url()
    with servers.opened(url):
        pass
    execute(
        url,
        "ALTER TABLE task_settings SET (autovacuum_enabled = off)",
        "INSERT INTO task_settings SELECT g::text, '' FROM generate_series(1, 9) g",
        "DELETE FROM task_settings WHERE name > '3'; SELECT pg_stat_force_next_flush()",
    )
    found = wrong(url)
    assert {*found} == {"dead-rows", "never-analyzed"}
    assert "task_settings has 6 dead rows beside 3" in found["dead-rows"].seen
    execute(url, str(found["dead-rows"].statement))
    assert wrong(url) == {}


@pytest.mark.slow
def test_a_server_that_takes_no_writes_or_is_old_is_found(
    empty_database_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = empty_database_url()
    name = make_url(url).database
    execute(url, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    monkeypatch.setattr(postgresql_questions, "OLDEST", 10**9)
    assert {"read-only", "old-server", "schema-missing"} <= {*wrong(url)}


class Answering:
    """A connection to a server that answers as it is told.

    Args:
        answers: Of a part of a query the rows that it answers.
    """

    def __init__(self, **answers: list[dict[str, object]]) -> None:
        self._answers = answers

    def execute(self, query: object, _: object) -> list[SimpleNamespace]:
        for part, rows in self._answers.items():
            if part in str(query):
                return [SimpleNamespace(**each) for each in rows]
        return []

    def scalar(self, query: object) -> object:
        [answer] = self.execute(query, None)
        return answer.value


def answered(
    question: Callable[[Any], Iterator[Finding]], **answers: list[dict[str, object]]
) -> list[Finding]:
    return list(question(Answering(**answers)))


def test_autovacuum_that_is_off_is_found() -> None:
    question = postgresql_questions._dead_rows
    found = answered(question, current_setting=[{"value": False}])
    assert [each.name for each in found] == ["autovacuum-off", "rows"]


def test_a_prepared_transaction_is_found() -> None:
    question = postgresql_questions._transactions
    sessions = [{"hidden": 0, "asking": "me"}]
    row = {"gid": "it's", "owner": "me", "age": 10.0}
    rows = [row, row | {"age": 3600.0}]
    found = answered(question, asking=sessions, pg_prepared_xacts=rows)
    assert [each.name for each in found] == ["prepared-transaction", "transactions"]
    assert found[0].statement == "ROLLBACK PREPARED 'it''s';"


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("CockroachDB CCL v24.3.1 (x86_64)", ["server"]),
        ("CockroachDB CCL v24.2.9 (x86_64)", ["old-server", "server"]),
        ("CockroachDB of somebody", ["server"]),
    ],
)
def test_the_version_of_cockroachdb_is_judged(version: str, names: list[str]) -> None:
    question = cockroachdb_questions.QUESTIONS["server"]
    found = answered(question, version=[{"value": version}])  # type: ignore[arg-type]
    assert [each.name for each in found] == names


def test_what_cockroachdb_says_of_transactions_locks_and_waits_is_judged() -> None:
    told = {
        "session_id": "18ea",
        "application_name": "shop",
        "age": 3600.0,
        "table_name": "task_instances",
        "index_name": "task_instances_pkey",
        "txn_id": "7",
        "events": 5000,
    }
    for about, name in {
        "transactions": "long-transaction",
        "locks": "long-lock",
        "contention": "contention",
    }.items():
        question: Any = cockroachdb_questions.QUESTIONS[about]
        found = answered(question, crdb_internal=[told])
        assert found[0].name == name
        assert found[0].statement is not None
        short = answered(question, crdb_internal=[told | {"age": 1.0, "events": 1}])
        assert "long-transaction" not in {each.name for each in short}
        assert "contention" in {each.name for each in short} or about != "contention"
        assert all(each.severity is Severity.OK for each in answered(question))


def test_statistics_of_cockroachdb_are_old_only_where_there_are_rows() -> None:
    question: Any = cockroachdb_questions.QUESTIONS["statistics"]
    for rows, age, name in (
        (1000, None, "old-statistics"),
        (1000, 10**6, "old-statistics"),
        (1000, 10**3, "statistics"),
        (999, None, "statistics"),
    ):
        found = answered(question, STATISTICS=[{"rows": rows, "age": age}])
        assert {each.name for each in found} == {name}


@pytest.mark.parametrize(
    ("ranges", "found"),
    [
        ([(1, [1], 1.0), (1, [1], 1.0)], ["ranges"]),
        ([(1, [1, 2], 1.0)], ["ranges"]),
        ([(1, [1, 2], 1.0), (1, [1, 2], 1.0)], ["leases-on-one-node", "ranges"]),
        ([(1, [1, 2], 1.0), (2, [1, 2], 1.0)], ["ranges"]),
    ],
)
def test_ranges_that_one_node_leads_are_told(
    ranges: list[tuple[int, list[int], float]], found: list[str]
) -> None:
    judged = cockroachdb_questions.judged_ranges("task_instances", ranges)
    assert [each.name for each in judged] == found
    question: Any = cockroachdb_questions.QUESTIONS["ranges"]
    rows = [
        {"lease_holder": holder, "replicas": replicas, "size": size}
        for holder, replicas, size in ranges
    ]
    assert [each.name for each in answered(question, RANGES=rows)] == found * 2


def test_an_index_that_is_not_valid_is_found() -> None:
    rows = [(each, True, None, None) for each in TABLES]
    broken = ("task_instances", True, "task_instances_open_idx", False)
    found = judged_indexes([*rows, broken], DIALECT, rebuild="REINDEX {};")
    [one] = [each for each in found if each.name == "index-invalid"]
    assert one.statement == "REINDEX task_instances_open_idx;"
    for of in (postgresql_questions, cockroachdb_questions):
        connection: Any = Answering()
        connection.dialect = DIALECT
        [missing, _] = of.QUESTIONS["indexes"](connection)
        assert missing.name == "table-missing"


@pytest.fixture
def file(tmp_path: Path, sqlite_file: Path) -> Path:
    """A file of SQLite that a test may break."""
    path = tmp_path / "own.db"
    path.write_bytes(sqlite_file.read_bytes())
    return path


def test_a_file_that_is_not_there_is_told_and_not_made(tmp_path: Path) -> None:
    path = tmp_path / "none.db"
    with closing(open_store(f"sqlite:///{path}")) as store:
        report = diagnose(store)
    assert not report.reached
    assert f"there is no file {path}" in report.findings[-1].seen
    assert not path.exists()


@pytest.mark.parametrize("kind", ["text", "folder"])
def test_what_is_no_database_is_told(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "own.db"
    if kind == "folder":
        path.mkdir()
    else:
        path.write_text("no database" * 1000)
    with closing(open_store(f"sqlite:///{path}")) as store:
        report = diagnose(store)
    assert not report.reached
    assert str(path) in report.findings[-1].seen


def test_a_file_is_read_and_not_changed(file: Path) -> None:
    execute(f"sqlite:///{file}", "PRAGMA wal_checkpoint(TRUNCATE)")
    before = file.read_bytes()
    with closing(open_store(f"sqlite:///{file}")) as store:
        assert diagnose(store).reached
    assert file.read_bytes() == before


def test_a_damaged_file_is_found(file: Path) -> None:
    whole = bytearray(file.read_bytes())
    page = 4096
    with closing(sqlite3.connect(file)) as opened:
        root = opened.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'task_sets'"
        ).fetchone()[0]
    whole[(root - 1) * page : (root - 1) * page + 8] = b"\xff" * 8
    file.write_bytes(whole)
    assert "damaged" in wrong(f"sqlite:///{file}")


def test_what_a_check_of_the_file_says_is_told() -> None:
    class Damaged:
        def exec_driver_sql(self, _: str) -> Damaged:
            return self

        def scalars(self) -> Damaged:
            return self

        def all(self) -> list[str]:
            return ["page 7 is odd", "page 8 is gone"]

    connection: Any = Damaged()
    [found] = sqlite_questions.QUESTIONS["file"](connection)
    assert (found.name, found.seen) == ("damaged", "page 7 is odd; page 8 is gone")


def test_a_check_that_fails_says_that_the_file_is_damaged() -> None:
    class Broken:
        def exec_driver_sql(self, _: str) -> None:
            raise OperationalError("", None, sqlite3.DatabaseError("it is malformed"))

    connection: Any = Broken()
    [found] = sqlite_questions.QUESTIONS["file"](connection)
    assert (found.name, found.seen) == ("damaged", "it is malformed")


def test_what_else_is_found_of_a_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{file}"
    monkeypatch.setattr(sqlite_questions, "MANY_FREE", 1)
    monkeypatch.setattr(sqlite_questions, "LITTLE_ROOM", 2**60)
    execute(url, "CREATE TABLE more AS SELECT randomblob(1000000) x", "DROP TABLE more")
    assert {*wrong(url)} == {"free-pages", "disk-full"}
    execute(url, "PRAGMA journal_mode = DELETE")
    assert "journal-mode" in wrong(url)


def test_a_log_that_cannot_shrink_is_found(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_questions, "LONG_LOG", 0)
    with closing(sqlite3.connect(file)) as opened, opened:
        opened.execute("INSERT INTO task_settings VALUES ('a', 'b')")
        opened.commit()
        assert {*wrong(f"sqlite:///{file}")} == {"large-log"}


def test_a_check_that_takes_too_long_is_given_up(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_questions, "_STEPS", 1)
    path = sqlite_questions.Examined(
        file, elapsed=iter(map(timedelta, range(10**9))).__next__, longest=timedelta(0)
    )
    found = {each.name: each for each in path.findings()}
    assert "unchecked" in found
    assert "interrupted" in found["not-answered"].seen
