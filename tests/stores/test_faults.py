"""What a database does to its clients: conflicts, lost answers, silence, locks."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, cast

import psycopg
import pytest
from sqlalchemy import exc, make_url

from go_scheduler.clock import SystemClock
from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.models import RUNS_KEPT, Outcome, State, TaskDefinition
from go_scheduler.stores.messages import Addition
from go_scheduler.stores.postgresql import driver
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.rules import Declaration
from go_scheduler.stores.sql import database as sql_database
from go_scheduler.stores.sql.database import Lane
from go_scheduler.testing.builders import (
    HOUR,
    NODE,
    SECOND,
    claim,
    definition,
    fail_again,
    finish,
    fire,
    ids,
    put,
    running,
    start,
)
from go_scheduler.testing.store.claims import (
    ClaimTests,
    LapsedTests,
    LostClaimTests,
    StartTests,
)
from go_scheduler.testing.store.cleanups import CleanupTests
from go_scheduler.testing.store.edits import (
    DeleteTests,
    EditTests,
    PauseTests,
)
from go_scheduler.testing.store.firings import FireTests, WaitingTests
from go_scheduler.testing.store.nodes import ThreadTests
from go_scheduler.testing.store.runs import FinishTests, ReleaseTests
from go_scheduler.triggers.on_demand import OnDemandTrigger
from tests import servers
from tests.faults import (
    Proxy,
    behind,
    failing_statements,
    unix_socket,
)
from tests.servers import libpq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime, timedelta

    from sqlalchemy import Connection

    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

SHARE = 0.3
ERRORS = psycopg.errors


@pytest.fixture
def real_store(postgresql_url: str) -> Iterator[PostgreSQLStore]:
    """An empty PostgreSQL store that goes by the server's time."""
    servers.delete_all_rows(postgresql_url)
    with servers.opened(postgresql_url) as store:
        yield cast("PostgreSQLStore", store)


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


@pytest.mark.slow
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
        self,
        clock: ManualClock,
        postgresql_url: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Iterator[Store]:
        """An empty store."""
        servers.delete_all_rows(postgresql_url)
        # These conflicts are chance: they neither go away with time, nor end for sure
        # within the usual number of tries.
        monkeypatch.setattr(sql_database, "_LONGEST_PAUSE", 0.01)
        monkeypatch.setattr(sql_database, "_MOST_TRIES", 1000)
        with servers.opened(postgresql_url, clock) as store:
            assert isinstance(store, PostgreSQLStore)
            with failing_statements(
                store, share=SHARE, error=ERRORS.SerializationFailure
            ) as failed:
                yield store
            assert sum(store.retries.values()) >= len(failed)


def test_a_conflict_without_end_is_reported(
    real_store: PostgreSQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_database, "_LONGEST_PAUSE", 0.01)
    with (
        failing_statements(real_store, share=1, error=ERRORS.SerializationFailure),
        pytest.raises(StoreUnavailableError, match="40001"),
    ):
        put(real_store)
    assert real_store.select_definitions() == []


@pytest.mark.parametrize(
    "error",
    [ERRORS.QueryCanceled, ERRORS.InsufficientPrivilege],
)
def test_what_may_concern_one_row_lets_a_batch_be_halved(
    real_store: PostgreSQLStore, error: type[psycopg.Error]
) -> None:
    instance = running(real_store, definition(real_store.now()))
    with (
        failing_statements(real_store, share=1, error=error),
        pytest.raises(StoreError, match=error.sqlstate) as caught,
    ):
        finish(real_store, instance)
    assert type(caught.value) is StoreError


def test_who_declares_waits_several_times_for_a_lock(
    real_store: PostgreSQLStore,
) -> None:
    locked = ERRORS.LockNotAvailable
    one = Declaration(owner="app", definitions=[definition(real_store.now())])
    with failing_statements(real_store, share=1, error=locked, most=3):
        assert real_store.declare_definitions(one).definitions
    with (
        failing_statements(real_store, share=1, error=locked, most=4),
        pytest.raises(StoreUnavailableError, match="55P03"),
    ):
        real_store.declare_definitions(one)


def test_who_adds_to_a_limited_definition_waits_several_times_for_its_turn(
    real_store: PostgreSQLStore,
) -> None:
    task = TaskDefinition(trigger=OnDemandTrigger(), max_queue=2)
    [task] = real_store.put_definitions([task]).definitions
    real_store.add_instances(task.id, [Addition()])
    locked = ERRORS.LockNotAvailable
    with failing_statements(real_store, share=1, error=locked, most=3):
        assert len(real_store.add_instances(task.id, [Addition()])) == 1


def test_an_unknown_end_is_not_repeated_where_that_would_lie(
    real_store: PostgreSQLStore,
) -> None:
    instance = running(real_store, definition(real_store.now()))
    unknown = ERRORS.StatementCompletionUnknown
    with (
        failing_statements(real_store, share=1, error=unknown, when="after", most=1),
        pytest.raises(StoreUnavailableError, match="40003"),
    ):
        finish(real_store, instance)
    assert real_store.get_instance(instance.id).state is State.COMPLETED
    assert not finish(real_store, instance, Outcome.FAILED)


def unknown(store: PostgreSQLStore) -> Callable[..., object]:
    """Makes transactions of which nobody is told that they were committed."""
    commit = store._database._in_transaction

    def in_transaction(connection: Connection, work: Callable[..., object]) -> object:
        commit(connection, work)
        raise exc.OperationalError("", {}, ERRORS.StatementCompletionUnknown())

    return in_transaction


def test_an_unknown_commit_of_a_delete_is_no_answer(
    real_store: PostgreSQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = put(real_store)
    monkeypatch.setattr(real_store._database, "_in_transaction", unknown(real_store))
    with pytest.raises(StoreUnavailableError, match="40003"):
        real_store.delete_definitions({read.id})
    assert real_store.select_definitions() == []


def test_an_unknown_commit_of_a_retry_is_no_answer_and_is_not_repeated(
    real_store: PostgreSQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = running(real_store, definition(real_store.now()))
    finish(real_store, instance, Outcome.FAILED, error="no paper")
    monkeypatch.setattr(real_store._database, "_in_transaction", unknown(real_store))
    with pytest.raises(StoreUnavailableError, match="40003"):
        real_store.reopen_instances({instance.id})
    monkeypatch.undo()
    [again] = claim(real_store)
    assert (again.id, again.attempt, again.runs) == (instance.id, 2, 1)
    # Whoever asks once more, as nobody answered, does not disturb it.
    assert real_store.reopen_instances({instance.id}) == set()
    assert finish(real_store, again)


def test_history_that_is_not_trimmed_leaves_what_was_finished_as_it_is(
    real_store: PostgreSQLStore, postgresql_url: str
) -> None:
    instance = running(real_store, definition(real_store.now()))
    instance = fail_again(real_store, instance, RUNS_KEPT)
    with psycopg.connect(libpq(postgresql_url)) as locker:
        locker.execute("SELECT 1 FROM task_runs FOR UPDATE")
        assert finish(real_store, instance, None, error="no paper")
        assert len(real_store.list_runs(instance.id)) == RUNS_KEPT + 1
    [instance] = claim(real_store)
    assert finish(real_store, instance, None, error="no paper")
    assert len(real_store.list_runs(instance.id)) == RUNS_KEPT


def test_an_unknown_end_is_repeated_where_that_is_harmless(
    real_store: PostgreSQLStore,
) -> None:
    fire(real_store, put(real_store, definition(real_store.now() + HOUR)))
    [claimed] = claim(real_store, ahead=2 * HOUR)
    unknown = ERRORS.StatementCompletionUnknown
    with failing_statements(
        real_store, share=0.5, error=unknown, when="after"
    ) as failed:
        while not failed:
            [started] = start(real_store, claimed)
    assert started.runs == 1
    assert real_store.retries["40003"] == len(failed)


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
    real_store: PostgreSQLStore, postgresql_url: str
) -> None:
    connect = unix_socket(postgresql_url)
    with Proxy(connect) as one, Proxy(connect) as two:
        url = behind(postgresql_url, one.port, two.port)
        with servers.opened(url, has_tables=True) as store:
            assert isinstance(store, PostgreSQLStore)
            store._database.run(Lane.NEW, make_read_only)
            assert put(store).revision == 1


def make_read_only(connection: Connection) -> None:
    connection.exec_driver_sql("SET default_transaction_read_only = on")


def test_the_time_is_that_of_the_return_however_long_that_took(
    real_store: PostgreSQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = real_store._ask_for_time

    def ask_long_ago(connection: Connection) -> tuple[datetime, timedelta]:
        now, answered = ask(connection)
        return now, answered - HOUR

    monkeypatch.setattr(real_store, "_ask_for_time", ask_long_ago)
    before = SystemClock().now()
    assert HOUR / 2 < real_store.now() - before < 2 * HOUR


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
    real_store: PostgreSQLStore, postgresql_url: str, change: str
) -> None:
    now = real_store.now()
    read = put(real_store, definition(now))
    good, odd = fire(real_store, read, now, now - SECOND)
    first, second = sorted((good, odd), key=lambda each: each.due_at)
    with psycopg.connect(libpq(postgresql_url), autocommit=True) as hand:
        hand.execute(
            f"UPDATE task_instances SET {change} WHERE id = %s".encode(), [first.id]
        )
    assert ids(claim(real_store, limit=1)) == [second.id]
