"""The search for a fire time, by steps that are quick one by one, and bounded."""

from __future__ import annotations

from abc import abstractmethod
from datetime import datetime, timedelta
from typing import NamedTuple

from go_scheduler.triggers.base import Trigger, next_fire_time_of, utc

MOST_CANDIDATES = 100_000
"""The most instants that one search tries in vain."""

LONGEST_SEARCH = timedelta(days=36_525)
"""How far from the first instant tried in vain a search goes: 100 years."""

MICROSECOND = timedelta(microseconds=1)


class Candidate(NamedTuple):
    """The next instant at which a trigger may fire.

    Attributes:
        time: In UTC. It does not fire between the instant asked about and this one.
        fires: Whether it fires then. If not, one has to ask again from here; this is
            then later than the instant asked about.
    """

    time: datetime
    fires: bool


class SearchedTrigger(Trigger):
    """A trigger that may have to try many instants before it finds a fire time."""

    __slots__ = ()

    @abstractmethod
    def candidate(self, start: datetime, search: Search) -> Candidate | None:
        """The first instant at or after a given one at which it may fire.

        It takes one step, so that a search through triggers of triggers stays bounded.

        Args:
            start: In UTC; later than the earliest instant there is.
            search: Asks other triggers, and is told of each instant tried in vain.

        Returns:
            None: it never fires again, or the search gives it up.
        """

    def next_fire_time(self, after: datetime) -> datetime | None:
        """The first fire time strictly later than a given instant.

        Args:
            after: Any aware instant.

        Returns:
            A time in UTC; None if there is none before the year 10000, or if 100,000
            instants or 100 years of them were tried in vain.

        Raises:
            InvalidTriggerError: A part has returned what is no fire time.
        """
        return Search(self).next_fire_time(utc(after, name="after"))


class Search:
    """The search for one fire time of a trigger, through all that it is made of.

    Each searched trigger among these may try so many instants in vain, over so many
    years, and is then taken to fire never again; that ends any search.

    Args:
        trigger: Whose fire time to find.
        most: How many instants to try in vain, at most.
    """

    def __init__(self, trigger: Trigger, *, most: int = MOST_CANDIDATES) -> None:
        self._trigger = trigger
        self._most = most
        self._tried: dict[int, _Tried] = {}

    @property
    def tried(self) -> int:
        """How many instants were tried in vain."""
        return sum(each.count for each in self._tried.values())

    def next_fire_time(self, after: datetime) -> datetime | None:
        """The first fire time strictly later than a given instant in UTC, or None."""
        if (start := just_after(after)) is None:
            return None
        while (found := self.ask(self._trigger, start)) is not None:
            if found.fires:
                return found.time
            start = found.time
        return None

    def ask(self, trigger: Trigger, start: datetime) -> Candidate | None:
        """The first instant at or after a given one at which a trigger may fire.

        Raises:
            InvalidTriggerError: A trigger has returned what is no fire time.
        """
        if isinstance(trigger, SearchedTrigger):
            return trigger.candidate(start, self)
        found = next_fire_time_of(trigger, start - MICROSECOND)
        return None if found is None else Candidate(found, fires=True)

    def vain(
        self, trigger: SearchedTrigger, until: datetime | None
    ) -> Candidate | None:
        """Note that a trigger does not fire at an instant.

        Args:
            trigger: The trigger.
            until: Nor before this; None: never again.

        Returns:
            Where it may fire; None if it is given up.
        """
        if until is None:
            return None
        tried = self._tried.get(id(trigger))
        if tried is None:
            tried = self._tried[id(trigger)] = _Tried(until)
        # Asked about earlier instants, it says the same again.
        if tried.until != until:
            tried.until = until
            tried.count += 1
        if tried.count >= self._share() or until - tried.since > LONGEST_SEARCH:
            return None
        return Candidate(until, fires=False)

    def _share(self) -> int:
        return max(1, self._most // len(self._tried))


class _Tried:
    """What a search tried in vain for one trigger."""

    __slots__ = ("count", "since", "until")

    def __init__(self, until: datetime) -> None:
        self.since = self.until = until
        self.count = 1


def just_after(instant: datetime) -> datetime | None:
    """The next instant there is; None at the end of time."""
    try:
        return instant + MICROSECOND
    except OverflowError:
        return None
