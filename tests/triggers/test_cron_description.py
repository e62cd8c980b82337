from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers.cron import CronTrigger
from tests.triggers.case_tables import table
from tests.triggers.cron_oracle import FIVE, expressions

NOW = datetime(2025, 1, 1, tzinfo=UTC)


class TestDescription:
    @pytest.mark.parametrize(("expression", "phrase"), table("cron_descriptions"))
    def test_it_says_when_it_fires(self, expression: str, phrase: str) -> None:
        assert CronTrigger(expression, "Europe/Berlin").describe() == phrase

    @settings(max_examples=60, deadline=None)
    @given(expressions(("second", *FIVE)))
    def test_every_expression_has_a_phrase(self, expression: str) -> None:
        try:
            trigger = CronTrigger(f"{expression} *")
        except InvalidTriggerError:
            return
        phrase = trigger.describe()
        assert phrase.startswith(("every ", "the ", "at "))
        assert phrase == phrase.strip().lower()
        assert "  " not in phrase


class TestWarnings:
    def test_most_expressions_need_none(self) -> None:
        for expression in (
            *("0 9 * * *", "*/15 9-17 * * MON-FRI", "0 0 L * *", "0 0 28 * *"),
            *("*/5,7 * * * *", "0-30/7 * * * *", "0 0 31 1,3,5 *", "0 */6 * * *"),
            *("@daily", "*/10 * * * * * *", "0 0 ? * 1", "0 0 29 3 *"),
        ):
            assert CronTrigger(expression).warnings(NOW) == (), expression

    @pytest.mark.parametrize(("expression", "sentence"), table("cron_warnings"))
    def test_a_usual_mistake_is_told(self, expression: str, sentence: str) -> None:
        assert CronTrigger(expression).warnings(NOW) == (sentence,)

    def test_a_time_lies_in_a_gap(self) -> None:
        (found,) = CronTrigger("30 2 * * *", "Europe/Berlin").warnings(NOW)
        assert found.startswith("02:30 does not exist on 2025-03-30 in Europe/Berlin")

    def test_its_years_have_passed(self) -> None:
        trigger = CronTrigger("0 0 0 1 1 ? 2020-2025")
        assert trigger.warnings(NOW) == ("it never fires from now on",)
        assert trigger.warnings(NOW.replace(year=2024)) == ()

    def test_all_that_is_wrong_is_told(self) -> None:
        found = CronTrigger("*/7 2 31 * 5", "America/New_York").warnings(NOW)
        subjects = [each.split()[0] for each in found]
        assert subjects == ["day-of-month", "minute", "day-of-month"]
