from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from operator import itemgetter
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers.calendars import DateCalendar, register_calendar
from go_scheduler.triggers.cron import CronTrigger
from go_scheduler.triggers.phrases import parse_phrase
from go_scheduler.triggers.recurrence import RecurrenceTrigger
from go_scheduler.triggers.simple import (
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
)
from tests.case_tables import table
from tests.triggers.cron_oracle import fire_times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.triggers.base import Trigger

NEW_YORK = "America/New_York"
ZONE = ZoneInfo(NEW_YORK)
# A Wednesday.
NOW = datetime(2025, 1, 15, 10, tzinfo=ZONE)
LATER = NOW + timedelta(days=40, hours=5)
NONE_LEFT = "-"


@pytest.fixture(scope="module", autouse=True)
def calendars() -> None:
    """Two calendars, one whose name is a word of the grammar."""
    holidays = DateCalendar([date(2025, 1, 20)])
    register_calendar("test-holidays", holidays)
    register_calendar("weekends", holidays)


def parse(text: str, now: datetime = NOW) -> Trigger:
    return parse_phrase(text, NEW_YORK, now)


def next_times(trigger: Trigger, count: int, after: datetime = NOW) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        at = trigger.next_fire_time(after)
        if at is None:
            return [*found, NONE_LEFT]
        found.append(at.astimezone(ZONE).strftime("%a %Y-%m-%d %H:%M:%S"))
        after = at
    return found


@pytest.mark.parametrize(
    ("phrase", "zone", "start", "rule", "expected"), table("triggers/phrases_given")
)
def test_the_given_phrases_fire_when_they_should_and_so_do_their_rules(
    phrase: str, zone: str, start: str, rule: str, expected: str
) -> None:
    after = datetime.fromisoformat(start)
    trigger = parse_phrase(phrase, zone, after)
    again = parse_phrase(trigger.describe(), zone, after + timedelta(hours=3))
    assert again == trigger
    times = [datetime.fromisoformat(each) for each in expected.split(", ")]
    for each in [trigger, RecurrenceTrigger(rule)] if rule else [trigger]:
        assert fire_times(each, after, len(times)) == times


@pytest.mark.parametrize("row", table("triggers/phrases_understood"), ids=itemgetter(0))
def test_a_phrase_means_what_people_mean(row: Sequence[str]) -> None:
    text, canonical, *times = row
    trigger = parse(text)
    assert trigger.describe() == canonical
    assert next_times(trigger, len(times))[: len(times)] == times
    again = parse(canonical, NOW + timedelta(hours=3))
    assert again == trigger
    assert again.describe() == canonical


@pytest.mark.parametrize(
    "trigger",
    [
        ExecuteOnceTrigger(datetime(2030, 1, 1, 9, 30, 1, 5, tzinfo=UTC)),
        IntervalTrigger(timedelta(microseconds=1007)),
        IntervalTrigger(timedelta(days=3, seconds=1)),
        IntervalTrigger(timedelta(hours=1), NOW),
        DelayTrigger(timedelta(milliseconds=1500)),
        CronTrigger("0 9 * * MON-FRI", NEW_YORK),
        CronTrigger("*/5 * * * *", NEW_YORK),
        CronTrigger("* * * * *", NEW_YORK),
        CronTrigger("5,35 * * * SAT", NEW_YORK),
        CronTrigger("*/10 * * * * * *", NEW_YORK),
        CronTrigger("0 0 1,15 * *", NEW_YORK),
        CronTrigger("0 12 25 12 *", NEW_YORK),
        RecurrenceTrigger(
            "FREQ=DAILY;INTERVAL=3;BYHOUR=9;BYMINUTE=0;BYSECOND=0", NEW_YORK
        ),
    ],
    ids=str,
)
def test_other_triggers_describe_themselves_in_phrases(trigger: Trigger) -> None:
    assert parse(trigger.describe()) == trigger


# What counts from now is the anchor: it is kept from the first schedule() on.
@pytest.mark.parametrize(
    "text",
    [
        "every 15 minutes",
        "every 10 minutes starting at 2pm",
        "every other tuesday at 9am",
        "every day at 9am starting tomorrow",
        "every hour, 5 times",
        "every day at 9am for 3 days",
    ],
)
def test_what_counts_from_now_is_no_part_of_the_value(text: str) -> None:
    one, other = parse(text), parse(text, LATER)
    assert one == other
    assert next_times(one, 1) != next_times(other, 1)
    assert one.anchored(LATER) is one


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *table("triggers/phrases_refused"),
        ("", "it is empty"),
        (" \t\n", "it is empty"),
        ("every\x00day", "is no part of a phrase"),
        ("\ud800", "is no part of a phrase"),
    ],
)
def test_what_is_unclear_or_no_phrase_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidTriggerError) as refused:
        parse(text)
    assert message in str(refused.value)
    assert str(refused.value).startswith("phrase ")
    # What it says to write is a phrase.
    message, _, _ = str(refused.value).partition("; understood so far")
    _, _, advice = message.partition(" write ")
    for advised in re.findall(r"'([a-z][^'…]+ at [^'…]+)'", advice):
        parse(advised)


@pytest.mark.parametrize("text", [None, 5, b"every day at 9am", ["every day"]])
def test_what_is_no_text_is_refused(text: object) -> None:
    with pytest.raises(InvalidTriggerError, match="a phrase must be text"):
        parse(text)  # type: ignore[arg-type]


def test_a_phrase_is_short() -> None:
    with pytest.raises(InvalidTriggerError, match="at most 512 characters, not 600"):
        parse("every " * 100)
    with pytest.raises(InvalidTriggerError, match="does not fit"):
        parse("every " * 85)


def test_now_is_needed_only_by_what_counts_from_it() -> None:
    assert parse_phrase("every day at 9am") == CronTrigger("0 9 * * *")
    for text in ("every 5 minutes", "tomorrow at 9am", "every other monday at 9am"):
        with pytest.raises(InvalidTriggerError, match="pass now="):
            parse_phrase(text)
    with pytest.raises(InvalidTriggerError, match="no time zone"):
        parse_phrase("every 5 minutes", now=datetime(2030, 1, 1))  # noqa: DTZ001
    with pytest.raises(InvalidTriggerError, match="no time zone 'Mars'"):
        parse_phrase("every 5 minutes", "Mars", NOW)


def test_the_name_of_a_calendar_may_be_quoted() -> None:
    trigger = parse('every weekday at 9am except on "weekends"')
    assert next_times(trigger, 3)[-1] == "Tue 2025-01-21 09:00:00"


def test_steps_count_over_a_day_that_is_skipped() -> None:
    # In Apia, there was no 30 December.
    now = datetime(2011, 12, 31, 20, tzinfo=UTC)
    trigger = parse_phrase("every 2 days at noon", "Pacific/Apia", now)
    found = trigger.next_fire_time(now)
    assert found == datetime(2011, 12, 31, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("every 15 minutes between 1am and 1:45am", "100 115 130 145 100 115 130 145"),
        ("every day at 1am, 1:15am, 1:30am and 1:45am", "100 115 130 145"),
        ("every 30 minutes between 0:30 and 2:30", "030 100 130 100 130 200 230"),
    ],
)
def test_a_step_goes_on_through_a_repeated_hour(text: str, expected: str) -> None:
    after = datetime(2025, 11, 2, 4, tzinfo=UTC)
    trigger = parse(text)
    found = []
    while (at := trigger.next_fire_time(after)) is not None:
        if at.astimezone(ZONE).day > 2:
            break
        found.append(f"{at.astimezone(ZONE):%H%M}"[1:])
        after = at
    assert " ".join(found) == expected


_NUMBERS = st.sampled_from(["2", "3", "other", "five", "12", "1"])
_UNITS = st.sampled_from(["minutes", "hours", "days", "weeks", "months", "seconds"])
_DAYS = st.lists(
    st.sampled_from(["monday", "tuesday", "friday", "weekdays", "weekends", "sun"]),
    min_size=1,
    max_size=3,
).map(" and ".join)
_TIMES = st.lists(
    st.sampled_from(["9am", "17:30", "noon", "midnight", "6:15pm", "23:59:59"]),
    min_size=1,
    max_size=3,
).map(", ".join)
_PARTS = st.one_of(
    st.builds("every {} {}".format, _NUMBERS, _UNITS),
    _DAYS.map("on {}".format),
    _DAYS.map("every {}".format),
    _TIMES.map("at {}".format),
    st.builds(
        "between {} and {}".format, *[st.sampled_from(["9am", "noon", "17:30"])] * 2
    ),
    st.sampled_from(
        [
            "the 1st and 15th of every month",
            "on the last friday of the month",
            "first weekday of june",
            "every 25 december",
            "in june to august",
            "except on mondays",
            "except in july",
            "except on 25 december",
            "until 2030-01-01",
            "starting tomorrow",
            "starting 2026-01-01 09:00",
            "starting 2026-01-01 18:00",
            "starting 2026-02-03 10:00",
            "at the end of the month",
            "at half past",
            "for 3 days",
            "5 times",
            "every day",
            "on the clock",
        ]
    ),
)


@settings(deadline=None, max_examples=300)
@given(parts=st.lists(_PARTS, min_size=1, max_size=4).map(" ".join))
def test_parts_in_any_order_make_a_trigger_that_describes_itself(parts: str) -> None:
    try:
        trigger = parse(parts)
    except InvalidTriggerError:
        return
    assert parse(trigger.describe(), LATER) == trigger
    times = [trigger.next_fire_time(NOW), trigger.next_fire_time(LATER)]
    again = parse(trigger.describe())
    if trigger.anchored(LATER) is not trigger:
        assert times == [again.next_fire_time(NOW), again.next_fire_time(LATER)]


WORDS = """
every other 5 first last second monday weekdays of the month at 9am 9 noon and , or ( )
between to from until starting for times except in june 2030-01-01 tomorrow day days
weeks minutes hour - :15 1/2 2030 half an on holidays
"""
_WORDS = st.sampled_from(WORDS.split())


@settings(deadline=None, max_examples=300)
@given(
    text=st.one_of(st.text(max_size=600), st.lists(_WORDS, max_size=12).map(" ".join))
)
def test_any_text_is_either_a_trigger_or_refused(text: str) -> None:
    try:
        trigger = parse(text)
    except InvalidTriggerError:
        return
    found = trigger.next_fire_time(NOW)
    assert found is None or found > NOW
