from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers import (
    CronTrigger,
    IntervalTrigger,
    RecurrenceTrigger,
)
from go_scheduler.triggers.base import UndecidedError
from go_scheduler.triggers.calendars import DateCalendar, register_calendar
from go_scheduler.triggers.combining import (
    AllOfTrigger,
    AnyOfTrigger,
    ExceptTrigger,
    LimitedTrigger,
)
from tests.triggers.combinations import (
    DAILY,
    DAY,
    END,
    HOUR,
    HOURLY,
    MINUTE,
    NOON,
    SECOND,
    SteadyTrigger,
)
from tests.triggers.cron_oracle import fire_times_until as series


class TestLimits:
    @pytest.mark.parametrize(
        ("limits", "hours"),
        [
            ({"start": NOON, "end": NOON + HOUR}, [0, 1]),
            ({"start": NOON, "duration": 2 * HOUR}, [0, 1, 2]),
            ({"start": NOON, "duration": DAY, "end": NOON + HOUR}, [0, 1]),
            ({"start": NOON, "duration": HOUR, "end": NOON + DAY}, [0, 1]),
            ({"start": NOON, "limit": 3}, [0, 1, 2]),
            ({"limit": 3}, [1, 2, 3]),
            ({"duration": 2 * HOUR}, [1, 2]),
            ({"end": NOON + HOUR}, [-1, 0, 1]),
            ({"end": NOON + HOUR, "limit": 3}, [1]),
            ({}, [1, 2, 3, 4]),
        ],
        ids=str,
    )
    def test_each_bound_counts_from_the_start_or_from_when_it_is_scheduled(
        self, limits: Any, hours: list[int]
    ) -> None:
        plain = LimitedTrigger(HOURLY, **limits)
        trigger = plain.anchored(NOON)
        assert trigger == plain
        assert repr(trigger) == repr(plain)
        assert trigger.anchored(NOON + DAY) is trigger
        found = series(trigger, NOON - 2 * HOUR, NOON + 4 * HOUR)
        assert found == [NOON + each * HOUR for each in hours]
        ended = hours[-1] < 4
        assert (trigger.next_fire_time(NOON + 99 * DAY) is None) == ended
        assert (trigger.first_fire_time(NOON + 99 * DAY) is None) == ended

    def test_they_are_kept_in_utc(self) -> None:
        tokyo = NOON.astimezone(ZoneInfo("Asia/Tokyo"))
        trigger = LimitedTrigger(DAILY, start=tokyo, end=tokyo + 9 * DAY)
        assert trigger.start is not None
        assert trigger.start.tzinfo is UTC
        assert trigger == LimitedTrigger(DAILY, start=NOON, end=NOON + 9 * DAY)

    def test_an_interval_without_an_anchor_is_anchored_at_the_start(self) -> None:
        every = IntervalTrigger(10 * MINUTE)
        trigger = LimitedTrigger(every, start=NOON, limit=3)
        expected = [NOON, NOON + 10 * MINUTE, NOON + 20 * MINUTE]
        assert series(trigger, NOON - DAY, NOON + DAY) == expected
        assert trigger.anchored(NOON + HOUR) is trigger
        inner = AnyOfTrigger([every, IntervalTrigger(HOUR, NOON - HOUR)])
        assert LimitedTrigger(inner, start=NOON).next_fire_time(NOON - DAY) == NOON

    def test_before_it_is_scheduled_nothing_is_counted(self) -> None:
        trigger = LimitedTrigger(DAILY, limit=1)
        assert len(series(trigger, NOON, NOON + 5 * DAY)) == 5
        assert trigger.first_fire_time(NOON) == DAILY.next_fire_time(NOON)
        plain = LimitedTrigger(HOURLY, duration=2 * HOUR)
        assert plain.next_fire_time(NOON + 99 * DAY) == NOON + 99 * DAY + HOUR

    def test_scheduled_at_the_end_of_time_it_never_fires(self) -> None:
        assert LimitedTrigger(DAILY, limit=1).anchored(END).first_fire_time(END) is None

    def test_it_may_last_for_ever(self) -> None:
        trigger = LimitedTrigger(HOURLY, start=NOON, duration=timedelta.max)
        assert trigger.next_fire_time(NOON + 999_999 * DAY) is not None

    def test_fire_times_are_not_counted_again(self) -> None:
        trigger = LimitedTrigger(SteadyTrigger(60), start=NOON, limit=1000)
        last = NOON + 999 * MINUTE
        assert trigger.next_fire_time(last - MINUTE) == last
        SteadyTrigger.asked.clear()
        again = LimitedTrigger.from_dict(json.loads(json.dumps(trigger.to_dict())))
        assert again.next_fire_time(last - MINUTE) == last
        assert again.next_fire_time(last) is None
        assert again.next_fire_time(NOON + MINUTE) == NOON + 2 * MINUTE
        assert len(SteadyTrigger.asked) <= 6

    def test_fire_times_are_counted_anew_when_a_calendar_changes(self) -> None:
        register_calendar("tests.off", DateCalendar([NOON.date() + DAY]))
        trigger = LimitedTrigger(ExceptTrigger(DAILY, "tests.off"), start=NOON, limit=2)
        found = series(trigger, NOON, NOON + 9 * DAY)
        assert [each.day for each in found] == [1, 3]
        register_calendar("tests.off", DateCalendar([NOON.date() + 2 * DAY]))
        found = series(trigger, NOON, NOON + 9 * DAY)
        assert [each.day for each in found] == [1, 2]

    def test_a_low_limit_is_counted_one_by_one_where_sets_take_too_much(self) -> None:
        rules = [
            RecurrenceTrigger(f"FREQ=SECONDLY;INTERVAL={n}", start=NOON)
            for n in range(1009, 1049)
        ]
        trigger = AnyOfTrigger(rules)
        begin = NOON - 700 * DAY
        low = LimitedTrigger(trigger, start=begin, limit=3)
        expected = [NOON, NOON + 1009 * SECOND, NOON + 1010 * SECOND]
        assert series(low, begin, NOON + DAY) == expected
        high = LimitedTrigger(trigger, start=begin, limit=101)
        with pytest.raises(UndecidedError):
            high.next_fire_time(begin)

    def test_a_count_that_takes_too_many_candidates_is_left_open(self) -> None:
        seldom = AllOfTrigger([SteadyTrigger(20), SteadyTrigger(21)])
        begin = datetime(1970, 1, 2, tzinfo=UTC)
        trigger = LimitedTrigger(seldom, start=begin, limit=100_000)
        assert len(series(trigger, begin, begin + DAY)) == 206
        with pytest.raises(InvalidTriggerError, match="could not be decided"):
            trigger.next_fire_time(begin + 40 * DAY)

    def test_a_limit_of_a_series_that_ends_earlier_is_never_reached(self) -> None:
        trigger = LimitedTrigger(
            LimitedTrigger(DAILY, end=NOON + 2 * DAY), start=NOON, limit=9
        )
        assert len(series(trigger, NOON, NOON + 99 * DAY)) == 2

    @pytest.mark.parametrize(
        "limits",
        [
            {"start": NOON, "end": NOON + HOUR},
            {"end": datetime(1969, 1, 1, tzinfo=UTC)},
            {"start": END},
        ],
    )
    def test_what_never_fires_within_its_bounds_is_refused(self, limits: Any) -> None:
        with pytest.raises(InvalidTriggerError, match="limited: it never fires"):
            LimitedTrigger(CronTrigger("30 9 * * *"), **limits)
