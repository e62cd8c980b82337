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
from go_scheduler.triggers.calendars import DateCalendar, register_calendar
from go_scheduler.triggers.cron import CronTrigger
from go_scheduler.triggers.delay import DelayTrigger
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.interval import IntervalTrigger
from go_scheduler.triggers.phrases import parse_phrase
from go_scheduler.triggers.recurrence import RecurrenceTrigger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.triggers.base import Trigger

CASES = json.loads(
    (Path(__file__).parent / "phrases.json").read_text(encoding="utf-8")
)["cases"]
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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["phrase"])
def test_the_given_phrases_fire_when_they_should(case: dict[str, Any]) -> None:
    after = datetime.fromisoformat(case["start"])
    trigger = parse_phrase(case["phrase"], case["tz"], after)
    for expected in case["expected"]:
        found = trigger.next_fire_time(after)
        assert found == datetime.fromisoformat(expected)
        after = found


# Each with its canonical phrase and the next times from a Wednesday at ten.
MEANINGS = [
    ("every second", "every second", "Wed 2025-01-15 10:00:01"),
    ("every 90s", "every 90 seconds", "Wed 2025-01-15 10:01:30"),
    ("every 5min", "every 5 minutes", "Wed 2025-01-15 10:05:00"),
    ("every 3d at 9am", "every 3 days at 09:00", "Thu 2025-01-16 09:00:00"),
    ("every 2h", "every 2 hours", "Wed 2025-01-15 12:00:00"),
    ("in 2w", "at 2025-01-29 15:00Z", "Wed 2025-01-29 10:00:00", NONE_LEFT),
    ("every half hour", "every 30 minutes", "Wed 2025-01-15 10:30:00"),
    ("every half an hour", "every 30 minutes", "Wed 2025-01-15 10:30:00"),
    ("every 1.5 hours", "every 90 minutes", "Wed 2025-01-15 11:30:00"),
    ("hourly", "every hour", "Wed 2025-01-15 11:00:00"),
    ("every other hour", "every 2 hours", "Wed 2025-01-15 12:00:00"),
    ("every third hour", "every 3 hours", "Wed 2025-01-15 13:00:00"),
    ("each twenty minutes", "every 20 minutes", "Wed 2025-01-15 10:20:00"),
    (
        "every hour on the hour",
        "every hour on the hour",
        "Wed 2025-01-15 11:00:00",
    ),
    (
        "every hour at :15 and :45",
        "every hour at :15 and :45",
        "Wed 2025-01-15 10:15:00",
        "Wed 2025-01-15 10:45:00",
    ),
    (
        "15 minutes past every hour",
        "every hour at :15",
        "Wed 2025-01-15 10:15:00",
    ),
    (
        "every 20 minutes on the clock",
        "every 20 minutes on the clock",
        "Wed 2025-01-15 10:20:00",
    ),
    (
        "every hour on the first monday of every month",
        "every hour on the first monday of every month",
        "Mon 2025-02-03 00:00:00",
    ),
    (
        "every 3 hours on weekdays",
        "every 3 hours on weekdays",
        "Wed 2025-01-15 12:00:00",
    ),
    (
        "every 15 minutes between 9am and 5pm on weekdays",
        "every 15 minutes between 09:00 and 16:45 on weekdays or every weekday at"
        " 17:00",
        "Wed 2025-01-15 10:15:00",
    ),
    ("every second, 2 times", "every second, 2 times", "Wed 2025-01-15 10:00:01"),
    (
        "the first, second and third monday of the month at noon",
        "the first monday, the second monday and the third monday of every month at"
        " 12:00",
        "Mon 2025-01-20 12:00:00",
    ),
    (
        "every day at 9am until 2040-01-01",
        "every day at 09:00 until 2040-01-01 23:59:59.999999",
        "Thu 2025-01-16 09:00:00",
    ),
    (
        "every day at midnight starting tomorrow for 2 days",
        "every day at 00:00 for 48 hours",
        "Thu 2025-01-16 00:00:00",
        "Fri 2025-01-17 00:00:00",
        NONE_LEFT,
    ),
    (
        "every hour starting 2025-02-01 for 2 hours",
        "every hour starting 2025-02-01 05:00Z for 2 hours",
        "Sat 2025-02-01 00:00:00",
        "Sat 2025-02-01 01:00:00",
    ),
    (
        "every 10 minutes starting in 2 hours for 10 minutes",
        "every 10 minutes for 10 minutes",
        "Wed 2025-01-15 12:00:00",
    ),
    (
        "every 2 weeks on monday at 9am starting 2025-03-01 for 4 weeks",
        "every other monday at 09:00 starting 2025-03-01 00:00 for 672 hours",
        "Mon 2025-03-03 09:00:00",
        "Mon 2025-03-17 09:00:00",
        NONE_LEFT,
    ),
    (
        "every 2 weeks on monday at 9am starting 2025-03-05",
        "every other monday at 09:00 starting 2025-03-10 09:00:00",
        "Mon 2025-03-10 09:00:00",
        "Mon 2025-03-24 09:00:00",
    ),
    (
        "(every hour) except (every 2 hours)",
        "(every hour) except (every 2 hours)",
        "Wed 2025-01-15 11:00:00",
        "Wed 2025-01-15 13:00:00",
    ),
    (
        "every 2 hours at :15 between 9am and 1pm",
        "every day at 09:15 and 11:15",
        "Wed 2025-01-15 11:15:00",
        "Thu 2025-01-16 09:15:00",
    ),
    (
        "last day of the year at noon",
        "the last day of december at 12:00",
        "Wed 2025-12-31 12:00:00",
    ),
    (
        "first day of the year at noon",
        "every year on 1 january at 12:00",
        "Thu 2026-01-01 12:00:00",
    ),
    (
        "every 2 months on the second tuesday at 9am",
        "every 2 months on the second tuesday at 09:00",
        "Tue 2025-02-11 09:00:00",
    ),
    (
        "every day at 9am except in august",
        "every day in january to july and september to december at 09:00",
        "Thu 2025-01-16 09:00:00",
    ),
    (
        "every day at 9am starting 1 june",
        "every day at 09:00 from now on",
        "Sun 2025-06-01 09:00:00",
    ),
    (
        "every day at 9am starting in one fortnight",
        "every day at 09:00 from now on",
        "Thu 2025-01-30 09:00:00",
    ),
    (
        "every monday, wednesday, and friday at 9am",
        "every monday, wednesday and friday at 09:00",
        "Fri 2025-01-17 09:00:00",
    ),
    (
        "every day at 9am until friday at 5pm",
        "every day at 09:00 until 2025-01-17 17:00",
        "Thu 2025-01-16 09:00:00",
        "Fri 2025-01-17 09:00:00",
        NONE_LEFT,
    ),
    (
        "every june on mondays at 9am",
        "every monday in june at 09:00",
        "Mon 2025-06-02 09:00:00",
    ),
    (
        "every day at 9am in 2030 to 2032",
        "every day at 09:00 in 2030 to 2032",
        "Tue 2030-01-01 09:00:00",
    ),
    (
        "every day at 9am starting 1 january",
        "every day at 09:00 from now on",
        "Thu 2026-01-01 09:00:00",
    ),
    (
        "every june on the 1st at 9am",
        "every year on 1 june at 09:00",
        "Sun 2025-06-01 09:00:00",
    ),
    (
        "1st to 3rd of the month at 9am",
        "the 1st to 3rd of every month at 09:00",
        "Sat 2025-02-01 09:00:00",
    ),
    (
        "the 20th of every other month at 9am",
        "every 2 months on the 20th at 09:00",
        "Mon 2025-01-20 09:00:00",
    ),
    (
        "the first of june 2030 at 9am",
        "at 2030-06-01 13:00Z",
        "Sat 2030-06-01 09:00:00",
    ),
    (
        "every day at 9am from june to august",
        "every day in june to august at 09:00",
        "Sun 2025-06-01 09:00:00",
    ),
    (
        "every day at 9am in june and august to september",
        "every day in june, august and september at 09:00",
        "Sun 2025-06-01 09:00:00",
    ),
    (
        "every day at 9am in 2030 and 2032",
        "every day at 09:00 in 2030 and 2032",
        "Tue 2030-01-01 09:00:00",
    ),
    (
        "every 15 minutes between 9:15 and 10:45 on weekdays",
        "every weekday at 09:15, 09:30 and 09:45 or every 15 minutes between 10:00 and"
        " 10:45 on weekdays",
        "Wed 2025-01-15 10:15:00",
        "Wed 2025-01-15 10:30:00",
    ),
    (
        "every 5 hours between 22:00 and 1:00",
        "every day at 22:00",
        "Wed 2025-01-15 22:00:00",
    ),
    (
        "every 15 minutes from 9am to 4:45pm, monday to friday",
        "every 15 minutes between 09:00 and 16:45 on weekdays",
        "Wed 2025-01-15 10:15:00",
    ),
    (
        "every 10 seconds between 9am and 9:59:50 on mondays",
        "every 10 seconds between 09:00 and 09:59:50 on mondays",
        "Mon 2025-01-20 09:00:00",
        "Mon 2025-01-20 09:00:10",
    ),
    (
        "every 10 minutes between 10pm and 0:50",
        "every 10 minutes between 22:00 and 23:50 or every 10 minutes between 00:00 and"
        " 00:50",
        "Wed 2025-01-15 22:00:00",
    ),
    ("daily at noon", "every day at 12:00", "Wed 2025-01-15 12:00:00"),
    ("every day at midnight", "every day at 00:00", "Thu 2025-01-16 00:00:00"),
    ("every evening at 7", "every day at 19:00", "Wed 2025-01-15 19:00:00"),
    ("every night at 2", "every day at 02:00", "Thu 2025-01-16 02:00:00"),
    ("at 7 in the morning every day", "every day at 07:00", "Thu 2025-01-16 07:00:00"),
    (
        "every day at 8:15 and 12:30",
        "every day at 08:15 or every day at 12:30",
        "Wed 2025-01-15 12:30:00",
        "Thu 2025-01-16 08:15:00",
    ),
    (
        "every day at 9:30:15pm",
        "every day at 21:30:15",
        "Wed 2025-01-15 21:30:15",
    ),
    (
        "Mon, Wed, Fri at 10:00",
        "every monday, wednesday and friday at 10:00",
        "Fri 2025-01-17 10:00:00",
    ),
    (
        "tuesdays and thursdays at 3.30pm",
        "every tuesday and thursday at 15:30",
        "Thu 2025-01-16 15:30:00",
    ),
    (
        "every monday in june to august at 9am",
        "every monday in june to august at 09:00",
        "Mon 2025-06-02 09:00:00",
    ),
    (
        "first and third monday of the month at noon",
        "the first monday and the third monday of every month at 12:00",
        "Mon 2025-01-20 12:00:00",
        "Mon 2025-02-03 12:00:00",
    ),
    (
        "on the last day of the month at 23:59",
        "the last day of every month at 23:59",
        "Fri 2025-01-31 23:59:00",
    ),
    (
        "every month on the 1st and 15th at 9am",
        "the 1st and 15th of every month at 09:00",
        "Sat 2025-02-01 09:00:00",
    ),
    (
        "the last weekday of every month at 18:00",
        "the last weekday of every month at 18:00",
        "Fri 2025-01-31 18:00:00",
    ),
    (
        "the second weekday of every month at 18:00",
        "the second weekday of every month at 18:00",
        "Tue 2025-02-04 18:00:00",
    ),
    (
        "every last friday of the month at 17:00",
        "the last friday of every month at 17:00",
        "Fri 2025-01-31 17:00:00",
    ),
    (
        "yearly on the first monday of september at 9am",
        "the first monday of september at 09:00",
        "Mon 2025-09-01 09:00:00",
    ),
    (
        "every december 25th at 8am",
        "every year on 25 december at 08:00",
        "Thu 2025-12-25 08:00:00",
    ),
    (
        "every 4th of july at noon",
        "every year on 4 july at 12:00",
        "Fri 2025-07-04 12:00:00",
    ),
    (
        "every 3 months on the 20th at 9am",
        "every 3 months on the 20th at 09:00",
        "Mon 2025-01-20 09:00:00",
        "Sun 2025-04-20 09:00:00",
    ),
    (
        "the 20th of every third month at 9am",
        "every 3 months on the 20th at 09:00",
        "Mon 2025-01-20 09:00:00",
        "Sun 2025-04-20 09:00:00",
    ),
    (
        "every other week on monday and friday at 9am",
        "every 2 weeks on monday and friday at 09:00",
        "Fri 2025-01-17 09:00:00",
        "Mon 2025-01-27 09:00:00",
    ),
    (
        "fortnightly on tuesday at 10am",
        "every other tuesday at 10:00",
        "Tue 2025-01-21 10:00:00",
        "Tue 2025-02-04 10:00:00",
    ),
    (
        "every other day at midnight",
        "every 2 days at 00:00",
        "Thu 2025-01-16 00:00:00",
        "Sat 2025-01-18 00:00:00",
    ),
    (
        "every 2 years on 29 february at 9am",
        "every 2 years on 29 february at 09:00",
        "Tue 2028-02-29 09:00:00",
    ),
    (
        "every day at 9am except on weekends",
        "every weekday at 09:00",
        "Thu 2025-01-16 09:00:00",
    ),
    (
        "every hour except on mondays to fridays",
        "every hour on weekends",
        "Sat 2025-01-18 00:00:00",
    ),
    (
        "every weekday at 9am except on test-holidays",
        "every weekday at 09:00 except on test-holidays",
        "Thu 2025-01-16 09:00:00",
        "Fri 2025-01-17 09:00:00",
        "Tue 2025-01-21 09:00:00",
    ),
    (
        "every day at 9am on days of test-holidays",
        "every day at 09:00 only on test-holidays",
        "Mon 2025-01-20 09:00:00",
        NONE_LEFT,
    ),
    (
        "the first of every month at 9am except in february",
        "the 1st of every month at 09:00 except (every second in february)",
        "Sat 2025-03-01 09:00:00",
    ),
    (
        "every 2 hours starting 2025-03-01 09:00",
        "every 2 hours starting 2025-03-01 14:00Z",
        "Sat 2025-03-01 09:00:00",
        "Sat 2025-03-01 11:00:00",
    ),
    ("every 2 hours starting at 9am", "every 2 hours", "Thu 2025-01-16 09:00:00"),
    (
        "every day at 9am from 2025-02-01 to 2025-02-02",
        "every day at 09:00 starting 2025-02-01 00:00 until 2025-02-02 23:59:59.999999",
        "Sat 2025-02-01 09:00:00",
        "Sun 2025-02-02 09:00:00",
        NONE_LEFT,
    ),
    (
        "every day at 9am until friday",
        "every day at 09:00 until 2025-01-17 23:59:59.999999",
        "Thu 2025-01-16 09:00:00",
        "Fri 2025-01-17 09:00:00",
        NONE_LEFT,
    ),
    (
        "every day at 9am for 2 days",
        "every day at 09:00 for 48 hours",
        "Thu 2025-01-16 09:00:00",
        "Fri 2025-01-17 09:00:00",
        NONE_LEFT,
    ),
    (
        "every hour, 2 times",
        "every hour, 2 times",
        "Wed 2025-01-15 11:00:00",
        "Wed 2025-01-15 12:00:00",
        NONE_LEFT,
    ),
    (
        "every day at 9am starting tomorrow",
        "every day at 09:00 from now on",
        "Thu 2025-01-16 09:00:00",
    ),
    (
        "every day at 9am starting on monday, once",
        "every day at 09:00, once",
        "Mon 2025-01-20 09:00:00",
        NONE_LEFT,
    ),
    (
        "every weekday at 9am or every sunday at noon",
        "every weekday at 09:00 or every sunday at 12:00",
        "Thu 2025-01-16 09:00:00",
    ),
    (
        "(every monday at 9am or every tuesday at 9am) until 2025-01-20",
        "(every monday at 09:00 or every tuesday at 09:00) until"
        " 2025-01-20 23:59:59.999999",
        "Mon 2025-01-20 09:00:00",
        NONE_LEFT,
    ),
    (
        "whenever both every hour on the hour and every day at 9am and 9:30",
        "whenever both every hour on the hour and every day at 09:00 and 09:30",
        "Thu 2025-01-16 09:00:00",
    ),
    (
        "whenever all of every hour, every 2 hours and (every monday at noon)",
        "whenever all of every hour, every 2 hours and every monday at 12:00",
        "Mon 2025-01-20 12:00:00",
    ),
    (
        "every day at 9am in 2030",
        "every day at 09:00 in 2030",
        "Tue 2030-01-01 09:00:00",
    ),
    ("tomorrow at 3pm", "at 2025-01-16 20:00Z", "Thu 2025-01-16 15:00:00", NONE_LEFT),
    ("this friday at 17:00", "at 2025-01-17 22:00Z", "Fri 2025-01-17 17:00:00"),
    ("in 20 minutes", "at 2025-01-15 15:20Z", "Wed 2025-01-15 10:20:00", NONE_LEFT),
    ("in half an hour", "at 2025-01-15 15:30Z", "Wed 2025-01-15 10:30:00"),
    ("in 2 months", "at 2025-03-15 14:00Z", "Sat 2025-03-15 10:00:00"),
    ("in 3 days at 9am", "at 2025-01-18 14:00Z", "Sat 2025-01-18 09:00:00"),
    ("june 1st 2030 at 9am", "at 2030-06-01 13:00Z", "Sat 2030-06-01 09:00:00"),
    ("2030-06-01T09:00:00Z", "at 2030-06-01 09:00Z", "Sat 2030-06-01 05:00:00"),
    ("2030-06-01 at 9am", "at 2030-06-01 13:00Z", "Sat 2030-06-01 09:00:00"),
    (
        "5 minutes after each run",
        "5 minutes after each run",
        "Wed 2025-01-15 10:05:00",
    ),
]


@pytest.mark.parametrize("meaning", MEANINGS, ids=lambda meaning: meaning[0])
def test_a_phrase_means_what_people_mean(meaning: Sequence[str]) -> None:
    text, canonical, *times = meaning
    trigger = parse(text)
    assert trigger.describe() == canonical
    assert next_times(trigger, len(times))[: len(times)] == times


@pytest.mark.parametrize(
    "text", [*(case["phrase"] for case in CASES), *(each[0] for each in MEANINGS)]
)
def test_the_canonical_phrase_makes_an_equal_trigger_at_any_time(text: str) -> None:
    trigger = parse(text)
    again = parse(trigger.describe(), NOW + timedelta(hours=3))
    assert again == trigger
    assert again.describe() == trigger.describe()


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


# Each with a part of the message.
REFUSED = [
    ("", "it is empty"),
    ("monday to monday", '"monday to monday" is one day: write'),
    (" \t\n", "it is empty"),
    ("*/5 * * * *", "it is a cron expression: use CronTrigger"),
    ("0 9 1 1 1", "it is a cron expression: use CronTrigger, --cron on the"),
    ("@daily", "it is a cron expression"),
    ("blah", '"blah" does not fit there'),
    ("every", "it ends too early"),
    ("every foo", "understood so far: 'every'"),
    ("every 5", "expected a unit such as minutes"),
    ("every day at 9", "write '09:00' or '21:00'"),
    ("weekdays at 12", "write '00:00' or '12:00'"),
    ("every day at 17", "write '17:00'"),
    ("every day at 25:00", '"25:00" does not exist'),
    ("every day at 9:60", '"9:60" does not exist'),
    ("every day at 13pm", "hour 13 is not in 1–12"),
    ("every day at 0am", "hour 0 is not in 1–12"),
    ("every day at 9:00:61", "does not exist"),
    ("every day", "at what time"),
    ("every tuesday", "at what time"),
    ("tuesdays", "at what time"),
    ("every week", "on which day of the week"),
    ("every week at 9am", "on which day of the week"),
    ("every month at 9am", "on which day of the month"),
    ("every year at 9am", "on which day of the year"),
    ("every 2 weeks at 9am", "on which day of the week"),
    ("at 3pm", "on which days"),
    ("noon", "on which days"),
    ("friday at 5pm", "write 'every friday' or 'this friday'"),
    ("on fri at 5pm", "write 'every fri' or 'this fri'"),
    (
        "25 december at 8am",
        "write 'every year on 25 december' or '25 december 2030'",
    ),
    ("every 5m", "write 'minutes' or 'months'"),
    ("every other weekday at 9am", "every monday, wednesday and friday"),
    ("every second tuesday at 9am", "every 2 weeks on tuesday"),
    ("biweekly on monday at 9am", "write 'every 2 weeks' or 'twice a week"),
    ("bimonthly on the 1st at 9am", "'every 2 months'"),
    ("next friday at 9am", "write 'this friday' or"),
    ("1/2/2030 at 9am", "day first or month first"),
    ("1/2 at 9am", "day first or month first"),
    ("01.02.2030 at 9am", "day first or month first"),
    ("every morning at 7pm", "19:00 is not in the morning"),
    ("every night at 12pm", "12:00 is not in the night"),
    ("every afternoon at 9", "9 is not in the afternoon"),
    ("every monday and the 15th at 9am", '"15th" does not fit there'),
    ("every monday at 9am and friday at 10am", "joined by 'or'"),
    ("every monday at 9am at 10am", "it says twice at what time"),
    ("every 5 minutes every 6 minutes", "it says twice how often"),
    ("mondays on tuesdays at 9am", "it says twice on which days of the week"),
    ("every 0 minutes", "no length of time"),
    ("every 2 days on the first weekday of june at 9am", "do not go with every"),
    ("second month", "write 'every'"),
    ("every 25 december 2025 at 9am", "with its year comes once"),
    ("every weekday at 9am except 25 december 2025", "with its year comes once"),
    ("every 15th at 9am", "write 'every 15 days' or"),
    ("every monday at 9am except mondays in june", "after an exception"),
    ("in 20 minutes at 9am", "when it counts in hours"),
    ("every hour until 5pm on weekdays", "until 17:00"),
    ("every hour on monday starting at 5pm", "starting 17:00"),
    ("first weekend of the month at noon", "the first saturday of the month"),
    ("(" * 21 + "every hour" + ")" * 21, "more than 20 brackets"),
    ("0001-01-01 at noon", "years 1 to 9999"),
    ("at 9999-12-31T23:59-14:00", "years 1 to 9999"),
    ("every day at noon in 2100 to 2000", "run backwards"),
    ("0th of the month at noon", "begin with the first"),
    ("every 2 hours 30 minutes", "write it as another phrase"),
    ("today at 9am", "that time has passed"),
    ("every 25 december in june at 9am", "twice in which months"),
    ("every 2 years on 25 december and 1 january at 9am", "with its own 'or'"),
    ("first weekday and second monday of the month at 9am", "several kinds of days"),
    ("every day at 9am until weekdays", "on one day"),
    ("every day at 9am starting 31 june", "does not exist"),
    ("in 1.5 months", "counted whole"),
    ("at 75 minutes past every hour", "is no minute of the hour"),
    ("at 5 seconds past every hour", "only minutes past the hour"),
    ("every hour on the second weekday of the month", "only go with times of day"),
    (
        "every 7 minutes between 0:00 and 23:59 on 1 june, 2 june, 3 june, 4 june and"
        " 5 june every year",
        "too many different times",
    ),
    ("every 2 weeks on monday at 9am in 2030", "the years only go with"),
    ("every day at 9 o'clock", "write '09:00' or '21:00'"),
    ("every day at 99", "99 is no hour"),
    ("second hour of the month at 9am", "is no kind of day"),
    ("every 0 days at 9am", "from 1 on"),
    ("every 1.5 days at 9am", "counted whole"),
    ("every -5 minutes", '"-" does not fit there'),
    ("every 999999999999999999 hours", "no length of time"),
    ("every 5 minutes at 9am", "how often within a day, and at what time"),
    ("every 7 minutes on mondays", "does not come out even"),
    ("every 7 seconds between 9am and 10am", "seconds that divide a minute"),
    ("every 90 seconds between 9am and 10am", "whole minutes"),
    ("every 250 ms on mondays", "whole seconds"),
    ("every hour between 9am and 9am", "nothing is between"),
    ("every hour between 9 and 5", "write '09:00' or '21:00'"),
    ("every 5 minutes between 10pm and 6am on mondays", "past midnight"),
    ("every 5 hours at :15", "minutes past the hour"),
    ("every hour at :15 between 9:20 and 9:50", "none of its minutes"),
    ("every day at 9am between 8am and 10am", "between which times"),
    ("every weekday at 9am except on weekdays", "leave nothing"),
    ("every day at 9am except on no-such-calendar", "no-such-calendar"),
    ("every day at 9am except", "it ends too early"),
    ("every 31 june at 9am", "never fires"),
    ("every 30 february at 9am", "does not exist"),
    ("31 june 2030 at 9am", "2030-06-31 does not exist"),
    ("2030-02-30 at 9am", '"2030-02-30" does not exist'),
    ("2030-02-30T09:00Z", "does not exist"),
    ("sixth monday of the month at 9am", "no month has 6"),
    ("first day of the week at 9am", "on which day of the week"),
    ("100th day of the year at 9am", "of which month"),
    ("5th to 1st of the month at 9am", "runs backwards"),
    ("weekday to sunday at 9am", 'begin or end with "weekday"'),
    ("today", "at what time"),
    ("tomorrow every day at 9am", "it cannot say how often once"),
    ("in 20 minutes every hour", "it cannot say how often once"),
    ("every day at 9am until yesterday", '"yesterday" does not fit there'),
    ("every 1000000000 years on 1 june at 9am", "is too long"),
    ("every day at 9am starting tomorrow until 2025-01-15", "within its bounds"),
    ("every day at 9am from 2030-01-02 to 2030-01-01", "end"),
    ("every day at 9am starting wednesday", "write 'today' or '2025-01-22'"),
    ("every day at 9am 0 times", "limit"),
    ("every day at 9am for 2 months", "count in days"),
    ("in 999999 years", "beyond the year 9999"),
    ("5 minutes after each run except on mondays", "what it leaves out"),
    ("2030-06-01 at 9am except on mondays", "what it leaves out"),
    ("5 minutes after each run until friday", "it cannot say when it ends"),
    ("every day at 9am or", "it ends too early"),
    ("(every day at 9am", "it ends too early"),
    ("every day at 9am)", '")" does not fit there'),
    ("every day at 9am; drop table", '"drop" does not fit there'),
    ("每天9点", "does not fit there"),
    ("every day at 9am \N{PILE OF POO}", "is no part of a phrase"),
    ("every day at \N{ARABIC-INDIC DIGIT NINE}am", "phrase"),
    ("every\x00day", "is no part of a phrase"),
    ("\ud800", "is no part of a phrase"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_is_unclear_or_no_phrase_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidTriggerError) as refused:
        parse(text)
    assert message in str(refused.value)
    assert str(refused.value).startswith("phrase ")


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


def test_steps_may_be_bound_to_months() -> None:
    trigger = parse("every 2 weeks on monday in june at 9am")
    assert next_times(trigger, 2) == [
        "Mon 2025-06-02 09:00:00",
        "Mon 2025-06-16 09:00:00",
    ]


def test_steps_may_have_exceptions() -> None:
    trigger = parse("every 2 days at 9am except on fridays")
    assert next_times(trigger, 2) == [
        "Thu 2025-01-16 09:00:00",
        "Sat 2025-01-18 09:00:00",
    ]


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


def test_a_one_off_in_a_gap_is_at_its_end() -> None:
    trigger = parse("2030-03-10 at 2:30am")
    assert next_times(trigger, 1) == ["Sun 2030-03-10 03:00:00"]


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


@pytest.mark.parametrize("times", ["9am", "9am, 17:30", "noon, 6:15pm, midnight"])
@pytest.mark.parametrize(
    "step",
    [
        *("2 days", "3 weeks on monday and friday", "other tuesday"),
        *("2 months on the 1st and 15th", "2 years on 25 december"),
    ],
)
@pytest.mark.parametrize("start", ["2026-02-01", "2026-02-03 10:00"])
def test_steps_at_several_times_describe_themselves(
    step: str, times: str, start: str
) -> None:
    trigger = parse(f"every {step} at {times} starting {start}")
    again = parse(trigger.describe())
    assert again == trigger
    assert again.describe() == trigger.describe()
    assert next_times(again, 9) == next_times(trigger, 9)


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


class TestParsed(TriggerSuite):
    """What phrases make keeps the laws of triggers."""

    @pytest.fixture(
        params=[
            "every other tuesday at 9:34am",
            "every 15 minutes between 9am and 5pm on weekdays",
            "every day at 2:30am starting tomorrow until 2031-01-01, 100 times",
        ]
    )
    def trigger(self, request: pytest.FixtureRequest) -> Trigger:
        return parse(request.param)
