from __future__ import annotations

import datetime as datetime_module
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise, takewhile
from types import SimpleNamespace
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import dateutil.rrule
import pytest
from dateutil.rrule import weekday
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers import RecurrenceTrigger
from go_scheduler.triggers.recurrence_rules import FREQUENCIES, RecurrenceRule, Weekday
from go_scheduler.triggers.recurrence_times import LocalTimes
from tests.case_tables import table
from tests.triggers.combinations import SECOND
from tests.triggers.cron_oracle import fire_times, steps

if TYPE_CHECKING:
    from collections.abc import Sequence

MICROSECOND = timedelta(microseconds=1)
DAY = timedelta(days=1)
MOST = 60


def numbers(
    low: int, high: int, *, most: int = 3
) -> st.SearchStrategy[tuple[int, ...]]:
    """None of a part, more often than not, or some numbers; 0 is none of them."""
    some = st.sets(st.integers(low, high).filter(bool), min_size=1, max_size=most)
    some_sorted = some.map(lambda values: tuple(sorted(values)))
    return st.one_of(st.just(()), st.just(()), some_sorted)


@st.composite
def rules(draw: st.DrawFn, frequencies: Sequence[str]) -> RecurrenceRule:
    """Rules that dateutil reads rightly."""
    frequency = draw(st.sampled_from(frequencies))
    months = draw(numbers(1, 12))
    ordinals: st.SearchStrategy[int] = st.just(0)
    weeks: tuple[int, ...] = ()
    if frequency == "YEARLY":
        weeks = draw(st.one_of(numbers(2, 51), numbers(-51, -3)))
    if frequency in ("YEARLY", "MONTHLY") and not weeks and draw(st.booleans()):
        most = 5 if months or frequency == "MONTHLY" else 53
        ordinals = st.integers(-most, most).filter(bool)
    weekdays = st.sets(
        st.builds(Weekday, st.integers(0, 6), ordinals), min_size=1, max_size=4
    ).map(lambda days: tuple(sorted(days)))
    return RecurrenceRule(
        frequency=frequency,
        interval=draw(st.sampled_from([1, 1, 1, 2, 3, 5, 7, 12, 24, 60, 90])),
        week_start=draw(st.sampled_from([0, 0, 3, 6])),
        months=months,
        weeks=weeks,
        year_days=draw(st.one_of(numbers(1, 366, most=40), numbers(-366, -1, most=40)))
        if frequency == "YEARLY"
        else (),
        month_days=draw(st.one_of(numbers(1, 31, most=8), numbers(-31, -1, most=8))),
        weekdays=draw(st.one_of(st.just(()), weekdays)),
        easter_days=draw(st.one_of(st.just(()), st.just(()), numbers(-80, 200))),
        hours=draw(numbers(1, 23)),
        minutes=draw(numbers(1, 59)),
        seconds=draw(numbers(1, 59)),
        positions=draw(st.one_of(numbers(1, 9), numbers(-9, -1))),
    )


STARTS = st.datetimes(datetime(1990, 1, 1), datetime(2035, 1, 1)).map(  # noqa: DTZ001
    lambda start: start.replace(microsecond=0)
)


def by_dateutil(rule: RecurrenceRule, start: datetime, end: datetime) -> list[datetime]:
    """What dateutil finds; where there is nothing, it would look until year 9999."""
    ordinals = any(each.ordinal for each in rule.weekdays)
    clock = SimpleNamespace(**vars(datetime_module))
    clock.MAXYEAR = end.year
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dateutil.rrule, "datetime", clock)
        walk = dateutil.rrule.rrule(
            FREQUENCIES.index(rule.frequency),  # type: ignore[arg-type]
            start,
            interval=rule.interval,
            wkst=rule.week_start,
            bysetpos=rule.positions or None,
            bymonth=rule.months or None,
            bymonthday=rule.month_days or None,
            byyearday=rule.year_days or None,
            byeaster=rule.easter_days or None,
            byweekno=rule.weeks or None,
            byweekday=[
                weekday(*each) if ordinals else weekday(each.day)
                for each in rule.weekdays
            ]
            # Without this it takes every day of a week.
            or ([start.weekday()] if rule.weeks and not rule.names_days else None),
            byhour=rule.hours or None,
            byminute=rule.minutes or None,
            bysecond=rule.seconds or None,
        )
        return list(takewhile(lambda found: found <= end, walk))


def by_the_clock(
    rule: RecurrenceRule, start: datetime, end: datetime
) -> list[datetime]:
    """What a walk along hours, minutes or seconds finds, on days by dateutil."""
    length = {"HOURLY": 3600, "MINUTELY": 60, "SECONDLY": 1}[rule.frequency]
    any_time = replace(
        rule,
        frequency="DAILY",
        interval=1,
        hours=(),
        minutes=(),
        seconds=(),
        positions=(),
    )
    days = {each.date() for each in by_dateutil(any_time, start - DAY, end + DAY)}
    seconds = rule.seconds or (start.second,)
    minutes = [60 * each for each in rule.minutes or (start.minute,)]
    offsets = {
        1: [0],
        60: list(seconds),
        3600: sorted(minute + second for minute in minutes for second in seconds),
    }[length]
    if rule.positions:
        count = len(offsets)
        picked = {each - (each > 0) for each in rule.positions if abs(each) <= count}
        offsets = sorted({offsets[each] for each in picked})
    second_of_day = start.hour * 3600 + start.minute * 60 + start.second
    at = start - timedelta(seconds=second_of_day % length)
    found: list[datetime] = []
    while at <= end:
        if (
            at.date() in days
            and at.hour in (rule.hours or [at.hour])
            and (length == 3600 or at.minute in (rule.minutes or [at.minute]))
            and (length > 1 or at.second in (rule.seconds or [at.second]))
        ):
            found += [at + timedelta(seconds=offset) for offset in offsets]
        at += rule.interval * timedelta(seconds=length)
    return [each for each in found if start <= each <= end]


def check(
    rule: RecurrenceRule, start: datetime, end: datetime, expected: list[datetime]
) -> None:
    times = LocalTimes(rule, start)
    found: list[datetime] = []
    at = start
    while (each := times.search(at)) is not None and each <= end:
        found.append(each)
        at = each + MICROSECOND
        if len(found) > MOST:
            break
    assert found == expected[: len(found)]
    assert len(found) == min(len(expected), MOST + 1)
    if found:
        middle, last = len(found) // 2, found[-1]
        assert LocalTimes(rule, start).search(found[middle]) == found[middle]
        number = len(found) - 1 - middle
        assert times.count(found[middle], last, MOST) == number
        assert min(times.count(start, last, 3), 3) == min(3, len(found) - 1)


@settings(deadline=None, max_examples=20)
@given(rules(FREQUENCIES[:4]), STARTS)
def test_it_finds_what_a_walk_from_the_start_finds(
    rule: RecurrenceRule, start: datetime
) -> None:
    if rule.frequency == "WEEKLY" and rule.positions:
        # dateutil takes the first week to begin with the start.
        start -= (start.weekday() - rule.week_start) % 7 * DAY
    if rule.counts_weeks:
        # It counts years from the one that the start is in, not from its week's.
        week = start - (start.weekday() - rule.week_start) % 7 * DAY
        assume((week + 3 * DAY).year == start.year)
    years = {"YEARLY": 9, "MONTHLY": 3, "WEEKLY": 1, "DAILY": 1}[rule.frequency]
    end = datetime(start.year + years, 12, 31, 23, 59, 59)  # noqa: DTZ001
    check(rule, start, end, by_dateutil(rule, start, end))


@settings(deadline=None, max_examples=20)
@given(rules(FREQUENCIES[4:]), STARTS)
def test_it_finds_what_a_walk_along_the_clock_finds(
    rule: RecurrenceRule, start: datetime
) -> None:
    length = {"HOURLY": 3600, "MINUTELY": 60, "SECONDLY": 1}[rule.frequency]
    periods = 3_000 * rule.interval * timedelta(seconds=length)
    end = start + min(periods, 200 * DAY)
    check(rule, start, end, by_the_clock(rule, start, end))


@pytest.mark.parametrize("week_start", range(7))
def test_it_numbers_weeks_as_the_standard_does_and_dateutil_does_not(
    week_start: int,
) -> None:
    for number in (1, 52, 53, -1, -52, -53):
        rule = RecurrenceRule(
            frequency="YEARLY", weeks=(number,), week_start=week_start
        )
        for year in range(2018, 2030):
            bits = rule.days_of(year)
            first = date(year, 1, 1)
            days = [first + each * DAY for each in range(366)]
            assert [each for n, each in enumerate(days) if bits >> n & 1] == [
                each
                for each in days
                if each.year == year and number in week_numbers(each, week_start)
            ]


def week_numbers(day: date, week_start: int) -> tuple[int, int]:
    """The number of a day's week, from the beginning and from the end of its year."""

    def first_week(year: int) -> date:
        fourth = date(year, 1, 4)
        return fourth - (fourth.weekday() - week_start) % 7 * DAY

    year = day.year + 1
    while first_week(year) > day:
        year -= 1
    passed, left = day - first_week(year), first_week(year + 1) - day
    return passed // DAY // 7 + 1, -((left // DAY + 6) // 7)


class TestBounds:
    """How long it takes is counted in steps, which are the same on every machine."""

    @pytest.mark.parametrize("frequency", FREQUENCIES)
    @pytest.mark.parametrize("interval", [1, 7, 90])
    def test_it_does_not_walk_from_the_start(
        self, frequency: str, interval: int
    ) -> None:
        text = f"DTSTART:10000101T000000Z\nRRULE:FREQ={frequency};INTERVAL={interval}"
        far = datetime(9000, 6, 5, 4, 3, 2, tzinfo=UTC)

        def answer() -> None:
            assert RecurrenceTrigger(text).next_fire_time(far) is not None

        assert steps(answer) < 4_000

    @pytest.mark.parametrize(
        ("rule", "most"),
        table("triggers/recurrence_never"),
    )
    def test_it_gives_up_where_nothing_matches(self, rule: str, most: str) -> None:
        def refused() -> None:
            with pytest.raises(InvalidTriggerError, match="never fires"):
                RecurrenceTrigger(f"DTSTART:20000101T000000Z\nRRULE:FREQ={rule}")

        assert steps(refused) < int(most)

    def test_it_goes_on_for_a_hundred_years(self) -> None:
        start = datetime(1904, 2, 29, tzinfo=UTC)
        rule = "FREQ=YEARLY;INTERVAL=92;BYMONTH=2;BYMONTHDAY=29"
        found = RecurrenceTrigger(rule, start=start).next_fire_time(start)
        assert found == datetime(1996, 2, 29, tzinfo=UTC)
        start = datetime(2000, 2, 29, tzinfo=UTC)
        longer = RecurrenceTrigger("FREQ=YEARLY;INTERVAL=100", start=start)
        assert longer.next_fire_time(start) is None

    @pytest.mark.parametrize("frequency", ["DAILY", "MINUTELY"])
    def test_count_is_reached_once(self, frequency: str) -> None:
        start = datetime(1987, 6, 5, tzinfo=UTC)
        trigger = RecurrenceTrigger(f"FREQ={frequency};COUNT=400", start=start)
        far = start + 4000 * DAY
        assert trigger.next_fire_time(far) is None
        assert steps(lambda: trigger.next_fire_time(far)) < 150

    def test_many_kinds_of_days_are_told_apart(self) -> None:
        every = timedelta(seconds=86_399)
        start = datetime(2000, 1, 1, tzinfo=UTC)
        minutes = ",".join(map(str, range(60)))
        rule = f"FREQ=SECONDLY;INTERVAL=86399;BYMINUTE={minutes}"
        trigger = RecurrenceTrigger(rule, start=start)
        assert fire_times(trigger, start, 200) == [
            start + n * every for n in range(1, 201)
        ]


LONG_AGO = datetime(2009, 11, 7, 23, 30, 17)  # noqa: DTZ001 (local times are naive)
INTERVALS = (1, 2, 5, 7, 59, 97, 1013, 3599, 21_494, 86_399, 99_991, 10**6 + 3)
LONGEST_INTERVALS = {"YEARLY": 100, "MONTHLY": 1200, "WEEKLY": 5218, "DAILY": 36_525}


@st.composite
def far_rules(draw: st.DrawFn) -> RecurrenceRule:
    rule = draw(rules(FREQUENCIES))
    most = LONGEST_INTERVALS.get(rule.frequency, 10**9)
    interval = draw(st.sampled_from([each for each in INTERVALS if each <= most]))
    return replace(rule, interval=interval)


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
@example(RecurrenceRule(frequency="DAILY", months=(7,)), 0, 2000, 0)
@example(RecurrenceRule(frequency="HOURLY", interval=24, months=(7,)), 0, 2000, 0)
def test_it_counts_the_times_between_two(
    rule: RecurrenceRule, begin: int, days: int, seconds: int
) -> None:
    times = LocalTimes(rule, LONG_AGO)
    first = LONG_AGO + begin * SECOND
    last = first + days * DAY + seconds * SECOND
    # Whole years are added up; these are counted day by day.
    begins = [first + number * 300 * DAY for number in range(days // 300 + 1)]
    parts = [times.count(*pair) for pair in pairwise([*begins, last])]
    assert times.count(first, last) == sum(parts)


BERLIN = ZoneInfo("Europe/Berlin")
HOUR = timedelta(hours=1)
LONG = datetime(1903, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("rule", "start", "last"),
    [
        ("FREQ=DAILY", LONG, 77_776 * DAY),
        ("FREQ=WEEKLY;INTERVAL=3", LONG, 77_776 * 21 * DAY),
        ("FREQ=SECONDLY;INTERVAL=999983", LONG, 77_776 * 999_983 * SECOND),
        ("FREQ=HOURLY;INTERVAL=23;BYMINUTE=0", LONG, 77_776 * 23 * HOUR),
        # Hours that pass are counted, in any zone.
        ("FREQ=HOURLY", datetime(1990, 1, 1, tzinfo=BERLIN), 77_776 * HOUR),
    ],
)
def test_the_last_time_is_found_from_just_before_it(
    rule: str, start: datetime, last: timedelta
) -> None:
    check_last(f"{rule};COUNT=77777", start, start.astimezone(UTC) + last)


def test_a_change_of_the_clocks_on_another_day_is_not_counted() -> None:
    start = datetime(1990, 1, 1, tzinfo=BERLIN)
    last = start + 7 * 2999 * DAY + 23 * HOUR
    check_last(f"FREQ=HOURLY;BYDAY=MO;COUNT={3000 * 24}", start, last)


def check_last(rule: str, start: datetime, last: datetime) -> None:
    for after, expected in ((last - MICROSECOND, last), (last, None)):
        trigger = RecurrenceTrigger(rule, start=start)
        assert trigger.next_fire_time(after) == expected
