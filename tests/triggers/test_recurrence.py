from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers.base import dump_trigger, load_trigger
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
from tests.triggers.test_fire_time_sets import rules

NEW_YORK = "America/New_York"
NOW = datetime(2024, 2, 28, 23, 59, 30, 250_000, tzinfo=UTC)
LONG_AGO = datetime.min.replace(tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


@pytest.mark.parametrize(("text", "expected"), table("triggers/recurrence_times"))
def test_it_fires_then(text: str, expected: str) -> None:
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


def test_weeks_are_cut_at_the_ends_of_time() -> None:
    text = "DTSTART:{}T090000Z\nRRULE:FREQ=YEARLY;BYWEEKNO=1;BYDAY=SU,MO;BYSETPOS=1"
    first = RecurrenceTrigger(text.format("00010101") + ";WKST=SU")
    begin = datetime.min.replace(tzinfo=UTC)
    assert first.next_fire_time(begin) == datetime(1, 1, 1, 9, tzinfo=UTC)
    last = RecurrenceTrigger(text.format("99980101"))
    end = datetime(9999, 2, 1, tzinfo=UTC)
    assert last.next_fire_time(end) is None


class TestStart:
    def test_it_may_be_in_the_text_or_an_argument(self) -> None:
        start = datetime(2025, 1, 21, 9, 34, 5, 999_999, tzinfo=ZoneInfo(NEW_YORK))
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


def test_count_counts_from_the_start() -> None:
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


def test_dates_alone_are_a_set() -> None:
    trigger = RecurrenceTrigger("RDATE:20250102T000000Z,20250101T000000Z")
    found = fire_times(trigger.anchored(NOW), NOW, 9)
    assert [each.day for each in found] == [1, 2]


def test_hundreds_of_dates_are_excluded() -> None:
    start = datetime(2025, 1, 1, tzinfo=UTC)
    excluded = [start + timedelta(days=each) for each in range(900)]
    dates = ",".join(f"{each:%Y%m%dT%H%M%SZ}" for each in excluded)
    trigger = RecurrenceTrigger(f"FREQ=DAILY\nEXDATE:{dates}", start=start)
    assert trigger.next_fire_time(LONG_AGO) == start + timedelta(days=900)
    assert len(json.dumps(dict(trigger.to_dict()))) < 16_500


@pytest.mark.parametrize(("rule", "phrase"), table("triggers/recurrence_descriptions"))
def test_it_says_when_it_fires(rule: str, phrase: str) -> None:
    trigger = RecurrenceTrigger(f"FREQ={rule}", "America/New_York")
    assert trigger.describe() == phrase


@pytest.mark.parametrize(("text", "phrase"), table("triggers/recurrence_sets"))
def test_a_set_is_described_rule_by_rule(text: str, phrase: str) -> None:
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


@settings(deadline=None, max_examples=15)
@given(
    rule=st.sampled_from([*FIXED, *ELAPSED]),
    change=near_changes(),
    time=st.sampled_from(["000000", "013000", "021500", "120000"]),
    gap=st.sampled_from(["next", "next", "skip"]),
    overlap=st.sampled_from(["first", "first", "second", "both"]),
)
def test_it_fires_when_a_walk_along_the_clock_does(
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


def test_it_starts_with_the_first_of_two_equal_times() -> None:
    trigger = RecurrenceTrigger("FREQ=HOURLY", "America/New_York")
    second = datetime(2024, 11, 3, 6, 30, tzinfo=UTC)
    scheduled = trigger.anchored(second)
    assert scheduled.next_fire_time(second - DAY) == second + HOUR


SCHEDULED = datetime(2024, 2, 28, 23, 59, 30, tzinfo=UTC)
START = "DTSTART;TZID=America/New_York:20250121T093400"
QUICK = timedelta(seconds=1)
"""Far more than anything takes, on a machine that has other work as well."""


class TestText:
    @pytest.mark.parametrize(
        ("text", "timezone", "rule"),
        [
            *table("triggers/recurrence_spellings"),
            (
                "RRULE:FREQ=WEEKLY;BYDAY=M\r\n O,TU;BYHO\r\n\tUR=9\r\n\r\n",
                *("UTC", "RRULE:FREQ=WEEKLY;BYDAY=MO,TU;BYHOUR=9"),
            ),
            ("FREQ=DAILY\rRRULE:FREQ=DAILY", "UTC", "RRULE:FREQ=DAILY"),
            (
                f"\n  {START}\n  RRULE:FREQ=DAILY\n",
                NEW_YORK,
                f"{START}\nRRULE:FREQ=DAILY",
            ),
        ],
    )
    def test_there_are_several_ways_to_write_it(
        self, text: str, timezone: str, rule: str
    ) -> None:
        trigger = RecurrenceTrigger(text, timezone)
        assert (trigger.rule, trigger.timezone) == (rule, timezone)
        again = RecurrenceTrigger(rule, ZoneInfo(timezone))
        assert again == trigger
        assert hash(again) == hash(trigger)

    def test_its_parts_have_an_order(self) -> None:
        text = (
            "FREQ=YEARLY;INTERVAL=2;UNTIL=20300101T000000Z;WKST=SU;BYMONTH=1,12;"
            "BYYEARDAY=7,300,-366,-1;BYMONTHDAY=1,31,-31,-1;BYDAY=MO,3FR,-1MO;"
            "BYEASTER=-2,0,9;BYHOUR=0,23;BYMINUTE=0,59;BYSECOND=0,59;BYSETPOS=1,-2,-1"
        )
        parts = text.split(";")
        shuffled = ";".join([*parts[5:], *parts[:5]])
        shuffled = shuffled.replace("MO,3FR,-1MO", "-1MO,+3FR,MO")
        # Such a set has no common day: it cannot be a trigger.
        with pytest.raises(InvalidTriggerError, match="never fires") as refused:
            RecurrenceTrigger(shuffled)
        assert f": {text} never fires" in str(refused.value)

    def test_triggers_differ_if_their_sets_do(self) -> None:
        triggers = {
            RecurrenceTrigger("FREQ=DAILY"),
            RecurrenceTrigger("FREQ=DAILY", NEW_YORK),
            RecurrenceTrigger("FREQ=DAILY", gap="skip"),
            RecurrenceTrigger("FREQ=DAILY", overlap="both"),
            RecurrenceTrigger("FREQ=DAILY", start=SCHEDULED),
            RecurrenceTrigger("FREQ=DAILY;INTERVAL=2"),
            RecurrenceTrigger("FREQ=DAILY;COUNT=2"),
            RecurrenceTrigger("FREQ=DAILY;WKST=SU"),
        }
        assert len(triggers) == 8

    def test_it_is_stored_as_text_with_what_is_not_the_default(self) -> None:
        trigger = RecurrenceTrigger("FREQ=DAILY", start=SCHEDULED)
        state = dict(trigger.to_dict())
        assert state.pop("anchored_at") is None
        assert state == {
            "rule": "DTSTART:20240228T235930Z\nRRULE:FREQ=DAILY",
            "timezone": "UTC",
        }
        assert RecurrenceTrigger.from_dict(state) == trigger
        other = RecurrenceTrigger("FREQ=DAILY", gap="skip", overlap="both")
        assert RecurrenceTrigger.from_dict(other.to_dict()) == other


REFUSED = [
    *table("triggers/recurrence_refusals"),
    (None, "must be text"),
    (7, "must be text"),
    (b"FREQ=DAILY", "must be text"),
    (" \r\n\t", "it has no rule"),
    ("FREQ=DAILY\0", r"'\x00' (U+0000) is not allowed"),
    ("FREQ=DAILY\x0bRRULE:FREQ=DAILY", "(U+000B) is not allowed"),
    ("FREQ=DAILY\u2028", "(U+2028) is not allowed"),
    ("FREQ=DAILY;\ud800", "(U+D800) is not allowed"),
    ("FREQ=DAILY" + " " * 16_384, "at most 16384 are read"),
    ("FREQ=DAILY;INTERVAL=" + "9" * 5000, "INTERVAL '999"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_it_says_what_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(InvalidTriggerError) as refused:
        RecurrenceTrigger(text)
    assert reason in str(refused.value)
    assert len(str(refused.value)) < 700
    str(refused.value).encode(errors="backslashreplace")


PARTS = (
    "FREQ INTERVAL COUNT UNTIL WKST BYDAY BYMONTH BYWEEKNO BYYEARDAY BYMONTHDAY"
    " BYEASTER BYHOUR BYMINUTE BYSECOND BYSETPOS"
)
DAYS = "MO TU WE TH FR SA SU 1MO -1FR 5WE 2TU"
NAMES = st.sampled_from(PARTS.split())
NUMBERS = st.lists(st.integers(-370, 370), min_size=1, max_size=4).map(
    lambda numbers: ",".join(map(str, numbers))
)
SMALL = st.lists(st.integers(1, 12), min_size=1, max_size=4).map(
    lambda numbers: ",".join(map(str, numbers))
)
WEEKDAYS = st.lists(
    st.sampled_from(DAYS.split()),
    min_size=1,
    max_size=4,
).map(",".join)
MOMENTS = st.datetimes(datetime(1990, 1, 1), datetime(2040, 1, 1)).map(  # noqa: DTZ001
    lambda moment: f"{moment:%Y%m%dT%H%M%S}"
)
EVERY = "YEARLY MONTHLY WEEKLY DAILY HOURLY MINUTELY SECONDLY"
FREQUENCIES = st.sampled_from(EVERY.split())
VALUES = st.one_of(NUMBERS, SMALL, WEEKDAYS, MOMENTS, FREQUENCIES)
NONSENSE = st.text(
    alphabet="FREQDAILY=;:,-+0123456789TZ \n\t\rBYMOEXDT\x00é", max_size=60
)


def check(text: str) -> None:
    """Refused, or a trigger that answers and is the same when it is read again."""
    try:
        trigger = RecurrenceTrigger(text)
    except InvalidTriggerError:
        return
    assert RecurrenceTrigger(trigger.rule, trigger.timezone) == trigger
    scheduled = trigger.anchored(SCHEDULED)
    kind, state = dump_trigger(scheduled)
    assert load_trigger(kind, json.loads(json.dumps(state))) == trigger
    assert trigger.describe()
    list(trigger.warnings(SCHEDULED))
    after = datetime(1980, 1, 1, tzinfo=UTC)
    for _ in range(3):
        found = scheduled.next_fire_time(after)
        if found is None:
            break
        assert found > after
        after = found


@settings(deadline=QUICK, max_examples=180)
@given(
    st.text(max_size=60)
    | NONSENSE
    | NONSENSE.map("FREQ=DAILY".__add__)
    | st.builds(
        lambda before, parts: (
            before
            + "RRULE:"
            + ";".join(f"{name}={value}" for name, value in parts.items())
        ),
        st.sampled_from(["", f"{START}\n", "RDATE:20250601T000000Z\n"]),
        st.dictionaries(NAMES, VALUES, max_size=6),
    )
)
def test_it_is_refused_or_answers(text: str) -> None:
    check(text)


@settings(deadline=QUICK, max_examples=30)
@given(rules())
def test_what_is_read_is_read_again(trigger: RecurrenceTrigger) -> None:
    check(trigger.rule)
