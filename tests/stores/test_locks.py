"""What somebody else has locked is left aside at once, and keeps nothing else waiting.

Every call here is made, and has answered, while another connection holds its locks.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from sqlalchemy import event

from go_scheduler.clock import ZERO
from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.models import Outcome, State
from go_scheduler.policies import Overlap
from go_scheduler.stores.filters import DefinitionFilter, Filter
from go_scheduler.stores.messages import Release, Renewal, RunOutcome
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.reader import ContentsCache
from go_scheduler.testing.builders import (
    HOUR,
    HOURLY,
    LEASE,
    MINUTE,
    NODE,
    WAITING,
    claim,
    claim_of,
    claimant,
    clean_up,
    counts_by_state,
    definition,
    finish,
    fire,
    firing,
    ids,
    put,
    running,
    start,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.settling import settle
from tests import servers
from tests.faults import failing_statements

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from datetime import timedelta
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Answer
    from go_scheduler.testing.clock import ManualClock
    from go_scheduler.triggers.base import Trigger

MANY = 100
INSTANCES, DEFINITIONS = "task_instances", "task_definitions"


@pytest.fixture(params=["postgresql", "cockroachdb"])
def engine(request: pytest.FixtureRequest) -> str:
    """The kind of store."""
    kind: str = request.param
    return kind


@pytest.fixture
def store_url(engine: str, request: pytest.FixtureRequest) -> str:
    """The URL of the server."""
    url: str = request.getfixturevalue(f"{engine}_url")
    servers.delete_all_rows(url)
    return url


@pytest.fixture
def store(store_url: str, clock: ManualClock) -> Iterator[PostgreSQLStore]:
    """An empty, initialized store."""
    with servers.opened(store_url, clock, has_tables=True) as store:
        assert isinstance(store, PostgreSQLStore)
        yield store


@contextmanager
def transaction(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A transaction of somebody else's, which holds its locks until the block ends."""
    with psycopg.connect(servers.libpq(url), prepare_threshold=None) as connection:
        yield connection
        connection.rollback()


@contextmanager
def locked(url: str, table: str, rows: Collection[UUID]) -> Iterator[None]:
    """Rows that another transaction has locked."""
    with transaction(url) as connection:
        connection.execute(
            # Written, and not only locked: on CockroachDB that keeps readers waiting.
            f"UPDATE {table} SET queue = queue WHERE id = ANY(%s)".encode(),
            [list(rows)],
        )
        yield


@contextmanager
def made_by_hand(url: str, definition_ids: Collection[UUID]) -> Iterator[None]:
    """Instances that another transaction has made of definitions that are due."""
    with transaction(url) as connection:
        connection.execute(
            b"INSERT INTO task_instances (id, definition_key, shard, queue, waits,"
            b" fire_time, execute_at, due_at) SELECT id, key, 0, queue, false,"
            b" next_fire_time, next_fire_time, next_fire_time"
            b" FROM task_definitions WHERE id = ANY(%s)",
            [list(definition_ids)],
        )
        yield


def ends_with(outcome: Outcome | None) -> Callable[..., Answer[Any]]:
    return lambda store, given: store.finish_instances(
        [ended(each, outcome) for each in given]
    )


WRITES: dict[str, Callable[[Store, Sequence[TaskInstance]], Answer[Any]]] = {
    "start": lambda store, given: store.start_instances(
        claimant(), [claim_of(each) for each in given]
    ),
    "renew": lambda store, given: store.renew_claims(
        [Renewal(claim=claim_of(each), lease=HOUR) for each in given]
    ),
    "release": lambda store, given: store.release_instances(
        [Release(claim=claim_of(each), delay=HOUR) for each in given]
    ),
    "retry": ends_with(None),
    **{each.value: ends_with(each) for each in Outcome},
    "delete": lambda store, given: store.finish_instances(
        [replace(ended(each, Outcome.COMPLETED), deletes=True) for each in given]
    ),
}
FEW = pytest.mark.parametrize("few", [1, 7])


@FEW
@pytest.mark.parametrize("write", WRITES)
def test_of_many_instances_those_that_are_locked_are_busy_and_the_others_done(
    store: PostgreSQLStore, store_url: str, few: int, write: str
) -> None:
    given = many(store, MANY, ahead=HOUR if write == "start" else ZERO)
    aside = given[::13][:few]
    call = WRITES[write]
    with locked(store_url, INSTANCES, ids(aside)):
        answer = call(store, given)
        assert_divided(answer, given, ids(aside))
    # They are as they were, and others see so while they are locked.
    assert [store.get_instance(each.id) for each in aside] == aside
    assert_divided(call(store, aside), aside, [])


@FEW
def test_of_many_fires_those_of_locked_definitions_are_busy(
    store: PostgreSQLStore, store_url: str, few: int
) -> None:
    read = store.put_definitions([definition() for _ in range(MANY)]).definitions
    aside = read[::11][:few]
    later = START + HOUR
    with locked(store_url, DEFINITIONS, ids(aside)):
        answer = store.fire_definitions([firing(e, next_fire_time=later) for e in read])
        assert_divided(answer, read, ids(aside))
    due = store.select_definitions(DefinitionFilter(ids=ids(aside)))
    assert {each.next_fire_time for each in due} == {START}
    again = store.fire_definitions([firing(e, next_fire_time=later) for e in aside])
    assert_divided(again, aside, [])
    assert counts_by_state(store)[State.PENDING] == MANY


@FEW
class TestLockedRows:
    """Of many rows some are locked: those keep no other waiting."""

    def test_ends_that_a_locked_definition_waits_for(
        self, store: PostgreSQLStore, store_url: str, few: int
    ) -> None:
        given = many(store, 20, trigger=WAITING)
        plain = many(store, 5)
        definitions = [each.definition.id for each in (*given[:few], *plain)]
        with locked(store_url, DEFINITIONS, definitions):
            answer = store.finish_instances(
                [ended(each, Outcome.COMPLETED) for each in (*given, *plain)]
            )
            assert_divided(answer, [*given, *plain], ids(given[:few]))
        for each in given[:few]:
            assert finish(store, each, next_fire_time=START + HOUR)
            found = store.get_definition(each.definition.id)
            assert found.next_fire_time == START + HOUR

    def test_takeovers(
        self, store: PostgreSQLStore, store_url: str, clock: ManualClock, few: int
    ) -> None:
        given = many(store, 20)
        aside = ids(given[:few])
        clock.advance(LEASE)
        with locked(store_url, INSTANCES, aside):
            taken = claim(store, lapsed=True)
            assert sorted(ids(taken)) == sorted({*ids(given)} - {*aside})
        assert sorted(ids(claim(store, lapsed=True))) == sorted(aside)

    def test_claims_of_what_a_locked_definition_has(
        self, store: PostgreSQLStore, store_url: str, few: int
    ) -> None:
        given = made(store, 20)
        aside = ids(given[:few])
        definitions = [each.definition.id for each in given[:few]]
        with locked(store_url, DEFINITIONS, definitions):
            # A claim that met the lock is made anew, and may skip what it had taken.
            taken = [*ids(claim(store)), *ids(claim(store))]
            assert {*taken} >= {*ids(given)} - {*aside}
        taken += ids(claim(store))
        assert sorted(taken) == sorted(ids(given))

    def test_takeovers_of_what_a_locked_definition_has(
        self, store: PostgreSQLStore, store_url: str, clock: ManualClock, few: int
    ) -> None:
        given = many(store, 20)
        definitions = [each.definition.id for each in given[:few]]
        clock.advance(LEASE)
        with locked(store_url, DEFINITIONS, definitions):
            # A claim that met the lock is made anew, and may skip what it had taken.
            taken = [*claim(store, lapsed=True), *claim(store, lapsed=True)]
        assert sorted(ids(taken)) == sorted(ids(given))

    def test_starts_in_slots_of_what_a_locked_definition_has(
        self, store: PostgreSQLStore, store_url: str, few: int
    ) -> None:
        later = START + HOUR
        read = store.put_definitions(
            [definition(later, lock=str(each)) for each in range(8)]
        ).definitions
        store.fire_definitions([firing(each) for each in read])
        held = claim(store, ahead=HOUR)
        with locked(store_url, DEFINITIONS, ids(read[:few])):
            answer = store.start_instances(claimant(), [claim_of(e) for e in held])
        assert_divided(answer, held, [])

    def test_starts_of_what_a_locked_definition_has(
        self, store: PostgreSQLStore, store_url: str, few: int
    ) -> None:
        given = many(store, 20, ahead=HOUR)
        definitions = [each.definition.id for each in given[:few]]
        with locked(store_url, DEFINITIONS, definitions):
            answer = store.start_instances(claimant(), [claim_of(e) for e in given])
            assert_divided(answer, given, [])
            listed = store.list_claimed(NODE)
        assert {each.id: each.definition for each in answer.done} == {
            each.id: each.definition for each in given
        }
        assert sorted(ids(listed)) == sorted(ids(given))

    def test_what_is_due_and_what_a_node_has_claimed(
        self, store: PostgreSQLStore, store_url: str, few: int
    ) -> None:
        held = many(store, 20)
        aside = ids(held[:few])
        read = store.put_definitions([definition() for _ in range(20)]).definitions
        with (
            locked(store_url, INSTANCES, aside),
            locked(store_url, DEFINITIONS, ids(read[:few])),
        ):
            due = store.due_definitions(ahead=ZERO, limit=MANY)
            listed = {*ids(store.list_claimed(NODE))}
        assert {each.id: each for each in due} == {each.id: each for each in read}
        assert {*ids(held)} - {*aside} <= listed <= {*ids(held)}

    def test_contents_that_nobody_has_read_yet(
        self, store: PostgreSQLStore, store_url: str, few: int
    ) -> None:
        given = made(store, 20)
        store._reader._contents = ContentsCache()
        definitions = [each.definition.id for each in given[:few]]
        with transaction(store_url) as connection:
            connection.execute(
                b"UPDATE task_contents SET name = 'half-written' WHERE key IN"
                b" (SELECT key FROM task_definitions WHERE id = ANY(%s))",
                [definitions],
            )
            # A claim that met the lock is made anew, and may skip what it had taken.
            taken = [*claim(store), *claim(store)]
        assert {each.id: each.definition for each in taken} == {
            each.id: each.definition for each in given
        }

    def test_cleanup(
        self, store: PostgreSQLStore, store_url: str, clock: ManualClock, few: int
    ) -> None:
        given = many(store, 20)
        for each in given:
            assert finish(store, each)
        clock.advance(MINUTE)
        aside = given[:few]
        with locked(store_url, INSTANCES, ids(aside)):
            deleted = clean_up(store, older_than=ZERO, limit=MANY)
            assert deleted == 2 * (len(given) - few)
        clock.advance(MINUTE)
        with locked(store_url, DEFINITIONS, [each.definition.id for each in aside]):
            assert clean_up(store, older_than=ZERO, limit=MANY) == few
        assert clean_up(store, older_than=ZERO, limit=MANY) == few


def test_what_is_locked_and_was_lost_is_lost(
    store: PostgreSQLStore, store_url: str, clock: ManualClock
) -> None:
    stale, gone, mine = (running(store) for _ in range(3))
    assert finish(store, gone, Outcome.CANCELLED)
    assert finish(store, stale, None)
    waiting = put(store, definition(START + HOUR))
    moved = put(store, definition(START + HOUR))
    fire(store, moved, START, next_fire_time=START + 2 * HOUR)
    claims = [claim_of(each) for each in (stale, gone, mine)]
    with (
        locked(store_url, INSTANCES, ids([stale, gone, mine])),
        locked(store_url, DEFINITIONS, ids([waiting, moved])),
    ):
        answers: list[Answer[Collection[object]]] = [
            store.start_instances(claimant(), claims),
            store.renew_claims([Renewal(claim=each, lease=LEASE) for each in claims]),
            store.release_instances([Release(claim=each) for each in claims]),
            store.finish_instances(
                [RunOutcome(claim=each, outcome=Outcome.FAILED) for each in claims]
            ),
        ]
        fired = store.fire_definitions([firing(waiting), firing(moved)])
        late = store.finish_instances([ended(stale), ended(gone)])
    for each in answers:
        assert (not each.done, each.busy) == (True, {mine.id})
    assert (fired.done, fired.busy) == (set(), {waiting.id})
    # A success counts though the claim was lost.
    assert (late.done, late.busy) == (set(), {stale.id})


def test_the_end_of_an_instance_without_its_definition_is_written_by_itself(
    store: PostgreSQLStore, store_url: str
) -> None:
    orphan, other = (running(store, definition(trigger=WAITING)) for _ in range(2))
    with transaction(store_url) as hand:
        hand.execute(
            "UPDATE task_instances SET definition_key = gen_random_uuid()"
            " WHERE id = %s",
            [orphan.id],
        )
        hand.commit()
    with locked(store_url, INSTANCES, [other.id]):
        # Nobody can say whether its definition is locked, or missing.
        both = store.finish_instances([ended(orphan), ended(other)])
        alone = store.finish_instances([ended(orphan)])
    assert (both.done, both.busy) == (set(), {orphan.id, other.id})
    assert (alone.done, alone.busy) == ({orphan.id}, set())


@pytest.mark.parametrize("outcome", [Outcome.FAILED, None])
def test_a_run_that_is_repeated_does_not_wait_for_its_definition(
    store: PostgreSQLStore, store_url: str, outcome: Outcome | None
) -> None:
    instance, other = (running(store, definition(trigger=WAITING)) for _ in range(2))
    with (
        locked(store_url, INSTANCES, [other.id]),
        locked(store_url, DEFINITIONS, [instance.definition.id]),
    ):
        answer = store.finish_instances([ended(instance, outcome), ended(other)])
    busy = {other.id} if outcome is None else {instance.id, other.id}
    assert answer.busy == busy


def test_an_instance_that_somebody_has_made_and_not_committed_delays_no_other(
    store: PostgreSQLStore, store_url: str
) -> None:
    given = store.put_definitions([definition() for _ in range(MANY)]).definitions
    made = given[13]
    with made_by_hand(store_url, [made.id]):
        answer = store.fire_definitions([firing(each) for each in given])
        assert_divided(answer, given, [made.id])
    assert store.fire_definitions([firing(made)]).done == {made.id}


def test_what_waits_beside_a_locked_instance_keeps_no_other_from_its_turn(
    store: PostgreSQLStore, store_url: str, clock: ManualClock
) -> None:
    [busy, _] = [excluded(store, lock) for lock in "ab"]
    clock.advance(MINUTE)
    settle(store)
    with locked(store_url, INSTANCES, [busy.id]):
        found = [store.review_parked(limit=2) for _ in range(4)]
        assert [len(each.skipped) for each in found] == [0, 2, 0, 0]
        assert all(each.more for each in found)
    found = [store.review_parked(limit=2) for _ in range(6)]
    assert sum(len(each.skipped) for each in found) == 2
    assert not found[-1].more


def test_what_met_one_that_has_just_ended_is_skipped_whoever_has_the_slot_since(
    store: PostgreSQLStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = excluded(store, "a")
    clock.advance(MINUTE)
    fire(store, put(store, replace(definition(), lock="a")))
    [next_one] = claim(store)
    look = store._behind

    def others_go_on_meanwhile(ids: Collection[UUID]) -> object:
        found = look(ids)
        assert finish(store, runs)
        assert start(store, next_one)
        settle(store)
        return found

    monkeypatch.setattr(store, "_behind", others_go_on_meanwhile)
    assert len(store.review_parked(limit=10).skipped) == 2


def excluded(store: PostgreSQLStore, lock: str) -> TaskInstance:
    """One that runs, and keeps two more of its definition parked."""
    new = replace(definition(trigger=HOURLY), lock=lock, overlap=Overlap.SKIP)
    fire(store, put(store, new), *(START + n * MINUTE / 4 for n in range(3)))
    started = start(store, *claim(store, ahead=HOUR))
    [runs] = [each for each in started if not each.parked]
    return runs


def test_of_many_locks_only_some_are_waited_for(
    store: PostgreSQLStore, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = store.put_definitions([definition() for _ in range(MANY)]).definitions
    run, waits = store._statements.run, []

    def counting(*args: Any, **how: Any) -> Sequence[Any]:
        waits.append(args)
        return run(*args, **how)

    monkeypatch.setattr(store._statements, "run", counting)
    with made_by_hand(store_url, ids(given)):
        answer = store.fire_definitions([firing(each) for each in given])
    assert_divided(answer, given, ids(given))
    assert len(waits) < MANY / 5


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_claim_that_meets_a_lock_for_a_moment_is_made_again(
    store: PostgreSQLStore, store_url: str
) -> None:
    read = put(store)
    fire(store, read)
    engine = store._database._engines[Lane.BY_TIME]
    # For a second from now on a claim looks for no other priorities.
    assert claim(store, queues=["another"]) == []
    with transaction(store_url) as connection:
        connection.execute("LOCK TABLE task_instances")

        def let_go(_: object) -> None:
            connection.rollback()

        event.listen(engine, "handle_error", let_go)
        [instance] = claim(store)
    assert instance.definition == read


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (psycopg.errors.DiskFull, StoreUnavailableError),
        (psycopg.errors.CheckViolation, StoreError),
    ],
)
def test_another_error_beside_a_lock_is_raised(
    store: PostgreSQLStore,
    store_url: str,
    error: type[psycopg.Error],
    raised: type[StoreError],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, other = running(store), running(store)
    write = store._statements.run

    def failing_later(*args: Any, **how: Any) -> Sequence[Any]:
        monkeypatch.undo()
        try:
            return write(*args, **how)
        finally:
            fails.__enter__()

    fails = failing_statements(store, share=1, error=error)
    monkeypatch.setattr(store._statements, "run", failing_later)
    with locked(store_url, INSTANCES, [other.id]), pytest.raises(raised):
        store.finish_instances([ended(run), ended(other)])
    fails.__exit__(None, None, None)
    assert store.get_instance(other.id) == other


def made(
    store: PostgreSQLStore,
    count: int,
    *,
    ahead: timedelta = ZERO,
    trigger: Trigger = HOURLY,
) -> Sequence[TaskInstance]:
    """So many definitions' instances, which nobody has claimed."""
    read = store.put_definitions(
        [definition(START + ahead, trigger=trigger) for _ in range(count)]
    ).definitions
    fired = store.fire_definitions([firing(each) for each in read]).done
    assert fired == {*ids(read)}
    pending = store.select(Filter(states=[State.PENDING]))
    assert len(pending) == count
    return pending


def many(
    store: PostgreSQLStore,
    count: int,
    *,
    ahead: timedelta = ZERO,
    trigger: Trigger = HOURLY,
) -> Sequence[TaskInstance]:
    """So many definitions' instances, claimed, and started if they are due now."""
    made(store, count, ahead=ahead, trigger=trigger)
    claimed = claim(store, ahead=ahead)
    assert len(claimed) == count
    return claimed


def ended(
    instance: TaskInstance, outcome: Outcome | None = Outcome.COMPLETED
) -> RunOutcome:
    """How a run ended."""
    return RunOutcome(claim=claim_of(instance), started_at=START, outcome=outcome)


def assert_divided(
    answer: Answer[Any],
    given: Sequence[TaskInstance | TaskDefinition],
    locked: Collection[UUID],
) -> None:
    """The locked ones are busy, and all others done."""
    assert {*answer.busy} == {*locked}
    done = {getattr(each, "id", each) for each in answer.done}
    assert done == {*ids(given)} - {*locked}


def test_only_what_is_called_by_hand_waits_for_a_lock(store: PostgreSQLStore) -> None:
    longest = {
        lane: store._database.run(
            lane, lambda each: each.exec_driver_sql("SHOW lock_timeout").scalar_one()
        )
        for lane in Lane
    }
    users = {longest.pop(lane) for lane in (Lane.BY_HAND, Lane.NEW)}
    assert users <= {"1500ms", "1500"}
    assert {*longest.values()} <= {"10ms", "10"}
