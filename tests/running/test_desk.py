"""The desk: runs elsewhere are claimed, kept and ended by the rules of those here."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar
from uuid import uuid4

import pytest

from go_scheduler import (
    ConfigurationError,
    DelayTrigger,
    Extension,
    MemoryStore,
    RetryPolicy,
    StoreError,
    StoreUnavailableError,
    Trigger,
)
from go_scheduler.client import Client
from go_scheduler.events import (
    DefinitionCompleted,
    Event,
    InstanceFinished,
    InstanceGivenBack,
    InstanceRetried,
    RunEnded,
    RunFailed,
    RunTimedOut,
    TriggerFailed,
)
from go_scheduler.models import Outcome, State
from go_scheduler.running.calling.error_text import ERROR_LIMIT
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.desk import Desk, Extending, Failing, Success, result_text
from go_scheduler.running.keeper import GRACE
from go_scheduler.stores.messages import Answer, Claim
from go_scheduler.testing.builders import (
    EXPIRE_AFTER,
    HOUR,
    LEASE,
    MINUTE,
    NOBODY,
    OTHER_NODE,
    SECOND,
    TICK,
    at_once,
    cancel,
    claim,
    claim_of,
    claimant,
    definition,
    ended,
    finish,
    hand_on,
    ids,
    passed_on,
    pending,
    running,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.settling import settle
from go_scheduler.triggers import UnknownTrigger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence, Set
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Release, Renewal, RunOutcome
    from go_scheduler.testing import ManualClock

DEFAULTS = Defaults(expire_after=EXPIRE_AFTER)
ONCE = RetryPolicy(max_attempts=1)


@pytest.fixture
def told() -> list[Event]:
    """What the desk has told."""
    return []


@pytest.fixture
def desk(store: Store, told: list[Event]) -> Desk:
    def tell(event: Event) -> None:
        # It says again, in one line, what the others say.
        if not isinstance(event, RunEnded):
            told.append(event)

    return Desk(store, defaults=DEFAULTS, tell=tell)


def handed_on(store: Store, **values: object) -> TaskInstance:
    """An instance whose run has been handed on for an hour."""
    instance = running(store, replace(definition(), **values))  # type: ignore[arg-type]
    hand_on(store, instance, lease=HOUR)
    return store.get_instance(instance.id)


class TestClaim:
    def test_due_instances_are_claimed_and_started(
        self, store: Store, desk: Desk
    ) -> None:
        due, later = pending(store), pending(store, definition(START + SECOND))
        settle(store)
        [run] = desk.claim(claimant(), limit=10)
        assert (run.id, run.state, run.runs) == (due.id, State.RUNNING, 1)
        assert run.expires_at == START + LEASE
        assert store.get_instance(later.id).state is State.PENDING
        assert desk.claim(claimant(), limit=10) == []

    def test_two_desks_never_claim_the_same(self, store: Store, desk: Desk) -> None:
        pending(store)
        settle(store)
        other = Desk(store, defaults=DEFAULTS, tell=print)
        found = at_once(
            lambda: desk.claim(claimant(), limit=10),
            lambda: other.claim(claimant(OTHER_NODE), limit=10),
        )
        assert sorted(len(each) for each in found) == [0, 1]

    def test_what_has_lapsed_is_taken_over_if_that_is_asked_for(
        self, store: Store, clock: ManualClock, desk: Desk
    ) -> None:
        lapsed = handed_on(store)
        clock.advance(HOUR)
        assert desk.claim(claimant(OTHER_NODE), limit=1) == []
        [run] = desk.claim(claimant(OTHER_NODE), limit=1, lapsed=timedelta(0))
        assert (run.id, run.attempt) == (lapsed.id, lapsed.attempt + 1)

    def test_what_may_not_run_any_more_is_ended(
        self, store: Store, clock: ManualClock, desk: Desk
    ) -> None:
        worn, unwanted = handed_on(store, retry=ONCE), handed_on(store)
        cancel(store, unwanted)
        clock.advance(HOUR)
        assert desk.claim(claimant(), limit=10, lapsed=timedelta(0)) == []
        assert store.get_instance(worn.id).state is State.FAILED
        assert store.get_instance(unwanted.id).state is State.CANCELLED

    def test_what_cannot_be_read_is_given_back(
        self, store: Store, clock: ManualClock, desk: Desk
    ) -> None:
        unknown = UnknownTrigger("martian", {}, "no imported class has it")
        given = pending(store, replace(definition(), trigger=unknown))
        settle(store)
        assert desk.claim(claimant(), limit=10) == []
        found = store.get_instance(given.id)
        assert (found.state, found.runs) == (State.PENDING, 0)
        assert found.due_at > START


class TestExtend:
    def test_a_run_that_is_extended_goes_on(
        self, store: Store, clock: ManualClock, desk: Desk
    ) -> None:
        run = handed_on(store)
        clock.advance(MINUTE)
        assert desk.extend(claim_of(run), HOUR) is Extension.GO_ON
        clock.advance(HOUR - TICK)
        assert claim(store, OTHER_NODE, lapsed=True) == []
        clock.advance(TICK)
        assert ids(claim(store, OTHER_NODE, lapsed=True)) == [run.id]
        assert desk.extend(claim_of(run), HOUR) is Extension.LOST

    def test_a_run_whose_timeout_has_passed_has_failed_and_is_lost(
        self, store: Store, clock: ManualClock, desk: Desk, told: list[Event]
    ) -> None:
        retry = RetryPolicy(max_attempts=2)
        run, last = (
            handed_on(store, timeout=MINUTE, retry=each) for each in (retry, ONCE)
        )
        other = handed_on(store, timeout=HOUR)
        clock.advance(MINUTE - TICK)
        given = [
            Extending(claim=claim_of(run), by=HOUR),
            Extending(claim=claim_of(last), by=HOUR, instance=last),
            Extending(claim=claim_of(other), by=SECOND),
        ]
        assert desk.extend_all(given) == [Extension.GO_ON] * 3
        clock.advance(TICK)
        assert desk.extend_all(given) == [Extension.LOST] * 2 + [Extension.GO_ON]
        again, over = store.get_instance(run.id), store.get_instance(last.id)
        assert (again.state, over.state) == (State.PENDING, State.FAILED)
        assert again.error == over.error
        assert str(again.error).startswith("timed out after 0:01:00")
        timed_out = [each for each in told if isinstance(each, RunTimedOut)]
        found = [(each.instance_id, each.timeout, each.ended) for each in timed_out]
        assert found == [(run.id, MINUTE, True), (last.id, MINUTE, True)]
        told.clear()
        assert desk.extend_all(given)[:2] == [Extension.LOST] * 2
        assert desk.complete(claim_of(run))
        assert not any(isinstance(each, RunTimedOut) for each in told)

    def test_a_claim_holds_little_longer_than_its_timeout(
        self, store: Store, clock: ManualClock, desk: Desk
    ) -> None:
        run = running(store, replace(definition(), timeout=HOUR))
        assert run.started_at is not None
        assert desk.extend(claim_of(run), 2 * HOUR) is Extension.GO_ON
        assert store.get_instance(run.id).expires_at == run.started_at + HOUR + GRACE

    def test_what_its_node_keeps_for_longer_is_kept_no_shorter(
        self, store: Store, desk: Desk
    ) -> None:
        run = running(store, definition())
        assert desk.extend(claim_of(run), TICK) is Extension.GO_ON
        assert store.get_instance(run.id).expires_at == run.expires_at

    def test_a_run_that_is_cancelled_is_told_to_stop(
        self, store: Store, desk: Desk
    ) -> None:
        run = handed_on(store)
        cancel(store, run)
        assert desk.extend(claim_of(run), HOUR) is Extension.STOP
        assert desk.fail(claim_of(run), "stopped")
        over = store.get_instance(run.id)
        assert (over.state, over.error) == (State.CANCELLED, "stopped")
        assert desk.extend(claim_of(run), HOUR) is Extension.LOST

    def test_the_run_of_a_deleted_definition_is_lost(
        self, store: Store, desk: Desk
    ) -> None:
        run = handed_on(store)
        store.delete_definitions([run.definition.id])
        assert desk.extend(claim_of(run), HOUR) is Extension.LOST

    def test_an_unknown_instance_is_lost(self, store: Store, desk: Desk) -> None:
        nobodys = replace(claim_of(handed_on(store)), instance_id=NOBODY)
        assert desk.extend(nobodys, HOUR) is Extension.LOST


class TestComplete:
    def test_a_success_ends_the_instance(
        self, store: Store, clock: ManualClock, desk: Desk, told: list[Event]
    ) -> None:
        run = handed_on(store)
        clock.advance(MINUTE)
        assert desk.complete(claim_of(run))
        over = store.get_instance(run.id)
        assert (over.state, over.completed_at) == (State.COMPLETED, START + MINUTE)
        assert (over.started_at, over.ended_attempt) == (START, run.attempt)
        [event] = told
        assert isinstance(event, InstanceFinished)
        assert (event.instance_id, event.took) == (run.id, MINUTE)

    def test_a_success_may_be_said_again(
        self, store: Store, desk: Desk, told: list[Event]
    ) -> None:
        run = handed_on(store)
        assert desk.complete(claim_of(run))
        assert desk.complete(claim_of(run))
        assert len(told) == 1

    def test_the_success_of_an_old_attempt_counts_if_it_is_the_first(
        self, store: Store, clock: ManualClock, desk: Desk
    ) -> None:
        run = handed_on(store)
        clock.advance(HOUR)
        [second] = claim(store, OTHER_NODE, lapsed=True)
        assert desk.complete(claim_of(run))
        assert store.get_instance(run.id).ended_attempt == run.attempt
        assert not desk.complete(claim_of(second))

    def test_a_success_makes_good_a_failure(
        self, store: Store, desk: Desk, told: list[Event]
    ) -> None:
        run = handed_on(store, retry=ONCE)
        assert desk.fail(claim_of(run), "no")
        assert store.get_instance(run.id).state is State.FAILED
        assert desk.complete(claim_of(run))
        assert store.get_instance(run.id).state is State.COMPLETED
        failed, *finished = told
        assert isinstance(failed, RunFailed)
        assert [each.outcome for each in finished] == [  # type: ignore[attr-defined]
            Outcome.FAILED,
            Outcome.COMPLETED,
        ]

    def test_a_success_counts_while_the_instance_waits_to_run_again(
        self, store: Store, clock: ManualClock, desk: Desk
    ) -> None:
        waiting = waiting_for_retry(store, retry_in=HOUR)
        clock.advance(MINUTE)
        assert desk.complete(claim_of(waiting))
        assert store.get_instance(waiting.id).started_at == START + MINUTE

    def test_no_success_counts_of_what_was_cancelled_or_is_gone(
        self, store: Store, desk: Desk, told: list[Event]
    ) -> None:
        over = ended(store, outcome=Outcome.CANCELLED)
        assert not desk.complete(claim_of(over))
        assert not desk.complete(replace(claim_of(over), instance_id=NOBODY))
        assert store.get_instance(over.id) == over
        assert told == []

    def test_of_two_that_complete_at_once_each_learns_who_did(
        self, store: Store, clock: ManualClock, desk: Desk
    ) -> None:
        first, second = passed_on(store, clock)
        found = at_once(
            lambda: desk.complete(claim_of(first)),
            lambda: desk.complete(claim_of(second)),
        )
        ended_by = store.get_instance(first.id).ended_attempt
        assert found == [ended_by == first.attempt, ended_by == second.attempt]

    def test_a_definition_that_waits_for_the_end_goes_on(
        self, store: Store, clock: ManualClock, desk: Desk
    ) -> None:
        run = handed_on(store, trigger=DelayTrigger(HOUR))
        clock.advance(MINUTE)
        assert desk.complete(claim_of(run))
        found = store.get_definition(run.definition.id)
        assert found.next_fire_time == START + MINUTE + HOUR

    def test_a_definition_that_waits_and_fires_no_more_is_told_of(
        self, store: Store, desk: Desk, told: list[Event]
    ) -> None:
        run = handed_on(store, trigger=Waiting(again=False))
        assert desk.complete(claim_of(run))
        assert [type(each) for each in told] == [InstanceFinished, DefinitionCompleted]

    def test_a_trigger_that_fails_at_the_end_is_told_of(
        self, store: Store, desk: Desk, told: list[Event]
    ) -> None:
        run = handed_on(store, trigger=Waiting(again=True))
        assert desk.complete(claim_of(run))
        assert [type(each) for each in told] == [TriggerFailed, InstanceFinished]
        found = store.get_definition(run.definition.id)
        assert found.next_fire_time == START + MINUTE


class TestBatches:
    def test_successes_with_their_rows_are_one_call_to_the_store(
        self, clock: ManualClock, told: list[Event]
    ) -> None:
        store = CountingStore(clock)
        given = [running(store) for _ in range(3)]
        clock.advance(MINUTE)
        desk = Desk(store, defaults=DEFAULTS, tell=told.append, now=clock.now)
        store.calls.clear()
        ended = [
            Success(claim=claim_of(each), instance=each, result=f'"ä{number}"')
            for number, each in enumerate(given)
        ]
        assert desk.complete_all(ended) == [True] * 3
        assert store.calls == ["finish_instances"]
        found = [store.get_instance(each.id) for each in given]
        assert [each.result for each in found] == ["ä0", "ä1", "ä2"]
        assert {each.started_at for each in found} == {START}
        assert [type(each) for each in told] == [RunEnded, InstanceFinished] * 3
        took = [each.took for each in told if isinstance(each, InstanceFinished)]
        assert took == [MINUTE] * 3

    def test_what_is_not_known_is_read_by_one_call_for_all(
        self, clock: ManualClock, told: list[Event]
    ) -> None:
        store = CountingStore(clock)
        given = [running(store) for _ in range(3)]
        desk = Desk(store, defaults=DEFAULTS, tell=told.append, now=clock.now)
        claims = [*map(claim_of, given), Claim(instance_id=uuid4(), attempt=1)]
        store.calls.clear()
        kept = desk.extend_all([Extending(claim=each, by=HOUR) for each in claims])
        assert kept == [Extension.GO_ON] * 3 + [Extension.LOST]
        assert store.calls == ["find_instances"]
        done = desk.complete_all([Success(claim=each) for each in claims])
        assert done == [True] * 3 + [False]
        assert store.calls == ["find_instances"] * 2 + ["finish_instances"]

    def test_failures_with_their_rows_are_one_call_to_the_store(
        self, clock: ManualClock, told: list[Event]
    ) -> None:
        store = CountingStore(clock)
        given = [running(store) for _ in range(2)]
        desk = Desk(store, defaults=DEFAULTS, tell=told.append, now=clock.now)
        store.calls.clear()
        ended = [
            Failing(claim=claim_of(given[0]), error="no", instance=given[0]),
            Failing(
                claim=claim_of(given[1]), error="nö", retry=False, instance=given[1]
            ),
        ]
        assert desk.fail_all(ended) == [True, True]
        assert store.calls == ["finish_instances"]
        found = [store.get_instance(each.id) for each in given]
        assert [each.state for each in found] == [State.PENDING, State.FAILED]
        assert [each.error for each in found] == ["no", "nö"]

    def test_each_learns_what_came_of_it_in_its_place(
        self, store: Store, clock: ManualClock, desk: Desk
    ) -> None:
        first, second = passed_on(store, clock)
        over = ended(store, outcome=Outcome.CANCELLED)
        good = handed_on(store)
        gone = replace(claim_of(good), instance_id=NOBODY)
        claims = [claim_of(each) for each in (over, first, good, second)]
        given = [Success(claim=each) for each in [gone, *claims, claims[1]]]
        answers = desk.complete_all(given)
        assert answers == [False, False, True, True, False, True]
        late = [Failing(claim=each, error="late") for each in claims]
        assert desk.fail_all(late) == [False] * 4
        assert store.get_instance(first.id).ended_attempt == first.attempt

    def test_the_success_of_an_old_attempt_counts_beside_the_row_of_a_new_one(
        self, store: Store, clock: ManualClock, desk: Desk
    ) -> None:
        first, second = passed_on(store, clock)
        old = Success(claim=claim_of(first), instance=second, result="1")
        assert desk.complete_all([old]) == [True]
        found = store.get_instance(first.id)
        assert (found.ended_attempt, found.result) == (first.attempt, 1)

    def test_a_definition_that_waits_goes_on_by_the_row_alone(
        self, clock: ManualClock
    ) -> None:
        store = CountingStore(clock)
        run = running(store, definition(trigger=DelayTrigger(HOUR)))
        desk = Desk(store, defaults=DEFAULTS, tell=print, now=clock.now)
        store.calls.clear()
        assert desk.complete_all([Success(claim=claim_of(run), instance=run)]) == [True]
        assert store.calls == ["finish_instances"]
        found = store.get_definition(run.definition.id)
        assert found.next_fire_time == START + HOUR

    def test_claims_are_extended_together(
        self, store: Store, clock: ManualClock, desk: Desk
    ) -> None:
        first, second = passed_on(store, clock)
        asked = handed_on(store)
        cancel(store, asked)
        given = [
            Extending(claim=claim_of(each), by=by)
            for each, by in [
                (first, HOUR),
                (second, HOUR),
                (asked, 2 * HOUR),
                (second, 2 * HOUR),
            ]
        ]
        assert desk.extend_all(given) == [
            Extension.LOST,
            Extension.GO_ON,
            Extension.STOP,
            Extension.GO_ON,
        ]
        now = clock.now()
        assert store.get_instance(second.id).expires_at == now + 2 * HOUR
        assert store.get_instance(asked.id).expires_at == now + 2 * HOUR

    def test_nothing_is_nothing(self, store: Store, desk: Desk) -> None:
        assert desk.complete_all([]) == desk.fail_all([]) == desk.extend_all([]) == []

    @pytest.mark.parametrize("error", [StoreError("bad row"), ValueError("bad row")])
    def test_what_cannot_be_written_costs_only_itself(
        self, clock: ManualClock, error: Exception
    ) -> None:
        store = RefusingStore(clock, error)
        given = [running(store) for _ in range(5)]
        store.refused = given[3].id
        desk = Desk(store, defaults=DEFAULTS, tell=print)
        extended = desk.extend_all(
            [Extending(claim=claim_of(each), by=HOUR) for each in given]
        )
        answers = desk.complete_all([Success(claim=claim_of(each)) for each in given])
        good = [0, 1, 2, 4]
        assert [answers[number] for number in good] == [True] * 4
        assert [extended[number] for number in good] == [Extension.GO_ON] * 4
        for bad in (answers[3], extended[3]):
            assert isinstance(bad, StoreError)
            assert "bad row" in str(bad)
        with pytest.raises(StoreError, match="bad row"):
            desk.complete(claim_of(given[3]))

    def test_what_is_locked_is_asked_again(self, clock: ManualClock) -> None:
        store = BusyStore(clock)
        given = [running(store) for _ in range(2)]
        store.busy = given[1].id
        desk = Desk(store, defaults=DEFAULTS, tell=print)
        done, locked = desk.complete_all(
            [Success(claim=claim_of(each)) for each in given]
        )
        assert done is True
        assert isinstance(locked, StoreUnavailableError)

    def test_whose_success_came_first_is_looked_up(self, clock: ManualClock) -> None:
        store = MeanwhileStore(clock)
        first, second = passed_on(store, clock)
        gone = running(store)
        desk = Desk(store, defaults=DEFAULTS, tell=print)

        def meanwhile() -> None:
            assert finish(store, first)
            store.delete_definitions([gone.definition.id])

        store.meanwhile = meanwhile
        given = [
            Success(claim=claim_of(each), instance=each) for each in (gone, second)
        ]
        assert desk.complete_all(given) == [False, False]
        again = Success(claim=claim_of(first), instance=second)
        assert desk.complete_all([again, *given]) == [True, False, False]


class CountingStore(MemoryStore):
    """Notes what a desk may call."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.calls: list[str] = []

    def now(self) -> datetime:
        self.calls.append("now")
        return super().now()

    def get_instance(self, instance_id: UUID) -> TaskInstance:
        self.calls.append("get_instance")
        return super().get_instance(instance_id)

    def find_instances(self, ids: Collection[UUID]) -> Mapping[UUID, TaskInstance]:
        self.calls.append("find_instances")
        return {each.id: each for each in self.list_instances() if each.id in ids}

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        self.calls.append("finish_instances")
        return super().finish_instances(outcomes)


class MeanwhileStore(MemoryStore):
    """Others write first, once."""

    meanwhile: Callable[[], None] | None = None

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        if (meanwhile := self.meanwhile) is not None:
            self.meanwhile = None
            meanwhile()
        return super().finish_instances(outcomes)


class RefusingStore(MemoryStore):
    """Takes no batch with one instance in it."""

    def __init__(self, clock: ManualClock, error: Exception) -> None:
        super().__init__(clock)
        self._error = error
        self.refused = NOBODY

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        self._check(outcomes)
        return super().finish_instances(outcomes)

    def renew_claims(self, renewals: Sequence[Renewal]) -> Answer[Mapping[UUID, bool]]:
        self._check(renewals)
        return super().renew_claims(renewals)

    def _check(self, given: Sequence[RunOutcome] | Sequence[Renewal]) -> None:
        if any(each.claim.instance_id == self.refused for each in given):
            raise self._error


class BusyStore(MemoryStore):
    """Has one instance locked."""

    busy = NOBODY

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        free = [each for each in outcomes if each.claim.instance_id != self.busy]
        answer = super().finish_instances(free)
        return Answer(done=answer.done, busy={self.busy})


class TestResultText:
    @pytest.mark.parametrize("value", [{"ä": [1, None]}, [], "", 0, False])
    def test_a_value_is_written_as_json(self, value: object) -> None:
        text = result_text(value)
        assert text is not None
        assert json.loads(text) == value

    def test_of_none_nothing_is_kept(self) -> None:
        assert result_text(None) is None

    @pytest.mark.parametrize(
        "value",
        ["a" * 65_535, "\0", "\ud800", float("nan"), object(), {1: 2}, {"a": [b"b"]}],
    )
    def test_what_no_store_can_keep_is_refused(self, value: object) -> None:
        with pytest.raises(ConfigurationError, match="result"):
            result_text(value)


@dataclass(frozen=True)
class Waiting(Trigger):
    """Waits for the end of its one run, and then fails or fires no more."""

    kind: ClassVar[str] = "desk test"
    waits: ClassVar[bool] = True
    again: bool

    def first_fire_time(self, now: datetime) -> datetime | None:
        return now

    def next_fire_time(self, after: datetime) -> datetime | None:
        if self.again and after >= START:
            raise ValueError("not again")
        return None


class TestFail:
    def test_what_failed_runs_again_by_its_policy(
        self, store: Store, clock: ManualClock, desk: Desk, told: list[Event]
    ) -> None:
        run = handed_on(store, retry=RetryPolicy.after_expiry())
        clock.advance(MINUTE)
        assert desk.fail(claim_of(run), "no answer")
        waiting = store.get_instance(run.id)
        assert (waiting.state, waiting.error) == (State.PENDING, "no answer")
        assert waiting.due_at == START + EXPIRE_AFTER
        assert [type(each) for each in told] == [RunFailed, InstanceRetried]
        assert claim(store) == []
        clock.advance(EXPIRE_AFTER - MINUTE)
        assert ids(claim(store)) == [run.id]

    def test_the_definitions_own_time_counts(self, store: Store, desk: Desk) -> None:
        run = handed_on(store, expire_after=HOUR)
        assert desk.fail(claim_of(run), "no")
        assert store.get_instance(run.id).due_at == START + HOUR

    def test_the_last_failure_ends_the_instance(
        self, store: Store, desk: Desk, told: list[Event]
    ) -> None:
        run = handed_on(store, retry=ONCE)
        assert desk.fail(claim_of(run), "no")
        assert store.get_instance(run.id).state is State.FAILED
        assert [type(each) for each in told] == [RunFailed, InstanceFinished]

    def test_a_late_failure_changes_nothing(
        self, store: Store, clock: ManualClock, desk: Desk, told: list[Event]
    ) -> None:
        first, second = passed_on(store, clock)
        assert not desk.fail(claim_of(first), "late")
        assert not desk.fail(replace(claim_of(second), instance_id=NOBODY), "whose")
        assert store.get_instance(second.id) == second
        assert told == []

    def test_the_failure_of_what_failed_already_changes_nothing(
        self, store: Store, desk: Desk
    ) -> None:
        run = handed_on(store)
        assert desk.fail(claim_of(run), "no")
        assert not desk.fail(claim_of(run), "again")
        assert store.get_instance(run.id).error == "no"

    def test_an_error_is_kept_as_every_store_can(
        self, store: Store, desk: Desk
    ) -> None:
        run = handed_on(store)
        assert desk.fail(claim_of(run), "long " * ERROR_LIMIT + "\0 \udcff")
        error = store.get_instance(run.id).error
        assert error is not None
        assert (len(error), error[-11:]) == (ERROR_LIMIT, "\\x00 \\udcff")


class TestRelease:
    def test_what_is_given_back_runs_elsewhere_and_counts_no_run(
        self, store: Store, desk: Desk, told: list[Event]
    ) -> None:
        run = handed_on(store)
        assert desk.release(claim_of(run), delay=timedelta(0), reason="it is full")
        assert not desk.release(claim_of(run), delay=timedelta(0), reason="no")
        [event] = told
        assert isinstance(event, InstanceGivenBack)
        assert (event.instance_id, event.attempt) == (run.id, run.attempt)
        assert event.reason == "it is full"
        [second] = claim(store, OTHER_NODE)
        assert (second.id, second.runs) == (run.id, 1)
        assert store.list_claimed(OTHER_NODE) == [second]

    def test_what_is_gone_is_given_back_by_nobody(
        self, store: Store, desk: Desk
    ) -> None:
        gone = replace(claim_of(handed_on(store)), instance_id=NOBODY)
        assert not desk.release(gone, delay=timedelta(0), reason="no")

    def test_it_may_wait_before(
        self, store: Store, clock: ManualClock, desk: Desk
    ) -> None:
        run = handed_on(store)
        assert desk.release(claim_of(run), delay=MINUTE, reason="no")
        assert claim(store) == []
        clock.advance(MINUTE)
        assert ids(claim(store)) == [run.id]


class LockedStore(MemoryStore):
    """A store in which somebody else has locked every instance."""

    def renew_claims(self, renewals: Sequence[Renewal]) -> Answer[Mapping[UUID, bool]]:
        busy = {each.claim.instance_id for each in renewals}
        return Answer(done={}, busy=busy)

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        busy = {each.claim.instance_id for each in outcomes}
        return Answer(done=frozenset(), busy=busy)

    def release_instances(self, releases: Sequence[Release]) -> Answer[Set[UUID]]:
        busy = {each.claim.instance_id for each in releases}
        return Answer(done=frozenset(), busy=busy)


def test_what_is_locked_is_to_be_asked_again(clock: ManualClock) -> None:
    store = LockedStore(clock)
    run = running(store)
    client = Client(store)
    for call in (
        lambda: client.extend(run.id, run.attempt, HOUR),
        lambda: client.complete(run.id, run.attempt),
        lambda: client.fail(run.id, run.attempt, "no"),
        lambda: client.release(run.id, run.attempt),
    ):
        with pytest.raises(StoreUnavailableError, match=f"{run.id}: another trans"):
            call()
    assert store.get_instance(run.id) == run


class OvertakenStore(MemoryStore):
    """Has the end of a run recorded a moment before it is asked to."""

    def __init__(self, clock: ManualClock, outcome: Outcome) -> None:
        super().__init__(clock)
        self._outcome = outcome

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        super().finish_instances(
            [replace(each, outcome=self._outcome) for each in outcomes]
        )
        return super().finish_instances(outcomes)


@pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.CANCELLED])
def test_of_two_that_complete_one_attempt_at_once_both_learn_that_it_is(
    clock: ManualClock, outcome: Outcome
) -> None:
    store = OvertakenStore(clock, outcome)
    run = running(store)
    is_completed = outcome is Outcome.COMPLETED
    assert Client(store).complete(run.id, run.attempt) is is_completed


def test_a_client_does_all_of_it(store: Store) -> None:
    client = Client(store)
    first, second, third = (handed_on(store) for _ in range(3))
    assert client.extend(first.id, first.attempt, HOUR) is Extension.GO_ON
    assert client.complete(first.id, first.attempt)
    assert client.fail(second.id, second.attempt, "no")
    assert client.release(third.id, third.attempt)
    assert not client.release(third.id, third.attempt)
    assert [store.get_instance(each.id).state for each in (first, second, third)] == [
        State.COMPLETED,
        State.PENDING,
        State.PENDING,
    ]
