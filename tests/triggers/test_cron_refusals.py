from __future__ import annotations

import re
import zoneinfo
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers.cron import CronTrigger
from go_scheduler.triggers.cron.expression import parse
from tests.case_tables import table
from tests.triggers.cron_oracle import steps

REFUSED = [
    *table("triggers/cron_refusals"),
    *([text, "it is empty; write five fields"] for text in ("", " ", "\t\n")),
    *(
        [text, "is not allowed; write plain ASCII"]
        for text in (
            *("0\u00a00 * * *", "\u0661 * * * *", "* * * * *\u200b"),
            *("0\0 * * * *", "\0", "\ud800 * * * *"),
        )
    ),
    ["0 0 * * \x00", r"'0 0 * * \x00': '\x00' (U+0000) is not allowed"],
    ["* * * * " + "0," * 200 + "0", "has at most 256 characters, not 409"],
    [" " * 257, "has at most 256 characters, not 257"],
    ["0 " * 5000, "has at most 256 characters, not 10000: '0 0 0"],
]


class TestRefusals:
    @pytest.mark.parametrize(
        ("expression", "message"), REFUSED, ids=lambda text: repr(text[:30])
    )
    def test_the_error_says_what_is_wrong_and_at_once(
        self, expression: str, message: str
    ) -> None:
        """How long it takes is counted in steps, the same on every machine."""

        def refused() -> None:
            with pytest.raises(InvalidTriggerError, match=re.escape(message)) as caught:
                CronTrigger(expression)
            assert "cron expression" in str(caught.value)
            assert len(str(caught.value)) < 700

        parse.cache_clear()
        assert steps(refused) < 10_000

    def test_the_longest_expression_is_read(self) -> None:
        minutes = ",".join(["00"] * 82 + ["000"])
        expression = f"{minutes} * * * *"
        assert len(expression) == 257
        assert CronTrigger(expression[1:]).expression == expression[1:]
        with pytest.raises(InvalidTriggerError, match="at most 256 characters"):
            CronTrigger(expression)

    def test_a_zone_without_a_name_is_refused(self) -> None:
        path = next(Path(root) for root in zoneinfo.TZPATH if Path(root).is_dir())
        with (path / "UTC").open("rb") as data:
            nameless = ZoneInfo.from_file(data)
        with pytest.raises(InvalidTriggerError, match="a ZoneInfo that has a name"):
            CronTrigger("* * * * *", nameless)

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
