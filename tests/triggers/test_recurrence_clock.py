from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dateutil.rrule import rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.triggers.recurrence import RecurrenceTrigger
from tests.triggers.cron_oracle import DAY, HOUR, fire_times_until, near_changes, walk

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

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


class TestWhereTheClocksChange:
    @settings(deadline=None, max_examples=15)
    @given(
        rule=st.sampled_from([*FIXED, *ELAPSED]),
        change=near_changes(),
        time=st.sampled_from(["000000", "013000", "021500", "120000"]),
        gap=st.sampled_from(["next", "next", "skip"]),
        overlap=st.sampled_from(["first", "first", "second", "both"]),
    )
    def test_it_fires_when_a_walk_along_the_clock_does(
        self,
        rule: str,
        change: tuple[ZoneInfo, datetime],
        time: str,
        gap: str,
        overlap: str,
    ) -> None:
        zone, after = change
        until = after + 2 * DAY
        start = f"{after - 4 * DAY:%Y%m%d}T{time}"
        trigger = RecurrenceTrigger(
            f"DTSTART;TZID={zone.key}:{start}\nRRULE:{rule}", gap=gap, overlap=overlap
        )
        series = rrulestr(rule, dtstart=datetime.fromisoformat(start))
        first = after.replace(tzinfo=None) - 3 * DAY
        expected = walk(
            *(set(series.between(first, first + 8 * DAY)).__contains__, zone),
            *(after, until),
            elapsed=rule in ELAPSED,
            gap=gap,
            overlap=overlap,
        )
        assert fire_times_until(trigger, after, until) == expected

    def test_it_starts_with_the_first_of_two_equal_times(self) -> None:
        trigger = RecurrenceTrigger("FREQ=HOURLY", "America/New_York")
        second = datetime(2024, 11, 3, 6, 30, tzinfo=UTC)
        scheduled = trigger.anchored(second)
        assert scheduled.next_fire_time(second - DAY) == second + HOUR
