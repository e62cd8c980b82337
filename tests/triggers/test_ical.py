from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers import rule_calendars
from go_scheduler.triggers.rule_calendars import MOST_BYTES, read_ical
from tests.case_tables import table
from tests.triggers.combinations import brief, days_of_year

HOLIDAYS = Path(__file__).parent / "holidays.ics"


def file(*events: str) -> str:
    """A file of events, each given by its properties but for what all must have."""
    text = "".join(
        f"BEGIN:VEVENT\nUID:{number}\nDTSTAMP:20240101T000000Z\n{event}\nEND:VEVENT\n"
        for number, event in enumerate(events)
    )
    return f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:tests\n{text}END:VCALENDAR\n"


def days(event: str, year: int = 2024, timezone: str | None = None) -> list[str]:
    return days_of_year(read_ical(file(event), timezone), year)


class TestFile:
    @pytest.mark.parametrize(
        ("year", "zone", "expected"), table("triggers/ical_holidays")
    )
    def test_its_events_are_days(self, year: str, zone: str, expected: str) -> None:
        calendar = read_ical(HOLIDAYS, zone or None)
        assert days_of_year(calendar, int(year)) == expected.split()

    def test_it_may_be_text_or_bytes_with_any_end_of_line(self) -> None:
        calendar = read_ical(HOLIDAYS)
        text = HOLIDAYS.read_text()
        assert read_ical(text).days == calendar.days
        assert read_ical("\ufeff" + text.replace("\n", "\r\n")).days == calendar.days
        assert read_ical(text.encode()).days == calendar.days
        assert read_ical(f"\ufeff{text}".encode()).days == calendar.days

    def test_it_is_compared_by_its_days(self) -> None:
        event = "DTSTART;VALUE=DATE:20240501\nRRULE:FREQ=YEARLY"
        assert read_ical(file(event)) == read_ical(
            file(event, "STATUS:CANCELLED\n" + event)
        )
        assert read_ical(file(event)) != read_ical(file(event + ";COUNT=3"))

    def test_there_may_be_several_calendars_in_it_or_no_event(self) -> None:
        two = file("DTSTART;VALUE=DATE:20240501") + file("DTSTART;VALUE=DATE:20240502")
        assert days_of_year(read_ical(two), 2024) == ["05-01", "05-02"]
        assert days_of_year(read_ical(file()), 2024) == []


class TestEvents:
    @pytest.mark.parametrize(("event", "zone", "expected"), table("triggers/ical_days"))
    def test_an_event_is_the_days_it_touches(
        self, event: str, zone: str, expected: str
    ) -> None:
        assert days(event, timezone=zone or None) == expected.split()

    def test_an_occurrence_may_be_changed_by_its_time_elsewhere(self) -> None:
        text = file("@", "RECURRENCE-ID:20240508T070000Z\nDTSTART;VALUE=DATE:20240510")
        text = text.replace("UID:1", "UID:0").replace(
            "@",
            "DTSTART;TZID=Europe/Berlin:20240501T090000\nRRULE:FREQ=WEEKLY;COUNT=3",
        )
        expected = ["05-01", "05-10", "05-15"]
        assert days_of_year(read_ical(text), 2024) == expected

    def test_a_changed_occurrence_may_begin_when_it_would_have(self) -> None:
        event = "DTSTART;VALUE=DATE:20240501\nRRULE:FREQ=DAILY;COUNT=2"
        change = "RECURRENCE-ID;VALUE=DATE:20240502\nDTSTART;VALUE=DATE:20240502"
        text = file(event, change).replace("UID:1", "UID:0")
        assert days_of_year(read_ical(text), 2024) == ["05-01", "05-02"]

    @pytest.mark.parametrize("year", [1, 9999])
    @pytest.mark.parametrize("zone", [None, "Asia/Tokyo", "America/New_York"])
    def test_the_ends_of_time_are_no_obstacle(
        self, year: int, zone: str | None
    ) -> None:
        for start in ("0101T000000", "1231T220000"):
            event = f"DTSTART:{year:04}{start}Z\nDURATION:PT1H\nRRULE:FREQ=YEARLY"
            assert len(days(event, year, zone)) <= 2
            assert days(f"{event};COUNT=1", 2024, zone) == []
        event = "DTSTART;VALUE=DATE:99991201\nDURATION:P30D\nRRULE:FREQ=DAILY"
        assert len(days(event, 9999)) == 31


def broken(*events: str) -> str:
    return file("DTSTART;VALUE=DATE:20240501", *events)


class TestRefusals:
    @pytest.mark.parametrize(
        ("source", "message"),
        [
            (None, "must be given as its text, its bytes, or a Path"),
            (HOLIDAYS.parent / "nothing.ics", "cannot be read: .*No such file"),
            (Path("a\0b"), "cannot be read: .*null"),
            (str(HOLIDAYS), "has no BEGIN:VCALENDAR"),
            ("x" * (MOST_BYTES + 1), "larger than 2 MiB"),
            (b"\xff\xfe", "can't decode byte 0xff in position 0"),
            ("BEGIN:VCALENDAR", "line 1, 'VCALENDAR', never ends"),
            ("BEGIN:VEVENT\nEND:VEVENT", "line 1, 'BEGIN:VEVENT', is out of place"),
            (file("A:1").replace("END:VEVENT\n", ""), "line 8, 'END:VCALENDAR'"),
            (file("A:1").replace("END:VCALENDAR\n", ""), "line 1, 'VCALENDAR', never"),
            ("BEGIN:VCALENDAR\n" * 2, "line 2, 'BEGIN:VCALENDAR', is out of place"),
            ("BEGIN:VCALENDAR\n" + "BEGIN:A\n" * 100, "line 11, 'BEGIN:A'"),
            ("BEGIN:VCALENDAR\nrubbish\nEND:VCALENDAR", "cannot be read: .*rubbish"),
        ],
        ids=brief,
    )
    def test_what_is_no_file_is(self, source: Any, message: str) -> None:
        with pytest.raises(InvalidTriggerError, match=message):
            read_ical(source)

    @pytest.mark.parametrize(("event", "message"), table("triggers/ical_refusals"))
    def test_an_event_that_is_not_understood_is_named(
        self, event: str, message: str
    ) -> None:
        with pytest.raises(InvalidTriggerError, match=message) as caught:
            read_ical(broken(event))
        assert str(caught.value).startswith("event 2 (")

    def test_more_days_than_can_be_kept_are(self) -> None:
        long = "DTSTART;VALUE=DATE:20000101\nDTEND;VALUE=DATE:{}"
        with pytest.raises(InvalidTriggerError, match="too long"):
            read_ical(file(long.format("23000101")))
        with pytest.raises(InvalidTriggerError, match="more than 100,000 days"):
            read_ical(
                file(
                    long.format("22000101"),
                    "DTSTART;VALUE=DATE:22000101\nDTEND;VALUE=DATE:24000101",
                )
            )

    def test_more_recurring_events_than_can_be_kept_are(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        event = "DTSTART;VALUE=DATE:20240501\nRRULE:FREQ=YEARLY"
        monkeypatch.setattr(rule_calendars, "MOST_SERIES", 2)
        assert read_ical(file(event, event))
        with pytest.raises(InvalidTriggerError, match="3 recurring events; at most 2"):
            read_ical(file(event, event, event))
        with pytest.raises(InvalidTriggerError, match="add up to more than 100,000"):
            read_ical(file(f"{event};COUNT=50001", f"{event};COUNT=50000"))

    @pytest.mark.parametrize("timezone", ["Nowhere/Land", 5, "\ud800"], ids=brief)
    def test_what_is_no_zone_is(self, timezone: Any) -> None:
        with pytest.raises(InvalidTriggerError, match="time"):
            read_ical(file(), timezone)

    @settings(max_examples=60, deadline=None)
    @given(
        line=st.integers(0, 60),
        junk=st.text(max_size=20)
        | st.sampled_from(
            ["BEGIN:VEVENT", "END:VEVENT", "DTSTART:1", "RRULE:FREQ=DAILY"]
        ),
    )
    def test_a_damaged_file_raises_no_other_error(self, line: int, junk: str) -> None:
        lines = HOLIDAYS.read_text().splitlines()
        lines[line] = junk
        with suppress(InvalidTriggerError):
            read_ical("\n".join(lines))


def test_a_file_without_what_reads_it_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "icalendar", None)
    with pytest.raises(ModuleNotFoundError) as caught:
        read_ical(HOLIDAYS)
    assert str(caught.value) == (
        "iCalendar files need the extra 'calendars' of go_scheduler, which brings"
        " icalendar: in a checkout, pip install '.[calendars]'"
    )
