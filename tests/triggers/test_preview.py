from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import ClassVar

import pytest

from go_scheduler import ConfigurationError, InvalidTriggerError
from go_scheduler.triggers import (
    AnyOfTrigger,
    CronTrigger,
    DateCalendar,
    DelayTrigger,
    ExceptTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    LimitedTrigger,
    RecurrenceTrigger,
    Trigger,
    explain,
    preview,
    register_calendar,
)

NEW_YORK = "America/New_York"
FRIDAY = datetime(2024, 3, 8, 12, tzinfo=UTC)
IN_AUTUMN = datetime(2024, 11, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


class BackwardTrigger(Trigger):
    kind: ClassVar[str] = "tests.backward"

    def next_fire_time(self, after: datetime) -> datetime | None:
        return after - HOUR


def lines(trigger: Trigger, after: datetime, n: int = 3) -> list[str]:
    return [str(each) for each in preview(trigger, n, after)]


def test_an_overlap_is_marked() -> None:
    assert lines(CronTrigger("*/30 1 3 * *", NEW_YORK), IN_AUTUMN, 4) == [
        "Sun 2024-11-03 01:00:00-04:00  (the first of two 01:00)",
        "Sun 2024-11-03 01:30:00-04:00  (the first of two 01:30)",
        "Sun 2024-11-03 01:00:00-05:00  (the second of two 01:00)",
        "Sun 2024-11-03 01:30:00-05:00  (the second of two 01:30)",
    ]


def test_what_happens_to_a_part_is_marked() -> None:
    register_calendar("preview-holidays", DateCalendar([date(2024, 3, 9)]))
    rule = RecurrenceTrigger("FREQ=DAILY;BYHOUR=2;BYMINUTE=30;BYSECOND=0", NEW_YORK)
    trigger = LimitedTrigger(
        ExceptTrigger(
            AnyOfTrigger([rule, CronTrigger("0 12 * * *", NEW_YORK)]),
            "preview-holidays",
        ),
        limit=2,
    )
    assert lines(trigger, FRIDAY + 6 * HOUR) == [
        "Sun 2024-03-10 03:00:00-04:00  (02:30 does not exist that day)",
        "Sun 2024-03-10 12:00:00-04:00",
    ]


def test_times_are_shown_in_the_zone_that_is_asked_for() -> None:
    hourly = IntervalTrigger(HOUR)
    assert lines(hourly, FRIDAY, 1) == ["Fri 2024-03-08 13:00:00+00:00"]
    [time] = preview(hourly, 1, FRIDAY, timezone="Asia/Kathmandu")
    assert str(time) == "Fri 2024-03-08 18:45:00+05:45"
    assert time.at == FRIDAY + HOUR
    assert time.effect is None


def test_there_may_be_fewer_times_than_asked_for() -> None:
    once = ExecuteOnceTrigger(FRIDAY + HOUR)
    assert [each.at for each in preview(once, 5, FRIDAY)] == [FRIDAY + HOUR]
    assert preview(once, 5, FRIDAY + HOUR) == []
    # The others count from the ends of runs that nobody knows.
    assert len(preview(DelayTrigger(HOUR), 5, FRIDAY)) == 1


@pytest.mark.parametrize(
    ("at", "zone"),
    [
        (datetime(9999, 12, 31, 22, tzinfo=UTC), "Asia/Kolkata"),
        (datetime(1, 1, 1, 2, tzinfo=UTC), "America/Denver"),
    ],
)
def test_what_no_clock_of_the_zone_can_show_is_shown_in_utc(
    at: datetime, zone: str
) -> None:
    found = preview(ExecuteOnceTrigger(at), 1, at - HOUR, timezone=zone)
    assert [each.at for each in found] == [at]
    assert found[0].at.tzinfo is UTC


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("daily", 1, FRIDAY), "trigger must be a trigger"),
        ((IntervalTrigger(HOUR), 0, FRIDAY), "n must be"),
        ((IntervalTrigger(HOUR), 10_001, FRIDAY), "n must be"),
        ((IntervalTrigger(HOUR), True, FRIDAY), "n must be"),
        ((IntervalTrigger(HOUR), 1, FRIDAY.replace(tzinfo=None)), "after has no"),
        ((IntervalTrigger(HOUR), 1, None), "after must be a datetime"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: tuple[Trigger, int, datetime], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        preview(*arguments)


def test_a_zone_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidTriggerError, match="no time zone 'Mars'"):
        preview(IntervalTrigger(HOUR), 1, FRIDAY, timezone="Mars")


def test_a_trigger_that_misbehaves_is_named() -> None:
    with pytest.raises(InvalidTriggerError, match=r"BackwardTrigger.*not later"):
        preview(BackwardTrigger(), 1, FRIDAY)


def test_an_explanation_has_the_phrase_the_times_and_what_to_beware_of() -> None:
    first, *rest = explain(CronTrigger("*/7 2 * * *", NEW_YORK), FRIDAY).splitlines()
    assert first.endswith(", in America/New_York")
    assert rest[:5] == [
        f"  {each}" for each in preview(CronTrigger("*/7 2 * * *", NEW_YORK), 5, FRIDAY)
    ]
    [beware] = rest[5:]
    assert beware.startswith("beware: ")
    assert "*/7" in beware


def test_an_explanation_says_never() -> None:
    gone = ExecuteOnceTrigger(FRIDAY - HOUR)
    assert explain(gone, FRIDAY) == "at 2024-03-08 11:00Z, in UTC\n  never"
