from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.triggers.recurrence import RecurrenceTrigger

if TYPE_CHECKING:
    from collections.abc import Iterator

MICROSECOND = timedelta(microseconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
# Zones and days on which their clocks are set on or back, some of them at midnight.
CHANGES = [
    ("America/New_York", "20240310"),
    ("America/New_York", "20241103"),
    ("Europe/Berlin", "20240331"),
    ("Europe/Berlin", "20241027"),
    ("Australia/Lord_Howe", "20241006"),
    ("Australia/Lord_Howe", "20240407"),
    ("Pacific/Apia", "20111230"),
    ("Pacific/Apia", "20110402"),
    ("Africa/Cairo", "20240426"),
    ("Africa/Cairo", "20241031"),
    ("America/Santiago", "20240908"),
    ("America/Santiago", "20240406"),
    ("Africa/Casablanca", "20240310"),
    ("Africa/Casablanca", "20240414"),
    ("Asia/Kathmandu", "20240310"),
    ("Antarctica/Troll", "20240331"),
    ("Antarctica/Casey", "20091018"),
]
FIXED = [
    "FREQ=DAILY;BYHOUR=0,1,2,3;BYMINUTE=0,15,30,45",
    "FREQ=DAILY;BYHOUR=2;BYMINUTE=30",
    "FREQ=DAILY;BYHOUR=0,23;BYMINUTE=0,30",
    "FREQ=WEEKLY;BYDAY=FR,SU;BYHOUR=1,2;BYMINUTE=10,50",
    "FREQ=HOURLY;BYHOUR=0,1,2,3;BYMINUTE=20",
    "FREQ=MINUTELY;INTERVAL=20;BYHOUR=1,2,12",
    "FREQ=HOURLY;INTERVAL=24;BYMINUTE=30",
    "FREQ=HOURLY;INTERVAL=36",
]
ELAPSED = [
    "FREQ=HOURLY",
    "FREQ=HOURLY;BYMINUTE=0,30",
    "FREQ=HOURLY;INTERVAL=2",
    "FREQ=HOURLY;INTERVAL=5;BYDAY=SU,TH,FR",
    "FREQ=MINUTELY;INTERVAL=20",
    "FREQ=MINUTELY;INTERVAL=7",
    "FREQ=MINUTELY;INTERVAL=45;BYMINUTE=0,15,30",
    "FREQ=SECONDLY;INTERVAL=420",
]


def clock(
    zone: ZoneInfo, begin: datetime, end: datetime
) -> Iterator[tuple[datetime, datetime]]:
    """Each minute, and what the clock shows then."""
    while begin < end:
        yield begin, begin.astimezone(zone).replace(tzinfo=None)
        begin += MINUTE


def expected_times(
    locals_: set[datetime],
    minutes: list[tuple[datetime, datetime]],
    *,
    elapsed: bool,
    gap: str,
    overlap: str,
) -> list[datetime]:
    """What a walk along the clock finds by the written rule, minute by minute."""
    shown: dict[datetime, list[datetime]] = {}
    for instant, local in minutes:
        shown.setdefault(local, []).append(instant)
    found = set()
    for local in locals_:
        instants = shown.get(local, [])
        if elapsed or overlap == "both":
            found.update(instants)
        else:
            found.update(instants[:1] if overlap == "first" else instants[-1:])
    if not elapsed and gap == "next":
        for (_, before), (instant, after) in pairwise(minutes):
            width = after - before - MINUTE
            skipped = any(before < local < after for local in locals_)
            if timedelta(0) < width < 3 * HOUR and skipped:
                found.add(instant)
    return sorted(found)


def fire_times(
    trigger: RecurrenceTrigger, begin: datetime, end: datetime
) -> list[datetime]:
    found = []
    after = begin - MICROSECOND
    while (each := trigger.next_fire_time(after)) is not None and each < end:
        found.append(after := each)
    return found


class TestWhereTheClocksChange:
    @settings(deadline=None, max_examples=15)
    @given(
        rule=st.sampled_from([*FIXED, *ELAPSED]),
        change=st.sampled_from(CHANGES),
        time=st.sampled_from(["000000", "013000", "021500", "120000"]),
        gap=st.sampled_from(["next", "next", "skip"]),
        overlap=st.sampled_from(["first", "first", "second", "both"]),
    )
    def test_it_fires_when_a_walk_along_the_clock_does(
        self, rule: str, change: tuple[str, str], time: str, gap: str, overlap: str
    ) -> None:
        timezone, day = change
        zone = ZoneInfo(timezone)
        midnight = datetime.strptime(day, "%Y%m%d").replace(tzinfo=UTC)
        start = f"{midnight - 3 * DAY:%Y%m%d}T{time}"
        trigger = RecurrenceTrigger(
            f"DTSTART;TZID={timezone}:{start}\nRRULE:{rule}", gap=gap, overlap=overlap
        )
        begin, end = midnight - DAY / 2, midnight + 3 * DAY / 2
        walk = rrulestr(rule, dtstart=datetime.fromisoformat(start))
        late = end.replace(tzinfo=None) + DAY
        minutes = list(clock(zone, begin - 3 * HOUR, end + 3 * HOUR))
        expected = expected_times(
            set(walk.between(late - 6 * DAY, late)),
            minutes,
            elapsed=rule in ELAPSED,
            gap=gap,
            overlap=overlap,
        )
        expected = [each for each in expected if begin <= each < end]
        assert fire_times(trigger, begin, end) == expected

    @pytest.mark.parametrize(
        ("rule", "expected"),
        [
            ("FREQ=DAILY", "09 02:30-0500, 10 03:00-0400, 11 02:30-0400"),
            ("FREQ=HOURLY;INTERVAL=24", "09 02:30-0500, 10 03:00-0400, 11 02:30-0400"),
            ("FREQ=WEEKLY;BYDAY=SU", "10 03:00-0400, 17 02:30-0400, 24 02:30-0400"),
            (
                "FREQ=HOURLY;INTERVAL=12",
                "09 02:30-0500, 09 14:30-0500, 10 14:30-0400, 11 02:30-0400",
            ),
        ],
    )
    def test_a_time_that_new_york_skips(self, rule: str, expected: str) -> None:
        text = f"DTSTART;TZID=America/New_York:20240309T023000\nRRULE:{rule}"
        trigger = RecurrenceTrigger(text)
        assert local_times(trigger, expected.count(",") + 1) == expected

    @pytest.mark.parametrize(
        ("rule", "expected"),
        [
            ("FREQ=DAILY", "03 01:30-0400, 04 01:30-0500"),
            (
                "FREQ=HOURLY",
                "03 01:30-0400, 03 01:30-0500, 03 02:30-0500",
            ),
            (
                "FREQ=MINUTELY;INTERVAL=20",
                "03 01:30-0400, 03 01:50-0400, 03 01:10-0500, 03 01:30-0500",
            ),
            ("FREQ=HOURLY;INTERVAL=2", "03 01:30-0400, 03 01:30-0500, 03 03:30-0500"),
            ("FREQ=HOURLY;BYHOUR=1,2", "03 01:30-0400, 03 02:30-0500"),
        ],
    )
    def test_an_hour_that_new_york_repeats(self, rule: str, expected: str) -> None:
        text = f"DTSTART;TZID=America/New_York:20241103T013000\nRRULE:{rule}"
        trigger = RecurrenceTrigger(text)
        assert local_times(trigger, expected.count(",") + 1) == expected

    def test_every_six_hours_is_at_the_same_hours_in_summer(self) -> None:
        trigger = RecurrenceTrigger(
            "DTSTART;TZID=America/New_York:20240101T000000\nRRULE:FREQ=HOURLY;INTERVAL=6"
        )
        july = datetime(2024, 7, 1, 4, tzinfo=UTC)
        assert fire_times(trigger, july, july + DAY) == [
            july + each * 6 * HOUR for each in range(4)
        ]

    def test_it_starts_with_the_first_of_two_equal_times(self) -> None:
        trigger = RecurrenceTrigger("FREQ=HOURLY", "America/New_York")
        second = datetime(2024, 11, 3, 6, 30, tzinfo=UTC)
        scheduled = trigger.anchored(second)
        assert scheduled.next_fire_time(second - DAY) == second + HOUR

    @pytest.mark.parametrize(
        ("zone", "start", "rule", "last"),
        [
            ("America/New_York", "20241103T000000", "HOURLY;COUNT=5", "03 03:00-0500"),
            ("America/New_York", "20240310T000000", "HOURLY;COUNT=5", "10 05:00-0400"),
            ("America/New_York", "20241103T013000", "HOURLY;COUNT=3", "03 02:30-0500"),
            ("America/New_York", "20240310T000000", "DAILY;COUNT=5", "14 00:00-0400"),
            (
                "Australia/Lord_Howe",
                "20240407T010000",
                "MINUTELY;INTERVAL=15;COUNT=7",
                "07 02:00+1030",
            ),
            (
                "Pacific/Apia",
                "20111229T220000",
                "HOURLY;COUNT=4",
                "31 01:00+1400",
            ),
        ],
    )
    def test_it_fires_as_often_as_count_says(
        self, zone: str, start: str, rule: str, last: str
    ) -> None:
        text = f"DTSTART;TZID={zone}:{start}\nRRULE:FREQ={rule}"
        trigger = RecurrenceTrigger(text)
        found = local_times(trigger, 99).split(", ")
        assert len(found) == int(rule.rpartition("=")[2])
        assert found[-1] == last
        # Others, which know nothing of the times before.
        others = (
            RecurrenceTrigger(text, gap="skip"),
            RecurrenceTrigger(text, overlap="both"),
        )
        local = datetime.strptime(f"{start[:6]}{last}", "%Y%m%d %H:%M%z")
        assert others[0].next_fire_time(local - MICROSECOND) == local
        assert others[1].next_fire_time(local) is None
        assert trigger.next_fire_time(datetime(2200, 1, 1, tzinfo=UTC)) is None

    def test_a_time_may_be_excluded_once_or_twice(self) -> None:
        text = (
            "DTSTART;TZID=America/New_York:20241103T003000\nRRULE:FREQ=HOURLY\nEXDATE"
        )
        for excluded, expected in (
            (":20241103T013000", "03 00:30-0400, 03 02:30-0500"),
            (":20241103T053000Z", "03 00:30-0400, 03 01:30-0500"),
            (":20241103T063000Z", "03 00:30-0400, 03 01:30-0400"),
        ):
            trigger = RecurrenceTrigger(f"{text}{excluded}")
            assert local_times(trigger, 2) == expected

    @pytest.mark.parametrize(
        ("until", "count"),
        [("052959", 2), ("053000", 3), ("061500", 3), ("063000", 3)],
    )
    def test_it_may_end_within_a_repeated_hour(self, until: str, count: int) -> None:
        trigger = RecurrenceTrigger(
            "DTSTART;TZID=America/New_York:20241101T013000\n"
            f"RRULE:FREQ=DAILY;UNTIL=20241103T{until}Z"
        )
        assert local_times(trigger, 9).count(":") == count

    def test_a_date_that_is_added_is_a_fixed_time(self) -> None:
        trigger = RecurrenceTrigger(
            "DTSTART;TZID=America/New_York:20240101T000000\nRRULE:FREQ=HOURLY;COUNT=1\n"
            "RDATE:20240310T023000,20241103T013000"
        )
        assert local_times(trigger, 9) == (
            "01 00:00-0500, 10 03:00-0400, 03 01:30-0400"
        )

    def test_its_effects_are_named(self) -> None:
        trigger = RecurrenceTrigger(
            "DTSTART;TZID=America/New_York:20240101T023000\nRRULE:FREQ=DAILY"
        )
        gap = datetime(2024, 3, 10, 7, tzinfo=UTC)
        assert trigger.effect(gap) == "02:30 does not exist that day"
        hourly = RecurrenceTrigger(
            "DTSTART;TZID=America/New_York:20240101T013000\nRRULE:FREQ=HOURLY"
        )
        second = datetime(2024, 11, 3, 6, 30, tzinfo=UTC)
        assert hourly.effect(second) == "the second of two 01:30"
        assert hourly.effect(second + HOUR) is None


def local_times(trigger: RecurrenceTrigger, most: int) -> str:
    zone = ZoneInfo(trigger.timezone)
    found: list[datetime] = []
    after = datetime.min.replace(tzinfo=UTC)
    while len(found) < most and (each := trigger.next_fire_time(after)) is not None:
        found.append(after := each)
    return ", ".join(f"{each.astimezone(zone):%d %H:%M%z}" for each in found)
