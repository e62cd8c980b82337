"""What follows from a run: facts in, decision out."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.models import Outcome
from go_scheduler.policies import Overlap, RetryPolicy
from go_scheduler.running.outcomes import (
    Decision,
    EndedRun,
    Failure,
    completed,
    hung,
    left_behind,
    not_called,
    not_run,
    raised,
    returned,
    runs_before,
)
from go_scheduler.stores.messages import Claim, Release, RunOutcome
from go_scheduler.testing.builders import WAITING, definition
from go_scheduler.testing.clock import START
from go_scheduler.triggers.base import Trigger
from tests.conftest import instance, seconds

if TYPE_CHECKING:
    from go_scheduler.models import TaskInstance

TEN_SECONDS = timedelta(seconds=10)
MINUTE = timedelta(minutes=1)
TWICE = RetryPolicy(max_attempts=2)
AFTER_EXPIRY = RetryPolicy.after_expiry()
NOT_COMMITTED = "the transaction of complete_in() was not committed"


def ended(
    *,
    retry: RetryPolicy | None = None,
    trigger: Trigger = WAITING,
    runs: int = 1,
    hangs: int = 0,
    ran_for: timedelta = TEN_SECONDS,
    cancel_requested: bool = False,
    joined: bool = False,
) -> EndedRun:
    """A run that was called at ``START`` and might have taken a minute."""
    of = definition(trigger=trigger)
    started = instance(of, attempt=3, runs=runs, started_at=START)
    return EndedRun(
        claim=claim_of(started),
        instance=replace(started, hangs=hangs),
        started_at=START,
        ran_for=ran_for,
        expire_after=MINUTE,
        retry=retry or RetryPolicy(),
        now=START + ran_for,
        cancel_requested=cancel_requested,
        joined=joined,
    )


def claim_of(instance: TaskInstance) -> Claim:
    return Claim(instance_id=instance.id, attempt=instance.attempt)


def after(run: EndedRun) -> datetime:
    """When a definition that waits fires next, if this run ends its instance."""
    return run.now + WAITING.every


def test_a_run_that_returns_has_completed_its_instance() -> None:
    run = ended()
    record = RunOutcome(
        claim=claim_of(run.instance),
        started_at=START,
        outcome=Outcome.COMPLETED,
        next_fire_time=after(run),
        has_slot=False,
    )
    assert returned(run) == completed(run) == Decision(record)


def test_it_has_completed_also_if_it_was_asked_to_stop_or_was_the_last_allowed() -> (
    None
):
    for run in [
        ended(cancel_requested=True),
        ended(retry=RetryPolicy(max_attempts=1)),
    ]:
        assert returned(run).record.outcome is Outcome.COMPLETED


def test_a_run_that_raises_is_repeated_expire_after_later_than_it_was_called() -> None:
    run = ended(retry=AFTER_EXPIRY)
    record = RunOutcome(
        claim=claim_of(run.instance),
        started_at=START,
        retry_in=seconds(50),
        error="why",
    )
    assert raised(run, Failure("why")) == Decision(record)


def test_one_that_took_longer_than_that_is_repeated_at_once() -> None:
    run = ended(retry=AFTER_EXPIRY, ran_for=seconds(61))
    assert raised(run, Failure("why")).record.retry_in == ZERO


def test_after_the_last_run_that_its_policy_allows_an_instance_has_failed() -> None:
    assert raised(ended(retry=TWICE), Failure("why")).record.outcome is None
    last = ended(retry=TWICE, runs=2)
    record = raised(last, Failure("why")).record
    assert (record.outcome, record.error) == (Outcome.FAILED, "why")
    assert record.next_fire_time == after(last)


def test_a_run_that_raises_after_it_was_asked_to_stop_is_cancelled() -> None:
    run = ended(cancel_requested=True)
    record = raised(run, Failure("stopped")).record
    assert (record.outcome, record.error) == (Outcome.CANCELLED, "stopped")
    assert record.next_fire_time == after(run)


def test_a_run_that_hangs_is_repeated_and_counts_as_hung() -> None:
    run = ended(ran_for=MINUTE)
    record = RunOutcome(
        claim=claim_of(run.instance), started_at=START, hung=True, error="no result"
    )
    assert hung(run, "no result", max_hangs=3) == Decision(record)


def test_after_so_many_hangs_in_a_row_an_instance_has_failed_as_hanging() -> None:
    second, third = ended(hangs=1), ended(hangs=2)
    assert hung(second, "no result", max_hangs=3).record.outcome is None
    record = hung(third, "no result", max_hangs=3).record
    assert (record.outcome, record.hung) == (Outcome.FAILED, True)
    assert record.error == "hanging: 3 runs in a row had no end; no result"
    assert record.next_fire_time == after(third)
    assert hung(third, "no result", max_hangs=None).record.outcome is None


@pytest.mark.parametrize("hangs", [0, 2])
def test_a_run_that_hangs_after_it_was_asked_to_stop_is_cancelled(hangs: int) -> None:
    run = ended(hangs=hangs, cancel_requested=True)
    record = hung(run, "no result", max_hangs=3).record
    assert (record.outcome, record.hung) == (Outcome.CANCELLED, True)
    assert record.error == "no result"


def test_a_run_that_hangs_and_was_the_last_allowed_has_failed() -> None:
    run = ended(retry=RetryPolicy(max_attempts=1))
    record = hung(run, "no result", max_hangs=3).record
    assert (record.outcome, record.error) == (Outcome.FAILED, "no result")


def test_a_run_that_has_joined_a_transaction_fails_if_that_has_not_committed() -> None:
    run = ended(joined=True)
    by_return, by_error = returned(run).record, raised(run, Failure("why")).record
    assert (by_return.outcome, by_return.error) == (None, NOT_COMMITTED)
    assert (by_error.outcome, by_error.error) == (None, f"{NOT_COMMITTED}\n\nwhy")
    by_hang = hung(run, "no result", max_hangs=1).record
    assert by_hang.error == (
        f"hanging: 1 runs in a row had no end; {NOT_COMMITTED}\n\nno result"
    )
    assert completed(run).record.outcome is Outcome.COMPLETED


def test_what_was_left_behind_is_given_back_and_does_not_count() -> None:
    run = ended()
    why = "its pool is closed"
    given_back = Release(claim=claim_of(run.instance), reason=why)
    assert left_behind(run, why) == given_back


@pytest.mark.parametrize(
    ("run", "outcome"),
    [
        (ended(retry=RetryPolicy(max_attempts=1)), Outcome.FAILED),
        (ended(cancel_requested=True), Outcome.CANCELLED),
    ],
)
def test_what_was_left_behind_and_is_not_to_run_again_has_ended(
    run: EndedRun, outcome: Outcome
) -> None:
    follows = left_behind(run, "its pool is closed")
    assert isinstance(follows, Decision)
    assert (follows.record.outcome, follows.record.error) == (
        outcome,
        "its pool is closed",
    )


def test_a_claimed_instance_may_be_called_while_its_policy_allows_it() -> None:
    assert not_called(instance(runs=1), TWICE, now=START) is None
    assert not_called(instance(runs=2, started_at=START), TWICE, now=START) is None


def test_an_instance_that_somebody_has_cancelled_meanwhile_is_not_called() -> None:
    one = instance(definition(trigger=WAITING), cancel_requested=True)
    record = RunOutcome(
        claim=claim_of(one),
        outcome=Outcome.CANCELLED,
        next_fire_time=START + WAITING.every,
        has_slot=False,
    )
    assert not_called(one, TWICE, now=START) == Decision(record)


def test_an_instance_whose_starts_are_used_up_has_failed_for_its_last_error() -> None:
    silent = instance(runs=2)
    follows = not_called(silent, TWICE, now=START)
    assert follows == Decision(
        RunOutcome(
            claim=claim_of(silent),
            outcome=Outcome.FAILED,
            error="none of 2 recorded starts came to an end",
            has_slot=False,
        )
    )
    spoken = not_called(replace(silent, error="why"), TWICE, now=START)
    assert spoken is not None
    assert spoken.record.error == "why"


def test_the_start_that_is_recorded_already_is_no_run_before() -> None:
    assert runs_before(instance(runs=2)) == 2
    assert runs_before(instance(runs=2, started_at=START)) == 1


def test_a_definition_that_does_not_wait_is_not_asked_for_its_next_fire_time() -> None:
    run = ended(trigger=definition().trigger)
    assert returned(run).record.next_fire_time is None


class FailingTrigger(Trigger):
    """Waits for the end of each run, and then fails."""

    kind = "test_outcomes failing"
    waits = True
    error: ClassVar[BaseException] = ValueError("broken")

    def next_fire_time(self, after: datetime) -> datetime | None:
        raise self.error


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(1)])
def test_a_trigger_that_fails_then_fires_in_a_minute_and_its_error_is_told(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    monkeypatch.setattr(FailingTrigger, "error", error)
    run = ended(trigger=FailingTrigger())
    decision = returned(run)
    assert decision.record.next_fire_time == run.now + MINUTE
    assert decision.trigger_error is error
    cancelled = replace(run.instance, cancel_requested=True)
    refused = not_called(cancelled, TWICE, now=START)
    assert refused is not None
    assert refused.record.next_fire_time == START + MINUTE
    assert refused.trigger_error is error


def test_while_its_instance_is_to_run_again_a_trigger_is_not_asked() -> None:
    decision = raised(ended(trigger=FailingTrigger()), Failure("why"))
    assert decision.record.next_fire_time is None
    assert decision.trigger_error is None


@pytest.mark.parametrize("exclusion", [{"overlap": Overlap.SKIP}, {"lock": "a"}])
def test_only_an_end_of_what_excludes_others_may_have_a_slot(
    exclusion: dict[str, object],
) -> None:
    run = ended(trigger=definition().trigger)
    assert not completed(run).record.has_slot
    of = replace(run.instance.definition, **exclusion)  # type: ignore[arg-type]
    excluding = run._replace(instance=replace(run.instance, definition=of))
    assert completed(excluding).record.has_slot
    over = replace(excluding.instance, cancel_requested=True)
    refused = not_called(over, TWICE, now=START)
    assert refused is not None
    assert refused.record.has_slot
    assert not_run(excluding.instance, "late").record.has_slot
    assert not not_run(run.instance, "late").record.has_slot


@pytest.mark.parametrize(
    ("overlap", "has_slot"), [(Overlap.BUFFER_ALL, True), (Overlap.ALLOW, False)]
)
def test_what_was_backfilled_has_a_slot_by_an_overlap_of_its_own(
    overlap: Overlap, has_slot: bool
) -> None:
    run = ended()
    backfilled = run._replace(instance=replace(run.instance, backfilled=overlap))
    assert completed(backfilled).record.has_slot is has_slot
