"""Store suite: runs, here or on remote workers, are finished, retried, released."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.json import JSON, read_frozen, to_text
from go_scheduler.models import (
    RESULT_LIMIT,
    RUNS_KEPT,
    Cancelled,
    Outcome,
    RunEnd,
    Silence,
    Skipped,
    Stage,
    State,
)
from go_scheduler.policies import Overlap
from go_scheduler.stores.filters import Filter
from go_scheduler.stores.messages import Release
from go_scheduler.testing.builders import (
    HOUR,
    HOURLY,
    LEASE,
    MINUTE,
    NOBODY,
    NODE,
    OTHER_NODE,
    SECOND,
    TICK,
    WAITING,
    WORKER,
    Rig,
    StoreTests,
    at_once,
    check,
    claim_of,
    counts_by_state,
    definition,
    end_of,
    firing,
    ids,
    renewal_of,
    task,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.slots import (
    due_in_turn,
    excluding,
    go,
    is_parked,
    settled,
)
from go_scheduler.triggers.simple import DelayTrigger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from go_scheduler.models import TaskDefinition, TaskInstance


class FinishTests(StoreTests):
    """``finish_instances``, where a run ends under its claim."""

    def test_a_finished_instance_ends_now_and_keeps_its_owner(self, rig: Rig) -> None:
        given = {outcome: rig.running() for outcome in Outcome}
        rig.advance(SECOND)
        for outcome, instance in given.items():
            called = replace(instance, started_at=START + 7 * TICK)
            error = None if outcome is Outcome.SKIPPED else "line 1\nline 2"
            assert rig.finish(called, outcome, error=error)
            found = rig.read(instance)
            assert (found.outcome, found.state.value) == (outcome, outcome.value)
            check(found, completed_at=START + SECOND, error=error)
            check(found, started_at=START + 7 * TICK, claimed_by=NODE, attempt=1)
            check(found, runs=1, ended_attempt=1)

    def test_a_run_that_was_not_called_is_not_counted(self, rig: Rig) -> None:
        for instance in (rig.running(), rig.claimed()):
            assert rig.finish(instance, Outcome.CANCELLED, started_at=None)
            rig.check(instance, state=State.CANCELLED, runs=0, started_at=None)
            assert ends(rig, instance) == []

    def test_a_retry_is_pending_again_and_due_later(self, rig: Rig) -> None:
        instance = rig.running()
        rig.advance(SECOND)
        assert rig.finish(instance, None, retry_in=MINUTE, error="no")
        found = rig.read(instance)
        check(found, state=State.PENDING, due_at=START + SECOND + MINUTE)
        check(found, execute_at=START, claimed_by=None, started_at=None, outcome=None)
        check(found, completed_at=None, attempt=1, runs=1, error="no")
        check(found, ended_attempt=None)
        rig.advance(MINUTE - TICK)
        assert rig.claim() == []
        rig.advance(TICK)
        [again] = rig.claim(OTHER_NODE)
        check(again, id=instance.id, attempt=2, runs=2, started_at=found.due_at)

    def test_each_start_counts_one_run_and_the_last_error_stays(self, rig: Rig) -> None:
        instance = rig.running()
        for number, error in ((1, "one"), (2, "two"), (3, None)):
            assert (instance.attempt, instance.runs) == (number, number)
            assert rig.finish(instance, None, error=error)
            rig.check(instance, runs=number, error=error or "two")
            [instance] = rig.claim()
        skipped = {"started_at": None, "error": 'too "late"'}
        assert rig.finish(instance, Outcome.SKIPPED, **skipped)
        rig.check(instance, state=State.SKIPPED, error="two", runs=3, started_at=None)
        rig.check(instance, skipped=Skipped.itself(START, 'too "late"'))

    def test_hangs_are_counted_in_a_row(self, rig: Rig) -> None:
        rig.pending()
        counted = []
        for hung in (True, True, False, True):
            [instance] = rig.claim()
            counted.append(instance.hangs)
            assert rig.finish(instance, None, hung=hung)
        assert counted == [0, 1, 2, 0]
        assert rig.read(instance).hangs == 1

    def test_an_end_that_is_no_hang_keeps_the_count(self, rig: Rig) -> None:
        given = [rig.running() for _ in range(3)]
        for instance in given:
            assert rig.finish(instance, None, hung=True)
        last, other, given_back = rig.claim()
        assert rig.finish(last, Outcome.FAILED, hung=True)
        assert rig.finish(other, Outcome.COMPLETED)
        assert rig.release(given_back)
        found = [rig.read(each) for each in (last, other, given_back)]
        assert [each.hangs for each in found] == [2, 1, 1]


def succeeded(given: TaskInstance, at: datetime) -> TaskInstance:
    """The instance after the success of its first run, whoever has the claim now."""
    return replace(
        given,
        outcome=Outcome.COMPLETED,
        completed_at=at,
        ended_attempt=1,
        started_at=START,
    )


class SuccessTests(StoreTests):
    """``finish_instances``, where a run succeeds whose claim is not current."""

    def test_the_success_of_a_lost_run_ends_the_instance(self, rig: Rig) -> None:
        first, second = rig.passed_on()
        rig.advance(SECOND)
        assert rig.finish(first)
        done = succeeded(second, START + LEASE + SECOND)
        assert rig.read(first) == done
        # The second run has lost its claim.
        assert rig.renew(second) == {}
        assert rig.start(second) == []
        assert not rig.release(second)
        for outcome in (*Outcome, None):
            assert not rig.finish(second, outcome)
        rig.advance(LEASE)
        assert rig.claim(lapsed=True) == []
        assert rig.read(first) == done

    def test_a_success_ends_what_is_claimed_and_not_started(self, rig: Rig) -> None:
        first = rig.running()
        assert rig.finish(first, None, retry_in=MINUTE, hung=True, error="it hangs")
        [second] = rig.claim(OTHER_NODE, ahead=HOUR)
        assert rig.finish(first, result='"late"')
        rig.check(first, state=State.COMPLETED, attempt=2, runs=1, ended_attempt=1)
        rig.check(first, hangs=1, error="it hangs", result="late")
        assert rig.start(second) == []
        rig.advance(HOUR)
        assert rig.claim(lapsed=True) == []

    def test_a_success_makes_good_a_failure(self, rig: Rig) -> None:
        first, second = rig.passed_on()
        assert rig.finish(second, Outcome.FAILED, error="no")
        failed = rig.read(first)
        assert (failed.state, failed.ended_attempt) == (State.FAILED, 2)
        rig.advance(SECOND)
        assert rig.finish(first, result='"late"')
        found = rig.read(first)
        done = succeeded(failed, START + LEASE + SECOND)
        assert found == replace(done, result="late")
        assert counts_by_state(rig.store)[State.FAILED] == 0
        assert counts_by_state(rig.store)[State.COMPLETED] == 1

    def test_the_first_of_several_successes_wins(self, rig: Rig) -> None:
        first, second = rig.passed_on()
        rig.advance(LEASE)
        [third] = rig.claim(lapsed=True)
        assert rig.finish(second, result='"first"')
        for late in (first, third, second):
            assert not rig.finish(late, result='"late"')
        rig.check(first, ended_attempt=2, result="first")

    def test_two_runs_succeed_at_once_and_one_is_recorded(self, rig: Rig) -> None:
        first, second = rig.passed_on()
        by_first, by_second = at_once(
            partial(rig.finish, first), partial(rig.finish, second)
        )
        assert by_first != by_second
        assert rig.read(first).ended_attempt == (1 if by_first else 2)

    def test_a_failure_and_a_success_at_once_end_in_the_success(self, rig: Rig) -> None:
        first, second = rig.passed_on()
        succeeded, _ = at_once(
            partial(rig.finish, first), partial(rig.finish, second, Outcome.FAILED)
        )
        assert succeeded
        assert rig.read(first).state is State.COMPLETED

    def test_a_success_moves_a_definition_on_that_waits(self, rig: Rig) -> None:
        first, _ = rig.passed_on(definition(trigger=WAITING))
        assert rig.finish(first, next_fire_time=START + HOUR)
        rig.check(first.definition, next_fire_time=START + HOUR, completed_at=None)

    def test_the_success_of_what_failed_moves_nothing_on_again(self, rig: Rig) -> None:
        first, second = rig.passed_on(definition(trigger=WAITING))
        assert rig.finish(second, Outcome.FAILED, next_fire_time=START + MINUTE)
        rig.fire(rig.read(first.definition))
        assert rig.finish(first, next_fire_time=START + HOUR)
        rig.check(first.definition, next_fire_time=None, completed_at=None)


STAYS: Mapping[str, Mapping[str, Any]] = {
    "failed": {"outcome": Outcome.FAILED},
    "cancelled": {"outcome": Outcome.CANCELLED},
    "to be tried again": {"outcome": None},
    "skipped": {"outcome": Outcome.SKIPPED, "started_at": None, "error": "too late"},
    "with a result": {"result": '{"pages": 3}'},
    "with an error": {"error": "but"},
}


class DeletionTests(StoreTests):
    """``finish_instances``, where a success need not be kept."""

    def test_a_success_that_need_not_be_kept_is_deleted(self, rig: Rig) -> None:
        instance = rig.running()
        assert rig.finish(instance, deletes=True)
        assert rig.state_of(instance) is None
        assert sum(counts_by_state(rig.store).values()) == 0
        assert rig.instances(instance.definition) == []
        rig.advance(HOUR)
        assert rig.take_over() == []
        # Its definition has no instance left, and ends with the next cleanup.
        assert rig.clean_up() == 1

    def test_a_deleted_instance_has_no_second_end(self, rig: Rig) -> None:
        instance = rig.running()
        assert rig.finish(instance, deletes=True)
        for outcome in (*Outcome, None):
            assert not rig.finish(instance, outcome, deletes=True)
        assert rig.renew(instance) == {}
        assert rig.start(instance) == []
        assert not rig.release(instance)
        assert rig.cancel(instance) == {}
        assert rig.state_of(instance) is None

    @pytest.mark.parametrize("end", STAYS.values(), ids=STAYS)
    def test_what_is_no_plain_success_stays(
        self, rig: Rig, end: Mapping[str, Any]
    ) -> None:
        instance = rig.running()
        assert rig.finish(instance, deletes=True, **end)
        assert rig.state_of(instance) is not None

    def test_what_has_a_key_stays(self, rig: Rig) -> None:
        of = rig.put(task())
        first = rig.add(of, key="order 7")
        [instance] = rig.run_due(deletes=True)
        rig.check(instance, state=State.COMPLETED)
        assert rig.add(of, key="order 7").id == first.id

    def test_what_succeeds_at_a_second_attempt_stays_with_its_runs(
        self, rig: Rig
    ) -> None:
        instance = rig.waiting_for_retry()
        [again] = rig.run_due(deletes=True)
        rig.check(again, state=State.COMPLETED, ended_attempt=2)
        assert ends(rig, instance) == [(1, RunEnd.FAILED)]

    def test_what_was_claimed_before_stays(self, rig: Rig) -> None:
        released, unstarted, lapsed = rig.running(), rig.claimed(), rig.claimed()
        for each in (released, unstarted):
            assert rig.release(each)
        rig.advance(HOUR)
        again = rig.claim(lapsed=True)
        assert {each.id for each in again} == {released.id, unstarted.id, lapsed.id}
        for each in again:
            assert rig.finish(each, deletes=True)
            rig.check(each, state=State.COMPLETED, ended_attempt=2, error=None)

    def test_a_late_success_stays(self, rig: Rig) -> None:
        first, second = rig.passed_on()
        assert rig.finish(first, deletes=True)
        rig.check(first, state=State.COMPLETED, ended_attempt=1)
        assert not rig.finish(second, deletes=True)

    def test_the_success_of_what_has_failed_stays(self, rig: Rig) -> None:
        for error in ("no end", None):
            instance = rig.running()
            assert rig.finish(instance, Outcome.FAILED, hung=True, error=error)
            assert rig.finish(instance, deletes=True)
            rig.check(instance, state=State.COMPLETED, ended_attempt=1)
            assert ends(rig, instance) == [(1, RunEnd.HUNG)]

    def test_what_has_a_slot_stays_and_lets_go_of_it(self, rig: Rig) -> None:
        first, second = due_in_turn(rig)
        assert go(rig) == []
        assert is_parked(rig, second)
        assert rig.finish(first, deletes=True)
        rig.check(first, state=State.COMPLETED)
        assert ids(settled(rig).unparked) == [second.id]
        assert ids(go(rig)) == [second.id]

    def test_a_definition_that_waits_goes_on(self, rig: Rig) -> None:
        for at in (START + HOUR, None):
            instance = rig.running(definition(trigger=WAITING))
            assert rig.finish(instance, deletes=True, next_fire_time=at)
            ended_at = START if at is None else None
            rig.check(instance.definition, next_fire_time=at, completed_at=ended_at)
            assert rig.state_of(instance) is None

    def test_of_one_batch_some_are_deleted(self, rig: Rig) -> None:
        gone, other, stays, bad = given = [rig.running() for _ in range(4)]
        outcomes = [
            end_of(gone, deletes=True),
            end_of(stays),
            end_of(bad, Outcome.FAILED, deletes=True),
            end_of(other, deletes=True),
        ]
        assert rig.store.finish_instances(outcomes).done == set(ids(given))
        states = [rig.state_of(each) for each in given]
        assert states == [None, None, State.COMPLETED, State.FAILED]
        assert rig.store.finish_instances(outcomes).done == set()

    def test_what_was_made_by_hand_is_deleted_too(self, rig: Rig) -> None:
        of = rig.put(task())
        rig.add(of, payload={"order": 7})
        [instance] = rig.run_due(deletes=True)
        assert rig.state_of(instance) is None
        rig.check(of, completed_at=None)

    def test_the_end_of_a_paused_definition_s_run_is_deleted(self, rig: Rig) -> None:
        instance = rig.running(definition(trigger=HOURLY))
        rig.pause(instance.definition)
        assert rig.finish(instance, deletes=True)
        assert rig.state_of(instance) is None
        assert rig.instances(instance.definition) == []


def failed(
    rig: Rig,
    new: TaskDefinition | None = None,
    *,
    error: str | None = "no paper",
    goes_on: bool = False,
) -> TaskInstance:
    """A new definition's one instance, which has failed."""
    instance = rig.running(new)
    at = START + HOUR if goes_on else None
    assert rig.finish(instance, Outcome.FAILED, error=error, next_fire_time=at)
    return rig.read(instance)


class ReopenTests(StoreTests):
    """``reopen_instances``."""

    def test_a_reopened_instance_is_as_if_it_had_never_run(self, rig: Rig) -> None:
        first = rig.waiting_for_retry()
        assert len(rig.run_due(Outcome.FAILED, hung=True, error="no end")) == 1
        rig.advance(MINUTE)
        assert rig.reopen(first) == {first.id}
        assert rig.read(first) == replace(
            first,
            definition=rig.read(first.definition),
            due_at=START + MINUTE,
            reopened_at=START + MINUTE,
            attempt=2,
            runs=0,
            hangs=0,
            claimed_by=None,
            expires_at=None,
            started_at=None,
            error="no end",
        )
        assert len(rig.store.list_runs(first.id)) == 2
        assert counts_by_state(rig.store)[State.PENDING] == 1

    def test_of_many_those_that_have_failed_run_again(self, rig: Rig) -> None:
        one, other = failed(rig), failed(rig)
        others = [
            *(rig.ended(outcome=each) for each in Outcome if each.value != "failed"),
            rig.waiting_for_retry(retry_in=HOUR),
            rig.pending(),
        ]
        unknown = replace(one, id=uuid4())
        assert rig.reopen(one, *others, other, unknown) == {one.id, other.id}
        assert [rig.read(each) for each in others] == others

    def test_a_definition_that_is_gone_runs_nothing_again(self, rig: Rig) -> None:
        instance = failed(rig)
        rig.delete(instance.definition)
        assert rig.reopen(instance) == set()
        rig.edit(instance.definition, revision=None)
        assert rig.reopen(instance) == set()
        assert rig.read(instance).state is State.FAILED

    def test_a_paused_definition_keeps_it_until_it_is_resumed(self, rig: Rig) -> None:
        instance = failed(rig)
        rig.pause(instance.definition)
        assert rig.reopen(instance) == {instance.id}
        assert rig.claim() == []
        rig.resume(instance.definition)
        assert ids(rig.claim()) == [instance.id]

    def test_it_follows_its_definition_as_it_is_now(self, rig: Rig) -> None:
        instance = failed(rig)
        of = rig.read(instance.definition)
        rig.edit(of, queue="other", priority=3, expire_after=SECOND)
        rig.reopen(instance)
        assert rig.claim() == []
        other = rig.pending(definition(START + SECOND, queue="other"))
        [first] = rig.claim(queues=["other"], ahead=SECOND, limit=1)
        [again] = rig.claim(queues=["other"])
        assert (first.id, again.id) == (other.id, instance.id)
        assert again.expires_at == START + SECOND

    def test_a_reopened_fire_time_is_not_made_again(self, rig: Rig) -> None:
        for error in ("no paper", None):
            instance = failed(rig, error=error)
            rig.reopen(instance)
            paused = rig.pause(instance.definition)
            assert paused.next_fire_time is None, f"its error is {error}"
            rig.edit(paused, trigger=definition(START + HOUR).trigger)
            assert rig.read(instance).state is State.PENDING

    def test_a_definition_that_waits_does_so_until_it_has_ended(self, rig: Rig) -> None:
        for goes_on in (True, False):
            instance = failed(rig, definition(trigger=WAITING), goes_on=goes_on)
            read = rig.read(instance.definition)
            assert (read.completed_at is None) is goes_on
            assert rig.reopen(instance) == {instance.id}
            rig.check(read, next_fire_time=None, completed_at=None)
            if goes_on:
                assert rig.fire_steps(firing(read)) == []
            [again] = rig.claim()
            at = START + 2 * HOUR if goes_on else None
            assert rig.finish(again, next_fire_time=at)
            rig.check(read, next_fire_time=at, completed_at=read.completed_at)

    def test_a_waiting_trigger_has_one_open_instance(self, rig: Rig) -> None:
        first = failed(rig, definition(trigger=WAITING), goes_on=True)
        rig.advance(HOUR)
        rig.fire(rig.read(first.definition))
        assert rig.reopen(first) == set()
        [second] = rig.claim()
        at = START + 2 * HOUR
        assert rig.finish(second, Outcome.FAILED, error="no", next_fire_time=at)
        # Of two the later one, and never both.
        assert rig.reopen(first, second) == {second.id}
        assert rig.reopen(first) == set()
        new = replace(second.definition, trigger=DelayTrigger(MINUTE), revision=None)
        edited = rig.edit(new, next_fire_time=rig.now())
        assert rig.fire_steps(firing(edited)) == []

    def test_one_that_was_made_by_hand_keeps_no_trigger_waiting(self, rig: Rig) -> None:
        of = rig.put(definition(trigger=WAITING))
        rig.add(of)
        [by_hand] = rig.run_due(Outcome.FAILED, error="no")
        assert rig.reopen(by_hand) == {by_hand.id}
        assert rig.fire_steps(firing(of)) == [of.id]
        again, fired = sorted(rig.claim(), key=lambda each: each.fire_time is not None)
        assert rig.finish(fired, next_fire_time=START + HOUR)
        assert rig.finish(again)
        stored = rig.read(of)
        assert rig.fire_steps(firing(stored)) == [of.id]

    def test_of_a_former_claim_the_success_alone_counts(self, rig: Rig) -> None:
        instance = rig.running()
        assert rig.finish(instance, Outcome.FAILED, error="no")
        rig.reopen(instance)
        assert rig.renew(instance) == {}
        assert not rig.finish(instance, None)
        assert rig.finish(instance)
        assert rig.read(instance).state is State.COMPLETED
        assert rig.claim() == []

    def test_one_of_two_concurrent_reopens_wins(self, rig: Rig) -> None:
        instance = failed(rig)
        found = at_once(*[partial(rig.reopen, instance)] * 2)
        assert sorted(len(each) for each in found) == [0, 1]

    def test_a_reopened_instance_waits_for_its_slot(self, rig: Rig) -> None:
        first, _ = rig.fired(excluding(Overlap.SKIP), START, START + SECOND)
        [runs] = go(rig)
        assert runs.id == first.id
        assert rig.finish(runs, Outcome.FAILED, error="no paper")
        settled(rig)
        [second] = go(rig)
        assert rig.reopen(first) == {first.id}
        assert go(rig) == []
        assert is_parked(rig, first)
        rig.advance(MINUTE)
        assert settled(rig).skipped == []
        assert rig.finish(second)
        settled(rig)
        assert ids(go(rig)) == [first.id]


class ReleaseTests(StoreTests):
    """``release_instances``."""

    def test_what_was_not_started_is_as_it_was(self, rig: Rig) -> None:
        before = rig.pending(definition(START + SECOND))
        [instance] = rig.claim(ahead=HOUR)
        assert rig.release(instance)
        found = rig.read(instance)
        assert found == replace(before, attempt=1)
        [again] = rig.claim(OTHER_NODE, ahead=SECOND)
        assert (again.id, again.attempt, again.runs) == (instance.id, 2, 0)

    def test_a_run_that_was_recorded_is_taken_off(self, rig: Rig) -> None:
        instance = rig.running()
        assert rig.release(instance)
        rig.check(instance, state=State.PENDING, runs=0, started_at=None)
        rig.check(instance, claimed_by=None, due_at=START)
        [again] = rig.claim(OTHER_NODE)
        assert (again.attempt, again.runs) == (2, 1)

    def test_only_the_run_given_back_is_taken_off(self, rig: Rig) -> None:
        unstarted = rig.waiting_for_retry(retry_in=MINUTE)
        started = rig.waiting_for_retry()
        for each in rig.claim(ahead=HOUR):
            assert rig.release(each)
        for each in (started, unstarted):
            rig.check(each, runs=1, due_at=each.due_at)

    def test_the_reason_of_a_release_stays_until_a_claim(self, rig: Rig) -> None:
        instance = rig.running()
        for reason in ("no fuel, 'ÿ'", "no ink", None):
            assert rig.release(instance, reason=reason)
            assert rig.read(instance).given_back == reason
            assert [each.given_back for each in rig.store.select()] == [reason]
            [instance] = rig.claim()
            assert instance.given_back is None
            assert rig.read(instance).given_back is None

    def test_a_released_instance_is_due_after_its_delay(self, rig: Rig) -> None:
        delays = [ZERO, MINUTE, HOUR, HOUR]
        given = [rig.running() for _ in range(3)]
        given.append(rig.claimed(definition(START + 2 * HOUR)))
        rig.advance(SECOND)
        releases = [
            Release(claim=claim_of(instance), delay=delay)
            for instance, delay in zip(given, delays, strict=True)
        ]
        assert len(rig.store.release_instances(releases).done) == 4
        now = START + SECOND
        due = [rig.read(each).due_at for each in given]
        assert due == [START, now + MINUTE, now + HOUR, START + 2 * HOUR]
        assert rig.read(given[1]).execute_at == START
        assert ids(rig.claim(ahead=MINUTE - TICK)) == [given[0].id]
        rig.advance(MINUTE)
        assert ids(rig.claim()) == [given[1].id]


def ends(rig: Rig, instance: TaskInstance) -> list[tuple[int, RunEnd]]:
    """The attempt and the end of each kept run."""
    return [(run.attempt, run.outcome) for run in rig.store.list_runs(instance.id)]


class HistoryTests(StoreTests):
    """``list_runs``, and what ``finish_instances`` and ``claim_instances`` keep."""

    def test_a_run_that_failed_is_kept_as_it_was(self, rig: Rig) -> None:
        instance = rig.running()
        rig.advance(SECOND)
        assert rig.finish(instance, None, retry_in=HOUR, error="no paper")
        [run] = rig.store.list_runs(instance.id)
        assert (run.instance_id, run.attempt, run.node) == (instance.id, 1, NODE)
        assert (run.started_at, run.ended_at) == (START, START + SECOND)
        assert (run.outcome, run.error) == (RunEnd.FAILED, "no paper")
        assert list(rig.store.list_runs(NOBODY)) == []

    def test_it_is_kept_how_a_run_ended(self, rig: Rig) -> None:
        for outcome, hung, end in (
            (None, False, RunEnd.FAILED),
            (Outcome.FAILED, False, RunEnd.FAILED),
            (Outcome.CANCELLED, False, RunEnd.CANCELLED),
            (None, True, RunEnd.HUNG),
            (Outcome.FAILED, True, RunEnd.HUNG),
            (Outcome.CANCELLED, True, RunEnd.HUNG),
        ):
            instance = rig.running()
            assert rig.finish(instance, outcome, hung=hung, retry_in=HOUR)
            assert ends(rig, instance) == [(1, end)], f"{outcome}, hung: {hung}"

    def test_a_success_keeps_only_the_failures_before_it(self, rig: Rig) -> None:
        again = rig.fail_again(rig.running(), 2)
        assert rig.finish(again)
        assert ends(rig, again) == [(1, RunEnd.FAILED), (2, RunEnd.FAILED)]

    def test_a_run_whose_claim_was_taken_over_is_kept_as_lost(self, rig: Rig) -> None:
        unstarted, elsewhere = rig.claimed(), rig.running()
        rig.hand_on(elsewhere, lease=LEASE)
        run = rig.running()
        rig.advance(2 * LEASE)
        taken = rig.take_over()
        assert len(taken) == 3
        assert ends(rig, unstarted) == []
        for each in (elsewhere, run):
            [lost] = rig.store.list_runs(each.id)
            assert (lost.attempt, lost.node, lost.outcome) == (1, NODE, RunEnd.LOST)
            assert (lost.started_at, lost.ended_at) == (START, START + 2 * LEASE)
        [second] = [each for each in taken if each.id == run.id]
        assert rig.finish(second, None)
        assert [run.node for run in rig.store.list_runs(run.id)] == [NODE, OTHER_NODE]

    def test_the_last_runs_are_kept(self, rig: Rig) -> None:
        instance = rig.fail_again(rig.running(), RUNS_KEPT + 2)
        kept = rig.store.list_runs(instance.id)
        assert [run.attempt for run in kept] == list(range(3, RUNS_KEPT + 3))
        assert kept[0].error == "attempt 3"

    def test_runs_go_with_their_instance(self, rig: Rig) -> None:
        outcomes = (Outcome.COMPLETED, Outcome.FAILED, Outcome.CANCELLED)
        gone: list[TaskInstance] = []
        kept: list[TaskInstance] = []
        for made in (gone, kept):
            for outcome in outcomes:
                made.append(rig.fail_again(rig.running(), 1))
                assert rig.finish(made[-1], outcome)
            rig.advance(HOUR)
        rig.clean_up(older_than=HOUR + SECOND)
        for outcome, old, new in zip(outcomes, gone, kept, strict=True):
            assert ends(rig, old) == [], f"of one that has {outcome.value}"
            assert len(ends(rig, new)) >= 1, f"of one that has {outcome.value}"

    def test_a_delete_keeps_the_runs_of_what_runs(self, rig: Rig) -> None:
        waits = rig.waiting_for_retry(retry_in=HOUR)
        ran = rig.fail_again(rig.running(), 1)
        rig.delete(waits.definition, ran.definition)
        assert ends(rig, waits) == []
        assert ends(rig, ran) == [(1, RunEnd.FAILED)]
        rig.advance(HOUR)
        rig.clean_up(older_than=SECOND)
        assert ends(rig, ran) == []


class CancelTests(StoreTests):
    """``cancel_instances``."""

    def test_what_does_not_run_is_cancelled(self, rig: Rig) -> None:
        over, unstarted = rig.ended(), rig.claimed()
        given = [rig.waiting_for_retry(), unstarted, rig.pending()]
        rig.advance(SECOND)
        answer = rig.cancel(over, replace(over, id=NOBODY), *given)
        assert answer == {each.id: Cancelled.CANCELLED for each in given}
        for each in given:
            rig.check(each, state=State.CANCELLED, completed_at=rig.now())
        assert rig.read(over) == over
        assert rig.cancel(*given) == {}
        rig.advance(HOUR)
        assert rig.claim(lapsed=True) == []

    def test_what_runs_is_asked_to_stop(self, rig: Rig) -> None:
        instance = rig.running()
        for _ in range(2):
            assert rig.cancel(instance) == {instance.id: Cancelled.REQUESTED}
        found = rig.read(instance)
        assert found == replace(instance, cancel_requested=True)
        assert found.state is State.CANCELLING
        assert rig.store.select(Filter(states=[State.CANCELLING])) == [found]
        assert rig.store.select(Filter(states=[State.RUNNING])) == []
        counts = counts_by_state(rig.store)
        assert (counts[State.CANCELLING], counts[State.RUNNING]) == (1, 0)
        assert rig.release(instance)
        [again] = rig.claim()
        assert again.cancel_requested
        assert counts_by_state(rig.store)[State.CANCELLING] == 1
        # It ends as its owner says.
        assert rig.finish(again)
        assert rig.read(instance).outcome is Outcome.COMPLETED

    def test_a_cancelled_fire_time_is_not_made_again(self, rig: Rig) -> None:
        instance = rig.pending()
        rig.cancel(instance)
        new = replace(instance.definition, trigger=WAITING, next_fire_time=START)
        assert ids(rig.fire(rig.put(new))) == [instance.id]


OTHER_WORKER = "日本 NULL"
VALUES: list[JSON] = [
    {"sum": 7, "größe": [1, 2.5, True, None, {"\U0001f40d": "\"'\\,{}\n"}]},
    {},
    [],
    "NULL",
    "",
    0,
    -0.0,
    10**30,
    True,
    False,
]


def handed_on(rig: Rig, worker: str | None = WORKER) -> TaskInstance:
    """An instance that runs, with this worker."""
    instance = rig.running()
    rig.hand_on(instance, lease=HOUR, worker=worker)
    return instance


def in_slot(rig: Rig) -> TaskInstance:
    """An instance that runs, and has a slot."""
    rig.pending(definition(lock="a"))
    [instance] = rig.start(*rig.claim())
    return instance


def worker_of(rig: Rig, instance: TaskInstance) -> str | None:
    """The worker of an instance, as it is stored."""
    return rig.read(instance).worker


class RemoteRunTests(StoreTests):
    """``worker`` of ``renew_claims``; ``result`` and ``client`` of ends."""

    def test_of_runs_handed_on_together_each_has_its_worker(self, rig: Rig) -> None:
        workers = [WORKER, None, OTHER_WORKER, "NULL"]
        given = {rig.running().id: worker for worker in workers}
        before = {each.id: each for each in rig.store.select()}
        renewals = [
            renewal_of(before[id], handed_on=True, worker=worker)
            for id, worker in given.items()
        ]
        here = rig.running()
        not_handed_on = renewal_of(here, worker=WORKER)
        assert len(rig.store.renew_claims([*renewals, not_handed_on]).done) == 5
        assert worker_of(rig, here) is None
        for id, worker in given.items():
            expected = replace(before[id], expires_at=START + HOUR, worker=worker)
            assert rig.read(expected) == expected
            assert expected in rig.store.select()

    def test_who_has_it_stays_until_it_is_handed_on_to_another(self, rig: Rig) -> None:
        instance = handed_on(rig)
        rig.renew(instance)
        rig.hand_on(instance, lease=HOUR)
        assert worker_of(rig, instance) == WORKER
        rig.hand_on(instance, lease=HOUR, worker=OTHER_WORKER)
        assert worker_of(rig, instance) == OTHER_WORKER

    def test_what_is_pending_or_claimed_again_has_nobody(self, rig: Rig) -> None:
        given_back, failed, good, over, lapsed = (handed_on(rig) for _ in range(5))
        moved, skipped = (rig.claimed() for _ in range(2))
        for each in (moved, skipped):
            rig.hand_on(each, lease=2 * HOUR, worker=WORKER)
        rig.edit(moved.definition, queue="another")
        assert rig.release(given_back)
        ends = [end_of(good, result="1"), end_of(failed, None, retry_in=HOUR)]
        assert len(rig.store.finish_instances(ends).done) == 2
        assert rig.finish(over, Outcome.FAILED)
        assert rig.store.reopen_instances([over.id]) == {over.id}
        assert worker_of(rig, good) == WORKER
        rig.advance(HOUR)
        rig.edit(skipped.definition, trigger=WAITING, next_fire_time=None)
        assert rig.read(skipped).state is State.SKIPPED
        assert lapsed.id in ids(rig.take_over())
        for how, each in (
            ("taken over", lapsed),
            ("in another queue", moved),
            ("skipped by an edit", skipped),
            ("given back", given_back),
            ("to be retried", failed),
            ("to run again by hand", over),
        ):
            assert worker_of(rig, each) is None, f"it has a worker, though it is {how}"
        rig.advance(HOUR)
        assert lapsed.id in ids(rig.take_over())
        assert worker_of(rig, lapsed) is None

    def test_what_is_parked_has_nobody(self, rig: Rig) -> None:
        of = rig.put(definition(overlap=Overlap.BUFFER_ALL))
        rig.fire(of, START, START + TICK)
        given = rig.claim(ahead=TICK)
        for each in given:
            rig.hand_on(each, lease=HOUR, worker=WORKER)
        rig.start(*given)
        found = {each.parked: each.worker for each in rig.instances(of)}
        assert found == {True: None, False: WORKER}

    def test_of_runs_that_did_not_succeed_the_worker_is_kept(self, rig: Rig) -> None:
        instance = handed_on(rig)
        assert rig.finish(instance, None)
        [second] = rig.claim()
        rig.hand_on(second, lease=HOUR, worker=OTHER_WORKER)
        rig.advance(HOUR)
        [third] = rig.claim(lapsed=True)
        assert rig.finish(third, Outcome.FAILED)
        runs = rig.store.list_runs(instance.id)
        assert [run.worker for run in runs] == [WORKER, OTHER_WORKER, None]
        assert [run.attempt for run in runs] == [1, 2, 3]

    def test_a_result_comes_back_as_it_was_given(self, rig: Rig) -> None:
        large = "ä" * ((RESULT_LIMIT - 2) // 2)
        for value in (*VALUES, large):
            instance = rig.running()
            assert rig.finish(instance, result=to_text(value))
            found = rig.read(instance)
            assert found.state is State.COMPLETED
            assert to_text(found.result) == to_text(value)
            assert type(found.result) is type(read_frozen(to_text(value)))
            assert found in rig.store.select()

    def test_of_runs_that_end_together_each_has_its_own(self, rig: Rig) -> None:
        given = [*(rig.running() for _ in range(3)), in_slot(rig)]
        bad = rig.running()
        results = ['"NULL"', None, '{"ä":[]}', "4"]
        pairs = zip(given, results, strict=True)
        ends = [end_of(each, result=result) for each, result in pairs]
        rig.store.finish_instances([*ends, end_of(bad, None, retry_in=HOUR)])
        found = [rig.read(each) for each in given]
        assert [each.result for each in found] == ["NULL", None, {"ä": []}, 4]
        assert {each.state for each in found} == {State.COMPLETED}
        assert rig.read(bad).result is None
        assert len(rig.store.list_runs(bad.id)) == 1
        # The slot of the one that had one is free.
        assert in_slot(rig).state is State.RUNNING

    def test_what_is_said_of_a_run_stays_until_another_says_it(self, rig: Rig) -> None:
        one, other, silent = (rig.running() for _ in range(3))
        ends = [
            end_of(one, None, client='{"a": 1}'),
            end_of(other, None, client='{"b": 2}'),
            end_of(silent, result="1"),
        ]
        assert len(rig.store.finish_instances(ends).done) == 3
        given = (one, other, silent)

        def said() -> list[JSON]:
            return [rig.read(each).client for each in given]

        assert said() == [{"a": 1}, {"b": 2}, None]
        again = {each.id: each for each in rig.claim()}
        assert rig.finish(again[one.id], client='["c"]')
        assert rig.finish(again[other.id], result="7")
        assert said() == [["c"], {"b": 2}, None]
        assert rig.read(other).result == 7
        assert counts_by_state(rig.store)[State.COMPLETED] == 3


PUBLISHED, ACCEPTED, STARTED = Stage
_TICK = timedelta(seconds=1)


def come_to(rig: Rig, stage: Stage, lease: timedelta = MINUTE) -> TaskInstance:
    """A run that has reached this stage."""
    instance = rig.running()
    stages = (PUBLISHED, ACCEPTED, STARTED)
    for each in stages[: stages.index(stage) + 1]:
        rig.report_stage(instance, each, lease=lease)
    return rig.read(instance)


class BusRunTests(StoreTests):
    """``stage`` and ``progress`` of ``renew_claims``; ``silence`` of claims."""

    def test_each_stage_counts_its_time_anew(self, rig: Rig) -> None:
        instance = rig.running()
        assert rig.report_stage(instance, PUBLISHED, lease=HOUR) == {instance.id: False}
        found = rig.read(instance)
        assert found.stage is PUBLISHED
        assert found.expires_at == found.start_by == START + HOUR
        assert found == replace(
            instance, expires_at=START + HOUR, start_by=START + HOUR
        )
        rig.advance(_TICK)
        rig.report_stage(instance, ACCEPTED, lease=2 * MINUTE)
        found = rig.read(instance)
        # A stage sets the lease, even to a shorter one.
        assert found.expires_at == found.start_by == START + _TICK + 2 * MINUTE
        assert (found.accepted_at, found.worker) == (START + _TICK, WORKER)
        rig.advance(_TICK)
        rig.report_stage(instance, STARTED)
        found = rig.read(instance)
        assert found == replace(
            instance,
            started_at=START + 2 * _TICK,
            expires_at=START + 2 * _TICK + MINUTE,
            accepted_at=START + _TICK,
            worker=WORKER,
        )
        assert found.stage is STARTED
        assert list(rig.store.select()) == [found]

    def test_only_the_first_acceptance_counts(self, rig: Rig) -> None:
        accepted = come_to(rig, ACCEPTED)
        rig.advance(_TICK)
        for lease in (LEASE, HOUR):
            assert rig.report_stage(accepted, ACCEPTED, lease=lease) == {
                accepted.id: False
            }
            assert rig.read(accepted) == accepted
        rig.report_stage(accepted, ACCEPTED, progress="1")
        assert rig.read(accepted).progress == 1

    def test_a_stage_never_goes_back(self, rig: Rig) -> None:
        began = come_to(rig, STARTED)
        rig.advance(_TICK)
        rig.report_stage(began, STARTED)
        for stage, lease in (ACCEPTED, LEASE), (PUBLISHED, LEASE), (ACCEPTED, HOUR):
            assert rig.report_stage(began, stage, lease=lease) == {began.id: False}
        expires_at = START + _TICK + HOUR
        assert rig.read(began) == replace(began, expires_at=expires_at)

    def test_the_first_worker_to_accept_has_it(self, rig: Rig) -> None:
        for stage in (ACCEPTED, STARTED):
            accepted = come_to(rig, ACCEPTED)
            assert rig.report_stage(accepted, stage, worker="other", progress="1") == {}
            assert rig.read(accepted) == accepted, stage
            assert rig.report_stage(accepted, stage) == {accepted.id: False}

    def test_nobody_has_it_whose_worker_has_no_name(self, rig: Rig) -> None:
        instance = rig.running()
        rig.report_stage(instance, ACCEPTED, worker=None)
        assert rig.report_stage(instance, ACCEPTED)
        assert rig.report_stage(instance, STARTED, worker=None)
        assert rig.read(instance).worker == WORKER

    def test_of_many_each_comes_as_far_as_is_said(self, rig: Rig) -> None:
        given = [*(rig.running() for _ in range(5)), rig.claimed()]
        stages = [PUBLISHED, ACCEPTED, STARTED, None, None, STARTED]
        values = [None, {"ä": [1]}, "NULL", "\"'\\,{}", None, None]
        renewals = [
            renewal_of(
                each,
                handed_on=stage is not None,
                stage=stage,
                progress=None if value is None else to_text(value),
            )
            for each, stage, value in zip(given, stages, values, strict=True)
        ]
        assert len(rig.store.renew_claims(renewals).done) == len(given)
        found = [rig.read(each) for each in given]
        assert [each.stage for each in found] == stages
        assert [each.progress for each in found] == values
        assert [each.started_at for each in found] == [*5 * [START], None]

    def test_the_last_progress_is_shown_until_it_runs_anew(self, rig: Rig) -> None:
        instance = come_to(rig, STARTED)
        rig.report_stage(instance, STARTED, progress="[1]")
        rig.report_stage(instance, STARTED)
        assert rig.read(instance).progress == [1]
        rig.report_stage(instance, None, progress="2")
        assert rig.read(instance).progress == 2
        assert rig.finish(instance)
        rig.check(instance, progress=2, accepted_at=START)

    def test_what_is_pending_again_is_on_no_bus(self, rig: Rig) -> None:
        failed, released = come_to(rig, STARTED), come_to(rig, ACCEPTED)
        rig.report_stage(failed, STARTED, progress="1")
        rig.report_stage(released, ACCEPTED, progress="1")
        assert rig.finish(failed, None)
        assert rig.release(released)
        for each in failed, released:
            rig.check(each, state=State.PENDING, stage=None, worker=None, progress=None)

    def test_a_claim_tells_how_a_run_fell_silent(self, rig: Rig) -> None:
        silences = (
            Silence(stage=PUBLISHED, worker=None, within=MINUTE),
            Silence(stage=ACCEPTED, worker=WORKER, within=MINUTE),
            Silence(stage=STARTED, worker=WORKER, within=None),
        )
        expected = {come_to(rig, each.stage).id: each for each in silences}
        for each in rig.store.select():
            rig.report_stage(each, None, lease=LEASE, progress="1")
        rig.advance(MINUTE - _TICK)
        assert rig.take_over() == []
        rig.advance(_TICK)
        taken = rig.take_over()
        assert {each.id: each.silence for each in taken} == expected
        for each in taken:
            assert each.attempt == 2
            # Only the answer of this claim has it. The instance is on no bus any more.
            rig.check(each, silence=None, stage=None, worker=None, progress=None)
            [run] = rig.store.list_runs(each.id)
            was = expected[each.id]
            assert (run.lost_in, run.worker, run.node) == (was.stage, was.worker, NODE)
        # The next claims do not have it.
        rig.advance(LEASE)
        again = rig.claim(lapsed=True)
        assert [each.silence for each in again] == [None] * 3

    def test_only_what_was_on_a_bus_falls_silent(self, rig: Rig) -> None:
        plain, elsewhere, silent = rig.running(), rig.running(), rig.running()
        rig.hand_on(elsewhere, lease=LEASE, worker=WORKER)
        rig.report_stage(silent, PUBLISHED, lease=LEASE)
        given_back = come_to(rig, PUBLISHED)
        assert rig.release(given_back)
        rig.advance(LEASE)
        taken = {each.id: each for each in rig.take_over()}
        assert sorted(taken) == sorted(ids([plain, elsewhere, silent, given_back]))
        assert [id for id, each in taken.items() if each.silence] == [silent.id]
        lost = [rig.store.list_runs(each.id) for each in (plain, elsewhere)]
        assert [[run.lost_in for run in runs] for runs in lost] == [[None], [None]]
        [started] = rig.start(taken[silent.id])
        assert started.stage is None
