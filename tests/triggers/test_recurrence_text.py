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

NOW = datetime(2024, 2, 28, 23, 59, 30, tzinfo=UTC)
NEW_YORK = "America/New_York"
START = "DTSTART;TZID=America/New_York:20250121T093400"
QUICK = timedelta(seconds=1)
"""Far more than anything takes, on a machine that has other work as well."""


class TestText:
    @pytest.mark.parametrize(
        "text",
        [
            "FREQ=WEEKLY;BYDAY=MO,TU;BYHOUR=9",
            "RRULE:FREQ=WEEKLY;BYDAY=MO,TU;BYHOUR=9",
            "rrule:freq=weekly;byday=tu,mo;byhour=09",
            "  FREQ = WEEKLY ; BYDAY = MO , TU ; BYHOUR = +9 \n",
            "BYHOUR=9,9;INTERVAL=1;WKST=MO;BYDAY=MO,TU,MO;FREQ=WEEKLY",
            "RRULE:FREQ=WEEKLY;BYDAY=M\r\n O,TU;BYHO\r\n\tUR=9\r\n\r\n",
            "RRULE:FREQ=WEEKLY;BYDAY=MO,TU;BYHOUR=9\rRRULE:FREQ=WEEKLY;BYDAY=TU,MO;BYHOUR=9",
        ],
    )
    def test_there_are_several_ways_to_write_it(self, text: str) -> None:
        trigger = RecurrenceTrigger(text, NEW_YORK)
        assert trigger.rule == "RRULE:FREQ=WEEKLY;BYDAY=MO,TU;BYHOUR=9"
        assert trigger == RecurrenceTrigger(trigger.rule, ZoneInfo(NEW_YORK))
        assert hash(trigger) == hash(RecurrenceTrigger(trigger.rule, NEW_YORK))

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

    def test_a_whole_set_is_read_and_written(self) -> None:
        text = (
            f"{START}\n"
            "RRULE:FREQ=DAILY;COUNT=10;BYWEEKNO=1"
            "\nRDATE:20250302T000000Z,20250301T000000Z\n"
            "EXDATE;TZID=America/New_York;VALUE=DATE-TIME:20250122T093400\n"
            "EXDATE;VALUE=DATE:20250125\nEXDATE:20250123T143400Z,20250124\n"
            'RDATE;TZID="America/New_York":20250122T120000'
        ).replace(";BYWEEKNO=1", "")
        trigger = RecurrenceTrigger(text)
        assert trigger.timezone == NEW_YORK
        assert trigger.rule == (
            f"{START}\n"
            "RRULE:FREQ=DAILY;COUNT=10\n"
            "RDATE:20250301T000000Z,20250302T000000Z\n"
            "RDATE;TZID=America/New_York:20250122T120000\n"
            "EXDATE;VALUE=DATE:20250124,20250125\n"
            "EXDATE:20250123T143400Z\n"
            "EXDATE;TZID=America/New_York:20250122T093400"
        )
        assert RecurrenceTrigger(trigger.rule) == trigger

    def test_an_indented_block_has_no_folded_lines(self) -> None:
        text = f"""
            {START}
            RRULE:FREQ=WEEKLY;
              BYDAY=TU
        """
        expected = RecurrenceTrigger(f"{START}\nRRULE:FREQ=WEEKLY;BYDAY=TU")
        assert RecurrenceTrigger(text) == expected

    def test_in_utc_local_times_and_instants_are_the_same(self) -> None:
        text = "DTSTART:20250121T093400\nRRULE:FREQ=DAILY\nEXDATE:20250122T093400"
        trigger = RecurrenceTrigger(text)
        assert trigger.timezone == "UTC"
        assert trigger.rule == (
            "DTSTART:20250121T093400Z\nRRULE:FREQ=DAILY\nEXDATE:20250122T093400Z"
        )
        assert RecurrenceTrigger(trigger.rule, "UTC") == trigger

    def test_a_start_may_be_a_date(self) -> None:
        trigger = RecurrenceTrigger(
            "DTSTART;VALUE=DATE:20250121\nRRULE:FREQ=DAILY", NEW_YORK
        )
        assert trigger.rule.startswith(
            "DTSTART;TZID=America/New_York:20250121T000000\n"
        )

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
    (None, "must be text"),
    (7, "must be text"),
    (b"FREQ=DAILY", "must be text"),
    (["FREQ=DAILY"], "must be text"),
    ("", "it has no rule"),
    (" \r\n\t", "it has no rule"),
    ("DTSTART:20250101T000000Z", "it has no rule"),
    ("EXDATE:20250101T000000Z", "it has no rule"),
    ("every tuesday", "'EVERY TUESDAY' is no part of a rule"),
    ("0 0 * * *", "is no part of a rule"),
    ("RRULE:", "is no part of a rule"),
    ("FREQ=DAILY;", "'' is no part of a rule"),
    ("FREQ", "is no part of a rule"),
    ("FREQ=", "is no part of a rule"),
    ("=DAILY", "there is no part ''"),
    ("FREQ=DAILY\0", r"'\x00' (U+0000) is not allowed"),
    ("FREQ=DÄILY", "(U+00C4) is not allowed"),
    ("FREQ=DAILY\x0bRRULE:FREQ=DAILY", "(U+000B) is not allowed"),
    ("FREQ=DAILY\u2028", "(U+2028) is not allowed"),
    ("FREQ=DAILY;\ud800", "(U+D800) is not allowed"),
    ("FREQ=DAILY;BYHOUR=٣", "(U+0663) is not allowed"),
    ("FREQ=DAILY" + " " * 16_384, "at most 16384 are read"),
    ("BYDAY=MO", "FREQ is missing"),
    ("INTERVAL=2", "FREQ is missing"),
    ("FREQ=FORTNIGHTLY", "FREQ 'FORTNIGHTLY' is none of YEARLY, MONTHLY"),
    ("FREQ=DAILY;FREQ=DAILY", "FREQ is given twice"),
    ("FREQ=DAILY;BYFOO=1", "there is no part 'BYFOO'; the parts are FREQ"),
    ("FREQ=DAILY;RSCALE=CHINESE", "there is no part 'RSCALE'"),
    ("FREQ=DAILY;X-MINE=1", "there is no part 'X-MINE'"),
    ("FREQ=DAILY;INTERVAL=0", "INTERVAL '0' is not a number in 1–36525"),
    ("FREQ=DAILY;INTERVAL=-1", "INTERVAL '-1' is not"),
    ("FREQ=DAILY;INTERVAL=1.5", "INTERVAL '1.5' is not"),
    ("FREQ=DAILY;INTERVAL=1,2", "INTERVAL '1,2' is not"),
    ("FREQ=YEARLY;INTERVAL=101", "in 1–100"),
    ("FREQ=SECONDLY;INTERVAL=9999999999", "in 1–3155760000"),
    ("FREQ=DAILY;INTERVAL=" + "9" * 5000, "INTERVAL '999"),
    ("FREQ=DAILY;COUNT=0", "COUNT '0' is not a number in 1–100000"),
    ("FREQ=DAILY;COUNT=-3", "COUNT '-3' is not"),
    ("FREQ=DAILY;COUNT=100001", "COUNT '100001' is not"),
    ("FREQ=DAILY;COUNT=ten", "COUNT 'TEN' is not"),
    ("FREQ=DAILY;COUNT=2;UNTIL=20300101", "COUNT and UNTIL are both given"),
    ("FREQ=DAILY;UNTIL=tomorrow", "UNTIL 'TOMORROW' is neither a date"),
    ("FREQ=DAILY;UNTIL=2030-01-01", "UNTIL '2030-01-01' is neither a date"),
    ("FREQ=DAILY;UNTIL=20300230", "UNTIL 20300230 does not exist"),
    ("FREQ=DAILY;UNTIL=20300101T250000Z", "UNTIL 20300101T250000Z does not exist"),
    ("FREQ=DAILY;UNTIL=20300101T240000Z", "UNTIL '20300101T240000Z' is neither"),
    ("FREQ=DAILY;UNTIL=20300101T235960Z", "does not exist"),
    ("FREQ=DAILY;UNTIL=00000101", "does not exist"),
    ("FREQ=DAILY;UNTIL=20300101T000000+0100", "is neither a date"),
    ("FREQ=WEEKLY;WKST=XX", "WKST 'XX' is none of MO, TU"),
    ("FREQ=DAILY;BYMONTH=0", "BYMONTH '0' is not a number in 1–12"),
    ("FREQ=DAILY;BYMONTH=13", "BYMONTH '13' is not"),
    ("FREQ=DAILY;BYMONTH=-1", "BYMONTH '-1' is not"),
    ("FREQ=DAILY;BYMONTH=JAN", "BYMONTH 'JAN' is not"),
    ("FREQ=DAILY;BYMONTH=1,,2", "BYMONTH '' is not"),
    ("FREQ=DAILY;BYMONTH=5L", "BYMONTH '5L' is not"),
    ("FREQ=MONTHLY;BYMONTHDAY=0", "is not a number in 1–31, or -31 to -1"),
    ("FREQ=MONTHLY;BYMONTHDAY=32", "BYMONTHDAY '32' is not"),
    ("FREQ=MONTHLY;BYMONTHDAY=-32", "BYMONTHDAY '-32' is not"),
    ("FREQ=YEARLY;BYYEARDAY=367", "BYYEARDAY '367' is not"),
    ("FREQ=YEARLY;BYYEARDAY=0", "BYYEARDAY '0' is not"),
    ("FREQ=YEARLY;BYWEEKNO=54", "BYWEEKNO '54' is not"),
    ("FREQ=YEARLY;BYWEEKNO=0", "BYWEEKNO '0' is not"),
    ("FREQ=YEARLY;BYEASTER=251", "BYEASTER '251' is not a number in -80–250"),
    ("FREQ=YEARLY;BYEASTER=-81", "BYEASTER '-81' is not"),
    ("FREQ=DAILY;BYHOUR=24", "BYHOUR '24' is not a number in 0–23"),
    ("FREQ=DAILY;BYHOUR=9am", "BYHOUR '9AM' is not"),
    ("FREQ=DAILY;BYMINUTE=60", "BYMINUTE '60' is not"),
    ("FREQ=DAILY;BYSECOND=60", "BYSECOND '60' is not"),
    ("FREQ=DAILY;BYHOUR=9;BYSETPOS=0", "BYSETPOS '0' is not"),
    ("FREQ=DAILY;BYHOUR=9;BYSETPOS=367", "BYSETPOS '367' is not"),
    ("FREQ=DAILY;BYSETPOS=1", "BYSETPOS picks from what other BY"),
    ("FREQ=WEEKLY;BYDAY=XX", "BYDAY 'XX' is none of MO, TU"),
    ("FREQ=WEEKLY;BYDAY=MONDAY", "BYDAY 'MONDAY' is none of"),
    ("FREQ=WEEKLY;BYDAY=", "is no part of a rule"),
    ("FREQ=WEEKLY;BYDAY=2", "BYDAY '2' is none of"),
    ("FREQ=MONTHLY;BYDAY=TU(+2)", "BYDAY 'TU(+2)' is none of"),
    ("FREQ=MONTHLY;BYDAY=0MO", "BYDAY 0MO: '0' is not a number in 1–5"),
    ("FREQ=MONTHLY;BYDAY=6MO", "BYDAY 6MO: '6' is not a number in 1–5"),
    ("FREQ=YEARLY;BYMONTH=12;BYDAY=53MO", "'53' is not a number in 1–5"),
    ("FREQ=YEARLY;BYDAY=54MO", "'54' is not a number in 1–53"),
    ("FREQ=WEEKLY;BYDAY=2TU", "BYDAY 2TU needs FREQ=MONTHLY or FREQ=YEARLY"),
    ("FREQ=DAILY;BYDAY=-1FR", "with FREQ=DAILY, write FR"),
    ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=1MO", "with BYWEEKNO, write MO in BYDAY"),
    ("FREQ=MONTHLY;BYWEEKNO=20", "BYWEEKNO must not be combined with FREQ=MONTHLY"),
    ("FREQ=DAILY;BYYEARDAY=100", "BYYEARDAY must not be combined with FREQ=DAILY"),
    ("FREQ=WEEKLY;BYMONTHDAY=13", "BYMONTHDAY must not be combined with FREQ=WEEKLY"),
    ("FREQ=DAILY\nBYDAY=MO", "FREQ is missing"),
    ("DTSTART:20250101\nDTSTART:20250101\nRRULE:FREQ=DAILY", "starts more than once"),
    ("DTSTART:20250101,20250102\nRRULE:FREQ=DAILY", "starts more than once"),
    ("DTSTART:yesterday\nRRULE:FREQ=DAILY", "DTSTART 'YESTERDAY' is neither"),
    ("DTSTART:\nRRULE:FREQ=DAILY", "DTSTART '' is neither"),
    ("DTSTART;VALUE=DATE:20250101T000000\nRRULE:FREQ=DAILY", "is no DATE"),
    ("DTSTART;VALUE=DATE-TIME:20250101\nRRULE:FREQ=DAILY", "is no DATE-TIME"),
    ("DTSTART;VALUE=PERIOD:20250101\nRRULE:FREQ=DAILY", "write VALUE=DATE or"),
    ("DTSTART;LANGUAGE=en:20250101\nRRULE:FREQ=DAILY", "has the parameter 'LANGUAGE"),
    ("DTSTART;TZID=Mars/Olympus:20250101T000000\nRRULE:FREQ=DAILY", "no time zone"),
    ("DTSTART;TZID=:20250101T000000\nRRULE:FREQ=DAILY", "no time zone"),
    ("DTSTART;TZID=../../etc/passwd:20250101T000000\nRRULE:FREQ=DAILY", "no time zone"),
    (f"{START}Z\nRRULE:FREQ=DAILY", "DTSTART has both a TZID and a Z"),
    (
        f"{START}\nRRULE:FREQ=DAILY\nEXDATE;TZID=Asia/Tokyo:20250101T000000",
        "Asia/Tokyo",
    ),
    ("RRULE;X-A=1:FREQ=DAILY", "RRULE has the parameter 'X-A=1'; allowed: none"),
    ("EXRULE:FREQ=DAILY", "EXRULE is no longer in RFC 5545"),
    ("BEGIN:VEVENT\nRRULE:FREQ=DAILY", "there is no property 'BEGIN'"),
    ("RRULE:FREQ=DAILY:1", "FREQ 'DAILY:1' is none of"),
    ("RDATE:20250101", "RDATE 20250101 has no time; write it, as in 20250101T090000"),
    ("RDATE:", "RDATE '' is neither"),
    ("RDATE;VALUE=PERIOD:20250101T000000Z/PT1H", "write VALUE=DATE or DATE-TIME"),
    ("RRULE:FREQ=DAILY\nEXDATE:never", "EXDATE 'NEVER' is neither"),
    (f"{START}\nRDATE:20250101T000000Z", "RDATE 20250101T000000Z is before its start"),
    (
        "\n".join(f"RRULE:FREQ=DAILY;BYHOUR={each}" for each in range(11)),
        "it has 11 rules; at most 10 are read",
    ),
    ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "never fires"),
    ("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "never fires"),
    ("FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30", "never fires"),
    ("FREQ=MONTHLY;BYMONTH=4,6,9,11;BYMONTHDAY=31", "never fires"),
    ("FREQ=YEARLY;BYYEARDAY=366;BYMONTH=1", "never fires"),
    ("FREQ=YEARLY;BYWEEKNO=20;BYMONTH=1", "never fires"),
    ("FREQ=YEARLY;BYEASTER=250;BYMONTH=1", "never fires"),
    ("FREQ=YEARLY;BYEASTER=0;BYDAY=MO", "never fires"),
    ("FREQ=WEEKLY;BYDAY=MO;BYSETPOS=2", "never fires"),
    ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6", "never fires"),
    ("FREQ=DAILY;BYHOUR=1,2;BYSETPOS=3", "never fires"),
    ("FREQ=HOURLY;BYMINUTE=1,2;BYSETPOS=-3", "never fires"),
    (f"{START}\nRRULE:FREQ=DAILY;UNTIL=20250120", "it never fires"),
    (f"{START}\nRRULE:FREQ=DAILY;UNTIL=20250121T093359", "it never fires"),
    (f"{START}\nRRULE:FREQ=DAILY;COUNT=1\nEXDATE:20250121T093400", "it never fires"),
    (f"{START}\nRDATE:20250122T000000\nEXDATE:20250122", "it never fires"),
    (f"{START}\nRRULE:FREQ=YEARLY;INTERVAL=2;BYMONTH=2;BYMONTHDAY=29", "never fires"),
    (f"{START}\nRRULE:FREQ=DAILY;INTERVAL=7;BYDAY=MO,WE,TH,FR,SA,SU", "never fires"),
    (f"{START}\nRRULE:FREQ=HOURLY;INTERVAL=168;BYDAY=WE", "it never fires"),
    (f"{START}\nRRULE:FREQ=MINUTELY;INTERVAL=60;BYMINUTE=30", "it never fires"),
    (f"{START}\nRRULE:FREQ=SECONDLY;INTERVAL=2;BYSECOND=1,3", "it never fires"),
    (
        f"{START}\nRRULE:FREQ=SECONDLY;INTERVAL=7;BYHOUR=9;BYMINUTE=34;BYSECOND=0;"
        "BYDAY=MO,WE,TH,FR,SA,SU",
        "it never fires",
    ),
    (
        "DTSTART:20250130T000000Z\nRRULE:FREQ=YEARLY;BYMONTH=2",
        "it never fires",
    ),
    (
        "DTSTART;TZID=Pacific/Apia:20111230T120000\nRRULE:FREQ=YEARLY;UNTIL=20120101",
        "it never fires",
    ),
]


class TestRefusal:
    @pytest.mark.parametrize(("text", "reason"), REFUSED)
    def test_it_says_what_is_wrong(self, text: str, reason: str) -> None:
        with pytest.raises(InvalidTriggerError) as refused:
            RecurrenceTrigger(text)
        assert reason in str(refused.value)
        assert len(str(refused.value)) < 700
        str(refused.value).encode(errors="backslashreplace")

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            ({"timezone": "Europe/Berlin"}, "timezone in Europe/Berlin"),
            ({"timezone": "UTC"}, "DTSTART is in America/New_York, but timezone in"),
            ({"timezone": "Mars/Olympus"}, "no time zone 'Mars/Olympus'"),
            ({"timezone": ""}, "no time zone ''"),
            ({"timezone": 7}, "timezone must be a name"),
            ({"start": NOW}, "starts more than once"),
            ({"gap": "earlier"}, "gap must be 'next' or 'skip'"),
            ({"overlap": None}, "overlap must be 'first' or"),
            ({"anchored_at": "now"}, "anchored_at"),
        ],
    )
    def test_arguments_must_not_contradict_it(
        self, arguments: dict[str, object], reason: str
    ) -> None:
        arguments.setdefault("anchored_at", None)
        text = f"{START}\nRRULE:FREQ=DAILY"
        if arguments["anchored_at"]:
            text = "FREQ=DAILY"
        with pytest.raises(InvalidTriggerError) as refused:
            RecurrenceTrigger(text, **arguments)  # type: ignore[arg-type]
        assert reason in str(refused.value)

    @pytest.mark.parametrize(
        "start", [NOW.replace(tzinfo=None), "20250101", NOW.date(), 0]
    )
    def test_a_start_is_an_aware_datetime(self, start: object) -> None:
        with pytest.raises(InvalidTriggerError, match="start"):
            RecurrenceTrigger("FREQ=DAILY", start=start)  # type: ignore[arg-type]

    def test_a_start_in_utc_contradicts_a_zone(self) -> None:
        text = "DTSTART:20250101T000000Z\nRRULE:FREQ=DAILY"
        with pytest.raises(InvalidTriggerError, match="DTSTART is in UTC"):
            RecurrenceTrigger(text, NEW_YORK)

    @pytest.mark.parametrize(
        "state",
        [
            {"rule": "FREQ=NEVER", "timezone": "UTC"},
            {"rule": "FREQ=DAILY", "timezone": "Mars/Olympus"},
            {"rule": "FREQ=DAILY", "timezone": "UTC", "colour": "red"},
            {"timezone": "UTC"},
        ],
    )
    def test_a_stored_state_that_is_wrong_does_not_load(
        self, state: dict[str, str]
    ) -> None:
        with pytest.raises(InvalidTriggerError):
            RecurrenceTrigger.from_dict(state)


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
RULES = st.builds(
    lambda frequency, parts: ";".join(
        [f"FREQ={frequency}", *(f"{name}={value}" for name, value in parts.items())]
    ),
    FREQUENCIES,
    st.dictionaries(
        NAMES.filter(lambda name: name not in ("FREQ", "WKST", "UNTIL", "BYDAY")),
        st.one_of(SMALL, SMALL, NUMBERS),
        max_size=5,
    ).flatmap(
        lambda parts: st.one_of(
            st.just(parts), WEEKDAYS.map(lambda days: {**parts, "BYDAY": days})
        )
    ),
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
    @settings(deadline=QUICK, max_examples=60)
    @given(
        st.one_of(st.text(max_size=60), NONSENSE, NONSENSE.map("FREQ=DAILY".__add__))
    )
    def test_it_is_refused_or_answers(self, text: str) -> None:
        check(text)

    @settings(deadline=QUICK, max_examples=60)
    @given(
        st.dictionaries(NAMES, VALUES, max_size=6),
        st.sampled_from(["", f"{START}\n", "RDATE:20250601T000000Z\n"]),
    )
    def test_so_are_parts_with_any_values(
        self, parts: dict[str, str], before: str
    ) -> None:
        rule = ";".join(f"{name}={value}" for name, value in parts.items())
        check(f"{before}RRULE:{rule}")

    @settings(deadline=QUICK, max_examples=60)
    @given(
        RULES,
        st.sampled_from(["", f"{START}\n", "DTSTART:99991201T000000Z\n"]),
        MOMENTS,
    )
    def test_so_are_parts_that_fit(self, rule: str, before: str, until: str) -> None:
        check(f"{before}RRULE:{rule}")
        check(f"{before}RRULE:{rule};UNTIL={until}\nEXDATE:{until}")
