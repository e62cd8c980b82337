from __future__ import annotations

import json
import re
import zoneinfo
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.testing.triggers import TriggerSuite
from go_scheduler.triggers import CronTrigger, Trigger

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CASES = json.loads((Path(__file__).parent / "cron_cases.json").read_text())["cases"]
NOW = datetime(2024, 2, 28, 23, 59, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
MICROSECOND = timedelta(microseconds=1)
BOUNDS = {
    "minute": (0, 59),
    "hour": (0, 23),
    "day-of-month": (1, 31),
    "month": (1, 12),
    "day-of-week": (0, 6),
}
MONTHS = "January February March April May June July August September October November"
WEEKDAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday"


def fire_times(trigger: Trigger, after: datetime, count: int) -> list[datetime]:
    found: list[datetime] = []
    while len(found) < count:
        next_one = trigger.next_fire_time(after)
        assert next_one is not None
        assert next_one > after
        found.append(after := next_one)
    return found


def local_times(expression: str, timezone: str, day: str, count: int = 3) -> list[str]:
    """The first fire times from midnight of a day, as the zone's clock shows them."""
    zone = ZoneInfo(timezone)
    after = datetime.fromisoformat(day).replace(tzinfo=zone) - MICROSECOND
    found = fire_times(CronTrigger(expression, timezone), after, count)
    return [f"{each.astimezone(zone):%m-%d %H:%M%z}" for each in found]


class TestCronTrigger(TriggerSuite):
    @pytest.fixture(
        params=[
            ("*/10 * * * *", "UTC"),
            ("30 2 * * *", "America/New_York"),
            ("*/20 1,2 29 feb mon-fri", "Australia/Lord_Howe"),
            ("@yearly", "Pacific/Apia"),
        ],
        ids=lambda param: param[0],
    )
    def trigger(self, request: pytest.FixtureRequest) -> Trigger:
        return CronTrigger(*request.param)


class TestFields:
    @pytest.mark.parametrize(
        "case", CASES, ids=[f"{case['expr']}|{case['tz']}" for case in CASES]
    )
    def test_it_agrees_with_other_implementations(self, case: dict[str, Any]) -> None:
        if not case["expected"]:
            with pytest.raises(InvalidTriggerError, match="never fires"):
                CronTrigger(case["expr"], case["tz"])
            return
        expected = [datetime.fromisoformat(each) for each in case["expected"]]
        trigger = CronTrigger(case["expr"], case["tz"])
        start = datetime.fromisoformat(case["start"])
        assert fire_times(trigger, start, len(expected)) == expected

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("0 0 1 January *", "0 0 1 1 *"),
            ("0 0 1 jan-MAR,dec *", "0 0 1 1-3,12 *"),
            ("0 0 1 april-August/2 *", "0 0 1 4,6,8 *"),
            ("0 0 * * Sunday", "0 0 * * 0"),
            ("0 0 * * 7", "0 0 * * SUN"),
            ("0 0 * * fri-7", "0 0 * * 0,5,6"),
            ("0 0 * * 0-7", "0 0 * * 0-6"),
            ("0 0 * * 1-7/3", "0 0 * * 1,4,7"),
            ("0 0 * * 7/2", "0 0 * * 0"),
            ("0 0 * * 7-7", "0 0 * * 0"),
            ("0 0 * * 3/2", "0 0 * * 3,5"),
            ("0 0 * * tue/2", "0 0 * * 2,4,6"),
            ("0 0 * * */2", "0 0 * * 0,2,4,6"),
            ("9-9 9-9 * * *", "9 9 * * *"),
            ("9-9/2 0 * * *", "9 0 * * *"),
            ("0 0 1 jan-jan *", "0 0 1 1 *"),
            ("0 0 1 dec/3 *", "0 0 1 12 *"),
            ("59/15 0 * * *", "59 0 * * *"),
            ("5/20 0 * * *", "5,25,45 0 * * *"),
            ("10-40/15,7 0 * * *", "7,10,25,40 0 * * *"),
            ("0-59/60 0 * * *", "0 0 * * *"),
            ("00 008 01 001 *", "0 8 1 1 *"),
            ("5,5,5 0 * * *", "5 0 * * *"),
            ("0 0 */10 * *", "0 0 1,11,21,31 * *"),
            ("*,5 0 * * *", "* 0 * * *"),
            ("@hourly", "0 * * * *"),
            ("@daily", "0 0 * * *"),
            ("@midnight", "0 0 * * *"),
            ("@weekly", "0 0 * * 7"),
            ("@monthly", "0 0 1 * *"),
            ("@yearly", "0 0 1 1 *"),
            (" @Annually\n", "0 0 1 1 *"),
        ],
    )
    def test_there_are_several_ways_to_write_it(self, one: str, other: str) -> None:
        expected = fire_times(CronTrigger(other), NOW, 40)
        assert fire_times(CronTrigger(one), NOW, 40) == expected

    @pytest.mark.parametrize("number", range(1, 12))
    def test_months_have_two_names(self, number: int) -> None:
        name = MONTHS.split()[number - 1]
        expected = fire_times(CronTrigger(f"0 0 1 {number} *"), NOW, 2)
        for spelling in (name, name[:3].lower()):
            found = fire_times(CronTrigger(f"0 0 1 {spelling} *"), NOW, 2)
            assert found == expected

    @pytest.mark.parametrize("number", range(7))
    def test_days_of_the_week_have_two_names(self, number: int) -> None:
        name = WEEKDAYS.split()[number]
        expected = fire_times(CronTrigger(f"0 0 * * {number}"), NOW, 2)
        assert f"{expected[0]:%A}" == name
        for spelling in (name.upper(), name[:3]):
            found = fire_times(CronTrigger(f"0 0 * * {spelling}"), NOW, 2)
            assert found == expected

    @pytest.mark.parametrize(
        ("expression", "days"),
        [
            ("0 0 13 * *", [13]),
            ("0 0 * * 5", [1, 8, 15, 22, 29]),
            ("0 0 13 * 5", [1, 8, 13, 15, 22, 29]),
            ("0 0 */10 * 5", [1, 8, 11, 15, 21, 22, 29, 31]),
            ("0 0 13 * */6", [2, 3, 9, 10, 13, 16, 17, 23, 24, 30, 31]),
            ("0 0 *,13 * 5", [1, 8, 15, 22, 29]),
            ("0 0 1-31 * 5", list(range(1, 32))),
            ("0 0 13 * 0-6", list(range(1, 32))),
        ],
    )
    def test_one_of_two_restricted_day_fields_is_enough(
        self, expression: str, days: list[int]
    ) -> None:
        march = datetime(2024, 3, 1, tzinfo=UTC)
        found = fire_times(CronTrigger(expression), march - MICROSECOND, len(days) + 1)
        assert [each.day for each in found[:-1]] == days
        assert found[-1].month == 4

    @settings(max_examples=25, deadline=None)
    @given(st.data())
    def test_every_list_means_the_numbers_it_names(self, data: st.DataObject) -> None:
        minutes, hours = (data.draw(lists(name)) for name in ("minute", "hour"))
        trigger = CronTrigger(f"{minutes} {hours} * * *")
        expected = [
            NOW.replace(day=29, hour=hour, minute=minute, second=0)
            for hour in sorted(numbers(hours, "hour"))
            for minute in sorted(numbers(minutes, "minute"))
        ]
        assert fire_times(trigger, NOW, len(expected)) == expected
        weekdays = data.draw(lists("day-of-week"))
        found = fire_times(CronTrigger(f"0 0 * * {weekdays}"), NOW, 7)
        days = {each.isoweekday() % 7 for each in found}
        assert days == numbers(weekdays, "day-of-week")


class TestSearch:
    def test_the_next_time_is_strictly_later(self) -> None:
        trigger = CronTrigger("30 12 * * *")
        noon = datetime(2024, 5, 5, 12, 30, tzinfo=UTC)
        assert trigger.next_fire_time(noon - MICROSECOND) == noon
        assert trigger.next_fire_time(noon) == noon + timedelta(days=1)
        assert trigger.next_fire_time(noon + MICROSECOND) == noon + timedelta(days=1)

    @pytest.mark.parametrize(
        ("expression", "after", "expected"),
        [
            ("0 0 29 2 *", "1896-02-29", "1904-02-29"),
            ("0 0 29 2 *", "2096-02-29", "2104-02-29"),
            ("0 0 29 feb *", "2024-02-28", "2024-02-29"),
            ("0 0 31 * *", "2024-01-31", "2024-03-31"),
            ("0 0 1 1 *", "2024-01-01", "2025-01-01"),
            ("0 0 30 2,4 *", "2024-02-01", "2024-04-30"),
        ],
    )
    def test_rare_dates_are_found(
        self, expression: str, after: str, expected: str
    ) -> None:
        start = datetime.fromisoformat(after).replace(tzinfo=UTC)
        found = CronTrigger(expression).next_fire_time(start)
        assert found == datetime.fromisoformat(expected).replace(tzinfo=UTC)

    @pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
    @pytest.mark.parametrize(
        "expression", ["* * * * *", "0 0 1 1 *", "0 0 29 2 *", "59 23 31 12 *"]
    )
    def test_the_calendar_ends_with_the_year_9999(
        self, expression: str, zone: str
    ) -> None:
        trigger = CronTrigger(expression, zone)
        last = datetime.max.replace(tzinfo=UTC)
        for before in (timedelta(0), MICROSECOND, 30 * MINUTE / 60):
            assert trigger.next_fire_time(last - before) is None
        found = trigger.next_fire_time(last - timedelta(days=5 * 366))
        assert found is not None

    def test_times_late_on_the_last_day_do_not_exist_west_of_greenwich(self) -> None:
        trigger = CronTrigger("0 22 31 12 *", "America/New_York")
        assert trigger.next_fire_time(datetime(9999, 6, 1, tzinfo=UTC)) is None

    @pytest.mark.parametrize(
        ("zone", "expected"),
        [
            ("America/New_York", datetime(1, 1, 1, 4, 56, 2, tzinfo=UTC)),
            ("Asia/Tokyo", datetime(1, 12, 31, 14, 41, 1, tzinfo=UTC)),
        ],
    )
    def test_the_calendar_begins_with_the_year_1(
        self, zone: str, expected: datetime
    ) -> None:
        first = datetime.min.replace(tzinfo=UTC)
        assert CronTrigger("0 0 1 1 *", zone).next_fire_time(first) == expected

    def test_an_instant_needs_a_time_zone(self) -> None:
        with pytest.raises(ValueError, match="after has no time zone"):
            CronTrigger("* * * * *").next_fire_time(NOW.replace(tzinfo=None))


class TestChangesOfTheClocks:
    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            ("30 2 * * *", ["03-10 03:00-0400", "03-11 02:30-0400"]),
            ("0 2 * * *", ["03-10 03:00-0400", "03-11 02:00-0400"]),
            ("59 1 * * *", ["03-10 01:59-0500", "03-11 01:59-0400"]),
            ("0 3 * * *", ["03-10 03:00-0400", "03-11 03:00-0400"]),
            ("0,20,40 2 * * *", ["03-10 03:00-0400", "03-11 02:00-0400"]),
            ("30 2 10 3 *", ["03-10 03:00-0400", "03-10 02:30-0400"]),
            ("0 2,3 * * *", ["03-10 03:00-0400", "03-11 02:00-0400"]),
            ("0 1-4 * * *", ["03-10 01:00-0500", "03-10 03:00-0400"]),
            ("30 1-3 * * *", ["03-10 01:30-0500", "03-10 03:00-0400"]),
            ("*/30 2 * * *", ["03-11 02:00-0400", "03-11 02:30-0400"]),
            ("0 */2 * * *", ["03-10 00:00-0500", "03-10 04:00-0400"]),
            ("30 * * * *", ["03-10 00:30-0500", "03-10 01:30-0500"]),
        ],
    )
    def test_new_york_skips_two_o_clock(
        self, expression: str, expected: list[str]
    ) -> None:
        found = local_times(expression, "America/New_York", "2024-03-10", 2)
        assert found == expected

    def test_what_follows_elapsed_time_skips_with_the_clock(self) -> None:
        found = local_times("*/30 * * * *", "America/New_York", "2024-03-10", 6)
        assert [each[6:] for each in found] == [
            "00:00-0500",
            "00:30-0500",
            "01:00-0500",
            "01:30-0500",
            "03:00-0400",
            "03:30-0400",
        ]

    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            ("30 1 * * *", ["11-03 01:30-0400", "11-04 01:30-0500"]),
            ("0 1 * * *", ["11-03 01:00-0400", "11-04 01:00-0500"]),
            ("0 2 * * *", ["11-03 02:00-0500", "11-04 02:00-0500"]),
            ("0,30 1 * * *", ["11-03 01:00-0400", "11-03 01:30-0400"]),
            ("59 1,2 * * *", ["11-03 01:59-0400", "11-03 02:59-0500"]),
            ("0 1-2 * * *", ["11-03 01:00-0400", "11-03 02:00-0500"]),
        ],
    )
    def test_new_york_repeats_one_o_clock_and_fixed_times_fire_once(
        self, expression: str, expected: list[str]
    ) -> None:
        found = local_times(expression, "America/New_York", "2024-11-03", 2)
        assert found == expected

    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            (
                "*/30 1 * * *",
                ["01:00-0400", "01:30-0400", "01:00-0500", "01:30-0500", "01:00-0500"],
            ),
            (
                "45 * * * *",
                ["00:45-0400", "01:45-0400", "01:45-0500", "02:45-0500", "03:45-0500"],
            ),
            (
                "0 */1 * * *",
                ["00:00-0400", "01:00-0400", "01:00-0500", "02:00-0500", "03:00-0500"],
            ),
            (
                "@hourly",
                ["00:00-0400", "01:00-0400", "01:00-0500", "02:00-0500", "03:00-0500"],
            ),
            (
                "*/40 1,4 3 * *",
                ["01:00-0400", "01:40-0400", "01:00-0500", "01:40-0500", "04:00-0500"],
            ),
        ],
    )
    def test_what_follows_elapsed_time_fires_in_both_hours(
        self, expression: str, expected: list[str]
    ) -> None:
        found = local_times(expression, "America/New_York", "2024-11-03", 5)
        assert [each[6:] for each in found] == expected

    @pytest.mark.parametrize(
        ("expression", "minute", "expected"),
        [
            ("30 1 * * *", 20, "11-04 01:30-0500"),
            ("0-59 1 * * *", 20, "11-04 01:00-0500"),
            ("15 1-2 * * *", 10, "11-03 02:15-0500"),
            ("*/30 1 * * *", 20, "11-03 01:30-0500"),
            ("*/30 1 * * *", 30, "11-04 01:00-0500"),
        ],
    )
    def test_within_the_second_hour(
        self, expression: str, minute: int, expected: str
    ) -> None:
        zone = ZoneInfo("America/New_York")
        after = datetime(2024, 11, 3, 1, minute, 7, 5, tzinfo=zone, fold=1)
        found = CronTrigger(expression, zone).next_fire_time(after)
        assert found is not None
        assert f"{found.astimezone(zone):%m-%d %H:%M%z}" == expected

    def test_nothing_is_left_of_the_year_after_the_second_hour(self) -> None:
        zone = ZoneInfo("America/New_York")
        for fold in (0, 1):
            late = datetime(9999, 11, 7, 1, 30, tzinfo=zone, fold=fold)
            assert late.utcoffset() == timedelta(hours=-4 - fold)
            for expression in ("* 0 1 1 *", "0 0 1 1 *"):
                assert CronTrigger(expression, zone).next_fire_time(late) is None

    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            ("0 2 * * *", ["10-06 02:30+1100", "10-07 02:00+1100"]),
            ("15 2 * * *", ["10-06 02:30+1100", "10-07 02:15+1100"]),
            ("30 2 * * *", ["10-06 02:30+1100", "10-07 02:30+1100"]),
            ("0,15,45 2 * * *", ["10-06 02:30+1100", "10-06 02:45+1100"]),
            ("*/15 2 * * *", ["10-06 02:30+1100", "10-06 02:45+1100"]),
            ("0 */2 * * *", ["10-06 00:00+1030", "10-06 04:00+1100"]),
        ],
    )
    def test_lord_howe_skips_half_an_hour(
        self, expression: str, expected: list[str]
    ) -> None:
        found = local_times(expression, "Australia/Lord_Howe", "2024-10-06", 2)
        assert found == expected

    def test_lord_howe_repeats_half_an_hour(self) -> None:
        found = local_times("*/15 1 * * *", "Australia/Lord_Howe", "2024-04-07", 6)
        assert [each[6:] for each in found] == [
            "01:00+1100",
            "01:15+1100",
            "01:30+1100",
            "01:45+1100",
            "01:30+1030",
            "01:45+1030",
        ]

    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            ("0 12 * * *", ["12-29 12:00-1000", "12-31 12:00+1400"]),
            ("0 0 * * *", ["12-29 00:00-1000", "12-31 00:00+1400"]),
            ("0 12 30 12 *", ["12-30 12:00+1400", "12-30 12:00+1400"]),
            ("0 */12 * * *", ["12-29 00:00-1000", "12-29 12:00-1000"]),
            ("0 0 * * 5", ["01-06 00:00+1400", "01-13 00:00+1400"]),
        ],
    )
    def test_apia_had_no_30_december_2011(
        self, expression: str, expected: list[str]
    ) -> None:
        assert local_times(expression, "Pacific/Apia", "2011-12-29", 2) == expected

    @pytest.mark.parametrize(
        ("timezone", "day", "expected"),
        [
            ("Antarctica/Troll", "2024-03-31", "03-31 03:00+0200"),
            ("Antarctica/Casey", "2009-10-18", "10-19 02:30+1100"),
        ],
        ids=["two hours", "three hours"],
    )
    def test_a_gap_of_three_hours_fires_nothing(
        self, timezone: str, day: str, expected: str
    ) -> None:
        hour = "1" if timezone.endswith("Troll") else "2"
        (found,) = local_times(f"30 {hour} * * *", timezone, day, 1)
        assert found == expected

    def test_a_gap_may_end_within_a_minute(self) -> None:
        found = CronTrigger("10 0 7 1 *", "Africa/Monrovia").next_fire_time(
            datetime(1972, 1, 6, 12, tzinfo=UTC)
        )
        assert found == datetime(1972, 1, 7, 0, 44, 30, tzinfo=UTC)

    @settings(max_examples=40, deadline=None)
    @given(
        expression=st.sampled_from(
            [
                "*/20 * * * *",
                "0-59/20 0-23 * * *",
                "10,50 0-4,22-23 * * *",
                "0 */2 * * *",
                "*/7 0-2 * * *",
            ]
        ),
        change=st.sampled_from(
            [
                ("America/New_York", datetime(2024, 3, 10, 7)),  # noqa: DTZ001
                ("America/New_York", datetime(2024, 11, 3, 6)),  # noqa: DTZ001
                ("Africa/Cairo", datetime(2024, 4, 25, 22)),  # noqa: DTZ001
                ("America/Santiago", datetime(2020, 9, 6, 4)),  # noqa: DTZ001
                ("America/Havana", datetime(2024, 11, 3, 5)),  # noqa: DTZ001
                ("Australia/Lord_Howe", datetime(2024, 4, 6, 15)),  # noqa: DTZ001
                ("Antarctica/Troll", datetime(2024, 10, 27, 1)),  # noqa: DTZ001
            ]
        ),
        before=st.timedeltas(timedelta(hours=-2), timedelta(hours=4)),
    )
    def test_it_fires_whenever_a_walk_along_the_clock_says(
        self, expression: str, change: tuple[str, datetime], before: timedelta
    ) -> None:
        timezone, at = change
        after = at.replace(tzinfo=UTC) - before
        found = fire_times(CronTrigger(expression, timezone), after, 6)
        assert found == list(walk(expression, ZoneInfo(timezone), after, 6))


class TestAgainstCronsim:
    """cronsim keeps Debian's rules too; what it reads otherwise is rewritten for it."""

    @settings(max_examples=40, deadline=None)
    @given(data=st.data())
    def test_it_agrees_with_cronsim(self, data: st.DataObject) -> None:
        parts = [data.draw(fields(name)) for name in BOUNDS]
        elapsed = "*" in (parts[0][0], parts[1][0])
        zones = ZONES if elapsed else [*ZONES, *UNALIGNED]
        zone = ZoneInfo(data.draw(st.sampled_from(zones)))
        start = data.draw(
            st.datetimes(datetime(1990, 1, 1), datetime(2037, 1, 1))  # noqa: DTZ001
            | st.sampled_from(NEAR_CHANGES)
        )
        after = start.replace(second=0, microsecond=0, tzinfo=UTC)
        try:
            trigger = CronTrigger(" ".join(parts), zone)
        except InvalidTriggerError:
            with pytest.raises((CronSimError, StopIteration)):
                next(CronSim(for_cronsim(parts), after.astimezone(zone)))
            return
        for _ in range(3):
            expected = cronsim_next(for_cronsim(parts), after.astimezone(zone))
            found = trigger.next_fire_time(after)
            assert found == expected
            after = expected

    def test_cronsim_takes_a_step_over_days_for_no_restriction(self) -> None:
        friday_13 = "0 0 */12 * 5"
        after = datetime(2024, 9, 1, tzinfo=UTC)
        assert cronsim_next(friday_13, after) == datetime(2024, 9, 13, tzinfo=UTC)
        found = CronTrigger(friday_13).next_fire_time(after)
        assert found == datetime(2024, 9, 6, tzinfo=UTC)

    def test_cronsim_counts_steps_from_a_weekday_on_to_the_next_sunday(self) -> None:
        sunday = datetime(2024, 9, 1, tzinfo=UTC)
        saturday = sunday - timedelta(days=1)
        assert cronsim_next("0 0 * * 3/2", saturday) == sunday
        found = CronTrigger("0 0 * * 3/2").next_fire_time(saturday)
        assert found == sunday + timedelta(days=3)

    def test_cronsim_passes_over_the_end_of_an_hour_that_is_repeated(self) -> None:
        zone = ZoneInfo("Pacific/Chatham")
        after = datetime(2024, 4, 7, 2, 46, tzinfo=zone)
        again = after.replace(fold=1).astimezone(UTC)
        assert again == after.astimezone(UTC) + timedelta(hours=1)
        assert CronTrigger("*/23 0-2 * * *", zone).next_fire_time(after) == again
        assert cronsim_next("*/23 0-2 * * *", after) > again

    def test_cronsim_takes_a_midnight_that_is_skipped_for_the_hour_0(self) -> None:
        zone = ZoneInfo("America/Santiago")
        after = datetime(2020, 9, 5, 12, tzinfo=zone)
        sunday = cronsim_next("* 0 * * 0", after).astimezone(zone)
        assert f"{sunday:%m-%d %H:%M}" == "09-06 01:00"
        found = CronTrigger("* 0 * * 0", zone).next_fire_time(after)
        assert found == datetime(2020, 9, 13, 0, tzinfo=zone)

    def test_cronsim_knows_no_gap_that_is_too_long(self) -> None:
        zone = ZoneInfo("Pacific/Apia")
        after = datetime(2011, 12, 29, 12, tzinfo=zone)
        expected = cronsim_next("0 12 * * *", after)
        assert expected == datetime(2011, 12, 31, 0, tzinfo=zone)
        found = CronTrigger("0 12 * * *", zone).next_fire_time(after)
        assert found == datetime(2011, 12, 31, 12, tzinfo=zone)


class TestValue:
    def test_spaces_and_case_do_not_matter(self) -> None:
        one = CronTrigger("  0   9\t* * mon-Fri \n", "Europe/Berlin")
        assert one == CronTrigger("0 9 * * MON-FRI", ZoneInfo("Europe/Berlin"))
        assert one.expression == "0 9 * * MON-FRI"
        assert one.timezone == "Europe/Berlin"
        assert repr(one) == (
            "CronTrigger(expression='0 9 * * MON-FRI', timezone='Europe/Berlin')"
        )

    def test_another_expression_or_zone_is_another_trigger(self) -> None:
        trigger = CronTrigger("0 9 * * *", "Europe/Berlin")
        assert trigger != CronTrigger("0 9 * * *")
        assert trigger != CronTrigger("0 9 * * *", "Europe/Paris")
        assert trigger != CronTrigger("0 10 * * *", "Europe/Berlin")

    def test_only_the_text_and_the_zone_are_stored(self) -> None:
        trigger = CronTrigger("@Daily", ZoneInfo("Europe/Berlin"))
        assert trigger.to_dict() == {
            "expression": "@daily",
            "timezone": "Europe/Berlin",
        }

    def test_it_is_small(self) -> None:
        assert not hasattr(CronTrigger("* * * * *"), "__dict__")

    @pytest.mark.parametrize(
        "timezone",
        ["UTC", "Etc/UTC", "Europe/Berlin", "Asia/Kathmandu", "Etc/GMT+5", "EST5EDT"],
    )
    def test_a_zone_is_a_name_or_a_zone_info(self, timezone: str) -> None:
        trigger = CronTrigger("0 9 * * *", timezone)
        assert trigger == CronTrigger("0 9 * * *", ZoneInfo(timezone))
        assert trigger.timezone == timezone
        found = trigger.next_fire_time(NOW)
        assert found is not None
        assert found.astimezone(ZoneInfo(timezone)).hour == 9

    def test_utc_needs_no_time_zone_data(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from go_scheduler.triggers import local_time

        def none(key: str) -> ZoneInfo:
            raise zoneinfo.ZoneInfoNotFoundError(key)

        local_time.load_zone.cache_clear()
        monkeypatch.setattr(local_time, "ZoneInfo", none)
        local_time.load_zone("UTC")
        with pytest.raises(InvalidTriggerError, match="install tzdata"):
            local_time.load_zone("Europe/Berlin")


BAD = [
    *("", " ", "\t\n", "*", "* *", "* * *", "* * * *", "0", "at noon"),
    *("* * * * * *", "0 0 12 * * *", "0 0 * * * 2030", "* * * * * * *"),
    *("0 0 12 * * * 2030", "* * * * * * * *", "0 0 * * * /bin/true"),
    *("60 * * * *", "61 * * * *", "-1 * * * *", "0 24 * * *", "0 0 0 * *"),
    *("0 0 32 * *", "0 0 * 0 *", "0 0 * 13 *", "0 0 * * 8", "99999999999 * * * *"),
    *("1.5 * * * *", "+5 * * * *", "0x5 * * * *", "1e1 * * * *", "1_0 * * * *"),
    *("10-5 * * * *", "0 22-6 * * *", "0 0 28-3 * *", "0 0 * nov-feb *"),
    *("0 0 * * fri-mon", "0 0 * * fri-sun", "0 0 * * 6-0", "0-60 * * * *"),
    *("*/0 * * * *", "*/-5 * * * *", "*/61 * * * *", "0 */25 * * *", "*/x * * * *"),
    *("0 0 */32 * *", "0 0 * */13 *", "0 0 * * */8", "0-10/0 * * * *", "*/ * * * *"),
    *("5/ * * * *", "/5 * * * *", "1-2/3/4 * * * *", "*/5/5 * * * *", "5//5 * * * *"),
    *("5- * * * *", "-5 * * * *", "1-2-3 * * * *", "*-5 * * * *", "5-* * * * *"),
    *("1,,2 * * * *", ",1 * * * *", "1, * * * *", ", * * * *", "** * * * *"),
    *("*5 * * * *", "5* * * * *", "1;2 * * * *", "%5 * * * *", "$X * * * *"),
    *("H * * * *", "H/15 * * * *", "H(0-29)/10 * * * *", "0 R * * *", "R(1-5) * * * *"),
    *("? * * * *", "0 0 ? * *", "0 0 ? * ?", "0 0 1? * *", "0 0 * ? *"),
    *("0 0 L * *", "0 0 LW * *", "0 0 15W * *", "0 0 W15 * *", "0 0 L-3 * *"),
    *("0 0 * * 5L", "0 0 * * L5", "0 0 * * 5#3", "0 0 * * fri#3", "0 0 1,L * *"),
    *("mon * * * *", "0 jan * * *", "0 0 mon * *", "0 0 * mon *", "0 0 * * jan"),
    *("0 0 * janu *", "0 0 * * mo", "0 0 * * tues", "0 0 * Foo *", "noon * * * *"),
    *("0 0 30 2 *", "0 0 31 feb *", "0 0 31 2,4,6,9,11 *", "0 0 30-31 2 *"),
    *("@", "@reboot", "@every 5m", "@dayly", "@daily extra", "@ daily", "daily"),
    *("0\u00a00 * * *", "0 0 1\u20135 * *", "\u0661 * * * *", "* * * * *\u200b"),
    *("0\0 * * * *", "\0", "0 0 * * *;", "'0 0 * * *'", "TZ=UTC 0 0 * * *"),
    *("\ud800 * * * *", "* * * * " + "0," * 200 + "0", " " * 257, "0 " * 5000),
]


class TestRefusals:
    def test_there_are_many(self) -> None:
        assert len(set(BAD)) == len(BAD) > 60

    @pytest.mark.parametrize("expression", BAD, ids=lambda text: repr(text[:30]))
    def test_a_bad_expression_is_refused(self, expression: str) -> None:
        with pytest.raises(InvalidTriggerError, match="cron expression") as caught:
            CronTrigger(expression)
        assert len(str(caught.value)) < 700

    @pytest.mark.parametrize(
        "expression", [None, 5, b"* * * * *", ["*"] * 5, object(), True]
    )
    def test_what_is_no_text_is_refused(self, expression: object) -> None:
        with pytest.raises(InvalidTriggerError, match="must be text"):
            CronTrigger(expression)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("expression", "message"),
        [
            ("61 * * * *", 'cron expression "61 * * * *": minute 61 is not in 0–59'),
            ("0 24 * * *", "hour 24 is not in 0–23"),
            ("0 0 0 * *", "day-of-month 0 is not in 1–31"),
            ("0 0 * 13 *", "month 13 is not in 1–12"),
            ("0 0 * * 8", "day-of-week 8 is not in 0–7"),
            ("x * * * *", 'minute "X" is not a number in 0–59'),
            (
                "0 0 * foo *",
                'month "FOO" is neither a number in 1–12 nor a name such as SEP or'
                " SEPTEMBER",
            ),
            (
                "0 0 * * foo",
                'day-of-week "FOO" is neither a number in 0–7 nor a name such as WED or'
                " WEDNESDAY",
            ),
            ("0 22-6 * * *", "hour 22-6 runs backwards; write 22-23,0-6"),
            ("0 0 * * 5-1", "day-of-week 5-1 runs backwards; write 5-6,0-1"),
            (
                "0 0 * * fri-sun",
                "day-of-week FRI-SUN runs backwards; Sunday is also 7: write 5-7",
            ),
            ("*/90 * * * *", 'minute has the step "90", which is not a number in 1–60'),
            ("0 0 * * */8", 'day-of-week has the step "8", which is not a number'),
            ("1,,2 * * * *", 'minute "" cannot be read; write *, numbers in 0–59'),
            ("*-5 * * * *", 'minute "*-5" mixes * with a range'),
            ("0 0 ? * *", 'day-of-month "?": ? is not supported; write *'),
            ("H * * * *", 'minute "H": H and R, which stand for any time, are not'),
            ("0 0 15W * *", 'day-of-month "15W": L, W and # are not supported'),
            ("0 0 * * fri#2", 'day-of-week "FRI#2": L, W and # are not supported'),
            ("0 0 30 2 *", "it never fires: month 2 has no day-of-month 30"),
            (
                "",
                'cron expression "": it is empty; write five fields: minute hour'
                " day-of-month month day-of-week",
            ),
            ("* * *", "it has 3 fields; write five: minute hour"),
            (
                "30 0 12 * * 2030",
                'if the first field is seconds, write "0 12 * * 2030"; if the last one'
                ' is a year, write "30 0 12 * *"',
            ),
            ("0 0 12 * * * *", "7 fields, with seconds and years, are not supported"),
            ("@reboot", "it is none of @yearly, @annually, @monthly, @weekly"),
            ("0 0 1\u20135 * *", "'\u2013' (U+2013) is not allowed; write plain ASCII"),
            ("0 " * 5000, "has at most 256 characters, not 10000: '0 0 0"),
        ],
    )
    def test_the_error_says_what_is_wrong(self, expression: str, message: str) -> None:
        with pytest.raises(InvalidTriggerError, match=re.escape(message)):
            CronTrigger(expression)

    def test_the_longest_expression_is_read(self) -> None:
        minutes = ",".join(["00"] * 82 + ["000"])
        expression = f"{minutes} * * * *"
        assert len(expression) == 257
        assert CronTrigger(expression[1:]).expression == expression[1:]
        with pytest.raises(InvalidTriggerError, match="at most 256 characters"):
            CronTrigger(expression)

    @pytest.mark.parametrize(
        "timezone",
        [
            *("", " ", "../etc", "/etc/localtime", "Europe/../UTC", "./UTC", "UTC "),
            *("Europe", "Europe/", "Europe/Atlantis", "europe/berlin", "utc+1"),
            *("a\0b", "\0", "\ud800", "x" * 10_000, "tzdata.zi", "zone.tab", "+01:00"),
            *("localtime", "posixrules", "right/UTC", "Europe\\Berlin", "CET-1CEST"),
        ],
        ids=lambda name: repr(name[:20]),
    )
    def test_a_zone_that_does_not_exist_is_refused(self, timezone: str) -> None:
        with pytest.raises(InvalidTriggerError, match="there is no time zone") as error:
            CronTrigger("* * * * *", timezone)
        assert len(str(error.value)) < 400

    @pytest.mark.parametrize(
        "zone",
        [None, 5, b"UTC", UTC, timezone(timedelta(hours=1)), object(), ["UTC"], 0.5],
    )
    def test_what_is_no_name_of_a_zone_is_refused(self, zone: object) -> None:
        with pytest.raises(InvalidTriggerError, match="timezone must be a name"):
            CronTrigger("* * * * *", zone)  # type: ignore[arg-type]

    def test_a_zone_without_a_name_is_refused(self) -> None:
        path = next(Path(root) for root in zoneinfo.TZPATH if Path(root).is_dir())
        with (path / "UTC").open("rb") as data:
            nameless = ZoneInfo.from_file(data)
        with pytest.raises(InvalidTriggerError, match="a ZoneInfo that has a name"):
            CronTrigger("* * * * *", nameless)

    def test_a_stored_expression_that_is_wrong_is_refused(self) -> None:
        with pytest.raises(InvalidTriggerError, match="minute 61"):
            CronTrigger.from_dict({"expression": "61 * * * *", "timezone": "UTC"})


ZONES = [
    *("UTC", "America/New_York", "Europe/Berlin", "Europe/Dublin", "Asia/Kolkata"),
    *("Australia/Sydney", "Asia/Kathmandu"),
]
# As time elapses, cronsim moves by whole hours and to midnight, while the clocks of
# these change to or from the middle of an hour, or skip midnight.
UNALIGNED = [
    *("Australia/Lord_Howe", "Pacific/Chatham", "America/St_Johns", "Asia/Beirut"),
    *("America/Santiago", "Africa/Cairo", "America/Havana"),
]
NEAR_CHANGES = [
    *(datetime(2024, 3, 10, hour, 30) for hour in range(5, 9)),  # noqa: DTZ001
    *(datetime(2024, 11, 3, hour, 15) for hour in range(3, 9)),  # noqa: DTZ001
    *(datetime(2024, 3, 31, hour, 45) for hour in range(3)),  # noqa: DTZ001
    *(datetime(2024, 10, 27, hour) for hour in range(3)),  # noqa: DTZ001
    *(datetime(2024, 4, 6, hour, 20) for hour in range(12, 18)),  # noqa: DTZ001
    *(datetime(2024, 10, 5, hour, 10) for hour in range(12, 18)),  # noqa: DTZ001
]


def items(name: str) -> st.SearchStrategy[str]:
    low, high = BOUNDS[name]
    number = st.integers(low, 7 if name == "day-of-week" else high)
    step = st.integers(1, high - low + 1).map(lambda each: f"/{each}")
    bounds = st.lists(number, min_size=2, max_size=2).map(sorted)
    span = bounds.map(lambda pair: f"{pair[0]}-{pair[1]}")
    start = st.one_of(number.map(str), span, span, st.just("*"))
    return st.one_of(number.map(str), span, st.tuples(start, step).map("".join))


def lists(name: str) -> st.SearchStrategy[str]:
    return st.lists(items(name), min_size=1, max_size=3).map(",".join)


def fields(name: str) -> st.SearchStrategy[str]:
    return st.one_of(st.just("*"), items(name), lists(name))


def numbers(text: str, name: str) -> set[int]:
    """What a list means, by arithmetic alone."""
    low, high = BOUNDS[name]
    found: set[int] = set()
    for item in text.split(","):
        span, _, step = item.partition("/")
        first, _, last = span.partition("-")
        if first == "*":
            first, last = str(low), str(high)
        elif not last:
            last = str(max(high, int(first))) if step else first
        found.update(range(int(first), int(last) + 1, int(step or 1)))
    return {0 if name == "day-of-week" and each == 7 else each for each in found}


def for_cronsim(parts: Sequence[str]) -> str:
    """The same schedule in cronsim's words: plain lists of numbers.

    To cronsim a day field that begins with ``*`` is no restriction, also ``*/2``; a
    step counts on to Sunday as the seventh day; and ``9-9/2`` is ``9/2``. A ``*`` at
    the start of minute or hour stays: it decides what happens where the clocks change.
    """
    written = []
    for part, name in zip(parts, BOUNDS, strict=True):
        listed = ",".join(map(str, sorted(numbers(part, name))))
        if part == "*":
            listed = part
        elif part.startswith("*") and name in ("minute", "hour"):
            listed = f"{part.split(',')[0]},{listed}"
        written.append(listed)
    return " ".join(written)


def cronsim_next(expression: str, after: datetime) -> datetime:
    """Its next time, past those of a repeated hour, which it begins anew."""
    times = (found.astimezone(UTC) for found in CronSim(expression, after))
    return next(found for found in times if found > after)


def walk(
    expression: str, zone: ZoneInfo, after: datetime, count: int
) -> Iterator[datetime]:
    """What Debian's rule says, looking at the clock at every minute."""
    minutes, hours, *_ = expression.split()
    listed = numbers(minutes, "minute"), numbers(hours, "hour")
    elapsed = "*" in (minutes[0], hours[0])
    start = after.replace(second=0, microsecond=0) - timedelta(hours=6)
    clock = [(start + n * MINUTE).astimezone(zone) for n in range(60 * 60)]
    shown: set[datetime] = set()
    for before, now in pairwise(clock):
        local = now.replace(tzinfo=None, fold=0)
        passed = [local]
        while not elapsed and passed[-1] > before.replace(tzinfo=None) + MINUTE:
            passed.append(passed[-1] - MINUTE)
        due = any(
            each.minute in listed[0] and each.hour in listed[1]
            for each in passed
            if elapsed or each not in shown
        )
        shown.update(passed)
        if due and now > after:
            yield now.astimezone(UTC)
            count -= 1
            if not count:
                return
