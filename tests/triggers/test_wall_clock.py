from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, field
from datetime import UTC, datetime, time
from typing import TYPE_CHECKING, Any, ClassVar
from zoneinfo import ZoneInfo

import pytest

from go_scheduler.triggers.cron import CronTrigger
from go_scheduler.triggers.local_time import WallClockTrigger, check_wall_clock
from tests.case_tables import json_table, table
from tests.triggers.cron_oracle import DAY, HOUR, fire_times, fire_times_until

if TYPE_CHECKING:
    from go_scheduler.triggers.local_time import Search

NEW_YORK = "America/New_York"


@dataclass(frozen=True, slots=True)
class DailyTrigger(WallClockTrigger):
    """Fires each day at a time, as the shortest trigger of its sort."""

    kind: ClassVar[str] = "tests.daily"
    rules_read: ClassVar[list[str]] = []

    hour: int
    timezone: str = NEW_YORK
    gap: str = field(default="next", kw_only=True)
    overlap: str = field(default="first", kw_only=True)

    def __post_init__(self) -> None:
        check_wall_clock(self.timezone, gap=self.gap, overlap=self.overlap)

    def _rule(self) -> tuple[Search, bool]:
        self.rules_read.append(self.timezone)
        return self._search, False

    def _search(self, start: datetime) -> datetime | None:
        found = datetime.combine(start, time(self.hour, 30))
        return found if found >= start else found + DAY


def test_a_rule_is_read_once() -> None:
    trigger = DailyTrigger(2)
    DailyTrigger.rules_read.clear()
    fire_times(trigger, datetime(2024, 1, 1, tzinfo=UTC), 3)
    trigger.effect(datetime(2024, 1, 1, 7, 30, tzinfo=UTC))
    trigger.warnings(datetime(2024, 1, 1, tzinfo=UTC))
    assert DailyTrigger.rules_read == [NEW_YORK]


@pytest.mark.parametrize("again", [copy.copy, pickle.dumps])
def test_what_was_read_is_not_part_of_it(again: object) -> None:
    assert callable(again)
    for trigger in (DailyTrigger(2), CronTrigger("* * * * *", NEW_YORK)):
        fresh = again(trigger)
        fire_times(trigger, datetime(2024, 1, 1, tzinfo=UTC), 3)
        assert again(trigger) == fresh
        assert trigger == type(trigger).from_dict(trigger.to_dict())


def test_only_choices_that_differ_are_stored() -> None:
    assert DailyTrigger(2).to_dict() == {"hour": 2, "timezone": NEW_YORK}
    trigger = DailyTrigger(2, gap="skip", overlap="second")
    assert trigger.to_dict() == {
        "hour": 2,
        "timezone": NEW_YORK,
        "gap": "skip",
        "overlap": "second",
    }
    for each in (DailyTrigger(2), trigger, DailyTrigger(2, overlap="both")):
        assert DailyTrigger.from_dict(each.to_dict()) == each


@pytest.mark.parametrize(
    ("choices", "expression", "expected"), json_table("triggers/cron_choices")
)
def test_a_gap_and_an_overlap_of_2024(
    choices: dict[str, Any], expression: str, expected: str
) -> None:
    trigger = CronTrigger(expression, NEW_YORK, **choices)
    start = datetime(2024, 1, 1, tzinfo=UTC)
    found = fire_times_until(trigger, start, start + 366 * DAY)
    assert ", ".join(f"{each:%d %H:%M}" for each in found) == expected


@pytest.mark.parametrize(
    ("choices", "expression", "zone", "fire_time", "effect"),
    json_table("triggers/cron_effects"),
)
def test_what_is_special_about_a_fire_time(
    choices: dict[str, Any], expression: str, zone: str, fire_time: str, effect: str
) -> None:
    trigger = CronTrigger(expression, zone, **choices)
    at = datetime.fromisoformat(fire_time).replace(tzinfo=UTC)
    assert trigger.next_fire_time(at - HOUR / 3600) == at
    for each in (at, at.astimezone(ZoneInfo("Asia/Tokyo"))):
        assert (trigger.effect(each) or "") == effect


@pytest.mark.parametrize(
    ("expression", "timezone", "gap", "now", "warning"),
    table("triggers/cron_skipped"),
)
def test_a_time_is_skipped_within_a_year(
    expression: str, timezone: str, gap: str, now: str, warning: str
) -> None:
    trigger = CronTrigger(expression, timezone, gap=gap)
    at = datetime.fromisoformat(now).replace(tzinfo=UTC)
    assert trigger.warnings(at) == ((warning,) if warning else ())
