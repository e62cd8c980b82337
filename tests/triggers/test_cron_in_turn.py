from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers.cron import CronTrigger
from tests.triggers.cron_oracle import (
    DAY,
    HOUR,
    MICROSECOND,
    expressions,
    fire_times,
    near_changes,
)

NEW_YORK = "America/New_York"


def one_by_one(trigger: CronTrigger, after: datetime, count: int) -> list[datetime]:
    """So many fire times, each found by a trigger that was asked nothing before."""
    found: list[datetime] = []
    for _ in range(count):
        fresh = CronTrigger.from_dict(trigger.to_dict())
        next_one = fresh.next_fire_time(after)
        if next_one is None:
            break
        found.append(after := next_one)
    return found


def in_turn(trigger: CronTrigger, after: datetime, count: int) -> list[datetime]:
    """So many fire times, each found by the same trigger."""
    found: list[datetime] = []
    for _ in range(count):
        next_one = trigger.next_fire_time(after)
        if next_one is None:
            break
        found.append(after := next_one)
    return found


class TestCronInTurn:
    @pytest.mark.exhaustive
    @settings(max_examples=40, deadline=None)
    @given(
        expression=expressions(),
        change=near_changes(),
        gap=st.sampled_from(["next", "skip"]),
        overlap=st.sampled_from(["first", "second", "both"]),
    )
    def test_one_after_the_other_is_the_same_as_one_by_one(
        self,
        expression: str,
        change: tuple[ZoneInfo, datetime],
        gap: str,
        overlap: str,
    ) -> None:
        zone, after = change
        try:
            trigger = CronTrigger(expression, zone, gap=gap, overlap=overlap)
        except InvalidTriggerError:
            return
        assert in_turn(trigger, after, 100) == one_by_one(trigger, after, 100)

    @pytest.mark.parametrize(
        "expression",
        [
            *("* * * * *", "*/15 9-17 * * MON-FRI", "0 2 * * *", "30 1 * * *"),
            *(
                "0 0 29 2 *",
                "* * * * * * *",
                "*/30 * * * * * *",
                "0 0 0 1 1 ? 2024-2090",
            ),
        ],
    )
    @pytest.mark.parametrize("timezone", ["UTC", NEW_YORK])
    def test_hundreds_in_turn_are_the_same_as_one_by_one(
        self, expression: str, timezone: str
    ) -> None:
        trigger = CronTrigger(expression, timezone)
        after = datetime(2024, 10, 31, tzinfo=UTC)
        found = in_turn(trigger, after, 300)
        assert found == one_by_one(trigger, after, 300)

    def test_it_may_be_asked_for_earlier_and_later_instants_in_between(self) -> None:
        trigger = CronTrigger("*/10 * * * *", NEW_YORK)
        start = datetime(2024, 11, 3, 3, tzinfo=UTC)
        expected = one_by_one(trigger, start, 50)
        after = start
        for each in expected:
            assert trigger.next_fire_time(after) == each
            for other in (start - DAY, each + DAY, each - MICROSECOND):
                fresh = CronTrigger("*/10 * * * *", NEW_YORK)
                found = trigger.next_fire_time(other)
                assert found == fresh.next_fire_time(other)
            after = each

    def test_the_calendar_ends(self) -> None:
        for timezone in ("UTC", NEW_YORK, "Asia/Tokyo"):
            trigger = CronTrigger("0 4,22 * * *", timezone)
            start = datetime(9999, 12, 27, tzinfo=UTC)
            found = in_turn(trigger, start, 100)
            assert 9 <= len(found) <= 10
            assert found == one_by_one(trigger, start, 100)

    def test_equal_instants_that_are_other_objects_make_no_difference(self) -> None:
        trigger = CronTrigger("0 2 * * *", NEW_YORK)
        zone = ZoneInfo("Asia/Tokyo")
        after = datetime(2024, 10, 31, tzinfo=UTC)
        expected = fire_times(trigger, after, 200)
        for each in expected:
            found = trigger.next_fire_time(after.astimezone(zone))
            assert found == each
            after = each + timedelta(0)

    def test_several_threads_may_ask(self) -> None:
        trigger = CronTrigger("*/20 * * * *", NEW_YORK)
        starts = [datetime(2024, 11, 2, tzinfo=UTC) + n * 7 * HOUR for n in range(8)]
        with ThreadPoolExecutor(8) as pool:
            found = list(
                pool.map(lambda start: fire_times(trigger, start, 300), starts)
            )
        assert found == [one_by_one(trigger, start, 300) for start in starts]
