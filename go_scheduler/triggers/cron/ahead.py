"""The fire times of a cron expression in a time zone, found some way ahead."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, bisect_right
from datetime import MAXYEAR, UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from go_scheduler.triggers.wall.local_time import next_instant, period_at
from go_scheduler.triggers.wall.wall_clock import WallClockTrigger
from go_scheduler.triggers.wall.zones import edition, load_zone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.triggers.cron.fields import CronFields
    from go_scheduler.triggers.cron.search import CronSearch

# As many fire times are found at once.
_AT_ONCE = 128
_NEVER = datetime.max.replace(tzinfo=UTC)

Link: TypeAlias = "tuple[datetime, Link | None]"
"""A fire time, and the next one if it is known."""


class CronAhead:
    """Answers which fire time is next, and remembers some that follow.

    Who asks for one fire time after the other, passing on what was returned, is given
    most of them out of some that were found at once. That is several times faster than
    a search for each, and makes no difference to what is answered. Several threads may
    ask at once, since they exchange nothing but whole links.

    Attributes:
        edition: Of the data of zones from before it was made: it is good for this one.
        link: What was answered last, and what follows it.

    Args:
        fields: What local times match.
        search: Finds them.
        timezone: The name of the zone in which they are read.
        gap: As ``next_instant`` takes it.
        overlap: As ``next_instant`` takes it.
    """

    __slots__ = (
        "_elapsed",
        "_fields",
        "_gap",
        "_overlap",
        "_search",
        "_zone",
        "edition",
        "link",
    )

    def __init__(
        self,
        fields: CronFields,
        search: CronSearch,
        *,
        timezone: str,
        gap: str,
        overlap: str,
    ) -> None:
        # In this order: if the data change in between, it is asked for again.
        self.edition = edition()
        self._zone = load_zone(timezone)
        self._fields = fields
        self._elapsed = fields.elapsed
        self._search = search
        self._gap = gap
        self._overlap = overlap
        self.link: Link = (_NEVER, None)

    def next(self, after: datetime) -> datetime | None:
        """The first fire time strictly later than an instant, by a search.

        Args:
            after: Any aware instant.

        Returns:
            A time in UTC; None if there is none before the year 10000.
        """
        in_turn = after is self.link[0] and len(self._fields.times_of_day()) > 0
        found = next_instant(
            self._search,
            after,
            self._zone,
            elapsed=self._elapsed,
            gap=self._gap,
            overlap=self._overlap,
        )
        if found is not None:
            self.link = self._linked(found) if in_turn else (found, None)
        return found

    def _linked(self, found: datetime) -> Link:
        """A fire time, and those that follow until the clocks change."""
        link: Link | None = None
        for instant in reversed(self._following(found)):
            link = (instant, link)
        return found, link

    def _following(self, found: datetime) -> Sequence[datetime]:
        period = period_at(found, self._zone)
        repeated = self._overlap == "second" and not self._elapsed
        end = period.instant(period.repeats) if repeated else period.end
        times = self._fields.times_of_day()
        first_times = times[:_AT_ONCE]
        following: list[datetime] = []
        for day in self._search.days(period.local(found)):
            begin = period.instant(day)
            if begin >= end or len(following) >= _AT_ONCE or day.year == MAXYEAR:
                break
            if begin <= found:
                passed = bisect_right(times, found - begin)
                following = [begin + time for time in times[passed:][:_AT_ONCE]]
            else:
                following += [begin + time for time in first_times]
        return following[: bisect_left(following, end)]


class LookAheadTrigger(WallClockTrigger):
    """Fires when a clock shows certain times, and remembers some that follow."""

    # As little as possible comes between a caller and what is known already.
    __slots__ = ("_ahead",)

    _ahead: CronAhead

    @abstractmethod
    def _look_ahead(self) -> CronAhead:
        """What answers; kept until the data of zones change."""

    def next_fire_time(self, after: datetime) -> datetime | None:
        """The first matching instant strictly later than a given one.

        Args:
            after: Any aware instant.

        Returns:
            A time in UTC; None if there is none before the year 10000.
        """
        ahead: CronAhead | None = getattr(self, "_ahead", None)
        if ahead is None or ahead.edition != edition():
            ahead = self._look_ahead()
            object.__setattr__(self, "_ahead", ahead)
        # Read once: another thread may put another link there.
        last, following = ahead.link
        if after is last and following is not None:
            ahead.link = following
            return following[0]
        return ahead.next(after)
