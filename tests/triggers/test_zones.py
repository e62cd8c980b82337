"""Time zones keep their rules until their data change, and not a moment longer."""

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
    preview,
    register_calendar,
)
from go_scheduler.triggers.wall.zones import edition, load_zone, renew_zones
from tests.zones import ZONE, Zones, zones_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
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


def series(trigger: Trigger, after: datetime, number: int = 4) -> Sequence[datetime]:
    found = []
    for _ in range(number):
        following = trigger.next_fire_time(after)
        if following is None:
            break
        found.append(after := following)
    return found


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
def test_a_trigger_that_was_asked_before_goes_by_new_data(
    make: type[Trigger], zones: Zones
) -> None:
    trigger = make()
    before = series(trigger, JUNE)
    assert [each.hour for each in before] == [8] * 4
    zones.bring(then=2)
    after = series(trigger, JUNE)
    assert after == [each - HOUR for each in before]
    # Not even what was answered last, and is passed on as it was, leads to old ones.
    assert trigger.next_fire_time(before[0]) == before[1] - HOUR


def test_a_search_by_sets_goes_by_new_data(zones: Zones) -> None:
    trigger = ExceptTrigger(
        CronTrigger("* * * * * * *", ZONE), CronTrigger("* * 0-22 * * * *", ZONE)
    )
    assert trigger.next_fire_time(JUNE) == JUNE + 22 * HOUR
    zones.bring(then=2)
    assert trigger.next_fire_time(JUNE) == JUNE + 21 * HOUR


def test_a_limit_counts_by_new_data(zones: Zones) -> None:
    trigger = LimitedTrigger(daily(), start=JUNE, limit=3)
    zones.write((JUNE + 2 * DAY, 1), then=2)
    assert len(series(trigger, JUNE)) == 3
    renew_zones()
    first = JUNE + 8 * HOUR
    assert series(trigger, JUNE) == [first, first + DAY, first + 2 * DAY - HOUR]


def test_what_is_shown_goes_by_new_data(zones: Zones) -> None:
    trigger = daily()
    [before] = preview(trigger, 1, JUNE)
    zones.bring(then=2)
    [after] = preview(trigger, 1, JUNE)
    assert before.at.hour == after.at.hour == 9
    assert after.at == before.at - HOUR


def test_changed_zones_are_named_once(zones: Zones) -> None:
    load_zone(ZONE)
    load_zone("Europe/Berlin")
    before = edition()
    assert renew_zones() == []
    assert edition() == before
    zones.write(then=3)
    assert renew_zones() == [ZONE]
    assert edition() > before
    assert renew_zones() == []


def test_a_zone_that_nobody_has_asked_for_is_not_looked_at(zones: Zones) -> None:
    zones.write(then=3)
    assert renew_zones() == []


def test_python_answers_by_the_new_data_of_what_has_changed_alone(
    zones: Zones,
) -> None:
    load_zone(ZONE)
    old, other = ZoneInfo(ZONE), ZoneInfo("Europe/Berlin")
    zones.bring(then=2)
    assert ZoneInfo(ZONE) is not old
    assert ZoneInfo(ZONE).utcoffset(JUNE) == 2 * HOUR
    assert ZoneInfo("Europe/Berlin") is other


def test_what_python_has_remembered_since_before_is_not_taken(zones: Zones) -> None:
    held = ZoneInfo(ZONE)
    zones.write(then=2)
    assert held.utcoffset(JUNE) == HOUR
    assert load_zone(ZONE).utcoffset(JUNE) == 2 * HOUR


def test_a_zone_that_is_gone_keeps_its_rules_until_it_is_back(zones: Zones) -> None:
    trigger = daily()
    zones.remove()
    assert renew_zones() == []
    assert series(trigger, JUNE, 1) == [JUNE + 8 * HOUR]
    assert CronTrigger("0 10 * * *", ZONE).next_fire_time(JUNE) == JUNE + 9 * HOUR
    zones.write(then=2)
    assert renew_zones() == [ZONE]
    assert series(trigger, JUNE, 1) == [JUNE + 7 * HOUR]


def test_a_file_that_is_no_zone_leaves_the_rules_as_they_are(
    zones: Zones, tmp_path: Path
) -> None:
    trigger = daily()
    (tmp_path / ZONE).write_bytes(b"TZif, half of it")
    assert renew_zones() == []
    assert series(trigger, JUNE, 1) == [JUNE + 8 * HOUR]


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
    assert renew_zones() == []
    assert load_zone("Atlantic/Faroe") is zone
    assert zone.utcoffset(JUNE) == HOUR


@pytest.mark.parametrize("key", ["../secret", "/etc/passwd", "Test", "\0", ""])
def test_no_file_is_read_that_is_no_zone(
    key: str, zones: Zones, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(path: Path) -> bytes:
        raise AssertionError(path)

    monkeypatch.setattr("pathlib.Path.read_bytes", read)
    (tmp_path.parent / "secret").touch()
    with pytest.raises(InvalidTriggerError, match="there is no time zone"):
        load_zone(key)
