"""Which claimed instances come too late to be run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.models import Outcome, Pause
from go_scheduler.policies import CatchUp, Overlap
from go_scheduler.running import intake
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.intake import (
    Accepted,
    Asked,
    Refused,
    dropped,
    judge,
    too_late,
)
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    SECOND,
    TICK,
    WAITING,
    definition,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers import (
    ExecuteOnceTrigger,
    IntervalTrigger,
    Trigger,
)
from go_scheduler.triggers.base import UndecidedError, next_fire_time_of
from tests.conftest import instance

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from go_scheduler.models import TaskInstance

GRACE = 10 * SECOND
LEASE = 20 * SECOND
DEFAULTS = Defaults(lease=LEASE)
HOURLY = IntervalTrigger(HOUR, anchor=START)
EVERY_SECOND = IntervalTrigger(SECOND, anchor=START)
SINCE = "missed by more than the grace of 0:00:10; a later fire time has passed since"


class Foreign(Trigger):
    """Fires each second, and is not to be asked where it may hang."""

    def next_fire_time(self, after: datetime) -> datetime | None:
        raise AssertionError("asked")


def one(
    trigger: Trigger = EVERY_SECOND,
    catch_up: CatchUp | None = None,
    *,
    next_fire_time: datetime | None = None,
    **values: object,
) -> TaskInstance:
    of = replace(definition(next_fire_time, trigger=trigger), catch_up=catch_up)
    return replace(instance(of), **{"attempt": 1, **values})  # type: ignore[arg-type]


def why(given: TaskInstance, late: timedelta) -> str | None:
    return too_late(given, DEFAULTS, now=given.execute_at + late)


def test_what_is_later_than_the_grace_runs_if_it_is_the_latest() -> None:
    assert why(one(), GRACE) is None
    assert why(one(), GRACE + TICK) == SINCE
    assert why(one(HOURLY), HOUR - TICK) is None
    assert why(one(HOURLY), HOUR) == SINCE
    assert why(one(ExecuteOnceTrigger(START)), 1000 * HOUR) is None


def test_the_definitions_own_policy_holds_else_the_schedulers() -> None:
    patient = one(catch_up=CatchUp(grace=MINUTE))
    assert why(patient, MINUTE) is None
    defaults = Defaults(catch_up=CatchUp(mode="all"))
    assert too_late(one(), defaults, now=START + HOUR) is None
    assert too_late(patient, defaults, now=START + HOUR) is not None


def test_of_a_foreign_trigger_a_later_fire_time_is_known_by_its_definition() -> None:
    passed = one(Foreign(), next_fire_time=START + GRACE)
    assert why(passed, GRACE + TICK) == SINCE
    coming = one(Foreign(), next_fire_time=START + HOUR)
    assert why(coming, GRACE + TICK) is None
    assert why(one(Foreign()), HOUR) is None


def test_a_trigger_that_fails_has_no_later_fire_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> datetime:
        raise UndecidedError

    monkeypatch.setattr(intake, "next_fire_time_of", fail)
    assert why(one(), HOUR) is None


def test_what_a_trigger_has_answered_holds_for_others_of_the_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times: list[datetime] = []

    def ask(trigger: Trigger, after: datetime) -> datetime | None:
        times.append(after)
        return next_fire_time_of(trigger, after)

    monkeypatch.setattr(intake, "next_fire_time_of", ask)
    of, asked = definition(trigger=HOURLY), Asked()

    def follows(after: datetime) -> datetime | None:
        return asked.next_fire_time(of, after)

    assert follows(START + TICK) == follows(START + HOUR - TICK) == START + HOUR
    assert times == [START + TICK]
    assert follows(START) == START + HOUR
    assert follows(START + HOUR) == START + 2 * HOUR
    assert times[1:] == [START, START + HOUR]
    assert asked.next_fire_time(definition(trigger=HOURLY), START) == START + HOUR
    assert len(times) == 4


def test_what_fires_no_more_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    of, asked = definition(trigger=ExecuteOnceTrigger(START)), Asked()
    assert asked.next_fire_time(of, START) is None
    monkeypatch.delattr(intake, "next_fire_time_of")
    assert asked.next_fire_time(of, START + HOUR) is None


def test_one_batch_asks_a_trigger_once(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[datetime] = []

    def ask(trigger: Trigger, after: datetime) -> datetime | None:
        times.append(after)
        return next_fire_time_of(trigger, after)

    monkeypatch.setattr(intake, "next_fire_time_of", ask)
    first, asked = one(HOURLY), Asked()
    batch = [first, replace(first, fire_time=START + SECOND)]
    for each in batch:
        now = START + MINUTE
        verdict = judge(
            each, None, defaults=DEFAULTS, refusal=None, now=now, asked=asked
        )
        assert isinstance(verdict, Accepted)
    assert times == [START]


def test_what_was_missed_and_is_not_to_be_caught_up_does_not_run() -> None:
    none = CatchUp(mode="none")
    assert why(one(HOURLY, none), GRACE) is None
    reason = why(one(HOURLY, none), GRACE + TICK)
    assert reason is not None
    assert reason.endswith("; of what was missed nothing is caught up")


def test_the_latest_runs_only_if_it_is_not_too_late_for_that() -> None:
    some = CatchUp(within=MINUTE)
    assert why(one(HOURLY, some), MINUTE) is None
    assert why(one(HOURLY, some), MINUTE + TICK) == (
        "missed by more than 0:01:00, within which it would be caught up"
    )


def test_all_that_is_to_be_caught_up_runs() -> None:
    assert why(one(catch_up=CatchUp(mode="all")), 1000 * HOUR) is None


def test_what_was_in_the_hands_of_a_node_has_two_leases_more() -> None:
    lost = one(attempt=2)
    assert why(lost, GRACE + 2 * LEASE) is None
    assert why(lost, GRACE + 2 * LEASE + TICK) == SINCE


def test_what_has_waited_for_its_turn_is_not_missed() -> None:
    waited = one(attempt=2)
    for values in ({"lock": "disk"}, {"overlap": Overlap.BUFFER_ALL}):
        of = replace(waited.definition, **values)
        assert why(replace(waited, definition=of), HOUR) is None
        first = replace(waited, definition=of, attempt=1)
        assert why(first, GRACE + TICK) == SINCE


@pytest.mark.parametrize(
    "values",
    [
        {"fire_time": None},
        {"runs": 1},
        {"runs": 2, "started_at": START},
        {"error": "no paper", "reopened_at": START + MINUTE},
    ],
)
def test_what_ran_or_is_no_fire_times_is_never_missed(
    values: dict[str, object],
) -> None:
    assert why(one(**values), 1000 * HOUR) is None  # type: ignore[arg-type]


DROPS = CatchUp(mode="all", grace=HOUR, drop_after=MINUTE)
DROPPED = "late by more than its drop_after of 0:01:00"


@pytest.mark.parametrize(
    "given",
    [
        one(catch_up=DROPS),
        one(ExecuteOnceTrigger(START), DROPS),
        one(catch_up=DROPS, fire_time=None),
        one(catch_up=DROPS, attempt=5, runs=1, error="ran before"),
    ],
)
def test_what_is_too_late_is_dropped_whatever_it_is(given: TaskInstance) -> None:
    for each in (too_late, dropped):
        assert each(given, DEFAULTS, now=START + MINUTE) is None
        assert each(given, DEFAULTS, now=START + MINUTE + TICK) == DROPPED


@pytest.mark.parametrize(
    "given",
    [
        one(WAITING, DROPS),
        one(WAITING, CatchUp(mode="none")),
        one(catch_up=DROPS, error="no paper", reopened_at=START + MINUTE),
        one(catch_up=DROPS, runs=1, error="no paper", reopened_at=START + MINUTE),
    ],
)
def test_what_waits_for_a_run_or_is_wanted_by_hand_is_never_too_late(
    given: TaskInstance,
) -> None:
    assert why(given, 1000 * HOUR) is None


def test_what_was_late_when_it_was_scheduled_is_dropped_and_never_missed() -> None:
    for catch_up in (CatchUp(mode="none"), CatchUp(within=MINUTE)):
        given = one(ExecuteOnceTrigger(START), catch_up)
        assert why(given, HOUR) is not None
        overdue = replace(given.definition, overdue=True)
        assert why(replace(given, definition=overdue), 1000 * HOUR) is None
    drops = replace(one(catch_up=DROPS).definition, overdue=True)
    assert why(replace(one(), definition=drops), HOUR) == DROPPED


def test_what_has_nothing_to_do_with_a_pause_does_not_tell_of_it() -> None:
    for first, last in ((-HOUR, -MINUTE), (2 * HOUR, 3 * HOUR)):
        pause = Pause(since=START + first, until=START + last, note="no paper")
        early = pause.explained("late", START, START + MINUTE)
        assert early == "late"
    pause = Pause(since=START, until=START + MINUTE)
    assert pause.explained("late", START, START) != "late"


def test_what_comes_too_late_is_skipped_or_has_failed_if_it_ran() -> None:
    def end(given: TaskInstance) -> tuple[Outcome | None, str | None]:
        verdict = judge(
            given, None, defaults=DEFAULTS, refusal=None, now=START + 2 * MINUTE
        )
        assert isinstance(verdict, Refused)
        return verdict.decision.record.outcome, verdict.decision.record.error

    assert end(one(catch_up=DROPS)) == (Outcome.SKIPPED, DROPPED)
    assert end(one(catch_up=DROPS, runs=1, error="boom")) == (
        Outcome.FAILED,
        f"not run again: {DROPPED}\n\nboom",
    )
    assert end(one(catch_up=DROPS, runs=1)) == (
        Outcome.FAILED,
        f"not run again: {DROPPED}\n\nits last run came to no end",
    )
    in_time = judge(one(), None, defaults=DEFAULTS, refusal=None, now=START)
    assert in_time == Accepted(again=False)
