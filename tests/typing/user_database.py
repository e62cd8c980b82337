"""User code that must type-check: the stores of databases, and transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

from sqlalchemy.orm import Session

from go_scheduler import Scheduler, TaskDefinition, TaskInstance, current_run
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.sqlite.store import SQLiteStore

if TYPE_CHECKING:
    from sqlalchemy import Engine


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
