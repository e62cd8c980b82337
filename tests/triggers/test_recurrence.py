from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.triggers.recurrence import RecurrenceTrigger
from tests.case_tables import table
from tests.triggers.cron_oracle import (
    DAY,
    HOUR,
    fire_times,
    fire_times_until,
    near_changes,
    walk,
)

NEW_YORK = ZoneInfo("America/New_York")
NOW = datetime(2024, 2, 28, 23, 59, 30, 250_000, tzinfo=UTC)
LONG_AGO = datetime.min.replace(tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class TestFireTimes:
    @pytest.mark.parametrize(("text", "expected"), table("triggers/recurrence_times"))
    def test_it_fires_then(self, text: str, expected: str) -> None:
        trigger = RecurrenceTrigger(text)
        zone = ZoneInfo(trigger.timezone)
        times = [each for each in expected.split(", ") if each != "…"]
        found = fire_times(trigger, LONG_AGO, len(times) + 1)
        shown = [f"{each.astimezone(zone):%Y%m%dT%H%M%S%z}" for each in found]
        assert shown[: len(times)] == times
        assert (len(found) > len(times)) == expected.endswith("…")
        # Another one, which knows nothing of the times before.
        other = RecurrenceTrigger(f"{text}\nRDATE:99990101T000000Z")
        last = found[len(times) - 1]
        assert other.next_fire_time(last - MICROSECOND) == last

    def test_weeks_are_cut_at_the_ends_of_time(self) -> None:
        text = "DTSTART:{}T090000Z\nRRULE:FREQ=YEARLY;BYWEEKNO=1;BYDAY=SU,MO;BYSETPOS=1"
        first = RecurrenceTrigger(text.format("00010101") + ";WKST=SU")
        begin = datetime.min.replace(tzinfo=UTC)
        assert first.next_fire_time(begin) == datetime(1, 1, 1, 9, tzinfo=UTC)
        last = RecurrenceTrigger(text.format("99980101"))
        end = datetime(9999, 2, 1, tzinfo=UTC)
        assert last.next_fire_time(end) is None


class TestStart:
    def test_it_may_be_in_the_text_or_an_argument(self) -> None:
        start = datetime(2025, 1, 21, 9, 34, 5, 999_999, tzinfo=NEW_YORK)
        trigger = RecurrenceTrigger("FREQ=WEEKLY;BYDAY=TU", start=start)
        assert trigger.timezone == "America/New_York"
        assert trigger == RecurrenceTrigger(
            "DTSTART;TZID=America/New_York:20250121T093405\nRRULE:FREQ=WEEKLY;BYDAY=TU"
        )
        elsewhere = RecurrenceTrigger("FREQ=WEEKLY;BYDAY=TU", "UTC", start=start)
        assert elsewhere.rule.startswith("DTSTART:20250121T143405Z\n")
        fixed = start.astimezone(UTC)
        assert RecurrenceTrigger("FREQ=WEEKLY;BYDAY=TU", start=fixed) == elsewhere

    def test_without_one_it_starts_when_it_is_first_scheduled(self) -> None:
        trigger = RecurrenceTrigger("FREQ=DAILY;INTERVAL=2", "America/New_York")
        scheduled = trigger.anchored(NOW)
        assert scheduled == trigger
        assert scheduled.anchored_at == NOW
        assert scheduled.anchored(NOW + timedelta(days=1)) is scheduled
        first = NOW.replace(microsecond=0) + timedelta(days=2)
        assert scheduled.first_fire_time(NOW) == first
        assert scheduled.next_fire_time(LONG_AGO) == first
        assert trigger.next_fire_time(NOW) == first
        dates = RecurrenceTrigger("RDATE:20200101T000000Z,20200202T000000")
        assert dates.next_fire_time(NOW) is None
        assert dates.anchored(NOW).next_fire_time(LONG_AGO) is None

    def test_it_does_not_fire_when_it_is_scheduled_but_as_often_as_it_says(
        self,
    ) -> None:
        now = NOW.replace(microsecond=0)
        for frequency, every in (
            ("DAILY", timedelta(days=1)),
            ("HOURLY", timedelta(hours=1)),
        ):
            trigger = RecurrenceTrigger(f"FREQ={frequency};COUNT=3").anchored(now)
            expected = [now + number * every for number in (1, 2, 3)]
            assert fire_times(trigger, LONG_AGO, 9) == expected

    def test_a_given_one_is_no_anchor(self) -> None:
        trigger = RecurrenceTrigger("FREQ=DAILY", start=NOW, anchored_at=NOW)
        assert trigger.anchored_at is None
        assert trigger.anchored(NOW) is trigger

    @pytest.mark.parametrize("rule", ["FREQ=DAILY", "FREQ=HOURLY", "FREQ=WEEKLY"])
    @pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
    def test_it_may_be_at_the_ends_of_time(self, rule: str, zone: str) -> None:
        for anchor in (LONG_AGO, datetime.max.replace(tzinfo=UTC)):
            trigger = RecurrenceTrigger(f"{rule};COUNT=3", zone).anchored(anchor)
            found = trigger.next_fire_time(anchor)
            assert (found is None) == (anchor.year > 1)
        first = RecurrenceTrigger(f"DTSTART:00010101T000000\nRRULE:{rule}", zone)
        found = first.next_fire_time(LONG_AGO)
        assert found is not None
        assert found.year == 1
        last = f"DTSTART;TZID={zone}:99991231T000000\nRRULE:{rule}"
        if zone == "America/New_York" and rule == "FREQ=WEEKLY":
            last = last.replace("1231", "1230")
        after_all = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
        assert RecurrenceTrigger(last).next_fire_time(after_all) is None


class TestEnd:
    def test_count_counts_from_the_start(self) -> None:
        text = "DTSTART:20250101T120000Z\nRRULE:FREQ=DAILY;BYHOUR=6,18;COUNT=4"
        trigger = RecurrenceTrigger(text)
        found = fire_times(trigger, LONG_AGO, 9)
        assert [f"{each:%d %H}" for each in found] == [
            "01 18",
            "02 06",
            "02 18",
            "03 06",
        ]
        # Asked in any order, by several who share what is known of it.
        for each in reversed(found):
            assert RecurrenceTrigger(text).next_fire_time(each - MICROSECOND) == each
        assert trigger.next_fire_time(found[-1]) is None
        assert trigger.next_fire_time(NOW + timedelta(days=365_000)) is None


class TestSets:
    def test_dates_alone_are_a_set(self) -> None:
        trigger = RecurrenceTrigger("RDATE:20250102T000000Z,20250101T000000Z")
        found = fire_times(trigger.anchored(NOW), NOW, 9)
        assert [each.day for each in found] == [1, 2]

    def test_hundreds_of_dates_are_excluded(self) -> None:
        start = datetime(2025, 1, 1, tzinfo=UTC)
        excluded = [start + timedelta(days=each) for each in range(900)]
        dates = ",".join(f"{each:%Y%m%dT%H%M%SZ}" for each in excluded)
        trigger = RecurrenceTrigger(f"FREQ=DAILY\nEXDATE:{dates}", start=start)
        assert trigger.next_fire_time(LONG_AGO) == start + timedelta(days=900)
        assert len(json.dumps(dict(trigger.to_dict()))) < 16_500


class TestDescription:
    @pytest.mark.parametrize(
        ("rule", "phrase"), table("triggers/recurrence_descriptions")
    )
    def test_it_says_when_it_fires(self, rule: str, phrase: str) -> None:
        trigger = RecurrenceTrigger(f"FREQ={rule}", "America/New_York")
        assert trigger.describe() == phrase

    @pytest.mark.parametrize(("text", "phrase"), table("triggers/recurrence_sets"))
    def test_a_set_is_described_rule_by_rule(self, text: str, phrase: str) -> None:
        assert RecurrenceTrigger(text).describe() == phrase


class TestWarnings:
    @pytest.mark.parametrize(
        ("rule", "warning"),
        table("triggers/recurrence_warnings"),
    )
    def test_days_that_are_passed_over(self, rule: str, warning: str) -> None:
        found = RecurrenceTrigger(f"FREQ={rule};BYHOUR=12").warnings(NOW)
        assert len(found) == bool(warning)
        assert warning in "".join(found)

    def test_a_day_taken_from_the_start_is_one_of_them(self) -> None:
        trigger = RecurrenceTrigger("FREQ=MONTHLY")
        assert trigger.warnings(NOW) == []
        (warning,) = trigger.anchored(NOW + timedelta(days=1)).warnings(NOW)
        assert "has no day 29" in warning

    @pytest.mark.parametrize(
        ("excluded", "idle"),
        table("triggers/recurrence_exceptions"),
    )
    def test_an_exception_that_excludes_nothing(self, excluded: str, idle: str) -> None:
        trigger = RecurrenceTrigger(
            "DTSTART;TZID=America/New_York:20250101T090000\nRRULE:FREQ=DAILY\n"
            f"{excluded}"
        )
        found = trigger.warnings(NOW)
        assert len(found) == (idle == "yes")
        assert all(
            f"{excluded.split(':')[1]} excludes nothing" in each for each in found
        )

    def test_a_time_that_the_clocks_skip(self) -> None:
        trigger = RecurrenceTrigger(
            "DTSTART;TZID=America/New_York:20240101T023000\nRRULE:FREQ=DAILY"
        )
        (warning,) = trigger.warnings(NOW)
        assert "02:30 does not exist on 2024-03-10 in America/New_York" in warning
        ended = trigger.rule + ";UNTIL=20240305"
        assert RecurrenceTrigger(ended).warnings(NOW) == []
        hourly = trigger.rule.replace("DAILY", "HOURLY")
        assert RecurrenceTrigger(hourly).warnings(NOW) == []
        noon = "DTSTART;TZID=America/New_York:20240101T123000\nRRULE:FREQ="
        both = RecurrenceTrigger(f"{noon}HOURLY\nRRULE:FREQ=DAILY")
        assert both.warnings(NOW) == []


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
