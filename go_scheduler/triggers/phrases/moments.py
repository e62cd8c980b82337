"""Instants that a phrase names: by date and time, or counted from now."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, NamedTuple

from dateutil.relativedelta import relativedelta

from go_scheduler.triggers.instants import LAST_INSTANT
from go_scheduler.triggers.phrases.parts import Every, Moment, YearDay
from go_scheduler.triggers.phrases.phrase_words import PhraseError, ambiguous
from go_scheduler.triggers.wall.local_time import next_instant
from go_scheduler.triggers.words import MONTHS, WEEKDAYS

if TYPE_CHECKING:
    from datetime import tzinfo

_LENGTHS = {
    "microsecond": timedelta(microseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
    "fortnight": timedelta(weeks=2),
}
_LAST = time(23, 59, 59, 999_999)
_LEAP_YEARS = 8


class Instant(NamedTuple):
    """An instant that a phrase names.

    Attributes:
        at: In UTC.
        counted: Whether it was counted from now, so that the same phrase names another
            one tomorrow.
    """

    at: datetime
    counted: bool


def duration(length: Every) -> timedelta:
    """A length of elapsed time.

    Raises:
        PhraseError: It is counted on the calendar, or is zero or too long.
    """
    unit = _LENGTHS.get(length.unit)
    if unit is None:
        raise PhraseError(f"{length.unit}s are not all of one length: count in days")
    try:
        found = length.number * unit
    except OverflowError:
        found = timedelta(0)
    if found <= timedelta(0):
        raise PhraseError(f"{length.number} {length.unit}s is no length of time")
    return found


class Present:
    """Where and when a phrase is said.

    Args:
        zone: Where its times are read.
        now: When; None: it may not count from now.
    """

    def __init__(self, zone: tzinfo, now: datetime | None) -> None:
        self._zone = zone
        self._now = now

    @property
    def is_known(self) -> bool:
        """Whether the present time was given."""
        return self._now is not None

    @property
    def now(self) -> datetime:
        """The present time, in UTC.

        Raises:
            PhraseError: It was not given.
        """
        if self._now is None:
            raise PhraseError("it counts from the present time: pass now=")
        return self._now

    @property
    def today(self) -> date:
        """The present day."""
        return self._local().date()

    def later(self, length: Every) -> datetime:
        """So much later than now: calendar units at the same time of day."""
        try:
            if length.is_of_clock:
                return self.now + duration(length)
            return self.instant(_on_the_calendar(self._local(), length))
        except (OverflowError, ValueError):
            raise PhraseError("it lies beyond the year 9999") from None

    def before(self, instant: datetime, length: Every) -> datetime:
        """So many calendar units before an instant, at the same time of day."""
        local = instant.astimezone(self._zone).replace(tzinfo=None)
        try:
            local = _on_the_calendar(local, length, back=True)
            try:
                return self.instant(local)
            except PhraseError:
                # A day that the zone has skipped; the one before that is as good.
                return self.instant(_on_the_calendar(local, length, back=True))
        except (OverflowError, ValueError):
            raise PhraseError(f"{length.number} {length.unit}s is too long") from None

    def find(self, moment: Moment, *, ends: bool = False) -> Instant:
        """The instant of a moment.

        Args:
            moment: What was said.
            ends: Whether a day without a time means its end, and not its begin.
        """
        if moment.length is not None:
            return Instant(self.later(moment.length), counted=True)
        if isinstance(moment.day, datetime):
            at = moment.day if moment.day.tzinfo else self.instant(moment.day)
            return Instant(at.astimezone(UTC), counted=False)
        at_time = moment.time
        assert not isinstance(at_time, int), "the grammar has no bare hours here"
        if moment.day is None:
            assert at_time is not None
            return Instant(self._next(at_time), counted=True)
        day, counted = self.day(moment.day)
        given = at_time if at_time is not None else (_LAST if ends else time(0))
        return Instant(self.instant(datetime.combine(day, given)), counted=counted)

    def day(self, said: date | YearDay | frozenset[int] | int) -> tuple[date, bool]:
        """A day, and whether it was counted from today."""
        match said:
            case YearDay(year=None):
                return self._date(said), True
            case YearDay(day, month, int(year)):
                return _existing(year, month, day), False
            case date():
                return said, False
            case int():
                return self.today + timedelta(days=said), True
            case _ if len(said) == 1:
                return self._weekday(*said), True
        raise PhraseError("it starts or ends on one day, not on several")

    def instant(self, local: datetime) -> datetime:
        """The instant of a local time, by the rule of gaps and overlaps."""

        def search(start: datetime) -> datetime | None:
            return local if start <= local else None

        before = (local - timedelta(days=3)).replace(tzinfo=UTC)
        found = next_instant(search, before, self._zone, elapsed=False)
        if found is None and local.date() == date.max:
            return LAST_INSTANT
        if found is None:
            raise PhraseError(f"{local} does not exist in this time zone")
        return found

    def _local(self) -> datetime:
        return self.now.astimezone(self._zone).replace(tzinfo=None)

    def _next(self, given: time) -> datetime:
        found = self.instant(datetime.combine(self.today, given))
        if found <= self.now:
            tomorrow = self.today + timedelta(days=1)
            found = self.instant(datetime.combine(tomorrow, given))
        return found

    def _weekday(self, weekday: int) -> date:
        ahead = (weekday - self.today.weekday()) % 7
        if not ahead:
            raise PhraseError(
                ambiguous(
                    WEEKDAYS[weekday],
                    ("today", f"{self.today + timedelta(days=7)}"),
                )
            )
        return self.today + timedelta(days=ahead)

    def _date(self, said: YearDay) -> date:
        today = self.today
        for year in range(today.year, today.year + _LEAP_YEARS + 1):
            try:
                found = date(year, said.month, said.day)
            except ValueError:
                continue
            if found >= today:
                return found
        raise PhraseError(f"{said.day} {MONTHS[said.month - 1]} does not exist")


def _existing(year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError:
        raise PhraseError(f"{year}-{month:02}-{day:02} does not exist") from None


def _on_the_calendar(local: datetime, length: Every, *, back: bool = False) -> datetime:
    count, unit = length
    if not isinstance(count, int):
        raise PhraseError(f"{unit}s can only be counted whole")
    if unit == "fortnight":
        count, unit = 2 * count, "week"
    step = relativedelta(**{f"{unit}s": count})  # type: ignore[arg-type]
    return local - step if back else local + step
