"""The parts of the SQL stores, where a database would not go wrong when asked to."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter, deque
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.errors import LockNotAvailable, QueryCanceled
from sqlalchemy import create_engine, event, exc, make_url, select

from go_scheduler.clock import ZERO
from go_scheduler.errors import (
    ConfigurationError,
    ConflictError,
    StoreError,
    StoreUnavailableError,
)
from go_scheduler.models import Silence, Skipped, Stage, State, TaskDefinition
from go_scheduler.stores.cockroachdb import CockroachDBDialect
from go_scheduler.stores.messages import Position
from go_scheduler.stores.postgresql import driver, executing, newcomers
from go_scheduler.stores.postgresql.dialect import PostgreSQLDialect
from go_scheduler.stores.postgresql.due_instances import DueInstances
from go_scheduler.stores.postgresql.executing import Statements
from go_scheduler.stores.postgresql.statements import APART
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.rules import EDITED
from go_scheduler.stores.sql import database as sql_database
from go_scheduler.stores.sql import reader
from go_scheduler.stores.sql.database import Fault, Lane, Overtaken
from go_scheduler.stores.sql.reader import ContentsCache
from go_scheduler.stores.sql.rows import UNREADABLE, read_definition, silences_of
from go_scheduler.stores.sql.tables import definitions
from go_scheduler.stores.sqlite import database as sqlite_database
from go_scheduler.stores.sqlite.database import SQLiteDatabase, WriteLock
from go_scheduler.testing.builders import (
    HOUR,
    NODE,
    SECOND,
    WAITING,
    claim,
    claimed,
    clean_up,
    definition,
    ended,
    fire,
    ids,
    instances,
    pending,
    put,
    start,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.base import Trigger
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.stored import UnknownTrigger
from tests import servers
from tests.faults import failing_statements

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from sqlalchemy import Connection

    from go_scheduler.json import JSON
    from go_scheduler.testing.clock import ManualClock


@pytest.fixture
def store(postgresql_url: str, clock: ManualClock) -> Iterator[PostgreSQLStore]:
    """An empty PostgreSQL store on the clock."""
    servers.delete_all_rows(postgresql_url)
    with servers.opened(postgresql_url, clock) as store:
        yield cast("PostgreSQLStore", store)


PAST = "BEGIN AS OF SYSTEM TIME follower_read_timestamp()"


class Told:
    """A connection that notes what it is told to execute, or fails."""

    def __init__(self, error: Exception | None = None, answer: object = None) -> None:
        self.executed: list[str] = []
        self.invalidated = False
        self._error = error
        self._answer = answer

    def exec_driver_sql(self, statement: str) -> Any:
        self.executed.append(statement)
        if self._error is not None:
            raise self._error
        return SimpleNamespace(scalar=lambda: self._answer)


# What is put.


@contextmanager
def executed(store: PostgreSQLStore, *lanes: Lane) -> Iterator[list[str]]:
    """What is executed meanwhile, and what is begun."""
    statements: list[str] = []

    def note(connection: object, cursor: object, text: str, *_: object) -> None:
        statements.append(text)

    def begin(connection: Connection) -> None:
        if connection.get_execution_options().get("isolation_level"):
            statements.append("BEGIN")

    engines = [store._database._engines[lane] for lane in lanes]
    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
        event.listen(engine, "begin", begin)
    yield statements
    for engine in engines:
        event.remove(engine, "before_cursor_execute", note)
        event.remove(engine, "begin", begin)


def test_one_new_definition_costs_one_statement_and_no_transaction(
    store: PostgreSQLStore,
) -> None:
    put(store)
    with executed(store, *Lane) as statements:
        put(store)
    assert len(statements) == 1


def test_one_that_is_there_is_tried_as_a_new_one_once(store: PostgreSQLStore) -> None:
    old = put(store)
    with executed(store, *Lane) as statements:
        assert store.put_definitions([replace(old, revision=None)]) == [old]
    assert sum("INSERT INTO task_definitions" in each for each in statements) == 1


def test_many_new_definitions_cost_one_statement_in_a_transaction(
    store: PostgreSQLStore,
) -> None:
    with executed(store, Lane.BY_HAND) as statements:
        store.put_definitions([definition(key=key) for key in range(10)])
    assert [each == "BEGIN" for each in statements] == [True, False]


@pytest.mark.parametrize("at_the_end", [False, True])
def test_many_more_are_inserted_by_statements_of_a_bounded_size(
    store: PostgreSQLStore, monkeypatch: pytest.MonkeyPatch, *, at_the_end: bool
) -> None:
    monkeypatch.setattr(newcomers, "_LARGEST", 4)
    # So it is once the main thread has ended, though others go on.
    monkeypatch.setattr("concurrent.futures.thread._shutdown", at_the_end)
    given = [definition(key=key) for key in range(10)]
    with executed(store, *Lane) as statements:
        put_all = store.put_definitions(given)
    assert [each == "BEGIN" for each in statements] == [True, False, False, False]
    assert [each.id for each in put_all] == [each.id for each in given]


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

    monkeypatch.setattr(newcomers, "_LARGEST", 1)
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

    monkeypatch.setattr(newcomers, "_LARGEST", 4)
    monkeypatch.setattr(store._statements, "execute_plainly", fail)
    before = set(threading.enumerate())
    with pytest.raises(StoreError, match="away"):
        store.put_definitions([definition(key=key) for key in range(10)])
    assert set(threading.enumerate()) <= before


def test_what_many_definitions_hold_is_known_once_they_are_committed_and_fire_soon(
    store: PostgreSQLStore,
) -> None:
    soon = [definition(key=key) for key in range(2)]
    later = definition(START + HOUR, key=2)
    with executed(store, Lane.BY_TIME) as statements:
        store.put_definitions([*soon, later])
        store.due_definitions(ahead=ZERO, limit=10)
        assert not any("task_contents" in each for each in statements)
        store.due_definitions(ahead=HOUR, limit=10)
    assert any("task_contents" in each for each in statements)


def test_a_users_connection_of_another_driver_is_given_words_that_all_drivers_know(
    store: PostgreSQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [definition(key=key) for key in range(3)]
    engine = create_engine(store._url)
    with engine.begin() as connection:
        assert executing.understands(connection)
        monkeypatch.setattr(newcomers, "understands", lambda _: False)
        with monkeypatch.context() as patched:
            patched.setattr(store._statements, "execute_plainly", None)
            put_all = store.join(connection).put_definitions(given)
    engine.dispose()
    assert put_all == [store.get_definition(each.id) for each in given]


def test_nothing_is_added_of_nothing_on_a_users_connection(
    store: PostgreSQLStore,
) -> None:
    of = put(store)
    engine = create_engine(store._url)
    with engine.begin() as connection:
        assert store.join(connection).add_instances(of.id, []) == []
    engine.dispose()
    assert store.counts()[State.PENDING] == 0


def test_times_are_in_utc_whatever_the_zone_of_the_users_session(
    store: PostgreSQLStore, postgresql_url: str
) -> None:
    url = make_url(postgresql_url).set(drivername="postgresql+psycopg")
    options = {"options": "-c timezone=America/New_York"}
    engine = create_engine(url, connect_args=options)
    with engine.begin() as connection:
        paused = replace(definition(START), paused=True)
        [kept] = store.join(connection).put_definitions([paused])
    engine.dispose()
    assert kept.paused_at is not None
    assert kept.paused_at.tzinfo is UTC


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


def test_of_new_and_stored_definitions_each_is_put_and_answered_in_its_place(
    store: PostgreSQLStore,
) -> None:
    old = put(store, definition(key=1))
    edit = replace(old, name="edited", revision=None)
    new = [definition(key=key) for key in (0, 2)]
    put_all = store.put_definitions([new[0], edit, new[1]])
    assert [each.id for each in put_all] == [new[0].id, old.id, new[1].id]
    assert [each.revision for each in put_all] == [1, 2, 1]
    assert put_all == [store.get_definition(each.id) for each in put_all]


@pytest.mark.parametrize("count", [1, 2])
def test_who_inserts_what_somebody_else_inserts_meanwhile_begins_again(
    store: PostgreSQLStore, count: int
) -> None:
    new = [definition(key=key) for key in range(count)]
    others: list[TaskDefinition] = []

    def insert_first(
        connection: object, cursor: object, statement: str, *_: object
    ) -> None:
        if "INSERT INTO task_definitions" in statement and not others:
            others.append(new[0])
            others.extend(store.put_definitions(new[:1]))
            # As the server says of what it did not see when it began.
            raise exc.IntegrityError("", {}, psycopg.errors.UniqueViolation())

    lane = Lane.NEW if count == 1 else Lane.BY_HAND
    engine = store._database._engines[lane]
    event.listen(engine, "before_cursor_execute", insert_first)
    stored = store.put_definitions(new)
    event.remove(engine, "before_cursor_execute", insert_first)
    assert stored[0] == others[1]
    assert [each.revision for each in stored] == [1] * count
    assert store.retries == {"overtaken": 1}


def test_what_fires_while_its_trigger_is_edited_is_recorded_once(
    store: PostgreSQLStore,
) -> None:
    read = put(store)
    moved = replace(read, trigger=WAITING, next_fire_time=START + HOUR)
    fired: list[TaskDefinition] = []

    def fire_first(
        connection: object, cursor: object, statement: str, *_: object
    ) -> None:
        if statement.startswith("UPDATE task_definitions") and not fired:
            fired.append(read)
            fire(store, read, next_fire_time=START + HOUR)

    engine = store._database._engines[Lane.BY_HAND]
    event.listen(engine, "before_cursor_execute", fire_first)
    put(store, moved)
    event.remove(engine, "before_cursor_execute", fire_first)
    assert fired
    assert store.retries == {"overtaken": 1}
    [record] = instances(store, moved)
    assert record.skipped == Skipped.itself(START, EDITED)


def test_an_edit_that_finds_nothing_unfired_is_not_begun_again_for_a_fire(
    store: PostgreSQLStore,
) -> None:
    later = START + HOUR
    read = put(store, definition(later))
    fired: list[TaskDefinition] = []

    def fire_first(
        connection: object, cursor: object, statement: str, *_: object
    ) -> None:
        if statement.startswith("UPDATE task_definitions") and not fired:
            fired.append(read)
            fire(store, read, next_fire_time=later + HOUR)

    engine = store._database._engines[Lane.BY_HAND]
    event.listen(engine, "before_cursor_execute", fire_first)
    moved = put(store, replace(read, trigger=WAITING))
    event.remove(engine, "before_cursor_execute", fire_first)
    assert fired
    assert store.retries == {}
    assert instances(store, moved) == []


def test_what_is_put_is_claimed_and_started_without_its_contents_being_read(
    store: PostgreSQLStore,
) -> None:
    given = replace(definition(START + SECOND), metadata={"a": "'\\\"{,é"})
    [new] = store.put_definitions([given])
    fire(store, new, START + SECOND)
    with executed(store, Lane.BY_TIME, Lane.BY_KEY) as statements:
        [instance] = claim(store, ahead=SECOND)
        [started] = start(store, instance)
    known = replace(new, next_fire_time=None, completed_at=START)
    assert instance.definition == started.definition == known
    assert len(statements) == 2


@pytest.mark.parametrize("lapsed", [True, False])
def test_contents_that_are_needed_but_once_are_read_by_the_claim_and_not_remembered(
    store: PostgreSQLStore, clock: ManualClock, lapsed: bool
) -> None:
    given = claimed(store) if lapsed else pending(store)
    clock.advance(HOUR)
    store._reader._contents = ContentsCache()
    with executed(store, Lane.BY_TIME) as statements:
        [instance] = claim(store, lapsed=lapsed)
    assert instance.definition == given.definition
    assert instance.definition.trigger == given.definition.trigger
    assert len(statements) == (2 if lapsed else 1)
    assert not store._reader._contents._entries


def test_contents_that_are_needed_again_are_read_apart_and_remembered(
    store: PostgreSQLStore,
) -> None:
    goes_on = put(store)
    fire(store, goes_on, START, next_fire_time=START + HOUR)
    is_to_start = pending(store, definition(START + SECOND))
    store._reader._contents = ContentsCache()
    with executed(store, Lane.BY_TIME, Lane.BY_KEY) as statements:
        taken = claim(store, ahead=SECOND)
        start(store, *(each for each in taken if each.started_at is None))
    assert {each.definition.id for each in taken} == {
        goes_on.id,
        is_to_start.definition.id,
    }
    assert len(statements) == 3
    assert len(store._reader._contents._entries) == 2


# What is claimed, and where.


def test_what_is_claimed_is_not_lost_with_what_cannot_be(
    store: PostgreSQLStore,
) -> None:
    both = {pending(store, definition(queue=queue)).id for queue in ("a", "b")}
    claims: list[str] = []

    def fail_second(
        connection: object, cursor: object, statement: str, *_: object
    ) -> None:
        if "FOR UPDATE SKIP LOCKED" in statement:
            claims.append(statement)
            if len(claims) == 2:
                raise exc.OperationalError("", {}, psycopg.errors.DiskFull())

    engine = store._database._engines[Lane.BY_TIME]
    event.listen(engine, "before_cursor_execute", fail_second)
    [first] = claim(store, queues=["a", "b"])
    event.remove(engine, "before_cursor_execute", fail_second)
    [second] = claim(store, queues=["a", "b"])
    assert {first.id, second.id} == both


READS = "attempt < 9000000000000000000 AND runs < 9000000000000000000\n     AND due"


class ReadsNoRows(PostgreSQLDialect):
    """Claims read no rows unless they have to, as on CockroachDB."""

    reads_rows = False


def let_claims_read_no_rows(store: PostgreSQLStore) -> None:
    dialect = ReadsNoRows(store.clock)
    statements = Statements(store._database, dialect, clock=store.clock)
    store._due_instances = DueInstances(
        statements, store._classes, shards=1, reads_rows=False
    )


@contextmanager
def locked(
    store: PostgreSQLStore,
    queue: str,
    *,
    unless: str,
    error: type[psycopg.Error] = psycopg.errors.LockNotAvailable,
) -> Iterator[Counter[bool]]:
    """Let claims of a queue meet a lock, unless they say this; count who did.

    As CockroachDB's do, claims read no rows unless they have to.
    """
    let_claims_read_no_rows(store)
    claims: Counter[bool] = Counter()

    def wait(
        connection: object,
        cursor: object,
        statement: str,
        parameters: Mapping[str, object],
        *_: object,
    ) -> None:
        if "UPDATE task_instances" in statement and queue in (
            parameters.get("queue"),
            *cast("list[str]", parameters.get("queues", [])),
        ):
            says_so = unless in statement.partition("FOR UPDATE")[0]
            claims[says_so] += 1
            if not says_so:
                raise exc.OperationalError("", {}, error())

    engine = store._database._engines[Lane.BY_TIME]
    event.listen(engine, "before_cursor_execute", wait)
    yield claims
    event.remove(engine, "before_cursor_execute", wait)


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


def test_a_claim_that_fails_without_a_lock_is_not_repeated(
    store: PostgreSQLStore,
) -> None:
    pending(store)
    failure = psycopg.errors.DiskFull
    with (
        locked(store, "default", unless="no claim says this", error=failure) as claims,
        pytest.raises(StoreError, match="53100"),
    ):
        claim(store)
    assert claims == {False: 1}


def test_a_claim_of_what_lapsed_reads_the_rows_as_well(
    store: PostgreSQLStore, clock: ManualClock
) -> None:
    instance = claimed(store)
    clock.advance(HOUR)
    with locked(store, "default", unless=READS):
        assert ids(claim(store, lapsed=True)) == [instance.id]


def test_what_is_locked_in_one_place_keeps_no_other_waiting(
    store: PostgreSQLStore, caplog: pytest.LogCaptureFixture
) -> None:
    kept, free = (pending(store, definition(queue=queue)) for queue in ("a", "b"))
    with locked(store, "a", unless="no claim says this"):
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
    for queue in ("a", "b", "c"):
        pending(store, definition(queue=queue))
    with (
        locked(store, "a", unless="no claim says this") as in_a,
        locked(store, "b", unless="no claim says this") as in_b,
        locked(store, "c", unless="no claim says this") as in_c,
    ):
        with pytest.raises(StoreError, match=r"\(55P03\)$"):
            claim(store, queues=["a", "b", "c"])
        # Each place twice: once reading the rows.
        met = [claims[False] for claims in (in_a, in_b, in_c)]
        assert sorted(met) == [0, 2, 2]


def test_what_failed_for_another_reason_is_not_claimed_in_another_way(
    store: PostgreSQLStore,
) -> None:
    let_claims_read_no_rows(store)
    pending(store)
    wrong = psycopg.errors.InsufficientPrivilege
    with (
        failing_statements(store, share=1, error=wrong) as failed,
        pytest.raises(StoreError, match=wrong.sqlstate),
    ):
        claim(store)
    assert len(failed) == 1


@pytest.mark.parametrize("reads_rows", [True, False])
def test_a_claim_that_failed_claims_nothing_and_the_next_one_sees_all(
    store: PostgreSQLStore, clock: ManualClock, reads_rows: bool
) -> None:
    if not reads_rows:
        let_claims_read_no_rows(store)
    instance = pending(store)
    with (
        failing_statements(store, share=1, error=psycopg.errors.DiskFull),
        pytest.raises(StoreUnavailableError),
    ):
        claim(store)
    clock.advance(10 * HOUR)
    assert ids(claim(store)) == [instance.id]


def test_a_retention_without_end_deletes_nothing(store: PostgreSQLStore) -> None:
    ended(store)
    assert clean_up(store, older_than=timedelta.max, remember=timedelta.max) == 0


def test_pages_end_though_times_cannot_be_read(
    store: PostgreSQLStore, postgresql_url: str
) -> None:
    made = fire(store, put(store), *(START + number * SECOND for number in range(4)))
    url = make_url(postgresql_url).set(drivername="postgresql")
    with psycopg.connect(
        url.render_as_string(hide_password=False), autocommit=True
    ) as hand:
        hand.execute(
            "UPDATE task_instances SET execute_at = 'infinity' WHERE id = ANY (%s)",
            [[made[0].id, made[1].id]],
        )
    found: list[UUID] = []
    last = None
    while page := store.list_instances(limit=1, after=last):
        last = Position.of_instance(page[0])
        found.append(last.id)
    assert found == [made[2].id, made[3].id, *sorted([made[0].id, made[1].id])]


def test_cockroachdb_finds_ids_among_the_rows_of_an_array(
    store: PostgreSQLStore, postgresql_url: str
) -> None:
    found, _ = put(store, definition()), put(store, definition())
    dialect = CockroachDBDialect(None, follower_reads=False)
    query = select(definitions.c.id).where(
        dialect.among(definitions.c.id, [found.id, uuid4()])
    )
    url = make_url(postgresql_url).set(drivername="postgresql+psycopg")
    engine = create_engine(url)
    with engine.connect() as connection:
        assert connection.execute(query).scalars().all() == [found.id]
    engine.dispose()


def test_on_cockroachdb_rows_can_only_be_looked_up() -> None:
    dialect = CockroachDBDialect(None, follower_reads=False)
    name, index = "task_definitions", "task_definitions_id_key"
    hinted = f"{name}@{{FORCE_INDEX={index},NO_FULL_SCAN}}"
    assert name + dialect.by_index(index) == hinted
    query = dialect.looked_up(select(definitions.c.key), definitions, index)
    engine = create_engine("cockroachdb+psycopg://")
    assert hinted in str(query.compile(engine))


@pytest.mark.parametrize("error", [LockNotAvailable, QueryCanceled, None])
def test_on_cockroachdb_only_what_is_locked_is_read_with_priority(
    error: type[psycopg.Error] | None,
) -> None:
    dialect = CockroachDBDialect(None, follower_reads=False)
    connection = Told()

    def read(_: object) -> str:
        connection.exec_driver_sql("SELECT")
        if error is not None and len(connection.executed) == 1:
            raise exc.DBAPIError.instance("", {}, error(), psycopg.Error)
        return "read"

    with suppress(exc.OperationalError):
        assert dialect.past_locks(cast("Connection", connection), read) == "read"
    again = ["BEGIN PRIORITY HIGH", "SELECT", "COMMIT"]
    assert connection.executed == ["SELECT", *again * (error is LockNotAvailable)]


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
        engine = store._database._engines[Lane.BY_TIME]
        event.listen(engine, "before_cursor_execute", execute, retval=True)
        yield executed
        event.remove(engine, "before_cursor_execute", execute)


def test_what_is_due_is_read_past_locks(store: PostgreSQLStore) -> None:
    new = put(store)
    store.due_definitions(ahead=ZERO, limit=10)
    with plain_reads_meeting_locks(store) as executed:
        assert ids(store.due_definitions(ahead=ZERO, limit=10)) == [new.id]
    assert len(executed) == 4


def test_what_is_claimed_is_listed_past_locks(store: PostgreSQLStore) -> None:
    instance = claimed(store)
    with plain_reads_meeting_locks(store):
        assert ids(store.list_claimed(NODE)) == [instance.id]


def test_where_there_is_something_to_claim_is_seen_past_locks(
    store: PostgreSQLStore,
) -> None:
    given = [pending(store, definition(queue=queue)).id for queue in ("a", "b")]
    with plain_reads_meeting_locks(store) as executed:
        claimed = claim(store, queues=["a", "b"])
    assert sorted(ids(claimed)) == sorted(given)
    assert sum("head0" in each for each in executed) == 2


def test_contents_are_read_past_locks(store: PostgreSQLStore) -> None:
    instance = claimed(store)
    store._reader._contents = ContentsCache()
    with plain_reads_meeting_locks(store) as executed:
        [taken] = store.list_claimed(NODE)
    assert taken.definition == instance.definition
    assert sum("task_contents" in each for each in executed) == 2


@contextmanager
def definitions_meeting_locks(store: PostgreSQLStore, lane: Lane) -> Iterator[None]:
    """Let what changes instances meet a lock where it reads their definitions."""

    def wait(connection: object, cursor: object, statement: str, *_: object) -> None:
        if "UPDATE task_instances" in statement and APART not in statement:
            raise exc.OperationalError("", {}, LockNotAvailable())

    let_claims_read_no_rows(store)
    engine = store._database._engines[lane]
    event.listen(engine, "before_cursor_execute", wait)
    yield
    event.remove(engine, "before_cursor_execute", wait)


@pytest.mark.parametrize("lapsed", [True, False])
def test_a_claim_that_met_a_lock_reads_the_definitions_past_it(
    store: PostgreSQLStore, clock: ManualClock, lapsed: bool
) -> None:
    given = claimed(store) if lapsed else pending(store)
    clock.advance(HOUR)
    with definitions_meeting_locks(store, Lane.BY_TIME):
        [taken] = claim(store, lapsed=lapsed)
    assert (taken.id, taken.definition) == (given.id, given.definition)


def test_a_start_that_met_a_lock_reads_the_definitions_past_it(
    store: PostgreSQLStore,
) -> None:
    given = claimed(store)
    with definitions_meeting_locks(store, Lane.BY_KEY):
        [started] = start(store, given)
    assert (started.id, started.definition) == (given.id, given.definition)


# Contents.


@dataclass(frozen=True)
class SilentTrigger(Trigger):
    """A trigger that cannot say what it is."""

    kind: ClassVar[str] = "tests.silent"

    def next_fire_time(self, after: datetime) -> datetime | None:
        return None

    def to_dict(self) -> Mapping[str, JSON]:
        raise RuntimeError("no")


def contents_row(name: str, kind: str = "interval") -> Any:
    return SimpleNamespace(
        name=name,
        metadata="{}",
        trigger_kind=kind,
        trigger_state='{"every": {"microseconds": 1000000}, "anchor": null}',
        policies='{"retry": {"max_attempts": 1}, "catch_up": {"grace": 0}}',
    )


def test_contents_are_forgotten_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "_MOST_BYTES", 3000)
    cache, keys = ContentsCache(), [uuid4() for _ in range(3)]
    for key in keys:
        cache.put(key, 1, contents_row(str(key)))
    assert [cache.get(key, 1) is None for key in keys] == [True, False, False]
    assert cache.get(keys[2], 2) is None


def test_contents_that_cannot_be_read_yet_are_read_again() -> None:
    cache, key = ContentsCache(), uuid4()
    found = cache.put(key, 1, contents_row("new", kind="tests.not.imported.yet"))
    assert isinstance(found.trigger, UnknownTrigger)
    assert cache.get(key, 1) is None


def test_a_row_that_cannot_be_read_keeps_what_its_trigger_can_say() -> None:
    key = uuid4()
    read = ContentsCache().put(key, 1, contents_row("odd"))
    row: Any = SimpleNamespace(
        id=key,
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


# Drivers.


def test_a_cockroachdb_server_is_named() -> None:
    info = SimpleNamespace(parameter_status=lambda name: f"{name} v26.1")
    connection: Any = SimpleNamespace(info=info)
    with pytest.raises(ConfigurationError, match="begin with cockroachdb://"):
        driver._set_up(connection, driver.EngineKind.POSTGRESQL, {})


@pytest.mark.parametrize(
    "url", ["postgresql://u:p@host:port/d", "postgresql://u:sec@ret@host/d"]
)
def test_a_url_that_would_be_misread_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        PostgreSQLStore(url)
    assert "ret" not in str(caught.value)


@pytest.mark.parametrize("size", [0, -3, "5", True, None])
def test_a_pool_has_at_least_one_connection(size: Any) -> None:
    with pytest.raises(ConfigurationError, match="pool_size must be"):
        PostgreSQLStore("postgresql://", pool_size=size)


@pytest.mark.parametrize("timeout", [5, "5", None, -SECOND, timedelta(days=2)])
def test_a_timeout_of_sqlite_is_a_duration(timeout: Any) -> None:
    with pytest.raises(ConfigurationError, match="busy_timeout must be"):
        SQLiteDatabase("sqlite:///file.db", durable=False, busy_timeout=timeout)


@pytest.mark.parametrize("fault_of", [driver.fault_of, sqlite_database.fault_of])
def test_a_pool_without_a_free_connection_is_away(fault_of: Any) -> None:
    assert fault_of(exc.TimeoutError()) == (Fault.UNAVAILABLE, "pool")


def test_what_is_no_error_of_the_driver_is_wrong() -> None:
    assert driver.fault_of(exc.InvalidRequestError()) == (Fault.WRONG, "")


def test_a_list_whose_connection_is_lost_ends_with_it() -> None:
    dialect = CockroachDBDialect(None, follower_reads=True)
    connection = Told()

    def lose(_: object) -> None:
        connection.invalidated = True
        raise exc.OperationalError("", {}, psycopg.errors.AdminShutdown())

    with pytest.raises(exc.OperationalError):
        dialect.listed(cast("Connection", connection), lose)
    assert connection.executed == [PAST]


@pytest.mark.parametrize("asked", [True, False])
def test_lists_come_from_the_past_if_asked_to(asked: bool) -> None:
    dialect = CockroachDBDialect(None, follower_reads=asked)
    connection = Told()
    given = cast("Connection", connection)
    assert dialect.listed(given, lambda _: connection.exec_driver_sql("SELECT"))
    expected = [PAST, "SELECT", "COMMIT"] if asked else ["SELECT"]
    assert connection.executed == expected


@pytest.mark.parametrize(
    ("error", "then"),
    [
        (psycopg.errors.UndefinedTable, ["ROLLBACK", "SELECT"]),
        (psycopg.errors.LockNotAvailable, ["ROLLBACK"]),
    ],
)
def test_a_list_of_what_is_younger_than_the_past_is_of_the_present(
    error: type[psycopg.Error], then: list[str]
) -> None:
    dialect = CockroachDBDialect(None, follower_reads=True)
    connection = Told()

    def read(_: object) -> object:
        connection.exec_driver_sql("SELECT")
        if "ROLLBACK" not in connection.executed:
            raise exc.DBAPIError.instance("", {}, error(), psycopg.Error)
        return "read"

    with suppress(exc.OperationalError):
        assert dialect.listed(cast("Connection", connection), read) == "read"
    assert connection.executed == [PAST, "SELECT", *then]


def test_a_conflict_within_a_transaction_of_the_users_is_theirs_to_repeat(
    store: PostgreSQLStore,
) -> None:
    def conflict() -> None:
        raise exc.OperationalError("", {}, psycopg.errors.SerializationFailure())

    with pytest.raises(StoreUnavailableError, match="repeat the transaction"):
        store._database.run_once(conflict)


def test_a_text_that_no_server_keeps_is_an_error_of_ours(
    store: PostgreSQLStore,
) -> None:
    with pytest.raises(StoreError, match="cannot be kept"):
        store.list_definitions(name="\ud800")


# SQLite.


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SQLiteDatabase]:
    """The connections to a new file."""
    made = SQLiteDatabase(
        f"sqlite:///{tmp_path / 'file.db'}", durable=False, busy_timeout=ZERO
    )
    yield made
    made.close()


def test_a_transaction_that_ended_by_itself_is_not_rolled_back(
    database: SQLiteDatabase,
) -> None:
    def work(connection: Connection) -> None:
        connection.exec_driver_sql("ROLLBACK")
        raise LookupError

    with pytest.raises(LookupError):
        database.transact(work)
    assert database.transact(lambda connection: 5) == 5


def test_two_that_make_a_write_ahead_log_do_not_fail(database: SQLiteDatabase) -> None:
    busy = sqlite3.OperationalError()
    busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
    full = sqlite3.OperationalError()
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    for error, raised in ((busy, Overtaken), (full, exc.OperationalError)):
        fails = Told(exc.OperationalError("", {}, error))
        with pytest.raises(raised):
            database._use_log(cast("Connection", fails))
    with pytest.raises(StoreError, match="has the journal delete"):
        database._use_log(cast("Connection", Told(answer="delete")))


def test_a_write_lock_that_is_not_passed_on_is_given_up() -> None:
    lock = WriteLock(0)
    with (
        lock.taken(),
        pytest.raises(StoreUnavailableError, match="writing for 0 s"),
        lock.taken(),
    ):
        pass
    with lock.taken():
        pass


def test_a_write_lock_that_is_passed_on_at_the_last_moment_is_taken() -> None:
    class Passed(deque[Any]):
        def append(self, item: Any) -> None:
            """Pass it on at once."""

    lock = WriteLock(0)
    lock._taken = True
    lock._waiting = Passed()
    with lock.taken():
        pass
    assert not lock._taken


def test_an_id_passed_while_its_definition_is_cleaned_up_is_not_said_to_have_ended(
    store: PostgreSQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up = TaskDefinition(trigger=ExecuteOnceTrigger(START), next_fire_time=START)
    passed = replace(made_up, named=True)
    ended(store, made_up)
    live = store._edits.live

    def cleaned_up_after(*arguments: Any) -> Any:
        found = live(*arguments)
        clean_up(store)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(store._edits, "live", cleaned_up_after)
        assert put(store, passed).completed_at is None
    assert store.get_definition(made_up.id).named


def test_who_is_always_overtaken_is_told(
    store: PostgreSQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_database, "_MOST_TRIES", 3)

    def work(connection: Connection) -> None:
        raise Overtaken

    with pytest.raises(StoreUnavailableError, match="faster each of 3 times"):
        store._database.transact(work)
    assert store.retries["overtaken"] == 3


class Lapsed(NamedTuple):
    """A row as it was before it was claimed anew."""

    id: UUID
    began: object = START
    taken_at: object = None
    due_by: object = START
    ran_by: str | None = None


def test_a_run_whose_times_cannot_be_read_is_taken_over_as_one_of_no_bus() -> None:
    silent, broken, plain, waits = (UUID(int=number) for number in range(4))
    rows = [
        Lapsed(silent),
        Lapsed(broken, taken_at=UNREADABLE),
        Lapsed(plain, due_by=None),
        Lapsed(waits, began=None),
    ]
    silence = Silence(stage=Stage.PUBLISHED, within=START - START)
    assert silences_of(rows) == {silent: silence}
