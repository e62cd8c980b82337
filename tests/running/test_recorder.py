"""The recorder: what became of each run is written, sooner or later, and once."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

import pytest

from go_scheduler.clock import ZERO, StoreClock
from go_scheduler.errors import (
    ConfigurationError,
    StoreError,
    StoreUnavailableError,
)
from go_scheduler.models import Outcome, State, TaskInstance
from go_scheduler.policies import Overlap, RetryPolicy
from go_scheduler.run import HandedOn
from go_scheduler.running.calling.error_text import ERROR_LIMIT, describe_error
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.held import HeldRun
from go_scheduler.running.outcomes import Decision, Failure
from go_scheduler.running.recorder import Recorder
from go_scheduler.stores.base import TransactionalStore
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import RunOutcome
from go_scheduler.testing.builders import (
    EXPIRE_AFTER,
    NODE,
    WAITING,
    claim,
    claimed,
    clean_up,
    definition,
    finish,
    pending,
    running,
    start,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.base import Trigger
from tests.conftest import seconds
from tests.running.wakes import noted_wakes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set
    from uuid import UUID

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.base import JoinedStore
    from go_scheduler.stores.messages import Answer, Release
    from go_scheduler.testing import ManualClock

GAP = timedelta(milliseconds=3)
MINUTE = timedelta(minutes=1)
ASIDE = timedelta(seconds=1)


class FaultyStore(MemoryStore):
    """Refuses what it is told to, and notes how it is written to."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.away = False
        self.releases_fail = False
        self.answer_lost = False
        self.bad: set[UUID] = set()
        self.locked: set[UUID] = set()
        self.finished: list[int] = []
        self.released: list[int] = []

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        ids = [each.claim.instance_id for each in outcomes]
        self._check(ids)
        free = [each for each in outcomes if each.claim.instance_id not in self.locked]
        accepted = super().finish_instances(free)
        self.finished.append(len(outcomes))
        if self.answer_lost:
            raise StoreUnavailableError("the answer is lost")
        return replace(accepted, busy=self.locked.intersection(ids))

    def release_instances(self, releases: Sequence[Release]) -> Answer[Set[UUID]]:
        ids = [each.claim.instance_id for each in releases]
        self._check(ids)
        if self.releases_fail:
            raise StoreUnavailableError("away")
        self.released.append(len(releases))
        free = [each for each in releases if each.claim.instance_id not in self.locked]
        accepted = super().release_instances(free)
        return replace(accepted, busy=self.locked.intersection(ids))

    def _check(self, ids: Sequence[UUID]) -> None:
        assert len(set(ids)) == len(ids)
        if self.away:
            raise StoreUnavailableError("away")
        if not self.bad.isdisjoint(ids):
            raise StoreError("a bad row")


class JoiningStore(FaultyStore, TransactionalStore):
    """A connection is the word for how its transaction ends, which it does at once."""

    def join(
        self, connection: object, *, committed: Callable[[], None] | None = None
    ) -> JoinedStore:
        return self

    def finish_instance_in(self, connection: object, outcome: RunOutcome) -> bool:
        if connection == "commit":
            return MemoryStore.finish_instances(self, [outcome]).done != set()
        return True


class Desk:
    """A recorder, and what it said to the others."""

    def __init__(self, store: FaultyStore, clock: StoreClock) -> None:
        self.recorded = 0
        self.freed: list[bool] = []
        self.recorder = Recorder(
            store,
            clock,
            defaults=Defaults(),
            max_hangs=3,
            recorded=self._has_recorded,
            slot_freed=lambda: self.freed.append(True),
        )
        self.tick = self.recorder.tick
        self._wakes = noted_wakes(self.recorder.ticker)

    @property
    def wakes(self) -> int:
        return len(self._wakes)

    def _has_recorded(self) -> None:
        self.recorded += 1


@pytest.fixture
def store(clock: ManualClock) -> JoiningStore:
    return JoiningStore(clock)


@pytest.fixture
def desk(store: FaultyStore, store_clock: StoreClock) -> Desk:
    return Desk(store, store_clock)


def called(
    store: FaultyStore, clock: ManualClock, of: TaskDefinition | None = None
) -> HeldRun:
    """The run of a new instance, whose handler has just been called."""
    run = HeldRun(running(store, of), expire_after=EXPIRE_AFTER)
    run.begin(clock.elapsed(), store.now(), lambda: None)
    return run


def refused(run: HeldRun, outcome: Outcome, error: str | None = None) -> Decision:
    return Decision(RunOutcome(claim=run.claim, outcome=outcome, error=error))


def now(store: FaultyStore, run: HeldRun) -> TaskInstance:
    return store.get_instance(run.instance.id)


def test_success_is_recorded(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    run = called(store, clock)
    clock.advance(seconds(3))
    desk.recorder.succeed(run)
    assert desk.recorder.unrecorded == 1
    assert desk.tick() is None
    ended = now(store, run)
    assert ended.state is State.COMPLETED
    assert ended.started_at == START
    assert ended.completed_at == START + seconds(3)
    assert desk.recorder.unrecorded == 0
    assert desk.recorded == 1


def test_after_a_failure_it_runs_again_when_expire_after_has_passed_since_it_began(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    run = called(store, clock, definition(expire_after=seconds(60)))
    clock.advance(seconds(10))
    desk.recorder.fail(run, Failure("why"))
    desk.tick()
    waiting = now(store, run)
    assert waiting.state is State.PENDING
    assert waiting.due_at == START + seconds(60)
    assert waiting.error == "why"
    assert waiting.runs == 1


def test_after_its_last_allowed_run_it_has_failed(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    once = replace(definition(), retry=RetryPolicy(max_attempts=1))
    run = called(store, clock, once)
    desk.recorder.fail(run, Failure("why"))
    desk.tick()
    assert (now(store, run).state, now(store, run).error) == (State.FAILED, "why")


def test_why_a_run_failed_and_what_follows_is_logged(
    desk: Desk,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = called(store, clock, definition(name="report", expire_after=seconds(60)))
    once = replace(definition(), retry=RetryPolicy(max_attempts=1))
    last = called(store, clock, once)
    desk.recorder.fail(first, Failure("why"))
    desk.recorder.fail(last, Failure("why not"))
    again, failed = caplog.records
    assert again.levelname == "WARNING"
    assert again.getMessage() == (
        f"instance {first.instance.id} of report: attempt 1 has failed and runs again"
        " in 0:01:00: why"
    )
    assert vars(again)["definition_id"] == str(first.instance.definition.id)
    assert failed.levelname == "ERROR"
    assert failed.getMessage() == (
        f"instance {last.instance.id} of {last.instance.definition.id}: attempt 1 has"
        " failed for good: why not"
    )


def test_of_many_failures_five_a_second_are_logged(
    desk: Desk,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs = [called(store, clock) for _ in range(9)]
    desk.tick()
    for run in runs[:7]:
        desk.recorder.fail(run, Failure("why"))
        desk.tick()
    assert len(caplog.records) == 5
    clock.advance(seconds(1))
    desk.tick()
    assert caplog.records[-1].getMessage() == "2 more such lines were left out"
    desk.recorder.fail(runs[7], Failure("why"))
    assert len(caplog.records) == 7


def test_what_was_left_behind_and_fails_is_given_back_and_said(
    desk: Desk,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    twice = replace(definition(name="report"), retry=RetryPolicy(max_attempts=2))
    run, cancelled = called(store, clock, twice), called(store, clock)
    desk.recorder.leave_behind()
    desk.recorder.fail(run, Failure("the pool is closed"))
    cancelled.cancel_requested = True
    desk.recorder.fail(cancelled, Failure("stopped"))
    desk.tick()
    given_back = now(store, run)
    assert (given_back.state, given_back.runs) == (State.PENDING, 0)
    assert given_back.due_at == START
    assert now(store, cancelled).state is State.CANCELLED
    assert caplog.messages == [
        f"instance {run.instance.id} of report: attempt 1 was left behind, has failed"
        " and is given back: the pool is closed"
    ]


def test_what_is_to_be_tried_once_is_not_given_back_when_it_was_left_behind(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    once = replace(definition(), retry=RetryPolicy(max_attempts=1))
    run = called(store, clock, once)
    desk.recorder.leave_behind()
    desk.recorder.fail(run, Failure("the pool is closed"))
    desk.tick()
    failed = now(store, run)
    assert (failed.state, failed.runs) == (State.FAILED, 1)
    assert failed.error == "the pool is closed"


def test_a_run_that_raises_after_it_was_asked_to_stop_is_cancelled(
    desk: Desk,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = called(store, clock)
    run.cancel_requested = True
    desk.recorder.fail(run, Failure("stopped"))
    desk.tick()
    assert now(store, run).state is State.CANCELLED
    assert caplog.records == []


def test_a_run_that_returns_although_it_was_asked_to_stop_has_succeeded(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    run = called(store, clock)
    run.cancel_requested = True
    desk.recorder.succeed(run)
    desk.tick()
    assert now(store, run).state is State.COMPLETED


def test_what_is_not_to_be_called_ends_without_a_run(
    desk: Desk, store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    run = HeldRun(running(store), expire_after=EXPIRE_AFTER)
    desk.recorder.refuse(run, refused(run, Outcome.FAILED, "too often"))
    desk.tick()
    assert "has failed for good: too often" in caplog.text
    ended = now(store, run)
    assert (ended.state, ended.error) == (State.FAILED, "too often")
    assert (ended.runs, ended.started_at) == (0, None)


def test_what_is_given_back_can_be_claimed_after_its_delay(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    at_once = HeldRun(claimed(store), expire_after=EXPIRE_AFTER)
    later = HeldRun(running(store), expire_after=EXPIRE_AFTER)
    desk.recorder.release(at_once, "a test")
    desk.recorder.release(later, "a test", delay=seconds(8))
    desk.tick()
    assert now(store, at_once).due_at == at_once.instance.due_at
    assert now(store, later).due_at == START + seconds(8)
    assert now(store, later).runs == 0


def test_it_writes_at_once_when_idle_and_gathers_when_busy(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    runs = [called(store, clock) for _ in range(12)]
    desk.recorder.succeed(runs[0])
    assert desk.tick() is None
    for run in runs[1:11]:
        desk.recorder.succeed(run)
    assert desk.tick() == GAP
    clock.advance(GAP / 3)
    assert desk.tick() == GAP - GAP / 3
    clock.advance(GAP - GAP / 3)
    assert desk.tick() is None
    assert store.finished == [1, 10]
    clock.advance(GAP)
    desk.recorder.succeed(runs[11])
    assert desk.tick() is None
    assert store.finished == [1, 10, 1]


def test_one_write_takes_at_most_five_hundred(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    runs = [called(store, clock) for _ in range(501)]
    for run in runs:
        desk.recorder.succeed(run)
    assert desk.wakes == 1
    assert desk.tick() == GAP
    assert desk.recorder.unrecorded == 1
    clock.advance(GAP)
    assert desk.tick() is None
    assert store.finished == [500, 1]


def test_with_nothing_to_write_it_writes_nothing(
    desk: Desk, store: FaultyStore
) -> None:
    assert desk.tick() is None
    assert (store.finished, store.released, desk.recorded) == ([], [], 0)


def test_what_gathers_during_a_write_wakes_it_again(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    first, second = called(store, clock), called(store, clock)
    desk.recorder.succeed(first)
    assert desk.wakes == 1
    desk.recorder._outbox._written = lambda: desk.recorder.succeed(second)
    assert desk.tick() == GAP
    assert desk.wakes == 2


def test_no_end_is_left_unannounced_when_another_is_written_before_its_wake(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    class Interrupted(deque[object]):
        """Its writer is interrupted by the recorder's thread right after an append."""

        def append(self, end: object) -> None:
            super().append(end)
            desk.tick()

    first, second = called(store, clock), called(store, clock)
    desk.recorder._outbox._pending = Interrupted()  # type: ignore[assignment]
    desk.recorder.succeed(first)
    desk.recorder._outbox._pending = deque()
    desk.tick()
    wakes = desk.wakes
    desk.recorder.succeed(second)
    assert desk.wakes == wakes + 1


def test_a_bad_row_costs_only_itself_and_is_tried_again_soon(
    desk: Desk,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs = [called(store, clock) for _ in range(7)]
    store.bad = {runs[3].instance.id}
    for run in runs:
        desk.recorder.succeed(run)
    assert desk.tick() == ASIDE
    assert sum(now(store, run).state is State.COMPLETED for run in runs) == 6
    assert desk.recorder.unrecorded == 1
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert str(runs[3].instance.id) in caplog.text
    assert "next try in 1 s" in caplog.text
    for delay in (1, 2, 4, 8, 10):
        clock.advance(seconds(delay) / 4)
        assert desk.tick() == seconds(delay) * 3 / 4
        clock.advance(seconds(delay) * 3 / 4)
        assert desk.tick() == min(seconds(delay) * 2, seconds(10))
    store.bad = set()
    clock.advance(seconds(10))
    assert desk.tick() is None
    assert now(store, runs[3]).state is State.COMPLETED
    assert desk.recorder.unrecorded == 0


def test_a_locked_row_is_left_aside_at_once_and_tried_again_soon(
    desk: Desk,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs = [called(store, clock) for _ in range(4)]
    given_back = [HeldRun(claimed(store), expire_after=EXPIRE_AFTER) for _ in range(3)]
    store.locked = {runs[3].instance.id, given_back[0].instance.id}
    for run in runs:
        desk.recorder.succeed(run)
    for run in given_back:
        desk.recorder.release(run, "a test")
    assert desk.tick() == seconds(0.1)
    assert (store.finished, store.released) == ([4], [3])
    assert sum(now(store, run).state is State.COMPLETED for run in runs) == 3
    assert desk.recorder.unrecorded_runs() == [runs[3], given_back[0]]
    assert (desk.recorder.unrecorded, desk.recorder.backlog) == (2, 0)
    for delay, following in ((0.1, 0.2), (0.2, 0.4), (0.4, 0.8), (0.8, 1), (1, 1)):
        clock.advance(seconds(delay))
        assert desk.tick() == seconds(following)
    assert store.finished == [4, 1, 1, 1, 1, 1]
    assert len(caplog.records) == 2
    assert "another transaction has locked it" in caplog.text
    store.locked.clear()
    clock.advance(seconds(1))
    assert desk.tick() is None
    assert now(store, runs[3]).state is State.COMPLETED
    assert now(store, given_back[0]).state is State.PENDING
    assert desk.recorder.unrecorded == 0


def test_what_is_new_is_written_apart_from_what_is_tried_again(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    bad, good = called(store, clock), called(store, clock)
    store.bad = {bad.instance.id}
    desk.recorder.succeed(bad)
    desk.tick()
    clock.advance(seconds(1))
    desk.recorder.succeed(good)
    desk.tick()
    assert store.finished == [1]
    assert now(store, good).state is State.COMPLETED


def test_beyond_a_thousand_what_is_left_aside_keeps_the_node_from_claiming(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    runs = [called(store, clock) for _ in range(1002)]
    store.locked = {run.instance.id for run in runs}
    for run in runs:
        desk.recorder.succeed(run)
    for _ in range(3):
        desk.tick()
        clock.advance(GAP)
    assert (desk.recorder.unrecorded, desk.recorder.backlog) == (1002, 2)


def test_two_ends_of_one_instance_are_written_one_after_the_other(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    run, other = called(store, clock), called(store, clock)
    desk.recorder.give_up(run, "presumed hung")
    desk.recorder.succeed(other)
    desk.recorder.succeed(run)
    desk.tick()
    assert store.finished == [2, 1]
    done = now(store, run)
    assert (done.state, done.hangs) == (State.COMPLETED, 1)


@pytest.mark.parametrize("order", [1, -1])
def test_what_two_runs_of_one_instance_leave_ends_with_the_first_success(
    desk: Desk,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    order: int,
) -> None:
    old = called(store, clock)
    clock.advance(EXPIRE_AFTER)
    [again] = claim(store, lapsed=True)
    new = HeldRun(again, expire_after=EXPIRE_AFTER)
    new.begin(clock.elapsed(), store.now(), lambda: None)
    first, second = (old, new)[::order]
    desk.recorder.succeed(first)
    desk.recorder.succeed(second)
    desk.tick()
    done = now(store, old)
    assert done.state is State.COMPLETED
    assert done.ended_attempt == first.claim.attempt
    [record] = caplog.records
    assert f"attempt {second.claim.attempt} is discarded" in record.getMessage()


def test_a_run_presumed_hung_counts_as_a_hang_and_its_instance_runs_again(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    run = called(store, clock)
    clock.advance(EXPIRE_AFTER)
    desk.recorder.give_up(run, "presumed hung")
    desk.tick()
    waiting = now(store, run)
    assert (waiting.state, waiting.hangs) == (State.PENDING, 1)
    assert waiting.due_at == store.now()


def hang(desk: Desk, store: FaultyStore, clock: ManualClock) -> HeldRun:
    """Runs, and is presumed hung."""
    run = HeldRun(claim(store)[0], expire_after=EXPIRE_AFTER)
    run.begin(clock.elapsed(), store.now(), lambda: None)
    clock.advance(EXPIRE_AFTER)
    desk.recorder.give_up(run, "no result: presumed hung")
    desk.tick()
    return run


def test_after_three_hangs_in_a_row_it_has_failed_as_hanging_unless_one_succeeds(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    pending(store, replace(definition(), retry=RetryPolicy(max_attempts=None)))
    first, _, last = [hang(desk, store, clock) for _ in range(3)]
    failed = now(store, last)
    assert (failed.state, failed.runs, failed.hangs) == (State.FAILED, 3, 3)
    assert failed.error == (
        "hanging: 3 runs in a row had no end; no result: presumed hung"
    )
    clock.advance(GAP)
    desk.recorder.succeed(first)
    desk.tick()
    done = now(store, last)
    assert (done.state, done.ended_attempt) == (State.COMPLETED, 1)


def test_without_a_bound_on_hangs_it_runs_as_often_as_its_policy_allows(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    desk.recorder._max_hangs = None
    pending(store, replace(definition(), retry=RetryPolicy(max_attempts=4)))
    runs = [hang(desk, store, clock) for _ in range(3)]
    assert now(store, runs[0]).state is State.PENDING
    hang(desk, store, clock)
    assert now(store, runs[0]).state is State.FAILED


def test_that_a_run_hung_is_not_reported_as_a_lost_result(
    desk: Desk,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = called(store, clock)
    desk.recorder.give_up(run, "presumed hung")
    finish(store, run.instance)
    caplog.clear()
    desk.tick()
    assert caplog.records == []


def test_a_bad_row_that_is_given_back_costs_only_itself(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    runs = [HeldRun(claimed(store), expire_after=EXPIRE_AFTER) for _ in range(3)]
    store.bad = {runs[1].instance.id}
    for run in runs:
        desk.recorder.release(run, "a test")
    assert desk.tick() == ASIDE
    states = [now(store, run).state for run in runs]
    assert states == [State.PENDING, State.CLAIMED, State.PENDING]


def test_a_bad_row_waits_its_time_also_within_the_gap(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    run = called(store, clock)
    store.bad = {run.instance.id}
    desk.recorder.succeed(run)
    desk.tick()
    clock.advance(GAP / 3)
    assert desk.tick() == ASIDE - GAP / 3


def test_while_the_store_is_away_outcomes_are_kept_in_their_order(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    runs = [called(store, clock) for _ in range(4)]
    store.away = True
    for run in runs[:2]:
        desk.recorder.succeed(run)
    for _ in range(3):
        with pytest.raises(StoreUnavailableError):
            desk.tick()
    for run in runs[2:]:
        desk.recorder.succeed(run)
    assert desk.recorder.unrecorded == 4
    assert desk.recorded == 0
    kept = [end.record.claim for end in desk.recorder._outbox._pending]
    assert kept == [run.claim for run in runs]
    store.away = False
    assert desk.tick() is None
    assert store.finished == [4]
    assert desk.recorder.unrecorded == 0


def test_a_lost_result_is_reported(
    desk: Desk,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = called(store, clock)
    clock.advance(EXPIRE_AFTER)
    claim(store, lapsed=True)
    desk.recorder.fail(run, Failure("why"))
    caplog.clear()
    desk.tick()
    assert "the result of attempt 1 is discarded" in caplog.text
    assert caplog.records[0].__dict__["instance_id"] == str(run.instance.id)
    assert now(store, run).state is State.RUNNING


def test_many_lost_results_are_a_few_lines(
    desk: Desk,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs = [called(store, clock) for _ in range(50)]
    store.delete_definitions([run.instance.definition.id for run in runs])
    for run in runs:
        desk.recorder.succeed(run)
    desk.tick()
    assert len(caplog.records) == 5


def test_a_result_whose_answer_was_lost_is_not_reported_as_lost(
    desk: Desk,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = called(store, clock)
    store.answer_lost = True
    desk.recorder.succeed(run)
    with pytest.raises(StoreUnavailableError):
        desk.tick()
    store.answer_lost = False
    desk.tick()
    assert now(store, run).state is State.COMPLETED
    assert caplog.messages == []


def test_after_a_lost_answer_the_store_is_asked_about_a_few_results_only(
    desk: Desk,
    store: FaultyStore,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs = [called(store, clock) for _ in range(50)]
    store.answer_lost = True
    for run in runs:
        desk.recorder.succeed(run)
    with pytest.raises(StoreUnavailableError):
        desk.tick()
    store.answer_lost = False
    asked = []

    def get(instance_id: UUID) -> TaskInstance:
        asked.append(instance_id)
        return MemoryStore.get_instance(store, instance_id)

    monkeypatch.setattr(store, "get_instance", get)
    desk.tick()
    assert (len(asked), desk.recorder.unrecorded) == (10, 0)
    assert caplog.messages == []


@pytest.mark.parametrize("deleted", [False, True])
def test_a_result_that_was_lost_during_an_outage_is_reported(
    desk: Desk,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    *,
    deleted: bool,
) -> None:
    run = called(store, clock)
    store.away = True
    desk.recorder.fail(run, Failure("why"))
    with pytest.raises(StoreUnavailableError):
        desk.tick()
    store.away = False
    clock.advance(EXPIRE_AFTER)
    if deleted:
        store.delete_definitions([run.instance.definition.id])
        clean_up(store, older_than=ZERO, limit=10)
    else:
        claim(store, lapsed=True)
    desk.tick()
    assert "is discarded" in caplog.text


def test_what_was_written_before_the_store_went_away_is_not_reported_as_lost(
    desk: Desk,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended = called(store, clock)
    given_back = HeldRun(claimed(store), expire_after=EXPIRE_AFTER)
    store.releases_fail = True
    desk.recorder.succeed(ended)
    desk.recorder.release(given_back, "a test")
    with pytest.raises(StoreUnavailableError):
        desk.tick()
    assert desk.recorder.unrecorded == 1
    store.releases_fail = False
    desk.tick()
    assert now(store, ended).state is State.COMPLETED
    assert now(store, given_back).state is State.PENDING
    assert caplog.messages == []


def joined(desk: Desk, run: HeldRun, transaction: str) -> HeldRun:
    """The run, once its handler has called ``complete_in``."""
    run.joined = True
    assert desk.recorder.complete_in(run, transaction)
    return run


def test_after_its_transaction_has_committed_nothing_is_recorded_or_reported(
    desk: Desk,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = joined(desk, called(store, clock), "commit")
    clock.advance(seconds(3))
    desk.recorder.succeed(run)
    desk.tick()
    done = now(store, run)
    assert (done.state, done.error) == (State.COMPLETED, None)
    assert done.completed_at == START
    assert caplog.records == []
    assert desk.recorder.unrecorded == 0


def test_what_fails_after_its_transaction_has_committed_is_reported(
    desk: Desk,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = joined(desk, called(store, clock), "commit")
    desk.recorder.fail(run, Failure("why"))
    desk.tick()
    assert now(store, run).state is State.COMPLETED
    [record] = caplog.records
    assert record.levelname == "ERROR"
    assert record.getMessage().endswith("is completed, but failed afterwards: why")
    assert record.__dict__["attempt"] == 1


@pytest.mark.parametrize("error", [None, "why"])
def test_a_run_whose_transaction_did_not_commit_has_failed(
    desk: Desk, store: FaultyStore, clock: ManualClock, error: str | None
) -> None:
    run = joined(desk, called(store, clock), "roll back")
    if error is None:
        desk.recorder.succeed(run)
    else:
        desk.recorder.fail(run, Failure(error))
    desk.tick()
    failed = now(store, run)
    reason = "the transaction of complete_in() was not committed"
    assert failed.state is State.PENDING
    assert failed.error == (reason if error is None else f"{reason}\n\n{error}")


@pytest.mark.parametrize("transaction", ["commit", "roll back"])
def test_a_run_that_is_given_up_in_its_transaction_hangs_unless_that_commits(
    desk: Desk, store: FaultyStore, clock: ManualClock, transaction: str
) -> None:
    run = joined(desk, called(store, clock), transaction)
    desk.recorder.give_up(run, "presumed hung")
    desk.tick()
    found = now(store, run)
    if transaction == "commit":
        assert (found.state, found.hangs) == (State.COMPLETED, 0)
    else:
        assert (found.state, found.hangs) == (State.PENDING, 1)


@pytest.mark.parametrize("answer_lost", [False, True])
def test_that_it_did_not_commit_is_logged_when_that_is_known(
    desk: Desk,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    answer_lost: bool,
) -> None:
    run = joined(desk, called(store, clock), "roll back")
    desk.recorder.succeed(run)
    assert caplog.records == []
    if answer_lost:
        store.answer_lost = True
        with pytest.raises(StoreUnavailableError):
            desk.tick()
        store.answer_lost = False
    desk.tick()
    [record] = caplog.records
    assert "attempt 1 has failed and runs again in" in record.getMessage()


def test_a_commit_is_found_out_also_when_the_store_fails_meanwhile(
    desk: Desk,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = joined(desk, called(store, clock), "commit")
    desk.recorder.succeed(run)
    store.away = True
    with pytest.raises(StoreUnavailableError):
        desk.tick()
    store.away = False
    store.bad.add(run.instance.id)
    assert desk.tick() == ASIDE
    caplog.clear()
    store.bad.clear()
    clock.advance(ASIDE)
    desk.tick()
    assert now(store, run).state is State.COMPLETED
    assert caplog.records == []
    assert desk.recorder.unrecorded == 0


def test_a_run_that_lost_its_claim_after_a_rollback_is_reported_as_any_other(
    desk: Desk,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = joined(desk, called(store, clock), "roll back")
    clock.advance(2 * MINUTE)
    [taken] = claim(store, lapsed=True)
    desk.recorder.succeed(run)
    desk.tick()
    assert now(store, run).attempt == taken.attempt
    [record] = caplog.records
    assert "is discarded, its claim is lost" in record.getMessage()


def test_ordinary_ends_are_written_before_those_that_a_transaction_may_lock(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    first = joined(desk, called(store, clock), "roll back")
    second, given_back = called(store, clock), called(store, clock)
    desk.recorder.succeed(first)
    desk.recorder.succeed(second)
    desk.recorder.release(given_back, "a test")
    store.bad.add(first.instance.id)
    desk.tick()
    assert store.finished == [1]
    assert store.released == [1]
    assert now(store, second).state is State.COMPLETED


def test_a_store_without_transactions_completes_in_none(
    store_clock: StoreClock, clock: ManualClock
) -> None:
    store = FaultyStore(clock)
    run = called(store, clock)
    with pytest.raises(ConfigurationError, match="FaultyStore takes part in no"):
        Desk(store, store_clock).recorder.complete_in(run, "commit")
    assert now(store, run).state is State.RUNNING


def test_called_runs_count_as_recently_ended_and_what_was_given_back_does_not(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    later = called(store, clock)
    for run in [called(store, clock) for _ in range(3)]:
        desk.recorder.succeed(run)
    desk.recorder.fail(called(store, clock), Failure("why"))
    desk.recorder.release(HeldRun(claimed(store), expire_after=EXPIRE_AFTER), "a test")
    uncalled = HeldRun(running(store), expire_after=EXPIRE_AFTER)
    desk.recorder.refuse(uncalled, refused(uncalled, Outcome.CANCELLED))
    desk.tick()
    assert desk.recorder.written_since(ZERO) == 4
    clock.advance(seconds(1))
    desk.recorder.succeed(later)
    desk.tick()
    assert desk.recorder.written_since(ZERO) == 5
    assert desk.recorder.written_since(seconds(1)) == 1
    assert desk.recorder.written_since(ZERO) == 1


def test_a_run_that_is_handed_on_has_freed_its_worker(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    run = called(store, clock)
    desk.recorder.hand_on(run, HandedOn())
    assert desk.recorder.claims() == [run.claim]
    desk.tick()
    assert desk.recorder.unrecorded == 0
    assert desk.recorder.written_since(ZERO) == 1
    assert now(store, run).expires_at == START + EXPIRE_AFTER
    assert store.list_claimed(NODE) == []


def test_the_end_of_a_run_tells_when_a_definition_that_waited_fires_next(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    run = called(store, clock, definition(trigger=WAITING))
    clock.advance(seconds(30))
    desk.recorder.succeed(run)
    desk.tick()
    waited = store.get_definition(run.instance.definition.id)
    assert waited.next_fire_time == START + seconds(30) + WAITING.every


class FailingTrigger(Trigger):
    """Waits for the end of each run, and then fails."""

    kind = "test_recorder failing"
    waits = True
    errors: ClassVar[type[BaseException]] = ValueError

    def next_fire_time(self, after: datetime) -> datetime | None:
        raise self.errors("broken")


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_trigger_that_fails_at_the_end_of_a_run_fires_again_in_a_minute(
    desk: Desk,
    store: FaultyStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
) -> None:
    monkeypatch.setattr(FailingTrigger, "errors", error)
    run = called(store, clock, definition(trigger=FailingTrigger()))
    desk.recorder.succeed(run)
    desk.tick()
    waited = store.get_definition(run.instance.definition.id)
    assert waited.next_fire_time == START + MINUTE
    assert str(waited.id) in caplog.text
    assert now(store, run).state is State.COMPLETED


class Mute(Exception):
    """Its text cannot be made."""

    def __str__(self) -> str:
        raise SystemExit("no text")


class Opaque(Exception):
    """Not even its traceback can be made."""

    @property
    def __cause__(self) -> BaseException | None:  # type: ignore[override]
        raise SystemExit("no cause")


class Odd(Exception):
    """Its text is one that no store can keep."""

    def __str__(self) -> str:
        return "nul \0 and surrogate \udc80"


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def test_an_error_is_described_by_its_traceback() -> None:
    text = describe_error(raised(ValueError("what went wrong")))
    assert text.startswith("Traceback")
    assert "in raised" in text
    assert text.endswith("ValueError: what went wrong\n")


def test_an_error_without_a_text_is_described_by_its_name() -> None:
    assert "Mute" in describe_error(raised(Mute()))
    assert describe_error(Opaque()) == "Opaque, whose text cannot be made"


def test_what_no_store_can_keep_is_escaped() -> None:
    assert r"nul \x00 and surrogate \udc80" in describe_error(raised(Odd()))


def test_of_a_long_error_the_end_is_kept() -> None:
    text = describe_error(raised(ValueError("x" * 2 * ERROR_LIMIT + "the end")))
    assert len(text) == ERROR_LIMIT
    assert text.endswith("the end\n")


@pytest.mark.parametrize(
    ("lock", "was_started", "frees"),
    [("disk", True, True), ("disk", False, False), (None, True, False)],
)
def test_what_is_given_back_uncalled_may_free_a_slot(
    desk: Desk,
    store: FaultyStore,
    *,
    lock: str | None,
    was_started: bool,
    frees: bool,
) -> None:
    given = claimed(store, replace(definition(START + seconds(1)), lock=lock))
    if was_started:
        [given] = start(store, given)
    desk.recorder.release(HeldRun(given, expire_after=EXPIRE_AFTER), "no worker")
    desk.tick()
    assert bool(desk.freed) == frees


def test_what_is_handed_on_keeps_its_slot(
    desk: Desk, store: FaultyStore, clock: ManualClock
) -> None:
    of = replace(definition(START + seconds(1)), overlap=Overlap.SKIP)
    [started] = start(store, claimed(store, of))
    desk.recorder.hand_on(HeldRun(started, expire_after=EXPIRE_AFTER), HandedOn())
    desk.tick()
    assert desk.freed == []
