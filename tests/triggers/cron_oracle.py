"""What cron expressions mean, worked out slowly: by arithmetic, and by a walk."""

from __future__ import annotations

import calendar
import sys
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import islice, takewhile
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

    from go_scheduler.triggers.base import Trigger

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
MICROSECOND = timedelta(microseconds=1)
BOUNDS = {
    "second": (0, 59),
    "minute": (0, 59),
    "hour": (0, 23),
    "day-of-month": (1, 31),
    "month": (1, 12),
    "day-of-week": (0, 6),
    "year": (1970, 2099),
}
FIVE = ("minute", "hour", "day-of-month", "month", "day-of-week")
SPECIAL_DAYS = {
    "day-of-month": ["L", "LW", "L-1", "L-5", "1W", "15W", "30W", "31W"],
    "day-of-week": ["0L", "5L", "7L", "FRI#2", "0#1", "3#5", "7#4", "monL"],
}
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
# What the clocks of a zone do there: the last instant before a change, or one nearby.
CHANGES = [
    ("America/New_York", "2024-03-10T07:00"),
    ("America/New_York", "2024-11-03T06:00"),
    ("Europe/Berlin", "2025-03-30T01:00"),
    ("Europe/Berlin", "2025-10-26T01:00"),
    ("Australia/Lord_Howe", "2024-04-06T15:00"),
    ("Australia/Lord_Howe", "2024-10-05T15:30"),
    ("Pacific/Apia", "2011-12-30T10:00"),
    ("Pacific/Apia", "2012-03-31T14:00"),
    ("Africa/Cairo", "2024-04-25T22:00"),
    ("Africa/Cairo", "2024-10-31T21:00"),
    ("America/Santiago", "2024-04-07T03:00"),
    ("America/Santiago", "2024-09-08T04:00"),
    ("Asia/Kathmandu", "1985-12-31T18:30"),
    ("Africa/Casablanca", "2025-02-23T02:00"),
    ("Africa/Casablanca", "2025-04-06T02:00"),
    ("America/Havana", "2024-11-03T05:00"),
    ("Antarctica/Troll", "2024-10-27T01:00"),
    ("Antarctica/Casey", "2009-10-17T18:00"),
    ("Pacific/Kwajalein", "1993-08-21T12:00"),
    ("Pacific/Kwajalein", "1969-09-30T13:00"),
    ("Africa/Freetown", "1939-09-01T01:00"),
    ("Africa/Freetown", "1939-09-05T00:40"),
]


def fire_times(trigger: Trigger, after: datetime, most: int) -> list[datetime]:
    """The next fire times, so many if there are."""
    return list(islice(_each(trigger, after), most))


def fire_times_until(
    trigger: Trigger, after: datetime, until: datetime
) -> list[datetime]:
    """The fire times later than one instant and not later than another."""
    return list(takewhile(lambda each: each <= until, _each(trigger, after)))


def _each(trigger: Trigger, after: datetime) -> Iterator[datetime]:
    while (found := trigger.next_fire_time(after)) is not None:
        assert found > after
        yield (after := found)


def numbers(text: str, name: str) -> frozenset[int]:
    """What a list of numbers, ranges and steps means, by arithmetic alone."""
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
    return frozenset(
        0 if name == "day-of-week" and each == 7 else each for each in found
    )


@lru_cache(maxsize=1 << 16)
def on_day(day_of_month: str, day_of_week: str, day: date) -> bool:
    """Whether a date matches the two day fields, item by item."""
    by_month = any(_on_day_of_month(item, day) for item in day_of_month.split(","))
    by_week = any(_on_day_of_week(item, day) for item in day_of_week.split(","))
    free = [{"*", "?"} & set(text.split(",")) for text in (day_of_month, day_of_week)]
    return (by_month and by_week) if any(free) else (by_month or by_week)


def matching(expression: str) -> Callable[[datetime], bool]:
    """Whether a local time matches the five fields of an expression."""
    minute, hour, day_of_month, month, day_of_week = expression.split()
    listed = numbers(minute, "minute"), numbers(hour, "hour"), numbers(month, "month")
    return lambda local: (
        local.minute in listed[0]
        and local.hour in listed[1]
        and local.month in listed[2]
        and on_day(day_of_month, day_of_week, local.date())
    )


def walk(
    matches: Callable[[datetime], bool],
    zone: ZoneInfo,
    after: datetime,
    until: datetime,
    *,
    elapsed: bool,
    gap: str,
    overlap: str,
) -> list[datetime]:
    """The fire times by the written rule, looking at the clock at every minute."""
    if elapsed:
        gap, overlap = "skip", "both"
    start = after.replace(second=0, microsecond=0) - 25 * HOUR
    instants = [start + n * MINUTE for n in range((until - start) // MINUTE + 25 * 60)]
    clock = [each.astimezone(zone).replace(tzinfo=None, fold=0) for each in instants]
    last_shown = {local: n for n, local in enumerate(clock)}
    shown: set[datetime] = set()
    found = []
    for n, (instant, local) in enumerate(zip(instants, clock, strict=True)):
        once = {
            "first": local not in shown,
            "second": last_shown[local] == n,
            "both": True,
        }
        due = once[overlap] and matches(local)
        missing = (local - clock[n - 1]) // MINUTE - 1 if n else 0
        if gap == "next" and 0 < missing < 180:
            due |= any(matches(local - each * MINUTE) for each in range(1, missing + 1))
        shown.add(local)
        if due and after < instant <= until:
            found.append(instant)
    return found


def steps(call: Callable[[], object]) -> int:
    """How many functions are called on the way, in Python and in C."""
    count = 0

    def profile(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(before)
    return count


def expressions(names: Sequence[str] = FIVE) -> st.SearchStrategy[str]:
    """Expressions whose fields have lists, ranges, steps, L, W and #."""
    return st.tuples(*map(fields, names)).map(" ".join)


def fields(name: str) -> st.SearchStrategy[str]:
    """One field: free, or a list."""
    return st.one_of(st.just("*"), plain_lists(name), _lists(name))


def plain_lists(name: str) -> st.SearchStrategy[str]:
    """A list of numbers, ranges and steps."""
    return st.lists(_plain_items(name), min_size=1, max_size=3).map(",".join)


def _lists(name: str) -> st.SearchStrategy[str]:
    items = _plain_items(name)
    if name in SPECIAL_DAYS:
        items |= st.sampled_from(SPECIAL_DAYS[name])
    return st.lists(items, min_size=1, max_size=3).map(",".join)


def _plain_items(name: str) -> st.SearchStrategy[str]:
    low, high = BOUNDS[name]
    number = st.integers(low, 7 if name == "day-of-week" else high)
    step = st.integers(1, high - low + 1).map(lambda each: f"/{each}")
    bounds = st.lists(number, min_size=2, max_size=2).map(sorted)
    span = bounds.map(lambda pair: f"{pair[0]}-{pair[1]}")
    start = st.one_of(number.map(str), span, span, st.just("*"))
    return st.one_of(number.map(str), span, st.tuples(start, step).map("".join))


def near_changes() -> st.SearchStrategy[tuple[ZoneInfo, datetime]]:
    """A zone, and an instant some hours from a change of its clocks."""
    return st.tuples(st.sampled_from(CHANGES), st.timedeltas(-12 * HOUR, 4 * HOUR)).map(
        lambda drawn: (
            ZoneInfo(drawn[0][0]),
            datetime.fromisoformat(drawn[0][1]).replace(tzinfo=UTC) + drawn[1],
        )
    )


def _on_day_of_month(item: str, day: date) -> bool:
    length = calendar.monthrange(day.year, day.month)[1]
    if item in ("*", "?"):
        return True
    if item == "L" or item.startswith("L-"):
        return day.day == length - int(item[2:] or 0)
    if item.endswith("W"):
        target = length if item == "LW" else int(item[:-1])
        # Of the workdays of the month, the nearest; Saturday and Sunday have only one.
        workdays = [
            each
            for each in range(1, length + 1)
            if day.replace(day=each).isoweekday() <= 5
        ]
        nearest = min(workdays, key=lambda each: abs(each - target))
        return target <= length and day.day == nearest
    return day.day in numbers(item, "day-of-month")


def _on_day_of_week(item: str, day: date) -> bool:
    if item in ("*", "?"):
        return True
    weekday = day.isoweekday() % 7
    name, hash_sign, nth = item.partition("#")
    if hash_sign:
        return weekday == _weekday(name) and (day.day - 1) // 7 + 1 == int(nth)
    if item.endswith("L"):
        last_week = (day + 7 * DAY).month != day.month
        return weekday == _weekday(item[:-1]) and last_week
    return weekday in numbers(item, "day-of-week")


def _weekday(text: str) -> int:
    name = text.upper()
    return WEEKDAYS.index(name) if name in WEEKDAYS else int(text) % 7
