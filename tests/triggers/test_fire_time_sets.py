"""Fire times as sets: the same as asking for one after the other, however far apart."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers import (
    AllOfTrigger,
    AnyOfTrigger,
    BusinessDays,
    CronTrigger,
    DateCalendar,
    DelayTrigger,
    ExceptTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    LimitedTrigger,
    OnlyTrigger,
    RecurrenceTrigger,
    RuleCalendar,
    Trigger,
    read_ical,
    register_calendar,
)
from go_scheduler.triggers.base import UndecidedError
from go_scheduler.triggers.calendars import find_calendar
from go_scheduler.triggers.compound import FireTimeSearch, searchable_times_of
from go_scheduler.triggers.fire_time_sets import SearchBudget
from go_scheduler.triggers.recurrence_rules import FREQUENCIES, write_rule
from tests.case_tables import table
from tests.triggers.combinations import (
    DAY,
    END,
    HOUR,
    MICROSECOND,
    MINUTE,
    NOON,
    SECOND,
    Computed,
    ListedTrigger,
    SteadyTrigger,
)
from tests.triggers.cron_oracle import FIVE, expressions
from tests.triggers.cron_oracle import fire_times_until as series
from tests.triggers.test_recurrence_times import rules as plain_rules

if TYPE_CHECKING:
    from collections.abc import Callable

Cron, Rule = CronTrigger, RecurrenceTrigger
ZONES = (
    *("UTC", "America/New_York", "Europe/Berlin", "Pacific/Apia", "Asia/Kolkata"),
    *("Australia/Lord_Howe", "America/St_Johns", "Africa/Casablanca", "Africa/Cairo"),
)
# Around changes of clocks, a lost day, turns of the year, and what only rules tell.
BEGINNINGS = tuple(
    datetime.fromisoformat(each).replace(tzinfo=UTC)
    for each in (
        *("2024-03-09", "2024-11-02", "2011-12-28", "2024-04-05T12", "2024-10-05"),
        *("2023-12-30", "2024-12-30", "2093-03-26", "2007-11-03"),
    )
)
STARTS = ("0102T000000", "0310T023000", "0605T090807")
PLENTY = 10**8
HOURLY, MINUTELY, SECONDLY = Cron("0 * * * *"), Cron("* * * * *"), "* * * * * * *"


clocks: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"gap": st.sampled_from(["next", "skip"])},
    optional={"overlap": st.sampled_from(["second", "both"])},
)


@st.composite
def crons(draw: st.DrawFn) -> Trigger:
    text = draw(expressions() | expressions(("second", *FIVE)).map("{} *".format))
    try:
        return Cron(text, draw(st.sampled_from(ZONES)), **draw(clocks))
    except InvalidTriggerError:
        # Such as 30 February.
        return reject()


@st.composite
def rules(draw: st.DrawFn) -> Trigger:
    """Rules with a start, an end, exceptions and dates besides."""
    ends = ["", "", ";COUNT=3", ";COUNT=1000", ";UNTIL=20240610T120030Z"]
    rule = write_rule(draw(plain_rules(FREQUENCIES))) + draw(st.sampled_from(ends))
    zone = draw(st.sampled_from(ZONES))
    start = draw(st.sampled_from(["2010", "2024"])) + draw(st.sampled_from(STARTS))
    others = st.sampled_from(
        [
            "EXDATE;VALUE=DATE:20240310,20241103",
            f"EXDATE:{start}",
            "RDATE:20241103T013000,20250309T023000",
            "RDATE:20250401T120000Z",
            "EXDATE:20250401T120000Z",
        ]
    )
    lines = [f"DTSTART;TZID={zone}:{start}", f"RRULE:{rule}"]
    lines += draw(st.lists(others, max_size=2))
    try:
        return Rule("\n".join(lines), **draw(clocks))
    except InvalidTriggerError:
        return reject()


@st.composite
def intervals(draw: st.DrawFn) -> Trigger:
    seconds = draw(
        st.sampled_from([1, 7, 60, 90, 3600, 30_600, 86_400, 86_401, 10**6, 1.5, 0.25])
    )
    first = draw(st.sampled_from([0, 0, 17, 123_456.5, 10**8]))
    anchor = datetime(2010, 1, 1, tzinfo=UTC) + first * SECOND
    return IntervalTrigger(seconds * SECOND, anchor)


instants = st.sampled_from(BEGINNINGS).map(lambda each: ExecuteOnceTrigger(each + DAY))
leaves: st.SearchStrategy[Trigger] = st.one_of(
    crons(), crons(), rules(), rules(), intervals(), instants
)


register_calendar("tests.changes", DateCalendar([each.date() for each in BEGINNINGS]))
register_calendar("tests.workdays", BusinessDays("tests.changes"))
register_calendar("tests.rule", RuleCalendar("FREQ=MONTHLY;BYDAY=SA,SU;BYSETPOS=-1,1"))
register_calendar("tests.weekdays", BusinessDays())
register_calendar("tests.until", RuleCalendar("FREQ=DAILY;UNTIL=20300704"))
register_calendar("tests.ical", read_ical(Path(__file__).with_name("holidays.ics")))
register_calendar("tests.odd", Computed(lambda day: day.day % 7 < 3))
some_calendars = st.lists(
    st.sampled_from(["tests.changes", "tests.workdays", "tests.rule", "tests.odd"]),
    min_size=1,
    max_size=2,
)


@st.composite
def combinations(draw: st.DrawFn, depth: int = 2) -> Trigger:
    if depth == 0:
        return draw(leaves)
    part = combinations(depth - 1)
    some = st.lists(part, min_size=1, max_size=3)
    zone = draw(st.sampled_from(ZONES))
    try:
        match draw(st.integers(0, 5)):
            case 0:
                return draw(leaves)
            case 1:
                return AnyOfTrigger(draw(some))
            case 2:
                return AllOfTrigger(draw(some)[:2])
            case 3:
                return ExceptTrigger(draw(part), draw(some | some_calendars), zone)
            case 4:
                return OnlyTrigger(draw(part), draw(some_calendars), zone)
        begin = draw(st.sampled_from(BEGINNINGS)) - draw(st.integers(0, 9)) * DAY / 7
        bounds: dict[str, Any] = {"start": begin}
        if draw(st.booleans()):
            bounds = {"anchored_at": begin}
        if draw(st.booleans()):
            bounds["limit"] = draw(st.sampled_from([1, 3, 50, 2000]))
        if draw(st.booleans()):
            bounds["duration"] = draw(st.integers(1, 300)) * DAY
        return LimitedTrigger(draw(part), **bounds)
    except InvalidTriggerError:
        reject()


def with_sets(trigger: Trigger, begin: datetime, end: datetime) -> list[datetime]:
    """The fire times after one instant, up to another, by the sets alone."""
    times = searchable_times_of(trigger)
    assert times is not None
    found: list[datetime] = []
    after: datetime | None = begin
    while after is not None and after <= end:
        after = times.next(after + MICROSECOND, lambda year: year, SearchBudget(PLENTY))
        if after is not None and after <= end:
            found.append(after)
    return found


def walked(trigger: Trigger, begin: datetime, end: datetime) -> list[datetime]:
    """The fire times by a slow walk, which knows only what a part is asked for.

    It goes through each fire time of each part.
    """
    match trigger:
        case LimitedTrigger(trigger=part, limit=limit):
            floor, ceiling = trigger._floor(), trigger._ceiling()
            assert floor is not None
            first = min(begin, floor - MICROSECOND)
            found = [each for each in walked(part, first, end) if each >= floor]
            found = found if limit is None else found[:limit]
            return [each for each in found if begin < each <= ceiling]
        case AnyOfTrigger(triggers=parts):
            return sorted(set().union(*(walked(each, begin, end) for each in parts)))
        case AllOfTrigger(triggers=parts):
            series_of = [set(walked(each, begin, end)) for each in parts]
            return sorted(set.intersection(*series_of))
        case ExceptTrigger(trigger=part, exceptions=exceptions):
            left_out: set[datetime] = set()
            for each in exceptions:
                if isinstance(each, Trigger):
                    left_out |= set(walked(each, begin, end))
                else:
                    left_out |= set(on_days(trigger, each, begin, end))
            return [each for each in walked(part, begin, end) if each not in left_out]
        case OnlyTrigger(calendars=calendars):
            return sorted(
                set().union(*(on_days(trigger, each, begin, end) for each in calendars))
            )
    found = []
    after = trigger.next_fire_time(begin)
    while after is not None and after <= end:
        found.append(after)
        assume(len(found) < 3000)
        after = trigger.next_fire_time(after)
    return found


def on_days(
    trigger: ExceptTrigger | OnlyTrigger, name: str, begin: datetime, end: datetime
) -> list[datetime]:
    """The fire times of its part on days of a calendar, as its zone has them."""
    zone, calendar = ZoneInfo(trigger.timezone), find_calendar(name)
    return [
        each
        for each in walked(trigger.trigger, begin, end)
        if calendar.includes(each.astimezone(zone).date())
    ]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    trigger=st.one_of(leaves, combinations()),
    begin=st.sampled_from(BEGINNINGS),
    seconds=st.integers(0, 80_000),
    days=st.sampled_from([1, 5, 20]),
)
def test_a_combination_is_what_a_slow_walk_finds(
    trigger: Trigger, begin: datetime, seconds: int, days: int
) -> None:
    begin += seconds * SECOND
    end = begin + days * DAY
    expected = walked(trigger, begin, end)
    assume(searchable_times_of(trigger) is not None)
    assert with_sets(trigger, begin, end) == expected
    try:
        assert series(trigger, begin, end) == expected
    except UndecidedError:
        # What lies beyond the end may stay open.
        assume(False)


@pytest.mark.parametrize(
    ("trigger", "begin"),
    [
        (Cron("50 */3 * * *", "Europe/London"), "2025-03-28"),
        (Cron("30 2 * * *", "America/New_York"), "2024-03-08"),
        (Cron("30 1 * * *", "America/New_York", overlap="second"), "2024-11-01"),
        (
            Rule(
                "DTSTART;TZID=Europe/Berlin:20240301T013000\nRRULE:FREQ=DAILY\n"
                "RDATE:20240310T070000Z,20240310T080000Z\nEXDATE:20240310T080000Z"
            ),
            "2024-03-08",
        ),
        # A gap from 23:30 to 00:30, and a whole day that was left out.
        (Cron("45 23 * * *", "America/Toronto"), "1919-03-29"),
        (Cron("15 0 * * *", "America/Toronto"), "1919-03-29"),
        (Cron("30 12 * * *", "Pacific/Apia"), "2011-12-28"),
        # Weeks that cross a new year.
        (
            Rule(
                "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1,1",
                start=datetime(2024, 1, 1, 9, tzinfo=UTC),
            ),
            "2024-12-28",
        ),
        # A day that is left out whole, and a time of it besides.
        (
            Rule(
                "DTSTART:20240301T013000Z\nRRULE:FREQ=DAILY\n"
                "EXDATE;VALUE=DATE:20240310\nEXDATE:20240310T013000Z"
            ),
            "2024-03-08",
        ),
        (LimitedTrigger(HOURLY, start=NOON, end=NOON + 2 * HOUR), "2030-06-01"),
        *(
            (OnlyTrigger(IntervalTrigger(12 * HOUR, NOON), names, ZONES[1]), first)
            for names in (
                "tests.weekdays",
                "tests.workdays",
                "tests.odd",
                "tests.ical",
            )
            for first in ("2030-06-01", "2030-12-28")
        ),
        *(
            (OnlyTrigger(IntervalTrigger(12 * HOUR, NOON), names), "2030-06-28")
            for names in ("tests.rule", ["tests.until", "tests.changes"])
        ),
    ],
)
def test_times_that_are_skipped_or_cut_are_the_same(
    trigger: Trigger, begin: str
) -> None:
    first = datetime.fromisoformat(begin).replace(tzinfo=UTC)
    window = (first, first + 9 * DAY)
    assert with_sets(trigger, *window) == series(trigger, *window)


def test_a_year_that_is_not_tried_from_its_beginning_does_not_stand_for_others() -> (
    None
):
    mondays = AllOfTrigger([Cron("0 0 29 2 *"), Cron("0 0 * * 1")])
    begin, found = (datetime(year, 2, 29, tzinfo=UTC) for year in (2044, 2072))
    assert with_sets(mondays, begin, found) == [found]


def read(text: str) -> Trigger:
    """A cron expression in UTC or after its zone, a rule, or an interval in seconds."""
    if "FREQ=" in text:
        return Rule(text)
    if text.startswith("every "):
        _, seconds, since = text.split()
        return IntervalTrigger(float(seconds) * SECOND, datetime.fromisoformat(since))
    zone, _, expression = text.rpartition(": ")
    return Cron(expression, zone or "UTC")


class TestSearch:
    @pytest.mark.parametrize(
        ("text", "exceptions", "after", "expected"),
        [
            *table("triggers/left_out"),
            # By many at once.
            (
                SECONDLY,
                " & ".join(f"{second} * * 3 * * *" for second in range(60)),
                *("2030-01-02T23:59:59", "2030-01-04"),
            ),
        ],
    )
    def test_it_goes_over_what_is_left_out(
        self, text: str, exceptions: str, after: str, expected: str
    ) -> None:
        excepting = ExceptTrigger(read(text), [*map(read, exceptions.split(" & "))])
        found = excepting.next_fire_time(
            datetime.fromisoformat(after).replace(tzinfo=UTC)
        )
        assert found == datetime.fromisoformat(expected).replace(tzinfo=UTC)

    def test_what_fires_within_bounds_alone_is_not_refused(self) -> None:
        start = datetime(2031, 1, 1, tzinfo=UTC)
        night = ExceptTrigger(MINUTELY, Cron("* 0-10 * * *"))
        trigger = LimitedTrigger(night, start=start)
        assert trigger.next_fire_time(NOON) == start + 11 * HOUR

    @pytest.mark.parametrize(("kind", "text", "others"), table("triggers/never_fires"))
    def test_what_never_fires_is_refused(
        self, kind: str, text: str, others: str
    ) -> None:
        one, parts = read(text), [*map(read, others.split(" & "))]
        makers: dict[str, Callable[[], Trigger]] = {
            "all of": lambda: AllOfTrigger([one, *parts]),
            "except": lambda: ExceptTrigger(one, parts),
        }
        name, why = {
            "all of": ("all_of", "no common fire time"),
            "except": ("except", "leave none of its fire times"),
        }[kind]
        with pytest.raises(InvalidTriggerError, match=why) as refused:
            makers[kind]()
        assert str(refused.value).startswith(f"{name}: it never fires: ")

    def test_rules_that_start_when_they_are_scheduled_are_not_asked_one_by_one(
        self,
    ) -> None:
        each_second = Rule("FREQ=SECONDLY")
        parts: list[Any] = [Rule(f"FREQ=SECONDLY;BYSECOND={n}") for n in range(60)]
        for trigger in (
            ExceptTrigger(each_second, parts),
            ExceptTrigger(each_second, each_second),
            AllOfTrigger(parts[:2]),
        ):
            assert trigger.next_fire_time(NOON) is None
        assert ExceptTrigger(each_second, parts[1:]).next_fire_time(NOON) == (
            NOON + MINUTE
        )

    def test_sets_are_made_anew_when_a_calendar_changes(self) -> None:
        register_calendar("tests.off", DateCalendar([]))
        trigger = ExceptTrigger(Cron(SECONDLY), [Cron("* 1-59 * * * * *"), "tests.off"])
        last = NOON + 11 * HOUR + MINUTE
        assert trigger.next_fire_time(last) == NOON + 12 * HOUR
        register_calendar("tests.off", DateCalendar([NOON.date() + DAY]))
        assert trigger.next_fire_time(last) == NOON + 36 * HOUR

    def test_what_steps_by_less_than_a_second_is_left_open(self) -> None:
        odd = IntervalTrigger(983_001 * MICROSECOND, NOON)
        trigger = AllOfTrigger([odd, Cron("0 0 * * *")])
        with pytest.raises(UndecidedError, match="too many times in a row"):
            trigger.next_fire_time(NOON + SECOND)

    def test_what_meets_too_seldom_is_left_open(self) -> None:
        trigger = AllOfTrigger(
            [IntervalTrigger(DAY + SECOND, NOON), Cron("0 0 * * *", "Europe/Berlin")]
        )
        (warning,) = trigger.warnings(NOON)
        assert "could not be decided" in warning
        with pytest.raises(UndecidedError, match="could not be decided"):
            trigger.next_fire_time(NOON)

    def test_what_is_between_seconds_is_found_beside_what_is_not(self) -> None:
        begin = datetime(2026, 1, 1, tzinfo=UTC)
        december = datetime(2026, 12, 1, tzinfo=UTC)
        half, quarter = SECOND / 2, SECOND / 4
        between = IntervalTrigger(MINUTE, anchor=begin + half)
        once = ExecuteOnceTrigger(december + quarter)
        trigger = ExceptTrigger(
            AnyOfTrigger([Cron("* * * * *"), between, once]),
            [Cron("* * * 1-11 *"), LimitedTrigger(between, end=december)],
        )
        expected = [december, december + quarter, december + half, december + MINUTE]
        assert series(trigger, begin, december + MINUTE) == expected

    def test_a_search_ends_with_time(self) -> None:
        trigger = ExceptTrigger(Cron(SECONDLY), Cron("* * * * 7-12 * *"))
        assert trigger.next_fire_time(datetime(9999, 8, 1, tzinfo=UTC)) is None
        assert trigger.next_fire_time(datetime(9998, 8, 1, tzinfo=UTC)) == datetime(
            9999, 1, 1, tzinfo=UTC
        )

    def test_what_comes_long_after_the_beginning_of_time_is_found(self) -> None:
        trigger = AllOfTrigger([MINUTELY, Cron("* 0 0 1 1 * 2050")])
        first = datetime(1, 1, 1, tzinfo=UTC)
        assert trigger.next_fire_time(first) == datetime(2050, 1, 1, tzinfo=UTC)
        times = searchable_times_of(trigger)
        assert times is not None
        assert times.next(first, lambda year: None, SearchBudget()) is None

    @pytest.mark.parametrize(
        "trigger",
        [
            AnyOfTrigger([MINUTELY, SteadyTrigger(1)]),
            ExceptTrigger(MINUTELY, SteadyTrigger(60)),
            OnlyTrigger(ListedTrigger([NOON.isoformat()]), "tests.june"),
            LimitedTrigger(SteadyTrigger(1), start=NOON, limit=3),
            DelayTrigger(HOUR),
            IntervalTrigger(HOUR),
        ],
        ids=str,
    )
    def test_foreign_triggers_and_those_without_a_start_are_asked_one_by_one(
        self, trigger: Trigger
    ) -> None:
        assert searchable_times_of(trigger) is None

    def test_nor_is_a_limit_of_what_is_at_too_many_parts_of_a_second(self) -> None:
        seldom = IntervalTrigger(SECOND + MICROSECOND, NOON)
        some = AnyOfTrigger([seldom, Cron("0 12 * * *")])
        first = LimitedTrigger(some, start=NOON, limit=9)
        both = AllOfTrigger([first, Cron(SECONDLY)])
        assert searchable_times_of(both) is None
        assert both.next_fire_time(NOON - SECOND) == NOON
        assert both.next_fire_time(NOON) is None


def test_a_hundred_thousand_are_counted_at_once() -> None:
    evenings = ExceptTrigger(MINUTELY, Cron("* 0-17 * * *"))
    start = NOON + 6 * HOUR
    trigger = LimitedTrigger(evenings, start=start, limit=100_000)
    days, minutes = divmod(99_999, 360)
    last = start + days * DAY + minutes * MINUTE
    assert trigger.next_fire_time(last - SECOND) == last
    assert trigger.next_fire_time(last) is None


def test_what_is_between_seconds_counts_too() -> None:
    either = AnyOfTrigger(
        [IntervalTrigger(HOUR, NOON), IntervalTrigger(HOUR, NOON + SECOND / 2)]
    )
    for limit, last in ((7, NOON + 3 * HOUR), (8, NOON + 3 * HOUR + SECOND / 2)):
        limited = LimitedTrigger(either, start=NOON - DAY, limit=limit)
        assert series(limited, NOON - DAY, NOON + DAY)[-1] == last
        assert with_sets(limited, NOON - DAY, NOON + DAY)[-1] == last


def test_a_limit_within_a_combination_ends_what_it_leaves_out() -> None:
    first = LimitedTrigger(MINUTELY, start=NOON, limit=50_000)
    trigger = ExceptTrigger(Cron("*/2 * * * *"), first)
    assert trigger.next_fire_time(NOON) == NOON + 50_000 * MINUTE
    assert trigger.next_fire_time(NOON - HOUR) == NOON - 58 * MINUTE


def test_a_year_that_takes_too_much_ends_a_search() -> None:
    trigger = ExceptTrigger(Cron(SECONDLY), Cron("* * * 5-9 * * *"))
    search = FireTimeSearch(trigger, budget=SearchBudget(3))
    with pytest.raises(UndecidedError):
        search.next_fire_time(datetime(2030, 1, 5, tzinfo=UTC))
    assert trigger.next_fire_time(END) is None


def test_what_is_rare_is_found_one_by_one_where_sets_take_too_much() -> None:
    interval = IntervalTrigger(100_000 * SECOND, NOON)
    trigger = AllOfTrigger([interval, Cron("0 12 20 2 *", "UTC")])
    search = FireTimeSearch(trigger, budget=SearchBudget(3))
    found = search.next_fire_time(NOON)
    assert found is not None
    assert interval.next_fire_time(found - SECOND) == found
    assert (found.month, found.day, found.hour) == (2, 20, 12)
