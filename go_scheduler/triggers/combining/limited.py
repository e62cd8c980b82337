"""The trigger that fires within bounds: a start, an end, a number of times."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, ClassVar, Self

from go_scheduler.argument_hints import write_instead
from go_scheduler.errors import ConfigurationError, InvalidTriggerError
from go_scheduler.formatting import shown
from go_scheduler.triggers.base import Trigger, UndecidedError, progression_of, utc
from go_scheduler.triggers.calendars.calendar import edition_of_names
from go_scheduler.triggers.combining.compound import (
    Candidate,
    CompoundTrigger,
    FireTimeSearch,
    anchored_part,
    checked_part,
    searchable_times_of,
)
from go_scheduler.triggers.combining.excluding import before_suffix
from go_scheduler.triggers.combining.progressions import instant
from go_scheduler.triggers.fire_time_sets import (
    FireTimes,
    RunningCount,
    SearchBudget,
    bounded,
    counted,
    fire_times_of,
    microsecond_of,
)
from go_scheduler.triggers.local_time import period_at
from go_scheduler.triggers.times import (
    FIRST_INSTANT,
    LAST_INSTANT,
    MICROSECOND,
    checked_length,
    just_after,
    microseconds_of,
    seconds_until,
)
from go_scheduler.triggers.words import length, moment
from go_scheduler.triggers.zones import load_zone

if TYPE_CHECKING:
    from go_scheduler.triggers.fire_time_sets import YearlySet

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
        count = _count(json.dumps(self.to_dict(), sort_keys=True), edition_of_names())
        return found if count.allows(found.time) else None

    def _fire_times(self) -> FireTimes | None:
        if (times := fire_times_of(self.trigger)) is None:
            return None
        floor = self._floor() or FIRST_INSTANT
        ceiling = just_after(self._ceiling()) or LAST_INSTANT
        count: RunningCount | None = None
        if self.limit is not None and not progression_of(self.trigger):
            if times.microseconds is None:
                return None
            count = RunningCount(times, floor, self.limit)

        def at(microsecond: int) -> YearlySet:
            begin, end = (seconds_until(each, microsecond) for each in (floor, ceiling))
            found = bounded(times.at(microsecond), begin, end)
            return counted(found, count, microsecond=microsecond) if count else found

        return FireTimes(times.microseconds, at)

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
                object.__setattr__(self, name, _checked_instant(name, value))
        _check_bounds(self.start, self.end, self.limit)
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
        self._count = None if times is None else RunningCount(times, start, limit)
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
            until = microsecond_of(fire_time)
            try:
                passed = self._count.before(fire_time.year, until, SearchBudget())
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
        state: The trigger as it is stored, as JSON text: not all triggers have a hash,
            and each time a definition is read, its trigger is another object.
        edition: The edition_of_names of the calendars.
    """
    trigger = LimitedTrigger.from_dict(json.loads(state))
    floor, limit = trigger._floor(), trigger.limit
    assert floor is not None
    assert limit is not None
    return _LimitCount(trigger.trigger, floor, limit)


def _checked_instant(name: str, value: object) -> datetime:
    try:
        return utc(value, name=name)
    except ConfigurationError as error:
        raise InvalidTriggerError(str(error)) from None


def _check_bounds(start: datetime | None, end: datetime | None, limit: object) -> None:
    if start is not None and end is not None and end < start:
        raise InvalidTriggerError(f"the end {end} is before the start {start}")
    if limit is not None and (type(limit) is not int or not 1 <= limit <= MOST_TIMES):
        raise InvalidTriggerError(
            f"limit must be a number from 1 to {MOST_TIMES:,}, not {shown(limit)}"
        )
