"""The PostgreSQL store keeps every promise of the interface."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

import pytest
from psycopg.errors import SerializationFailure
from sqlalchemy import Connection, exc
from sqlalchemy.ext.asyncio import create_async_engine

from go_scheduler.errors import (
    ConfigurationError,
    ConflictError,
    StoreError,
    StoreUnavailableError,
)
from go_scheduler.models import Cancelled, Silence, Stage, State
from go_scheduler.policies import Overlap
from go_scheduler.stores.cockroachdb import CockroachDBDialect
from go_scheduler.stores.filters import DefinitionFilter
from go_scheduler.stores.messages import Addition
from go_scheduler.stores.postgresql import driver
from go_scheduler.stores.postgresql.executing import PostgreSQLDialect
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.sql import database as sql_database
from go_scheduler.stores.sql import inserts, puts
from go_scheduler.stores.sql.database import Fault, Overtaken
from go_scheduler.stores.sql.reader import ContentsCache
from go_scheduler.stores.sql.rows import UNREADABLE, read_definition, silences_of
from go_scheduler.stores.sqlite import store as sqlite_store
from go_scheduler.testing.builders import (
    counts_by_state,
    definition,
    end_of,
    firing,
    put,
    running,
    task,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.claims import ClaimTests, LapsedTests
from go_scheduler.testing.store.firings import DueTests
from go_scheduler.testing.store.nodes import CleanupTests, ThreadTests
from go_scheduler.testing.stores import StoreSuite
from go_scheduler.triggers.base import Trigger, UnknownTrigger
from go_scheduler.triggers.simple import ExecuteOnceTrigger
from tests.servers import checked_out, connected
from tests.stores.shards import ShardTests

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from go_scheduler.clock import Clock
    from go_scheduler.json import JSON
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

IDS = [UUID(int=number) for number in range(4)]


@pytest.fixture
def engine() -> str:
    """The kind of store."""
    return "postgresql"


class TestPostgreSQLStore(StoreSuite):
    """``PostgreSQLStore`` against the suite."""

    @pytest.fixture
    def store(self, store: PostgreSQLStore) -> Store:
        """The same as for the other tests of this module."""
        return store


class ShardedStore(PostgreSQLStore):
    """One with as many lines as ``CockroachDBStore`` has, where no such server is."""

    def _make_dialect(self, clock: Clock | None) -> PostgreSQLDialect:
        return ShardedDialect(clock)


class ShardedDialect(PostgreSQLDialect):
    shards = CockroachDBDialect.shards


class TestShardedStore(
    ShardTests, ClaimTests, LapsedTests, DueTests, CleanupTests, ThreadTests
):
    """What goes by shard, against the suite."""

    @pytest.fixture
    def store(self, clock: ManualClock, store_url: str) -> Iterator[Store]:
        """An empty, initialized store."""
        store = ShardedStore(store_url, clock=clock)
        yield store
        assert checked_out(store) == 0
        store.close()


# Many new definitions: texts are written on threads while others are sent.


def test_triggers_are_asked_for_their_state_in_the_context_of_the_caller(
    store: PostgreSQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = ContextVar("tenant", default="nobody")
    seen = []

    class Seeing(ExecuteOnceTrigger):
        kind = "seeing"

        def to_dict(self) -> Mapping[str, JSON]:
            seen.append(tenant.get())
            return super().to_dict()

    monkeypatch.setattr(puts, "_LARGEST", 1)
    given = [definition(trigger=Seeing(START), key=key) for key in range(3)]
    token = tenant.set("somebody")
    store.put_definitions(given)
    tenant.reset(token)
    assert set(seen) == {"somebody"}


def test_what_was_written_down_ahead_is_left_if_a_batch_fails(
    store: PostgreSQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StoreError("away")

    monkeypatch.setattr(puts, "_LARGEST", 4)
    monkeypatch.setattr(store._statements, "execute", fail)
    before = set(threading.enumerate())
    with pytest.raises(StoreError, match="away"):
        store.put_definitions([definition(key=key) for key in range(10)])
    assert set(threading.enumerate()) <= before


def test_a_users_connection_may_belong_to_another_driver(
    store: PostgreSQLStore,
) -> None:
    pytest.importorskip("asyncpg")
    limited, unlimited = task(key=1, max_queue=2), put(store, task(key=2))
    run = running(store, definition(key=3))
    ended = end_of(run, result="7")

    def write(connection: Connection) -> None:
        joined = store.join(connection)
        [fired, _] = joined.put_definitions([definition(key=4), limited]).definitions
        for of in (unlimited, limited):
            additions = [Addition(key=key) for key in ("a", "b", "a")]
            first, second, again = joined.add_instances(of.id, additions)
            assert again == first != second
            cancelled = joined.cancel_instances({first.id: None})
            assert cancelled == {first.id: Cancelled.CANCELLED}
        made = joined.backfill_instances(fired, [START], overlap=Overlap.SKIP)
        assert list(made) == [START]
        joined.put_definitions([replace(fired, name="new")])
        joined.delete_definitions([unlimited.id])
        assert store.finish_instance_in(connection, ended)

    async def transact() -> None:
        engine = create_async_engine(store._url.set(drivername="postgresql+asyncpg"))
        async with engine.begin() as connection:
            await connection.run_sync(write)
        await engine.dispose()

    asyncio.run(transact())
    found = store.select_definitions()
    assert [each.name for each in found] == [None, None, "new"]
    assert store.get_instance(run.id).result == 7
    counts = counts_by_state(store)
    assert counts[State.PENDING] == 2
    assert counts[State.CANCELLED] == 2


# What a process remembers.


def test_what_is_rolled_back_is_not_known(
    store: PostgreSQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: list[object] = []
    monkeypatch.setattr(store._reader, "remember", lambda *of: known.append(of))
    stale = put(store, definition(key=7))
    put(store, replace(stale, name="edited"))
    known.clear()
    with pytest.raises(ConflictError):
        store.put_definitions([definition(key=0), definition(key=1), stale])
    assert known == []


def test_no_more_is_known_of_limits_than_there_is_room_for(
    store: PostgreSQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inserts, "_MOST_KNOWN", 1)
    for of in [put(store, definition()) for _ in range(2)]:
        store.add_instances(of.id, [Addition()])
    assert list(store._limited) == [of.id]


def contents_row(name: str, kind: str = "interval") -> Any:
    return SimpleNamespace(
        name=name,
        metadata="{}",
        trigger_kind=kind,
        trigger_state='{"every": {"microseconds": 1000000}, "anchor": null}',
        policies='{"retry": {"max_attempts": 1}, "catch_up": {"grace": 0}}',
    )


def test_contents_are_forgotten_when_there_are_too_many() -> None:
    cache = ContentsCache(3000)
    for key in IDS[:3]:
        cache.put(key, 1, contents_row(str(key)))
    assert [cache.get(key, 1) is None for key in IDS[:3]] == [True, False, False]
    assert cache.get(IDS[2], 2) is None


def test_contents_that_cannot_be_read_yet_are_read_again() -> None:
    cache = ContentsCache()
    found = cache.put(IDS[0], 1, contents_row("new", kind="tests.not.imported.yet"))
    assert isinstance(found.trigger, UnknownTrigger)
    assert cache.get(IDS[0], 1) is None


# What cannot be read.


@dataclass(frozen=True)
class SilentTrigger(Trigger):
    """A trigger that cannot say what it is."""

    kind: ClassVar[str] = "tests.silent"

    def next_fire_time(self, after: datetime) -> datetime | None:
        return None

    def to_dict(self) -> Mapping[str, JSON]:
        raise RuntimeError("no")


def test_a_row_that_cannot_be_read_keeps_what_its_trigger_can_say() -> None:
    read = ContentsCache().put(IDS[0], 1, contents_row("odd"))
    row: Any = SimpleNamespace(
        id=IDS[0],
        queue="default",
        priority=1,
        expire_after=None,
        named=False,
        owner=None,
        next_fire_time=UNREADABLE,
        paused=False,
        note=None,
        paused_at=None,
        completed_at=None,
        revision=1,
    )
    for trigger, kind in ((read.trigger, "interval"), (SilentTrigger(), "")):
        found = read_definition(row, read._replace(trigger=trigger)).trigger
        assert isinstance(found, UnknownTrigger)
        assert found.unknown_kind == kind


def test_a_run_whose_times_cannot_be_read_is_taken_over_as_one_of_no_bus() -> None:
    rows: list[Any] = [
        SimpleNamespace(id=id, ran_by=None, began=began, taken_at=taken_at, due_by=by)
        for id, began, taken_at, by in (
            (IDS[0], START, None, START),
            (IDS[1], START, UNREADABLE, START),
            (IDS[2], START, None, None),
            (IDS[3], None, None, START),
        )
    ]
    silence = Silence(stage=Stage.PUBLISHED, within=START - START)
    assert silences_of(rows) == {IDS[0]: silence}


# Errors.


def test_a_cockroachdb_server_is_named() -> None:
    info = SimpleNamespace(parameter_status=lambda name: f"{name} v26.1")
    connection: Any = SimpleNamespace(info=info)
    with pytest.raises(ConfigurationError, match="begin with cockroachdb://"):
        driver._set_up(connection, driver.EngineKind.POSTGRESQL, {})


@pytest.mark.parametrize("fault_of", [driver.fault_of, sqlite_store.fault_of])
def test_a_pool_without_a_free_connection_is_away(fault_of: Any) -> None:
    assert fault_of(exc.TimeoutError()) == (Fault.UNAVAILABLE, "pool")


def test_what_is_no_error_of_the_driver_is_wrong() -> None:
    assert driver.fault_of(exc.InvalidRequestError()) == (Fault.WRONG, "")


def test_a_text_that_no_server_keeps_is_an_error_of_ours(
    store: PostgreSQLStore,
) -> None:
    with pytest.raises(StoreError, match="cannot be kept"):
        store.select_definitions(DefinitionFilter(name="\ud800"))


def test_a_conflict_within_a_transaction_of_the_users_is_theirs_to_repeat(
    store: PostgreSQLStore,
) -> None:
    def conflict() -> None:
        raise exc.OperationalError("", {}, SerializationFailure())

    with pytest.raises(StoreUnavailableError, match="repeat the transaction"):
        store._database.run_once(conflict)


def test_who_is_always_overtaken_is_told(
    store: PostgreSQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_database, "_MOST_TRIES", 3)

    def work(connection: Connection) -> None:
        raise Overtaken

    with pytest.raises(StoreUnavailableError, match="faster each of 3 times"):
        store._database.transact(work)
    assert store.retries["overtaken"] == 3


def test_a_constraint_that_is_violated_is_no_race(
    store: PostgreSQLStore, store_url: str
) -> None:
    def alter(change: str) -> None:
        with connected(store_url) as hand:
            hand.execute(f"ALTER TABLE task_instances {change}".encode())

    bad = put(store, definition(queue="refused"))
    alter("ADD CONSTRAINT odd CHECK (queue <> 'refused')")
    try:
        with pytest.raises(StoreError, match="violates check constraint"):
            store.fire_definitions([firing(bad)])
        assert "overtaken" not in store.retries
    finally:
        alter("DROP CONSTRAINT odd")
