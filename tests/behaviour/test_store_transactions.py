"""What is done in a user's own transaction commits with it, or never was."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack, contextmanager, suppress
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from sqlalchemy import create_engine, insert, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from go_scheduler import (
    ClaimLostError,
    ConfigurationError,
    ConflictError,
    DelayTrigger,
    HandedOn,
    IntervalTrigger,
    Job,
    QueueFullError,
    RetryPolicy,
    Scheduler,
    State,
    StoreUnavailableError,
    TaskDefinition,
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
    current_run,
)
from go_scheduler.client import Client
from go_scheduler.errors import StoreError
from go_scheduler.stores import open_store
from go_scheduler.testing.clock import START
from tests.behaviour.house import meanwhile
from tests.behaviour.store_house import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    SELDOM,
    House,
    ids,
    once,
    opened,
    running,
    task,
)
from tests.conftest import LOCKING, SQL
from tests.patience import FAILED_AFTER
from tests.servers import fresh_database
from tests.shop import METADATA, ORDERS, RollBack, Shop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from go_scheduler import Run, Store, TaskInstance
    from go_scheduler.testing import ManualClock
    from tests.shop import Begin

T = TypeVar("T")


@pytest.fixture(params=SQL)
def engine(request: pytest.FixtureRequest) -> str:
    """Those that a user's transaction can be in."""
    kind: str = request.param
    return kind


def snapshot(client: Client) -> list[object]:
    """All that there is, as whoever lists it sees it."""
    found: list[object] = []
    for each in client.list_definitions():
        kept = (each.revision, each.paused, each.note, each.owner, each.next_fire_time)
        found.append((each, kept))
    return [*found, *client.list_instances()]


def beside(engine: str, read: Callable[[], T]) -> T | None:
    """What is read beside an open transaction; None: CockroachDB makes that wait."""
    if engine != "cockroachdb":
        return read()
    with suppress(StoreUnavailableError):
        return read()
    return None


def prepared(client: Client) -> dict[str, Any]:
    """What there is before: a task, something to come, a set, and what waits."""
    of = client.schedule(task())
    every = TaskDefinition(trigger=IntervalTrigger(HOUR, anchor=START - DAY))
    return {
        "task": of,
        "every": client.schedule(every),
        "later": client.schedule(once(START + DAY, name="later")),
        "paused": client.schedule(once(START + DAY, paused=True)),
        "waits": client.enqueue("send", delay=DAY),
        "set": client.declare([task("declared")], owner="shop"),
    }


CHANGES: dict[str, Callable[[Client, dict[str, Any], Any], object]] = {
    "schedule": lambda client, _, to: client.schedule(once(), connection=to),
    "schedule many": lambda client, _, to: client.schedule_all(
        [once() for _ in range(9)], connection=to
    ),
    "edit": lambda client, had, to: client.schedule(
        once(START + HOUR, id=had["later"].id, name="edited"), connection=to
    ),
    "declare": lambda client, _, to: client.declare(
        [task("new"), task("other")], owner="shop", version=3, connection=to
    ),
    "pause": lambda client, had, to: client.pause(
        had["later"].id, "why", connection=to
    ),
    "pause many": lambda client, _, to: client.pause_definitions(
        name="later", connection=to
    ),
    "resume": lambda client, had, to: client.resume(had["paused"].id, connection=to),
    "resume many": lambda client, _, to: client.resume_definitions(connection=to),
    "delete": lambda client, had, to: client.delete_definition(
        had["task"].id, connection=to
    ),
    "delete many": lambda client, _, to: client.delete_definitions(
        name="send", connection=to
    ),
    "enqueue": lambda client, _, to: client.enqueue("send", key="k", connection=to),
    "enqueue many": lambda client, _, to: client.enqueue_all(
        "send", [Job(), None, {"n": 1}], connection=to
    ),
    "run now": lambda client, had, to: client.run_now(had["every"].id, connection=to),
    "cancel": lambda client, had, to: client.cancel(had["waits"].id, connection=to),
    "backfill": lambda client, had, to: client.backfill(
        had["every"].id, START - 5 * HOUR, START, connection=to
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_each_change_is_there_once_the_transaction_commits_and_not_before(
    engine: str,
    client: Client,
    shop: Shop,
    begin: Begin,
    change: Callable[[Client, dict[str, Any], Any], object],
) -> None:
    had = prepared(client)
    before = snapshot(client)
    with suppress(RollBack), begin() as connection:
        shop.order(connection)
        change(client, had, connection)
        assert beside(engine, lambda: snapshot(client)) in (before, None)
        raise RollBack
    assert (snapshot(client), shop.orders) == (before, 0)
    with begin() as connection:
        shop.order(connection)
        answer = change(client, had, connection)
        assert beside(engine, lambda: snapshot(client)) in (before, None)
    assert snapshot(client) != before
    assert shop.orders == 1
    # It is what the same call without a transaction would have come to.
    if isinstance(answer, TaskDefinition):
        assert client.get_definition(answer.id) == answer
        assert client.get_definition(answer.id).revision == answer.revision


def test_a_savepoint_that_is_rolled_back_takes_what_was_done_in_it(
    client: Client, shop: Shop
) -> None:
    with Session(shop.engine) as session, session.begin():
        client.schedule(once(name="a"), connection=session)
        with suppress(RollBack), session.begin_nested():
            client.schedule(once(name="b"), connection=session)
            raise RollBack
    assert [each.name for each in client.list_definitions()] == ["a"]


def test_nothing_is_put_beside_a_conflict_that_does_not_end_the_transaction(
    client: Client, shop: Shop
) -> None:
    was = client.schedule(once(name="a"))
    client.schedule(once(id=was.id, name="b"))
    with shop.engine.begin() as connection:
        with pytest.raises(ConflictError):
            client.schedule_all([once(name="c"), was], connection=connection)
        with pytest.raises(TaskDefinitionNotFoundError):
            client.enqueue("send", connection=connection)
        with pytest.raises(TaskInstanceNotFoundError):
            client.cancel(was.id, connection=connection)
        client.schedule(once(name="d"), connection=connection)
    assert {each.name for each in client.list_definitions()} == {"b", "d"}


def test_a_limit_holds_within_a_transaction_too(client: Client, shop: Shop) -> None:
    client.schedule(task(max_queue=2))
    client.enqueue("send")
    with shop.engine.begin() as connection:
        client.enqueue("send", connection=connection)
        with pytest.raises(QueueFullError):
            client.enqueue("send", connection=connection)
    assert client.counts()[State.PENDING] == 2


def test_a_key_is_made_once_within_a_transaction_too(
    client: Client, shop: Shop
) -> None:
    client.schedule(task())
    made = client.enqueue("send", key="k")
    with shop.engine.begin() as connection:
        again = client.enqueue("send", key="k", connection=connection)
        new = [client.enqueue("send", key="l", connection=connection) for _ in "ab"]
    assert again.id == made.id
    assert new[0].id == new[1].id
    assert client.counts()[State.PENDING] == 2


def test_a_cancel_frees_a_lock_and_moves_on_what_waits_once_it_commits(
    house: House, shop: Shop
) -> None:
    client = house.scheduler
    runs = house.run(lock="printer")
    house.task("other", lock="printer")
    parked = client.enqueue("other")
    house.clock.advance(SECOND)
    assert house.fail(runs, retry_in=DAY)
    after = client.schedule(TaskDefinition(trigger=DelayTrigger(SECOND)))
    house.clock.advance(SECOND)
    waits = house.called[-1]
    assert waits.definition.id == after.id
    assert house.fail(waits, retry_in=DAY)
    with shop.engine.begin() as connection:
        for each in (runs, waits):
            assert client.cancel(each.id, connection=connection) == "cancelled"
        assert client.cancel(parked.id, connection=connection) == "cancelled"
        connection.rollback()
    assert house.again(parked).parked
    assert client.get_definition(after.id).next_fire_time is None
    with Session(shop.engine) as session, session.begin():
        for each in (runs, waits):
            assert client.cancel(each.id, connection=session) == "cancelled"
            assert client.cancel(each.id, connection=session) is None
    house.clock.advance(3 * SECOND)
    assert parked.id in ids(house.called)
    assert len([each for each in house.called if each.definition.id == after.id]) == 2


# What is no transaction that a store can take part in.


@pytest.mark.parametrize("given", [5, "postgresql://user:secret@host", object()])
def test_what_is_no_connection_is_refused(client: Client, given: object) -> None:
    with pytest.raises(ConfigurationError, match="Connection or Session") as caught:
        client.schedule(once(), connection=given)
    assert "secret" not in str(caught.value)


def test_a_connection_in_autocommit_or_elsewhere_or_closed_is_refused(
    client: Client, shop: Shop, engine: str, tmp_path: Path
) -> None:
    auto = shop.engine.execution_options(isolation_level="AUTOCOMMIT")
    with (
        auto.connect() as connection,
        pytest.raises(ConfigurationError, match="autocommit"),
    ):
        client.schedule(once(), connection=connection)
    other = Shop(f"sqlite:///{tmp_path / 'other.db'}").engine
    said = "another database, or the store" if engine == "sqlite" else "sqlite"
    with (
        other.connect() as connection,
        pytest.raises((ConfigurationError, StoreError), match=said),
    ):
        client.schedule(once(), connection=connection)
    other.dispose()
    connection = shop.engine.connect()
    connection.close()
    with pytest.raises((ConfigurationError, StoreError)):
        client.schedule(once(), connection=connection)
    assert client.list_definitions() == []


@pytest.mark.parametrize("engine", LOCKING)
def test_a_connection_to_a_database_without_the_tables_is_told_so(
    client: Client, engine: str, request: pytest.FixtureRequest
) -> None:
    with ExitStack() as stack:
        server = request.getfixturevalue(f"{engine}_url")
        other = Shop(stack.enter_context(fresh_database(server))).engine
        with (
            other.connect() as connection,
            pytest.raises(StoreError, match="to another database, or the store"),
        ):
            client.schedule(once(), connection=connection)
        other.dispose()


def test_a_store_that_nobody_has_used_is_made_ready_by_a_check(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    shop, store = Shop(url), open_store(url)
    client = Client(store)
    with Session(shop.engine) as session, pytest.raises(StoreError, match=r"check\("):
        client.schedule(once(), connection=session)
    client.check()
    with Session(shop.engine) as session, session.begin():
        scheduled = client.schedule(once(), connection=session)
    assert client.get_definition(scheduled.id) == scheduled
    store.close()
    shop.engine.dispose()


@pytest.mark.parametrize("url", ["memory://", "redis://127.0.0.1:1"])
def test_a_store_without_transactions_says_so(url: str, clock: ManualClock) -> None:
    with opened(url, clock) as store:
        client = Client(store)
        for call in (client.schedule, client.schedule_all):
            given: Any = once() if call is client.schedule else [once()]
            with pytest.raises(ConfigurationError, match="takes part in no transact"):
                call(given, connection=object())


@pytest.mark.parametrize("engine", LOCKING)
def test_times_are_in_utc_whatever_the_zone_of_the_session(
    client: Client, shop: Shop
) -> None:
    with shop.engine.begin() as connection:
        connection.execute(text("SET TIME ZONE 'America/New_York'"))
        kept = client.schedule(once(START, paused=True), connection=connection)
        made = client.run_now(kept.id, connection=connection)
    assert kept.paused_at is not None
    for at in (kept.paused_at, kept.next_fire_time, made.execute_at, made.due_at):
        assert at is not None
        assert at.utcoffset() == NOW
    assert kept.next_fire_time == START


# Loops beside open transactions.


@pytest.mark.parametrize("engine", LOCKING)
def test_what_was_put_long_before_its_commit_still_runs(
    house: House, clock: ManualClock, shop: Shop
) -> None:
    house.answer = lambda _: None
    house.task()
    with shop.engine.begin() as connection:
        scheduled = house.scheduler.schedule(once(), connection=connection)
        house.scheduler.declare(
            [once(id=TaskDefinition.id_for("d"))], owner="o", connection=connection
        )
        added = house.scheduler.enqueue("send", connection=connection)
        clock.advance(30 * SECOND)
        assert house.called == []
    clock.advance(17 * SECOND)
    assert len(house.called) == 3
    assert added.id in ids(house.called)
    [ran] = house.of(scheduled)
    assert ran.fire_time == START


def test_a_scheduler_looks_as_soon_as_a_session_has_committed(
    store: Store, clock: ManualClock, shop: Shop
) -> None:
    with running(store, clock, **SELDOM) as house:
        house.answer = lambda _: None
        house.task()
        paused = house.once(paused=True)
        clock.advance(NOW)

        def runs(change: Callable[[Session], object]) -> int:
            before = len(house.called)
            with Session(shop.engine) as session:
                change(session)
                session.rollback()
                clock.advance(NOW)
                assert len(house.called) == before
                change(session)
                session.commit()
            clock.advance(NOW)
            return len(house.called) - before

        client = house.scheduler
        assert runs(lambda to: client.schedule(once(), connection=to)) == 1
        assert runs(lambda to: client.enqueue("send", connection=to)) == 1
        assert runs(lambda to: client.resume(paused.id, connection=to)) == 1
        new = [once(id=TaskDefinition.id_for("d"))]
        assert runs(lambda to: client.declare(new, owner="o", connection=to)) == 1


@pytest.mark.parametrize("engine", ["postgresql"])
def test_who_puts_an_id_that_is_put_meanwhile_is_told_to_repeat(
    client: Client, shop: Shop
) -> None:
    new = once(id=TaskDefinition.id_for("a"), name="first")
    told: list[object] = []
    with shop.engine.connect() as first, shop.engine.connect() as second:
        client.schedule(new, connection=first)

        def put() -> None:
            with pytest.raises(StoreUnavailableError, match="repeat the transaction"):
                client.schedule(once(id=new.id, name="second"), connection=second)
            told.append(None)

        with meanwhile(put):
            wait_until_one_waits(shop)
            first.commit()
        second.rollback()
    assert told
    assert client.get_definition(new.id).name == "first"


def wait_until_one_waits(shop: Shop) -> None:
    """Wait until another transaction waits for a lock."""
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    with shop.engine.connect() as connection:
        while not connection.scalar(waiting):
            connection.rollback()


# Two transactions.


def test_who_meets_somebody_that_writes_the_file_is_told_to_repeat(
    tmp_path: Path, clock: ManualClock
) -> None:
    url = f"sqlite:///{tmp_path / 'own.db'}"
    with opened(url, clock) as store:
        client = Client(store)
        client.check()
        hasty = create_engine(url, connect_args={"timeout": 0})
        with hasty.connect() as connection, hasty.connect() as rival:
            rival.execute(text("DELETE FROM task_settings"))
            with pytest.raises(StoreUnavailableError, match="locked"):
                client.schedule(once(), connection=connection)
            rival.rollback()
        hasty.dispose()


# Completing.

NOT_COMMITTED = "the transaction of complete_in() was not committed"


@pytest.fixture
def house(store: Store, clock: ManualClock, shop: Shop) -> Iterator[House]:
    with running(store, clock) as house:
        yield house


def test_a_success_commits_with_the_handlers_rows(
    engine: str,
    house: House,
    shop: Shop,
    begin: Begin,
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[State] = []

    def answer(instance: TaskInstance) -> None:
        with begin() as connection:
            shop.order(connection)
            current_run().complete_in(connection)
            found = beside(engine, lambda: house.state(instance))
            seen.append(found or State.RUNNING)
        seen.append(house.state(instance))

    house.answer = answer
    with caplog.at_level(logging.WARNING, "go_scheduler"):
        made = house.run(lock="shop")
        again = house.run(lock="shop")
    assert seen == [State.RUNNING, State.COMPLETED] * 2
    assert (made.state, made.runs, made.error) == (State.COMPLETED, 1, None)
    assert again.state is State.COMPLETED
    assert shop.orders == 2
    assert caplog.records == []


@pytest.mark.parametrize("raises", [False, True])
def test_a_run_whose_transaction_is_rolled_back_has_failed_and_runs_again(
    house: House, shop: Shop, raises: bool
) -> None:
    def answer(_: TaskInstance) -> None:
        shop.complete(commits=len(house.called) == 2)
        if raises and len(house.called) == 1:
            raise ZeroDivisionError

    house.answer = answer
    failed = house.run(retry=RetryPolicy(delay=5 * SECOND))
    assert failed.state is State.PENDING
    assert (failed.error or "").startswith(NOT_COMMITTED)
    assert ("ZeroDivisionError" in (failed.error or "")) == raises
    assert shop.orders == 0
    house.clock.advance(5 * SECOND)
    done = house.again(failed)
    assert (done.state, done.runs) == (State.COMPLETED, 2)
    assert shop.orders == 1


def test_a_transaction_may_be_repeated_and_what_follows_the_commit_is_logged(
    house: House, shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(_: TaskInstance) -> None:
        for last in (False, True):
            shop.complete(commits=last)
        raise ZeroDivisionError("after the commit")

    house.answer = answer
    done = house.run()
    assert (done.state, done.runs, done.error) == (State.COMPLETED, 1, None)
    assert shop.orders == 1
    assert "ZeroDivisionError: after the commit" in caplog.text


@pytest.mark.parametrize("committed", [False, True])
def test_a_run_is_completed_once(house: House, shop: Shop, committed: bool) -> None:
    def answer(_: TaskInstance) -> None:
        with shop.engine.connect() as connection:
            current_run().complete_in(connection)
            if committed:
                connection.commit()
            with pytest.raises(ClaimLostError, match=r"an earlier complete_in\(\)"):
                current_run().complete_in(connection)
            connection.commit()

    house.answer = answer
    assert house.run().state is State.COMPLETED


@pytest.mark.parametrize("how", ["deleted", "completed elsewhere", "cancelled"])
def test_a_lost_claim_is_told_and_the_handlers_rows_are_rolled_back(
    house: House, shop: Shop, how: str
) -> None:
    told: list[type[BaseException]] = []

    def answer(instance: TaskInstance) -> None:
        client = house.scheduler
        if how == "deleted":
            client.delete_definition(instance.definition.id)
        elif how == "completed elsewhere":
            assert client.complete(instance.id, instance.attempt)
        else:
            client.cancel(instance.id)
            client.fail(instance.id, instance.attempt, "stopped")
        try:
            shop.complete()
        except ClaimLostError as error:
            told.append(type(error))
            raise

    house.answer = answer
    made = house.run()
    assert told == [ClaimLostError]
    assert shop.orders == 0
    expected = State.COMPLETED if how == "completed elsewhere" else State.CANCELLED
    assert house.state(made) is expected


def test_a_definition_that_waits_for_the_end_goes_on_with_the_commit(
    house: House, shop: Shop
) -> None:
    def answer(_: TaskInstance) -> None:
        shop.complete(commits=len(house.called) != 2)

    house.answer = answer
    house.scheduler.schedule(
        TaskDefinition(trigger=DelayTrigger(2 * SECOND), retry=RetryPolicy(delay=NOW))
    )
    house.clock.advance(9 * SECOND)
    # The second run was rolled back, and ran again; then it goes on from there.
    assert [each.attempt for each in house.called[:4]] == [1, 1, 2, 1]
    *before, after = [each.fire_time for each in house.called[:4]]
    assert before == [START + n * SECOND for n in (2, 4, 4)]
    assert after is not None
    assert after >= START + 6 * SECOND


@pytest.mark.parametrize("committed", [True, False])
def test_a_run_that_was_to_complete_in_a_transaction_is_not_handed_on(
    house: House, shop: Shop, committed: bool
) -> None:
    def answer(_: TaskInstance) -> HandedOn:
        shop.complete(commits=committed)
        return HandedOn(expire_after=HOUR)

    house.answer = answer
    found = house.run(retry=RetryPolicy(max_attempts=1))
    assert found.state is (State.COMPLETED if committed else State.FAILED)


@pytest.mark.parametrize("engine", LOCKING)
def test_of_two_runs_that_complete_the_first_commits_and_the_other_is_told(
    house: House, shop: Shop
) -> None:
    """The first was presumed lost, and comes back."""
    runs: list[Run] = []

    def answer(_: TaskInstance) -> HandedOn:
        runs.append(current_run())
        return HandedOn(expire_after=MINUTE)

    house.answer = answer
    first = house.run()
    house.rest(2 * MINUTE)
    house.clock.advance(MINUTE)
    second = house.again(first)
    assert second.attempt == 2
    with shop.engine.begin() as connection:
        shop.order(connection)
        runs[0].complete_in(connection)
    with shop.engine.connect() as connection:
        shop.order(connection)
        with pytest.raises(ClaimLostError):
            runs[1].complete_in(connection)
    ended = house.again(first)
    assert (ended.state, ended.ended_attempt, shop.orders) == (State.COMPLETED, 1, 1)


# Awaited.


@contextmanager
def asynchronous(shop: Shop) -> Iterator[Any]:
    """An engine of asyncio for the same database."""
    drivers = {"sqlite": "sqlite+aiosqlite"}
    scheme = shop.url.drivername.partition("+")[0]
    url = shop.url.set(drivername=drivers.get(scheme, f"{scheme}+psycopg"))
    yield create_async_engine(url)


@pytest.mark.parametrize("engine", LOCKING)
def test_the_awaitable_forms_take_part_in_an_async_transaction(
    client: Client, shop: Shop
) -> None:
    async def change(engine: Any) -> None:
        for commit in (False, True):
            async with AsyncSession(engine) as session:
                await client.aschedule(task(), connection=session)
                await client.aenqueue("send", connection=session)
                await client.adeclare([task("d")], owner="shop", connection=session)
                if commit:
                    await session.commit()
                else:
                    await session.rollback()
            found = await client.alist_definitions()
            assert len(found) == (2 if commit else 0)
        async with AsyncSession(engine) as session:
            with pytest.raises(ConfigurationError, match="aschedule"):
                client.schedule(once(), connection=session)
        with (
            Session(shop.engine) as plain,
            pytest.raises(ConfigurationError, match="schedule"),
        ):
            await client.aschedule(once(), connection=plain)
        await engine.dispose()

    with asynchronous(shop) as engine:
        asyncio.run(change(engine))
    assert client.counts()[State.PENDING] == 1


@pytest.mark.parametrize("engine", LOCKING)
def test_an_async_handler_completes_on_a_connection_of_its_own(
    own_time_store: Store, store_url: str
) -> None:
    shop = Shop(store_url)
    METADATA.create_all(shop.engine)
    done = Event()

    async def handle(_: TaskInstance) -> None:
        async with AsyncSession(async_engine) as session:
            await session.execute(insert(ORDERS))
            await session.run_sync(current_run().complete_in)
            await session.commit()
        await async_engine.dispose()
        done.set()

    with (
        asynchronous(shop) as async_engine,
        Scheduler(handle, own_time_store) as scheduler,
    ):
        of = scheduler.schedule(task())
        made = scheduler.run_now(of.id)
        assert done.wait(FAILED_AFTER)
    assert Client(own_time_store).get_instance(made.id).state is State.COMPLETED
    assert shop.orders == 1
    METADATA.drop_all(shop.engine)
    shop.engine.dispose()
