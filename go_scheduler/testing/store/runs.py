"""Store suite: runs end, are repeated, reopened, given back or cancelled."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from go_scheduler.clock import ZERO
from go_scheduler.models import (
    RUNS_KEPT,
    Cancelled,
    Outcome,
    RunEnd,
    Skipped,
    State,
    TaskRun,
)
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Release, RunOutcome
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    NOBODY,
    NODE,
    OTHER_NODE,
    SECOND,
    TICK,
    WAITING,
    at_once,
    cancel,
    claim,
    claim_of,
    claimed,
    clean_up,
    definition,
    ended,
    finish,
    fire,
    firing,
    hand_on,
    ids,
    passed_on,
    pending,
    put,
    release,
    renew,
    running,
    start,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.additions import add, finished
from go_scheduler.testing.store.slots import excluding, fired, go, is_parked, settled
from go_scheduler.triggers.delay import DelayTrigger

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class FinishTests:
    """``finish_instances``, where the instance ends."""

    def test_a_finished_instance_ends_now_and_keeps_its_owner(
        self, store: Store, clock: ManualClock
    ) -> None:
        given = {outcome: running(store) for outcome in Outcome}
        clock.advance(SECOND)
        for outcome, instance in given.items():
            called = replace(instance, started_at=START + 7 * TICK)
            error = None if outcome is Outcome.SKIPPED else "line 1\nline 2"
            assert finish(store, called, outcome, error=error)
            found = store.get_instance(instance.id)
            assert (found.outcome, found.state.value) == (outcome, outcome.value)
            assert (found.completed_at, found.error) == (START + SECOND, error)
            assert found.started_at == START + 7 * TICK
            assert (found.claimed_by, found.attempt, found.runs) == (NODE, 1, 1)
            assert found.ended_attempt == 1

    def test_a_run_that_was_not_called_is_not_counted(self, store: Store) -> None:
        for instance in (running(store), claimed(store)):
            end = RunOutcome(claim=claim_of(instance), outcome=Outcome.CANCELLED)
            assert store.finish_instances([end]).done == {instance.id}
            found = store.get_instance(instance.id)
            assert (found.state, found.runs) == (State.CANCELLED, 0)
            assert found.started_at is None
            assert ends(store, instance) == []

    def test_the_outcomes_of_a_batch_may_differ(self, store: Store) -> None:
        given = [running(store) for _ in range(3)]
        outcomes = [
            RunOutcome(claim=claim_of(each), started_at=START, outcome=end)
            for each, end in zip(
                given, [Outcome.COMPLETED, None, Outcome.FAILED], strict=True
            )
        ]
        assert store.finish_instances(outcomes).done == set(ids(given))
        states = [store.get_instance(each.id).state for each in given]
        assert states == [State.COMPLETED, State.PENDING, State.FAILED]
        failed = [(1, RunEnd.FAILED)]
        assert [ends(store, each) for each in given] == [[], failed, failed]


class RetryTests:
    """``finish_instances``, where the instance is to run again."""

    def test_a_retry_is_pending_again_and_due_later(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        clock.advance(SECOND)
        assert finish(store, instance, None, retry_in=MINUTE, error="no")
        found = store.get_instance(instance.id)
        assert found.state is State.PENDING
        assert found.due_at == START + SECOND + MINUTE
        assert found.execute_at == START
        assert (found.claimed_by, found.started_at) == (None, None)
        assert (found.outcome, found.completed_at) == (None, None)
        assert (found.attempt, found.runs, found.error) == (1, 1, "no")
        assert found.ended_attempt is None
        clock.advance(MINUTE - TICK)
        assert claim(store) == []
        clock.advance(TICK)
        [again] = claim(store, OTHER_NODE)
        assert (again.id, again.attempt, again.runs) == (instance.id, 2, 2)
        assert again.started_at == found.due_at

    def test_each_start_counts_one_run_and_the_last_error_stays(
        self, store: Store
    ) -> None:
        instance = running(store)
        for number, error in ((1, "one"), (2, "two"), (3, None)):
            assert (instance.attempt, instance.runs) == (number, number)
            assert finish(store, instance, None, error=error)
            found = store.get_instance(instance.id)
            assert (found.runs, found.error) == (number, error or "two")
            [instance] = claim(store)
        end = RunOutcome(
            claim=claim_of(instance), outcome=Outcome.SKIPPED, error='too "late"'
        )
        assert store.finish_instances([end]).done == {instance.id}
        found = store.get_instance(instance.id)
        assert (found.state, found.error) == (State.SKIPPED, "two")
        assert (found.runs, found.started_at) == (3, None)
        assert found.skipped == Skipped.itself(START, 'too "late"')

    def test_hangs_are_counted_in_a_row(self, store: Store) -> None:
        pending(store)
        counted = []
        for hung in (True, True, False, True):
            [instance] = claim(store)
            counted.append(instance.hangs)
            assert finish(store, instance, None, hung=hung)
        assert counted == [0, 1, 2, 0]
        assert store.get_instance(instance.id).hangs == 1

    def test_the_last_hang_counts_and_another_end_keeps_the_count(
        self, store: Store
    ) -> None:
        given = [running(store) for _ in range(3)]
        for instance in given:
            assert finish(store, instance, None, hung=True)
        last, other, given_back = claim(store)
        assert finish(store, last, Outcome.FAILED, hung=True)
        assert finish(store, other, Outcome.COMPLETED)
        assert release(store, given_back)
        found = [store.get_instance(each.id) for each in (last, other, given_back)]
        assert [each.hangs for each in found] == [2, 1, 1]

    def test_a_retry_leaves_its_definition_alone(self, store: Store) -> None:
        instance = waiting_for_retry(store, definition(trigger=WAITING))
        found = store.get_definition(instance.definition.id)
        assert (found.next_fire_time, found.completed_at) == (None, None)


def succeeded(given: TaskInstance, at: datetime) -> TaskInstance:
    """The instance after its first run has succeeded, whoever has claimed it since."""
    return replace(
        given,
        outcome=Outcome.COMPLETED,
        completed_at=at,
        ended_attempt=1,
        started_at=START,
    )


class SuccessTests:
    """``finish_instances``, where a run succeeds whose claim is not current."""

    def test_the_success_of_a_run_that_was_taken_over_ends_the_instance(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = passed_on(store, clock)
        clock.advance(SECOND)
        assert finish(store, first)
        done = succeeded(second, START + LEASE + SECOND)
        assert store.get_instance(first.id) == done
        # The second run has lost its claim.
        assert renew(store, second) == {}
        assert start(store, second) == []
        assert not release(store, second)
        for outcome in (*Outcome, None):
            assert not finish(store, second, outcome)
        clock.advance(LEASE)
        assert claim(store, lapsed=True) == []
        assert store.get_instance(first.id) == done

    def test_a_success_ends_what_is_claimed_and_not_started(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = running(store)
        assert finish(store, first, None, retry_in=MINUTE, hung=True, error="it hangs")
        [second] = claim(store, OTHER_NODE, ahead=HOUR)
        assert finish(store, first)
        found = store.get_instance(first.id)
        assert (found.state, found.attempt, found.runs) == (State.COMPLETED, 2, 1)
        assert (found.ended_attempt, found.hangs, found.error) == (1, 1, "it hangs")
        assert start(store, second) == []
        clock.advance(HOUR)
        assert claim(store, lapsed=True) == []

    def test_a_success_makes_good_a_failure(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = passed_on(store, clock)
        assert finish(store, second, Outcome.FAILED, error="no")
        failed = store.get_instance(first.id)
        assert (failed.state, failed.ended_attempt) == (State.FAILED, 2)
        clock.advance(SECOND)
        assert finish(store, first)
        found = store.get_instance(first.id)
        assert found == succeeded(failed, START + LEASE + SECOND)
        assert store.counts()[State.FAILED] == 0
        assert store.counts()[State.COMPLETED] == 1

    def test_the_first_of_several_successes_wins(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = passed_on(store, clock)
        clock.advance(LEASE)
        [third] = claim(store, lapsed=True)
        assert finish(store, second)
        for late in (first, third, second):
            assert not finish(store, late)
        assert store.get_instance(first.id).ended_attempt == 2

    def test_two_runs_succeed_at_once_and_one_is_recorded(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = passed_on(store, clock)
        answers = at_once(
            partial(finished, store, first), partial(finished, store, second)
        )
        assert sorted(map(bool, answers)) == [False, True]
        winner = 1 if answers[0] else 2
        assert store.get_instance(first.id).ended_attempt == winner

    def test_a_failure_and_a_success_at_once_end_in_the_success(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = passed_on(store, clock)
        succeeded, _ = at_once(
            partial(finished, store, first),
            partial(finished, store, second, Outcome.FAILED),
        )
        assert succeeded
        assert store.get_instance(first.id).state is State.COMPLETED

    def test_a_success_moves_a_definition_on_that_waits(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, _ = self.waiting(store, clock)
        assert finish(store, first, next_fire_time=START + HOUR)
        found = store.get_definition(first.definition.id)
        assert (found.next_fire_time, found.completed_at) == (START + HOUR, None)

    def test_the_success_of_what_failed_moves_nothing_on_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = self.waiting(store, clock)
        assert finish(store, second, Outcome.FAILED, next_fire_time=START + MINUTE)
        fire(store, store.get_definition(first.definition.id))
        assert finish(store, first, next_fire_time=START + HOUR)
        found = store.get_definition(first.definition.id)
        assert (found.next_fire_time, found.completed_at) == (None, None)

    @staticmethod
    def waiting(store: Store, clock: ManualClock) -> tuple[TaskInstance, TaskInstance]:
        """As ``passed_on``, of a definition whose trigger waits."""
        first = running(store, definition(trigger=WAITING))
        clock.advance(LEASE)
        [second] = claim(store, OTHER_NODE, lapsed=True)
        return first, second


def failed(
    store: Store,
    new: TaskDefinition | None = None,
    *,
    error: str | None = "no paper",
    goes_on: bool = False,
) -> TaskInstance:
    """A new definition's one instance, which has failed."""
    instance = running(store, new)
    at = START + HOUR if goes_on else None
    assert finish(store, instance, Outcome.FAILED, error=error, next_fire_time=at)
    return store.get_instance(instance.id)


def reopen(store: Store, *given: TaskInstance) -> set[object]:
    """Reopen instances; answer the ids of those that run again."""
    return set(store.reopen_instances([each.id for each in given]))


class ReopenTests:
    """``reopen_instances``."""

    def test_what_has_failed_is_pending_again_as_if_it_had_never_run(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = waiting_for_retry(store)
        [again] = claim(store)
        assert finish(store, again, Outcome.FAILED, hung=True, error="no end")
        clock.advance(MINUTE)
        assert reopen(store, first) == {first.id}
        assert store.get_instance(first.id) == replace(
            first,
            definition=store.get_definition(first.definition.id),
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
        assert len(store.list_runs(first.id)) == 2
        assert store.counts()[State.PENDING] == 1

    def test_of_many_those_that_have_failed_run_again(self, store: Store) -> None:
        one, other = failed(store), failed(store)
        others = [
            *(ended(store, outcome=each) for each in Outcome if each.value != "failed"),
            waiting_for_retry(store, retry_in=HOUR),
            pending(store),
        ]
        unknown = replace(one, id=uuid4())
        assert reopen(store, one, *others, other, unknown) == {one.id, other.id}
        assert [store.get_instance(each.id) for each in others] == others

    def test_a_definition_that_is_gone_runs_nothing_again(self, store: Store) -> None:
        instance = failed(store)
        store.delete_definitions([instance.definition.id])
        assert reopen(store, instance) == set()
        put(store, replace(instance.definition, revision=None))
        assert reopen(store, instance) == set()
        assert store.get_instance(instance.id).state is State.FAILED

    def test_a_paused_definition_keeps_it_until_it_is_resumed(
        self, store: Store
    ) -> None:
        instance = failed(store)
        store.pause_definitions([instance.definition.id])
        assert reopen(store, instance) == {instance.id}
        assert claim(store) == []
        store.resume_definitions([instance.definition.id])
        assert ids(claim(store)) == [instance.id]

    def test_it_follows_its_definition_as_it_is_now(self, store: Store) -> None:
        instance = failed(store)
        of = store.get_definition(instance.definition.id)
        put(store, replace(of, queue="other", priority=3, expire_after=SECOND))
        reopen(store, instance)
        assert claim(store) == []
        other = pending(store, definition(START + SECOND, queue="other"))
        [first] = claim(store, queues=["other"], ahead=SECOND, limit=1)
        [again] = claim(store, queues=["other"])
        assert (first.id, again.id) == (other.id, instance.id)
        assert again.expires_at == START + SECOND

    def test_neither_an_edit_nor_a_pause_serves_its_fire_time_anew(
        self, store: Store
    ) -> None:
        for error in ("no paper", None):
            instance = failed(store, error=error)
            reopen(store, instance)
            [paused] = store.pause_definitions([instance.definition.id])
            assert paused.next_fire_time is None, f"its error is {error}"
            put(store, replace(paused, trigger=definition(START + HOUR).trigger))
            assert store.get_instance(instance.id).state is State.PENDING

    def test_a_definition_that_waits_does_so_until_it_has_ended(
        self, store: Store
    ) -> None:
        for goes_on in (True, False):
            instance = failed(store, definition(trigger=WAITING), goes_on=goes_on)
            read = store.get_definition(instance.definition.id)
            assert (read.completed_at is None) is goes_on
            assert reopen(store, instance) == {instance.id}
            waits = store.get_definition(read.id)
            assert (waits.next_fire_time, waits.completed_at) == (None, None)
            if goes_on:
                assert store.fire_definitions([firing(read)]).done == set()
            [again] = claim(store)
            at = START + 2 * HOUR if goes_on else None
            assert finish(store, again, next_fire_time=at)
            found = store.get_definition(read.id)
            assert found.next_fire_time == at
            assert found.completed_at == read.completed_at

    def test_a_definition_that_waits_never_has_two_open_instances(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = failed(store, definition(trigger=WAITING), goes_on=True)
        clock.advance(HOUR)
        fire(store, store.get_definition(first.definition.id))
        assert reopen(store, first) == set()
        [second] = claim(store)
        at = START + 2 * HOUR
        assert finish(store, second, Outcome.FAILED, error="no", next_fire_time=at)
        # Of two the later one, and never both.
        assert reopen(store, first, second) == {second.id}
        assert reopen(store, first) == set()
        new = replace(second.definition, trigger=DelayTrigger(MINUTE), revision=None)
        edited = put(store, replace(new, next_fire_time=clock.now()))
        assert store.fire_definitions([firing(edited)]).done == set()

    def test_one_that_was_made_by_hand_keeps_no_trigger_waiting(
        self, store: Store
    ) -> None:
        of = put(store, definition(trigger=WAITING))
        add(store, of)
        [by_hand] = claim(store)
        assert finish(store, by_hand, Outcome.FAILED, error="no")
        assert reopen(store, by_hand) == {by_hand.id}
        assert store.fire_definitions([firing(of)]).done == {of.id}
        again, fired = sorted(claim(store), key=lambda each: each.fire_time is not None)
        assert finish(store, fired, next_fire_time=START + HOUR)
        assert finish(store, again)
        stored = store.get_definition(of.id)
        assert store.fire_definitions([firing(stored)]).done == {of.id}

    def test_of_a_former_claim_the_success_alone_counts(self, store: Store) -> None:
        instance = running(store)
        assert finish(store, instance, Outcome.FAILED, error="no")
        reopen(store, instance)
        assert renew(store, instance) == {}
        assert not finish(store, instance, None)
        assert finish(store, instance)
        assert store.get_instance(instance.id).state is State.COMPLETED
        assert claim(store) == []

    def test_of_two_that_ask_at_once_one_is_told_that_it_runs_again(
        self, store: Store
    ) -> None:
        instance = failed(store)
        found = at_once(*[partial(reopen, store, instance)] * 2)
        assert sorted(len(each) for each in found) == [0, 1]  # type: ignore[arg-type]

    def test_what_runs_again_waits_for_its_slot_and_is_not_skipped(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, _ = fired(store, excluding(Overlap.SKIP), START, START + SECOND)
        [runs] = go(store)
        assert runs.id == first.id
        assert finish(store, runs, Outcome.FAILED, error="no paper")
        settled(store)
        [second] = go(store)
        assert reopen(store, first) == {first.id}
        assert go(store) == []
        assert is_parked(store, first)
        clock.advance(MINUTE)
        assert settled(store).skipped == []
        assert finish(store, second)
        settled(store)
        assert ids(go(store)) == [first.id]


class ReleaseTests:
    """``release_instances``."""

    def test_what_was_not_started_is_as_it_was(self, store: Store) -> None:
        before = pending(store, definition(START + SECOND))
        [instance] = claim(store, ahead=HOUR)
        assert release(store, instance)
        found = store.get_instance(instance.id)
        assert found == replace(before, attempt=1)
        [again] = claim(store, OTHER_NODE, ahead=SECOND)
        assert (again.id, again.attempt, again.runs) == (instance.id, 2, 0)

    def test_a_run_that_was_recorded_is_taken_off(self, store: Store) -> None:
        instance = running(store)
        assert release(store, instance)
        found = store.get_instance(instance.id)
        assert found.state is State.PENDING
        assert (found.runs, found.started_at, found.claimed_by) == (0, None, None)
        assert found.due_at == START
        [again] = claim(store, OTHER_NODE)
        assert (again.attempt, again.runs) == (2, 1)

    def test_only_the_run_given_back_is_taken_off(self, store: Store) -> None:
        unstarted = waiting_for_retry(store, retry_in=MINUTE)
        started = waiting_for_retry(store)
        for each in claim(store, ahead=HOUR):
            assert release(store, each)
        for each in (started, unstarted):
            found = store.get_instance(each.id)
            assert (found.runs, found.due_at) == (1, each.due_at)

    def test_why_it_was_given_back_stands_there_until_it_is_claimed(
        self, store: Store
    ) -> None:
        instance = running(store)
        for reason in ("no fuel, 'ÿ'", "no ink", None):
            why = Release(claim=claim_of(instance), reason=reason)
            assert store.release_instances([why]).done == {instance.id}
            assert store.get_instance(instance.id).given_back == reason
            assert [each.given_back for each in store.list_instances()] == [reason]
            [instance] = claim(store)
            assert instance.given_back is None
            assert store.get_instance(instance.id).given_back is None

    def test_it_is_due_when_it_was_or_after_its_delay_if_that_is_later(
        self, store: Store, clock: ManualClock
    ) -> None:
        delays = [ZERO, MINUTE, HOUR]
        given = [running(store) for _ in delays]
        later = claimed(store, definition(START + 2 * HOUR))
        clock.advance(SECOND)
        releases = [
            Release(claim=claim_of(instance), delay=delay)
            for instance, delay in zip([*given, later], [*delays, HOUR], strict=True)
        ]
        assert len(store.release_instances(releases).done) == 4
        now = START + SECOND
        due = [store.get_instance(each.id).due_at for each in (*given, later)]
        assert due == [START, now + MINUTE, now + HOUR, START + 2 * HOUR]
        assert store.get_instance(given[1].id).execute_at == START
        assert ids(claim(store, ahead=MINUTE - TICK)) == [given[0].id]
        clock.advance(MINUTE)
        assert ids(claim(store)) == [given[1].id]


def ends(store: Store, instance: TaskInstance) -> list[tuple[int, RunEnd]]:
    """The attempt and the end of each run that the store has kept."""
    return [(run.attempt, run.outcome) for run in store.list_runs(instance.id)]


def fail_again(store: Store, instance: TaskInstance, times: int) -> TaskInstance:
    """Let a running instance fail so often; answer its next run."""
    for _ in range(times):
        assert finish(store, instance, None, error=f"attempt {instance.attempt}")
        [instance] = claim(store)
    return instance


class HistoryTests:
    """``list_runs``, and what ``finish_instances`` and ``claim_instances`` keep."""

    def test_a_run_that_failed_is_kept_as_it_was(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        clock.advance(SECOND)
        assert finish(store, instance, None, retry_in=HOUR, error="no paper")
        assert list(store.list_runs(instance.id)) == [
            TaskRun(
                instance_id=instance.id,
                attempt=1,
                node=NODE,
                started_at=START,
                ended_at=START + SECOND,
                outcome=RunEnd.FAILED,
                error="no paper",
            )
        ]
        assert list(store.list_runs(NOBODY)) == []

    def test_it_is_kept_how_a_run_ended(self, store: Store) -> None:
        for outcome, hung, end in (
            (None, False, RunEnd.FAILED),
            (Outcome.FAILED, False, RunEnd.FAILED),
            (Outcome.CANCELLED, False, RunEnd.CANCELLED),
            (None, True, RunEnd.HUNG),
            (Outcome.FAILED, True, RunEnd.HUNG),
            (Outcome.CANCELLED, True, RunEnd.HUNG),
        ):
            instance = running(store)
            assert finish(store, instance, outcome, hung=hung, retry_in=HOUR)
            assert ends(store, instance) == [(1, end)], f"{outcome}, hung: {hung}"

    def test_of_what_succeeds_nothing_is_kept_but_what_failed_before(
        self, store: Store
    ) -> None:
        again = fail_again(store, running(store), 2)
        assert finish(store, again)
        assert ends(store, again) == [(1, RunEnd.FAILED), (2, RunEnd.FAILED)]

    def test_a_run_whose_claim_was_taken_over_is_kept_as_lost(
        self, store: Store, clock: ManualClock
    ) -> None:
        unstarted, elsewhere = claimed(store), running(store)
        hand_on(store, elsewhere, lease=LEASE)
        run = running(store)
        clock.advance(2 * LEASE)
        taken = claim(store, OTHER_NODE, lapsed=True)
        assert len(taken) == 3
        assert ends(store, unstarted) == []
        for each in (elsewhere, run):
            [lost] = store.list_runs(each.id)
            assert (lost.attempt, lost.node, lost.outcome) == (1, NODE, RunEnd.LOST)
            assert (lost.started_at, lost.ended_at) == (START, START + 2 * LEASE)
        [second] = [each for each in taken if each.id == run.id]
        assert finish(store, second, None)
        assert [run.node for run in store.list_runs(run.id)] == [NODE, OTHER_NODE]

    def test_the_last_runs_are_kept(self, store: Store) -> None:
        instance = fail_again(store, running(store), RUNS_KEPT + 2)
        kept = store.list_runs(instance.id)
        assert [run.attempt for run in kept] == list(range(3, RUNS_KEPT + 3))
        assert kept[0].error == "attempt 3"

    def test_runs_go_with_their_instance(
        self, store: Store, clock: ManualClock
    ) -> None:
        outcomes = (Outcome.COMPLETED, Outcome.FAILED, Outcome.CANCELLED)
        gone: list[TaskInstance] = []
        kept: list[TaskInstance] = []
        for made in (gone, kept):
            for outcome in outcomes:
                made.append(fail_again(store, running(store), 1))
                assert finish(store, made[-1], outcome)
            clock.advance(HOUR)
        clean_up(store, older_than=HOUR + SECOND)
        for outcome, old, new in zip(outcomes, gone, kept, strict=True):
            assert ends(store, old) == [], f"of one that has {outcome.value}"
            assert len(ends(store, new)) >= 1, f"of one that has {outcome.value}"

    def test_runs_go_with_a_deleted_definition_but_for_those_of_what_ran(
        self, store: Store, clock: ManualClock
    ) -> None:
        waits = waiting_for_retry(store, retry_in=HOUR)
        ran = fail_again(store, running(store), 1)
        store.delete_definitions([waits.definition.id, ran.definition.id])
        assert ends(store, waits) == []
        assert ends(store, ran) == [(1, RunEnd.FAILED)]
        clock.advance(HOUR)
        clean_up(store, older_than=SECOND)
        assert ends(store, ran) == []


class CancelTests:
    """``cancel_instances``."""

    def test_what_does_not_run_is_cancelled(
        self, store: Store, clock: ManualClock
    ) -> None:
        over, unstarted = ended(store), claimed(store)
        given = [waiting_for_retry(store), unstarted, pending(store)]
        clock.advance(SECOND)
        answer = cancel(store, over, replace(over, id=NOBODY), *given)
        assert answer == {each.id: Cancelled.CANCELLED for each in given}
        for each in given:
            found = store.get_instance(each.id)
            assert (found.state, found.completed_at) == (State.CANCELLED, clock.now())
        assert store.get_instance(over.id) == over
        assert cancel(store, *given) == {}
        clock.advance(HOUR)
        assert claim(store, lapsed=True) == []

    def test_what_runs_is_asked_to_stop(self, store: Store) -> None:
        instance = running(store)
        for _ in range(2):
            assert cancel(store, instance) == {instance.id: Cancelled.REQUESTED}
        found = store.get_instance(instance.id)
        assert found == replace(instance, cancel_requested=True)
        assert found.state is State.CANCELLING
        assert store.list_instances(state=State.CANCELLING) == [found]
        assert store.list_instances(state=State.RUNNING) == []
        counts = store.counts()
        assert (counts[State.CANCELLING], counts[State.RUNNING]) == (1, 0)
        assert release(store, instance)
        [again] = claim(store)
        assert again.cancel_requested
        assert store.counts()[State.CANCELLING] == 1
        # It ends as its owner says.
        assert finish(store, again)
        assert store.get_instance(instance.id).outcome is Outcome.COMPLETED

    def test_a_cancelled_fire_time_is_not_made_again(self, store: Store) -> None:
        instance = pending(store)
        cancel(store, instance)
        new = replace(instance.definition, trigger=WAITING, next_fire_time=START)
        assert ids(fire(store, put(store, new))) == [instance.id]
