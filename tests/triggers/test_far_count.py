"""The count of times over centuries: as many as a walk from one to the next finds."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from sys import maxsize
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from go_scheduler.triggers import RecurrenceTrigger
from go_scheduler.triggers.recurrence.rule import (
    FREQUENCIES,
    RecurrenceRule,
    Weekday,
)
from go_scheduler.triggers.recurrence.series import LocalTimes, WallClock
from go_scheduler.triggers.recurrence.years import FarCount
from tests.triggers.combinations import DAY, MICROSECOND, SECOND, ZONES
from tests.triggers.test_recurrence_times import rules

START = datetime(2009, 11, 7, 23, 30, 17)  # noqa: DTZ001 (local times are naive)
INTERVALS = (1, 2, 5, 7, 59, 97, 1013, 3599, 21_494, 86_399, 99_991, 10**6 + 3)
MOST = {"YEARLY": 100, "MONTHLY": 1200, "WEEKLY": 5218, "DAILY": 36_525}


@st.composite
def far_rules(draw: st.DrawFn) -> RecurrenceRule:
    rule = draw(rules(FREQUENCIES))
    most = MOST.get(rule.frequency, 10**9)
    interval = draw(st.sampled_from([each for each in INTERVALS if each <= most]))
    return replace(rule, interval=interval)


class TestFarCount:
    @settings(max_examples=80, deadline=None)
    @given(
        rule=far_rules(),
        begin=st.integers(0, 10**8),
        days=st.integers(0, 5000),
        seconds=st.integers(0, 86_399),
    )
    @example(
        RecurrenceRule(
            frequency="WEEKLY", week_start=3, interval=5, weekdays=(Weekday(0),)
        ),
        *(0, 4000, 0),
    )
    def test_it_counts_the_times_between_two(
        self, rule: RecurrenceRule, begin: int, days: int, seconds: int
    ) -> None:
        times = LocalTimes(rule, START)
        first = START + begin * SECOND
        last = first + days * DAY + seconds * SECOND
        expected = times.count(first, last, maxsize)
        assert FarCount(times).local(first, last, maxsize) == expected

    @pytest.mark.parametrize(
        "rule",
        [
            RecurrenceRule(frequency="DAILY", months=(7,)),
            RecurrenceRule(frequency="HOURLY", interval=24, months=(7,)),
            RecurrenceRule(
                frequency="MONTHLY", months=(7,), month_days=tuple(range(1, 32))
            ),
        ],
    )
    def test_the_end_of_a_year_is_not_taken_for_as_many_days_at_its_beginning(
        self, rule: RecurrenceRule
    ) -> None:
        begin, end = datetime(2009, 7, 1), datetime(2015, 7, 4)  # noqa: DTZ001
        times = LocalTimes(rule, begin)
        expected = 6 * 31 + 3
        assert times.count(begin, end, maxsize) == expected
        assert FarCount(times).local(begin, end, maxsize) == expected

    @pytest.mark.parametrize("zone", ZONES)
    @pytest.mark.parametrize(
        "rule",
        [
            RecurrenceRule(frequency="HOURLY", interval=5),
            RecurrenceRule(frequency="HOURLY", weekdays=(Weekday(6),)),
            RecurrenceRule(frequency="MINUTELY", interval=97, minutes=(0, 20, 45)),
            RecurrenceRule(frequency="SECONDLY", interval=7201),
        ],
    )
    @pytest.mark.exhaustive
    def test_it_counts_what_a_clock_shows_twice_and_not_what_it_skips(
        self, zone: str, rule: RecurrenceRule
    ) -> None:
        times, clock = LocalTimes(rule, START), WallClock(ZoneInfo(zone))
        begin = START.replace(tzinfo=UTC)
        end = begin + 1700 * DAY
        expected, at = -1, begin - MICROSECOND
        while at < end:
            found = clock.next(times.search, at, elapsed=True)
            assert found is not None
            expected, at = expected + 1, found
        count = FarCount(times)
        assert count.elapsed(begin, end, clock.zone, maxsize) == expected
        assert count.elapsed(begin, begin, clock.zone, maxsize) == 0

    def test_it_stops_where_that_is_enough(self) -> None:
        times = LocalTimes(RecurrenceRule(frequency="HOURLY"), START)
        end = datetime(9999, 1, 1)  # noqa: DTZ001
        assert 24 * 400 <= FarCount(times).local(START, end, 5000) < 24 * 800
        begin, end = START.replace(tzinfo=UTC), end.replace(tzinfo=UTC)
        assert FarCount(times).elapsed(begin, end, UTC, 5000) == 36_525 * 24


class TestCount:
    @pytest.mark.parametrize(
        ("rule", "step"),
        [
            ("FREQ=DAILY", DAY),
            ("FREQ=WEEKLY;INTERVAL=3", 21 * DAY),
            ("FREQ=SECONDLY;INTERVAL=86399", 86_399 * SECOND),
            ("FREQ=SECONDLY;INTERVAL=999983", 999_983 * SECOND),
            ("FREQ=HOURLY;INTERVAL=23;BYMINUTE=0", timedelta(hours=23)),
        ],
    )
    def test_the_last_time_is_found_from_just_before_it(
        self, rule: str, step: timedelta
    ) -> None:
        start = datetime(1903, 1, 1, tzinfo=UTC)
        last = start + 77_776 * step
        for after, expected in ((last - MICROSECOND, last), (last, None)):
            trigger = RecurrenceTrigger(f"{rule};COUNT=77777", start=start)
            assert trigger.next_fire_time(after) == expected

    def test_what_counts_hours_counts_those_that_pass_in_any_zone(self) -> None:
        start = datetime(1990, 1, 1, tzinfo=UTC)
        last = start + timedelta(hours=77_776)
        for after, expected in ((last - MICROSECOND, last), (last, None)):
            trigger = RecurrenceTrigger(
                "FREQ=HOURLY;COUNT=77777",
                start=start.astimezone(ZoneInfo("Europe/Berlin")),
            )
            assert trigger.next_fire_time(after) == expected

    @pytest.mark.parametrize(
        "rule",
        [
            "FREQ=HOURLY;BYMONTHDAY=3,9;BYSETPOS=-1,50;BYEASTER=1",
            "FREQ=MINUTELY;INTERVAL=3599;BYHOUR=5",
            "FREQ=SECONDLY;INTERVAL=21494;BYMONTH=5;BYMINUTE=39",
            "FREQ=SECONDLY;INTERVAL=2000003;BYDAY=MO",
            "FREQ=SECONDLY;INTERVAL=21599;BYHOUR=5;BYDAY=MO,TU,WE,TH,FR,SA",
            "FREQ=DAILY;INTERVAL=11",
            "FREQ=WEEKLY;BYEASTER=10,20;BYSETPOS=-1",
            "FREQ=MONTHLY;BYDAY=MO,FR;BYSETPOS=-1",
            "FREQ=YEARLY;BYDAY=FR",
        ],
    )
    def test_it_is_told_thousands_of_years_ahead_in_few_steps(
        self, rule: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        steps: list[int] = []
        aligned = LocalTimes._aligned

        def recorded(times: LocalTimes, day: int) -> int:
            steps.append(day)
            return aligned(times, day)

        monkeypatch.setattr(LocalTimes, "_aligned", recorded)
        start = "DTSTART;TZID=Australia/Lord_Howe:20240229T020000"
        trigger = RecurrenceTrigger(f"{start}\nRRULE:{rule};COUNT=100000")
        trigger.next_fire_time(datetime(9500, 1, 1, tzinfo=UTC))
        assert len(steps) < 20_000
