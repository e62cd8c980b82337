"""The clock by which the local times of a recurrence set become instants."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.triggers.wall.local_time import next_instant
from go_scheduler.triggers.years.clock_years import ClockYears

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

    from go_scheduler.triggers.wall.local_time import Search
    from go_scheduler.triggers.years.years import Years


class WallClock(NamedTuple):
    """How local times become instants; see ``WallClockTrigger``."""

    zone: tzinfo
    gap: str = "next"
    overlap: str = "first"

    def next(
        self, search: Search, after: datetime, *, elapsed: bool = False
    ) -> datetime | None:
        """The first instant strictly later than another at which a time matches."""
        return next_instant(
            search,
            after,
            self.zone,
            elapsed=elapsed,
            gap=self.gap,
            overlap=self.overlap,
        )

    def years(self, local: Years, *, elapsed: bool = False) -> Years:
        """The seconds at which local times match."""
        return ClockYears(
            local, self.zone, elapsed=elapsed, gap=self.gap, overlap=self.overlap
        )
