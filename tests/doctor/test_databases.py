"""What is found of databases: on real ones, and of what servers may answer."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from sqlalchemy import make_url
from sqlalchemy.dialects import postgresql

from go_scheduler.doctor import Severity, diagnose
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.stores import cockroachdb_questions, open_store
from go_scheduler.stores.migrations.history import history
from go_scheduler.stores.postgresql import questions as postgresql_questions
from go_scheduler.stores.postgresql.questions import within
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.redis import questions as redis_questions
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.questions import (
    TABLES,
    judged_indexes,
    judged_revision,
)
from go_scheduler.stores.sqlite import questions as sqlite_questions
from tests import servers
from tests.conftest import SQL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sqlalchemy import Connection

    from go_scheduler.stores.findings import Finding
    from tests.redis_servers import RedisServer

DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]
HEAD = history().head
NOT_SQLITE = SQL[1:]


def wrong(url: str) -> dict[str, Finding]:
    """What of a database is not as it should be, as its store says."""
    with closing(open_store(url)) as store:
        found = list(store.examine())
    return {each.name: each for each in found if each.severity is not Severity.OK}


def connect(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(servers.libpq(url), autocommit=True)


def execute(url: str, *statements: str) -> None:
    if url.startswith("sqlite:"):
        with closing(sqlite3.connect(make_url(url).database or "")) as file, file:
            for each in statements:
                file.execute(each)
        return
    with connect(url) as connection:
        for each in statements:
            connection.execute(each.encode())


def test_a_schema_of_an_earlier_revision_is_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = history()
    monkeypatch.setattr(known, "_revisions", [HEAD, "9999"])
    found = judged_revision([HEAD])
    assert (found.name, found.statement) == ("schema-behind", "go_scheduler migrate")


@pytest.mark.parametrize("engine", NOT_SQLITE, indirect=True)
def test_a_transaction_that_lasts_is_found_and_its_statement_ends_it(
    engine: str, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = cockroachdb_questions if engine == "cockroachdb" else postgresql_questions
    monkeypatch.setattr(of, "LONG", timedelta(0))
    with connect(store_url) as holder:
        if engine == "cockroachdb":
            [[own]] = holder.execute(b"SHOW session_id").fetchall()
        holder.execute(b"BEGIN")
        holder.execute(b"UPDATE task_settings SET value = 'c'")
        found = wrong(store_url)["long-transaction"]
        # On a server that tests of other processes use, theirs may be older.
        while engine == "cockroachdb" and own not in str(found.statement):
            found = wrong(store_url)["long-transaction"]
        assert "has had one open for " in found.seen
        execute(store_url, str(found.statement))
        with pytest.raises(psycopg.Error):
            holder.execute(b"SELECT 1")


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


PLAIN = {
    "version": "16.1",
    "number": 160_001,
    "standby": False,
    "reads_only": False,
    "autovacuum": True,
}


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ({}, None),
        ({"number": 119_999}, "old-server"),
        ({"standby": True}, "read-only"),
        ({"reads_only": True}, "read-only"),
        ({"autovacuum": False}, "autovacuum-off"),
    ],
)
def test_what_postgresql_says_of_itself_is_judged(
    told: dict[str, object], name: str | None
) -> None:
    question: Any = postgresql_questions.QUESTIONS["server"]
    found = answered(question, server_version=[PLAIN | told])
    names = [each.name for each in found]
    assert names == (["server"] if name is None else [name, "server"])


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


@pytest.mark.parametrize(
    ("of", "part", "told"),
    [
        (postgresql_questions, "xact_start", {"pid": 7, "usename": "ann"}),
        (cockroachdb_questions, "crdb_internal", {"session_id": "18ea"}),
    ],
    ids=["postgresql", "cockroachdb"],
)
def test_a_transaction_is_found_once_it_is_open_for_five_minutes(
    of: Any, part: str, told: dict[str, object]
) -> None:
    row = {"application_name": "shop", "state": "active"} | told
    nobody = [{"hidden": 0, "asking": "me"}]
    for seconds, expected in ((300.0, ["transactions"]), (301.0, ["long-transaction"])):
        found = answered(
            of.QUESTIONS["transactions"],
            hidden=nobody,
            **{part: [row | {"age": seconds}]},
        )
        assert [each.name for each in found][:1] == expected
    assert "shop" in found[0].seen
    assert found[0].seen.endswith("one open for 5 min 1 s")
    assert str(next(iter(told.values()))) in str(found[0].statement)


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


def test_a_question_that_fails_and_a_full_disk_are_found(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_questions, "LITTLE_ROOM", 2**60)
    url = f"sqlite:///{file}"
    table = "go_scheduler_schema_version"
    execute(url, f"ALTER TABLE {table} RENAME COLUMN version_num TO other")
    found = wrong(url)
    assert {*found} == {"not-answered", "disk-full"}
    assert "no such column: version_num" in found["not-answered"].seen


class Says:
    """A server that says this of itself."""

    def __init__(self, **info: Any) -> None:
        self._info = info

    def info(self, _: str) -> dict[str, Any]:
        return self._info


@pytest.mark.parametrize(
    ("about", "said", "expected"),
    [
        (
            "server",
            {"redis_version": "6.0.16"},
            [("old-server", "Redis 6.0.16")],
        ),
        (
            "server",
            {"redis_version": "7.2.4", "valkey_version": "8.1.8"},
            [("server", "Valkey 8.1.8")],
        ),
        (
            "persistence",
            {"aof_last_write_status": "err", "aof_enabled": 0},
            [
                ("not-kept", "aof_last_write_status is err"),
                ("may-lose", "appendonly is no"),
            ],
        ),
        ("replication", {"role": "master"}, []),
    ],
)
def test_what_redis_says_of_itself_is_judged(
    about: str, said: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    found = redis_questions.QUESTIONS[about](Says(**said))
    assert [(each.name, each.seen) for each in found] == expected


def test_a_question_that_fails_costs_only_itself(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(client: Any) -> Iterator[Finding]:
        yield client.execute_command("NOSUCH")

    monkeypatch.setitem(redis_questions.QUESTIONS, "memory", fails)
    found = wrong(redis_server.url)
    assert found.keys() == {"not-answered"}
    assert found["not-answered"].seen.startswith("memory: Redis: unknown")
