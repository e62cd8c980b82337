"""Triggers that fire when any, or all, of several others do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from go_scheduler.triggers.base import Progression, Trigger, progression_of
from go_scheduler.triggers.combining.compound import (
    CompoundTrigger,
    checked_items,
    checked_part,
    in_brackets,
    possible_microseconds,
)
from go_scheduler.triggers.combining.progressions import ProgressionTrigger, meeting
from go_scheduler.triggers.fire_time_sets import (
    NEVER,
    FireTimes,
    combine,
    fire_times_of,
    fire_times_of_all,
    union,
)
from go_scheduler.triggers.words import listed
from go_scheduler.triggers.worked_out import worked_out

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from go_scheduler.triggers.combining.compound import Candidate, FireTimeSearch


# Among no more than these, each is asked: the one that fires the most seldom says how
# far to go on.
_MOST_ALL_ASKED = 8


@dataclass(frozen=True, slots=True, init=False)
class TriggerList(CompoundTrigger):
    """A trigger that is made of a list of triggers."""

    triggers: tuple[Trigger, ...]

    def __init__(self, triggers: Sequence[Trigger]) -> None:
        self._create(triggers=triggers)

    def _check(self) -> None:
        items = checked_items("triggers", self.triggers, "triggers")
        triggers = [
            checked_part(f"triggers[{index}]", each) for index, each in enumerate(items)
        ]
        object.__setattr__(self, "triggers", tuple(triggers))


@dataclass(frozen=True, slots=True, init=False)
class AnyOfTrigger(TriggerList):
    """Fires whenever one of several triggers does, and only once if several do.

    An ``ExecuteOnceTrigger`` among others does not fire if its time has passed before
    it is scheduled.

    Attributes:
        triggers: The triggers.

    Args:
        triggers: 1 to 100.

    Raises:
        InvalidTriggerError: One of them is no trigger, waits for the end of a run, or
            cannot be stored; or they are too many or too large.
    """

    kind: ClassVar[str] = "any_of"

    def __init__(self, triggers: Sequence[Trigger]) -> None:
        TriggerList.__init__(self, triggers)

    @property
    def recurring(self) -> bool:  # type: ignore[override]
        """Whether it can fire more than once."""
        return len(self.triggers) > 1 or self.triggers[0].recurring

    def candidate(self, start: datetime, search: FireTimeSearch) -> Candidate | None:
        """The earliest candidate of its triggers."""
        found = [search.ask(each, start) for each in self.triggers]
        return min(
            (each for each in found if each is not None),
            key=lambda each: each.time,
            default=None,
        )

    def _fire_times(self) -> FireTimes | None:
        if (parts := fire_times_of_all(self.triggers)) is None:
            return None
        known = [each.microseconds for each in parts]
        return FireTimes(
            None if None in known else frozenset().union(*filter(None, known)),
            lambda microsecond: union([each.at(microsecond) for each in parts]),
        )

    def _progression(self) -> Progression | None:
        return progression_of(self.triggers[0]) if len(self.triggers) == 1 else None

    def describe(self) -> str:
        """Such as ``every weekday at 09:00 or every sunday at 12:00``."""
        return " or ".join(map(in_brackets, self.triggers))


@dataclass(frozen=True, slots=True, init=False)
class AllOfTrigger(TriggerList):
    """Fires at the instants at which all of several triggers fire.

    If there is no common fire time for 400 years, it fires no more. If there has never
    been one, it is refused. With triggers of your own the search steps from the fire
    times of one to those of another. After 100,000 steps without a common one it raises
    an error: the answer is not known.

    Attributes:
        triggers: The triggers.

    Args:
        triggers: 1 to 100.

    Raises:
        InvalidTriggerError: They have no common fire time; or one of them is no
            trigger, waits for the end of a run, or cannot be stored; or they are too
            many or too large.
    """

    kind: ClassVar[str] = "all_of"

    def __init__(self, triggers: Sequence[Trigger]) -> None:
        TriggerList.__init__(self, triggers)
        self._refuse_if_idle(
            "its triggers have no common fire time, or very seldom; to fire whenever"
            " one of them does, use an AnyOfTrigger"
        )

    @property
    def recurring(self) -> bool:  # type: ignore[override]
        """Whether it can fire more than once."""
        return all(each.recurring for each in self.triggers)

    def candidate(self, start: datetime, search: FireTimeSearch) -> Candidate | None:
        """A fire time of the first trigger if the others share it; else a later one."""
        if self._distinct is None:
            return None
        first, *others = self._distinct
        found = search.ask(first, start)
        if found is None or not found.fires:
            return found
        latest = found.time
        for each in others:
            if (other := search.ask(each, latest)) is None:
                return None
            latest = other.time
            if latest > found.time and len(others) > _MOST_ALL_ASKED:
                break
        return found if latest == found.time else search.reject(self, latest)

    def _fire_times(self) -> FireTimes | None:
        triggers = self._distinct or ()
        found = list(map(fire_times_of, triggers))
        parts = [each for each in found if each is not None]
        possible = map(possible_microseconds, triggers, found)
        known = [each for each in possible if each is not None]
        common = frozenset.intersection(*known) if known else None
        if self._distinct is None or common == frozenset():
            return FireTimes(frozenset(), lambda microsecond: NEVER)
        if len(parts) < len(found):
            return None
        return FireTimes(
            common,
            lambda microsecond: combine(
                int.__and__, [each.at(microsecond) for each in parts]
            ),
        )

    def _progression(self) -> Progression | None:
        triggers = self._distinct or ()
        return progression_of(triggers[0]) if len(triggers) == 1 else None

    @worked_out
    def _distinct(self) -> Sequence[Trigger] | None:
        """Its triggers; one stands for all of those that fire at equal distances.

        Returns:
            None: these never fire together.
        """
        triggers = list(self._flat())
        known = [progression_of(each) for each in triggers]
        found = [each for each in known if each is not None]
        if len(found) < 2:
            return triggers
        met: Progression | None = found[0]
        for each in found[1:]:
            met = met and meeting(met, each)
        if met is None:
            return None
        others = [
            trigger
            for trigger, each in zip(triggers, known, strict=True)
            if each is None
        ]
        return ProgressionTrigger(met), *others

    def _flat(self) -> Iterator[Trigger]:
        """Its triggers; each ``AllOfTrigger`` among them is replaced by its own."""
        for each in self.triggers:
            if isinstance(each, AllOfTrigger):
                yield from each._flat()
            else:
                yield each

    def describe(self) -> str:
        """Such as ``whenever both every hour and every 90 minutes``."""
        words = [in_brackets(each) for each in self.triggers]
        how_many = "both" if len(words) == 2 else "all of"
        return f"whenever {how_many} {listed(words)}"
