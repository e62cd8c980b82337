from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.testing.triggers import TriggerSuite
from go_scheduler.triggers.recurrence import RecurrenceTrigger

if TYPE_CHECKING:
    from go_scheduler.triggers import Trigger

CASES = json.loads((Path(__file__).parent / "recurrence_cases.json").read_text())
NEW_YORK = ZoneInfo("America/New_York")
NOW = datetime(2024, 2, 28, 23, 59, 30, 250_000, tzinfo=UTC)
LONG_AGO = datetime.min.replace(tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
WORKDAYS = "MO,TU,WE,TH,FR"


def fire_times(trigger: Trigger, after: datetime, most: int) -> list[datetime]:
    found: list[datetime] = []
    while len(found) < most and (each := trigger.next_fire_time(after)) is not None:
        assert each > after
        found.append(after := each)
    return found


def days(trigger: RecurrenceTrigger, most: int) -> str:
    """The first fire times: each new year, and the days of it as month/day."""
    words: list[str] = []
    for each in fire_times(trigger, LONG_AGO, most):
        local = each.astimezone(ZoneInfo(trigger.timezone))
        assert f"{local:%H:%M:%S}" == "09:00:00"
        if f"{local.year}:" not in words:
            words.append(f"{local.year}:")
        words.append(f"{local.month}/{local.day}")
    return " ".join(words)


class TestRecurrenceTrigger(TriggerSuite):
    @pytest.fixture(
        params=[
            ("FREQ=DAILY;BYHOUR=2;BYMINUTE=30;BYSECOND=0", "America/New_York"),
            ("FREQ=MINUTELY;INTERVAL=7", "Europe/Berlin"),
            ("FREQ=HOURLY", "Australia/Lord_Howe"),
            ("FREQ=WEEKLY;INTERVAL=2;BYDAY=FR,SU;BYHOUR=0", "Pacific/Apia"),
            ("FREQ=MONTHLY;BYDAY=-1TH,-1FR;BYHOUR=0,1;BYMINUTE=0,15", "Africa/Cairo"),
            (f"FREQ=MONTHLY;BYDAY={WORKDAYS};BYSETPOS=1,-1", "America/Santiago"),
            ("FREQ=SECONDLY;INTERVAL=100;BYDAY=MO;BYHOUR=3", "Asia/Kathmandu"),
            ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "Africa/Casablanca"),
            (
                "DTSTART;TZID=Europe/Berlin:20200101T023000\n"
                "RRULE:FREQ=WEEKLY;COUNT=500\nRRULE:FREQ=HOURLY;COUNT=100\n"
                "RDATE:20240310T065959Z\nEXDATE;VALUE=DATE:20200108",
                None,
            ),
            ("DTSTART:20240101T000000Z\nRRULE:FREQ=DAILY;UNTIL=20240601", None),
            ("RDATE:20240310T070000Z,20500101T000000Z", "America/New_York"),
        ],
        ids=lambda param: param[0].split("\n")[0],
    )
    def trigger(self, request: pytest.FixtureRequest) -> RecurrenceTrigger:
        return RecurrenceTrigger(*request.param)


class TestGivenCases:
    @pytest.mark.parametrize(
        "case", CASES["cases"], ids=[case["rule"][-1] for case in CASES["cases"]]
    )
    def test_it_fires_as_expected(self, case: dict[str, Any]) -> None:
        trigger = RecurrenceTrigger("\r\n".join(case["rule"]), case["timezone"])
        after = datetime.fromisoformat(case["after"])
        expected = [datetime.fromisoformat(each) for each in case["expected"]]
        assert fire_times(trigger, after, len(expected)) == expected


# The examples of RFC 5545, section 3.8.5.3, all at nine o'clock in New York.
EXAMPLES = [
    ("19970902", "FREQ=DAILY;COUNT=10", "9/2 9/3 9/4 9/5 9/6 9/7 9/8 9/9 9/10 9/11"),
    ("19970902", "FREQ=DAILY;INTERVAL=10;COUNT=5", "9/2 9/12 9/22 10/2 10/12"),
    (
        "19970902",
        "FREQ=WEEKLY;COUNT=10",
        "9/2 9/9 9/16 9/23 9/30 10/7 10/14 10/21 10/28 11/4",
    ),
    (
        "19970902",
        "FREQ=WEEKLY;UNTIL=19971224T000000Z",
        "9/2 9/9 9/16 9/23 9/30 10/7 10/14 10/21 10/28 11/4 11/11 11/18 11/25 12/2"
        " 12/9 12/16 12/23",
    ),
    (
        "19970902",
        "FREQ=WEEKLY;UNTIL=19971007T000000Z;WKST=SU;BYDAY=TU,TH",
        "9/2 9/4 9/9 9/11 9/16 9/18 9/23 9/25 9/30 10/2",
    ),
    (
        "19970901",
        "FREQ=WEEKLY;INTERVAL=2;UNTIL=19971224T000000Z;WKST=SU;BYDAY=MO,WE,FR",
        "9/1 9/3 9/5 9/15 9/17 9/19 9/29 10/1 10/3 10/13 10/15 10/17 10/27 10/29 10/31"
        " 11/10 11/12 11/14 11/24 11/26 11/28 12/8 12/10 12/12 12/22",
    ),
    (
        "19970902",
        "FREQ=WEEKLY;INTERVAL=2;COUNT=8;WKST=SU;BYDAY=TU,TH",
        "9/2 9/4 9/16 9/18 9/30 10/2 10/14 10/16",
    ),
    (
        "19970905",
        "FREQ=MONTHLY;COUNT=10;BYDAY=1FR",
        "9/5 10/3 11/7 12/5 1998: 1/2 2/6 3/6 4/3 5/1 6/5",
    ),
    (
        "19970905",
        "FREQ=MONTHLY;UNTIL=19971224T000000Z;BYDAY=1FR",
        "9/5 10/3 11/7 12/5",
    ),
    (
        "19970907",
        "FREQ=MONTHLY;INTERVAL=2;COUNT=10;BYDAY=1SU,-1SU",
        "9/7 9/28 11/2 11/30 1998: 1/4 1/25 3/1 3/29 5/3 5/31",
    ),
    (
        "19970922",
        "FREQ=MONTHLY;COUNT=6;BYDAY=-2MO",
        "9/22 10/20 11/17 12/22 1998: 1/19 2/16",
    ),
    (
        "19970928",
        "FREQ=MONTHLY;BYMONTHDAY=-3;COUNT=6",
        "9/28 10/29 11/28 12/29 1998: 1/29 2/26",
    ),
    (
        "19970902",
        "FREQ=MONTHLY;COUNT=10;BYMONTHDAY=2,15",
        "9/2 9/15 10/2 10/15 11/2 11/15 12/2 12/15 1998: 1/2 1/15",
    ),
    (
        "19970930",
        "FREQ=MONTHLY;COUNT=10;BYMONTHDAY=1,-1",
        "9/30 10/1 10/31 11/1 11/30 12/1 12/31 1998: 1/1 1/31 2/1",
    ),
    (
        "19970910",
        "FREQ=MONTHLY;INTERVAL=18;COUNT=10;BYMONTHDAY=10,11,12,13,14,15",
        "9/10 9/11 9/12 9/13 9/14 9/15 1999: 3/10 3/11 3/12 3/13",
    ),
    (
        "19970902",
        "FREQ=MONTHLY;INTERVAL=2;BYDAY=TU;COUNT=12",
        "9/2 9/9 9/16 9/23 9/30 11/4 11/11 11/18 11/25 1998: 1/6 1/13 1/20",
    ),
    (
        "19970610",
        "FREQ=YEARLY;COUNT=6;BYMONTH=6,7",
        "6/10 7/10 1998: 6/10 7/10 1999: 6/10 7/10",
    ),
    (
        "19970310",
        "FREQ=YEARLY;INTERVAL=2;COUNT=5;BYMONTH=1,2,3",
        "3/10 1999: 1/10 2/10 3/10 2001: 1/10",
    ),
    (
        "19970101",
        "FREQ=YEARLY;INTERVAL=3;COUNT=10;BYYEARDAY=1,100,200",
        "1/1 4/10 7/19 2000: 1/1 4/9 7/18 2003: 1/1 4/10 7/19 2006: 1/1",
    ),
    (
        "19970519",
        "FREQ=YEARLY;BYDAY=20MO;COUNT=3",
        "5/19 1998: 5/18 1999: 5/17",
    ),
    (
        "19970512",
        "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO;COUNT=3",
        "5/12 1998: 5/11 1999: 5/17",
    ),
    (
        "19970313",
        "FREQ=YEARLY;BYMONTH=3;BYDAY=TH;COUNT=8",
        "3/13 3/20 3/27 1998: 3/5 3/12 3/19 3/26 1999: 3/4",
    ),
    (
        "19970605",
        "FREQ=YEARLY;BYDAY=TH;BYMONTH=6,7,8;COUNT=14",
        "6/5 6/12 6/19 6/26 7/3 7/10 7/17 7/24 7/31 8/7 8/14 8/21 8/28 1998: 6/4",
    ),
    (
        "19970902",
        "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13;COUNT=5",
        "2/13 3/13 11/13 1999: 8/13 2000: 10/13",
    ),
    (
        "19970913",
        "FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13;COUNT=10",
        "9/13 10/11 11/8 12/13 1998: 1/10 2/7 3/7 4/11 5/9 6/13",
    ),
    (
        "19961105",
        "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8;COUNT=3",
        "11/5 2000: 11/7 2004: 11/2",
    ),
    (
        "19970904",
        "FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3",
        "9/4 10/7 11/6",
    ),
    (
        "19970929",
        f"FREQ=MONTHLY;BYDAY={WORKDAYS};BYSETPOS=-2;COUNT=7",
        "9/29 10/30 11/27 12/30 1998: 1/29 2/26 3/30",
    ),
    (
        "19970805",
        "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO",
        "8/5 8/10 8/19 8/24",
    ),
    (
        "19970805",
        "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU",
        "8/5 8/17 8/19 8/31",
    ),
    (
        "20070115",
        "FREQ=MONTHLY;BYMONTHDAY=15,30;COUNT=5",
        "1/15 1/30 2/15 3/15 3/30",
    ),
]


class TestExamplesOfTheRFC:
    @pytest.mark.parametrize(("start", "rule", "expected"), EXAMPLES)
    def test_it_fires_on_these_days(self, start: str, rule: str, expected: str) -> None:
        trigger = RecurrenceTrigger(
            f"DTSTART;TZID=America/New_York:{start}T090000\nRRULE:{rule}"
        )
        year = "1998" if expected.startswith("2/13") else start[:4]
        assert days(trigger, 100) == f"{year}: {expected}"

    @pytest.mark.parametrize(
        "rule",
        [
            "FREQ=YEARLY;UNTIL=20000131T140000Z;BYMONTH=1;BYDAY=SU,MO,TU,WE,TH,FR,SA",
            "FREQ=DAILY;UNTIL=20000131T140000Z;BYMONTH=1",
        ],
    )
    def test_every_day_in_january_for_three_years(self, rule: str) -> None:
        trigger = RecurrenceTrigger(
            f"DTSTART;TZID=America/New_York:19980101T090000\nRRULE:{rule}"
        )
        found = [each.date() for each in fire_times(trigger, LONG_AGO, 100)]
        assert len(found) == 93
        assert {(each.month, each.year) for each in found} == {
            (1, 1998),
            (1, 1999),
            (1, 2000),
        }

    @pytest.mark.parametrize(
        ("rule", "expected"),
        [
            ("FREQ=HOURLY;INTERVAL=3;UNTIL=19970902T210000Z", "9:00 12:00 15:00"),
            (
                "FREQ=MINUTELY;INTERVAL=15;COUNT=6",
                "9:00 9:15 9:30 9:45 10:00 10:15",
            ),
            ("FREQ=MINUTELY;INTERVAL=90;COUNT=4", "9:00 10:30 12:00 13:30"),
            (
                "FREQ=DAILY;BYHOUR=9,10;BYMINUTE=0,20,40;COUNT=7",
                "9:00 9:20 9:40 10:00 10:20 10:40 9:00",
            ),
            (
                "FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,10;COUNT=7",
                "9:00 9:20 9:40 10:00 10:20 10:40 9:00",
            ),
        ],
    )
    def test_it_fires_at_these_times(self, rule: str, expected: str) -> None:
        trigger = RecurrenceTrigger(
            f"DTSTART;TZID=America/New_York:19970902T090000\nRRULE:{rule}"
        )
        found = [
            each.astimezone(NEW_YORK) for each in fire_times(trigger, LONG_AGO, 100)
        ]
        assert " ".join(f"{each.hour}:{each.minute:02}" for each in found) == expected


class TestRareDays:
    @pytest.mark.parametrize(
        ("rule", "expected"),
        [
            ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "2096: 2/29 2104: 2/29 2108: 2/29"),
            ("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29", "2096: 2/29 2104: 2/29 2108: 2/29"),
            ("FREQ=YEARLY;BYYEARDAY=366", "2096: 12/31 2104: 12/31 2108: 12/31"),
            ("FREQ=YEARLY;BYYEARDAY=-366", "2096: 1/1 2104: 1/1 2108: 1/1"),
            ("FREQ=MONTHLY;BYDAY=5TU;BYMONTH=2", "2124: 2/29 2152: 2/29 2180: 2/29"),
            ("FREQ=YEARLY;BYWEEKNO=53;BYDAY=SA", "2094: 1/2 2100: 1/2 2106: 1/2"),
            ("FREQ=YEARLY;BYWEEKNO=-53;BYDAY=TH", "2099: 1/1 2105: 1/1 2111: 1/1"),
            ("FREQ=YEARLY;BYEASTER=-2", "2093: 4/10 2094: 4/2 2095: 4/22"),
            ("FREQ=MONTHLY;BYMONTHDAY=13;BYDAY=FR", "2093: 2/13 3/13 11/13"),
            ("FREQ=YEARLY;INTERVAL=99;BYMONTH=3", "2093: 3/2 2192: 3/2 2291: 3/2"),
        ],
    )
    def test_they_are_found(self, rule: str, expected: str) -> None:
        text = f"DTSTART:20930102T090000Z\nRRULE:{rule}"
        found = days(RecurrenceTrigger(text), 3)
        assert found.startswith(expected)


class TestWeeks:
    @pytest.mark.parametrize(
        ("start", "rule", "expected"),
        [
            # The day of the week is that of the start.
            (
                "20240104",
                "BYWEEKNO=7",
                "2024-02-15 2025-02-13 2026-02-12 2027-02-18",
            ),
            (
                "20240104",
                "BYWEEKNO=7,8;BYMONTH=2",
                "2024-02-15 2024-02-22 2025-02-13 2025-02-20",
            ),
            # A week that begins in december belongs to the year of its middle.
            (
                "20180101",
                "BYWEEKNO=1;BYDAY=MO,TH;BYSETPOS=1",
                "2018-01-01 2018-12-31 2019-12-30 2021-01-04",
            ),
            (
                "20181231",
                "INTERVAL=2;BYWEEKNO=1;BYDAY=MO",
                "2018-12-31 2021-01-04 2023-01-02 2024-12-30",
            ),
            (
                "20200101",
                "BYWEEKNO=1,53;BYDAY=SA,SU;BYSETPOS=-1;WKST=SU",
                "2021-01-02 2021-01-09 2022-01-08 2023-01-07",
            ),
        ],
    )
    def test_they_make_up_years(self, start: str, rule: str, expected: str) -> None:
        text = f"DTSTART:{start}T090000Z\nRRULE:FREQ=YEARLY;{rule}"
        trigger = RecurrenceTrigger(text)
        after: datetime | None = datetime(2017, 1, 1, tzinfo=UTC)
        found = []
        for _ in range(4):
            assert after is not None
            after = trigger.next_fire_time(after)
            found.append(f"{after:%Y-%m-%d}")
        assert found == expected.split()

    def test_at_the_ends_of_time_they_are_cut(self) -> None:
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

    def test_it_fires_only_if_it_matches(self) -> None:
        text = "DTSTART:20250121T093400Z\nRRULE:FREQ=MONTHLY;COUNT=2;BYMONTHDAY="
        assert [
            f"{each:%m-%d}"
            for day in (21, 5)
            for each in fire_times(RecurrenceTrigger(f"{text}{day}"), LONG_AGO, 9)
        ] == ["01-21", "02-21", "02-05", "03-05"]

    def test_what_the_rule_leaves_open_is_taken_from_it(self) -> None:
        text = "DTSTART;TZID=America/New_York:20250131T123456\nRRULE:FREQ="
        for rule, expected in (
            ("YEARLY", "2026-01-31 12:34:56"),
            ("YEARLY;BYMONTH=3", "2025-03-31 12:34:56"),
            ("MONTHLY", "2025-03-31 12:34:56"),
            ("WEEKLY", "2025-02-07 12:34:56"),
            ("DAILY;BYHOUR=7", "2025-02-01 07:34:56"),
            ("HOURLY", "2025-01-31 13:34:56"),
            ("HOURLY;BYMINUTE=0", "2025-01-31 13:00:56"),
            ("MINUTELY", "2025-01-31 12:35:56"),
            ("SECONDLY", "2025-01-31 12:34:57"),
        ):
            trigger = RecurrenceTrigger(text + rule)
            start = datetime(2025, 1, 31, 12, 34, 56, tzinfo=NEW_YORK)
            found = trigger.next_fire_time(start)
            assert found is not None
            assert f"{found.astimezone(NEW_YORK):%Y-%m-%d %H:%M:%S}" == expected

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

    def test_an_anchor_is_an_aware_datetime(self) -> None:
        with pytest.raises(InvalidTriggerError, match="anchored_at has no time zone"):
            RecurrenceTrigger("FREQ=DAILY", anchored_at=NOW.replace(tzinfo=None))

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

    @pytest.mark.parametrize("frequency", ["DAILY", "HOURLY", "MINUTELY", "SECONDLY"])
    def test_a_long_series_is_counted(self, frequency: str) -> None:
        every = {"DAILY": 86_400, "HOURLY": 3600, "MINUTELY": 60, "SECONDLY": 1}
        trigger = RecurrenceTrigger(f"FREQ={frequency};COUNT=7000", start=NOW)
        start = NOW.replace(microsecond=0)
        last = start + 6999 * timedelta(seconds=every[frequency])
        assert trigger.next_fire_time(last) is None
        assert trigger.next_fire_time(last - MICROSECOND) == last
        assert trigger.next_fire_time(LONG_AGO) == start

    def test_count_is_of_the_rule_before_anything_is_excluded(self) -> None:
        trigger = RecurrenceTrigger(
            "DTSTART:20250101T120000Z\nRRULE:FREQ=DAILY;COUNT=3\n"
            "EXDATE:20250102T120000Z\nRDATE:20250110T000000Z"
        )
        found = fire_times(trigger, LONG_AGO, 9)
        assert [each.day for each in found] == [1, 3, 10]

    @pytest.mark.parametrize(
        ("until", "kept"),
        [
            ("20250103T170000Z", "20250103T170000Z"),
            ("20250103T120000", "20250103T170000Z"),
            ("20250103", "20250104T045959Z"),
            ("20250104T165959Z", "20250104T165959Z"),
        ],
    )
    def test_until_is_the_last_time_that_may_fire(self, until: str, kept: str) -> None:
        trigger = RecurrenceTrigger(
            "DTSTART;TZID=America/New_York:20250101T120000\n"
            f"RRULE:FREQ=DAILY;UNTIL={until}"
        )
        assert trigger.rule.endswith(f"UNTIL={kept}")
        found = fire_times(trigger, LONG_AGO, 9)
        assert [each.day for each in found] == [1, 2, 3]

    @pytest.mark.parametrize(
        ("timezone", "until", "kept"),
        [
            ("America/New_York", "20241103T013000", "20241103T063000Z"),
            ("America/New_York", "20240310T023000", "20240310T065959Z"),
            ("Pacific/Apia", "20111230", "20111230T095959Z"),
            ("America/New_York", "99991231", "99991231T235959Z"),
        ],
    )
    def test_until_is_when_the_clock_shows_it_for_the_last_time(
        self, timezone: str, until: str, kept: str
    ) -> None:
        trigger = RecurrenceTrigger(f"FREQ=DAILY;UNTIL={until}", timezone)
        assert trigger.rule.endswith(f"UNTIL={kept}")

    def test_none_is_found_in_a_hundred_years(self) -> None:
        trigger = RecurrenceTrigger(
            "DTSTART:20000229T000000Z\nRRULE:FREQ=YEARLY;INTERVAL=100"
        )
        (only,) = fire_times(trigger, LONG_AGO, 9)
        assert only.year == 2000
        assert trigger.next_fire_time(datetime(2350, 1, 1, tzinfo=UTC)) is not None


class TestSets:
    def test_several_rules_fire_together(self) -> None:
        trigger = RecurrenceTrigger(
            "DTSTART:20250101T120000Z\nRRULE:FREQ=WEEKLY;BYDAY=MO\n"
            "RRULE:FREQ=MONTHLY;BYMONTHDAY=1,6"
        )
        found = fire_times(trigger, LONG_AGO, 5)
        assert [each.day for each in found] == [1, 6, 13, 20, 27]

    def test_dates_are_added(self) -> None:
        trigger = RecurrenceTrigger(
            "DTSTART;TZID=America/New_York:20250101T120000\n"
            "RRULE:FREQ=DAILY;UNTIL=20250102\n"
            "RDATE;TZID=America/New_York:20250102T120000,20250101T130000\n"
            "RDATE:20250101T173000,20250101T173000Z\nRDATE:20250709T000000Z"
        )
        found = fire_times(trigger, LONG_AGO, 9)
        assert [f"{each:%d %H:%M}" for each in found] == [
            *("01 17:00", "01 17:30", "01 18:00", "01 22:30"),
            *("02 17:00", "09 00:00"),
        ]

    def test_times_and_whole_days_are_excluded(self) -> None:
        trigger = RecurrenceTrigger(
            "DTSTART;TZID=America/New_York:20250101T000000\nRRULE:FREQ=HOURLY\n"
            "RDATE:20250101T073000Z,20250101T083000Z,20250102T063000Z\n"
            "EXDATE:20250101T060000Z,20250101T073000Z\n"
            "EXDATE;VALUE=DATE:20250102,20250103\n"
            "EXDATE;TZID=America/New_York:20250101T000000,20250101T033000"
        )
        found = [
            each.astimezone(NEW_YORK) for each in fire_times(trigger, LONG_AGO, 24)
        ]
        assert [f"{each:%H:%M}" for each in found[:3]] == ["02:00", "03:00", "04:00"]
        assert [f"{each:%d %H:%M}" for each in found[20:23]] == [
            *("01 22:00", "01 23:00", "04 00:00"),
        ]

    def test_a_fixed_rule_skips_excluded_days_and_times(self) -> None:
        trigger = RecurrenceTrigger(
            "DTSTART;TZID=America/New_York:20250101T090000\n"
            "RRULE:FREQ=DAILY;BYHOUR=9,17\nRDATE:20250103T103000\n"
            "EXDATE:20250101T090000,20250103T103000\nEXDATE;VALUE=DATE:20250102"
        )
        found = [each.astimezone(NEW_YORK) for each in fire_times(trigger, LONG_AGO, 3)]
        assert [f"{each:%d %H}" for each in found] == ["01 17", "03 09", "03 17"]

    def test_dates_alone_are_a_set(self) -> None:
        trigger = RecurrenceTrigger("RDATE:20250102T000000Z,20250101T000000Z")
        found = fire_times(trigger.anchored(NOW), NOW, 9)
        assert [each.day for each in found] == [1, 2]
        assert trigger.describe() == (
            "on 1 january 2025 at 00:00 and 2 january 2025 at 00:00"
        )

    def test_hundreds_of_dates_are_excluded(self) -> None:
        start = datetime(2025, 1, 1, tzinfo=UTC)
        excluded = [start + timedelta(days=each) for each in range(900)]
        dates = ",".join(f"{each:%Y%m%dT%H%M%SZ}" for each in excluded)
        trigger = RecurrenceTrigger(f"FREQ=DAILY\nEXDATE:{dates}", start=start)
        assert trigger.next_fire_time(LONG_AGO) == start + timedelta(days=900)
        assert len(json.dumps(dict(trigger.to_dict()))) < 16_500


class TestDescription:
    @pytest.mark.parametrize(
        ("rule", "phrase"),
        [
            ("DAILY;BYHOUR=9;BYMINUTE=0", "every day at 09:00"),
            ("DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=5", "every day at 09:00:05"),
            (
                "DAILY;BYHOUR=8,12,16;BYMINUTE=0;BYSECOND=0",
                "every day at 08:00, 12:00 and 16:00",
            ),
            ("DAILY;INTERVAL=2;BYHOUR=7;BYMINUTE=15", "every 2 days at 07:15"),
            (
                "DAILY;BYMONTH=1,7;BYHOUR=7;BYMINUTE=15",
                "every day in january and july at 07:15",
            ),
            ("DAILY", "every day"),
            ("WEEKLY", "every week"),
            ("MONTHLY;INTERVAL=2", "every 2 months"),
            (
                "WEEKLY;BYDAY=FR,WE,MO;BYHOUR=9;BYMINUTE=0",
                "every monday, wednesday and friday at 09:00",
            ),
            (f"WEEKLY;BYDAY={WORKDAYS};BYHOUR=8;BYMINUTE=30", "every weekday at 08:30"),
            (f"DAILY;BYDAY={WORKDAYS};BYHOUR=8;BYMINUTE=30", "every weekday at 08:30"),
            (
                "WEEKLY;BYDAY=SA,SU;BYHOUR=10;BYMINUTE=0",
                "every weekend at 10:00",
            ),
            (
                f"WEEKLY;BYDAY={WORKDAYS},SA,SU;BYHOUR=10;BYMINUTE=0",
                "every day at 10:00",
            ),
            (
                "WEEKLY;INTERVAL=2;BYDAY=TU;BYHOUR=9;BYMINUTE=34",
                "every other tuesday at 09:34",
            ),
            (
                "WEEKLY;INTERVAL=2;BYDAY=TU,FR;BYHOUR=9;BYMINUTE=34",
                "every 2 weeks on tuesday and friday at 09:34",
            ),
            ("WEEKLY;INTERVAL=2;BYDAY=SA,SU", "every 2 weeks on weekends"),
            (
                "WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU",
                "every 2 weeks on tuesday and sunday, of weeks that begin on sunday",
            ),
            ("WEEKLY;INTERVAL=2;BYDAY=TU;WKST=SU", "every other tuesday"),
            (
                "MONTHLY;BYDAY=SA,SU;BYSETPOS=1",
                "the first saturday or sunday of every month",
            ),
            ("WEEKLY;BYMONTH=5", "every week in may"),
            ("WEEKLY;INTERVAL=2;BYMONTH=5;BYDAY=MO", "every other monday in may"),
            ("DAILY;INTERVAL=2;BYDAY=MO,FR", "every 2 days on monday and friday"),
            ("DAILY;INTERVAL=3;BYMONTHDAY=1,15", "every 3 days on the 1st and 15th"),
            (
                "MONTHLY;INTERVAL=2;BYMONTH=5,6;BYDAY=-1FR",
                "every 2 months on the last friday in may and june",
            ),
            ("MINUTELY;BYDAY=SA,SU", "every minute on weekends"),
            (f"MINUTELY;BYDAY={WORKDAYS},SA,SU", "every minute"),
            (
                f"WEEKLY;INTERVAL=2;BYDAY={WORKDAYS},SA,SU",
                "every 2 weeks on weekdays and weekends",
            ),
            (
                f"MONTHLY;BYDAY={WORKDAYS},SA,SU;BYSETPOS=-1",
                "the last day of every month",
            ),
            (
                f"WEEKLY;INTERVAL=3;BYDAY={WORKDAYS};BYHOUR=9;BYMINUTE=34",
                "every 3 weeks on weekdays at 09:34",
            ),
            (
                "MONTHLY;BYDAY=2TU;BYHOUR=10;BYMINUTE=0",
                "the second tuesday of every month at 10:00",
            ),
            (
                "MONTHLY;BYDAY=-1FR;BYHOUR=17;BYMINUTE=0",
                "the last friday of every month at 17:00",
            ),
            (
                "MONTHLY;BYDAY=1MO,-2MO;BYHOUR=9;BYMINUTE=0",
                "the first monday and second to last monday of every month at 09:00",
            ),
            (
                "MONTHLY;BYMONTHDAY=15,1;BYHOUR=9;BYMINUTE=0",
                "the 1st and 15th of every month at 09:00",
            ),
            (
                "MONTHLY;BYMONTHDAY=-1;BYHOUR=0;BYMINUTE=0",
                "the last day of every month at 00:00",
            ),
            (
                "MONTHLY;BYMONTHDAY=2,3,11,22,-1;BYMONTH=5",
                "the 2nd, 3rd, 11th, 22nd and last day of may",
            ),
            (
                f"MONTHLY;BYDAY={WORKDAYS};BYSETPOS=1;BYHOUR=9;BYMINUTE=0",
                "the first weekday of every month at 09:00",
            ),
            (
                "MONTHLY;BYDAY=MO,FR;BYSETPOS=-1",
                "the last monday or friday of every month",
            ),
            (
                "MONTHLY;INTERVAL=3;BYMONTHDAY=15;BYHOUR=9;BYMINUTE=0",
                "every 3 months on the 15th at 09:00",
            ),
            (
                "YEARLY;BYMONTH=12;BYMONTHDAY=25;BYHOUR=8;BYMINUTE=0",
                "every year on 25 december at 08:00",
            ),
            (
                "YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29",
                "every 4 years on 29 february",
            ),
            (
                "YEARLY;BYMONTH=11;BYDAY=4TH;BYHOUR=9;BYMINUTE=0",
                "the fourth thursday of november at 09:00",
            ),
            (
                "YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=1MO",
                "every 4 years on the first monday of november",
            ),
            ("YEARLY;BYDAY=20MO", "the 20th monday of every year"),
            ("YEARLY;BYMONTHDAY=13", "the 13th of every month"),
            ("YEARLY;BYMONTH=1,7;BYMONTHDAY=1", "the 1st of january and july"),
            ("HOURLY", "every hour"),
            ("HOURLY;BYMINUTE=0", "every hour"),
            ("HOURLY;INTERVAL=2;BYMINUTE=30", "every 2 hours at minute 30"),
            ("HOURLY;BYMINUTE=0,30", "every hour at minutes 0 and 30"),
            (
                f"HOURLY;BYHOUR=9,10,11;BYMINUTE=0;BYDAY={WORKDAYS}",
                "every hour between 09:00 and 11:00 on weekdays",
            ),
            ("MINUTELY;INTERVAL=15", "every 15 minutes"),
            (
                "MINUTELY;BYHOUR=9,10;BYDAY=MO,FR;BYMONTH=3",
                "every minute between 09:00 and 10:59 on mondays and fridays in march",
            ),
            ("SECONDLY;INTERVAL=10", "every 10 seconds"),
            ("DAILY;BYHOUR=9;BYMINUTE=0;COUNT=10", "every day at 09:00, 10 times"),
            ("DAILY;BYHOUR=9;BYMINUTE=0;COUNT=1", "every day at 09:00, once"),
            (
                "DAILY;BYHOUR=9;BYMINUTE=0;UNTIL=20251231",
                "every day at 09:00 until 31 december 2025",
            ),
            (
                "DAILY;BYHOUR=9;BYMINUTE=0;UNTIL=20251231T170000",
                "every day at 09:00 until 31 december 2025 at 17:00",
            ),
        ],
    )
    def test_it_is_a_phrase_as_people_say_it(self, rule: str, phrase: str) -> None:
        trigger = RecurrenceTrigger(f"FREQ={rule}", "America/New_York")
        assert trigger.describe() == phrase

    @pytest.mark.parametrize(
        ("rule", "phrase"),
        [
            (
                "YEARLY;BYWEEKNO=20,-1;BYDAY=MO;BYHOUR=9;BYMINUTE=0",
                "every year, in the 20th and last week of the year, on monday, at"
                " 09:00",
            ),
            (
                "YEARLY;BYYEARDAY=100,-2",
                "every year, on the 100th and second to last day of the year",
            ),
            (
                "YEARLY;BYEASTER=0,-2,1",
                "every year, on the 2nd day before easter sunday, easter sunday and"
                " the 1st day after easter sunday",
            ),
            (
                "MONTHLY;BYMONTHDAY=13;BYDAY=FR",
                "every month, on the 13th of the month, on friday",
            ),
            (
                "MONTHLY;BYDAY=FR,2TU",
                "every month, on the second tuesday of the month and friday",
            ),
            (
                "YEARLY;BYDAY=FR,-1TU",
                "every year, on friday and the last tuesday of the year",
            ),
            (
                "MONTHLY;BYMONTHDAY=28,29,30,31;BYSETPOS=-1",
                "every month, on the 28th, 29th, 30th and 31st of the month, only the"
                " last time of each month",
            ),
            (
                "MONTHLY;BYDAY=1MO;BYSETPOS=1",
                "every month, on the first monday of the month, only the first time of"
                " each month",
            ),
            (
                "YEARLY;INTERVAL=2;BYMONTHDAY=1",
                "every 2 years, on the 1st of the month",
            ),
            ("MONTHLY;INTERVAL=2;BYDAY=MO", "every 2 months, on monday"),
            (
                "MONTHLY;BYMONTH=5;BYMONTHDAY=13;BYDAY=FR",
                "every month, in may, on the 13th of the month, on friday",
            ),
            ("DAILY;BYHOUR=9", "every day, at hour 9"),
            (
                "DAILY;BYHOUR=9,10;BYMINUTE=1,2,3,4,5",
                "every day, at hours 9 and 10, at minutes 1 to 5",
            ),
            (
                "DAILY;BYHOUR=9,10;BYMINUTE=0;BYSETPOS=2",
                "every day, at 09:00 and 10:00, only the second time of each day",
            ),
            (
                "HOURLY;BYHOUR=9,11;BYMINUTE=0",
                "every hour, at hours 9 and 11, at minute 0",
            ),
            ("MINUTELY;BYMINUTE=1", "every minute, at minute 1"),
            (
                "WEEKLY;BYDAY=MO,SU;BYSETPOS=1;BYHOUR=1,2;WKST=SU",
                "every week, on monday and sunday, at hours 1 and 2, only the first"
                " time of each week, of weeks that begin on sunday",
            ),
            (
                "YEARLY;BYWEEKNO=20;WKST=SU",
                "every year, in the 20th week of the year, of weeks that begin on"
                " sunday",
            ),
            ("MINUTELY;INTERVAL=7;BYHOUR=9,10", "every 7 minutes, at hours 9 and 10"),
            ("MINUTELY;BYSECOND=30", "every minute, at second 30"),
            ("SECONDLY;BYHOUR=9", "every second, at hour 9"),
            ("HOURLY;BYMONTHDAY=1", "every hour, on the 1st of the month"),
        ],
    )
    def test_or_part_by_part(self, rule: str, phrase: str) -> None:
        assert RecurrenceTrigger(f"FREQ={rule}").describe() == phrase

    @pytest.mark.parametrize(
        ("rule", "phrase"),
        [
            (
                "MINUTELY;INTERVAL=15;BYHOUR=9,10,11;BYDAY=MO,TU,WE,TH,FR",
                "every 15 minutes between 09:10 and 11:55 on weekdays",
            ),
            ("MINUTELY;INTERVAL=10", "every 10 minutes"),
            ("HOURLY", "every hour at minute 40"),
            ("WEEKLY;INTERVAL=2", "every other tuesday at 14:40"),
            ("MONTHLY", "the 21st of every month at 14:40"),
            ("YEARLY", "every year on 21 january at 14:40"),
        ],
    )
    def test_what_is_left_open_is_told_from_the_start(
        self, rule: str, phrase: str
    ) -> None:
        trigger = RecurrenceTrigger(f"DTSTART:20250121T144000Z\nRRULE:FREQ={rule}")
        assert trigger.describe() == f"{phrase} starting 2025-01-21 14:40:00"

    def test_a_set_is_described_rule_by_rule(self) -> None:
        trigger = RecurrenceTrigger(
            "DTSTART;TZID=America/New_York:20250101T090000\nRRULE:FREQ=DAILY\n"
            "RRULE:FREQ=MONTHLY;BYMONTHDAY=1;BYHOUR=12\nRDATE:20250105T150000Z\n"
            "EXDATE;VALUE=DATE:20251225"
        )
        assert trigger.describe() == (
            "every day at 09:00, and the 1st of every month at 12:00, and on 5 january"
            " 2025 at 10:00, except on 25 december 2025 starting 2025-01-01 09:00:00"
        )

    def test_many_dates_are_counted(self) -> None:
        dates = ",".join(f"2025010{day}T000000Z" for day in range(1, 8))
        trigger = RecurrenceTrigger(f"FREQ=DAILY\nEXDATE:{dates}")
        assert trigger.describe() == "every day, except at 7 listed times"


class TestWarnings:
    @pytest.mark.parametrize(
        ("rule", "warning"),
        [
            ("MONTHLY;BYMONTHDAY=31", "passes over each month that has no day 31"),
            ("MONTHLY;BYMONTHDAY=15,30", "passes over each month that has no day 30"),
            ("MONTHLY;BYMONTH=4;BYMONTHDAY=30", None),
            ("MONTHLY;BYMONTHDAY=28,29,30,31", None),
            ("MONTHLY;BYMONTHDAY=28,31;BYSETPOS=-1", None),
            ("MONTHLY;BYMONTHDAY=-1", None),
            ("YEARLY;BYMONTH=2;BYMONTHDAY=29", "has no day 29"),
            ("MONTHLY;BYDAY=5FR", "passes over each month that has only 4 of that day"),
            ("MONTHLY;BYDAY=-5FR,1MO", "passes over each month"),
            ("YEARLY;BYDAY=53FR", "passes over each year that has only 52 of that day"),
            ("YEARLY;BYDAY=5FR", None),
            ("DAILY", None),
        ],
    )
    def test_days_that_are_passed_over(self, rule: str, warning: str | None) -> None:
        found = RecurrenceTrigger(f"FREQ={rule};BYHOUR=12").warnings(NOW)
        if warning is None:
            assert found == []
        else:
            (only,) = found
            assert warning in only

    def test_a_day_taken_from_the_start_is_one_of_them(self) -> None:
        trigger = RecurrenceTrigger("FREQ=MONTHLY")
        assert trigger.warnings(NOW) == []
        (warning,) = trigger.anchored(NOW + timedelta(days=1)).warnings(NOW)
        assert "has no day 29" in warning

    @pytest.mark.parametrize(
        ("excluded", "idle"),
        [
            ("EXDATE:20250105T090000", False),
            ("EXDATE:20250105T140000Z", False),
            ("EXDATE;VALUE=DATE:20250105", False),
            ("EXDATE:20250105T091000", True),
            ("EXDATE:20250105T090000Z", True),
            ("EXDATE;VALUE=DATE:20241231", True),
            ("EXDATE:00010101T000000Z", True),
        ],
    )
    def test_an_exception_that_excludes_nothing(
        self, excluded: str, idle: bool
    ) -> None:
        trigger = RecurrenceTrigger(
            "DTSTART;TZID=America/New_York:20250101T090000\nRRULE:FREQ=DAILY\n"
            f"{excluded}"
        )
        found = trigger.warnings(NOW)
        assert len(found) == idle
        if idle:
            assert f"{excluded.split(':')[1]} excludes nothing" in found[0]

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
