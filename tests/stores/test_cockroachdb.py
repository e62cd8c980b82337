"""The CockroachDB store keeps every promise; what it does past locks, on PostgreSQL."""

from __future__ import annotations

from collections import Counter
from contextlib import closing, contextmanager, suppress
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import psycopg
import pytest
from psycopg.errors import LockNotAvailable, QueryCanceled, SerializationFailure
from sqlalchemy import create_engine, event, exc, select

from go_scheduler import Scheduler
from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError, StoreError, StoreUnavailableError
from go_scheduler.stores.base import LOOKED_AT
from go_scheduler.stores.cockroachdb import (
    CockroachDBDialect,
    CockroachDBStore,
    restarted,
)
from go_scheduler.stores.filters import CLAIMABLE, DefinitionOrder, Filter, Order
from go_scheduler.stores.sql.database import IS_REPEATED, Lane
from go_scheduler.stores.sql.reader import ContentsCache
from go_scheduler.stores.sql.tables import definitions
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    NODE,
    SECOND,
    add,
    claim,
    claimed,
    definition,
    fire,
    ids,
    pending,
    put,
    start,
    task,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.stores import StoreSuite
from tests.faults import failing_statements
from tests.servers import connected, delete_all_rows, opened
from tests.shop import engine_of
from tests.stores.shards import ShardTests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from go_scheduler import TaskDefinition
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.postgresql.store import PostgreSQLStore
    from go_scheduler.testing.clock import ManualClock

PAST = "BEGIN AS OF SYSTEM TIME follower_read_timestamp()"
READS = "attempt < 9000000000000000000"
APART = " AND false"
NEVER = "no claim says this"
WEAKER = "it is at READ COMMITTED: .* set default_transaction_isolation to SERIALIZABLE"


class TestCockroachDBStore(ShardTests, StoreSuite):
    """``CockroachDBStore`` against the suite."""

    @pytest.fixture
    def store(self, clock: ManualClock, cockroachdb_url: str) -> Iterator[Store]:
        """An empty, initialized store."""
        delete_all_rows(cockroachdb_url)
        with opened(cockroachdb_url, clock, has_tables=True) as store:
            yield store


def test_a_single_row_is_read_by_statistics(cockroachdb_url: str) -> None:
    """With them the server may refuse by an internal error what it took without."""
    delete_all_rows(cockroachdb_url)
    with opened(cockroachdb_url, has_tables=True) as store:
        made = put(store)
        times = [START, START + SECOND, START + MINUTE]
        fire(store, made, *times)
        add(store, made)
        analyze(cockroachdb_url)
        for limit in range(1, 6):
            fired = Filter(
                definition_id=made.id, fired_since=START, fired_before=START + HOUR
            )
            page = partial(store.select, fired, order=Order.FIRE_TIME, limit=limit)
            found = page()
            assert [each.fire_time for each in found] == times[:limit]
            latest = page(descending=True)
            assert [each.fire_time for each in latest] == times[::-1][:limit]
            bounds: dict[str, Any] = {"limit": limit, "scan_limit": LOOKED_AT}
            unfired = Filter(definition_id=made.id, fired=False)
            assert len(store.select(unfired, descending=True, **bounds)) == 1
            waiting = store.select(CLAIMABLE, order=Order.DUE, **bounds)
            assert len(waiting) == min(4, limit)
            soonest = DefinitionOrder.NEXT_FIRE_TIME
            assert len(store.select_definitions(order=soonest, limit=limit)) == 1


def analyze(url: str) -> None:
    """Have the server make statistics of the tables."""
    with connected(url) as connection:
        for table in ("task_contents", "task_definitions", "task_instances"):
            connection.execute(f"ANALYZE {table}".encode())


EDITS: Mapping[str, Callable[[Scheduler, TaskDefinition, Any], object]] = {
    "delete": lambda client, of, on: client.delete_definition(of.id, connection=on),
    "pause": lambda client, of, on: client.pause(of.id, connection=on),
    "edit": lambda client, of, on: client.schedule(of, connection=on),
}


@pytest.mark.parametrize("edit", EDITS)
def test_definitions_are_edited_within_serializable_transactions_alone(
    cockroachdb_url: str, edit: str
) -> None:
    delete_all_rows(cockroachdb_url)
    with opened(cockroachdb_url, has_tables=True) as store:
        client = Scheduler(None, store)
        of = client.schedule(task())
        refused = pytest.raises(ConfigurationError, match=WEAKER)
        with engine_of(cockroachdb_url) as engine:
            weaker = engine.execution_options(isolation_level="READ COMMITTED")
            with weaker.begin() as connection, refused:
                EDITS[edit](client, of, connection)
            with weaker.begin() as connection:
                client.run_now(of.id, connection=connection)
            with engine.begin() as connection:
                EDITS[edit](client, of, connection)


# Statements, as far as PostgreSQL or no server at all can tell.


@pytest.mark.parametrize("level", ["serializable", "read committed"])
def test_edits_ask_for_the_level_of_their_transaction(
    dialect: CockroachDBDialect, level: str
) -> None:
    connection = cast("Any", Told(level))
    if level == "serializable":
        dialect.check_edits(connection)
    else:
        with pytest.raises(ConfigurationError, match=WEAKER):
            dialect.check_edits(connection)
    assert connection.executed == ["SHOW transaction_isolation"]


@pytest.fixture
def dialect() -> CockroachDBDialect:
    return CockroachDBDialect(None, follower_reads=False)


def test_ids_are_found_among_the_rows_of_an_array(
    dialect: CockroachDBDialect, store: PostgreSQLStore, postgresql_url: str
) -> None:
    found, _ = put(store), put(store)
    among = dialect.among(definitions.c.id, [found.id, uuid4()])
    query = select(definitions.c.id).where(among)
    with engine_of(postgresql_url) as engine, engine.connect() as connection:
        assert connection.execute(query).scalars().all() == [found.id]


def test_rows_can_only_be_looked_up(dialect: CockroachDBDialect) -> None:
    name, index = "task_definitions", "task_definitions_id_key"
    hinted = f"{name}@{{FORCE_INDEX={index},NO_FULL_SCAN}}"
    assert name + dialect.by_index(index) == hinted
    query = dialect.looked_up(select(definitions.c.key), definitions, index)
    engine = create_engine("cockroachdb+psycopg://")
    assert hinted in str(query.compile(engine))


class Told:
    """A connection that notes what it is told to execute."""

    def __init__(self, answer: str | None = None) -> None:
        self.executed: list[str] = []
        self.invalidated = False
        self._answer = answer

    def exec_driver_sql(self, statement: str) -> Any:
        self.executed.append(statement)
        return SimpleNamespace(
            scalar=lambda: self._answer, scalar_one=lambda: self._answer
        )


def reading(error: type[psycopg.Error] | None) -> Callable[[Any], str]:
    """A read that fails the first time."""
    errors = [] if error is None else [error]

    def read(connection: Any) -> str:
        connection.exec_driver_sql("SELECT")
        if errors:
            raise exc.DBAPIError.instance("", {}, errors.pop()(), psycopg.Error)
        return "read"

    return read


@pytest.mark.parametrize(
    ("error", "then"),
    [
        (LockNotAvailable, ["BEGIN PRIORITY HIGH", "SELECT", "COMMIT"]),
        (QueryCanceled, []),
        (None, []),
    ],
)
def test_only_what_is_locked_is_read_with_priority(
    dialect: CockroachDBDialect, error: type[psycopg.Error] | None, then: list[str]
) -> None:
    connection = cast("Any", Told())
    with suppress(exc.OperationalError):
        assert dialect.past_locks(connection, reading(error)) == "read"
    assert connection.executed == ["SELECT", *then]


@pytest.mark.parametrize(
    ("follower_reads", "error", "executed"),
    [
        (False, None, ["SELECT"]),
        (True, None, [PAST, "SELECT", "COMMIT"]),
        # The table is younger than the past.
        (True, psycopg.errors.UndefinedTable, [PAST, "SELECT", "ROLLBACK", "SELECT"]),
        (True, LockNotAvailable, [PAST, "SELECT", "ROLLBACK"]),
    ],
)
def test_lists_come_from_the_past_if_asked_to(
    follower_reads: bool, error: type[psycopg.Error] | None, executed: list[str]
) -> None:
    connection = cast("Any", Told())
    dialect = CockroachDBDialect(None, follower_reads=follower_reads)
    with suppress(exc.OperationalError):
        assert dialect.listed(connection, reading(error)) == "read"
    assert connection.executed == executed


def test_a_list_whose_connection_is_lost_ends_with_it() -> None:
    connection = cast("Any", Told())

    def lose(_: object) -> None:
        connection.invalidated = True
        raise exc.OperationalError("", {}, psycopg.errors.AdminShutdown())

    dialect = CockroachDBDialect(None, follower_reads=True)
    with pytest.raises(exc.OperationalError):
        dialect.listed(connection, lose)
    assert connection.executed == [PAST]


def test_in_a_transaction_of_the_users_nothing_is_read_in_another_one() -> None:
    connection = cast("Any", Told())
    dialect = CockroachDBDialect(None, follower_reads=True)
    dialect.joined = True
    for read in (dialect.listed, dialect.past_locks):
        with pytest.raises(exc.OperationalError):
            read(connection, reading(LockNotAvailable))
    assert connection.executed == ["SELECT", "SELECT"]


ANEW = ["ROLLBACK TO SAVEPOINT cockroach_restart", "SELECT"]
DONE = ["RELEASE SAVEPOINT cockroach_restart"]


@pytest.mark.parametrize(
    ("error", "then"),
    [(SerializationFailure, [*ANEW, *DONE]), (LockNotAvailable, []), (None, DONE)],
)
def test_a_transaction_that_is_tried_again_keeps_its_locks(
    postgresql_url: str, error: type[psycopg.Error] | None, then: list[str]
) -> None:
    executed: list[str] = []
    with (
        closing(CockroachDBStore("cockroachdb://nowhere")) as store,
        engine_of(postgresql_url) as engine,
        engine.connect() as connection,
        suppress(exc.OperationalError),
    ):
        event.listen(
            connection, "before_cursor_execute", lambda *all: executed.append(all[2])
        )
        connection.execution_options(**{IS_REPEATED: True})
        assert store._in_transaction(connection, reading(error)) == "read"
    assert executed == ["SAVEPOINT cockroach_restart", "SELECT", *then]


def test_a_transaction_that_conflicts_each_time_ends() -> None:
    connection = cast("Any", Told())

    def conflict(_: object) -> None:
        raise exc.OperationalError("", {}, SerializationFailure())

    with pytest.raises(exc.OperationalError):
        restarted(connection, conflict)
    assert connection.executed == ["SAVEPOINT cockroach_restart", *ANEW[:1] * 10]


# Claims and reads that meet locks, as they do on CockroachDB.


@pytest.fixture
def engine() -> str:
    """What stands for a CockroachDB."""
    return "postgresql"


@contextmanager
def before_each(
    store: PostgreSQLStore, lane: Lane, call: Callable[..., object], **how: bool
) -> Iterator[None]:
    """Have something called before each statement of a lane."""
    engine = store._database._engines[lane]
    event.listen(engine, "before_cursor_execute", call, **how)
    yield
    event.remove(engine, "before_cursor_execute", call)


@contextmanager
def locked(
    store: PostgreSQLStore,
    queue: str,
    *,
    unless: str = NEVER,
    error: type[psycopg.Error] = LockNotAvailable,
) -> Iterator[Counter[bool]]:
    """Let claims of a queue meet a lock, unless they say this; count who did."""
    # As on CockroachDB.
    store._dialect.reads_rows = False
    claims: Counter[bool] = Counter()

    def wait(
        connection: object,
        cursor: object,
        statement: str,
        parameters: Mapping[str, Any],
        *_: object,
    ) -> None:
        queues = (parameters.get("queue0"), *parameters.get("queues", []))
        if "UPDATE task_instances" in statement and queue in queues:
            says_so = unless in statement.partition("FOR UPDATE")[0]
            claims[says_so] += 1
            if not says_so:
                raise exc.OperationalError("", {}, error())

    with before_each(store, Lane.BY_TIME, wait):
        yield claims


def test_a_claim_that_met_a_lock_and_those_that_follow_read_the_rows(
    store: PostgreSQLStore,
) -> None:
    given = [pending(store).id for _ in range(22)]
    with locked(store, "default", unless=READS) as claims:
        found = [claim(store, limit=1)[0].id for _ in range(21)]
        assert claims == {False: 1, True: 21}
        found.append(claim(store, limit=1)[0].id)
        assert claims == {False: 2, True: 22}
    assert sorted(found) == sorted(given)


def test_a_claim_of_what_lapsed_reads_the_rows_at_once(
    store: PostgreSQLStore, clock: ManualClock
) -> None:
    instance = claimed(store)
    clock.advance(HOUR)
    with locked(store, "default", unless=READS) as claims:
        assert ids(claim(store, lapsed=True)) == [instance.id]
    assert claims == {True: 1}


def test_a_claim_that_fails_without_a_lock_is_not_repeated(
    store: PostgreSQLStore,
) -> None:
    pending(store)
    failure = psycopg.errors.DiskFull
    with (
        locked(store, "default", error=failure) as claims,
        pytest.raises(StoreError, match="53100"),
    ):
        claim(store)
    assert claims == {False: 1}


def test_what_is_locked_in_one_place_keeps_no_other_waiting(
    store: PostgreSQLStore, caplog: pytest.LogCaptureFixture
) -> None:
    kept, free = (pending(store, definition(queue=queue)) for queue in ("a", "b"))
    with locked(store, "a"):
        assert ids(claim(store, queues=["a", "b"])) == [free.id]
        [record] = caplog.records
        assert "cannot be claimed: LockNotAvailable (55P03)" in record.getMessage()
        other = pending(store, definition(queue="b"))
        assert ids(claim(store, queues=["a", "b"])) == [other.id]
        assert len(caplog.records) == 1
        with pytest.raises(StoreError, match="55P03"):
            claim(store, queues=["a", "b"])
    assert ids(claim(store, queues=["a", "b"])) == [kept.id]


def test_where_several_places_are_locked_a_claim_gives_up_after_two(
    store: PostgreSQLStore,
) -> None:
    for queue in "abc":
        pending(store, definition(queue=queue))
    with locked(store, "a") as in_a, locked(store, "b") as in_b:
        with (
            locked(store, "c") as in_c,
            pytest.raises(StoreError, match=r"\(55P03\)$"),
        ):
            claim(store, queues=["a", "b", "c"])
        # Each place twice: once reading the rows.
        met = [claims[False] for claims in (in_a, in_b, in_c)]
        assert sorted(met) == [0, 2, 2]


def test_what_is_claimed_is_not_lost_with_what_cannot_be(
    store: PostgreSQLStore,
) -> None:
    both = {pending(store, definition(queue=queue)).id for queue in ("a", "b")}
    claims: list[str] = []

    def fail_second(_: object, __: object, statement: str, *___: object) -> None:
        if "FOR UPDATE SKIP LOCKED" in statement:
            claims.append(statement)
            if len(claims) == 2:
                raise exc.OperationalError("", {}, psycopg.errors.DiskFull())

    with before_each(store, Lane.BY_TIME, fail_second):
        [first] = claim(store, queues=["a", "b"])
    [second] = claim(store, queues=["a", "b"])
    assert {first.id, second.id} == both


@pytest.mark.parametrize("reads_rows", [True, False])
@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (psycopg.errors.DiskFull, StoreUnavailableError),
        (psycopg.errors.InsufficientPrivilege, StoreError),
    ],
)
def test_a_claim_that_failed_claims_nothing_and_the_next_one_sees_all(
    store: PostgreSQLStore,
    clock: ManualClock,
    error: type[psycopg.Error],
    raised: type[StoreError],
    reads_rows: bool,
) -> None:
    if not reads_rows:
        store._dialect.reads_rows = False
    instance = pending(store)
    with (
        failing_statements(store, share=1, error=error) as failed,
        pytest.raises(raised, match=error.sqlstate),
    ):
        claim(store)
    assert len(failed) == 1
    clock.advance(10 * HOUR)
    assert ids(claim(store)) == [instance.id]


@contextmanager
def plain_reads_meeting_locks(store: PostgreSQLStore) -> Iterator[list[str]]:
    """Let plain reads of the loops meet a lock, as on CockroachDB, and note all.

    What reads with priority there, reads in any transaction here.
    """
    executed: list[str] = []
    within: set[object] = set()

    def execute(
        connection: object,
        cursor: object,
        statement: str,
        parameters: object,
        *_: object,
    ) -> tuple[str, object]:
        executed.append(statement)
        if statement == "BEGIN PRIORITY HIGH":
            within.add(connection)
            return "BEGIN", parameters
        if statement == "COMMIT":
            within.remove(connection)
        elif "FOR UPDATE" not in statement and connection not in within:
            raise exc.OperationalError("", {}, LockNotAvailable())
        return statement, parameters

    dialect = CockroachDBDialect(None, follower_reads=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store._dialect, "past_locks", dialect.past_locks)
        with before_each(store, Lane.BY_TIME, execute, retval=True):
            yield executed


def test_what_is_due_is_read_past_locks(store: PostgreSQLStore) -> None:
    new = put(store)
    store.due_definitions(ahead=ZERO, limit=10)
    with plain_reads_meeting_locks(store) as executed:
        assert ids(store.due_definitions(ahead=ZERO, limit=10)) == [new.id]
    assert len(executed) == 4


def test_where_there_is_something_to_claim_is_seen_past_locks(
    store: PostgreSQLStore,
) -> None:
    given = [pending(store, definition(queue=queue)).id for queue in ("a", "b")]
    with plain_reads_meeting_locks(store) as executed:
        claimed = claim(store, queues=["a", "b"])
    assert sorted(ids(claimed)) == sorted(given)
    assert sum("head0" in each for each in executed) == 2


def test_what_is_claimed_and_its_contents_are_read_past_locks(
    store: PostgreSQLStore,
) -> None:
    instance = claimed(store)
    store._reader._contents = ContentsCache()
    with plain_reads_meeting_locks(store) as executed:
        assert store.list_claimed(NODE) == [instance]
    assert sum("task_contents" in each for each in executed) == 2


@pytest.mark.parametrize("write", ["claim", "claim of what lapsed", "start"])
def test_what_met_a_lock_reads_the_definitions_past_it(
    store: PostgreSQLStore, clock: ManualClock, write: str
) -> None:
    """What changes instances meets a lock where it reads their definitions."""
    given = pending(store) if write == "claim" else claimed(store)

    def wait(_: object, __: object, statement: str, *___: object) -> None:
        if "UPDATE task_instances" in statement and APART not in statement:
            raise exc.OperationalError("", {}, LockNotAvailable())

    store._dialect.reads_rows = False
    lane = Lane.BY_KEY if write == "start" else Lane.BY_TIME
    with before_each(store, lane, wait):
        if write == "start":
            [taken] = start(store, given)
        else:
            clock.advance(HOUR)
            [taken] = claim(store, lapsed=write != "claim")
    assert (taken.id, taken.definition) == (given.id, given.definition)
