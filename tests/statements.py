"""The statements that a store of SQL executes, as its drivers see them."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import event

from go_scheduler.stores.sql.database import Lane

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Connection, Engine

    from go_scheduler.stores.sql.store import SQLStore


@contextmanager
def executed(store: SQLStore, *lanes: Lane) -> Iterator[list[str]]:
    """The texts of all that is executed meanwhile, with explicit beginnings.

    Args:
        store: The store.
        lanes: Of these connections alone; else of all.
    """
    found: list[str] = []

    def note(_: object, __: object, statement: str, *___: object) -> None:
        found.append(statement)

    def begin(connection: Connection) -> None:
        if connection.get_execution_options().get("isolation_level"):
            found.append("BEGIN")

    def trace(driver: object, *_: object) -> None:
        if isinstance(driver, sqlite3.Connection):
            driver.set_trace_callback(found.append)

    def leave(driver: object, _: object) -> None:
        if isinstance(driver, sqlite3.Connection):
            driver.set_trace_callback(None)

    of_servers: dict[str, Callable[..., None]] = {
        "before_cursor_execute": note,
        "begin": begin,
    }
    of_files: dict[str, Callable[..., None]] = {"checkout": trace, "checkin": leave}
    with ExitStack() as listening:
        # On SQLite several lanes have one engine.
        for engine in {store._database._engines[lane] for lane in lanes or Lane}:
            is_file = engine.dialect.name == "sqlite"
            for name, call in (of_files if is_file else of_servers).items():
                listening.enter_context(_listening(engine, name, call))
        yield found


@contextmanager
def _listening(engine: Engine, name: str, call: Callable[..., None]) -> Iterator[None]:
    event.listen(engine, name, call)
    try:
        yield
    finally:
        event.remove(engine, name, call)
