"""Which claimed instances may run here, and what becomes of the others."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler.handlers.registry import HandlerRegistry
from go_scheduler.models import Outcome
from go_scheduler.policies import RetryPolicy
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.intake import (
    Accepted,
    GivenBack,
    Refused,
    Verdict,
    judge,
)
from go_scheduler.running.outcomes import not_called
from go_scheduler.testing.builders import definition
from go_scheduler.testing.clock import START
from go_scheduler.triggers.stored import UnknownTrigger
from tests.conftest import instance

if TYPE_CHECKING:
    from go_scheduler.handlers.registry import Handler
    from go_scheduler.models import TaskInstance

REFUSAL = "3 runs of report hang here"


def handle(instance: TaskInstance) -> None:
    """Any handler."""


def judged(
    one: TaskInstance, handler: Handler = handle, *, refusal: str | None = None
) -> Verdict:
    return judge(one, handler, defaults=Defaults(), refusal=refusal, now=START)


def test_what_a_node_has_claimed_it_calls() -> None:
    assert judged(instance()) == Accepted(again=False)


def test_it_runs_again_if_its_last_run_came_to_no_end() -> None:
    unended = instance(runs=1)
    assert judged(unended) == Accepted(again=True)
    assert judged(replace(unended, error="why")) == Accepted(again=False)
    assert judged(instance(runs=1, started_at=START)) == Accepted(again=False)


@pytest.mark.parametrize(
    "one",
    [
        instance(cancel_requested=True),
        instance(replace(definition(), retry=RetryPolicy(max_attempts=1)), runs=1),
    ],
)
def test_what_is_not_to_be_called_at_all_ends_wherever_it_was_claimed(
    one: TaskInstance,
) -> None:
    decision = not_called(one, Defaults().retry_of(one), now=START)
    assert decision is not None
    assert decision.record.outcome in (Outcome.CANCELLED, Outcome.FAILED)
    assert judged(one, HandlerRegistry(), refusal=REFUSAL) == Refused(decision)


def reason(verdict: Verdict) -> str:
    assert isinstance(verdict, GivenBack)
    return verdict.reason


def test_what_has_no_handler_here_is_given_back_with_its_reason() -> None:
    registry = HandlerRegistry()
    registry.register("report")(handle)
    named = instance(definition(name="report"))
    assert judged(named, registry) == Accepted(again=False)
    assert reason(judged(instance(definition(name="bill")), registry)) == (
        "no handler is registered for definitions 'bill' here; registered: 'report'"
    )
    assert reason(judged(instance(), registry)) == (
        "no handler is registered for definitions without a name here: pass name= to"
        " TaskDefinition"
    )


def test_what_has_a_trigger_that_is_not_known_here_is_given_back() -> None:
    moon = UnknownTrigger(unknown_kind="moon", state={}, reason="no class for moons")
    given_back = judged(instance(definition(trigger=moon)))
    assert reason(given_back) == "no class for moons"


def test_what_hangs_here_too_often_is_given_back() -> None:
    assert reason(judged(instance(), refusal=REFUSAL)) == REFUSAL


def test_it_is_given_back_for_longer_each_time_and_for_a_minute_at_most() -> None:
    delays = []
    for attempt in (1, 2, 3, 11, 12, 1_000_000):
        verdict = judged(instance(attempt=attempt), refusal=REFUSAL)
        assert isinstance(verdict, GivenBack)
        delays.append(verdict.delay / timedelta(milliseconds=1))
    assert delays == [50, 100, 200, 51_200, 60_000, 60_000]
