"""The base of the triggers that read a clock: its zone, gaps and overlaps."""

from __future__ import annotations

from abc import abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.errors import InvalidTriggerError
from go_scheduler.formatting import shown
from go_scheduler.triggers.base import Trigger, utc
from go_scheduler.triggers.local_time import next_instant, period_at
from go_scheduler.triggers.words import clock_time
from go_scheduler.triggers.zones import load_zone, zone_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, tzinfo

    from go_scheduler.json import JSON
    from go_scheduler.triggers.local_time import Period, Search

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

    _read: tuple[Search, bool, tzinfo]

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
        search, elapsed, zone = self._reading()
        return next_instant(
            search, after, zone, elapsed=elapsed, gap=self.gap, overlap=self.overlap
        )

    def effect(self, fire_time: datetime) -> str | None:
        """The effect of the clocks on one of its fire times.

        Args:
            fire_time: One of its fire times.

        Returns:
            Such as ``02:30 does not exist that day`` or ``the first of two 01:30``;
            None if nothing is special about it.
        """
        search, elapsed, zone = self._reading()
        fire_time = utc(fire_time, name="fire_time")
        period = period_at(fire_time, zone)
        local = period.local(fire_time)
        if local < period.anew:
            return f"the second of two {clock_time(local)}"
        if local >= period.repeats:
            return f"the first of two {clock_time(local)}"
        if fire_time == period.begin and not elapsed and self.gap == "next":
            before = period_at(fire_time - timedelta(microseconds=1), zone)
            skipped = _skipped(before, search)
            if skipped is not None and before.skips_shortly(skipped):
                return f"{clock_time(skipped)} does not exist that day"
        return None

    def warnings(self, now: datetime) -> Sequence[str]:
        """Warn of a fixed time that a change of the clocks skips within a year.

        Args:
            now: When it is scheduled.
        """
        search, elapsed, zone = self._reading()
        instant = now = utc(now, name="now")
        while not elapsed and instant.year < 9999:
            period = period_at(instant, zone)
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

    def _reading(self) -> tuple[Search, bool, tzinfo]:
        zone = load_zone(self.timezone)
        read: tuple[Search, bool, tzinfo] | None = getattr(self, "_read", None)
        if read is None or read[2] is not zone:
            read = (*self._rule(), zone)
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
