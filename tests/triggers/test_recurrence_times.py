from __future__ import annotations

import datetime as datetime_module
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import takewhile
from types import SimpleNamespace
from typing import TYPE_CHECKING

import dateutil.rrule
import pytest
from dateutil.rrule import rrule, weekday
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from go_scheduler.triggers.recurrence import RecurrenceTrigger
from go_scheduler.triggers.recurrence.rule import (
    FREQUENCIES,
    RecurrenceRule,
    Weekday,
)
from go_scheduler.triggers.recurrence.series import LocalTimes

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


class TestAgainstDateutil:
    @settings(deadline=None, max_examples=20)
    @given(rules(FREQUENCIES[:4]), STARTS)
    def test_it_finds_what_a_walk_from_the_start_finds(
        self, rule: RecurrenceRule, start: datetime
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
        self, rule: RecurrenceRule, start: datetime
    ) -> None:
        length = {"HOURLY": 3600, "MINUTELY": 60, "SECONDLY": 1}[rule.frequency]
        periods = 3_000 * rule.interval * timedelta(seconds=length)
        end = start + min(periods, 200 * DAY)
        check(rule, start, end, by_the_clock(rule, start, end))

    @pytest.mark.parametrize("week_start", range(7))
    def test_it_numbers_weeks_as_the_standard_does_and_dateutil_does_not(
        self, week_start: int
    ) -> None:
        mistaken = 0
        for number in (1, 52, 53, -1, -52, -53):
            rule = RecurrenceRule(
                frequency="YEARLY", weeks=(number,), week_start=week_start
            )
            for year in range(2018, 2023):
                bits = rule.days_of(year)
                first = date(year, 1, 1)
                found = [first + each * DAY for each in range(366) if bits >> each & 1]
                assert found == [
                    day
                    for day in (first + each * DAY for each in range(366))
                    if day.year == year and number in week_numbers(day, week_start)
                ]
                start = datetime(year, 1, 1)  # noqa: DTZ001
                walk = rrule(0, start, byweekno=number, wkst=week_start, count=20)
                mistaken += [each.date() for each in walk if each.year == year] != found
        assert mistaken

    @pytest.mark.parametrize("number", [1, 52, 53])
    def test_the_weeks_of_two_hundred_years_have_their_numbers(
        self, number: int
    ) -> None:
        start = datetime(1970, 1, 1)  # noqa: DTZ001
        every_day = tuple(map(Weekday, range(7)))
        rule = RecurrenceRule(frequency="YEARLY", weeks=(number,), weekdays=every_day)
        times = LocalTimes(rule, start)
        days = range(start.toordinal(), start.replace(year=2170).toordinal())
        found = times.days(days.start)
        assert [day for day, _ in takewhile(lambda each: each[0] in days, found)] == [
            day for day in days if date.fromordinal(day).isocalendar().week == number
        ]

    def test_days_with_and_without_a_number_are_all_meant(self) -> None:
        text = "DTSTART:20250101T000000Z\nRRULE:FREQ={};BYDAY=MO,2TU"
        for frequency, expected in (
            ("MONTHLY", [6, 13, 14, 20, 27]),
            ("YEARLY", [6, 13, 14, 20, 27]),
            ("YEARLY;BYMONTH=1", [6, 13, 14, 20, 27]),
        ):
            trigger = RecurrenceTrigger(text.format(frequency))
            after, found = datetime(2025, 1, 1, tzinfo=UTC), []
            while (
                (each := trigger.next_fire_time(after))
                and each.month == 1
                and each.year == 2025
            ):
                found.append(each.day)
                after = each
            assert found == expected

    def test_positions_are_those_in_the_whole_first_week(self) -> None:
        saturday = datetime(2025, 1, 4)  # noqa: DTZ001
        days = Weekday(0), Weekday(5)
        rule = RecurrenceRule(frequency="WEEKLY", weekdays=days, positions=(1,))
        first = LocalTimes(rule, saturday).search(saturday)
        assert first == saturday + 2 * DAY
        walk = rrule(2, saturday, byweekday=(0, 5), bysetpos=1, count=1)
        assert list(walk) == [saturday]


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
    def test_it_ends_with_the_calendar(self) -> None:
        last = datetime(9999, 12, 31, 23, 59, 59)  # noqa: DTZ001
        for frequency in FREQUENCIES[:4]:
            rule = RecurrenceRule(frequency=frequency)
            times = LocalTimes(rule, last - 7 * DAY)
            number = 8 if frequency == "DAILY" else 2 if frequency == "WEEKLY" else 1
            assert times.count(last - 7 * DAY, datetime.max, 99) == number  # noqa: DTZ901
            assert times.search(last + MICROSECOND) is None
            if frequency != "DAILY":
                continue
            assert times.search(last) == last

    @pytest.fixture
    def steps(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """The days that it looks at, of all searches together."""
        looked_at: list[int] = []
        aligned = LocalTimes._aligned

        def recorded(times: LocalTimes, day: int) -> int:
            looked_at.append(day)
            return aligned(times, day)

        monkeypatch.setattr(LocalTimes, "_aligned", recorded)
        return looked_at

    @pytest.mark.parametrize("frequency", FREQUENCIES)
    @pytest.mark.parametrize("interval", [1, 7, 90])
    def test_it_does_not_walk_from_the_start(
        self, frequency: str, interval: int, steps: list[int]
    ) -> None:
        start = datetime(1000, 1, 1)  # noqa: DTZ001
        rule = RecurrenceRule(frequency=frequency, interval=interval)
        found = LocalTimes(rule, start).search(datetime(9000, 6, 5, 4, 3, 2))  # noqa: DTZ001
        assert found is not None
        assert len(steps) <= 3

    @pytest.mark.parametrize(
        "rule",
        [
            RecurrenceRule(frequency="SECONDLY", months=(2,), month_days=(30,)),
            RecurrenceRule(frequency="DAILY", interval=7, weekdays=(Weekday(0),)),
            RecurrenceRule(
                frequency="DAILY",
                interval=7,
                weekdays=tuple(Weekday(day) for day in range(7) if day != 5),
            ),
            RecurrenceRule(
                frequency="SECONDLY",
                interval=77,
                weekdays=tuple(Weekday(day) for day in range(7) if day != 5),
                hours=(0,),
                minutes=(0,),
                seconds=(0,),
            ),
            RecurrenceRule(frequency="SECONDLY", interval=2, seconds=(1,)),
            RecurrenceRule(
                frequency="WEEKLY",
                months=(1,),
                weekdays=(Weekday(0),),
                easter_days=(0,),
                positions=(1,),
            ),
            RecurrenceRule(frequency="MONTHLY", weekdays=(Weekday(0),), positions=(6,)),
        ],
    )
    def test_it_gives_up_where_nothing_matches(
        self, rule: RecurrenceRule, steps: list[int]
    ) -> None:
        start = datetime(2000, 1, 1)  # noqa: DTZ001
        assert LocalTimes(rule, start).search(start + DAY) is None
        assert len(steps) <= 6_000

    @pytest.mark.parametrize(
        "rule",
        [
            RecurrenceRule(frequency="SECONDLY", interval=14, seconds=(1, 3)),
            RecurrenceRule(frequency="MINUTELY", interval=60, minutes=(30,)),
            RecurrenceRule(frequency="DAILY", hours=(9, 10), positions=(3,)),
            RecurrenceRule(
                frequency="WEEKLY", weekdays=(Weekday(0),), positions=(2, -3)
            ),
            RecurrenceRule(frequency="MONTHLY", year_days=(1,), positions=(32,)),
        ],
    )
    def test_it_does_not_begin_where_nothing_can_match(
        self, rule: RecurrenceRule, steps: list[int]
    ) -> None:
        start = datetime(2000, 1, 1)  # noqa: DTZ001
        assert LocalTimes(rule, start).search(start + DAY) is None
        assert steps == []

    def test_it_goes_on_for_a_hundred_years(self) -> None:
        start = datetime(1904, 2, 29)  # noqa: DTZ001
        rule = RecurrenceRule(
            frequency="YEARLY", interval=92, months=(2,), month_days=(29,)
        )
        found = LocalTimes(rule, start).search(start + DAY)
        assert found == datetime(1996, 2, 29)  # noqa: DTZ001
        longer = RecurrenceRule(frequency="YEARLY", interval=100)
        start = datetime(2000, 2, 29)  # noqa: DTZ001
        assert LocalTimes(longer, start).search(start + DAY) is None

    def test_it_stops_counting_where_that_is_enough(self, steps: list[int]) -> None:
        start = datetime(2000, 1, 1)  # noqa: DTZ001
        times = LocalTimes(RecurrenceRule(frequency="DAILY"), start)
        assert times.count(start, start + 40_000 * DAY, 5) == 5
        assert len(steps) <= 6

    def test_count_is_reached_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        counted: list[datetime] = []
        count = LocalTimes.count

        def recorded(
            times: LocalTimes, begin: datetime, end: datetime, most: int
        ) -> int:
            counted.append(end)
            return count(times, begin, end, most)

        monkeypatch.setattr(LocalTimes, "count", recorded)
        for frequency in ("DAILY", "MINUTELY"):
            counted.clear()
            start = datetime(1987, 6, 5, tzinfo=UTC)
            trigger = RecurrenceTrigger(f"FREQ={frequency};COUNT=9", start=start)
            for _ in range(3):
                for days in (0, 10, 99):
                    trigger.next_fire_time(start + days * DAY)
            assert len(counted) == 2

    def test_many_kinds_of_days_are_remembered_but_not_all(self) -> None:
        start = datetime(2000, 1, 1)  # noqa: DTZ001
        rule = RecurrenceRule(
            frequency="SECONDLY", interval=86_399, minutes=tuple(range(60))
        )
        times = LocalTimes(rule, start)
        at = start
        for each in range(200):
            assert times.search(at) == start + each * timedelta(seconds=86_399)
            at = start + each * timedelta(seconds=86_399) + MICROSECOND
        assert len(times._times_of_day) <= 64
