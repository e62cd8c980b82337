"""Who writes what is due soon on PostgreSQL has the other processes look for it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from sqlalchemy.orm import Session

from go_scheduler.models import Outcome
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Addition
from go_scheduler.stores.postgresql.executing import CHANNEL, NOTIFY_EVERY, Notices
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    SECOND,
    claim,
    claimant,
    definition,
    finish,
    firing,
    put,
    put_and_start,
    task,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.simple import ExecuteOnceTrigger
from tests import servers
from tests.shop import engine_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    import psycopg

    from go_scheduler.testing import ManualClock


@pytest.fixture
def engine() -> str:
    """Where notices are told of."""
    return "postgresql"


class Ear:
    """Another process, which counts what it is notified of."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        [(channel,)] = connection.execute(f"SELECT {CHANNEL}".encode())
        connection.execute(f'LISTEN "{channel}"'.encode())

    def count(self) -> int:
        """How many have come since the last call: those of what has committed."""
        self._connection.execute("SELECT 1")
        return len(list(self._connection.notifies(timeout=0)))


@pytest.fixture
def ear(postgresql_url: str) -> Iterator[Ear]:
    """Hears whatever is notified of in the session's database."""
    with servers.connected(postgresql_url) as connection:
        yield Ear(connection)


@pytest.mark.parametrize(
    ("at", "heard"),
    [(-HOUR, 1), (0 * SECOND, 1), (2 * SECOND, 1), (3 * SECOND, 0), (HOUR, 0)],
)
def test_what_is_put_is_told_of_if_it_is_due_soon(
    store: PostgreSQLStore, ear: Ear, at: timedelta, heard: int
) -> None:
    put(store, definition(START + at))
    assert ear.count() == heard


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize(("at", "heard"), [(MINUTE, 1), (MINUTE + SECOND, 0)])
def test_what_may_commit_much_later_is_told_of_if_it_may_be_due_by_then(
    store: PostgreSQLStore,
    ear: Ear,
    postgresql_url: str,
    at: timedelta,
    heard: int,
    is_new: bool,
) -> None:
    of = definition(START + at, trigger=ExecuteOnceTrigger(START + at))
    if not is_new:
        later = ExecuteOnceTrigger(START + HOUR)
        put(store, replace(of, trigger=later, next_fire_time=START + HOUR))
    with engine_of(postgresql_url) as engine, Session(engine) as session:
        store.join(session).put_definitions([of])
        session.commit()
    assert ear.count() == heard


def test_writes_of_one_moment_are_told_of_once(
    store: PostgreSQLStore, ear: Ear, clock: ManualClock
) -> None:
    one = put(store, task())
    put(store, definition(START + HOUR))
    put(store, definition(START))
    assert ear.count() == 1
    put(store, definition(START))
    store.add_instances(one.id, [Addition()])
    assert ear.count() == 0
    clock.advance(NOTIFY_EVERY)
    store.add_instances(one.id, [Addition()])
    store.add_instances(one.id, [Addition()])
    assert ear.count() == 1


@pytest.mark.parametrize(("trip", "silent"), [(2, 3), (5, 0), (20, 0)])
def test_who_has_notified_is_silent_from_the_start_of_that_and_not_from_its_answer(
    clock: ManualClock, trip: int, silent: int
) -> None:
    notices = Notices(clock.elapsed)
    started = clock.elapsed()
    assert notices.within(started) is not None
    clock.advance(trip * SECOND / 1000)
    notices.note(SimpleNamespace(hinted=True), started)
    for _ in range(silent):
        assert notices.within(clock.elapsed()) is None
        clock.advance(SECOND / 1000)
    assert notices.within(clock.elapsed()) is not None


def test_what_a_node_cannot_run_itself_is_told_of(
    store: PostgreSQLStore, ear: Ear
) -> None:
    put_and_start(store, firing(definition(START)))
    [mine, other] = store.put_definitions(
        [task(queue=queue) for queue in ("default", "elsewhere")]
    ).definitions
    for of, addition, heard in (
        (mine, Addition(), 0),
        (other, Addition(at=START + HOUR), 0),
        (other, Addition(), 1),
    ):
        store.add_instances(of.id, [addition], claimant=claimant())
        assert ear.count() == heard


def test_what_is_done_by_hand_is_told_of(store: PostgreSQLStore, ear: Ear) -> None:
    of = put(store, definition(START + HOUR))
    store.pause_definitions([of.id])
    assert ear.count() == 0
    store.resume_definitions([of.id])
    assert ear.count() == 1
    again = store.get_definition(of.id)
    store.backfill_instances(again, [START - HOUR], overlap=Overlap.ALLOW)
    assert ear.count() == 1
    [claimed] = claim(store)
    assert finish(store, claimed, Outcome.FAILED, error="no")
    assert ear.count() == 0
    assert store.reopen_instances([claimed.id])
    assert ear.count() == 1
    assert not store.reopen_instances([claimed.id])
    assert ear.count() == 0


def test_a_two_phase_transaction_tells_nobody_for_it_could_not_be_prepared(
    store: PostgreSQLStore, ear: Ear, postgresql_url: str
) -> None:
    of = put(store, task())
    new = [definition(START) for _ in range(2)]
    with (
        engine_of(postgresql_url) as engine,
        engine.connect() as connection,
        connection.begin_twophase(),
    ):
        store.join(connection).put_definitions(new)
        store.join(connection).add_instances(of.id, [Addition()])
    assert store.get_definition(new[0].id)
    assert ear.count() == 0


def test_nobody_hears_of_the_tables_of_another_schema(
    store: PostgreSQLStore, ear: Ear, postgresql_url: str, clock: ManualClock
) -> None:
    with servers.connected(postgresql_url) as connection:
        connection.execute("CREATE SCHEMA other")
        elsewhere = PostgreSQLStore(
            postgresql_url,
            clock=clock,
            connect_args={"options": "-c search_path=other"},
        )
        elsewhere.initialize()
        put(elsewhere, definition(START))
        elsewhere.close()
        connection.execute("DROP SCHEMA other CASCADE")
    assert ear.count() == 0
