"""What no trigger or calendar is made of is refused with the reason."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import ANY
from zoneinfo import ZoneInfo

import pytest

from go_scheduler import triggers
from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers import DateCalendar, DelayTrigger, register_calendar
from go_scheduler.triggers.calendars import MOST_DAYS
from go_scheduler.triggers.compound import MOST_PARTS
from tests.case_tables import json_table
from tests.triggers.combinations import (
    DAILY,
    DAY,
    HOUR,
    LONG,
    MICROSECOND,
    NAIVE,
    NOON,
    NamelessTrigger,
    Unshowable,
    brief,
    listed,
    nested,
)

if TYPE_CHECKING:
    from collections.abc import Callable

CHRISTMAS = date(2030, 12, 25)
TOO_LATE = datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))
TOO_EARLY = datetime.min.replace(tzinfo=ZoneInfo("Asia/Tokyo"))
# Their arguments are wrong on purpose.
t: Any = triggers
UNKNOWN = t.UnknownTrigger("moon", {}, "no such moon")
Cron, Once, Dates = t.CronTrigger, t.ExecuteOnceTrigger, t.DateCalendar
Except, Limited, Only = t.ExceptTrigger, t.LimitedTrigger, t.OnlyTrigger
limited: Any = partial(Limited, DAILY)
cron: Any = partial(Cron, "0 2 * * *")
daily: Any = partial(t.RecurrenceTrigger, "FREQ=DAILY")
hourly: Any = partial(t.IntervalTrigger, HOUR)
named: Any = partial(register_calendar, calendar=DateCalendar([]))
registered: Any = partial(register_calendar, "holidays")

# Those in the table that are given less than they are made of.
MAKERS: dict[str, Callable[..., object]] = {
    "CronTrigger": cron,
    "ExceptTrigger": partial(Except, DAILY),
    "LimitedTrigger": limited,
    "OnlyTrigger": partial(Only, DAILY),
}

REFUSED: list[tuple[Callable[[], object], str]] = [
    *(
        (partial(make, triggers), message)
        for make in (t.AnyOfTrigger, t.AllOfTrigger)
        for triggers, message in (
            ([DAILY] * 101, "must be 1 to 100 triggers, not 101"),
            ([DAILY] * MOST_PARTS, "made of 101 triggers"),
            (DAILY, "must be a list of triggers: CronTrigger"),
            (Unshowable(), "must be a list of triggers: <Unshowable"),
            ([DAILY, "0 9 * * *"], r"triggers\[1\] must be a trigger"),
            ([DelayTrigger(DAY)], "waits for the end of a run"),
            ([UNKNOWN], "no such moon"),
            ([NamelessTrigger()], "needs a `kind` of its own"),
            ([listed(*[NOON] * 3000)], "at most 65536 are kept"),
            ([nested(DAILY, 9), DAILY], "11 deep"),
        )
    ),
    (lambda: Except(None, "tests.june"), "trigger must be a trigger"),
    (lambda: Except(DelayTrigger(DAY), "tests.june"), "waits for the end of a run"),
    (lambda: Except(DAILY, [LONG]), "no calendar is registered as 'xxx"),
    (lambda: Except(DAILY, [CHRISTMAS]), r"exceptions\[0\] must be a trigger"),
    (lambda: Only(None, "tests.june"), "trigger must be a trigger"),
    (lambda: Only(DAILY, DAILY), "must be the name of a calendar"),
    (lambda: Only(DAILY, [DAILY]), "no calendar is registered as CronTrigger"),
    (lambda: limited(start=NAIVE), "start has no time zone"),
    (lambda: limited(end=NAIVE), "end has no time zone"),
    (lambda: limited(start=NOON, end=NOON - MICROSECOND), "is before the start"),
    (lambda: limited(duration=0 * DAY), "duration must be longer than zero"),
    (lambda: limited(start=TOO_EARLY), "range"),
    *(
        (partial(Limited, each, limit=1), "trigger")
        for each in (None, "x", DelayTrigger(DAY), 10**5000)
    ),
    *(
        (partial(Dates, days), message)
        for days, message in (
            (None, "must be a list of dates"),
            ([NOON], "must be dates"),
            ([(CHRISTMAS, NOON)], "must be dates"),
            ([(CHRISTMAS,)], "must be dates"),
            ([(CHRISTMAS, CHRISTMAS - DAY)], "2030-12-25 to 2030-12-24 ends before"),
            ([(date.min, date.max)], "more than the 100,000 allowed"),
            ([(CHRISTMAS, CHRISTMAS + MOST_DAYS * DAY)], "more than the 100,000"),
        )
    ),
    (lambda: t.RuleCalendar("FREQ=DAILY;" * 1000), "text of at most 1000 characters"),
    (lambda: t.RuleCalendar("FREQ=YEARLY;BYDAY=\ud800"), "BYDAY"),
    (
        lambda: t.RuleCalendar(
            "FREQ=MONTHLY;INTERVAL=12;BYMONTHDAY=31", date(2030, 2, 1)
        ),
        "names no day",
    ),
    (lambda: t.RuleCalendar("FREQ=DAILY;UNTIL=20200101", CHRISTMAS), "names no day"),
    *(
        (partial(make, **arguments), message)
        for make in (t.IntervalTrigger, DelayTrigger)
        for arguments, message in (
            ({"every": 0 * DAY}, "every must be longer than zero"),
            ({"every": 999 * MICROSECOND}, "at least a millisecond"),
            ({"every": 3_000_000 * DAY}, "before the year 10000"),
            ({"every": HOUR, "minutes": 5}, "every and minutes= say the same"),
            ({"days": float("nan")}, "so long: days=nan"),
        )
    ),
    *(
        (partial(hourly, **{name: each}), f"^{name} ")
        for name in ("anchor", "anchored_at")
        for each in (NAIVE, "noon", 0)
    ),
    (lambda: DelayTrigger(HOUR, first_at=NAIVE), "first_at has no time zone"),
    (lambda: Once(NAIVE), "fire_at has no time zone"),
    (lambda: Once(CHRISTMAS), "fire_at must be a datetime"),
    (lambda: Once(TOO_LATE), "fire_at is out of range"),
    (lambda: daily(anchored_at=NAIVE), "anchored_at has no time"),
    (lambda: daily(start=NAIVE), "start has no time zone"),
    (
        lambda: t.RecurrenceTrigger("DTSTART:20250101T000000Z\nFREQ=DAILY", start=NOON),
        "starts more than once",
    ),
    (lambda: Cron(5), "must be text"),
    (lambda: Cron(b"* * * * *"), "must be text"),
    (lambda: cron(gap=ANY), "gap must be 'next' or 'skip', not <ANY>"),
    (lambda: cron(overlap="x" * 10_000), "overlap must be"),
    *(
        (partial(cron, timezone=each), message)
        for values, message in (
            ((b"UTC", UTC, ["UTC"]), "timezone must be a name"),
            (("a\0b", "\ud800", "x" * 10_000), "there is no time zone"),
        )
        for each in values
    ),
    *(
        (partial(named, name), "name of a calendar must be")
        for name in ("", "two words", "a\n", "a" * 101, "\ud800", "-a", 5, 10**5000)
    ),
    *(
        (partial(registered, each), "must be a Calendar")
        for each in (None, DateCalendar, Unshowable())
    ),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=brief)
def test_it_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidTriggerError, match=message) as refused:
        make()
    assert len(str(refused.value)) < 700


@pytest.mark.parametrize(("given", "kind", "message"), json_table("triggers/refusals"))
def test_what_can_be_written_as_json_is_refused(
    given: Any, kind: str, message: str
) -> None:
    register_calendar("known", DateCalendar([]))
    make = MAKERS.get(kind) or getattr(t, kind)
    with pytest.raises(InvalidTriggerError, match=message):
        make(**given) if isinstance(given, dict) else make(*given)
