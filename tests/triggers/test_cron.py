from __future__ import annotations

import pickle
import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from importlib import import_module
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers import CronTrigger, dump_trigger, preview
from tests.case_tables import json_table, table
from tests.triggers.cron_oracle import (
    DAY,
    FIVE,
    HOUR,
    MICROSECOND,
    expressions,
    fire_times,
    fire_times_until,
    matching,
    near_changes,
    numbers,
    on_day,
    plain_lists,
    walk,
)

NOW = datetime(2024, 2, 28, 23, 59, 30, tzinfo=UTC)
NEW_YORK = "America/New_York"


def local_times(expression: str, timezone: str, day: str, count: int) -> str:
    """The first fire times from midnight of a day, as the zone's clock shows them."""
    zone = ZoneInfo(timezone)
    after = datetime.fromisoformat(day).replace(tzinfo=zone) - MICROSECOND
    found = fire_times(CronTrigger(expression, timezone), after, count)
    return ", ".join(f"{each.astimezone(zone):%m-%d %H:%M%z}" for each in found)


class TestFields:
    @pytest.mark.parametrize(
        ("expression", "zone", "start", "expected"), table("triggers/cron_agreed")
    )
    def test_it_agrees_with_other_implementations(
        self, expression: str, zone: str, start: str, expected: str
    ) -> None:
        if not expected:
            with pytest.raises(InvalidTriggerError, match="never fires"):
                CronTrigger(expression, zone)
            return
        times = [datetime.fromisoformat(each) for each in expected.split(", ")]
        trigger = CronTrigger(expression, zone)
        assert fire_times(trigger, datetime.fromisoformat(start), len(times)) == times

    @pytest.mark.parametrize(("one", "other"), table("triggers/cron_spellings"))
    def test_there_are_several_ways_to_write_it(self, one: str, other: str) -> None:
        count = 8 if "2025" in one else 40
        expected = fire_times(CronTrigger(other), NOW, count)
        assert fire_times(CronTrigger(one), NOW, count) == expected


class TestDays:
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


class TestSecondsAndYears:
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
        after = datetime.combine(date(2024, 5, 5), start, tzinfo=UTC)
        midnight = after.replace(hour=0, minute=0, second=0, microsecond=0)
        times = (
            midnight + day * DAY + timedelta(hours=hour, minutes=minute, seconds=second)
            for day in (0, 1)
            for hour in sorted(numbers(hours, "hour"))
            for minute in sorted(numbers(minutes, "minute"))
            for second in sorted(numbers(seconds, "second"))
        )
        expected = next(each for each in times if each > after)
        assert trigger.next_fire_time(after) == expected


class TestSearch:
    @pytest.mark.parametrize("zone", ["UTC", NEW_YORK, "Asia/Tokyo"])
    @pytest.mark.parametrize(
        "expression", ["* * * * *", "0 0 1 1 *", "0 0 29 2 *", "59 23 31 12 *"]
    )
    def test_the_calendar_ends_with_the_year_9999(
        self, expression: str, zone: str
    ) -> None:
        trigger = CronTrigger(expression, zone)
        last = datetime.max.replace(tzinfo=UTC)
        for before in (timedelta(0), MICROSECOND, timedelta(seconds=30)):
            assert trigger.next_fire_time(last - before) is None
        assert trigger.next_fire_time(last - timedelta(days=5 * 366)) is not None

    def test_an_instant_needs_a_time_zone(self) -> None:
        with pytest.raises(ValueError, match="after has no time zone"):
            CronTrigger("* * * * *").next_fire_time(NOW.replace(tzinfo=None))


class TestChangesOfTheClocks:
    @pytest.mark.parametrize(
        ("place", "expression", "expected"), table("triggers/cron_clock_changes")
    )
    def test_it_fires_then(self, place: str, expression: str, expected: str) -> None:
        timezone, day = place.split()
        count = expected.count(",") + 1
        assert local_times(expression, timezone, day, count) == expected

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
        trigger = CronTrigger(expression, NEW_YORK)
        found = fire_times_until(trigger, midnight + HOUR / 2, midnight + 10 * HOUR)
        assert len(found) == count
        skipped = datetime(2024, 3, 10, 6, 45, tzinfo=UTC)
        gap = CronTrigger(expression.replace(" 1 ", " 2 "), NEW_YORK)
        at_its_end = gap.next_fire_time(skipped) == skipped + HOUR / 4
        assert at_its_end == (count < 3)

    def test_nothing_is_left_of_the_year_after_the_second_hour(self) -> None:
        zone = ZoneInfo(NEW_YORK)
        for fold in (0, 1):
            late = datetime(9999, 11, 7, 1, 30, tzinfo=zone, fold=fold)
            assert late.utcoffset() == timedelta(hours=-4 - fold)
            for expression in ("* 0 1 1 *", "0 0 1 1 *"):
                assert CronTrigger(expression, zone).next_fire_time(late) is None

    @pytest.mark.parametrize("overlap", ["both", "second"])
    def test_the_last_time_of_all_may_be_shown_again(self, overlap: Any) -> None:
        trigger = CronTrigger("0 10 1 3 11 ? 2024", NEW_YORK, overlap=overlap)
        found = trigger.next_fire_time(datetime(2024, 11, 3, 5, 40, tzinfo=UTC))
        assert found == datetime(2024, 11, 3, 6, 10, tzinfo=UTC)
        assert trigger.next_fire_time(found) is None

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
        gap=st.sampled_from(["next", "skip"]),
        overlap=st.sampled_from(["first", "second", "both"]),
    )
    def test_it_fires_whenever_a_walk_along_the_clock_says(
        self,
        times: str,
        days: str,
        change: tuple[ZoneInfo, datetime],
        gap: str,
        overlap: str,
    ) -> None:
        zone, after = change
        until = after + 12 * HOUR
        expression = f"{times} {days}"
        minute, hour = times.split()
        expected = walk(
            *(matching(expression), zone, after, until),
            elapsed="*" in (minute[0], hour[0]),
            gap=gap,
            overlap=overlap,
        )
        try:
            trigger = CronTrigger(expression, zone, gap=gap, overlap=overlap)
        except InvalidTriggerError:
            assert not expected
            return
        assert fire_times_until(trigger, after, until) == expected


class TestValue:
    def test_spaces_and_case_do_not_matter(self) -> None:
        one = CronTrigger("  0   9\t* * mon-Fri \n", "Europe/Berlin")
        assert one == CronTrigger("0 9 * * MON-FRI", ZoneInfo("Europe/Berlin"))
        assert one == CronTrigger("0 9 * * MON-FRI", "Europe/Berlin")
        assert CronTrigger(" @Annually\n") == CronTrigger("@annually")
        assert repr(one) == (
            "CronTrigger(expression='0 9 * * MON-FRI', timezone='Europe/Berlin',"
            " gap='next', overlap='first')"
        )

    def test_another_expression_zone_or_choice_is_another_trigger(self) -> None:
        triggers = {
            CronTrigger("0 9 * * *", "Europe/Berlin"),
            CronTrigger("0 9 * * *"),
            CronTrigger("0 9 * * *", "Europe/Paris"),
            CronTrigger("0 10 * * *", "Europe/Berlin"),
            CronTrigger("0 9 * * *", gap="skip"),
            CronTrigger("0 9 * * *", overlap="both"),
        }
        assert len(triggers) == 6


NEW_YEAR = datetime(2025, 1, 1, tzinfo=UTC)


class TestDescription:
    @pytest.mark.parametrize(
        ("expression", "phrase"), table("triggers/cron_descriptions")
    )
    def test_it_says_when_it_fires(self, expression: str, phrase: str) -> None:
        assert CronTrigger(expression, "Europe/Berlin").describe() == phrase


class TestWarnings:
    @pytest.mark.parametrize(
        ("expression", "sentence"), table("triggers/cron_warnings")
    )
    def test_a_usual_mistake_is_told(self, expression: str, sentence: str) -> None:
        expected = (sentence,) if sentence else ()
        assert CronTrigger(expression).warnings(NEW_YEAR) == expected

    def test_its_years_have_passed(self) -> None:
        trigger = CronTrigger("0 0 0 1 1 ? 2020-2025")
        assert trigger.warnings(NEW_YEAR) == ("it never fires from now on",)
        assert trigger.warnings(NEW_YEAR.replace(year=2024)) == ()

    def test_all_that_is_wrong_is_told(self) -> None:
        found = CronTrigger("*/7 2 31 * 5", "America/New_York").warnings(NEW_YEAR)
        subjects = [each.split()[0] for each in found]
        assert subjects == ["day-of-month", "minute", "day-of-month"]


Reference = import_module("apscheduler.triggers.cron").CronTrigger

ONE_AFTERNOON = datetime(2030, 5, 17, 13, 45, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("fields", "expression"),
    json_table("triggers/cron_fields"),
)
def test_named_fields_are_an_expression(
    fields: dict[str, Any], expression: str
) -> None:
    named = CronTrigger(**fields)
    written = CronTrigger(expression)
    assert named == written
    assert hash(named) == hash(written)
    assert repr(named) == repr(written)
    assert dump_trigger(named) == dump_trigger(written)
    assert pickle.loads(pickle.dumps(named)) == written


@pytest.mark.parametrize(("fields", "_"), json_table("triggers/cron_fields"))
def test_what_is_not_given_is_what_it_is_in_apscheduler(
    fields: dict[str, Any], _: str
) -> None:
    if fields.get("day_of_week") in (" fri#2 ", "sat - sun"):
        return  # APScheduler writes "2nd fri", and ranges without spaces.
    reference = Reference(**fields, timezone=UTC)
    last = ONE_AFTERNOON
    for found in preview(CronTrigger(**fields), 20, ONE_AFTERNOON):
        expected = reference.get_next_fire_time(last, last)
        assert expected == found.at
        last = found.at


def test_zone_gap_and_overlap_go_with_named_fields() -> None:
    named = CronTrigger(
        hour=2, minute=30, timezone="Europe/Berlin", gap="skip", overlap="both"
    )
    assert named == CronTrigger(
        "30 2 * * *", "Europe/Berlin", gap="skip", overlap="both"
    )
    assert replace(named, timezone="UTC", gap="next", overlap="first") == CronTrigger(
        "30 2 * * *"
    )


@pytest.mark.parametrize(
    ("given", "problem"),
    json_table("triggers/cron_fields_refused"),
)
def test_what_is_no_field_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidTriggerError, match=re.escape(problem)):
        CronTrigger(**given)


def test_what_replaces_a_field_is_told_that_there_is_an_expression() -> None:
    with pytest.raises(InvalidTriggerError, match="and hour= say the same"):
        replace(CronTrigger(hour=9), hour=10)  # type: ignore[call-arg]
