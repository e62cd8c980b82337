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

from go_scheduler import cleanup
from go_scheduler.clock import ZERO
from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.models import Outcome, State
from go_scheduler.policies import Overlap
from go_scheduler.stores.filters import DefinitionFilter, Filter
from go_scheduler.stores.messages import Release, Retention
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.reader import ContentsCache
from go_scheduler.testing.builders import (
    HOUR,
    HOURLY,
    LEASE,
    MINUTE,
    NODE,
    WAITING,
    Rig,
    claim_of,
    claimant,
    counts_by_state,
    definition,
    end_of,
    firing,
    ids,
    renewal_of,
)
from go_scheduler.testing.clock import START, settle
from go_scheduler.ticking.shares import Shares
from tests import servers
from tests.conftest import LOCKING, engines
from tests.faults import failing_statements

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence, Set
    from datetime import timedelta
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Answer
    from go_scheduler.stores.postgresql.store import PostgreSQLStore
    from go_scheduler.testing.clock import ManualClock
    from go_scheduler.triggers.base import Trigger

MANY = 100
INSTANCES, DEFINITIONS = "task_instances", "task_definitions"


engine = engines(LOCKING)


class Locks(Rig):
    """A store, and what another transaction has locked in it until a block ends."""

    store: PostgreSQLStore

    def __init__(self, store: Store, clock: ManualClock, url: str) -> None:
        super().__init__(store, clock)
        self._url = url

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
        """A transaction of somebody else's."""
        with psycopg.connect(servers.libpq(self._url), prepare_threshold=None) as other:
            yield other
            other.rollback()

    @contextmanager
    def locked(self, table: str, rows: Collection[UUID]) -> Iterator[None]:
        """Rows that it has locked."""
        # Written, and not only locked: on CockroachDB that keeps readers waiting.
        update = f"UPDATE {table} SET queue = queue WHERE id = ANY(%s)"
        with self.transaction() as connection:
            connection.execute(update.encode(), [list(rows)])
            yield

    @contextmanager
    def with_definitions_locked(self, of: Sequence[TaskInstance]) -> Iterator[None]:
        """The definitions of instances."""
        with self.locked(DEFINITIONS, [each.definition.id for each in of]):
            yield

    @contextmanager
    def made_by_hand(self, definition_ids: Collection[UUID]) -> Iterator[None]:
        """Instances that it has made of definitions that are due."""
        with self.transaction() as connection:
            connection.execute(
                b"INSERT INTO task_instances (id, definition_key, shard, queue, waits,"
                b" fire_time, execute_at, due_at) SELECT id, key, 0, queue, false,"
                b" next_fire_time, next_fire_time, next_fire_time"
                b" FROM task_definitions WHERE id = ANY(%s)",
                [list(definition_ids)],
            )
            yield

    def defined(
        self, count: int, ahead: timedelta = ZERO, trigger: Trigger = HOURLY
    ) -> Sequence[TaskDefinition]:
        """So many definitions."""
        new = [definition(START + ahead, trigger=trigger) for _ in range(count)]
        return self.store.put_definitions(new).definitions

    def fire_all(
        self, read: Sequence[TaskDefinition], **fields: Any
    ) -> Answer[Set[UUID]]:
        """Fire definitions at once; the answer of the store."""
        steps = [firing(each, **fields) for each in read]
        return self.store.fire_definitions(steps)

    def made(
        self, count: int, ahead: timedelta = ZERO, trigger: Trigger = HOURLY
    ) -> Sequence[TaskInstance]:
        """So many definitions' instances, which nobody has claimed."""
        read = self.defined(count, ahead, trigger)
        assert self.fire_all(read).done == {*ids(read)}
        pending = self.store.select(Filter(states=[State.PENDING]))
        assert len(pending) == count
        return pending

    def many(
        self, count: int, ahead: timedelta = ZERO, trigger: Trigger = HOURLY
    ) -> Sequence[TaskInstance]:
        """So many definitions' instances, claimed, and started if they are due now."""
        self.made(count, ahead, trigger)
        claimed = self.claim(ahead=ahead)
        assert len(claimed) == count
        return claimed

    def excluded(self, lock: str) -> TaskInstance:
        """One that runs, and keeps two more of its definition parked."""
        new = replace(definition(trigger=HOURLY), lock=lock, overlap=Overlap.SKIP)
        self.fired(new, *(START + n * MINUTE / 4 for n in range(3)))
        started = self.start(*self.claim(ahead=HOUR))
        [runs] = [each for each in started if not each.parked]
        return runs


@pytest.fixture
def rig(store: Store, clock: ManualClock, store_url: str) -> Locks:
    """An empty store."""
    return Locks(store, clock, store_url)


def ends_with(outcome: Outcome | None) -> Callable[..., Answer[Any]]:
    return lambda store, given: store.finish_instances(
        [end_of(each, outcome) for each in given]
    )


WRITES: dict[str, Callable[[Store, Sequence[TaskInstance]], Answer[Any]]] = {
    "start": lambda store, given: store.start_instances(
        claimant(), [claim_of(each) for each in given]
    ),
    "renew": lambda store, given: store.renew_claims(
        [renewal_of(each) for each in given]
    ),
    "release": lambda store, given: store.release_instances(
        [Release(claim=claim_of(each), delay=HOUR) for each in given]
    ),
    "retry": ends_with(None),
    **{each.value: ends_with(each) for each in Outcome},
    "delete": lambda store, given: store.finish_instances(
        [end_of(each, deletes=True) for each in given]
    ),
}
FEW = pytest.mark.parametrize("few", [1, 7])


@FEW
@pytest.mark.parametrize("write", WRITES)
def test_of_many_instances_those_that_are_locked_are_busy_and_the_others_done(
    rig: Locks, few: int, write: str
) -> None:
    given = rig.many(MANY, ahead=HOUR if write == "start" else ZERO)
    aside = given[::13][:few]
    call = WRITES[write]
    with rig.locked(INSTANCES, ids(aside)):
        answer = call(rig.store, given)
        assert_divided(answer, given, ids(aside))
    # They are as they were, and others see so while they are locked.
    assert [rig.store.get_instance(each.id) for each in aside] == aside
    assert_divided(call(rig.store, aside), aside, [])


@FEW
def test_of_many_fires_those_of_locked_definitions_are_busy(
    rig: Locks, few: int
) -> None:
    read = rig.defined(MANY)
    aside = read[::11][:few]
    later = START + HOUR
    with rig.locked(DEFINITIONS, ids(aside)):
        answer = rig.fire_all(read, next_fire_time=later)
        assert_divided(answer, read, ids(aside))
    due = rig.store.select_definitions(DefinitionFilter(ids=ids(aside)))
    assert {each.next_fire_time for each in due} == {START}
    assert_divided(rig.fire_all(aside, next_fire_time=later), aside, [])
    assert counts_by_state(rig.store)[State.PENDING] == MANY


@FEW
class TestLockedRows:
    """Of many rows some are locked: those keep no other waiting."""

    def test_ends_that_a_locked_definition_waits_for(
        self, rig: Locks, few: int
    ) -> None:
        given = rig.many(20, trigger=WAITING)
        plain = rig.many(5)
        both = [*given, *plain]
        with rig.with_definitions_locked([*given[:few], *plain]):
            answer = rig.store.finish_instances([end_of(each) for each in both])
            assert_divided(answer, both, ids(given[:few]))
        for each in given[:few]:
            assert rig.finish(each, next_fire_time=START + HOUR)
            found = rig.store.get_definition(each.definition.id)
            assert found.next_fire_time == START + HOUR

    def test_takeovers(self, rig: Locks, few: int) -> None:
        given = rig.many(20)
        aside = ids(given[:few])
        rig.advance(LEASE)
        with rig.locked(INSTANCES, aside):
            taken = rig.claim(lapsed=True)
            assert sorted(ids(taken)) == sorted({*ids(given)} - {*aside})
        assert sorted(ids(rig.claim(lapsed=True))) == sorted(aside)

    def test_claims_of_what_a_locked_definition_has(self, rig: Locks, few: int) -> None:
        given = rig.made(20)
        aside = ids(given[:few])
        with rig.with_definitions_locked(given[:few]):
            # A claim that met the lock is made anew, and may skip what it had taken.
            taken = [*ids(rig.claim()), *ids(rig.claim())]
            assert {*taken} >= {*ids(given)} - {*aside}
        taken += ids(rig.claim())
        assert sorted(taken) == sorted(ids(given))

    def test_takeovers_of_what_a_locked_definition_has(
        self, rig: Locks, few: int
    ) -> None:
        given = rig.many(20)
        rig.advance(LEASE)
        with rig.with_definitions_locked(given[:few]):
            # A claim that met the lock is made anew, and may skip what it had taken.
            taken = [*rig.claim(lapsed=True), *rig.claim(lapsed=True)]
        assert sorted(ids(taken)) == sorted(ids(given))

    def test_starts_in_slots_of_what_a_locked_definition_has(
        self, rig: Locks, few: int
    ) -> None:
        later = START + HOUR
        read = rig.store.put_definitions(
            [definition(later, lock=str(each)) for each in range(8)]
        ).definitions
        rig.fire_all(read)
        held = rig.claim(ahead=HOUR)
        with rig.locked(DEFINITIONS, ids(read[:few])):
            answer = rig.store.start_instances(claimant(), [claim_of(e) for e in held])
        assert_divided(answer, held, [])

    def test_starts_of_what_a_locked_definition_has(self, rig: Locks, few: int) -> None:
        given = rig.many(20, ahead=HOUR)
        with rig.with_definitions_locked(given[:few]):
            answer = rig.store.start_instances(claimant(), [claim_of(e) for e in given])
            assert_divided(answer, given, [])
            listed = rig.store.list_claimed(NODE)
        assert {each.id: each.definition for each in answer.done} == {
            each.id: each.definition for each in given
        }
        assert sorted(ids(listed)) == sorted(ids(given))

    def test_what_is_due_and_what_a_node_has_claimed(
        self, rig: Locks, few: int
    ) -> None:
        held = rig.many(20)
        aside = ids(held[:few])
        read = rig.defined(20)
        with (
            rig.locked(INSTANCES, aside),
            rig.locked(DEFINITIONS, ids(read[:few])),
        ):
            due = rig.store.due_definitions(ahead=ZERO, limit=MANY)
            listed = {*ids(rig.store.list_claimed(NODE))}
        assert {each.id: each for each in due} == {each.id: each for each in read}
        assert {*ids(held)} - {*aside} <= listed <= {*ids(held)}

    def test_contents_that_nobody_has_read_yet(self, rig: Locks, few: int) -> None:
        given = rig.made(20)
        rig.store._reader._contents = ContentsCache()
        definitions = [each.definition.id for each in given[:few]]
        with rig.transaction() as connection:
            connection.execute(
                b"UPDATE task_contents SET name = 'half-written' WHERE key IN"
                b" (SELECT key FROM task_definitions WHERE id = ANY(%s))",
                [definitions],
            )
            # A claim that met the lock is made anew, and may skip what it had taken.
            taken = [*rig.claim(), *rig.claim()]
        assert {each.id: each.definition for each in taken} == {
            each.id: each.definition for each in given
        }

    def test_cleanup(self, rig: Locks, few: int) -> None:
        given = rig.many(20)
        for each in given:
            assert rig.finish(each)
        rig.advance(MINUTE)
        aside = given[:few]
        with rig.locked(INSTANCES, ids(aside)):
            deleted = rig.clean_up(older_than=ZERO, limit=MANY)
            assert deleted == 2 * (len(given) - few)
        rig.advance(MINUTE)
        with rig.with_definitions_locked(aside):
            assert rig.clean_up(older_than=ZERO, limit=MANY) == few
        assert rig.clean_up(older_than=ZERO, limit=MANY) == few


def test_a_locked_row_does_not_end_a_cleanup(
    rig: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "_BATCH", 10)
    read = rig.defined(40)
    rig.fire_all(read, next_fire_time=START + 1000 * HOUR)
    given = rig.run_due(Outcome.COMPLETED)
    rig.advance(MINUTE)
    kept = Retention(ended=ZERO, failed=ZERO, remembered=HOUR)
    ticking = cleanup.Cleanup(rig.store, kept, Shares(NODE, 1))
    with rig.locked(INSTANCES, [given[0].id]):
        while ticking.tick() is not None:
            pass
    assert ids(rig.store.select()) == [given[0].id]


def test_what_is_locked_and_was_lost_is_lost(rig: Locks) -> None:
    stale, gone, mine = (rig.running() for _ in range(3))
    assert rig.finish(gone, Outcome.CANCELLED)
    assert rig.finish(stale, None)
    waiting = rig.put(definition(START + HOUR))
    moved = rig.put(definition(START + HOUR))
    rig.fire(moved, START, next_fire_time=START + 2 * HOUR)
    given = [stale, gone, mine]
    claims = [claim_of(each) for each in given]
    with (
        rig.locked(INSTANCES, ids(given)),
        rig.locked(DEFINITIONS, ids([waiting, moved])),
    ):
        answers: list[Answer[Collection[object]]] = [
            rig.store.start_instances(claimant(), claims),
            rig.store.renew_claims([renewal_of(each) for each in given]),
            rig.store.release_instances([Release(claim=each) for each in claims]),
            rig.store.finish_instances(
                [end_of(each, Outcome.FAILED) for each in given]
            ),
        ]
        fired = rig.fire_all([waiting, moved])
        late = rig.store.finish_instances([end_of(stale), end_of(gone)])
    for each in answers:
        assert (not each.done, each.busy) == (True, {mine.id})
    assert (fired.done, fired.busy) == (set(), {waiting.id})
    # A success counts though the claim was lost.
    assert (late.done, late.busy) == (set(), {stale.id})


def test_the_end_of_an_instance_without_its_definition_is_written_by_itself(
    rig: Locks,
) -> None:
    orphan, other = (rig.running(definition(trigger=WAITING)) for _ in range(2))
    with rig.transaction() as hand:
        hand.execute(
            "UPDATE task_instances SET definition_key = gen_random_uuid()"
            " WHERE id = %s",
            [orphan.id],
        )
        hand.commit()
    with rig.locked(INSTANCES, [other.id]):
        # Nobody can say whether its definition is locked, or missing.
        both = rig.store.finish_instances([end_of(orphan), end_of(other)])
        alone = rig.store.finish_instances([end_of(orphan)])
    assert (both.done, both.busy) == (set(), {orphan.id, other.id})
    assert (alone.done, alone.busy) == ({orphan.id}, set())


@pytest.mark.parametrize("outcome", [Outcome.FAILED, None])
def test_a_run_that_is_repeated_does_not_wait_for_its_definition(
    rig: Locks, outcome: Outcome | None
) -> None:
    instance, other = (rig.running(definition(trigger=WAITING)) for _ in range(2))
    with (
        rig.locked(INSTANCES, [other.id]),
        rig.with_definitions_locked([instance]),
    ):
        answer = rig.store.finish_instances([end_of(instance, outcome), end_of(other)])
    busy = {other.id} if outcome is None else {instance.id, other.id}
    assert answer.busy == busy


def test_an_instance_that_somebody_has_made_and_not_committed_delays_no_other(
    rig: Locks,
) -> None:
    given = rig.defined(MANY)
    made = given[13]
    with rig.made_by_hand([made.id]):
        answer = rig.fire_all(given)
        assert_divided(answer, given, [made.id])
    assert rig.fire_all([made]).done == {made.id}


def test_what_waits_beside_a_locked_instance_keeps_no_other_from_its_turn(
    rig: Locks,
) -> None:
    [busy, _] = [rig.excluded(lock) for lock in "ab"]
    rig.advance(MINUTE)
    settle(rig.store)
    with rig.locked(INSTANCES, [busy.id]):
        found = [rig.store.review_parked(limit=2) for _ in range(4)]
        assert [len(each.skipped) for each in found] == [0, 2, 0, 0]
        assert all(each.more for each in found)
    found = [rig.store.review_parked(limit=2) for _ in range(6)]
    assert sum(len(each.skipped) for each in found) == 2
    assert not found[-1].more


def test_what_met_one_that_has_just_ended_is_skipped_whoever_has_the_slot_since(
    rig: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = rig.excluded("a")
    rig.advance(MINUTE)
    rig.fire(rig.put(replace(definition(), lock="a")))
    [next_one] = rig.claim()

    def others_go_on_meanwhile(*given: Any) -> object:
        monkeypatch.undo()
        found = rig.store._find_parked(*given)
        assert rig.finish(runs)
        assert rig.start(next_one)
        settle(rig.store)
        return found

    monkeypatch.setattr(rig.store, "_find_parked", others_go_on_meanwhile)
    assert len(rig.store.review_parked(limit=10).skipped) == 2


def test_of_many_locks_only_some_are_waited_for(
    rig: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = rig.defined(MANY)
    run, waits = rig.store._statements.run, []

    def counting(*args: Any, **how: Any) -> Sequence[Any]:
        waits.append(args)
        return run(*args, **how)

    monkeypatch.setattr(rig.store._statements, "run", counting)
    with rig.made_by_hand(ids(given)):
        answer = rig.fire_all(given)
    assert_divided(answer, given, ids(given))
    assert len(waits) < MANY / 5


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_claim_that_meets_a_lock_for_a_moment_is_made_again(rig: Locks) -> None:
    read = rig.put()
    rig.fire(read)
    engine = rig.store._database._engines[Lane.BY_TIME]
    # For a second from now on a claim looks for no other priorities.
    assert rig.claim(queues=["another"]) == []
    with rig.transaction() as connection:
        connection.execute("LOCK TABLE task_instances")

        def let_go(_: object) -> None:
            connection.rollback()

        event.listen(engine, "handle_error", let_go)
        [instance] = rig.claim()
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
    rig: Locks,
    error: type[psycopg.Error],
    raised: type[StoreError],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, other = rig.running(), rig.running()
    write = rig.store._statements.run

    def failing_later(*args: Any, **how: Any) -> Sequence[Any]:
        monkeypatch.undo()
        try:
            return write(*args, **how)
        finally:
            fails.__enter__()

    fails = failing_statements(rig.store, share=1, error=error)
    monkeypatch.setattr(rig.store._statements, "run", failing_later)
    with rig.locked(INSTANCES, [other.id]), pytest.raises(raised):
        rig.store.finish_instances([end_of(run), end_of(other)])
    fails.__exit__(None, None, None)
    assert rig.store.get_instance(other.id) == other


def assert_divided(
    answer: Answer[Any],
    given: Sequence[TaskInstance | TaskDefinition],
    locked: Collection[UUID],
) -> None:
    """The locked ones are busy, and all others done."""
    assert {*answer.busy} == {*locked}
    done = {getattr(each, "id", each) for each in answer.done}
    assert done == {*ids(given)} - {*locked}


def test_only_what_is_called_by_hand_waits_for_a_lock(rig: Locks) -> None:
    longest = {
        lane: rig.store._database.run(
            lane, lambda each: each.exec_driver_sql("SHOW lock_timeout").scalar_one()
        )
        for lane in Lane
    }
    users = {longest.pop(lane) for lane in (Lane.BY_HAND, Lane.NEW)}
    assert users <= {"1500ms", "1500"}
    assert {*longest.values()} <= {"10ms", "10"}
