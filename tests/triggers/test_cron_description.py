from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.triggers.cron import CronTrigger
from tests.triggers.cron_oracle import FIVE, expressions

NOW = datetime(2025, 1, 1, tzinfo=UTC)


class TestDescription:
    @pytest.mark.parametrize(
        ("expression", "phrase"),
        [
            ("30 8 * * 1-5", "every weekday at 08:30"),
            ("0 0 * * *", "every day at 00:00"),
            ("15 10 9 * * * *", "every day at 09:10:15"),
            ("0 8,12,16 * * *", "every day at 08:00, 12:00 and 16:00"),
            ("0,30 9 * * *", "every day at 09:00 and 09:30"),
            ("0 */12 * * *", "every day at 00:00 and 12:00"),
            ("0 */8 * * *", "every day at 00:00, 08:00 and 16:00"),
            ("0 9 * * 1,3,5", "every monday, wednesday and friday at 09:00"),
            ("0 9 * * 7", "every sunday at 09:00"),
            ("0 9 * * 0,6", "every weekend at 09:00"),
            ("0 9 * * 0-6", "every day at 09:00"),
            ("0 9 * * mon-sat/2", "every monday, wednesday and friday at 09:00"),
            ("0 9 * 6 *", "every day in june at 09:00"),
            ("0 9 * 6-8 1", "every monday in june to august at 09:00"),
            ("0 9 * 1,7 1-5", "every weekday in january and july at 09:00"),
        ],
    )
    def test_times_of_day(self, expression: str, phrase: str) -> None:
        assert CronTrigger(expression).describe() == phrase

    @pytest.mark.parametrize(
        ("expression", "phrase"),
        [
            ("0 17 * * 5L", "the last friday of every month at 17:00"),
            ("0 17 * * 7L", "the last sunday of every month at 17:00"),
            ("0 17 * * 1#1", "the first monday of every month at 17:00"),
            ("0 17 * 3 7#5", "the fifth sunday of march at 17:00"),
            (
                "0 9 * * 1,5#3",
                "every monday and the third friday of every month at 09:00",
            ),
            (
                "0 9 * * 2#2,2#4",
                "the second tuesday and the fourth tuesday of every month at 09:00",
            ),
            ("0 9 1,15 * *", "the 1st and 15th of every month at 09:00"),
            ("0 9 2,3,11-13,22 * *", "the 2nd, 3rd, 11th to 13th and 22nd of every"),
            ("0 9 21,23,31 * *", "the 21st, 23rd and 31st of every month at 09:00"),
            ("@monthly", "the 1st of every month at 00:00"),
            ("0 0 1 1,7 *", "the 1st of january and july at 00:00"),
            ("0 0 L * *", "the last day of every month at 00:00"),
            ("0 0 L 2 *", "the last day of february at 00:00"),
            ("0 0 L-3 * *", "the 4th to last day of every month at 00:00"),
            ("0 0 LW * *", "the last weekday of every month at 00:00"),
            ("0 9 1W * *", "the first weekday of every month at 09:00"),
            ("0 9 15W * *", "the weekday nearest to the 15th of every month at 09:00"),
            ("0 9 1,15,LW * *", "the 1st, 15th and the last weekday of every month at"),
            ("0 9 15,L * *", "the 15th and the last day of every month at 09:00"),
            ("0 8 25 12 *", "every year on 25 december at 08:00"),
            ("@yearly", "every year on 1 january at 00:00"),
            ("0 9 13 * 5", "the 13th of every month and every friday at 09:00"),
            ("0 9 */1 * 5", "every day at 09:00"),
            ("0 9 13 * 0-6", "every day at 09:00"),
            ("0 9 *,13 * 5", "every friday at 09:00"),
        ],
    )
    def test_days(self, expression: str, phrase: str) -> None:
        assert CronTrigger(expression).describe().startswith(phrase)

    @pytest.mark.parametrize(
        ("expression", "phrase"),
        [
            ("* * * * *", "every minute on the clock"),
            ("*/15 * * * *", "every 15 minutes on the clock"),
            ("0-59/15 0-23 * * *", "every 15 minutes on the clock"),
            ("0 * * * *", "every hour on the hour"),
            ("0 */2 * * *", "every 2 hours on the clock"),
            ("0 */6 * * *", "every 6 hours on the clock"),
            ("0,30 */1 * * *", "every 30 minutes on the clock"),
            ("* * * * * * *", "every second on the clock"),
            ("*/10 * * * * * *", "every 10 seconds on the clock"),
            ("0 * * * * * *", "every minute on the clock"),
            ("* * 9-11 * * * *", "every second between 09:00 and 11:59:59"),
            ("* 0-29 17 * * * *", "every second between 17:00 and 17:29:59"),
            (
                "* 0-29 9,10 * * * *",
                "every second of minutes 0 to 29 of hours 9 and 10",
            ),
            ("* * * * * 1 *", "every second on mondays"),
            ("0 0 * * * ? 2030", "every hour in 2030"),
            ("0 * * * 1-5", "every hour on weekdays"),
            (
                "*/15 9-17 * * MON-FRI",
                "every 15 minutes between 09:00 and 17:45 on weekdays",
            ),
            ("0 9-17 * * *", "every hour between 09:00 and 17:00"),
            ("30 * * * *", "every hour at :30"),
            ("*/45 * * * *", "every hour at :00 and :45"),
            ("1-3 * * * 1-5", "every hour at :01, :02 and :03 on weekdays"),
            ("*/5 * 9 * * * *", "every 5 seconds between 09:00 and 09:59:55"),
            (
                "0,10 8,9,11 * * *",
                "every day at 08:00, 08:10, 09:00, 09:10, 11:00 and 11:10",
            ),
            ("30 */2 * * *", "every 2 hours between 00:30 and 22:30"),
            ("* 9 * * *", "every minute between 09:00 and 09:59"),
            ("*/15 * * * 1,3", "every 15 minutes on mondays and wednesdays"),
            ("*/15 * * 6,12 sun", "every 15 minutes on sundays in june and december"),
            ("*/15 * * 6 *", "every 15 minutes in june"),
            ("*/15 * L * *", "every 15 minutes on the last day of every month"),
            ("*/15 * 25 12 *", "every 15 minutes on 25 december every year"),
            (
                "*/15 * 13 * 5#1",
                "every 15 minutes on the 13th of every month and on the first friday of"
                " every month",
            ),
        ],
    )
    def test_what_is_repeated(self, expression: str, phrase: str) -> None:
        assert CronTrigger(expression).describe() == phrase

    @pytest.mark.parametrize(
        ("expression", "phrase"),
        [
            ("5-10 9-17 * * *", "at minutes 5 to 10 of hours 9 to 17"),
            ("30 * * * * * *", "at second 30 of every minute of every hour"),
            ("5,7 * 9,12 * * * *", "at seconds 5 and 7 of every minute of hours 9 and"),
            ("* 5 9,11 * * * *", "every second of minute 5 of hours 9 and 11"),
            ("* * 9,11 * * * *", "every second of every minute of hours 9 and 11"),
            ("* 5 * * * * *", "every second of minute 5 of every hour"),
            ("*/7 * * * * * *", "at seconds 0, 7, 14, 21, 28, 35, 42, 49 and 56 of"),
        ],
    )
    def test_what_fits_no_pattern_is_told_field_by_field(
        self, expression: str, phrase: str
    ) -> None:
        found = CronTrigger(expression).describe()
        assert found.startswith(phrase)
        assert "on the clock" not in found

    @pytest.mark.parametrize(
        ("years", "phrase"),
        [("2030", "2030"), ("2030-2035,2040", "2030 to 2035 and 2040")],
    )
    def test_years(self, years: str, phrase: str) -> None:
        found = CronTrigger(f"0 0 9 1 1 ? {years}").describe()
        assert found == f"every year on 1 january at 09:00 in {phrase}"

    def test_the_time_zone_is_no_part_of_it(self) -> None:
        assert CronTrigger("0 9 * * *", "Europe/Berlin").describe().endswith("09:00")

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

    @pytest.mark.parametrize(
        ("expression", "days"),
        [
            ("0 0 13 * 5", "day-of-month 13 and day-of-week 5"),
            ("0 0 */2 * MON", "day-of-month */2 and day-of-week MON"),
            ("0 0 L * FRI#1", "day-of-month L and day-of-week FRI#1"),
        ],
    )
    def test_both_day_fields_are_set(self, expression: str, days: str) -> None:
        assert CronTrigger(expression).warnings(NOW) == (
            f"{days} are both set, so it fires on the days that match either of them;"
            " write * for one of them, or combine two triggers to fire only on days"
            " that match both",
        )

    @pytest.mark.parametrize(
        ("expression", "sentence"),
        [
            (
                "*/7 * * * *",
                "minute */7 begins anew with every hour, so the last step before that"
                " is another one: 7 does not divide 60; write a step that does, such as"
                " */6, or use an IntervalTrigger",
            ),
            ("0/25 * * * *", "minute 0/25 begins anew with every hour"),
            ("1,*/40 * * * *", "40 does not divide 60; write a step that does, such"),
            ("0 */5 * * *", "hour */5 begins anew with every day"),
            (
                "0 */9 * * *",
                "9 does not divide 24; write a step that does, such as",
            ),
            ("*/50 * * * * * *", "second */50 begins anew with every minute"),
        ],
    )
    def test_a_step_does_not_divide_its_range(
        self, expression: str, sentence: str
    ) -> None:
        (found,) = CronTrigger(expression).warnings(NOW)
        assert sentence in found

    @pytest.mark.parametrize(
        ("expression", "sentence"),
        [
            (
                "0 0 31 * *",
                "day-of-month 31 passes over the months that have no such day:"
                " february, april, june, september and november; write L for the last"
                " day of every month",
            ),
            ("0 0 30 * *", "day-of-month 30 passes over the months that have no such"),
            (
                "0 0 29 2,3 *",
                "day-of-month 29 passes over the months that have",
            ),
            ("0 0 15,31W 1-4 *", "31W passes over the months that have no such day:"),
            (
                "0 0 29 2 *",
                "29 february exists in leap years alone; write L for the last day of"
                " february",
            ),
        ],
    )
    def test_some_months_have_no_such_day(self, expression: str, sentence: str) -> None:
        (found,) = CronTrigger(expression).warnings(NOW)
        assert sentence in found

    def test_a_time_lies_in_a_gap(self) -> None:
        (found,) = CronTrigger("30 2 * * *", "Europe/Berlin").warnings(NOW)
        assert found.startswith("02:30 does not exist on 2025-03-30 in Europe/Berlin")

    def test_its_years_have_passed(self) -> None:
        trigger = CronTrigger("0 0 0 1 1 ? 2020-2025")
        assert trigger.warnings(NOW) == ("it never fires from now on",)
        assert trigger.warnings(NOW.replace(year=2024)) == ()

    def test_all_that_is_wrong_is_told(self) -> None:
        found = CronTrigger("*/7 2 31 * 5", "America/New_York").warnings(NOW)
        assert [each.split()[0] for each in found] == [
            "day-of-month",
            "minute",
            "day-of-month",
        ]
