"""Which claimed instances come too late to be run: a decision without any store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.models import Pause
from go_scheduler.policies import CatchUp, Overlap
from go_scheduler.running import intake
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.intake import Asked, dropped, too_late
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    SECOND,
    TICK,
    WAITING,
    definition,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers import ExecuteOnceTrigger, IntervalTrigger, Trigger
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
ONCE = ExecuteOnceTrigger(START)
LATER = 1000 * HOUR
DROPS = CatchUp(mode="all", grace=HOUR, drop_after=MINUTE)
SINCE = "missed by more than the grace of 0:00:10; a later fire time has passed since"
SINCE_A_MINUTE = SINCE.replace("0:00:10", "0:01:00")
NOTHING = "missed by more than the grace of 0:00:10; of what was missed nothing is"
WITHIN = "missed by more than 0:01:00, within which it would be caught up"
DROPPED = "late by more than its drop_after of 0:01:00"


class Foreign(Trigger):
    """Fires each second, and is not to be asked where it may hang."""

    def next_fire_time(self, after: datetime) -> datetime | None:
        raise AssertionError("asked")


def one(
    trigger: Trigger = EVERY_SECOND,
    catch_up: CatchUp | None = None,
    of: Any = None,
    **values: Any,
) -> TaskInstance:
    made = replace(
        definition(None, trigger=trigger),
        catch_up=catch_up,
        **(of or {}),
    )
    return replace(instance(made), **{"attempt": 1, **values})


REOPENED: Any = {"error": "no paper", "reopened_at": START + MINUTE}
NONE, SOME = CatchUp(mode="none"), CatchUp(within=MINUTE)


@pytest.mark.parametrize(
    ("given", "latest", "why"),
    [
        # What is later than the grace runs if it is the latest.
        (one(), GRACE, SINCE),
        (one(HOURLY), HOUR - TICK, SINCE),
        (one(ONCE), LATER, None),
        (one(catch_up=CatchUp(grace=MINUTE)), MINUTE, SINCE_A_MINUTE),
        # Of a user's trigger a later fire time is known by its definition alone.
        (one(Foreign(), of={"next_fire_time": START + GRACE}), GRACE, SINCE),
        (one(Foreign(), of={"next_fire_time": START + HOUR}), HOUR - TICK, SINCE),
        (one(Foreign()), LATER, None),
        # What its policy says.
        (one(HOURLY, NONE), GRACE, NOTHING),
        (one(HOURLY, SOME), MINUTE, WITHIN),
        (one(catch_up=CatchUp(mode="all")), LATER, None),
        # What was in the hands of a node has two leases more.
        (one(attempt=2), GRACE + 2 * LEASE, SINCE),
        # What has waited for its turn is not missed.
        (one(of={"lock": "disk"}, attempt=2), LATER, None),
        (one(of={"overlap": Overlap.BUFFER_ALL}, attempt=2), LATER, None),
        (one(of={"lock": "disk"}), GRACE, SINCE),
        # What ran, or is no fire time, is never missed.
        (one(fire_time=None), LATER, None),
        (one(runs=1), LATER, None),
        (one(runs=2, started_at=START), LATER, None),
        (one(**REOPENED), LATER, None),
        # What is too late is dropped, whatever it is,
        (one(catch_up=DROPS), MINUTE, DROPPED),
        (one(ONCE, DROPS), MINUTE, DROPPED),
        (one(catch_up=DROPS, fire_time=None), MINUTE, DROPPED),
        (one(catch_up=DROPS, attempt=5, runs=1, error="boom"), MINUTE, DROPPED),
        # but for what waits for a run, or is wanted by hand.
        (one(WAITING, DROPS), LATER, None),
        (one(WAITING, NONE), LATER, None),
        (one(catch_up=DROPS, **REOPENED), LATER, None),
        (one(catch_up=DROPS, runs=1, **REOPENED), LATER, None),
        # What was late when it was scheduled is dropped, and never missed.
        (one(ONCE, NONE), GRACE, NOTHING),
        (one(ONCE, NONE, {"overdue": True}), LATER, None),
        (one(ONCE, SOME, {"overdue": True}), LATER, None),
        (one(catch_up=DROPS, of={"overdue": True}), MINUTE, DROPPED),
    ],
)
def test_an_instance_may_run_up_to_here_and_not_later(
    given: TaskInstance, latest: timedelta, why: str | None
) -> None:
    def reason(late: timedelta) -> str | None:
        return too_late(given, DEFAULTS, now=given.execute_at + late)

    assert reason(latest) is None
    assert (reason(latest + TICK) or "").startswith(why or "")
    assert (reason(latest + TICK) is None) is (why is None)
    is_dropped = dropped(given, DEFAULTS, now=given.execute_at + latest + TICK)
    assert (is_dropped is not None) is (why == DROPPED)


def test_the_reason_names_the_pause_in_which_it_fell_due() -> None:
    pause = Pause(since=START, until=START + HOUR, note="holidays")
    given = one(catch_up=DROPS, of={"last_pause": pause})
    reason = too_late(given, DEFAULTS, now=given.execute_at + HOUR)
    assert "holidays" in (reason or "")


def test_a_batch_asks_a_trigger_no_more_often_than_it_has_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times: list[datetime] = []

    def ask(trigger: Trigger, after: datetime) -> datetime | None:
        times.append(after)
        if after == START + 9 * HOUR:
            raise UndecidedError
        return next_fire_time_of(trigger, after)

    monkeypatch.setattr(intake, "next_fire_time_of", ask)
    of, asked = definition(trigger=HOURLY), Asked()
    for after, follows, count in (
        (START + TICK, START + HOUR, 1),
        (START + HOUR - TICK, START + HOUR, 1),
        (START, START + HOUR, 2),
        (START + HOUR, START + 2 * HOUR, 3),
        # One that fails has no later fire time.
        (START + 9 * HOUR, None, 4),
        (START + 10 * HOUR, None, 4),
    ):
        assert asked.next_fire_time(of, after) == follows
        assert len(times) == count
    assert asked.next_fire_time(definition(trigger=HOURLY), START) == START + HOUR
    assert len(times) == 5
