"""Who writes what is due soon on PostgreSQL has the other processes look for it."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import psycopg
import pytest
from sqlalchemy import create_engine, make_url
from sqlalchemy.orm import Session

from go_scheduler.errors import ConfigurationError, StoreUnavailableError
from go_scheduler.models import Outcome, TaskDefinition
from go_scheduler.policies import Overlap
from go_scheduler.stores.hints import Hints, News
from go_scheduler.stores.messages import Addition, Claim, RunOutcome
from go_scheduler.stores.postgresql.dialect import CHANNEL, NOTIFY_EVERY, Notices
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
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.interval import IntervalTrigger
from go_scheduler.triggers.on_demand import OnDemandTrigger
from tests import servers
from tests.faults import Pooler, kill_connections, unix_socket
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta

    from go_scheduler.testing import ManualClock


@pytest.fixture
def store(clock: ManualClock, postgresql_url: str) -> Iterator[PostgreSQLStore]:
    """A store that has not notified anybody for a while."""
    servers.delete_all_rows(postgresql_url)
    store = PostgreSQLStore(postgresql_url, clock=clock)
    with listening(store):
        yield store
    store.close()


@contextmanager
def listening(store: PostgreSQLStore) -> Iterator[Hints]:
    """Hints whose waits end after a while, so that a test of those lost fails."""
    hints = store.hints()
    assert hints is not None
    end = threading.Timer(FAILED_AFTER, hints.close)
    end.start()
    try:
        yield hints
    finally:
        end.cancel()
        hints.close()


class Ear:
    """Another process, which counts what it is notified of."""

    def __init__(self, url: str) -> None:
        libpq = make_url(url).set(drivername="postgresql")
        self._connection = psycopg.connect(
            libpq.render_as_string(hide_password=False), autocommit=True
        )
        row = self._connection.execute(f"SELECT {CHANNEL}".encode()).fetchone()
        assert row is not None
        self._connection.execute(f'LISTEN "{row[0]}"'.encode())

    def count(self) -> int:
        """How many have come since the last call: those of what has committed."""
        self._connection.execute("SELECT 1")
        return len(list(self._connection.notifies(timeout=0)))

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def ear(postgresql_url: str) -> Iterator[Ear]:
    """Hears whatever is notified of in the session's database."""
    ear = Ear(postgresql_url)
    yield ear
    ear.close()


def after_a_pause(clock: ManualClock) -> None:
    clock.advance(NOTIFY_EVERY)


@pytest.mark.parametrize(
    ("at", "heard"),
    [(-HOUR, 1), (0 * SECOND, 1), (2 * SECOND, 1), (3 * SECOND, 0), (HOUR, 0)],
)
def test_what_is_put_is_told_of_if_it_is_due_soon(
    store: PostgreSQLStore, ear: Ear, at: timedelta, heard: int
) -> None:
    put(store, definition(START + at))
    assert ear.count() == heard


def test_a_hint_says_whether_definitions_or_instances_are_new(
    store: PostgreSQLStore, clock: ManualClock
) -> None:
    task = put(store, TaskDefinition(trigger=OnDemandTrigger()))
    with listening(store) as hints:
        assert hints.wait() is News.ANYTHING
        put(store, definition(START))
        assert hints.wait() is News.DEFINITIONS
        after_a_pause(clock)
        store.add_instances(task.id, [Addition()])
        assert hints.wait() is News.INSTANCES
        [run] = claim(store)
        assert finish(store, run, outcome=Outcome.FAILED)
        store.reopen_instances([run.id])
        assert hints.wait() is News.ANYTHING


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
    engine = create_engine(
        make_url(postgresql_url).set(drivername="postgresql+psycopg")
    )
    with Session(engine) as session, session.begin():
        store.join(session).put_definitions([of])
    assert ear.count() == heard
    engine.dispose()


def test_many_that_are_put_at_once_are_told_of_once(
    store: PostgreSQLStore, ear: Ear
) -> None:
    store.put_definitions([definition(START) for _ in range(20)])
    assert ear.count() == 1


def test_writes_of_one_moment_are_told_of_once(
    store: PostgreSQLStore, ear: Ear, clock: ManualClock
) -> None:
    one = put(store, TaskDefinition(trigger=OnDemandTrigger()))
    put(store, definition(START + HOUR))
    put(store, definition(START))
    assert ear.count() == 1
    put(store, definition(START))
    store.add_instances(one.id, [Addition()])
    assert ear.count() == 0
    after_a_pause(clock)
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


def test_what_a_node_runs_itself_is_told_to_nobody(
    store: PostgreSQLStore, ear: Ear
) -> None:
    new = definition(START)
    store.put_and_start(firing(new), claimant())
    [on_demand] = store.put_definitions([TaskDefinition(trigger=OnDemandTrigger())])
    store.add_and_start(on_demand.id, [Addition()], claimant(), names=None)
    assert ear.count() == 0


def test_what_a_node_adds_and_cannot_run_is_told_of(
    store: PostgreSQLStore, ear: Ear, clock: ManualClock
) -> None:
    of = put(store, TaskDefinition(trigger=OnDemandTrigger(), queue="elsewhere"))
    store.add_and_start(of.id, [Addition(at=START + HOUR)], claimant(), names=None)
    assert ear.count() == 0
    store.add_and_start(of.id, [Addition()], claimant(), names=None)
    assert ear.count() == 1


def test_an_edit_is_told_of_if_it_makes_something_due(
    store: PostgreSQLStore, ear: Ear
) -> None:
    later = put(store, definition(START + HOUR))
    put(store, later)
    put(store, replace(later, revision=None, name="other"))
    assert ear.count() == 0
    at = ExecuteOnceTrigger(START)
    due = replace(later, revision=None, trigger=at, next_fire_time=START)
    stored = put(store, due)
    assert ear.count() == 1
    put(store, replace(stored, revision=None))
    assert ear.count() == 0


def test_what_is_done_by_hand_is_told_of(store: PostgreSQLStore, ear: Ear) -> None:
    every = IntervalTrigger(HOUR, anchor=START)
    of = put(store, definition(START + HOUR, trigger=every))
    store.pause_definitions([of.id])
    assert ear.count() == 0
    store.resume_definitions([of.id])
    assert ear.count() == 1
    [of] = store.list_definitions(ids=[of.id])
    store.backfill_instances(of, [START - HOUR], overlap=Overlap("allow"))
    assert ear.count() == 1
    [claimed] = claim(store)
    failed = RunOutcome(claim=Claim.of(claimed), outcome=Outcome.FAILED, error="no")
    store.finish_instances([failed])
    assert ear.count() == 0
    assert store.reopen_instances([claimed.id])
    assert ear.count() == 1
    assert not store.reopen_instances([claimed.id])
    assert ear.count() == 0


def test_within_a_transaction_of_the_users_it_is_told_of_when_that_commits(
    store: PostgreSQLStore, ear: Ear, postgresql_url: str
) -> None:
    put(store, definition(START))
    assert ear.count() == 1
    url = make_url(postgresql_url).set(drivername="postgresql+psycopg")
    engine = create_engine(url)
    # No pause before it, for it may commit at any time later.
    with Session(engine) as session:
        of = definition(START, trigger=OnDemandTrigger())
        store.join(session).put_definitions([of])
        store.join(session).add_instances(of.id, [Addition()])
        assert ear.count() == 0
        session.commit()
        # Of definitions, and of instances.
        assert ear.count() == 2
        store.join(session).put_definitions([definition(START)])
        session.rollback()
        assert ear.count() == 0
    engine.dispose()


def test_a_two_phase_transaction_tells_nobody_for_it_could_not_be_prepared(
    store: PostgreSQLStore, ear: Ear, postgresql_url: str
) -> None:
    of = put(store, TaskDefinition(trigger=OnDemandTrigger()))
    new = [definition(START) for _ in range(2)]
    url = make_url(postgresql_url).set(drivername="postgresql+psycopg")
    engine = create_engine(url)
    with engine.connect() as connection, connection.begin_twophase():
        store.join(connection).put_definitions(new)
        store.join(connection).add_instances(of.id, [Addition()])
    engine.dispose()
    assert store.get_definition(new[0].id)
    assert ear.count() == 0


def test_where_hints_are_off_nobody_tells_and_nobody_listens(
    clock: ManualClock, postgresql_url: str, ear: Ear
) -> None:
    servers.delete_all_rows(postgresql_url)
    store = PostgreSQLStore(postgresql_url, clock=clock, hints=False)
    assert store.hints() is None
    of = put(store, definition(START))
    store.pause_definitions([of.id])
    store.resume_definitions([of.id])
    assert ear.count() == 0
    store.close()


@pytest.mark.parametrize("hints", ["no", "", 0, []])
def test_whether_there_are_hints_is_said_by_a_truth_value(
    postgresql_url: str, hints: bool
) -> None:
    with pytest.raises(ConfigurationError, match="hints must be a bool"):
        PostgreSQLStore(postgresql_url, hints=hints)


def test_nobody_hears_of_the_tables_of_another_schema(
    store: PostgreSQLStore, ear: Ear, postgresql_url: str, clock: ManualClock
) -> None:
    with psycopg.connect(
        make_url(postgresql_url)
        .set(drivername="postgresql")
        .render_as_string(hide_password=False),
        autocommit=True,
    ) as connection:
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


def test_a_listener_hears_what_was_put_before_it_listened_and_after(
    store: PostgreSQLStore, clock: ManualClock
) -> None:
    with listening(store) as hints:
        # It cannot know whether anything was.
        assert hints.wait()
        for _ in range(2):
            put(store, definition(START))
            after_a_pause(clock)
            assert hints.wait()


def waiting(hints: Hints) -> tuple[threading.Thread, list[object]]:
    """A thread that waits for a hint, and what came of that."""
    found: list[object] = []

    def wait() -> None:
        try:
            found.append(hints.wait())
        except StoreUnavailableError as error:
            found.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread, found


def listeners(url: str) -> int:
    """How many connections to a database have listened."""
    libpq = make_url(url).set(drivername="postgresql")
    with psycopg.connect(libpq.render_as_string(hide_password=False)) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND query LIKE 'LISTEN%'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_a_wait_ends_when_it_is_closed_and_leaves_no_connection(
    clock: ManualClock, empty_database_url: Callable[[], str]
) -> None:
    url = empty_database_url()
    with servers.opened(url, clock) as store:
        hints = store.hints()
        assert hints is not None
        assert hints.wait()
        assert listeners(url) == 1
        thread, found = waiting(hints)
        hints.close()
        thread.join(FAILED_AFTER)
        assert found == [News.NOTHING]
        assert not hints.wait()
        hints.close()
        closed = store.hints()
        assert closed is not None
        closed.close()
        assert not closed.wait()
        wait_for_none(url)


def wait_for_none(url: str) -> None:
    """A server takes a moment to notice that a connection is closed."""
    for _ in range(1000):
        if not listeners(url):
            return
        threading.Event().wait(0.01)
    raise AssertionError("a connection was left behind")


def test_a_connection_that_is_lost_is_said_and_replaced(
    store: PostgreSQLStore, postgresql_url: str
) -> None:
    with listening(store) as hints:
        assert hints.wait()
        thread, found = waiting(hints)
        kill_connections(postgresql_url)
        thread.join(FAILED_AFTER)
        [error] = found
        assert isinstance(error, StoreUnavailableError)
        assert hints.wait()
        put(store, definition(START))
        assert hints.wait()


@pytest.fixture
def pooled_url(postgresql_url: str) -> Iterator[str]:
    """The URL of the session's database behind a pooler."""
    with Pooler(unix_socket(postgresql_url)) as pooler:
        yield (
            make_url(postgresql_url)
            .set(host="127.0.0.1", port=pooler.port, query={})
            .render_as_string(hide_password=False)
        )


def test_behind_a_pooler_nobody_listens_and_that_is_said(
    clock: ManualClock, pooled_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    store = PostgreSQLStore(pooled_url, clock=clock)
    with listening(store) as hints:
        # It has looked once, and nothing more comes.
        assert hints.wait()
        thread, found = waiting(hints)
        put(store, definition(START))
        hints.close()
        thread.join(FAILED_AFTER)
        assert found == [News.NOTHING]
    store.close()
    assert [each.message for each in caplog.records if "pooler" in each.message]


def test_who_knows_his_pooler_may_listen_through_it(
    clock: ManualClock, pooled_url: str
) -> None:
    store = PostgreSQLStore(pooled_url, clock=clock, hints=True)
    with listening(store) as hints:
        assert hints.wait()
        put(store, definition(START))
        assert hints.wait()
    store.close()
