"""A user's own transaction: what is scheduled or completed in it commits with it."""

from __future__ import annotations

import asyncio
import gc
import re
import threading
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from sqlalchemy import (
    Connection,
    event,
    func,
    select,
    text,
)
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from go_scheduler.client import Client
from go_scheduler.errors import (
    ClaimLostError,
    ConfigurationError,
    ConflictError,
    StoreUnavailableError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.events import DefinitionChanged, Event, InstanceFinished
from go_scheduler.handlers import HandlerRegistry
from go_scheduler.models import Cancelled, Outcome, State, TaskDefinition
from go_scheduler.policies import CatchUp, RetryPolicy
from go_scheduler.run import Run, current_run, run_here
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.held import HeldRun
from go_scheduler.running.recorder import Recorder
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.cockroachdb import CockroachDBStore
from go_scheduler.stores.messages import Renewal
from go_scheduler.stores.sql import joined
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.store import SQLStore
from go_scheduler.testing.builders import (
    EXPIRE_AFTER,
    HOUR,
    LEASE,
    MINUTE,
    OTHER_NODE,
    SECOND,
    at_once,
    cancel,
    claim,
    claim_of,
    definition,
    finish,
    fire,
    ids,
    pending,
    put,
    renew,
    running,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.interval import IntervalTrigger
from go_scheduler.triggers.on_demand import OnDemandTrigger
from tests.conftest import LOCKING, SQL, seconds
from tests.patience import FAILED_AFTER
from tests.shop import RollBack, Shop

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from go_scheduler.clock import StoreClock
    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store, TransactionalStore
    from go_scheduler.testing import ManualClock
    from tests.shop import Begin

LONG_AGO = START - timedelta(days=36_500)
WAITS = "it waits"
NOT_COMMITTED = "the transaction of complete_in() was not committed"


@pytest.fixture(params=SQL)
def engine(request: pytest.FixtureRequest) -> str:
    """Those that a user's transaction can be in."""
    kind: str = request.param
    return kind


def beside(store: Store, read: Callable[[], Any]) -> Any:
    """What a read finds beside an open transaction; CockroachDB's waits for that."""
    if not isinstance(store, CockroachDBStore):
        return read()
    with pytest.raises(StoreUnavailableError):
        read()
    return WAITS


class Watching(Client):
    """A client that notes when it would look for what is due."""

    looks = 0

    def _look(self, stored: TaskDefinition | None = None) -> None:
        self.looks += 1


@pytest.fixture
def client(store: Store) -> Watching:
    return Watching(store)


def once(at: datetime = START, **values: object) -> TaskDefinition:
    return TaskDefinition(trigger=ExecuteOnceTrigger(at), **values)  # type: ignore[arg-type]


# Scheduling.


def test_a_revision_that_is_not_the_stored_one_is_a_conflict(
    client: Client, shop: Shop
) -> None:
    stored = client.schedule(once())
    client.schedule(replace(stored, name="edited"))
    with pytest.raises(ConflictError), shop.engine.begin() as connection:
        client.schedule(stored, connection=connection)


def test_who_puts_an_id_that_is_put_meanwhile_is_told_to_repeat(
    client: Client, shop: Shop
) -> None:
    new = once()

    def come_first(connection: Connection, *statement: object) -> None:
        if "INSERT INTO task_definitions" in str(statement[1]):
            client.schedule(new)
            if "unnest" in str(statement[1]):
                # As a server says of what it did not see when it began.
                raise IntegrityError("", {}, psycopg.errors.UniqueViolation())

    with shop.engine.connect() as connection:
        event.listen(connection, "before_cursor_execute", come_first)
        with pytest.raises(StoreUnavailableError, match="repeat the transaction"):
            client.schedule(replace(new, name="second"), connection=connection)
    with shop.engine.begin() as connection:
        client.schedule(replace(new, name="second"), connection=connection)
    assert client.get_definition(new.id).name == "second"
    assert client.get_definition(new.id).revision == 2


def test_of_two_that_put_one_id_at_once_each_takes_effect_once(
    client: Client, shop: Shop
) -> None:
    new = once()

    def put(name: str) -> None:
        while True:
            try:
                with shop.engine.begin() as connection:
                    shop.order(connection)
                    client.schedule(replace(new, name=name), connection=connection)
            # CockroachDB may say so at the commit.
            except (StoreUnavailableError, OperationalError):
                continue
            return

    at_once(lambda: put("one"), lambda: put("other"))
    assert client.get_definition(new.id).revision == 2
    assert shop.orders == 2


@pytest.mark.parametrize("engine", SQL[:1])
def test_a_driver_that_is_told_when_to_begin_is_not_in_autocommit(
    client: Client, shop: Shop
) -> None:
    @event.listens_for(shop.engine, "connect")
    def leave_it_to_us(driver: Any, record: object) -> None:
        driver.isolation_level = None

    @event.listens_for(shop.engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    # Of those there are already it has not been told.
    shop.engine.dispose()
    with shop.engine.connect() as connection:
        client.schedule(once(), connection=connection)
    assert client.list_definitions() == []
    with shop.engine.connect() as connection:
        client.schedule(once(), connection=connection)
        connection.commit()
    assert len(client.list_definitions()) == 1


@pytest.mark.parametrize("engine", ["postgresql"])
@pytest.mark.parametrize(
    ("edit", "changed"),
    [
        ({"name": "new", "metadata": {"new": True}}, set()),
        ({"catch_up": CatchUp(grace=MINUTE)}, set()),
        ({"trigger": IntervalTrigger(MINUTE)}, {"to come"}),
        ({"jitter": SECOND}, {"to come"}),
        ({"expire_after": MINUTE}, {"to come", "runs", "retried"}),
        ({"queue": "other"}, {"to come", "runs", "retried"}),
    ],
)
def test_an_open_edit_locks_only_the_instances_that_it_changes(
    client: Client,
    store: Store,
    clock: ManualClock,
    shop: Shop,
    edit: dict[str, Any],
    changed: set[str],
) -> None:
    read = put(store)
    fire(
        store, read, START, START + SECOND, START + MINUTE, next_fire_time=START + HOUR
    )
    [retried] = claim(store)
    assert finish(store, retried, None, retry_in=SECOND / 2)
    clock.advance(SECOND)
    given = dict(zip(["retried", "runs"], claim(store), strict=True))
    [given["to come"]] = claim(store, ahead=HOUR)

    with shop.engine.begin() as connection:
        new = replace(store.get_definition(read.id), revision=None, **edit)
        client.schedule(new, connection=connection)
        renewals = [
            Renewal(claim=claim_of(each), lease=HOUR) for each in given.values()
        ]
        answer = store.renew_claims(renewals)
        busy = {name for name, each in given.items() if each.id in answer.busy}
        assert busy == changed
        assert len(answer.done) == len(given) - len(changed)
    kept = {name for name, each in given.items() if renew(store, each)}
    lost = {"to come"} if edit.keys() & {"trigger", "jitter", "queue"} else set()
    assert kept == {*given} - lost


@pytest.mark.parametrize("engine", LOCKING)
def test_an_open_edit_keeps_nothing_else_waiting(
    client: Client, store: Store, clock: ManualClock, shop: Shop
) -> None:
    edited, other = pending(store), pending(store)
    with shop.engine.begin() as connection:
        new = replace(edited.definition, expire_after=MINUTE, revision=None)
        client.schedule(new, connection=connection)
        assert [each.id for each in claim(store)] == [other.id]
        clock.advance(LEASE)
        assert [each.id for each in claim(store, lapsed=True)] == [other.id]
    # What was out of sight so long ago is looked for a little later.
    clock.advance(2 * SECOND)
    assert [each.id for each in claim(store)] == [edited.id]


@pytest.mark.parametrize("engine", ["cockroachdb"])
def test_a_list_from_the_past_waits_for_no_open_transaction(
    client: Client, store_url: str, shop: Shop
) -> None:
    new = client.schedule(once())
    # What is read next is some five seconds old. Before this, that may be what another
    # test left, or of a time at which there were no tables.
    with shop.engine.connect() as connection:
        age = func.now() - func.follower_read_timestamp()
        connection.execute(select(func.pg_sleep(func.extract("epoch", age))))
    with closing(CockroachDBStore(store_url, follower_reads=True)) as past:
        assert past.list_definitions() == [new]
        with shop.engine.begin() as connection:
            client.schedule(replace(new, name="new"), connection=connection)
            assert [each.name for each in past.list_definitions()] == [None]
            assert set(past.counts().values()) == {0}


# Being told of the commit.


def test_the_loops_look_once_a_session_has_committed(
    client: Watching, shop: Shop
) -> None:
    with Session(shop.engine) as session:
        client.schedule(once(), connection=session)
        assert client.looks == 0
        session.commit()
        assert client.looks == 1
        shop.order(session)
        session.commit()
        assert client.looks == 1
        client.schedule(once(), connection=session)
        session.commit()
        assert client.looks == 2


def test_a_scoped_session_is_the_session_of_its_scope(
    client: Watching, shop: Shop
) -> None:
    sessions = scoped_session(sessionmaker(shop.engine))
    client.schedule(once(), connection=sessions)
    assert client.looks == 0
    sessions.commit()
    assert client.looks == 1
    assert len(client.list_definitions()) == 1
    sessions.remove()


def test_they_do_not_look_if_it_has_not(client: Watching, shop: Shop) -> None:
    with Session(shop.engine) as session:
        client.schedule(once(), connection=session)
        session.rollback()
        shop.order(session)
        session.commit()
        client.schedule(once(), connection=session)
    assert client.looks == 0
    gc.collect()
    assert not joined._waiting


@pytest.mark.parametrize("engine", LOCKING)
def test_they_do_not_look_before_what_is_around_a_savepoint_has_committed(
    client: Watching, shop: Shop
) -> None:
    with Session(shop.engine) as session:
        with session.begin_nested():
            client.schedule(once(), connection=session)
            with session.begin_nested():
                client.schedule(once(), connection=session)
        assert client.looks == 0
        session.commit()
        assert client.looks == 2
        with session.begin_nested():
            client.schedule(once(), connection=session)
        session.rollback()
        shop.order(session)
        session.commit()
    assert client.looks == 2
    assert len(client.list_definitions()) == 2


@pytest.mark.parametrize("engine", LOCKING)
def test_they_do_not_look_for_what_a_savepoint_has_rolled_back(
    client: Watching, shop: Shop
) -> None:
    with Session(shop.engine) as session:
        with session.begin_nested() as savepoint:
            client.schedule(once(), connection=session)
            savepoint.rollback()
        del savepoint
        session.commit()
    assert client.looks == 0
    assert client.list_definitions() == []
    gc.collect()
    assert not joined._waiting


def test_a_connection_tells_too_early_and_is_not_listened_to(
    client: Watching, shop: Shop
) -> None:
    with shop.engine.begin() as connection:
        client.schedule(once(), connection=connection)
    assert client.looks == 0


def test_what_a_session_has_committed_runs_without_waiting_for_a_tick(
    own_time_store: Store, store_url: str
) -> None:
    ran = threading.Event()
    engine = Shop(store_url).engine
    scheduler = Scheduler(
        lambda instance: ran.set(),
        own_time_store,
        schedule_window=24 * HOUR,
        runner_window=24 * HOUR,
    )
    with scheduler, Session(engine) as session:
        # After this the first ticks, which would find it, are over.
        scheduler.schedule(once(LONG_AGO))
        assert ran.wait(FAILED_AFTER)
        ran.clear()
        scheduler.schedule(once(LONG_AGO), connection=session)
        session.commit()
        assert ran.wait(FAILED_AFTER)
    engine.dispose()


# Completing.


class Shift:
    """A scheduler that runs one definition's handler; the clock drives it."""

    def __init__(self, store: Store, clock: ManualClock, shop: Shop) -> None:
        self.store = store
        self.clock = clock
        self.shop = shop
        self.runs: list[Run] = []

    def work(
        self,
        handler: Callable[[Run], object],
        of: TaskDefinition | None = None,
        *,
        duration: timedelta = SECOND,
    ) -> TaskInstance:
        """Let the handler run, and answer the instance as it is after that."""

        def handle(instance: TaskInstance) -> object:
            run = current_run()
            self.runs.append(run)
            return handler(run)

        with Scheduler(handle, self.store, clock=self.clock) as scheduler:
            stored = scheduler.schedule(of or once(expire_after=seconds(10)))
            self.clock.advance(duration)
            return self.store.list_instances(definition_id=stored.id)[0]

    def pass_time(self, duration: timedelta) -> None:
        """What a handler does that takes so long."""
        condition = threading.Condition()
        with condition:
            self.clock.wait(condition, self.clock.elapsed() + duration)


@pytest.fixture
def shift(store: Store, clock: ManualClock, shop: Shop) -> Shift:
    return Shift(store, clock, shop)


@pytest.mark.parametrize("engine", LOCKING)
def test_a_renewal_after_the_transaction_began_is_no_conflict(
    store: TransactionalStore, clock: ManualClock, store_clock: StoreClock, shop: Shop
) -> None:
    run = called(running(store), recording(store, store_clock), clock)
    with shop.engine.begin() as connection:
        shop.order(connection)
        assert renew(store, run.instance)
        Run(run).complete_in(connection)
    assert store.get_instance(run.instance.id).outcome is Outcome.COMPLETED
    assert shop.orders == 1


def test_a_run_whose_connection_is_lost_has_failed(shift: Shift, shop: Shop) -> None:
    def handler(run: Run) -> None:
        with shop.engine.connect() as connection:
            shop.order(connection)
            run.complete_in(connection)
            connection.invalidate()

    failed = shift.work(handler)
    assert (failed.state, failed.error) == (State.PENDING, NOT_COMMITTED)
    assert shop.orders == 0


def test_after_the_last_allowed_run_it_has_failed_for_good(
    shift: Shift, shop: Shop
) -> None:
    def handler(run: Run) -> None:
        with shop.engine.connect() as connection:
            run.complete_in(connection)

    failed = shift.work(handler, once(retry=RetryPolicy(max_attempts=1)))
    assert (failed.state, failed.error) == (State.FAILED, NOT_COMMITTED)


@pytest.mark.parametrize("how", ["given up", "failed"])
def test_a_run_that_was_presumed_hung_still_completes(
    store: TransactionalStore,
    clock: ManualClock,
    store_clock: StoreClock,
    shop: Shop,
    caplog: pytest.LogCaptureFixture,
    how: str,
) -> None:
    recorder = recording(store, store_clock)
    recorder._max_hangs = None if how == "given up" else 1
    run = called(running(store), recorder, clock)
    assert run.settle()
    recorder.give_up(run, "presumed hung")
    recorder.tick()
    before = store.get_instance(run.instance.id).state
    assert before is (State.PENDING if how == "given up" else State.FAILED)
    with shop.engine.begin() as connection:
        shop.order(connection)
        Run(run).complete_in(connection)
    assert store.get_instance(run.instance.id).state is State.COMPLETED
    assert shop.orders == 1


def test_a_run_that_has_ended_completes_no_more(shift: Shift, shop: Shop) -> None:
    done = shift.work(lambda run: None)
    with pytest.raises(ClaimLostError), shop.engine.begin() as connection:
        shift.runs[0].complete_in(connection)
    assert shift.store.get_instance(done.id) == done


def test_a_run_that_wanted_to_complete_in_no_connection_has_failed(
    shift: Shift,
) -> None:
    def handler(run: Run) -> None:
        with pytest.raises(ConfigurationError):
            run.complete_in("no connection")

    failed = shift.work(handler)
    assert (failed.state, failed.error) == (State.PENDING, NOT_COMMITTED)


def test_a_run_that_was_asked_to_stop_may_still_complete(
    shift: Shift, shop: Shop, store: Store
) -> None:
    def handler(run: Run) -> None:
        asked = cancel(store, run.instance)
        assert asked == {run.instance.id: Cancelled.REQUESTED}
        held = run_here()
        assert isinstance(held, HeldRun)
        held.cancel_requested = True
        with shop.engine.connect() as connection:
            run.complete_in(connection)
            if len(shift.runs) == 1:
                connection.commit()

    assert shift.work(handler).state is State.COMPLETED
    rolled_back = shift.work(handler)
    assert (rolled_back.state, rolled_back.error) == (State.CANCELLED, NOT_COMMITTED)


def test_a_run_whose_claim_has_lapsed_completes_if_nobody_took_it_over(
    shift: Shift, shop: Shop, store: Store
) -> None:
    def handler(run: Run) -> None:
        with shop.engine.begin() as connection:
            shift.pass_time(2 * LEASE)
            run.complete_in(connection)

    assert shift.work(handler, once(), duration=MINUTE).state is State.COMPLETED


def test_an_async_handler_completes_in_a_thread_of_its_own(
    shift: Shift, shop: Shop
) -> None:
    def write() -> None:
        with shop.engine.begin() as connection:
            shop.order(connection)
            current_run().complete_in(connection)

    async def handler() -> None:
        await asyncio.to_thread(write)

    assert shift.work(lambda run: asyncio.run(handler())).state is State.COMPLETED
    assert shop.orders == 1


@pytest.mark.parametrize("engine", SQL[1:2])
def test_the_loops_look_once_an_async_session_has_committed(
    client: Watching, shop: Shop
) -> None:
    async def put() -> None:
        engine = create_async_engine(shop.engine.url)
        async with AsyncSession(engine) as session:
            await session.run_sync(
                lambda each: client.schedule(once(), connection=each)
            )
            assert client.looks == 0
            await session.commit()
            assert client.looks == 1
        await engine.dispose()

    asyncio.run(put())


@pytest.mark.parametrize("engine", SQL[1:2])
def test_an_async_connection_and_a_sync_one_have_their_own_forms(
    client: Watching, shop: Shop
) -> None:
    session = AsyncSession(create_async_engine(shop.engine.url))
    with pytest.raises(ConfigurationError, match=r"aschedule\(.*run_sync"):
        client.schedule(once(), connection=session)
    with (
        Session(shop.engine) as sync,
        pytest.raises(
            ConfigurationError, match=r"type Session: with that one, call schedule\("
        ),
    ):
        asyncio.run(client.aschedule(once(), connection=sync))


# Work on demand.

SEND = TaskDefinition(
    trigger=OnDemandTrigger(), id=TaskDefinition.id_for("task send"), name="send"
)


def test_a_task_of_a_registry_is_enqueued_in_a_transaction_after_a_check(
    store: Store, clock: ManualClock, shop: Shop, begin: Begin
) -> None:
    handlers = HandlerRegistry()

    @handlers.task("send")
    def send(order: int) -> None: ...

    scheduler = Scheduler(handlers, store, clock=clock)
    with (
        begin() as connection,
        pytest.raises(
            TaskDefinitionNotFoundError, match=r"the first check\(\); call one of them"
        ),
    ):
        scheduler.enqueue("send", order=7, connection=connection)
    scheduler.check()
    with begin() as connection:
        added = scheduler.enqueue("send", order=7, connection=connection)
    assert scheduler.get_instance(added.id).payload == {"order": 7}


def commit_once_somebody_waits(shop: Shop, open_one: Connection) -> None:
    """Commit when another transaction waits for a lock."""
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    with shop.engine.connect() as connection:
        while not connection.scalar(waiting):
            connection.rollback()
    open_one.commit()


@pytest.mark.parametrize("engine", ["postgresql"])
@pytest.mark.parametrize("joins", [True, False])
def test_of_two_that_add_one_key_the_second_waits_and_finds_it(
    client: Client, shop: Shop, joins: bool
) -> None:
    client.schedule(SEND)
    first = shop.engine.connect()
    added = client.enqueue("send", key="k", connection=first)

    def add() -> TaskInstance:
        if not joins:
            return client.enqueue("send", key="k")
        with shop.engine.begin() as connection:
            return client.enqueue("send", key="k", connection=connection)

    found, _ = at_once(add, lambda: commit_once_somebody_waits(shop, first))
    first.close()
    assert found == client.get_instance(added.id)


@pytest.mark.parametrize("engine", ["postgresql"])
def test_who_adds_a_key_that_goes_meanwhile_is_told_to_repeat(
    client: Client, shop: Shop
) -> None:
    client.schedule(SEND)
    client.enqueue("send", key="k")

    def come_first(connection: Connection, *statement: object) -> None:
        if "FROM task_instances" in str(statement[1]):
            with shop.engine.begin() as other:
                other.execute(text("DELETE FROM task_instances"))

    with shop.engine.connect() as connection:
        event.listen(connection, "before_cursor_execute", come_first)
        with pytest.raises(StoreUnavailableError, match="repeat the transaction"):
            client.enqueue("send", key="k", connection=connection)
    with shop.engine.begin() as connection:
        assert client.enqueue("send", key="k", connection=connection).key == "k"


@pytest.mark.parametrize("engine", LOCKING)
def test_a_key_whose_instance_is_cleaned_up_before_it_is_read_is_added_after_all(
    client: Client, store: Store, shop: Shop
) -> None:
    assert isinstance(store, SQLStore)
    client.schedule(SEND)
    first = client.enqueue("send", key="k")
    come_first = iter(["DELETE FROM task_instances"])

    def clean_up(connection: Connection, *statement: object) -> None:
        is_read = "FROM task_instances" in str(statement[1])
        if is_read and "INSERT" not in str(statement[1]):
            for each in come_first:
                with shop.engine.begin() as other:
                    other.execute(text(each))

    engine = store._database._engines[Lane.NEW]
    event.listen(engine, "before_cursor_execute", clean_up)
    again = client.enqueue("send", key="k")
    event.remove(engine, "before_cursor_execute", clean_up)
    assert again.id != first.id
    assert client.get_instance(again.id) == again


@pytest.mark.parametrize("engine", ["postgresql"])
def test_who_adds_within_a_transaction_holds_up_edits_and_no_fire(
    client: Client, store: Store, shop: Shop
) -> None:
    read = client.schedule(TaskDefinition(trigger=IntervalTrigger(HOUR)))
    joined = shop.engine.connect()
    client.run_now(read.id, connection=joined)
    client.run_now(read.id)
    fire(store, read, START)
    deleted, _ = at_once(
        lambda: client.delete_definition(read.id),
        lambda: commit_once_somebody_waits(shop, joined),
    )
    joined.close()
    assert deleted
    assert client.counts()[State.PENDING] == 0


@pytest.mark.parametrize("engine", LOCKING)
@pytest.mark.parametrize(
    ("most", "lock"), [(None, "FOR KEY SHARE"), (5, "FOR NO KEY UPDATE")]
)
def test_who_adds_within_a_transaction_never_asks_for_a_stronger_lock(
    client: Client, shop: Shop, most: int | None, lock: str
) -> None:
    # On CockroachDB, of two who share the first one would have to repeat.
    task = client.schedule(TaskDefinition(trigger=OnDemandTrigger(), max_queue=most))
    locks = []
    with shop.engine.connect() as connection:
        event.listen(
            connection,
            "before_cursor_execute",
            lambda _connection, _cursor, statement, *_: locks.extend(
                re.findall("FOR (?:NO |KEY |UPDATE|SHARE)+", statement)
            ),
        )
        for _ in range(2):
            client.run_now(task.id, connection=connection)
    assert {each.strip() for each in locks} == {lock}


@pytest.mark.parametrize("engine", SQL[1:2])
@pytest.mark.parametrize("kind", ["session", "connection"])
def test_the_awaitable_forms_enqueue_in_an_async_transaction(
    client: Watching, shop: Shop, kind: str
) -> None:
    client.schedule(SEND)

    async def enqueue(commits: bool) -> None:
        engine = create_async_engine(shop.engine.url)
        one = AsyncSession(engine) if kind == "session" else engine.connect()
        async with one as joined:
            await client.aenqueue("send", order=7, key=f"{commits}", connection=joined)
            await client.arun_now(SEND.id, payload={"n": 1}, connection=joined)
            await client.aenqueue_all("send", [{}, {}], connection=joined)
            await client.aschedule_all([once(START + HOUR)], connection=joined)
            if commits:
                await joined.commit()
        await engine.dispose()

    for commits, count in ((False, 0), (True, 4)):
        asyncio.run(enqueue(commits))
        assert client.counts()[State.PENDING] == count


@pytest.mark.parametrize("engine", SQL[1:2])
def test_each_form_says_which_connection_it_takes(client: Watching, shop: Shop) -> None:
    client.schedule(SEND)
    session = AsyncSession(create_async_engine(shop.engine.url))
    with pytest.raises(ConfigurationError, match=r"begins with an a.*run_sync"):
        client.enqueue("send", connection=session)
    with (
        Session(shop.engine) as sync,
        pytest.raises(ConfigurationError, match=r"with that one, call enqueue\("),
    ):
        asyncio.run(client.aenqueue("send", connection=sync))


# What is changed by hand.


def later(client: Client, **values: object) -> TaskDefinition:
    return client.schedule(once(START + HOUR, **values))


def test_a_declaration_commits_with_the_users_rows(
    client: Client, shop: Shop, begin: Begin
) -> None:
    one, two = (once(id=TaskDefinition.id_for(name)) for name in ("one", "two"))
    for commits in (False, True):
        with suppress(RollBack), begin() as connection:
            shop.order(connection)
            declared = client.declare(
                [one], owner="app", version=2, connection=connection
            )
            assert [each.owner for each in declared] == ["app"]
            if not commits:
                raise RollBack
        assert ids(client.list_definitions(owner="app")) == [one.id][: int(commits)]
    assert shop.orders == 1
    with begin() as connection:
        outdated = client.declare([], owner="app", version=1, connection=connection)
        assert outdated == []
        client.declare([two], owner="app", version=2, connection=connection)
        with pytest.raises(ConfigurationError, match="is there twice"):
            client.declare([two, two], owner="app", version=2, connection=connection)
    assert ids(client.list_definitions()) == [two.id]


def test_a_scheduler_looks_as_soon_as_a_declaration_is_committed(
    store: Store, clock: ManualClock, shop: Shop
) -> None:
    ran: list[str | None] = []
    told: list[Event] = []
    now = once(id=TaskDefinition.id_for("now"), name="now")
    task = replace(SEND, trigger=OnDemandTrigger())

    def note(instance: TaskInstance) -> None:
        ran.append(instance.definition.name)

    scheduler = Scheduler(note, store, clock=clock, listeners=[told.append])
    scheduler.declare([task], owner="app")
    scheduler.declare([], owner="app", removed="pause")
    scheduler.enqueue("send")
    with scheduler:
        clock.advance(10 * SECOND)
        told.clear()
        with Session(shop.engine) as session:
            scheduler.declare([task, now], owner="app", connection=session)
            assert ran == []
            session.commit()
        clock.advance(SECOND / 100)
        assert sorted(map(str, ran)) == ["now", "send"]
    joined = [each for each in told if isinstance(each, DefinitionChanged)]
    assert [each.joined for each in joined] == [True]


@pytest.mark.parametrize("engine", SQL[1:2])
def test_a_set_is_declared_in_an_async_transaction(client: Client, shop: Shop) -> None:
    async def declare() -> None:
        engine = create_async_engine(shop.engine.url)
        async with AsyncSession(engine) as session:
            one = once(id=TaskDefinition.id_for("one"))
            await client.adeclare([one], owner="app", connection=session)
            assert await client.alist_definitions() == []
            await session.commit()
        await engine.dispose()
        with Session(shop.engine) as sync, pytest.raises(ConfigurationError):
            await client.adeclare([], owner="app", connection=sync)

    asyncio.run(declare())
    assert len(client.list_definitions(owner="app")) == 1


def test_a_cancel_commits_with_the_users_rows(
    client: Client, store: Store, begin: Begin
) -> None:
    busy, waiting = running(store), pending(store)
    for commits in (False, True):
        with suppress(RollBack), begin() as connection:
            answers = [
                client.cancel(each.id, connection=connection)
                for each in (waiting, busy, waiting)
            ]
            assert answers == [Cancelled.CANCELLED, Cancelled.REQUESTED, None]
            if not commits:
                raise RollBack
        found = client.get_instance(waiting.id)
        assert (found.outcome is Outcome.CANCELLED) is commits
        assert client.get_instance(busy.id).cancel_requested is commits
    assert claim(store) == []


def test_of_a_cancel_is_told_once_it_has_committed(
    store: Store, clock: ManualClock, shop: Shop
) -> None:
    heard: list[Event] = []
    with Scheduler(None, store, clock=clock, listeners=[heard.append]) as scheduler:
        added = [pending(store) for _ in range(2)]
        with Session(shop.engine) as session:
            scheduler.cancel(added[0].id, connection=session)
            session.rollback()
            scheduler.cancel(added[1].id, connection=session)
            assert not any(isinstance(each, InstanceFinished) for each in heard)
            session.commit()
    ended = [each for each in heard if isinstance(each, InstanceFinished)]
    assert [each.instance_id for each in ended] == [added[1].id]


def test_who_edits_what_is_edited_meanwhile_is_told_to_repeat(
    client: Client, shop: Shop
) -> None:
    new = later(client)

    def come_first(connection: Connection, *statement: object) -> None:
        if "UPDATE task_definitions" in str(statement[1]):
            client.schedule(replace(new, name="other"))

    with shop.engine.connect() as connection:
        event.listen(connection, "before_cursor_execute", come_first)
        with pytest.raises(StoreUnavailableError, match="repeat the transaction"):
            client.pause(new.id, connection=connection)
    with shop.engine.begin() as connection:
        assert client.pause(new.id, connection=connection).name == "other"


@pytest.mark.parametrize("engine", SQL[1:2])
def test_the_awaitable_forms_change_in_an_async_transaction(
    client: Watching, shop: Shop
) -> None:
    one, other = later(client), later(client)

    async def change() -> None:
        engine = create_async_engine(shop.engine.url)
        async with AsyncSession(engine) as joined:
            await client.apause(one.id, connection=joined)
            await client.adelete_definition(other.id, connection=joined)
            await client.aresume_definitions(connection=joined)
            await client.apause_definitions("why", connection=joined)
            await joined.commit()
        await engine.dispose()

    asyncio.run(change())
    [left] = client.list_definitions()
    assert (left.id, left.note) == (one.id, "why")


# While the transaction is still open.


def called(instance: TaskInstance, recorder: Recorder, clock: ManualClock) -> HeldRun:
    run = HeldRun(instance, expire_after=EXPIRE_AFTER)
    run.begin(clock.elapsed(), START, _nothing, complete=recorder.complete_in)
    return run


def recording(store: Store, clock: StoreClock) -> Recorder:
    return Recorder(
        store,
        clock,
        defaults=Defaults(),
        max_hangs=None,
        recorded=_nothing,
    )


def _nothing() -> None:
    pass


@pytest.mark.parametrize("engine", LOCKING)
@pytest.mark.parametrize("committed", [False, True])
def test_a_run_given_up_while_its_transaction_is_open_ends_as_that_does(
    store: TransactionalStore,
    clock: ManualClock,
    store_clock: StoreClock,
    shop: Shop,
    committed: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorder = recording(store, store_clock)
    run = called(running(store), recorder, clock)
    other = called(running(store, definition(key=5)), recorder, clock)
    with shop.engine.connect() as connection:
        Run(run).complete_in(connection)
        assert claim(store, OTHER_NODE, lapsed=True) == []
        clock.advance(LEASE)
        # The lock keeps it, though its claim has lapsed.
        assert [each.id for each in claim(store, OTHER_NODE, lapsed=True)] == [
            other.instance.id
        ]
        recorder.give_up(run, "no result in time")
        left = recorder.tick()
        assert left is not None
        assert left <= SECOND
        assert recorder.unrecorded == 1
        if committed:
            connection.commit()
    caplog.clear()
    clock.advance(10 * SECOND)
    assert recorder.tick() is None
    assert recorder.unrecorded == 0
    ended = store.get_instance(run.instance.id)
    if committed:
        assert (ended.state, ended.error) == (State.COMPLETED, None)
        [record] = caplog.records
        assert record.getMessage().endswith("failed afterwards: no result in time")
    else:
        assert ended.state is State.PENDING
        assert ended.error == f"{NOT_COMMITTED}\n\nno result in time"
        [record] = caplog.records
        assert "attempt 1 has failed and runs again in" in record.getMessage()
        assert record.getMessage().endswith(ended.error)


@pytest.mark.parametrize("engine", LOCKING)
def test_what_ends_beside_an_open_transaction_is_recorded_at_once(
    store: TransactionalStore,
    clock: ManualClock,
    store_clock: StoreClock,
    shop: Shop,
) -> None:
    recorder = recording(store, store_clock)
    run = called(running(store), recorder, clock)
    other = called(running(store, definition(key=5)), recorder, clock)
    with shop.engine.connect() as connection:
        Run(run).complete_in(connection)
        recorder.succeed(run)
        recorder.succeed(other)
        recorder.tick()
        assert store.get_instance(other.instance.id).outcome is Outcome.COMPLETED
        connection.commit()
    clock.advance(MINUTE)
    recorder.tick()
    assert store.get_instance(run.instance.id).outcome is Outcome.COMPLETED
