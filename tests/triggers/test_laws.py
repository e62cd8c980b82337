"""Each trigger of the package, and those of users, keep the laws of triggers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

import pytest

from go_scheduler.testing.triggers import TriggerSuite
from go_scheduler.triggers import (
    AllOfTrigger,
    AnyOfTrigger,
    CronTrigger,
    DelayTrigger,
    ExceptTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    LimitedTrigger,
    OnDemandTrigger,
    OnlyTrigger,
    RecurrenceTrigger,
    Trigger,
    parse_phrase,
)
from tests.triggers.combinations import (
    BEGINNING,
    DAILY,
    DAY,
    END,
    HOUR,
    HOURLY,
    NOON,
    SECOND,
    brief,
    listed,
)
from tests.triggers.test_wall_clock import DailyTrigger

FEBRUARY = datetime(2024, 2, 1, tzinfo=UTC)
NEW_YORK = "America/New_York"
Cron, Rule = CronTrigger, RecurrenceTrigger
phrase = partial(parse_phrase, timezone=NEW_YORK, now=NOON)

TRIGGERS: list[Trigger] = [
    ExecuteOnceTrigger(NOON),
    ExecuteOnceTrigger(datetime(1965, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
    DelayTrigger(timedelta(minutes=5, microseconds=1)),
    OnDemandTrigger(),
    IntervalTrigger(DAY + SECOND),
    IntervalTrigger(timedelta(minutes=7), NOON),
    IntervalTrigger(SECOND / 1000, datetime(1901, 1, 1, tzinfo=UTC)),
    Cron("*/10 * * * *"),
    Cron("30 2 * * *", NEW_YORK),
    Cron("30 1,2 * * *", NEW_YORK, gap="skip", overlap="both"),
    Cron("0 2 LW * *", "Europe/Berlin", overlap="second"),
    Cron("*/20 1,2 29 feb mon-fri", "Australia/Lord_Howe"),
    Cron("@yearly", "Pacific/Apia"),
    Cron("0 0 * * fri#5", "Africa/Cairo", gap="skip"),
    Cron("59 59 */6 1w * ? 2000/4", "America/Santiago", overlap="second"),
    Cron("* * * * * * *", "Asia/Kathmandu"),
    Cron("0,30 2-3 * * *", "Africa/Casablanca", overlap="both"),
    Cron("0 30 2 10 3 ? 2024", NEW_YORK),
    Rule("FREQ=DAILY;BYHOUR=2;BYMINUTE=30;BYSECOND=0", NEW_YORK),
    Rule("FREQ=MINUTELY;INTERVAL=7", "Europe/Berlin"),
    Rule("FREQ=HOURLY", "Australia/Lord_Howe"),
    Rule("FREQ=WEEKLY;INTERVAL=2;BYDAY=FR,SU;BYHOUR=0", "Pacific/Apia"),
    Rule("FREQ=MONTHLY;BYDAY=-1TH,-1FR;BYHOUR=0,1;BYMINUTE=0,15", "Africa/Cairo"),
    Rule("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=1,-1", "America/Santiago"),
    Rule("FREQ=SECONDLY;INTERVAL=100;BYDAY=MO;BYHOUR=3", "Asia/Kathmandu"),
    Rule("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "Africa/Casablanca"),
    Rule(
        "DTSTART;TZID=Europe/Berlin:20200101T023000\n"
        "RRULE:FREQ=WEEKLY;COUNT=500\nRRULE:FREQ=HOURLY;COUNT=100\n"
        "RDATE:20240310T065959Z\nEXDATE;VALUE=DATE:20200108"
    ),
    Rule("DTSTART:20240101T000000Z\nRRULE:FREQ=DAILY;UNTIL=20240601"),
    Rule("RDATE:20240310T070000Z,20500101T000000Z", NEW_YORK),
    AnyOfTrigger([Cron("30 1 * * 1-5"), DAILY, ExecuteOnceTrigger(NOON)]),
    AnyOfTrigger([IntervalTrigger(7 * HOUR), AnyOfTrigger([HOURLY])]),
    AnyOfTrigger([listed(NOON, NOON + DAY), LimitedTrigger(DAILY, end=NOON)]),
    AnyOfTrigger([ExecuteOnceTrigger(NOON)]),
    AllOfTrigger([Cron("*/20 * * * *"), Cron("*/15 9-17 * * 1-5")]),
    AllOfTrigger([IntervalTrigger(36 * HOUR, NOON), IntervalTrigger(25 * HOUR, NOON)]),
    AllOfTrigger([AnyOfTrigger([DAILY, HOURLY]), OnlyTrigger(HOURLY, "tests.june")]),
    AllOfTrigger([ExecuteOnceTrigger(NOON), Cron("0 12 * * *")]),
    ExceptTrigger(DAILY, "tests.weekends"),
    ExceptTrigger(HOURLY, ["tests.weekends", DAILY, "tests.june"], "Pacific/Apia"),
    ExceptTrigger(IntervalTrigger(11 * HOUR), [DAILY], ZoneInfo("Asia/Tokyo")),
    ExceptTrigger(listed(NOON, NOON + DAY, NOON + 9 * DAY), "tests.weekends"),
    ExceptTrigger(ExecuteOnceTrigger(NOON), "tests.may-2030"),
    ExceptTrigger(AllOfTrigger([HOURLY, DAILY]), [IntervalTrigger(3 * DAY)]),
    OnlyTrigger(DAILY, "tests.weekends"),
    OnlyTrigger(IntervalTrigger(5 * HOUR), ["tests.june", "tests.weekends"]),
    OnlyTrigger(ExceptTrigger(HOURLY, "tests.weekends"), "tests.june", "Pacific/Apia"),
    OnlyTrigger(ExecuteOnceTrigger(NOON), "tests.june"),
    LimitedTrigger(DAILY, limit=3),
    LimitedTrigger(DAILY, limit=1),
    LimitedTrigger(DAILY, start=FEBRUARY, limit=40),
    LimitedTrigger(IntervalTrigger(7 * HOUR), start=FEBRUARY, end=NOON),
    LimitedTrigger(IntervalTrigger(7 * HOUR), limit=5),
    LimitedTrigger(listed(NOON, NOON + DAY), limit=1, start=NOON),
    LimitedTrigger(ExceptTrigger(HOURLY, "tests.june"), end=NOON, limit=4),
    LimitedTrigger(ExecuteOnceTrigger(NOON), start=NOON),
    LimitedTrigger(DAILY, start=BEGINNING, end=END, limit=9),
    LimitedTrigger(DAILY, duration=30 * DAY, limit=9),
    LimitedTrigger(DAILY),
    DailyTrigger(2),
    DailyTrigger(1, gap="skip", overlap="both"),
    DailyTrigger(1, "Australia/Lord_Howe", overlap="second"),
    phrase("every other tuesday at 9:34am"),
    phrase("every 15 minutes between 9am and 5pm on weekdays"),
    phrase("every day at 2:30am starting tomorrow until 2031-01-01, 100 times"),
]


class TestLaws(TriggerSuite):
    @pytest.fixture(params=TRIGGERS, ids=brief)
    def trigger(self, request: pytest.FixtureRequest) -> Trigger:
        trigger: Trigger = request.param
        return trigger
