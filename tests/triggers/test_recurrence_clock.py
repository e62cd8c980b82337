from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

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

    def test_it_starts_with_the_first_of_two_equal_times(self) -> None:
        trigger = RecurrenceTrigger("FREQ=HOURLY", "America/New_York")
        second = datetime(2024, 11, 3, 6, 30, tzinfo=UTC)
        scheduled = trigger.anchored(second)
        assert scheduled.next_fire_time(second - DAY) == second + HOUR

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
