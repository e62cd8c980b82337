from __future__ import annotations

import re
import zoneinfo
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers.cron import CronTrigger
from go_scheduler.triggers.cron.expression import parse
from tests.triggers.case_tables import table
from tests.triggers.cron_oracle import steps

BAD = [
    *("", " ", "\t\n", "*", "* *", "* * *", "* * * *", "0", "at noon"),
    *("* * * * * *", "0 0 12 * * *", "0 0 * * * 2030"),
    *("* * * * * * * *", "0 0 * * * /bin/true", "99 99 99 99 99 99"),
    *("60 * * * *", "61 * * * *", "-1 * * * *", "0 24 * * *", "0 0 0 * *"),
    *("0 0 32 * *", "0 0 * 0 *", "0 0 * 13 *", "0 0 * * 8", "99999999999 * * * *"),
    *("1.5 * * * *", "+5 * * * *", "0x5 * * * *", "1e1 * * * *", "1_0 * * * *"),
    *("10-5 * * * *", "0 22-6 * * *", "0 0 28-3 * *", "0 0 * nov-feb *"),
    *("0 0 * * fri-mon", "0 0 * * fri-0", "0 0 * * 6-0", "0-60 * * * *"),
    *("*/0 * * * *", "*/-5 * * * *", "*/61 * * * *", "0 */25 * * *", "*/x * * * *"),
    *("0 0 */32 * *", "0 0 * */13 *", "0 0 * * */8", "0-10/0 * * * *", "*/ * * * *"),
    *("5/ * * * *", "/5 * * * *", "1-2/3/4 * * * *", "*/5/5 * * * *", "5//5 * * * *"),
    *("5- * * * *", "-5 * * * *", "1-2-3 * * * *", "*-5 * * * *", "5-* * * * *"),
    *("1,,2 * * * *", ",1 * * * *", "1, * * * *", ", * * * *", "** * * * *"),
    *("*5 * * * *", "5* * * * *", "1;2 * * * *", "%5 * * * *", "$X * * * *"),
    *("H * * * *", "H/15 * * * *", "H(0-29)/10 * * * *", "0 R * * *", "R(1-5) * * * *"),
    *("? * * * *", "0 ? * * *", "0 0 1? * *", "0 0 * ? *", "0 0 ?,1 * *"),
    *("0 0 ?/2 * *", "0 0 ?-5 * *", "? 0 0 * * * *", "0 0 0 1 1 * ?", "0 0 ?? * *"),
    *("L * * * *", "0 L * * *", "0 0 * L *", "0 0 * * L", "0 0 0 1 1 ? L"),
    *("0 0 L5 * *", "0 0 5L * *", "0 0 LL * *", "0 0 L/2 * *", "0 0 L-L * *"),
    *("0 0 L- * *", "0 0 L-0 * *", "0 0 L-31 * *", "0 0 L-x * *", "0 0 L-3-1 * *"),
    *("0 0 L-3W * *", "0 0 LW-3 * *", "0 0 WL * *", "0 0 1-L * *", "0 0 L+1 * *"),
    *("0 0 W * *", "0 0 W15 * *", "0 0 0W * *", "0 0 32W * *", "0 0 1-5W * *"),
    *("0 0 *W * *", "0 0 15WW * *", "0 0 15W/2 * *", "0 0 * * 15W", "0 0 * * LW"),
    *("0 0 15W-20W * *", "0 0 -1W * *", "0 0 W,1 * *", "0 0 FRIW * *", "15W * * * *"),
    *("0 0 * * L5", "0 0 * * 8L", "0 0 * * LFRI", "0 0 * * 1-5L", "0 0 * * 5L/2"),
    *("0 0 * * 5LL", "0 0 * * foolL", "0 0 * * -1L", "0 0 * * *L", "0 0 * * 5-L"),
    *("0 0 * * 5#", "0 0 * * #3", "0 0 * * 5#0", "0 0 * * 5#6", "0 0 * * 8#1"),
    *("0 0 * * #", "0 0 * * 5#-1", "0 0 * * 5#L", "0 0 * * 5#3#1", "0 0 * * 1-5#2"),
    *("0 0 * * foo#1", "0 0 * * *#1", "0 0 * * 5#3/2", "0 0 * * 5#03", "0 0 5#3 * *"),
    *("0 5#3 * * *", "0 0 * 5#3 *", "0 0 * * fri#x", "0 0 FRI#3 * *", "5#3 * * * *"),
    *("60 0 0 1 1 ? *", "-1 0 0 1 1 ? *", "*/61 0 0 1 1 ? *", "0 60 0 1 1 ? *"),
    *("0 0 0 1 1 ? 1969", "0 0 0 1 1 ? 2100", "0 0 0 1 1 ? 0", "0 0 0 1 1 ? 24"),
    *(
        "0 0 0 1 1 ? 20240",
        "0 0 0 1 1 ? 2030-2020",
        "0 0 0 1 1 ? 2024-",
        "0 0 0 1 1 ? x",
    ),
    *(
        "0 0 0 1 1 ? */131",
        "0 0 0 1 1 ? 2024/0",
        "0 0 0 1 1 ? 2024,",
        "0 0 0 1 1 2024 ?",
    ),
    *("mon * * * *", "0 jan * * *", "0 0 mon * *", "0 0 * mon *", "0 0 * * jan"),
    *("0 0 * janu *", "0 0 * * mo", "0 0 * * tues", "0 0 * Foo *", "noon * * * *"),
    *("0 0 30 2 *", "0 0 31 feb *", "0 0 31 2,4,6,9,11 *", "0 0 30-31 2 *"),
    *("* * 31 2 *", "0 0 31W 2 *", "0 0 30W feb *", "0 0 31W 4,6 *", "0 0 L-29 2 *"),
    *("0 0 0 30 Feb ? *", "0 0 0 31 Apr ? *", "0 0 0 29 2 ? 2023", "0 0 31 4 *"),
    *("0 0 0 29 2 ? 2025-2027", "0 0 0 ? 2 sun#5 2025", "0 0 0 29W 2 ? 2099"),
    *("0 0 0 L-28 2 ? 2023", "0 0 0 30,31 2 ? 2024/4", "0 0 31 2,4,6,9,11 ?"),
    *("@", "@reboot", "@every 5m", "@dayly", "@daily extra", "@ daily", "daily"),
    *("0\u00a00 * * *", "0 0 1\u20135 * *", "\u0661 * * * *", "* * * * *\u200b"),
    *("0\0 * * * *", "\0", "0 0 * * *;", "'0 0 * * *'", "TZ=UTC 0 0 * * *"),
    *("\ud800 * * * *", "* * * * " + "0," * 200 + "0", " " * 257, "0 " * 5000),
]


class TestRefusals:
    def test_there_are_many(self) -> None:
        assert len(set(BAD)) == len(BAD) > 200

    @pytest.mark.parametrize("expression", BAD, ids=lambda text: repr(text[:30]))
    def test_a_bad_expression_is_refused_at_once(self, expression: str) -> None:
        def refused() -> str:
            with pytest.raises(InvalidTriggerError, match="cron expression") as caught:
                CronTrigger(expression)
            return str(caught.value)

        assert len(refused()) < 700
        parse.cache_clear()
        assert steps(refused) < 10_000

    @pytest.mark.parametrize("expression", [5, b"* * * * *", ["*"] * 5, object(), True])
    def test_what_is_no_text_is_refused(self, expression: object) -> None:
        with pytest.raises(InvalidTriggerError, match="must be text"):
            CronTrigger(expression)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("expression", "message"),
        [
            *table("cron_refusals"),
            ("0 0 * * \x00", r"'0 0 * * \x00': '\x00' (U+0000) is not allowed"),
            ("0 " * 5000, "has at most 256 characters, not 10000: '0 0 0"),
        ],
    )
    def test_the_error_says_what_is_wrong(self, expression: str, message: str) -> None:
        with pytest.raises(InvalidTriggerError, match=re.escape(message)):
            CronTrigger(expression)

    def test_the_longest_expression_is_read(self) -> None:
        minutes = ",".join(["00"] * 82 + ["000"])
        expression = f"{minutes} * * * *"
        assert len(expression) == 257
        assert CronTrigger(expression[1:]).expression == expression[1:]
        with pytest.raises(InvalidTriggerError, match="at most 256 characters"):
            CronTrigger(expression)

    @pytest.mark.parametrize(
        "timezone",
        [
            *("", " ", "../etc", "/etc/localtime", "Europe/../UTC", "./UTC", "UTC "),
            *("Europe", "Europe/", "Europe/Atlantis", "europe/berlin", "utc+1"),
            *("a\0b", "\0", "\ud800", "x" * 10_000, "tzdata.zi", "zone.tab", "+01:00"),
            *("localtime", "posixrules", "right/UTC", "Europe\\Berlin", "CET-1CEST"),
        ],
        ids=lambda name: repr(name[:20]),
    )
    def test_a_zone_that_does_not_exist_is_refused(self, timezone: str) -> None:
        with pytest.raises(InvalidTriggerError, match="there is no time zone") as error:
            CronTrigger("* * * * *", timezone)
        assert len(str(error.value)) < 400

    @pytest.mark.parametrize(
        "zone",
        [None, 5, b"UTC", UTC, timezone(timedelta(hours=1)), object(), ["UTC"], 0.5],
    )
    def test_what_is_no_name_of_a_zone_is_refused(self, zone: object) -> None:
        with pytest.raises(InvalidTriggerError, match="timezone must be a name"):
            CronTrigger("* * * * *", zone)  # type: ignore[arg-type]

    def test_a_zone_without_a_name_is_refused(self) -> None:
        path = next(Path(root) for root in zoneinfo.TZPATH if Path(root).is_dir())
        with (path / "UTC").open("rb") as data:
            nameless = ZoneInfo.from_file(data)
        with pytest.raises(InvalidTriggerError, match="a ZoneInfo that has a name"):
            CronTrigger("* * * * *", nameless)

    def test_a_stored_expression_that_is_wrong_is_refused(self) -> None:
        with pytest.raises(InvalidTriggerError, match="minute 61"):
            CronTrigger.from_dict({"expression": "61 * * * *", "timezone": "UTC"})

    @pytest.mark.parametrize("expression", ["0 0 12 * * 5", "30 0 12 * * MON"])
    def test_what_is_to_be_written_instead_is_read(self, expression: str) -> None:
        with pytest.raises(InvalidTriggerError) as error:
            CronTrigger(expression)
        for written in re.findall('write "(.*?)"', str(error.value)):
            assert len(CronTrigger(written).expression.split()) == 7


class TestBoundedWork:
    """How long it takes is counted in steps, which are the same on every machine."""

    @pytest.mark.parametrize(
        "expression",
        ["0 0 29 2 *", "0 0 0 29 2 ? 2096", "0 0 29 2 SUN#5", "0 0 0 ? 2 SUN#5 *"],
    )
    @pytest.mark.parametrize("timezone", ["UTC", "America/New_York"])
    def test_a_rare_date_is_found_at_once(self, expression: str, timezone: str) -> None:
        trigger = CronTrigger(expression, timezone)
        after = datetime(2072, 3, 1, tzinfo=UTC)
        assert steps(partial(trigger.next_fire_time, after)) < 10_000

    @pytest.mark.parametrize(
        ("expression", "most"),
        [("0 0 0 1 1 ? 2023", 5_000), ("0 */30 2 ? 3 SUN#2 *", 200_000)],
        ids=["its year has passed", "it matches in gaps alone"],
    )
    def test_what_never_fires_again_is_known_soon(
        self, expression: str, most: int
    ) -> None:
        trigger = CronTrigger(expression, "America/New_York")
        after = datetime(2024, 1, 1, tzinfo=UTC)
        assert steps(partial(trigger.next_fire_time, after)) < most
        assert trigger.next_fire_time(after) is None


FIELD_TEXTS = st.text("0123456789*/,-LW#?", min_size=1, max_size=6) | st.sampled_from(
    ["*", "?", "L", "LW", "15W", "5#3", "5L", "MON-FRI", "2024"]
)


class TestAnyText:
    @settings(max_examples=400, deadline=None)
    @given(
        st.text(max_size=60)
        | st.text("0123456789*/,-?LW#HR@ \t\nMONFRIJANDEC()", max_size=40)
        | st.lists(FIELD_TEXTS, min_size=5, max_size=7).map(" ".join)
    )
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        check(text, "America/New_York")
        check("* * * * *", text)

    @settings(max_examples=100, deadline=None)
    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.binary(),
            st.lists,
            max_leaves=5,
        )
    )
    def test_anything_else_is_refused(self, value: object) -> None:
        with pytest.raises(InvalidTriggerError):
            CronTrigger(value)  # type: ignore[arg-type]
        with pytest.raises(InvalidTriggerError):
            CronTrigger("* * * * *", value)  # type: ignore[arg-type]

    @pytest.mark.parametrize("length", [257, 10_000, 1_000_000])
    def test_text_of_any_length_is_refused_in_a_short_sentence(
        self, length: int
    ) -> None:
        for text in ("*" * length, "1," * length, "9" * length, "\u0660" * length):
            with pytest.raises(InvalidTriggerError) as error:
                CronTrigger(text)
            assert len(str(error.value)) < 300


def check(expression: str, timezone: str) -> None:
    """What is not refused works to the end: nothing is wrong later."""
    try:
        trigger = CronTrigger(expression, timezone)
    except InvalidTriggerError:
        return
    after: datetime | None = datetime(2024, 2, 28, 12, tzinfo=UTC)
    for _ in range(3):
        if after is not None:
            found = trigger.next_fire_time(after)
            assert found is None or found > after
            after = found
    assert CronTrigger(trigger.expression, trigger.timezone) == trigger
    assert trigger.describe()
    assert all(trigger.warnings(datetime(2024, 1, 1, tzinfo=UTC)))
