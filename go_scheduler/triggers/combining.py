"""Triggers made of others: any or all of several, without some times, within bounds.

Where instants at equal distances meet, and where some leave out all others, arithmetic
finds. Steps of 86,399 and 86,291 seconds meet once in 236 years: a walk from one
instant to the next would take too long.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from math import gcd, lcm
from threading import Lock
from typing import TYPE_CHECKING, ClassVar, Self

from go_scheduler.argument_hints import write_instead
from go_scheduler.errors import InvalidTriggerError
from go_scheduler.formatting import shown
from go_scheduler.triggers import fire_time_sets as sets
from go_scheduler.triggers.base import (
    Progression,
    Trigger,
    UndecidedError,
    checked_instant,
    dump_trigger,
    progression_of,
    utc,
    worked_out,
)
from go_scheduler.triggers.calendars import (
    are_own,
    checked_names,
    days_of_names,
    edition_of_names,
    is_in,
)
from go_scheduler.triggers.compound import (
    Candidate,
    CompoundTrigger,
    FireTimeSearch,
    anchored_part,
    checked_items,
    checked_part,
    in_brackets,
    searchable_times_of,
)
from go_scheduler.triggers.local_time import (
    WallClock,
    load_zone,
    period_at,
    zone_key,
    zone_of,
)
from go_scheduler.triggers.simple import IntervalTrigger
from go_scheduler.triggers.times import (
    FIRST_INSTANT,
    LAST_INSTANT,
    MICROSECOND,
    checked_length,
    just_after,
    microseconds_of,
    seconds_until,
)
from go_scheduler.triggers.words import length, listed, moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from zoneinfo import ZoneInfo


_LAST_MICROSECOND = microseconds_of(LAST_INSTANT)
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

    def _progression(self) -> Progression:
        return self.progression


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
        triggers: The triggers, 1 to 100.

    Raises:
        InvalidTriggerError: One of them is no trigger, waits for the end of a run, or
            cannot be stored; or they are too many or too large.
    """

    kind: ClassVar[str] = "any_of"

    # Of its own: a wrong call is told by the name of the class.
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

    def _fire_times(self) -> sets.FireTimes | None:
        if (parts := sets.fire_times_of_all(self.triggers)) is None:
            return None
        known = [each.microseconds for each in parts]
        return sets.FireTimes(
            None if None in known else frozenset().union(*filter(None, known)),
            lambda microsecond: sets.union([each.at(microsecond) for each in parts]),
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

    def _fire_times(self) -> sets.FireTimes | None:
        triggers = self._distinct or ()
        found = list(map(sets.fire_times_of, triggers))
        parts = [each for each in found if each is not None]
        possible = map(possible_microseconds, triggers, found)
        known = [each for each in possible if each is not None]
        common = frozenset.intersection(*known) if known else None
        if self._distinct is None or common == frozenset():
            return sets.FireTimes(frozenset(), lambda microsecond: sets.NEVER)
        if len(parts) < len(found):
            return None
        return sets.FireTimes(
            common,
            lambda microsecond: sets.combine(
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


def possible_microseconds(
    trigger: Trigger, times: sets.FireTimes | None
) -> frozenset[int] | None:
    """The microseconds of a second at which a trigger can fire; None: not known.

    Args:
        trigger: The trigger.
        times: Its fire times, if they are known as sets.
    """
    while times is None:
        part = getattr(trigger, "trigger", None)
        if not isinstance(trigger, CompoundTrigger) or not isinstance(part, Trigger):
            return None
        # One that is made of a single other fires at some of its times.
        trigger, times = part, sets.fire_times_of(part)
    return times.microseconds


_DAY = timedelta(days=1)
_MIDNIGHT = time()
_DAYS_AHEAD = 30
"""How many days one step of a search looks through."""


class FilteringTrigger(CompoundTrigger):
    """Fires when another trigger does, but not on all days.

    Attributes:
        trigger: The other trigger.
        timezone: The IANA name of the zone in which days are read.
    """

    trigger: Trigger
    timezone: str

    @property
    def recurring(self) -> bool:  # type: ignore[override]
        """Whether it can fire more than once."""
        return self.trigger.recurring

    def _described(self) -> str:
        text = before_suffix(self.trigger)
        # On some days, an interval would begin anew on each of them.
        return f"({text})" if isinstance(self.trigger, IntervalTrigger) else text

    @abstractmethod
    def _names(self) -> Sequence[str]:
        """The names of its calendars."""

    def _is_made_of_own(self) -> bool:
        return super()._is_made_of_own() and are_own(self._names())

    def candidate(self, start: datetime, search: FireTimeSearch) -> Candidate | None:
        """A fire time of the trigger, or when the next day begins that is not left out.

        Days are skipped whole: a trigger may fire every second of them.
        """
        found = search.ask(self.trigger, start)
        if found is None or not found.fires:
            return found
        period = period_at(found.time, load_zone(self.timezone))
        day = period.local(found.time).date()
        if self._admits(day):
            return found
        for _ in range(_DAYS_AHEAD):
            if day == date.max:
                return None
            day += _DAY
            if self._admits(day):
                break
        begins = period.instant(datetime.combine(day, _MIDNIGHT))
        # Where the clocks change, a day may begin twice, or never.
        return search.reject(self, min(begins, period.end))

    @abstractmethod
    def _admits(self, day: date) -> bool:
        """Whether it may fire on a day, by its calendars."""

    def _days(self) -> sets.YearlySet:
        """The days of its calendars, from their first to their last second."""
        clock = WallClock(load_zone(self.timezone)).following_elapsed_time()
        return sets.on_clock(days_of_names(self._names()), clock)

    def _check_trigger(self) -> None:
        """Check what all of them have; without a zone, days are the trigger's."""
        trigger = checked_part("trigger", self.trigger)
        zone = (
            zone_of(trigger) or "UTC"
            if self.timezone is None
            else zone_key(self.timezone)
        )
        object.__setattr__(self, "timezone", zone)


@write_instead("ExceptTrigger(trigger, exceptions)")
@dataclass(frozen=True, slots=True, init=False)
class ExceptTrigger(FilteringTrigger):
    """Fires when a trigger does, except on certain days and at certain times.

    ```python
    ExceptTrigger(CronTrigger("0 9 * * *", "Europe/Berlin"), "public-holidays")
    ```

    If nothing is left for 400 years, it fires no more. If nothing has ever been left,
    it is refused. The next fire time is found at once, however many times are left out.
    Only with triggers of your own they are tried one by one. After 100,000 that are all
    left out it raises an error: the answer is not known.

    Attributes:
        trigger: The trigger.
        exceptions: Names of calendars, on whose days it does not fire, and triggers, at
            whose fire times it does not fire.
        timezone: The IANA name of the zone in which days are read.

    Args:
        trigger: The trigger.
        exceptions: 1 to 100, or a single one.
        timezone: An IANA name, or a ``ZoneInfo`` that has one; None: that of the
            trigger, or of the first of its parts that has one, else UTC.

    Raises:
        InvalidTriggerError: No calendar of a name is registered; nothing is left; one
            of the triggers is none, waits for the end of a run, or cannot be stored;
            or they are too many or too large.
    """

    kind: ClassVar[str] = "except"

    trigger: Trigger
    exceptions: tuple[str | Trigger, ...]
    timezone: str

    def __init__(
        self,
        trigger: Trigger,
        exceptions: str | Trigger | Sequence[str | Trigger],
        timezone: str | ZoneInfo | None = None,
    ) -> None:
        self._create(trigger=trigger, exceptions=exceptions, timezone=timezone)
        self._refuse_if_idle("its exceptions leave none of its fire times")

    def describe(self) -> str:
        """Such as ``every day at 09:00 except on public-holidays``."""
        words = [f"({each.describe()})" for each in self._triggers()]
        if names := self._names():
            words.insert(0, f"on {listed(names)}")
        return " except ".join([self._described(), *words])

    def candidate(self, start: datetime, search: FireTimeSearch) -> Candidate | None:
        """The same as for all filters, unless a trigger leaves it out."""
        found = FilteringTrigger.candidate(self, start, search)
        if found is not None and found.fires:
            for each in self._triggers():
                exception = search.ask(each, found.time)
                if exception is not None and exception.time == found.time:
                    found = search.reject(self, just_after(found.time))
                    break
        return None if found is None or found.time >= self._nothing_left_from else found

    @worked_out
    def _nothing_left_from(self) -> datetime:
        """From when on the exceptions leave nothing; the end of time if not known."""
        exceptions = self._triggers()
        if any(_are_same(self.trigger, each) for each in exceptions):
            return FIRST_INSTANT
        one = progression_of(self.trigger)
        others = [each for each in map(progression_of, exceptions) if each]
        end = one and covered_from(one, others)
        return LAST_INSTANT if end is None else instant(end)

    def _admits(self, day: date) -> bool:
        return not is_in(self._names(), day)

    def _fire_times(self) -> sets.FireTimes | None:
        found = sets.fire_times_of_all([self.trigger, *self._triggers()])
        if found is None:
            return None
        times, *exceptions = found
        days = [self._days()] if self._names() else []

        def at(microsecond: int) -> sets.YearlySet:
            left_out = [*(each.at(microsecond) for each in exceptions), *days]
            kept = [times.at(microsecond), sets.union(left_out)]
            return sets.combine(sets.difference, kept)

        return sets.FireTimes(times.microseconds, at)

    def _names(self) -> list[str]:
        return [each for each in self.exceptions if isinstance(each, str)]

    def _triggers(self) -> list[Trigger]:
        return [each for each in self.exceptions if isinstance(each, Trigger)]

    def _check(self) -> None:
        self._check_trigger()
        given: object = self.exceptions
        if isinstance(given, str | Trigger):
            given = (given,)
        items = checked_items("exceptions", given, "names of calendars or triggers")
        exceptions = [
            checked_names(name, each)[0]
            if isinstance(each, str)
            else checked_part(name, each)
            for index, each in enumerate(items)
            for name in [f"exceptions[{index}]"]
        ]
        object.__setattr__(self, "exceptions", tuple(exceptions))


@write_instead('OnlyTrigger(trigger, "working days")')
@dataclass(frozen=True, slots=True, init=False)
class OnlyTrigger(FilteringTrigger):
    """Fires when a trigger does, on the days of certain calendars only.

    ```python
    OnlyTrigger(CronTrigger("0 9 * * *", "Europe/Berlin"), "business-days")
    ```

    If for 400 years the trigger fires on no day of the calendars, it fires no more. If
    it fires on no such day from 1970 on, it is refused.

    Attributes:
        trigger: The trigger.
        calendars: The names of calendars; it is enough that a day is in one of them.
        timezone: The IANA name of the zone in which days are read.

    Args:
        trigger: The trigger.
        calendars: 1 to 100 names, or a single one.
        timezone: An IANA name, or a ``ZoneInfo`` that has one; None: that of the
            trigger, or of the first of its parts that has one, else UTC.

    Raises:
        InvalidTriggerError: No calendar of a name is registered; nothing is left; or
            the trigger is none, waits for the end of a run, or cannot be stored.
    """

    kind: ClassVar[str] = "only"

    trigger: Trigger
    calendars: tuple[str, ...]
    timezone: str

    def __init__(
        self,
        trigger: Trigger,
        calendars: str | Sequence[str],
        timezone: str | ZoneInfo | None = None,
    ) -> None:
        self._create(trigger=trigger, calendars=calendars, timezone=timezone)
        self._refuse_if_idle("none of its fire times is on a day of its calendars")

    def describe(self) -> str:
        """Such as ``every day at 09:00 only on business-days``."""
        return f"{self._described()} only on {listed(self.calendars)}"

    def _names(self) -> Sequence[str]:
        return self.calendars

    def _admits(self, day: date) -> bool:
        return is_in(self.calendars, day)

    def _fire_times(self) -> sets.FireTimes | None:
        if (times := sets.fire_times_of(self.trigger)) is None:
            return None
        days = self._days()
        return sets.FireTimes(
            times.microseconds,
            lambda microsecond: sets.combine(
                int.__and__, [times.at(microsecond), days]
            ),
        )

    def _check(self) -> None:
        self._check_trigger()
        names = checked_names("calendars", self.calendars)
        object.__setattr__(self, "calendars", names)


def _are_same(one: Trigger, other: Trigger) -> bool:
    """Whether two triggers always fire together, as what is kept of them is equal."""
    return one == other and dump_trigger(one) == dump_trigger(other)


def before_suffix(trigger: Trigger) -> str:
    """Its description, in brackets if the words after it would apply to a part only."""
    if isinstance(trigger, FilteringTrigger):
        return trigger.describe()
    return in_brackets(trigger)


MOST_TIMES = 100_000
"""The most fire times a limit can count."""

_MOST_WALKED = 100


@write_instead("LimitedTrigger(trigger, limit=3)")
@dataclass(frozen=True, slots=True, init=False)
class LimitedTrigger(CompoundTrigger):
    """Fires when a trigger does, within bounds: a start, an end, a number of times.

    ```python
    LimitedTrigger(IntervalTrigger(timedelta(hours=1)), start=launch, limit=5)
    ```

    The limit counts the fire times of the series from its ``start``, whether they were
    run or not; without a start, from when the definition is first scheduled.

    Attributes:
        trigger: The trigger. An ``IntervalTrigger`` in it that has no anchor is
            anchored at ``start``, if there is one, and so first fires then.
        start: It does not fire before this; kept in UTC.
        end: It does not fire after this; kept in UTC.
        limit: How many times it fires at most.
        duration: How long after its start, or after it was scheduled, it may fire.
        anchored_at: What it counts from without a start. Kept by the store and not part
            of the trigger's value.

    Args:
        trigger: The trigger.
        start: An aware datetime; None: no such bound.
        end: An aware datetime, not before ``start``; None: no such bound.
        limit: 1 to 100,000; None: no such bound.
        duration: Longer than zero; None: no such bound.
        anchored_at: As stored.

    Raises:
        InvalidTriggerError: A bound is of a wrong type or out of range; it never fires
            within its bounds; or the trigger is none, waits for the end of a run, or
            cannot be stored.
    """

    kind: ClassVar[str] = "limited"

    trigger: Trigger
    start: datetime | None = None
    end: datetime | None = None
    limit: int | None = None
    duration: timedelta | None = None
    anchored_at: datetime | None = field(
        default=None, compare=False, repr=False, kw_only=True
    )

    def __init__(
        self,
        trigger: Trigger,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        limit: int | None = None,
        duration: timedelta | None = None,
        anchored_at: datetime | None = None,
    ) -> None:
        self._create(
            trigger=trigger,
            start=start,
            end=end,
            limit=limit,
            duration=duration,
            anchored_at=anchored_at,
        )
        floor = self._floor()
        self._refuse_if_idle(
            "its trigger has no fire time within its bounds",
            start=None if floor is None else floor - MICROSECOND,
        )

    @property
    def recurring(self) -> bool:  # type: ignore[override]
        """Whether it can fire more than once."""
        return self.limit != 1 and self.trigger.recurring

    def anchored(self, now: datetime) -> Self:
        """This trigger counting from ``now``, unless it counts from somewhere already.

        Args:
            now: When the definition is first scheduled; aware.

        Raises:
            ConfigurationError: It is no aware datetime.
        """
        if self._knows_start():
            return CompoundTrigger.anchored(self, now)
        trigger = anchored_part(self.trigger, now)
        return self._with(trigger=trigger, anchored_at=utc(now, name="now"))

    def candidate(self, start: datetime, search: FireTimeSearch) -> Candidate | None:
        """The answer of its trigger, within the bounds."""
        floor = self._floor()
        found = search.ask(self.trigger, start if floor is None else max(start, floor))
        if found is None or found.time > self._ceiling():
            return None
        if self.limit is None or floor is None or not found.fires:
            return found
        if progression_of(self.trigger):
            return found
        count = _count(self._text, edition_of_names())
        return found if count.allows(found.time) else None

    @worked_out
    def _text(self) -> str:
        """It as it is stored, as JSON: not all triggers have a hash."""
        return json.dumps(self.to_dict(), sort_keys=True)

    def _fire_times(self) -> sets.FireTimes | None:
        if (times := sets.fire_times_of(self.trigger)) is None:
            return None
        floor = self._floor() or FIRST_INSTANT
        ceiling = just_after(self._ceiling()) or LAST_INSTANT
        count: sets.RunningCount | None = None
        if self.limit is not None and not progression_of(self.trigger):
            if times.microseconds is None:
                return None
            count = sets.RunningCount(times, floor, self.limit)

        def at(microsecond: int) -> sets.YearlySet:
            begin, end = (seconds_until(each, microsecond) for each in (floor, ceiling))
            found = sets.bounded(times.at(microsecond), begin, end)
            if count is None:
                return found
            return sets.counted(found, count, microsecond=microsecond)

        return sets.FireTimes(times.microseconds, at)

    def describe(self) -> str:
        """Such as ``every hour starting 2030-01-01 00:00 until 2030-02-01 00:00``."""
        text = before_suffix(self.trigger)
        if self.start is not None:
            text += f" starting {self._local(self.start)}"
        if self.end is not None:
            text += f" until {self._local(self.end)}"
        if self.duration is not None:
            text += f" for {length(self.duration)}"
        if self.limit is not None:
            text += ", once" if self.limit == 1 else f", {self.limit} times"
        bounds = (self.start, self.end, self.duration, self.limit)
        return text if any(bounds) else f"{text} from now on"

    def _local(self, instant: datetime) -> str:
        if self.timezone is None:
            return moment(instant)
        local = period_at(instant, load_zone(self.timezone)).local(instant)
        whole = not local.second and not local.microsecond
        return local.isoformat(" ", "minutes" if whole else "auto")

    def _knows_start(self) -> bool:
        if self.limit is None and self.duration is None and self.end is not None:
            return True
        return self._floor() is not None

    def _floor(self) -> datetime | None:
        """The first instant at which it may fire; None: that is not known yet."""
        if self.start is not None:
            return max(self.start, FIRST_INSTANT + MICROSECOND)
        if self.anchored_at is not None:
            return just_after(self.anchored_at) or self.anchored_at
        return None

    def _ceiling(self) -> datetime:
        """The last instant at which it may fire, as far as that is known."""
        last = min(self.end or LAST_INSTANT, self._last_counted())
        begin = self.start or self.anchored_at
        if (
            self.duration is None
            or begin is None
            or LAST_INSTANT - begin <= self.duration
        ):
            return last
        return min(last, begin + self.duration)

    def _last_counted(self) -> datetime:
        """The last instant within the limit, if arithmetic can tell it."""
        floor, found = self._floor(), progression_of(self.trigger)
        if self.limit is None or floor is None or found is None:
            return LAST_INSTANT
        passed = -((found.first - microseconds_of(floor)) // found.step)
        return instant(found.first + (max(passed, 0) + self.limit - 1) * found.step)

    def _check(self) -> None:
        for name in ("start", "end", "anchored_at"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, checked_instant(value, name=name))
        start, end, limit = self.start, self.end, self.limit
        if start is not None and end is not None and end < start:
            raise InvalidTriggerError(f"the end {end} is before the start {start}")
        if limit is not None and (
            type(limit) is not int or not 1 <= limit <= MOST_TIMES
        ):
            raise InvalidTriggerError(
                f"limit must be a number from 1 to {MOST_TIMES:,}, not {shown(limit)}"
            )
        if self.duration is not None:
            checked_length("duration", self.duration)
        trigger = checked_part("trigger", self.trigger)
        if self.start is not None:
            trigger = anchored_part(trigger, self.start)
        object.__setattr__(self, "trigger", trigger)


class _LimitCount:
    """Whether fire times are within a limit.

    Args:
        trigger: Whose fire times count.
        start: From when on.
        limit: How many there may be.
    """

    def __init__(self, trigger: Trigger, start: datetime, limit: int) -> None:
        self._trigger = trigger
        self._limit = limit
        times = searchable_times_of(trigger)
        self._count = None if times is None else sets.RunningCount(times, start, limit)
        # How far it has counted one by one.
        self._last = start - MICROSECOND
        self._left = limit
        self._lock = Lock()

    def allows(self, fire_time: datetime) -> bool:
        """Whether a fire time is within the limit.

        Raises:
            UndecidedError: That costs too much to count.
        """
        if self._count is not None:
            until = sets.microsecond_of(fire_time)
            try:
                passed = self._count.before(fire_time.year, until, sets.SearchBudget())
                return passed < self._limit
            except UndecidedError:
                if self._limit > _MOST_WALKED:
                    raise
        with self._lock:
            search = FireTimeSearch(self._trigger)
            while self._last < fire_time and self._left:
                found = search.next_fire_time(self._last)
                self._left = 0 if found is None else self._left - 1
                self._last = found or self._last
            return fire_time <= self._last


@lru_cache(maxsize=512)
def _count(state: str, edition: int) -> _LimitCount:
    """The count of a trigger, cached as long as no calendar changes.

    Args:
        state: The trigger as it is stored, as JSON text: each time a definition is
            read, its trigger is another object.
        edition: The edition_of_names of the calendars.
    """
    trigger = LimitedTrigger.from_dict(json.loads(state))
    floor, limit = trigger._floor(), trigger.limit
    assert floor is not None
    assert limit is not None
    return _LimitCount(trigger.trigger, floor, limit)
