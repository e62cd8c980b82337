"""Time zones are known by their names; a new process goes by new data."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers import (
    AllOfTrigger,
    AnyOfTrigger,
    CronTrigger,
    DateCalendar,
    ExceptTrigger,
    LimitedTrigger,
    OnlyTrigger,
    RecurrenceTrigger,
    Trigger,
    local_time,
    preview,
    register_calendar,
)
from go_scheduler.triggers.local_time import load_zone, zone_changes
from tests.triggers.cron_oracle import MICROSECOND, fire_times
from tests.zones import ZONE, Zones, zones_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JUNE = datetime(2030, 6, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = 24 * HOUR


@pytest.fixture
def zones(tmp_path: Path) -> Iterator[Zones]:
    with zones_in(tmp_path) as zones:
        zones.write(then=1)
        yield zones


def daily() -> CronTrigger:
    return CronTrigger("0 9 * * *", ZONE)


def rule() -> RecurrenceTrigger:
    text = "FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0"
    return RecurrenceTrigger(text, ZONE, start=datetime(2030, 1, 1, tzinfo=UTC))


def hourly_but_at_nine() -> ExceptTrigger:
    hours = ",".join(str(hour) for hour in range(24) if hour != 9)
    return ExceptTrigger(
        CronTrigger("0 0-23 * * *", ZONE), CronTrigger(f"0 {hours} * * *", ZONE)
    )


def on_the_days_of_a_calendar() -> OnlyTrigger:
    register_calendar(
        "test-zones", DateCalendar([(date(2030, 1, 1), date(2031, 1, 1))])
    )
    return OnlyTrigger(daily(), "test-zones")


TRIGGERS = [
    daily,
    rule,
    hourly_but_at_nine,
    on_the_days_of_a_calendar,
    lambda: AnyOfTrigger([daily(), rule()]),
    lambda: AllOfTrigger([daily(), rule()]),
    lambda: LimitedTrigger(daily(), start=JUNE, limit=4),
]


@pytest.mark.parametrize("make", TRIGGERS)
def test_a_trigger_goes_by_the_data_of_its_process(
    make: type[Trigger], zones: Zones
) -> None:
    before = fire_times(make(), JUNE, 4)
    assert [each.hour for each in before] == [8] * 4
    zones.bring(then=2)
    trigger = make()
    after = fire_times(trigger, JUNE, 4)
    assert after == [each - HOUR for each in before]
    # Not even what was answered last, and is passed on as it was, leads to old ones.
    assert trigger.next_fire_time(before[0]) == before[1] - HOUR


def test_a_search_by_sets_goes_by_the_data_of_its_process(zones: Zones) -> None:
    def trigger() -> ExceptTrigger:
        return ExceptTrigger(
            CronTrigger("* * * * * * *", ZONE), CronTrigger("* * 0-22 * * * *", ZONE)
        )

    assert trigger().next_fire_time(JUNE) == JUNE + 22 * HOUR
    zones.bring(then=2)
    assert trigger().next_fire_time(JUNE) == JUNE + 21 * HOUR


def test_what_is_shown_goes_by_the_data_of_its_process(zones: Zones) -> None:
    [before] = preview(daily(), 1, JUNE)
    zones.bring(then=2)
    [after] = preview(daily(), 1, JUNE)
    assert before.at.hour == after.at.hour == 9
    assert after.at == before.at - HOUR


def test_a_zone_that_is_gone_is_unknown_to_a_process_that_had_not_asked(
    zones: Zones,
) -> None:
    zones.remove()
    with pytest.raises(InvalidTriggerError, match="there is no time zone 'Test/Zone'"):
        daily()


def test_a_zone_comes_from_the_package_where_the_system_has_none(
    zones: Zones,
) -> None:
    zoneinfo.reset_tzpath(())
    zone = load_zone("Atlantic/Faroe")
    assert load_zone("Atlantic/Faroe") is zone
    assert zone.utcoffset(JUNE) == HOUR


@pytest.mark.parametrize("key", ["../secret", "Test", "\0"])
def test_no_file_is_read_that_is_no_zone(
    key: str, zones: Zones, tmp_path: Path
) -> None:
    (tmp_path.parent / "secret").write_bytes((tmp_path / ZONE).read_bytes())
    with pytest.raises(InvalidTriggerError, match="there is no time zone"):
        load_zone(key)


def test_changes_are_told_in_words() -> None:
    start, end = (
        datetime(2024, 3, 10, 7, tzinfo=UTC),
        datetime(2025, 3, 9, 7, tzinfo=UTC),
    )
    found = zone_changes("America/New_York", start - MICROSECOND, end)
    assert [text for _, text in found] == [
        "clocks in America/New_York go forward by 60 min, to 03:00",
        "clocks in America/New_York go back by 60 min, to 01:00",
        "clocks in America/New_York go forward by 60 min, to 03:00",
    ]
    assert [found[0][0], found[-1][0]] == [start, end]
    assert zone_changes("America/New_York", start, end) == found[1:]
    assert zone_changes("UTC", start, end) == []


def test_utc_needs_no_time_zone_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_zone(key: str) -> ZoneInfo:
        raise zoneinfo.ZoneInfoNotFoundError(key)

    monkeypatch.setattr(local_time, "_zones", {})
    monkeypatch.setattr(local_time, "ZoneInfo", no_zone)
    assert load_zone("UTC") is UTC
    with pytest.raises(InvalidTriggerError, match="install tzdata"):
        load_zone("Europe/Berlin")
