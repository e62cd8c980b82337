"""The search for a fire time, by steps that are quick one by one, and bounded."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import gcd, lcm
from sys import maxsize
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.triggers.base import (
    Progression,
    Trigger,
    is_own,
    next_fire_time_of,
    phases_of,
    utc,
    years_of,
)
from go_scheduler.triggers.calendars.calendar import edition_of_names
from go_scheduler.triggers.times import (
    FIRST_INSTANT,
    MICROSECOND,
    just_after,
    microseconds_of,
)
from go_scheduler.triggers.years.fire_times import LONGEST_SEARCH, FireTimes
from go_scheduler.triggers.years.sets import (
    SearchBudget,
    UndecidedError,
    phases,
    progression,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.triggers.years.sets import Years

_LAST_MICROSECOND = microseconds_of(datetime.max.replace(tzinfo=UTC))
_MOST_IN_TURN = 100_000


@dataclass(frozen=True)
class ProgressionTrigger(Trigger):
    """Fires at the instants of a progression; it only stands in for others."""

    progression: Progression

    def next_fire_time(self, after: datetime) -> datetime | None:
        """The first of them later than an instant."""
        first, step = self.progression
        passed = microseconds_of(utc(after, name="after")) - first
        number = first + max(passed // step + 1, 0) * step
        return instant(number) if number <= _LAST_MICROSECOND else None

    def _phases(self) -> frozenset[int] | None:
        return phases(*self.progression)

    def _years(self, phase: int) -> Years:
        return progression(*self.progression, phase)


def instant(number: int) -> datetime:
    """The instant of a number of microseconds, or the last one of all."""
    return FIRST_INSTANT + min(number, _LAST_MICROSECOND) * MICROSECOND


def meeting(one: Progression, other: Progression) -> Progression | None:
    """The instants that two have in common; None: there are none."""
    common = gcd(one.step, other.step)
    apart = other.first - one.first
    if apart % common:
        return None
    cycle = other.step // common
    ahead = apart // common * pow(one.step // common, -1, cycle) % cycle
    step = one.step * cycle
    met = one.first + ahead * one.step
    late = max(one.first, other.first) - met
    return Progression(met + max(-(-late // step), 0) * step, step)


def covered_from(one: Progression, others: Sequence[Progression]) -> int | None:
    """From when on each instant of one is among those of others.

    Returns:
        A number of microseconds; None: never, or that would take too long to find out.
    """
    found = [each for other in others if (each := meeting(one, other))]
    # The others as numbers of its instants: every so many, from one on.
    cycles = [each.step // one.step for each in found]
    if 1 in cycles:
        return found[cycles.index(1)].first
    together = lcm(*cycles)
    if not found or together > _MOST_IN_TURN:
        return None
    covered = bytearray(together)
    for each, cycle in zip(found, cycles, strict=True):
        number = (each.first - one.first) // one.step
        covered[number % cycle :: cycle] = b"\1" * (together // cycle)
    return max(each.first for each in found) if all(covered) else None


MOST_CANDIDATES = 100_000
"""The most instants that one search tries in vain, of a trigger without sets."""

# So many questions are answered sooner one by one than a year is worked out.
_MOST_QUESTIONS = 250
# A trigger of this package that sets do not find is rare, or steps by odd lengths.
_MOST_QUESTIONS_TO_OWN = 1_200
_LONGEST_SEARCH = LONGEST_SEARCH * timedelta(days=365.2425)


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

    # Worked out once and kept: no field, and neither compared nor stored nor pickled.
    __slots__ = ("_ends", "_is_anchored_for_good", "_meeting", "_sets")

    _ends: datetime
    _is_anchored_for_good: bool
    _meeting: Sequence[Trigger] | None
    _sets: tuple[FireTimes | None, int]

    @abstractmethod
    def candidate(self, start: datetime, search: FireTimeSearch) -> Candidate | None:
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
            A time in UTC; None if there is none before the year 10000, or for 400
            years.

        Raises:
            InvalidTriggerError: A part has returned what is no fire time; or it stays
                open whether there is one, as too many instants are left out.
        """
        after = utc(after, name="after")
        return FireTimeSearch(self._from(after)).next_fire_time(after)

    def _from(self, now: datetime) -> SearchedTrigger:
        """This trigger, all of it counting from one instant, if it has to from any."""
        if getattr(self, "_is_anchored_for_good", False):
            return self
        anchored = self.anchored(now)
        if anchored is self:
            object.__setattr__(self, "_is_anchored_for_good", True)
        return anchored


class FireTimeSearch:
    """The search for one fire time of a trigger, through all that it is made of.

    It begins with one candidate after the other, which is quick as a rule. Where many
    are left out it goes on with sets of fire times. These are known of this package's
    triggers; for others it goes on as it began, and gives up after so many candidates.

    Args:
        trigger: Whose fire time to find.
        most: How many instants to try in vain, at most.
        effort: What sets may cost; by default as much as for one question.
    """

    def __init__(
        self,
        trigger: Trigger,
        *,
        most: int = MOST_CANDIDATES,
        effort: SearchBudget | None = None,
    ) -> None:
        self._trigger = trigger
        self._left = most
        self._effort = effort or SearchBudget()
        self._questions = 0
        self._last_question = maxsize
        self._most_questions = _MOST_QUESTIONS if _known_sets(trigger) is None else 0
        self._since: dict[int, datetime] = {}
        self._answers: dict[int, tuple[datetime, Candidate | None]] = {}

    def next_fire_time(self, after: datetime) -> datetime | None:
        """The first fire time strictly later than a given instant in UTC, or None.

        Raises:
            UndecidedError: It has tried as many candidates as it may.
        """
        if (start := just_after(after)) is None:
            return None
        while (found := self.ask(self._trigger, start)) is not None:
            if found.fires:
                return found.time
            start = found.time
            if self._questions > self._most_questions:
                times = _sets_of(self._trigger)
                if times is not None:
                    # If sets take too much, a few candidates may still lead there.
                    with suppress(UndecidedError):
                        return times.next(start, self._leap, self._effort)
                self._most_questions = maxsize
                if is_own(self._trigger):
                    most = min(self._left, _MOST_QUESTIONS_TO_OWN)
                    self._last_question = self._questions + most
        return None

    def ask(self, trigger: Trigger, start: datetime) -> Candidate | None:
        """The first instant at or after a given one at which a trigger may fire.

        Raises:
            InvalidTriggerError: A trigger has returned what is no fire time.
        """
        if isinstance(trigger, SearchedTrigger):
            return trigger.candidate(start, self)
        if (known := self._answers.get(id(trigger))) is not None:
            since, answer = known
            if since <= start and (answer is None or start <= answer.time):
                return answer
        if self._questions >= self._last_question:
            raise _undecided(start)
        self._questions += 1
        found = next_fire_time_of(trigger, start - MICROSECOND)
        answer = None if found is None else Candidate(found, fires=True)
        self._answers[id(trigger)] = start, answer
        return answer

    def vain(
        self, trigger: SearchedTrigger, until: datetime | None
    ) -> Candidate | None:
        """Note that a trigger does not fire at an instant.

        Args:
            trigger: The trigger.
            until: Nor before this; None: never again.

        Returns:
            Where it may fire; None if it has not for 400 years.

        Raises:
            UndecidedError: It is one candidate too many.
        """
        if until is None:
            return None
        self._left -= 1
        if self._left < 0:
            raise _undecided(until)
        since = self._since.setdefault(id(trigger), until)
        if until - since > _LONGEST_SEARCH:
            return None
        return Candidate(until, fires=False)

    def _leap(self, start: datetime) -> datetime | None:
        # It has its own share of what may be tried in vain.
        found = FireTimeSearch(self._trigger).ask(self._trigger, start)
        return None if found is None else found.time


def _sets_of(trigger: Trigger) -> FireTimes | None:
    """Its fire times as sets, worked out once until a calendar changes."""
    if (known := _known_sets(trigger)) is not None:
        return known
    # Asked for first: if one changes meanwhile, they are worked out again.
    of = edition_of_names()
    times = fire_times_of(trigger)
    object.__setattr__(trigger, "_sets", (times, of))
    return times


def _known_sets(trigger: Trigger) -> FireTimes | None:
    times, of = getattr(trigger, "_sets", (None, None))
    return times if of == edition_of_names() else None


def fire_times_of(trigger: Trigger) -> FireTimes | None:
    """The fire times of a trigger as sets; None: they are not known as such."""
    phases = phases_of(trigger)
    if phases is None:
        return None
    years = {each: years_of(trigger, each) for each in sorted(phases)}
    known = {phase: each for phase, each in years.items() if each is not None}
    return FireTimes(known) if len(known) == len(years) else None


def _undecided(until: datetime) -> UndecidedError:
    return UndecidedError(
        "it could not be decided when it fires: too many times in a row are left out,"
        f" the last one before {until:%Y-%m-%d %H:%M:%S}"
    )
