from __future__ import annotations

import pickle
import re
import zoneinfo
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers import CronTrigger, dump_trigger, preview
from go_scheduler.triggers.cron import parse
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
    steps,
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


@pytest.mark.parametrize(
    ("expression", "zone", "start", "expected"), table("triggers/cron_agreed")
)
def test_it_agrees_with_other_implementations(
    expression: str, zone: str, start: str, expected: str
) -> None:
    if not expected:
        with pytest.raises(InvalidTriggerError, match="never fires"):
            CronTrigger(expression, zone)
        return
    times = [datetime.fromisoformat(each) for each in expected.split(", ")]
    trigger = CronTrigger(expression, zone)
    assert fire_times(trigger, datetime.fromisoformat(start), len(times)) == times


@pytest.mark.parametrize(("one", "other"), table("triggers/cron_spellings"))
def test_there_are_several_ways_to_write_it(one: str, other: str) -> None:
    count = 8 if "2025" in one else 40
    expected = fire_times(CronTrigger(other), NOW, count)
    assert fire_times(CronTrigger(one), NOW, count) == expected


@settings(max_examples=60, deadline=None)
@given(
    expression=expressions(FIVE[2:]),
    start=st.dates(date(1950, 1, 1), date(2150, 1, 1)),
)
def test_every_day_is_what_its_date_says(expression: str, start: date) -> None:
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


@settings(max_examples=40, deadline=None)
@given(
    seconds=plain_lists("second"),
    minutes=plain_lists("minute"),
    hours=plain_lists("hour"),
    start=st.times(),
)
def test_every_second_is_in_order(
    seconds: str, minutes: str, hours: str, start: Any
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


@pytest.mark.parametrize("zone", ["UTC", NEW_YORK, "Asia/Tokyo"])
@pytest.mark.parametrize(
    "expression", ["* * * * *", "0 0 1 1 *", "0 0 29 2 *", "59 23 31 12 *"]
)
def test_the_calendar_ends_with_the_year_9999(expression: str, zone: str) -> None:
    trigger = CronTrigger(expression, zone)
    last = datetime.max.replace(tzinfo=UTC)
    for before in (timedelta(0), MICROSECOND, timedelta(seconds=30)):
        assert trigger.next_fire_time(last - before) is None
    assert trigger.next_fire_time(last - timedelta(days=5 * 366)) is not None


def test_an_instant_needs_a_time_zone() -> None:
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


def test_spaces_and_case_do_not_matter() -> None:
    one = CronTrigger("  0   9\t* * mon-Fri \n", "Europe/Berlin")
    assert one == CronTrigger("0 9 * * MON-FRI", ZoneInfo("Europe/Berlin"))
    assert one == CronTrigger("0 9 * * MON-FRI", "Europe/Berlin")
    assert CronTrigger(" @Annually\n") == CronTrigger("@annually")
    assert repr(one) == (
        "CronTrigger(expression='0 9 * * MON-FRI', timezone='Europe/Berlin',"
        " gap='next', overlap='first')"
    )


def test_another_expression_zone_or_choice_is_another_trigger() -> None:
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


@pytest.mark.parametrize(("expression", "phrase"), table("triggers/cron_descriptions"))
def test_it_says_when_it_fires(expression: str, phrase: str) -> None:
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


REFUSED = [
    *table("triggers/cron_refusals"),
    *([text, "it is empty; write five fields"] for text in ("", " ", "\t\n")),
    *(
        [text, "is not allowed; write plain ASCII"]
        for text in (
            *("0\u00a00 * * *", "\u0661 * * * *", "* * * * *\u200b"),
            *("0\0 * * * *", "\0", "\ud800 * * * *"),
        )
    ),
    ["0 0 * * \x00", r"'0 0 * * \x00': '\x00' (U+0000) is not allowed"],
    ["* * * * " + "0," * 200 + "0", "has at most 256 characters, not 409"],
    [" " * 257, "has at most 256 characters, not 257"],
    ["0 " * 5000, "has at most 256 characters, not 10000: '0 0 0"],
]


class TestRefusals:
    @pytest.mark.parametrize(
        ("expression", "message"), REFUSED, ids=lambda text: repr(text[:30])
    )
    def test_the_error_says_what_is_wrong_and_at_once(
        self, expression: str, message: str
    ) -> None:
        """How long it takes is counted in steps, the same on every machine."""

        def refused() -> None:
            with pytest.raises(InvalidTriggerError, match=re.escape(message)) as caught:
                CronTrigger(expression)
            assert "cron expression" in str(caught.value)
            assert len(str(caught.value)) < 700

        parse.cache_clear()
        assert steps(refused) < 10_000

    def test_the_longest_expression_is_read(self) -> None:
        minutes = ",".join(["00"] * 82 + ["000"])
        expression = f"{minutes} * * * *"
        assert len(expression) == 257
        assert CronTrigger(expression[1:]).expression == expression[1:]
        with pytest.raises(InvalidTriggerError, match="at most 256 characters"):
            CronTrigger(expression)

    def test_a_zone_without_a_name_is_refused(self) -> None:
        path = next(Path(root) for root in zoneinfo.TZPATH if Path(root).is_dir())
        with (path / "UTC").open("rb") as data:
            nameless = ZoneInfo.from_file(data)
        with pytest.raises(InvalidTriggerError, match="a ZoneInfo that has a name"):
            CronTrigger("* * * * *", nameless)

    @pytest.mark.parametrize("expression", ["0 0 12 * * 5", "30 0 12 * * MON"])
    def test_what_is_to_be_written_instead_is_read(self, expression: str) -> None:
        with pytest.raises(InvalidTriggerError) as error:
            CronTrigger(expression)
        for written in re.findall('write "(.*?)"', str(error.value)):
            assert len(CronTrigger(written).expression.split()) == 7


class TestBoundedWork:
    """How long it takes is counted in steps, which are the same on every machine."""

    @pytest.mark.parametrize(
        "expression",
        ["0 0 29 2 *", "0 0 0 29 2 ? 2096", "0 0 29 2 SUN#5", "0 0 0 ? 2 SUN#5 *"],
    )
    @pytest.mark.parametrize("timezone", ["UTC", "America/New_York"])
    def test_a_rare_date_is_found_at_once(self, expression: str, timezone: str) -> None:
        trigger = CronTrigger(expression, timezone)
        after = datetime(2072, 3, 1, tzinfo=UTC)
        assert steps(partial(trigger.next_fire_time, after)) < 10_000

    @pytest.mark.parametrize(
        ("expression", "most"),
        [("0 0 0 1 1 ? 2023", 5_000), ("0 */30 2 ? 3 SUN#2 *", 200_000)],
        ids=["its year has passed", "it matches in gaps alone"],
    )
    def test_what_never_fires_again_is_known_soon(
        self, expression: str, most: int
    ) -> None:
        trigger = CronTrigger(expression, "America/New_York")
        after = datetime(2024, 1, 1, tzinfo=UTC)
        assert steps(partial(trigger.next_fire_time, after)) < most
        assert trigger.next_fire_time(after) is None


FIELD_TEXTS = st.text("0123456789*/,-LW#?", min_size=1, max_size=6) | st.sampled_from(
    ["*", "?", "L", "LW", "15W", "5#3", "5L", "MON-FRI", "2024"]
)


@settings(max_examples=400, deadline=None)
@given(
    st.text(max_size=60)
    | st.text("0123456789*/,-?LW#HR@ \t\nMONFRIJANDEC()", max_size=40)
    | st.lists(FIELD_TEXTS, min_size=5, max_size=7).map(" ".join)
)
def test_any_text_is_read_or_refused(text: str) -> None:
    check(text, "America/New_York")
    check("* * * * *", text)


def check(expression: str, timezone: str) -> None:
    """What is not refused works to the end: nothing is wrong later."""
    try:
        trigger = CronTrigger(expression, timezone)
    except InvalidTriggerError:
        return
    after: datetime | None = datetime(2024, 2, 28, 12, tzinfo=UTC)
    for _ in range(3):
        if after is not None:
            found = trigger.next_fire_time(after)
            assert found is None or found > after
            after = found
    assert CronTrigger(trigger.expression, trigger.timezone) == trigger
    assert trigger.describe()
    assert all(trigger.warnings(datetime(2024, 1, 1, tzinfo=UTC)))
