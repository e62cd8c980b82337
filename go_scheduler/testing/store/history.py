"""Store suite: what is kept of runs that did not end their instance well."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler.models import RUNS_KEPT, Outcome, RunEnd, TaskRun
from go_scheduler.stores.messages import RunOutcome
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    NODE,
    OTHER_NODE,
    SECOND,
    claim,
    claim_of,
    claimed,
    clean_up,
    finish,
    hand_on,
    passed_on,
    running,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


def ends(store: Store, instance: TaskInstance) -> list[tuple[int, RunEnd]]:
    """Of each run that is kept its attempt, and how it ended."""
    return [(run.attempt, run.outcome) for run in store.list_runs(instance.id)]


def fail_again(store: Store, instance: TaskInstance, times: int) -> TaskInstance:
    """Let an instance that is running fail so often, and run again."""
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

    @pytest.mark.parametrize(
        ("outcome", "hung", "end"),
        [
            (None, False, RunEnd.FAILED),
            (Outcome.FAILED, False, RunEnd.FAILED),
            (Outcome.CANCELLED, False, RunEnd.CANCELLED),
            (None, True, RunEnd.HUNG),
            (Outcome.FAILED, True, RunEnd.HUNG),
            (Outcome.CANCELLED, True, RunEnd.HUNG),
        ],
    )
    def test_it_is_kept_how_a_run_ended(
        self, store: Store, outcome: Outcome | None, hung: bool, end: RunEnd
    ) -> None:
        instance = running(store)
        assert finish(store, instance, outcome, hung=hung)
        assert ends(store, instance) == [(1, end)]

    def test_of_what_succeeds_nothing_is_kept_but_what_failed_before(
        self, store: Store
    ) -> None:
        instance = running(store)
        assert finish(store, instance)
        assert ends(store, instance) == []
        again = fail_again(store, running(store), 2)
        assert finish(store, again)
        assert ends(store, again) == [(1, RunEnd.FAILED), (2, RunEnd.FAILED)]

    def test_what_was_not_called_is_no_run(self, store: Store) -> None:
        instance = replace(claimed(store), started_at=None)
        assert finish(store, instance, Outcome.FAILED)
        assert ends(store, instance) == []

    def test_of_runs_that_end_together_those_are_kept_that_failed(
        self, store: Store
    ) -> None:
        good, bad = running(store), running(store)
        store.finish_instances(
            [
                RunOutcome(
                    claim=claim_of(each), started_at=each.started_at, outcome=outcome
                )
                for each, outcome in ((good, Outcome.COMPLETED), (bad, None))
            ]
        )
        assert ends(store, good) == []
        assert ends(store, bad) == [(1, RunEnd.FAILED)]

    def test_what_shows_a_lost_claim_is_not_kept(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = passed_on(store, clock)
        assert not finish(store, first, None, error="late")
        assert [run.error for run in store.list_runs(second.id)] == [None]

    def test_a_run_whose_claim_was_taken_over_is_kept_as_lost(
        self, store: Store, clock: ManualClock
    ) -> None:
        first, second = passed_on(store, clock)
        [lost] = store.list_runs(first.id)
        assert (lost.attempt, lost.node, lost.outcome) == (1, NODE, RunEnd.LOST)
        assert (lost.started_at, lost.ended_at) == (START, START + LEASE)
        assert finish(store, second, None)
        assert [run.node for run in store.list_runs(first.id)] == [NODE, OTHER_NODE]

    def test_a_claim_that_lapsed_before_its_start_was_no_run(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = claimed(store)
        clock.advance(2 * LEASE)
        [again] = claim(store, OTHER_NODE, lapsed=True)
        assert again.id == instance.id
        assert ends(store, again) == []

    def test_what_was_handed_on_and_lapsed_is_lost_as_well(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        hand_on(store, instance, lease=HOUR)
        clock.advance(HOUR)
        claim(store, lapsed=True)
        assert ends(store, instance) == [(1, RunEnd.LOST)]

    def test_the_last_runs_are_kept(self, store: Store) -> None:
        instance = fail_again(store, running(store), RUNS_KEPT + 2)
        kept = store.list_runs(instance.id)
        assert [run.attempt for run in kept] == list(range(3, RUNS_KEPT + 3))
        assert kept[0].error == "attempt 3"

    def test_a_late_success_leaves_what_was_kept(self, store: Store) -> None:
        instance = running(store)
        assert finish(store, instance, Outcome.FAILED, hung=True)
        assert finish(store, instance)
        assert ends(store, instance) == [(1, RunEnd.HUNG)]

    def test_of_an_instance_that_is_not_there_nothing_is_kept(
        self, store: Store
    ) -> None:
        assert list(store.list_runs(uuid4())) == []

    @pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.FAILED])
    def test_runs_go_with_their_instance(
        self, store: Store, clock: ManualClock, outcome: Outcome
    ) -> None:
        gone = fail_again(store, running(store), 1)
        assert finish(store, gone, outcome)
        clock.advance(HOUR)
        kept = fail_again(store, running(store), 1)
        assert finish(store, kept, outcome)
        clean_up(store, older_than=SECOND)
        assert ends(store, gone) == []
        assert len(ends(store, kept)) >= 1

    def test_a_cancelled_run_goes_with_its_instance(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        assert finish(store, instance, Outcome.CANCELLED)
        clock.advance(HOUR)
        clean_up(store, older_than=SECOND)
        assert ends(store, instance) == []

    def test_runs_of_what_waits_go_with_a_deleted_definition(
        self, store: Store
    ) -> None:
        instance = waiting_for_retry(store, retry_in=HOUR)
        store.delete_definitions([instance.definition.id])
        assert ends(store, instance) == []

    def test_runs_of_what_ran_outlive_a_deleted_definition_with_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = fail_again(store, running(store), 1)
        store.delete_definitions([instance.definition.id])
        assert ends(store, instance) == [(1, RunEnd.FAILED)]
        clock.advance(HOUR)
        clean_up(store, older_than=SECOND)
        assert ends(store, instance) == []
