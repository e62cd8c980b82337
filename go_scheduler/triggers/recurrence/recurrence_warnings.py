"""Recurrences that people get wrong, and what to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.triggers.recurrence.rrule_text import write_moment, write_rule
from go_scheduler.triggers.years.cells import MONTH_LENGTHS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date

    from go_scheduler.triggers.recurrence.recurrence_rule import RecurrenceRule
    from go_scheduler.triggers.recurrence.series import RecurrenceSeries

# Each of them is asked for its times.
_MOST_EXCEPTIONS = 100


def passed_over(rule: RecurrenceRule) -> Iterator[str]:
    """The days that a rule names and that some months, or years, do not have.

    Args:
        rule: With what it leaves open taken from where it starts.
    """
    months = rule.months or range(1, 13)
    shortest = min(MONTH_LENGTHS[month - 1] for month in months)
    for day in rule.month_days:
        # The days before it stand for the end of the month, as in the last friday.
        if day > shortest and day - 1 not in rule.month_days and not rule.positions:
            yield (
                f"{write_rule(rule)} passes over each month that has no day {day};"
                " BYMONTHDAY=-1 is the last day of every month"
            )
    by_month = rule.frequency == "MONTHLY" or rule.months
    for each in rule.weekdays:
        if abs(each.ordinal) == (5 if by_month else 53):
            yield (
                f"{write_rule(rule)} passes over each {'month' if by_month else 'year'}"
                f" that has only {abs(each.ordinal) - 1} of that day; -1 instead of"
                f" {each.ordinal} is the last one"
            )


def idle_exceptions(
    exceptions: Sequence[date], series: RecurrenceSeries
) -> Iterator[str]:
    """The first of the exceptions, if any, that excludes nothing.

    Args:
        exceptions: Each EXDATE.
        series: What they are excluded from.
    """
    for moment in exceptions[:_MOST_EXCEPTIONS]:
        if not series.fires(moment):
            yield (
                f"EXDATE {write_moment(moment)} excludes nothing: it would not fire"
                " then; VALUE=DATE excludes a whole day"
            )
            return
