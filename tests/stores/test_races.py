"""Two sessions change one row: the second session writes between two statements."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from sqlalchemy import event, exc

from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError
from go_scheduler.models import Skipped, State, TaskDefinition
from go_scheduler.policies import Overlap
from go_scheduler.stores.rules import EDITED, Declaration, Removed
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.store import SQLStore
from go_scheduler.testing.builders import (
    EVERY_TWO_HOURS,
    HOUR,
    OTHER_NODE,
    SECOND,
    WAITING,
    add,
    at_once,
    claim,
    claimant,
    clean_up,
    definition,
    ended,
    finish,
    fire,
    firing,
    instances,
    put,
    start,
)
from go_scheduler.testing.clock import START, settle
from go_scheduler.triggers.simple import ExecuteOnceTrigger
from tests import servers
from tests.conftest import LOCKING, engines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.postgresql.store import PostgreSQLStore
    from go_scheduler.testing.clock import ManualClock

ONE = definition(key=1)
READ = "LEFT OUTER JOIN task_contents"
FEW = 4
LIST = "WHERE task_definitions.owner ="
POSTGRESQL = pytest.mark.parametrize("engine", LOCKING[:1])


# On SQLite nobody else writes within a transaction.
engine = engines(LOCKING)


@pytest.fixture
def other(store: Store, store_url: str, clock: ManualClock) -> Iterator[Store]:
    """The same store, of another node."""
    with servers.opened(store_url, clock, has_tables=True) as other:
        yield other


@contextmanager
def interrupted(
    store: Store,
    statement: str,
    call: Callable[[Any], object],
    *,
    when: str = "before",
    lane: Lane = Lane.BY_HAND,
) -> Iterator[None]:
    """Make a call once, before or after the store's next statement of this text."""
    assert isinstance(store, SQLStore)
    calls = [call]

    def interrupt(_: object, cursor: object, executed: str, *__: object) -> None:
        if statement in executed and calls:
            calls.pop()(cursor)

    engine = store._database._engines[lane]
    event.listen(engine, f"{when}_cursor_execute", interrupt)
    try:
        yield
    finally:
        event.remove(engine, f"{when}_cursor_execute", interrupt)
    assert not calls


@contextmanager
def interrupted_each_time(
    store: Store, statement: str, call: Callable[[], object]
) -> Iterator[None]:
    """Make a call before each of the store's statements that has this text."""
    assert isinstance(store, SQLStore)

    def interrupt(_: object, __: object, executed: str, *___: object) -> None:
        if statement in executed:
            call()

    engine = store._database._engines[Lane.BY_HAND]
    event.listen(engine, "before_cursor_execute", interrupt)
    try:
        yield
    finally:
        event.remove(engine, "before_cursor_execute", interrupt)


once_it_has_read = partial(interrupted, statement=READ, when="after")


# Declared sets.


def declare(
    store: Store, owner: str, *definitions: TaskDefinition, removed: Removed = "delete"
) -> None:
    store.declare_definitions(
        Declaration(owner=owner, definitions=definitions, removed=removed, adopts=True)
    )


@pytest.mark.parametrize("before", ["new", "stored", "paused by its set"])
def test_who_declares_what_another_has_just_taken_is_refused(
    store: Store, before: str
) -> None:
    if before == "stored":
        put(store, ONE)
    elif before == "paused by its set":
        declare(store, "app", ONE)
        declare(store, "app", removed="pause")
    with (
        once_it_has_read(store, call=lambda _: declare(store, "other", ONE)),
        pytest.raises(ConfigurationError, match="the set of 'other'"),
    ):
        declare(store, "app", ONE)
    assert store.get_definition(ONE.id).owner == "other"


def test_what_somebody_schedules_meanwhile_is_not_taken_unasked(store: Store) -> None:
    declaration = Declaration(owner="app", definitions=[ONE])
    with (
        once_it_has_read(store, call=lambda _: put(store, ONE)),
        pytest.raises(ConfigurationError, match="in no declared set"),
    ):
        store.declare_definitions(declaration)
    assert store.get_definition(ONE.id).owner is None


def test_a_put_keeps_an_owner_that_it_has_not_read(store: Store) -> None:
    put(store, ONE)
    with once_it_has_read(store, call=lambda _: declare(store, "app", ONE)):
        changed = put(store, replace(ONE, name="b"))
    assert changed.owner == "app"
    assert (store.get_definition(ONE.id).owner, changed.revision) == ("app", 2)


@pytest.mark.parametrize("removed", ["pause", "delete"])
def test_what_another_has_just_taken_is_not_removed(
    store: Store, removed: Removed
) -> None:
    declare(store, "app", ONE)
    declare(store, "app", removed="pause")
    take = partial(declare, store, "other", ONE)
    with interrupted(store, LIST, lambda _: take(), when="after"):
        declare(store, "app", removed=removed)
    taken = store.get_definition(ONE.id)
    assert (taken.owner, taken.paused) == ("other", False)


# Puts.


@POSTGRESQL
@pytest.mark.parametrize("count", [1, 2])
def test_who_inserts_what_somebody_else_inserts_meanwhile_begins_again(
    store: PostgreSQLStore, count: int
) -> None:
    new = [definition(key=key) for key in range(count)]
    others: list[TaskDefinition] = []

    def insert_first(_: object) -> None:
        others.extend(store.put_definitions(new[:1]).definitions)
        # As the server says of what it did not see when it began.
        raise exc.IntegrityError("", {}, psycopg.errors.UniqueViolation())

    lane = Lane.NEW if count == 1 else Lane.BY_HAND
    insert = "INSERT INTO task_definitions"
    with interrupted(store, insert, insert_first, lane=lane):
        stored = store.put_definitions(new).definitions
    assert stored[0] == others[0]
    assert [each.revision for each in stored] == [1] * count
    assert store.retries == {"overtaken": 1}


@POSTGRESQL
@pytest.mark.parametrize(("at", "overtaken"), [(START, 1), (START + HOUR, 0)])
def test_what_fires_while_its_trigger_is_edited_is_recorded_once(
    store: PostgreSQLStore, at: datetime, overtaken: int
) -> None:
    """An edit that finds nothing unfired does not begin again."""
    read = put(store, definition(at))

    def fire_first(_: object) -> None:
        fire(store, read, next_fire_time=at + HOUR)

    with interrupted(store, "UPDATE task_definitions", fire_first):
        moved = put(store, replace(read, trigger=WAITING))
    assert store.retries == ({"overtaken": 1} if overtaken else {})
    records = [each.skipped for each in instances(store, moved)]
    assert records == [Skipped.itself(START, EDITED)] * overtaken


class Fires:
    """Fires a definition at each call, unless somebody has locked it."""

    def __init__(self, store: Store, read: TaskDefinition) -> None:
        self._store = store
        self._read = read
        self.count = 0

    def __call__(self) -> None:
        at = START - HOUR + self.count * SECOND
        step = firing(
            replace(self._read, next_fire_time=at), next_fire_time=at + SECOND
        )
        self.count += len(self._store.fire_definitions([step]).done)


def test_what_fires_before_it_is_written_each_time_is_edited_all_the_same(
    store: Store, other: Store
) -> None:
    """Who tries again lets nobody fire it."""
    read = put(store, definition(START - HOUR))
    fire_first = Fires(other, read)
    with interrupted_each_time(store, "UPDATE task_definitions SET", fire_first):
        moved = put(store, replace(read, trigger=WAITING))
    assert store.get_definition(read.id) == moved
    assert fire_first.count


def test_what_fires_and_is_claimed_each_time_is_edited_all_the_same(
    store: Store, other: Store
) -> None:
    """Who tries again on CockroachDB lets nobody fire it until that has succeeded."""
    read = put(store, definition(START - HOUR))
    fire_first = Fires(other, read)
    for _ in range(FEW):
        fire_first()
    settle(store)
    claimed: list[TaskInstance] = []

    def claim_one() -> None:
        queues = claimant(OTHER_NODE)
        claimed.extend(
            other.claim_instances(
                queues, ahead=ZERO, lead=ZERO, limit=1, lapsed=None, deadline=START
            )
        )

    with (
        interrupted_each_time(store, READ, fire_first),
        interrupted_each_time(store, "UPDATE task_instances", claim_one),
    ):
        moved = put(store, replace(read, trigger=EVERY_TWO_HOURS))
    assert store.get_definition(read.id) == moved
    states = Counter(each.state for each in instances(store, read))
    assert states[State.RUNNING] == len(claimed) > 0


@POSTGRESQL
def test_an_id_passed_while_its_definition_is_cleaned_up_is_not_said_to_have_ended(
    store: PostgreSQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up = TaskDefinition(trigger=ExecuteOnceTrigger(START), next_fire_time=START)
    ended(store, made_up)
    edits = store._edits

    def cleaned_up_after(*arguments: Any) -> Any:
        found = edits(*arguments)
        clean_up(store)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(store, "_edits", cleaned_up_after)
        assert put(store, replace(made_up, named=True)).completed_at is None
    assert store.get_definition(made_up.id).named


def test_a_definition_to_which_somebody_adds_meanwhile_is_not_cleaned_up(
    store: Store,
) -> None:
    over = put(store, replace(ONE, next_fire_time=None))
    assert over.completed_at is not None
    with interrupted(store, "FOR UPDATE SKIP LOCKED", lambda _: add(store, over)):
        clean_up(store)
    [added] = claim(store)
    assert added.definition.id == over.id
    assert clean_up(store) == 0


# Starts.


# Elsewhere a write that has read what is no longer true is made anew.
@POSTGRESQL
def test_who_loses_a_slot_to_a_start_that_it_does_not_see_knows_who_has_it(
    store: Store, other: Store, store_url: str
) -> None:
    new = replace(definition(), overlap=Overlap.SKIP)
    fire(store, put(store, new), START, START - SECOND)
    [loser] = claim(store, limit=1)
    [winner] = claim(other, OTHER_NODE, limit=1)
    with psycopg.connect(servers.libpq(store_url)) as somebody:

        def lock(cursor: psycopg.Cursor) -> None:
            # The start begins before the other one takes the slot, and then waits.
            cursor.execute("SET lock_timeout = '30s'")
            locks = "SELECT id FROM task_instances WHERE id = %s FOR UPDATE"
            somebody.execute(locks, [loser.id])

        def let_other_one_win() -> Sequence[TaskInstance]:
            wait_until_one_waits(store_url)
            started = start(other, winner)
            somebody.rollback()
            return started

        with interrupted(store, "INSERT INTO task_slots", lock, lane=Lane.BY_KEY):
            found, started = at_once(partial(start, store, loser), let_other_one_win)
    assert [each.parked for each in (*found, *started)] == [True, False]
    assert finish(other, winner)
    store.review_parked(limit=10)
    assert store.get_instance(loser.id).state is State.SKIPPED


def wait_until_one_waits(url: str) -> None:
    """Wait until a transaction waits for a lock."""
    with servers.connected(url) as connection:
        waiting = "SELECT 1 FROM pg_locks WHERE NOT granted"
        while connection.execute(waiting).fetchone() is None:
            pass
