"""What is found of databases: on real ones, and of what servers may answer."""

from __future__ import annotations

import fnmatch
import sqlite3
from contextlib import closing
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from sqlalchemy import make_url

from go_scheduler.doctor import Severity, diagnose
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.stores import open_store
from go_scheduler.stores.migrations.history import history
from go_scheduler.stores.postgresql.driver import within
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.redis import server
from go_scheduler.stores.sql import questions
from go_scheduler.stores.sql.database import Lane
from tests import servers
from tests.conftest import SQL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sqlalchemy import Connection

    from go_scheduler.stores.findings import Finding
    from tests.redis_servers import RedisServer

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
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = history()
    monkeypatch.setattr(known, "_revisions", [known.head, "9999"])
    found = wrong(f"sqlite:///{file}")
    assert {*found} == {"schema-behind"}
    assert found["schema-behind"].statement == "go_scheduler migrate"


@pytest.mark.parametrize("engine", NOT_SQLITE, indirect=True)
def test_a_transaction_that_lasts_is_found_and_its_statement_ends_it(
    engine: str, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "LONG", timedelta(0))
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
    ("of", "told", "names"),
    [
        ("postgresql", {}, []),
        ("postgresql", {"number": 119_999}, ["old-server"]),
        ("postgresql", {"standby": True}, ["read-only"]),
        ("postgresql", {"reads_only": True}, ["read-only"]),
        ("postgresql", {"autovacuum": False}, ["autovacuum-off"]),
        ("cockroachdb", {"value": "CockroachDB CCL v24.3.1 (x86_64)"}, []),
        ("cockroachdb", {"value": "CockroachDB CCL v24.2.9 (x86_64)"}, ["old-server"]),
        ("cockroachdb", {"value": "CockroachDB of somebody"}, []),
    ],
)
def test_what_a_server_says_of_itself_is_judged(
    of: str, told: dict[str, object], names: list[str]
) -> None:
    question: Any = questions.QUESTIONS[of]["server"]
    found = answered(question, server_version=[PLAIN | told], version=[told])
    assert [each.name for each in found] == [*names, "server"]


@pytest.mark.parametrize(
    ("of", "part", "told"),
    [
        ("postgresql", "xact_start", {"pid": 7, "usename": "ann"}),
        ("cockroachdb", "crdb_internal", {"session_id": "18ea"}),
    ],
)
def test_a_transaction_is_found_once_it_is_open_for_five_minutes(
    of: str, part: str, told: dict[str, object]
) -> None:
    question: Any = questions.QUESTIONS[of]["transactions"]
    row = {"application_name": "shop", "state": "active"} | told
    nobody = [{"hidden": 0, "asking": "me"}]
    for seconds, expected in ((300.0, ["transactions"]), (301.0, ["long-transaction"])):
        found = answered(question, hidden=nobody, **{part: [row | {"age": seconds}]})
        assert [each.name for each in found][:1] == expected
    assert "shop" in found[0].seen
    assert found[0].seen.endswith("one open for 5 min 1 s")
    assert str(next(iter(told.values()))) in str(found[0].statement)


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


def test_a_question_that_fails_is_found(file: Path) -> None:
    url = f"sqlite:///{file}"
    table = "go_scheduler_schema_version"
    execute(url, f"ALTER TABLE {table} RENAME COLUMN version_num TO other")
    found = wrong(url)
    assert {*found} == {"not-answered"}
    assert "no such column: version_num" in found["not-answered"].seen


class Says:
    """A server that says this of itself."""

    def __init__(self, **info: Any) -> None:
        self._info = info

    def info(self, _: str = "") -> dict[str, Any]:
        return self._info

    def config_get(self, pattern: str) -> dict[str, Any]:
        return {name: self._info[name] for name in fnmatch.filter(self._info, pattern)}


OF_REDIS = {"redis_version": "7.2.4", "role": "master"}
SETTINGS = {
    "appendonly": "yes",
    "appendfsync": "always",
    "maxmemory": "0",
    "maxmemory-policy": "noeviction",
}


@pytest.mark.parametrize(
    ("about", "said", "expected"),
    [
        ("server", {}, [("server", "Redis 7.2.4")]),
        (
            "server",
            {"redis_version": "6.0.16"},
            [("old-server", "Redis 6.0.16")],
        ),
        (
            "server",
            {"valkey_version": "8.1.8"},
            [("server", "Valkey 8.1.8")],
        ),
        (
            "persistence",
            {"aof_last_write_status": "err", "appendonly": "no"},
            [
                ("not-kept", "aof_last_write_status is err"),
                (
                    "may-lose",
                    "appendonly is no: when the server ends, what was written since its"
                    " last snapshot is lost",
                ),
            ],
        ),
    ],
)
def test_what_redis_says_of_itself_is_judged(
    about: str, said: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    found = server.QUESTIONS[about](Says(**OF_REDIS | SETTINGS | said))
    assert [(each.name, each.seen) for each in found] == expected


def test_a_question_that_fails_costs_only_itself(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(client: Any) -> Iterator[Finding]:
        yield client.execute_command("NOSUCH")

    monkeypatch.setitem(server.QUESTIONS, "server", fails)
    with closing(open_store(redis_server.url)) as store:
        failed, kept = store.examine()
    assert (failed.name, kept.name) == ("not-answered", "persistence")
    assert failed.seen.startswith("server: Redis: unknown")
