"""The periods that FREQ counts: years, months, weeks, days, or parts of a day."""

from __future__ import annotations

from datetime import MAXYEAR, date
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from go_scheduler.triggers.recurrence.recurrence_rule import RecurrenceRule

LAST_DAY = date.max.toordinal()
NEVER = LAST_DAY + 1


class Periods:
    """Numbers the periods of a rule. A day is its ``toordinal()``.

    Args:
        rule: The rule.
    """

    def __init__(self, rule: RecurrenceRule) -> None:
        self._rule = rule
        self._per_day = rule.periods_per_day

    def number(self, day: int) -> int:
        """The number of the period, of the kind that FREQ counts, as a day begins."""
        match self._rule.frequency:
            case "YEARLY" if self._rule.counts_weeks:
                week = day - (day - 1 - self._rule.week_start) % 7
                return date.fromordinal(min(max(week + 3, 1), LAST_DAY)).year
            case "YEARLY":
                return date.fromordinal(day).year
            case "MONTHLY":
                first = date.fromordinal(day)
                return first.year * 12 + first.month - 1
            case "WEEKLY":
                return (day - 1 - self._rule.week_start) // 7
        return day * self._per_day

    def first_day(self, period: int) -> int:
        """The first day that has a part in a period."""
        match self._rule.frequency:
            case "YEARLY" if self._rule.counts_weeks and period <= MAXYEAR:
                # The week that the fourth of January is in.
                day = date(period, 1, 4).toordinal()
                return max(day - (day - 1 - self._rule.week_start) % 7, 1)
            case "YEARLY":
                year, month = period, 1
            case "MONTHLY":
                year, month = period // 12, period % 12 + 1
            case "WEEKLY":
                return min(max(period * 7 + 1 + self._rule.week_start, 1), NEVER)
            case _:
                return period // self._per_day
        return date(year, month, 1).toordinal() if year <= MAXYEAR else NEVER
