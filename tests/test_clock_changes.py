"""Living through changes of the clocks: a manual clock runs the loops over them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest

from go_scheduler import MemoryStore, Scheduler, TaskDefinition
from go_scheduler.testing import ManualClock
from go_scheduler.triggers import (
    CronTrigger,
    IntervalTrigger,
    RecurrenceTrigger,
    Trigger,
    parse_phrase,
)

NEW_YORK = "America/New_York"
LORD_HOWE = "Australia/Lord_Howe"
APIA = "Pacific/Apia"
HOUR = timedelta(hours=1)


class Change(NamedTuple):
    """Some days, from a midnight on, in which the clocks of a zone change."""

    zone: str
    first: str
    days: int

    @property
    def start(self) -> datetime:
        local = datetime.fromisoformat(self.first).replace(tzinfo=ZoneInfo(self.zone))
        return local.astimezone(UTC)


SPRING = Change(NEW_YORK, "2024-03-09", 3)
AUTUMN = Change(NEW_YORK, "2024-11-02", 3)
HALF_AN_HOUR = Change(LORD_HOWE, "2024-10-05", 3)
HALF_AN_HOUR_BACK = Change(LORD_HOWE, "2024-04-06", 3)
NO_FRIDAY = Change(APIA, "2011-12-29", 4)

# Of each rule what people read on their clocks when it fires, and the offset from UTC.
LIVES = [
    (
        SPRING,
        CronTrigger("30 2 * * *", NEW_YORK),
        "09 02:30-05 10 03:00-04 11 02:30-04",
    ),
    (
        SPRING,
        RecurrenceTrigger("FREQ=DAILY;BYHOUR=2;BYMINUTE=30;BYSECOND=0", NEW_YORK),
        "09 02:30-05 10 03:00-04 11 02:30-04",
    ),
    (
        SPRING,
        CronTrigger("30 2 * * *", NEW_YORK, gap="skip"),
        "09 02:30-05 11 02:30-04",
    ),
    (SPRING, CronTrigger("0 0 * * *", NEW_YORK), "10 00:00-05 11 00:00-04 12 00:00-04"),
    (
        SPRING,
        CronTrigger("*/30 1-3 10 * *", NEW_YORK),
        "10 01:00-05 10 01:30-05 10 03:00-04 10 03:30-04",
    ),
    (SPRING, CronTrigger("15 2,3 10 * *", NEW_YORK), "10 03:00-04 10 03:15-04"),
    (
        AUTUMN,
        CronTrigger("30 1 * * *", NEW_YORK),
        "02 01:30-04 03 01:30-04 04 01:30-05",
    ),
    (
        AUTUMN,
        CronTrigger("30 1 * * *", NEW_YORK, overlap="second"),
        "02 01:30-04 03 01:30-05 04 01:30-05",
    ),
    (
        AUTUMN,
        RecurrenceTrigger(
            "FREQ=DAILY;BYHOUR=1;BYMINUTE=30;BYSECOND=0", NEW_YORK, overlap="both"
        ),
        "02 01:30-04 03 01:30-04 03 01:30-05 04 01:30-05",
    ),
    (
        AUTUMN,
        CronTrigger("0 0-3 3 * *", NEW_YORK),
        "03 00:00-04 03 01:00-04 03 02:00-05 03 03:00-05",
    ),
    (
        AUTUMN,
        CronTrigger("*/30 1 3 * *", NEW_YORK),
        "03 01:00-04 03 01:30-04 03 01:00-05 03 01:30-05",
    ),
    (
        AUTUMN,
        parse_phrase("every day at 1:30am and 2am", NEW_YORK),
        "02 01:30-04 02 02:00-04 03 01:30-04 03 02:00-05 04 01:30-05 04 02:00-05",
    ),
    (
        HALF_AN_HOUR,
        CronTrigger("15 2 * * *", LORD_HOWE),
        "05 02:15+1030 06 02:30+11 07 02:15+11",
    ),
    (HALF_AN_HOUR, CronTrigger("*/15 2 6 * *", LORD_HOWE), "06 02:30+11 06 02:45+11"),
    (
        HALF_AN_HOUR_BACK,
        CronTrigger("45 1 * * *", LORD_HOWE),
        "06 01:45+11 07 01:45+11 08 01:45+1030",
    ),
    (
        HALF_AN_HOUR_BACK,
        CronTrigger("*/15 1 7 * *", LORD_HOWE),
        "07 01:00+11 07 01:15+11 07 01:30+11 07 01:45+11 07 01:30+1030 07 01:45+1030",
    ),
    (
        NO_FRIDAY,
        CronTrigger("0 12 * * *", APIA),
        "29 12:00-10 31 12:00+14 01 12:00+14 02 12:00+14",
    ),
    (
        NO_FRIDAY,
        RecurrenceTrigger("FREQ=DAILY;BYHOUR=12;BYMINUTE=0;BYSECOND=0", APIA),
        "29 12:00-10 31 12:00+14 01 12:00+14 02 12:00+14",
    ),
    (NO_FRIDAY, CronTrigger("0 12 * * FRI", APIA), ""),
    (
        SPRING,
        IntervalTrigger(12 * HOUR, anchor=SPRING.start + 12 * HOUR),
        "09 12:00-05 10 00:00-05 10 13:00-04 11 01:00-04 11 13:00-04 12 01:00-04",
    ),
]


def shown(instant: datetime, zone: str) -> str:
    local = instant.astimezone(ZoneInfo(zone))
    return f"{local:%d %H:%M%z}".removesuffix("00")


@pytest.mark.filterwarnings("ignore::go_scheduler.ScheduleWarning")
@pytest.mark.parametrize(
    ("change", "trigger", "expected"),
    LIVES,
    ids=lambda value: value.first if isinstance(value, Change) else str(value)[:60],
)
def test_the_loops_fire_what_the_rule_says(
    change: Change, trigger: Trigger, expected: str
) -> None:
    clock = ManualClock(change.start)
    ran: list[str] = []

    def handle(instance: object) -> None:
        ran.append(shown(clock.now(), change.zone))

    scheduler = Scheduler(
        handle,
        MemoryStore(clock),
        schedule_window=HOUR,
        runner_window=HOUR,
        cleanup_window=HOUR,
        lease=HOUR,
        clock=clock,
    )
    with scheduler:
        scheduler.schedule(TaskDefinition(trigger=trigger))
        clock.advance(timedelta(days=change.days) + HOUR / 2)
    assert " ".join(ran) == expected
