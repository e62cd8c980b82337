from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.testing.triggers import TriggerSuite
from go_scheduler.triggers.cron import CronTrigger
from tests.triggers.cron_oracle import (
    DAY,
    FIVE,
    HOUR,
    MICROSECOND,
    MINUTE,
    expressions,
    fire_times,
    fire_times_until,
    near_changes,
    numbers,
    on_day,
    plain_lists,
    walk,
)

if TYPE_CHECKING:
    from go_scheduler.triggers.base import Trigger

CASES = json.loads((Path(__file__).parent / "cron_cases.json").read_text())["cases"]
NOW = datetime(2024, 2, 28, 23, 59, 30, tzinfo=UTC)
MONTHS = "January February March April May June July August September October November"
WEEKDAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday"


def local_times(expression: str, timezone: str, day: str, count: int = 3) -> list[str]:
    """The first fire times from midnight of a day, as the zone's clock shows them."""
    zone = ZoneInfo(timezone)
    after = datetime.fromisoformat(day).replace(tzinfo=zone) - MICROSECOND
    found = fire_times(CronTrigger(expression, timezone), after, count)
    return [f"{each.astimezone(zone):%m-%d %H:%M%z}" for each in found]


class TestCronTrigger(TriggerSuite):
    @pytest.fixture(
        params=[
            ("*/10 * * * *", "UTC", {}),
            ("30 2 * * *", "America/New_York", {}),
            ("30 1,2 * * *", "America/New_York", {"gap": "skip", "overlap": "both"}),
            ("0 2 LW * *", "Europe/Berlin", {"overlap": "second"}),
            ("*/20 1,2 29 feb mon-fri", "Australia/Lord_Howe", {}),
            ("@yearly", "Pacific/Apia", {}),
            ("0 0 * * fri#5", "Africa/Cairo", {"gap": "skip"}),
            ("59 59 */6 1w * ? 2000/4", "America/Santiago", {"overlap": "second"}),
            ("* * * * * * *", "Asia/Kathmandu", {}),
            ("0,30 2-3 * * *", "Africa/Casablanca", {"overlap": "both"}),
            ("0 30 2 10 3 ? 2024", "America/New_York", {}),
        ],
        ids=lambda param: "|".join(param[:2]),
    )
    def trigger(self, request: pytest.FixtureRequest) -> Trigger:
        expression, timezone, choices = request.param
        return CronTrigger(expression, timezone, **choices)


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
            ("0 0 ? * FRI", "0 0 * * 5"),
            ("0 0 13 * ?", "0 0 13 * *"),
            ("0 0 ? * ?", "0 0 * * *"),
            ("0 0 l * *", "0 0 L * *"),
            ("0 0 * * fri-sun", "0 0 * * 5-7"),
            ("0 0 * * mon-sunday/2", "0 0 * * 1,3,5,7"),
            ("0 0 * * sun-sun", "0 0 * * 0"),
            ("0 0 * * 5l", "0 0 * * FRIL"),
            ("0 0 * * fridayL", "0 0 * * 5L"),
            ("0 0 * * 0L", "0 0 * * 7L"),
            ("0 0 * * sunday#2", "0 0 * * 7#2"),
            ("0 0 * * 0#2", "0 0 * * SUN#2"),
            ("0 0 * * 1#1,1#2,1#3,1#4,1#5", "0 0 * * MON"),
            ("0 0 15,L * *", "0 0 L,15 * *"),
            ("0 0 01W * *", "0 0 1W * *"),
            ("0 */15 9 * * ? *", "*/15 9 * * *"),
            ("00 0 0 1 1 ? 1970-2099", "@yearly"),
            ("0 0 0 1 1 ? */1", "@yearly"),
            ("*/30 * * * * * *", "0,30 * * * * * *"),
            ("0 0 0 1 1 * 2025/10", "0 0 0 1 1 * 2025-2099/10"),
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
        count = 8 if "2025" in one else 40
        expected = fire_times(CronTrigger(other), NOW, count)
        assert fire_times(CronTrigger(one), NOW, count) == expected

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
        minutes, hours = (data.draw(plain_lists(name)) for name in ("minute", "hour"))
        trigger = CronTrigger(f"{minutes} {hours} * * *")
        expected = [
            NOW.replace(day=29, hour=hour, minute=minute, second=0)
            for hour in sorted(numbers(hours, "hour"))
            for minute in sorted(numbers(minutes, "minute"))
        ]
        assert fire_times(trigger, NOW, len(expected)) == expected
        weekdays = data.draw(plain_lists("day-of-week"))
        found = fire_times(CronTrigger(f"0 0 * * {weekdays}"), NOW, 7)
        days = {each.isoweekday() % 7 for each in found}
        assert days == numbers(weekdays, "day-of-week")


class TestDays:
    @pytest.mark.parametrize(
        ("field", "days"),
        [
            ("L", [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]),
            ("LW", [31, 29, 29, 30, 31, 28, 31, 30, 30, 31, 29, 31]),
            ("L-1", [30, 28, 30, 29, 30, 29, 30, 30, 29, 30, 29, 30]),
            ("L-30", [1, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1]),
            ("L-29", [2, 0, 2, 1, 2, 1, 2, 2, 1, 2, 1, 2]),
            ("1W", [1, 1, 1, 1, 1, 3, 1, 1, 2, 1, 1, 2]),
            ("15W", [15, 15, 15, 15, 15, 14, 15, 15, 16, 15, 15, 16]),
            ("29W", [29, 29, 29, 29, 29, 28, 29, 29, 30, 29, 29, 30]),
            ("30W", [30, 0, 29, 30, 30, 28, 30, 30, 30, 30, 29, 30]),
            ("31W", [31, 0, 29, 0, 31, 0, 31, 30, 0, 31, 0, 31]),
        ],
    )
    def test_days_of_the_month_2024(self, field: str, days: list[int]) -> None:
        trigger = CronTrigger(f"0 0 0 {field} * ? 2024")
        found = [(each.month, each.day) for each in self.all_of(trigger)]
        assert found == [(n, day) for n, day in enumerate(days, start=1) if day]

    @pytest.mark.parametrize(
        ("field", "days"),
        [
            ("MON#1", [1, 5, 4, 1, 6, 3, 1, 5, 2, 7, 4, 2]),
            ("5#3", [19, 16, 15, 19, 17, 21, 19, 16, 20, 18, 15, 20]),
            ("0#5", [0, 0, 31, 0, 0, 30, 0, 0, 29, 0, 0, 29]),
            ("7#5", [0, 0, 31, 0, 0, 30, 0, 0, 29, 0, 0, 29]),
            ("5L", [26, 23, 29, 26, 31, 28, 26, 30, 27, 25, 29, 27]),
            ("SUNL", [28, 25, 31, 28, 26, 30, 28, 25, 29, 27, 24, 29]),
        ],
    )
    def test_days_of_the_week_2024(self, field: str, days: list[int]) -> None:
        trigger = CronTrigger(f"0 0 0 ? * {field} 2024")
        found = [(each.month, each.day) for each in self.all_of(trigger)]
        assert found == [(n, day) for n, day in enumerate(days, start=1) if day]

    @pytest.mark.parametrize(
        ("expression", "days"),
        [
            ("0 0 2W,16 * *", [1, 16]),
            ("0 0 L * 5L", [29, 31]),
            ("0 0 1,L * *", [1, 31]),
            ("0 0 15W * MON#2", [11, 15]),
            ("0 0 L-2,LW * *", [29]),
            ("0 0 L-3,31 * *", [28, 31]),
            ("0 0 31W * *", [29]),
            ("0 0 * * 1,5#3", [4, 11, 15, 18, 25]),
            ("0 0 * * 1L,5L", [25, 29]),
            ("0 0 *,L * 5L", [29]),
            ("0 0 31 2,3 1#1", [4, 31]),
        ],
    )
    def test_days_of_march_2024(self, expression: str, days: list[int]) -> None:
        start = datetime(2024, 3, 1, tzinfo=UTC)
        found = fire_times_until(
            CronTrigger(expression), start - MICROSECOND, start + 30 * DAY
        )
        assert [each.day for each in found] == days

    @settings(max_examples=60, deadline=None)
    @given(
        expression=expressions(FIVE[2:]),
        start=st.dates(date(1950, 1, 1), date(2150, 1, 1)),
    )
    def test_every_day_is_what_its_date_says(
        self, expression: str, start: date
    ) -> None:
        day_of_month, month, day_of_week = expression.split()
        days = [start + n * DAY for n in range(120)]
        expected = [
            each
            for each in days
            if each.month in numbers(month, "month")
            and on_day(day_of_month, day_of_week, each)
        ]
        try:
            trigger = CronTrigger(f"0 0 {expression}")
        except InvalidTriggerError:
            assert not expected
            return
        midnight = datetime(start.year, start.month, start.day, tzinfo=UTC)
        found = fire_times_until(trigger, midnight - MICROSECOND, midnight + 119 * DAY)
        assert [each.date() for each in found] == expected

    def all_of(self, trigger: Trigger) -> list[datetime]:
        start = datetime(2023, 1, 1, tzinfo=UTC)
        return fire_times_until(trigger, start, start + 1000 * DAY)


class TestSecondsAndYears:
    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            ("30 * * * * * *", ["00:00:30", "00:01:30", "00:02:30"]),
            ("*/20 59 * * * * *", ["00:59:00", "00:59:20", "00:59:40"]),
            ("59 59 23 * * * *", ["23:59:59", "23:59:59", "23:59:59"]),
            ("10-11 0,5 0 * * * *", ["00:00:10", "00:00:11", "00:05:10"]),
            ("50/5 59 0,2 * * * *", ["00:59:50", "00:59:55", "02:59:50"]),
        ],
    )
    def test_seconds(self, expression: str, expected: list[str]) -> None:
        midnight = datetime(2024, 5, 5, tzinfo=UTC)
        found = fire_times(CronTrigger(expression), midnight - MICROSECOND, 3)
        assert [f"{each:%H:%M:%S}" for each in found] == expected

    @settings(max_examples=40, deadline=None)
    @given(
        seconds=plain_lists("second"),
        minutes=plain_lists("minute"),
        hours=plain_lists("hour"),
        start=st.times(),
    )
    def test_every_second_is_in_order(
        self, seconds: str, minutes: str, hours: str, start: Any
    ) -> None:
        trigger = CronTrigger(f"{seconds} {minutes} {hours} * * ? *")
        listed = [
            sorted(numbers(text, name))
            for text, name in (
                (hours, "hour"),
                (minutes, "minute"),
                (seconds, "second"),
            )
        ]
        after = datetime.combine(date(2024, 5, 5), start, tzinfo=UTC)
        midnight = after.replace(hour=0, minute=0, second=0, microsecond=0)
        times = (
            midnight + day * DAY + timedelta(hours=hour, minutes=minute, seconds=second)
            for day in (0, 1)
            for hour in listed[0]
            for minute in listed[1]
            for second in listed[2]
        )
        expected = next(each for each in times if each > after)
        assert trigger.next_fire_time(after) == expected

    @pytest.mark.parametrize(
        ("years", "expected"),
        [
            ("2024", []),
            ("2025", [2025]),
            ("2024-2026", [2025, 2026]),
            ("2024/30", [2054, 2084]),
            ("2030,2026,2000", [2026, 2030]),
            ("1970-2027/3", [2027]),
            ("2099", [2099]),
        ],
    )
    def test_years(self, years: str, expected: list[int]) -> None:
        trigger = CronTrigger(f"0 0 0 1 1 ? {years}")
        found = fire_times_until(trigger, NOW, NOW.replace(year=2200))
        assert [each.year for each in found] == expected
        assert trigger.next_fire_time(NOW.replace(year=2100)) is None

    def test_without_years_there_is_no_end(self) -> None:
        trigger = CronTrigger("0 0 0 1 1 ? *")
        found = trigger.next_fire_time(NOW.replace(year=2150))
        assert found == datetime(2151, 1, 1, tzinfo=UTC)

    def test_years_are_those_of_the_zone(self) -> None:
        trigger = CronTrigger("0 0 0 1 1 ? 2025", "Asia/Tokyo")
        assert trigger.next_fire_time(NOW) == datetime(2024, 12, 31, 15, tzinfo=UTC)

    def test_a_leap_day_in_a_year_without_one_is_refused(self) -> None:
        assert CronTrigger("0 0 0 29 2 ? 2023-2024").next_fire_time(NOW) is not None
        with pytest.raises(InvalidTriggerError, match="it never fires"):
            CronTrigger("0 0 0 29 2 ? 2023")


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
        ("expression", "count"),
        [
            ("* 30 1 * * ? *", 120),
            ("*/30 30 1 * * ? *", 4),
            ("0,30 30 1 * * ? *", 2),
            ("0 */30 1 * * ? *", 4),
            ("0 30 */1 * * ? *", 9),
            ("0 30 1 * * ? *", 1),
        ],
    )
    def test_a_star_leads_the_second_the_minute_or_the_hour(
        self, expression: str, count: int
    ) -> None:
        midnight = datetime(2024, 11, 3, 4, tzinfo=UTC)
        trigger = CronTrigger(expression, "America/New_York")
        found = fire_times_until(trigger, midnight + HOUR / 2, midnight + 10 * HOUR)
        assert len(found) == count
        skipped = datetime(2024, 3, 10, 6, 45, tzinfo=UTC)
        gap = CronTrigger(expression.replace(" 1 ", " 2 "), "America/New_York")
        at_its_end = gap.next_fire_time(skipped) == skipped + HOUR / 4
        assert at_its_end == (count < 3)

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

    @settings(max_examples=25, deadline=None)
    @given(
        times=st.one_of(
            st.sampled_from(
                [
                    *("*/20 *", "0-59/20 0-23", "10,50 0-4,22-23", "0 */2", "*/7 0-2"),
                    *("30 2", "0 0", "15 0,1,2,3", "* 2", "59 23,1", "0 0-23"),
                ]
            ),
            st.tuples(plain_lists("minute"), plain_lists("hour")).map(" ".join),
        ),
        days=st.just("* * *") | expressions(FIVE[2:]),
        change=near_changes(),
        choices=st.tuples(
            st.sampled_from(["next", "skip"]),
            st.sampled_from(["first", "second", "both"]),
        ),
    )
    def test_it_fires_whenever_a_walk_along_the_clock_says(
        self,
        times: str,
        days: str,
        change: tuple[ZoneInfo, datetime],
        choices: tuple[str, str],
    ) -> None:
        gap, overlap = choices
        zone, after = change
        until = after + 12 * HOUR
        expected = walk(f"{times} {days}", zone, after, until, gap=gap, overlap=overlap)
        try:
            trigger = CronTrigger(f"{times} {days}", zone, gap=gap, overlap=overlap)
        except InvalidTriggerError:
            assert not expected
            return
        assert fire_times_until(trigger, after, until) == expected


class TestValue:
    def test_spaces_and_case_do_not_matter(self) -> None:
        one = CronTrigger("  0   9\t* * mon-Fri \n", "Europe/Berlin")
        assert one == CronTrigger("0 9 * * MON-FRI", ZoneInfo("Europe/Berlin"))
        assert one.expression == "0 9 * * MON-FRI"
        assert one.timezone == "Europe/Berlin"
        assert repr(one) == (
            "CronTrigger(expression='0 9 * * MON-FRI', timezone='Europe/Berlin',"
            " gap='next', overlap='first')"
        )

    def test_another_expression_or_zone_is_another_trigger(self) -> None:
        trigger = CronTrigger("0 9 * * *", "Europe/Berlin")
        assert trigger != CronTrigger("0 9 * * *")
        assert trigger != CronTrigger("0 9 * * *", "Europe/Paris")
        assert trigger != CronTrigger("0 10 * * *", "Europe/Berlin")

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
