"""The local times of a cron expression as sets."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from go_scheduler.triggers.cron.fields import numbers
from go_scheduler.triggers.years.cells import days_in, nothing, on_days
from go_scheduler.triggers.years.years import Remembered, Years

if TYPE_CHECKING:
    from go_scheduler.triggers.cron.cron_search import CronSearch
    from go_scheduler.triggers.cron.fields import CronFields
    from go_scheduler.triggers.years.cells import Cells
    from go_scheduler.triggers.years.effort import Effort


class CronYears(Years):
    """The local times that match, year by year.

    Args:
        fields: What to match.
        search: Finds the days.
    """

    def __init__(self, fields: CronFields, search: CronSearch) -> None:
        self._years = fields.years
        self._times = _times(fields.hours, fields.minutes, fields.seconds)
        self._search = search
        self._known: Remembered[Cells] = Remembered(len)

    @property
    def settled(self) -> int:
        """After the last of the years that are named."""
        return max(self._years) + 2 if self._years else 0

    def cells(self, year: int, effort: Effort) -> Cells:
        """Those of a year."""
        number = days_in(year)
        if self._years and year not in self._years:
            return nothing(number)

        def make() -> Cells:
            return on_days(self._search.days_as_bits(year), number, self._times)

        return self._known.get(self._search.calendar(year), make)


@lru_cache(maxsize=256)
def _times(hours: int, minutes: int, seconds: int) -> int:
    """The seconds of a day, of the bits of each field."""
    hour = sum(seconds << 60 * minute for minute in numbers(minutes))
    return sum(hour << 3600 * each for each in numbers(hours))
