"""Connections are open before they are needed, and replaced while nobody waits."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.sql.database import OLDEST, Lane
from go_scheduler.testing.builders import clean_up
from tests.faults import kill_connections

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from go_scheduler.testing.clock import ManualClock

LOOPS = {Lane.BY_TIME: 3, Lane.BY_KEY: 2, Lane.RENEWALS: 1}


class Line:
    """Every connection that is opened, and whether it may be."""

    def __init__(self) -> None:
        self.opened = 0
        self.cut = False


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    """Notes what this test's thread opens from now on.

    A thread that another test has left behind may open a connection at any time, as
    when this test has killed all that are open.
    """
    line, own = Line(), get_ident()
    really = psycopg.Connection.connect.__func__  # type: ignore[attr-defined]

    def connect(cls: type[Any], *args: Any, **options: Any) -> Any:
        if get_ident() != own:
            return really(cls, *args, **options)
        if line.cut:
            raise psycopg.OperationalError("nobody is there")
        line.opened += 1
        return really(cls, *args, **options)

    monkeypatch.setattr(psycopg.Connection, "connect", classmethod(connect))
    return line


@pytest.fixture
def store(clock: ManualClock, postgresql_url: str) -> Iterator[PostgreSQLStore]:
    """A store that has opened nothing."""
    store = PostgreSQLStore(postgresql_url, clock=clock, pool_size=1)
    yield store
    store.close()


def process_of(store: PostgreSQLStore, lane: Lane) -> int:
    """The server's process behind the connection that comes next in a lane."""

    def ask(connection: Connection) -> int:
        found: int = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        return found

    return store._database.run(lane, ask)


def processes(store: PostgreSQLStore) -> set[int]:
    """Those of the loops: a pool's connections take turns."""
    return {
        process_of(store, lane) for lane, size in LOOPS.items() for _ in range(size)
    }


def test_the_connections_of_the_loops_are_opened_before_they_are_needed(
    store: PostgreSQLStore, line: Line
) -> None:
    store.connect()
    assert line.opened == sum(LOOPS.values())
    line.cut = True
    assert len(processes(store)) == sum(LOOPS.values())
    # Harmless when they are open.
    store.connect()


def test_old_connections_are_replaced_one_after_the_other_by_the_cleanup(
    store: PostgreSQLStore, clock: ManualClock, line: Line
) -> None:
    store.connect()
    old = processes(store)
    clock.advance(OLDEST)
    for number in range(1, len(old) + 1):
        line.cut = True
        # Nobody opens one because one is old, and all go on.
        assert len(processes(store)) == len(old)
        line.cut = False
        clean_up(store)
        assert line.opened == len(old) + number
    line.cut = True
    processes(store)
    assert not processes(store) & old
    clean_up(store)
    assert line.opened == 2 * len(old)


def test_connections_do_not_all_grow_old_at_one_time(store: PostgreSQLStore) -> None:
    store.connect()
    ages = [
        store._database.run(lane, lambda connection: connection.info["replace_at"])
        for lane, size in LOOPS.items()
        for _ in range(size)
    ]
    assert len({*ages}) == len(ages)
    assert 0.75 * OLDEST <= min(ages) <= max(ages) <= OLDEST


def test_without_a_new_connection_the_old_one_goes_on(
    store: PostgreSQLStore, clock: ManualClock, line: Line
) -> None:
    store.connect()
    old = processes(store)
    clock.advance(OLDEST)
    processes(store)
    line.cut = True
    clean_up(store)
    assert processes(store) == old
    line.cut = False
    clean_up(store)
    processes(store)
    assert len(processes(store) & old) == len(old) - 1


def test_what_has_killed_a_connection_may_have_killed_the_spare_one(
    store: PostgreSQLStore, clock: ManualClock, line: Line, postgresql_url: str
) -> None:
    store.connect()
    clock.advance(OLDEST)
    process_of(store, Lane.RENEWALS)
    clean_up(store)
    kill_connections(postgresql_url)
    assert process_of(store, Lane.RENEWALS)
    assert store.retries == {"57P01": 1}
    assert line.opened == sum(LOOPS.values()) + 2


def test_a_spare_connection_that_nobody_took_is_closed_with_the_others(
    store: PostgreSQLStore, clock: ManualClock, postgresql_url: str
) -> None:
    store.connect()
    clock.advance(OLDEST)
    process_of(store, Lane.RENEWALS)
    clean_up(store)
    [spare] = [each._ready[0] for each in store._database._spares if each._ready]
    store.close()
    assert spare.closed
