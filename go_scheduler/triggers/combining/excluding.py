"""Triggers that leave out some fire times of another: by calendars, or by triggers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from go_scheduler.argument_hints import write_instead
from go_scheduler.triggers.base import Trigger, progression_of
from go_scheduler.triggers.calendars.calendar import (
    are_own,
    checked_names,
    days_of_names,
    is_in,
)
from go_scheduler.triggers.combining.compound import (
    CompoundTrigger,
    checked_items,
    checked_part,
    in_brackets,
)
from go_scheduler.triggers.combining.progressions import covered_from, instant
from go_scheduler.triggers.fire_time_sets import (
    FireTimes,
    combine,
    difference,
    fire_times_of,
    fire_times_of_all,
    in_zone,
    union,
)
from go_scheduler.triggers.interval import IntervalTrigger
from go_scheduler.triggers.local_time import period_at
from go_scheduler.triggers.stored import dump_trigger
from go_scheduler.triggers.times import FIRST_INSTANT, just_after
from go_scheduler.triggers.words import listed
from go_scheduler.triggers.worked_out import worked_out
from go_scheduler.triggers.zones import load_zone, zone_key, zone_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from zoneinfo import ZoneInfo

    from go_scheduler.triggers.combining.compound import Candidate, FireTimeSearch
    from go_scheduler.triggers.fire_time_sets import YearlySet

_DAY = timedelta(days=1)
_MIDNIGHT = time()
_NO_END = datetime.max.replace(tzinfo=UTC)
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
        is_right = self._day_test()
        if is_right(day):
            return self._unless_left_out(found, search)
        for _ in range(_DAYS_AHEAD):
            if day == date.max:
                return None
            day += _DAY
            if is_right(day):
                break
        begins = period.instant(datetime.combine(day, _MIDNIGHT))
        # Where the clocks change, a day may begin twice, or never.
        return search.reject(self, min(begins, period.end))

    @abstractmethod
    def _day_test(self) -> Callable[[date], bool]:
        """The test whether it may fire on a day."""

    def _unless_left_out(
        self, found: Candidate, search: FireTimeSearch
    ) -> Candidate | None:
        """A fire time of the trigger on a day on which it may fire."""
        return found

    def _days(self) -> YearlySet:
        """The days of its calendars, from their first to their last second."""
        return in_zone(days_of_names(self._names()), load_zone(self.timezone))

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
        """The same as for all filters, until the exceptions leave nothing more."""
        found = FilteringTrigger.candidate(self, start, search)
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
        return _NO_END if end is None else instant(end)

    def _day_test(self) -> Callable[[date], bool]:
        names = self._names()
        return lambda day: not is_in(names, day)

    def _unless_left_out(
        self, found: Candidate, search: FireTimeSearch
    ) -> Candidate | None:
        for each in self._triggers():
            exception = search.ask(each, found.time)
            if exception is not None and exception.time == found.time:
                return search.reject(self, just_after(found.time))
        return found

    def _fire_times(self) -> FireTimes | None:
        found = fire_times_of_all([self.trigger, *self._triggers()])
        if found is None:
            return None
        times, *exceptions = found
        days = [self._days()] if self._names() else []

        def at(microsecond: int) -> YearlySet:
            left_out = union([*(each.at(microsecond) for each in exceptions), *days])
            return combine(difference, [times.at(microsecond), left_out])

        return FireTimes(times.microseconds, at)

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

    def _day_test(self) -> Callable[[date], bool]:
        return partial(is_in, self.calendars)

    def _fire_times(self) -> FireTimes | None:
        if (times := fire_times_of(self.trigger)) is None:
            return None
        days = self._days()
        return FireTimes(
            times.microseconds,
            lambda microsecond: combine(int.__and__, [times.at(microsecond), days]),
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
