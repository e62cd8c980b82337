"""User code that must type-check: the stores of databases, and transactions."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, assert_type

from sqlalchemy.orm import Session

from go_scheduler import Scheduler, Store, TaskDefinition, TaskInstance, current_run
from go_scheduler.stores import open_store
from go_scheduler.stores.cockroachdb import CockroachDBStore
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.sql.schema import schema_sql
from go_scheduler.stores.sqlite.store import SQLiteStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Engine

    from go_scheduler.testing import ManualClock


def stores(clock: ManualClock) -> list[Store]:
    cockroachdb = CockroachDBStore(
        "cockroachdb://user@host/database", pool_size=2, follower_reads=True
    )
    retries: Mapping[str, int] = cockroachdb.retries
    print(retries)  # noqa: T201 - a user's program
    return [
        cockroachdb,
        PostgreSQLStore(
            "postgresql://user@host/database",
            clock=clock,
            connect_args={"sslmode": "verify-full", "connect_timeout": 2},
            migrate=False,
        ),
        SQLiteStore(
            "sqlite:///tasks.db", durable=False, busy_timeout=timedelta(seconds=9)
        ),
        open_store("sqlite:///tasks.db"),
    ]


def schema() -> None:
    assert_type(schema_sql("postgresql", since="0001"), str)


def order(engine: Engine, scheduler: Scheduler, reminder: TaskDefinition) -> None:
    with Session(engine) as session, session.begin():
        stored = scheduler.schedule(reminder, connection=session)
        assert_type(stored, TaskDefinition)
    with engine.begin() as connection:
        scheduler.schedule(reminder, connection=connection)


def handler(instance: TaskInstance, engine: Engine) -> None:
    with engine.begin() as connection:
        current_run().complete_in(connection)


def wrong(scheduler: Scheduler, reminder: TaskDefinition, session: Session) -> None:
    scheduler.schedule(reminder, session)  # type: ignore[call-arg]
    PostgreSQLStore("postgresql://h/d", follower_reads=True)  # type: ignore[call-arg]
    SQLiteStore("sqlite:///tasks.db", busy_timeout=9)  # type: ignore[arg-type]
