from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers.recurrence import RecurrenceTrigger
from go_scheduler.triggers.stored import dump_trigger, load_trigger
from tests.case_tables import table
from tests.triggers.test_fire_time_sets import rules

NOW = datetime(2024, 2, 28, 23, 59, 30, tzinfo=UTC)
NEW_YORK = "America/New_York"
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
            RecurrenceTrigger("FREQ=DAILY", start=NOW),
            RecurrenceTrigger("FREQ=DAILY;INTERVAL=2"),
            RecurrenceTrigger("FREQ=DAILY;COUNT=2"),
            RecurrenceTrigger("FREQ=DAILY;WKST=SU"),
        }
        assert len(triggers) == 8

    def test_it_is_stored_as_text_with_what_is_not_the_default(self) -> None:
        trigger = RecurrenceTrigger("FREQ=DAILY", start=NOW)
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


class TestRefusal:
    @pytest.mark.parametrize(("text", "reason"), REFUSED)
    def test_it_says_what_is_wrong(self, text: str, reason: str) -> None:
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
    scheduled = trigger.anchored(NOW)
    kind, state = dump_trigger(scheduled)
    assert load_trigger(kind, json.loads(json.dumps(state))) == trigger
    assert trigger.describe()
    list(trigger.warnings(NOW))
    after = datetime(1980, 1, 1, tzinfo=UTC)
    for _ in range(3):
        found = scheduled.next_fire_time(after)
        if found is None:
            break
        assert found > after
        after = found


class TestAnyText:
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
    def test_it_is_refused_or_answers(self, text: str) -> None:
        check(text)

    @settings(deadline=QUICK, max_examples=30)
    @given(rules())
    def test_what_is_read_is_read_again(self, trigger: RecurrenceTrigger) -> None:
        check(trigger.rule)
