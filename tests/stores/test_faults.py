"""What a database does to its clients: conflicts, lost answers, silence, locks."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import psycopg
import pytest
from sqlalchemy import exc, make_url

from go_scheduler.clock import SystemClock
from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.models import RUNS_KEPT, Outcome, State
from go_scheduler.stores.postgresql import driver
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.rules import Declaration
from go_scheduler.stores.sql import database as sql_database
from go_scheduler.stores.sql.database import Lane
from go_scheduler.testing.builders import (
    HOUR,
    NODE,
    SECOND,
    add,
    claim,
    definition,
    fail_again,
    finish,
    fire,
    ids,
    put,
    running,
    start,
    task,
)
from go_scheduler.testing.store.claims import (
    ClaimTests,
    LapsedTests,
    LostClaimTests,
    StartTests,
)
from go_scheduler.testing.store.edits import DeleteTests, EditTests, PauseTests
from go_scheduler.testing.store.firings import FireTests, WaitingTests
from go_scheduler.testing.store.nodes import CleanupTests, ThreadTests
from go_scheduler.testing.store.runs import FinishTests, ReleaseTests
from tests import servers
from tests.faults import Proxy, behind, failing_statements, unix_socket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime, timedelta

    from sqlalchemy import Connection

    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

SHARE = 0.3
ERRORS = psycopg.errors


@pytest.fixture
def engine() -> str:
    """Where faults are made."""
    return "postgresql"


@pytest.fixture
def store(own_time_store: PostgreSQLStore) -> PostgreSQLStore:
    """An empty store that goes by the server's time."""
    return own_time_store


def test_a_password_that_is_wrong_is_no_store_that_is_away() -> None:
    told = b'SFATAL\0C28P01\0Mpassword authentication failed for user "shop"\0\0'
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            client, _ = server.accept()
            with client:
                client.recv(4096)
                client.sendall(b"E" + (len(told) + 4).to_bytes(4, "big") + told)

        thread = threading.Thread(target=refuse)
        thread.start()
        port = server.getsockname()[1]
        url = f"postgresql://shop:no@127.0.0.1:{port}/shop?sslmode=disable"
        with pytest.raises(StoreError) as refused:
            PostgreSQLStore(url).initialize()
        thread.join()
    assert type(refused.value) is StoreError
    assert str(refused.value) == (
        'password authentication failed for user "shop" on this server: mind the URL'
        " (28P01)"
    )


@pytest.mark.exhaustive
class TestConflicts(
    EditTests,
    DeleteTests,
    PauseTests,
    FireTests,
    ClaimTests,
    LapsedTests,
    LostClaimTests,
    StartTests,
    FinishTests,
    WaitingTests,
    ReleaseTests,
    CleanupTests,
    ThreadTests,
):
    """The suite's promises, while three statements of ten meet a conflict."""

    # Transactions with this many statements would never get through.
    test_batches_in_opposite_orders_do_not_block_each_other = None  # type: ignore[assignment]
    test_a_resume_brings_back_all_instances = None  # type: ignore[assignment]

    @pytest.fixture
    def store(
        self, clock: ManualClock, store_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[Store]:
        """An empty store."""
        # These conflicts are chance: they neither go away with time, nor end for sure
        # within the usual number of tries.
        monkeypatch.setattr(sql_database, "_LONGEST_PAUSE", 0.01)
        monkeypatch.setattr(sql_database, "_MOST_TRIES", 1000)
        with servers.opened(store_url, clock, has_tables=True) as store:
            assert isinstance(store, PostgreSQLStore)
            with failing_statements(
                store, share=SHARE, error=ERRORS.SerializationFailure
            ) as failed:
                yield store
            assert sum(store.retries.values()) >= len(failed)


def test_a_conflict_without_end_is_reported(
    store: PostgreSQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_database, "_LONGEST_PAUSE", 0.01)
    with (
        failing_statements(store, share=1, error=ERRORS.SerializationFailure),
        pytest.raises(StoreUnavailableError, match="40001"),
    ):
        put(store)
    assert store.select_definitions() == []


@pytest.mark.parametrize(
    "error",
    [ERRORS.QueryCanceled, ERRORS.InsufficientPrivilege],
)
def test_what_may_concern_one_row_lets_a_batch_be_halved(
    store: PostgreSQLStore, error: type[psycopg.Error]
) -> None:
    instance = running(store, definition(store.now()))
    with (
        failing_statements(store, share=1, error=error),
        pytest.raises(StoreError, match=error.sqlstate) as caught,
    ):
        finish(store, instance)
    assert type(caught.value) is StoreError


def test_who_declares_waits_several_times_for_a_lock(
    store: PostgreSQLStore,
) -> None:
    locked = ERRORS.LockNotAvailable
    one = Declaration(owner="app", definitions=[definition(store.now())])
    with failing_statements(store, share=1, error=locked, most=3):
        assert store.declare_definitions(one).definitions
    with (
        failing_statements(store, share=1, error=locked, most=4),
        pytest.raises(StoreUnavailableError, match="55P03"),
    ):
        store.declare_definitions(one)


def test_who_adds_to_a_limited_definition_waits_several_times_for_its_turn(
    store: PostgreSQLStore,
) -> None:
    limited = put(store, task(max_queue=2))
    add(store, limited)
    locked = ERRORS.LockNotAvailable
    with failing_statements(store, share=1, error=locked, most=3):
        assert add(store, limited)


def test_an_unknown_end_is_not_repeated_where_that_would_lie(
    store: PostgreSQLStore,
) -> None:
    instance = running(store, definition(store.now()))
    unknown = ERRORS.StatementCompletionUnknown
    with (
        failing_statements(store, share=1, error=unknown, when="after", most=1),
        pytest.raises(StoreUnavailableError, match="40003"),
    ):
        finish(store, instance)
    assert store.get_instance(instance.id).state is State.COMPLETED
    assert not finish(store, instance, Outcome.FAILED)


def unknown(store: PostgreSQLStore) -> Callable[..., object]:
    """Makes transactions of which nobody is told that they were committed."""
    commit = store._database._in_transaction

    def in_transaction(connection: Connection, work: Callable[..., object]) -> object:
        commit(connection, work)
        raise exc.OperationalError("", {}, ERRORS.StatementCompletionUnknown())

    return in_transaction


def test_an_unknown_commit_of_a_delete_is_no_answer(
    store: PostgreSQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = put(store)
    monkeypatch.setattr(store._database, "_in_transaction", unknown(store))
    with pytest.raises(StoreUnavailableError, match="40003"):
        store.delete_definitions({read.id})
    assert store.select_definitions() == []


def test_an_unknown_commit_of_a_retry_is_no_answer_and_is_not_repeated(
    store: PostgreSQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = running(store, definition(store.now()))
    finish(store, instance, Outcome.FAILED, error="no paper")
    monkeypatch.setattr(store._database, "_in_transaction", unknown(store))
    with pytest.raises(StoreUnavailableError, match="40003"):
        store.reopen_instances({instance.id})
    monkeypatch.undo()
    [again] = claim(store)
    assert (again.id, again.attempt, again.runs) == (instance.id, 2, 1)
    # Whoever asks once more, as nobody answered, does not disturb it.
    assert store.reopen_instances({instance.id}) == set()
    assert finish(store, again)


def test_history_that_is_not_trimmed_leaves_what_was_finished_as_it_is(
    store: PostgreSQLStore, postgresql_url: str
) -> None:
    instance = running(store, definition(store.now()))
    instance = fail_again(store, instance, RUNS_KEPT)
    with servers.connected(postgresql_url) as locker, locker.transaction():
        locker.execute("SELECT 1 FROM task_runs FOR UPDATE")
        assert finish(store, instance, None, error="no paper")
        assert len(store.list_runs(instance.id)) == RUNS_KEPT + 1
    [instance] = claim(store)
    assert finish(store, instance, None, error="no paper")
    assert len(store.list_runs(instance.id)) == RUNS_KEPT


def test_an_unknown_end_is_repeated_where_that_is_harmless(
    store: PostgreSQLStore,
) -> None:
    fire(store, put(store, definition(store.now() + HOUR)))
    [claimed] = claim(store, ahead=2 * HOUR)
    unknown = ERRORS.StatementCompletionUnknown
    with failing_statements(store, share=0.5, error=unknown, when="after") as failed:
        while not failed:
            [started] = start(store, claimed)
    assert started.runs == 1
    assert store.retries["40003"] == len(failed)


@pytest.mark.slow
def test_a_silent_network_is_given_up(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers.delete_all_rows(postgresql_url)
    with Proxy(unix_socket(postgresql_url)) as proxy:
        url = make_url(postgresql_url).set(host="127.0.0.1", port=proxy.port, query={})
        store = PostgreSQLStore(url, connect_args={"connect_timeout": 2})
        store.initialize()
        new = put(store)
        proxy.silence()
        with monkeypatch.context() as short:
            short.setattr(driver._BoundedConnection, "answer_timeout", 1)
            with pytest.raises(StoreUnavailableError):
                store.get_definition(new.id)
        proxy.speak()
        proxy.cut()
        assert store.get_definition(new.id) == new
        store.close()


@pytest.mark.slow
def test_a_primary_that_has_become_a_standby_is_left(
    store: PostgreSQLStore, postgresql_url: str
) -> None:
    connect = unix_socket(postgresql_url)
    with Proxy(connect) as one, Proxy(connect) as two:
        url = behind(postgresql_url, one.port, two.port)
        with servers.opened(url, has_tables=True) as of_both:
            assert isinstance(of_both, PostgreSQLStore)
            of_both._database.run(Lane.NEW, make_read_only)
            assert put(of_both).revision == 1


def make_read_only(connection: Connection) -> None:
    connection.exec_driver_sql("SET default_transaction_read_only = on")


def test_the_time_is_that_of_the_return_however_long_that_took(
    store: PostgreSQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = store._ask_for_time

    def ask_long_ago(connection: Connection) -> tuple[datetime, timedelta]:
        now, answered = ask(connection)
        return now, answered - HOUR

    monkeypatch.setattr(store, "_ask_for_time", ask_long_ago)
    before = SystemClock().now()
    assert HOUR / 2 < store.now() - before < 2 * HOUR


@pytest.mark.parametrize(
    "change",
    [
        "frozen = true",
        "completed_at = now(), outcome = 'failed'",
        f"claimed_by = '{NODE}'",
        "attempt = 9223372036854775807",
        "runs = 9223372036854775807",
    ],
)
def test_an_instance_that_no_claim_can_take_fills_no_place_of_another(
    store: PostgreSQLStore, postgresql_url: str, change: str
) -> None:
    now = store.now()
    read = put(store, definition(now))
    good, odd = fire(store, read, now, now - SECOND)
    first, second = sorted((good, odd), key=lambda each: each.due_at)
    update = f"UPDATE task_instances SET {change} WHERE id = %s"
    with servers.connected(postgresql_url) as hand:
        hand.execute(update.encode(), [first.id])
    assert ids(claim(store, limit=1)) == [second.id]
