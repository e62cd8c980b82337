"""Time zones: how local times become instants, and the triggers that read clocks.

Debian's cron rule is the default: a fixed local time that does not exist fires once, at
the end of the gap; one that occurs twice fires once, the first time; what follows
elapsed time fires whenever the clock shows a matching time. A gap of three hours or
more, such as a move of the date line, fires nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect
from calendar import isleap
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.formatting import shown
from go_scheduler.triggers.base import Trigger, utc
from go_scheduler.triggers.times import (
    FIRST_INSTANT,
    FIRST_LOCAL_TIME,
    LAST_INSTANT,
    LAST_LOCAL_TIME,
    MICROSECOND,
)
from go_scheduler.triggers.words import clock_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from go_scheduler.json import JSON

# They mean something else on each machine, or count leap seconds.
_NOT_ZONES = ("localtime", "posixrules", "right/")
_MISSING = (LookupError, OSError, ValueError, ImportError)


_zones: dict[str, tzinfo] = {}


def zone_key(timezone: object) -> str:
    """The name under which a time zone is stored.

    Args:
        timezone: A name of the IANA database, or a ``ZoneInfo`` that has one.

    Raises:
        InvalidTriggerError: It is neither, or there is no zone of this name here.
    """
    key = timezone.key if isinstance(timezone, ZoneInfo) else timezone
    if not isinstance(key, str):
        advice = ": write 'UTC'" if timezone is UTC else ""
        raise InvalidTriggerError(
            "timezone must be a name, such as 'Europe/Berlin', or a ZoneInfo that has"
            f" a name, not {shown(timezone)}{advice}"
        )
    load_zone(key)
    return str(key)


def zone_of(trigger: Trigger) -> str | None:
    """The name of a trigger's time zone; None if it has none."""
    try:
        return zone_key(getattr(trigger, "timezone", None))
    except Exception:
        # The timezone of a third party's trigger may be anything.
        return None


def load_zone(key: str) -> tzinfo:
    """The time zone of a name: in this process always the identical one.

    Raises:
        InvalidTriggerError: There is no zone of this name here.
    """
    if (known := _zones.get(key)) is not None:
        return known
    if key == "UTC":
        return UTC
    try:
        if not key.startswith(_NOT_ZONES):
            # Two threads that read it are both to have the identical one.
            return _zones.setdefault(key, ZoneInfo(key))
    except _MISSING:
        pass
    raise InvalidTriggerError(
        f"there is no time zone {shown(key)}; names are such as 'Europe/Berlin'. If"
        " none is known, install tzdata"
    )


Change: TypeAlias = tuple[datetime, timedelta, timedelta]
"""An instant, and a zone's offsets before it and from it on."""


_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)
# No zone of the database has kept an offset for less than three days.
_STEP_OF_DATA = timedelta(days=3)
# By rules, none keeps one for less than a month, as Morocco does in Ramadan.
_STEP_OF_RULES = timedelta(days=20)
_RULED = 2038
# Before railways were built, no zone had another offset than its first one.
_FIRST_YEAR = 1800
SETTLED = 2100
"""From this year on, years with the same calendar have the same changes.

By then the database has said all that it says of single years, and what remains is a
rule for each zone.
"""


@lru_cache(maxsize=4096)
def changes(zone: tzinfo, year: int) -> Sequence[Change]:
    """The changes of a zone's offset after the beginning of a year and up to its end.

    They are in order. The year, from 1 to 9999, and the instants are those of UTC.
    """
    if (alike := year_alike(year)) != year:
        later = _new_year(year) - _new_year(alike)
        return [
            (at + later, before, after) for at, before, after in changes(zone, alike)
        ]
    end = _new_year(year + 1)
    step = _STEP_OF_DATA if year < _RULED else _STEP_OF_RULES
    low = _new_year(year)
    before = offset_at(low, zone)
    found = []
    while low < end:
        high = low + min(step, end - low)
        after = offset_at(high, zone)
        if after != before:
            found.append((_change(low, high, zone), before, after))
        low, before = high, after
    return found


def _change(low: datetime, high: datetime, zone: tzinfo) -> datetime:
    """When the offset changes, between two instants at which it differs."""
    before = offset_at(low, zone)

    def changed(seconds: int) -> bool:
        return offset_at(low + seconds * _SECOND, zone) != before

    return low + bisect(range((high - low) // _SECOND), False, key=changed) * _SECOND


def year_alike(year: int) -> int:
    """A year with the same changes; before 1800 and from 2100 on, many are alike."""
    if _FIRST_YEAR <= year < SETTLED or year in (1, MAXYEAR):
        return year
    years = _EARLY_YEARS if year < _FIRST_YEAR else _LAST_YEARS
    return years[isleap(year), date(year, 1, 1).weekday()]


_EARLY_YEARS, _LAST_YEARS = (
    {(isleap(year), date(year, 1, 1).weekday()): year for year in range(first, end)}
    for first, end in ((_FIRST_YEAR - 60, _FIRST_YEAR - 10), (SETTLED, SETTLED + 40))
)


def _new_year(year: int) -> datetime:
    """The beginning of a year in UTC, or of time, or the end of time."""
    if year < 1:
        return FIRST_INSTANT
    return LAST_INSTANT if year > MAXYEAR else datetime(year, 1, 1, tzinfo=UTC)


def offset_at(instant: datetime, zone: tzinfo) -> timedelta:
    """The offset of a zone from UTC."""
    # A day from the ends of time, every local time can be told.
    inside = min(max(instant, FIRST_INSTANT + _DAY), LAST_INSTANT - _DAY)
    offset = inside.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def zone_changes(
    timezone: str, start: datetime, end: datetime
) -> list[tuple[datetime, str]]:
    """The changes of a zone's clocks after a start and up to an end, each in words."""
    zone = load_zone(timezone)
    return [
        (
            at,
            f"clocks in {timezone} go {'forward' if after > before else 'back'} by"
            f" {abs(after - before) // _MINUTE} min, to {at + after:%H:%M}",
        )
        for at, before, after in changes_between(zone, start, end)
    ]


def changes_between(zone: tzinfo, start: datetime, end: datetime) -> Iterator[Change]:
    """The changes of a zone's offset after a start and up to an end."""
    for year in range(start.year, end.year + 1):
        for change in changes(zone, year):
            if start < change[0] <= end:
                yield change


if TYPE_CHECKING:
    Search = Callable[[datetime], datetime | None]
    """Finds the first matching naive local time at or after a given one."""

LONG_GAP = timedelta(hours=3)
"""A gap as long as this fires nothing."""

# Beyond it a rule is taken to match in gaps alone: a change or two a year.
_MOST_PERIODS = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_LOCAL = datetime(1970, 1, 1)  # noqa: DTZ001 (local times are naive)


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A time throughout which a zone keeps one offset, between two changes.

    The clock of the zone runs from ``opens`` to ``closes``. Where it was set back, it
    shows anew what it showed before; where it is set on, it skips some times.

    Attributes:
        begin: Its first instant; if it is a year old or older, an instant in between.
        end: The first instant after it, likewise.
        epoch: What a clock with this offset shows at the beginning of 1970, UTC.
        opens: What the clock shows at ``begin``.
        anew: The local time before which it repeats what was shown before ``begin``;
            ``opens`` if it repeats nothing.
        repeats: The local time from which all is shown again after ``end``; ``closes``
            if nothing is.
        closes: The local time it would show at ``end``, if it were not changed.
        resumes: The local time it shows at ``end``.
    """

    begin: datetime
    end: datetime
    epoch: datetime
    opens: datetime
    anew: datetime
    repeats: datetime
    closes: datetime
    resumes: datetime

    def local(self, instant: datetime) -> datetime:
        """The local time of an instant; naive, within the years 1 to 9999."""
        try:
            return self.epoch + (instant - _EPOCH)
        except OverflowError:
            return FIRST_LOCAL_TIME if instant.year == 1 else LAST_LOCAL_TIME

    def skips(self, local: datetime) -> bool:
        """Whether the change at its end skips a local time."""
        return self.closes <= local < self.resumes

    def skips_shortly(self, local: datetime) -> bool:
        """Whether the change at its end skips a local time, in a short gap."""
        return self.skips(local) and self.resumes - self.closes < LONG_GAP

    def fires_at(self, local: datetime, gap: str, overlap: str) -> datetime | None:
        """When a local time fires; None: not within this period, nor at its end."""
        if local < (self.repeats if overlap == "second" else self.closes):
            return self.instant(local)
        return self.end if gap == "next" and self.skips_shortly(local) else None

    def instant(self, local: datetime) -> datetime:
        """The instant of a local time; an OverflowError after the year 9999."""
        return _EPOCH + (local - self.epoch)


_ALL_TIME = Period(
    begin=FIRST_INSTANT,
    end=LAST_INSTANT,
    epoch=_EPOCH_LOCAL,
    opens=FIRST_LOCAL_TIME,
    anew=FIRST_LOCAL_TIME,
    repeats=LAST_LOCAL_TIME,
    closes=LAST_LOCAL_TIME,
    resumes=LAST_LOCAL_TIME,
)


class WallClock(NamedTuple):
    """How the local times of a zone become instants; see ``WallClockTrigger``."""

    zone: tzinfo
    gap: str = "next"
    overlap: str = "first"

    def following_elapsed_time(self) -> WallClock:
        """This clock where a gap fires nothing and an overlap fires twice."""
        return self._replace(gap="skip", overlap="both")


def next_instant(search: Search, after: datetime, clock: WallClock) -> datetime | None:
    """The first instant strictly later than another at which a local time matches.

    Args:
        search: Finds the first matching local time at or after a given one.
        after: Any aware instant.
        clock: On which the local times are read.

    Returns:
        A time in UTC; None if there is none before the year 10000.
    """
    zone, gap, overlap = clock
    after = utc(after, name="after")
    period = period_at(after, zone)
    try:
        start = period.local(after + MICROSECOND)
        for _ in range(_MOST_PERIODS):
            if overlap == "first" and start < period.anew:
                start = period.anew
            found = search(start)
            if found and (fires_at := period.fires_at(found, gap, overlap)):
                return fires_at
            if start >= period.closes - _DAY:
                following = period.end
                if following == LAST_INSTANT:
                    return None
            elif found is None:
                # No change sets a clock back by more than a day: none is shown again.
                return None
            else:
                # The offset may be another then.
                following = max(period.end, period.instant(found) - 2 * _DAY)
            period = period_at(following, zone)
            start = period.local(following)
    except OverflowError:
        pass
    return None


def period_at(instant: datetime, zone: tzinfo) -> Period:
    """The period of a zone that an instant in UTC is in."""
    if zone is UTC:
        return _ALL_TIME
    periods = _periods(zone, instant.year)
    for period in periods:
        if instant < period.end:
            return period
    return periods[-1]


def local_time(moment: datetime, zone: tzinfo) -> datetime:
    """The local time of an instant, in whole seconds; a local time stays as it is."""
    if moment.tzinfo is None:
        return moment
    return period_at(moment, zone).local(moment).replace(microsecond=0)


@lru_cache(maxsize=4096)
def _periods(zone: tzinfo, year: int) -> Sequence[Period]:
    """The periods of a zone that overlap a year of UTC."""
    found = [
        change
        for each in range(max(year - 1, 1), min(year + 1, MAXYEAR) + 1)
        for change in changes(zone, each)
    ]
    begin = _new_year(year - 1)
    end = _new_year(year + 2)
    first, last = offset_at(begin, zone), offset_at(end, zone)
    bounds = [(begin, first, first), *found, (end, last, last)]
    return [
        _period(one, other)
        for one, other in pairwise(bounds)
        if one[0] < _new_year(year + 1) and _new_year(year) < other[0]
    ]


def _period(opening: Change, closing: Change) -> Period:
    """The period between two changes."""
    begin, before, offset = opening
    end, _, after = closing
    opens, closes = _local(begin, offset), _local(end, offset)
    return Period(
        begin=begin,
        end=end,
        epoch=_EPOCH_LOCAL + offset,
        opens=opens,
        anew=max(opens, _local(begin, before)),
        repeats=min(closes, _local(end, after)),
        closes=closes,
        resumes=_local(end, after),
    )


def _local(instant: datetime, offset: timedelta) -> datetime:
    """The local time at an offset, within the range of datetime."""
    try:
        return _EPOCH_LOCAL + (instant - _EPOCH) + offset
    except OverflowError:
        return FIRST_LOCAL_TIME if instant.year == 1 else LAST_LOCAL_TIME


GAPS = ("next", "skip")
OVERLAPS = ("first", "second", "both")

_DEFAULTS = {"gap": "next", "overlap": "first"}
_YEAR = timedelta(days=366)


class WallClockTrigger(Trigger):
    """Fires when the clock of a time zone shows certain times.

    A subclass is a frozen dataclass that has these attributes as fields, checks them
    with ``check_wall_clock`` and writes ``_rule``.

    Attributes:
        timezone: The zone's IANA name.
        gap: When a fixed local time fires that does not exist: ``next``, at the end of
            the gap, unless that is three hours long or longer; ``skip``, not at all.
        overlap: When a fixed local time fires that occurs twice: the ``first`` time,
            the ``second`` or ``both``.
    """

    # Derived and kept until the data of its zone change: no field, and neither compared
    # nor stored nor pickled.
    __slots__ = ("_read",)

    timezone: str
    gap: str
    overlap: str

    _read: tuple[Search, bool, WallClock]

    @abstractmethod
    def _rule(self) -> tuple[Search, bool]:
        """How to find local times; called once, and cached.

        Returns:
            A function that finds the first matching naive local time at or after a
            given one; None if there is none before the year 10000. Several threads may
            call it at once. And whether the rule follows elapsed time where the clocks
            change; then ``gap`` and ``overlap`` have no effect.
        """

    def next_fire_time(self, after: datetime) -> datetime | None:
        """The first matching instant strictly later than a given one.

        Args:
            after: Any aware instant.

        Returns:
            A time in UTC; None if there is none before the year 10000.
        """
        search, _, clock = self._reading()
        return next_instant(search, after, clock)

    def effect(self, fire_time: datetime) -> str | None:
        """The effect of the clocks on one of its fire times.

        Args:
            fire_time: One of its fire times.

        Returns:
            Such as ``02:30 does not exist that day`` or ``the first of two 01:30``;
            None if nothing is special about it.
        """
        search, _, clock = self._reading()
        fire_time = utc(fire_time, name="fire_time")
        period = period_at(fire_time, clock.zone)
        local = period.local(fire_time)
        if local < period.anew:
            return f"the second of two {clock_time(local)}"
        if local >= period.repeats:
            return f"the first of two {clock_time(local)}"
        if fire_time == period.begin and clock.gap == "next":
            before = period_at(fire_time - MICROSECOND, clock.zone)
            skipped = _skipped(before, search)
            if skipped is not None and before.skips_shortly(skipped):
                return f"{clock_time(skipped)} does not exist that day"
        return None

    def warnings(self, now: datetime) -> Sequence[str]:
        """Warn of a fixed time that a change of the clocks skips within a year.

        Args:
            now: When it is scheduled.
        """
        search, elapsed, clock = self._reading()
        instant = now = utc(now, name="now")
        while not elapsed and instant.year < 9999:
            period = period_at(instant, clock.zone)
            if period.end - now > _YEAR:
                break
            if (skipped := _skipped(period, search)) is not None:
                until = clock_time(period.resumes)
                effect = "it does not fire then"
                if self.gap == "next" and period.skips_shortly(skipped):
                    effect = f"it fires at {until} instead"
                return (
                    f"{clock_time(skipped)} does not exist on {skipped:%Y-%m-%d} in"
                    f" {self.timezone}, where the clocks go from"
                    f" {clock_time(period.closes)} to {until}: {effect}; a time outside"
                    " of these is safe",
                )
            instant = period.end
        return ()

    def to_dict(self) -> Mapping[str, JSON]:
        """The trigger's fields as JSON; without ``gap`` and ``overlap`` by default."""
        state = super().to_dict()
        return {
            name: value
            for name, value in state.items()
            if name not in _DEFAULTS or value != _DEFAULTS[name]
        }

    def _clock(self) -> WallClock:
        return WallClock(load_zone(self.timezone), self.gap, self.overlap)

    def _reading(self) -> tuple[Search, bool, WallClock]:
        try:
            return self._read
        except AttributeError:
            search, elapsed = self._rule()
            clock = self._clock()
            if elapsed:
                clock = clock.following_elapsed_time()
            read = search, elapsed, clock
            object.__setattr__(self, "_read", read)
            return read


def check_wall_clock(timezone: object, *, gap: object, overlap: object) -> str:
    """Check how a trigger reads the clock.

    Args:
        timezone: An IANA name, or a ``ZoneInfo`` that has one.
        gap: ``next`` or ``skip``.
        overlap: ``first``, ``second`` or ``both``.

    Returns:
        The zone's name.

    Raises:
        InvalidTriggerError: One of them is something else.
    """
    for name, value, allowed in (("gap", gap, GAPS), ("overlap", overlap, OVERLAPS)):
        if not isinstance(value, str) or value not in allowed:
            raise InvalidTriggerError(
                f"{name} must be {' or '.join(map(repr, allowed))}, not {shown(value)}"
            )
    return zone_key(timezone)


def _skipped(period: Period, search: Search) -> datetime | None:
    """The first matching local time in the gap at the end of a period."""
    if period.closes >= period.resumes:
        return None
    found = search(period.closes)
    return None if found is None or not period.skips(found) else found
