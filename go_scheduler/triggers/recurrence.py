"""The trigger that fires by an RFC 5545 recurrence set, in a time zone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Self

from go_scheduler.argument_hints import write_instead
from go_scheduler.errors import InvalidTriggerError
from go_scheduler.formatting import shown
from go_scheduler.triggers.base import Progression, checked_instant, utc
from go_scheduler.triggers.description import describe_recurrence, rule_warnings
from go_scheduler.triggers.fire_time_sets import FireTimes, at_one_microsecond
from go_scheduler.triggers.local_time import (
    WallClockTrigger,
    check_wall_clock,
    load_zone,
    local_time,
)
from go_scheduler.triggers.recurrence_rules import (
    LONGEST,
    read_recurrence,
    write_moment,
    write_rule,
)
from go_scheduler.triggers.recurrence_times import (
    LocalTimes,
    RecurrenceSeries,
)
from go_scheduler.triggers.times import FIRST_INSTANT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from zoneinfo import ZoneInfo

    from go_scheduler.triggers.local_time import Search, WallClock
    from go_scheduler.triggers.recurrence_rules import Recurrence, RecurrenceRule

# The most EXDATEs for which it is checked that they exclude anything.
_MOST_EXCEPTIONS = 100
_ANY_START = datetime(2000, 1, 1)  # noqa: DTZ001 (local times are naive)
_ANY_INSTANT = datetime(2000, 1, 1, tzinfo=UTC)


@write_instead('RecurrenceTrigger("FREQ=DAILY;BYHOUR=9", "Europe/Berlin")')
@dataclass(frozen=True, slots=True, init=False)
class RecurrenceTrigger(WallClockTrigger):
    """Fires by the rules of iCalendar (RFC 5545), in a time zone.

    ```python
    RecurrenceTrigger("FREQ=MONTHLY;BYDAY=2TU;BYHOUR=10;BYMINUTE=0", "Europe/Berlin")
    RecurrenceTrigger(
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU",
        start=datetime(2025, 1, 21, 9, 34, tzinfo=ZoneInfo("America/New_York")),
    )
    ```

    It takes ``DTSTART``, up to ten ``RRULE``, and ``RDATE`` and ``EXDATE``. It reads
    them as python-dateutil does, without three mistakes of dateutil: in the weeks
    around New Year, in ``BYSETPOS`` within the first week, and in ``BYDAY`` with and
    without numbers.

    * The parts that a rule leaves open, such as the hour, come from its start.
      ``INTERVAL`` counts from the start, too. The start fires only if it matches.
    * Without ``DTSTART`` it starts when the definition is first scheduled, at a whole
      second, and fires after that.
    * The years of a rule with ``BYWEEKNO`` are made of whole weeks, also for
      ``INTERVAL`` and ``BYSETPOS``. ``BYEASTER`` counts the days from Easter Sunday.
    * ``EXDATE`` with a date excludes the whole day. A time without a ``Z`` is a local
      time. If the clock shows it twice, ``EXDATE`` excludes both.
    * ``UNTIL`` is the last time that may fire. A date means the end of that day. It is
      kept in UTC, as RFC 5545 demands.
    * ``COUNT`` counts the times of the rule, 100,000 at most, before ``EXDATE`` is
      applied.

    Where the clocks change, a rule fires as a ``CronTrigger`` does. A rule that counts
    hours, minutes or seconds and has no ``BYHOUR`` follows elapsed time: it fires
    whenever the clock shows one of its times, in both of two repeated hours.
    ``INTERVAL`` counts on the wall clock: every six hours from midnight is at 0, 6, 12
    and 18 o'clock in summer as in winter. For equal distances, use an
    ``IntervalTrigger``. A rule that fires once a day or less has a fixed time of day.

    The search for the next time ends after a hundred years.

    Attributes:
        rule: The set in RFC 5545 form, one line for each property, in one of the many
            ways that mean the same. Together with ``timezone`` it makes an equal
            trigger; the zone is also in it if there is a ``DTSTART``.
        timezone: The zone's IANA name.
        gap: When a fixed local time fires that does not exist: ``next``, at the end of
            the gap, or ``skip``, not at all. ``COUNT`` counts it in both cases.
        overlap: When a fixed local time fires that occurs twice: the ``first`` time,
            the ``second`` or ``both``. ``COUNT`` counts one.
        anchored_at: When it was first scheduled, if it has no ``DTSTART``. Kept by the
            store and not part of the trigger's value.

    Args:
        rule: Lines of RFC 5545, or only what follows ``RRULE:``; at most 16,384 ASCII
            characters, in capitals or not.
        timezone: An IANA name, or a ``ZoneInfo`` that has one; None: the one that
            ``rule`` names, or that ``start`` has, or UTC.
        start: An aware datetime, instead of a ``DTSTART``; at whole seconds.

    Raises:
        InvalidTriggerError: The rule does not parse, contradicts the other arguments,
            or never fires; or there is no such time zone.
    """

    kind: ClassVar[str] = "recurrence"

    rule: str
    timezone: str
    gap: str = field(default="next", kw_only=True)
    overlap: str = field(default="first", kw_only=True)
    anchored_at: datetime | None = field(
        default=None, compare=False, repr=False, kw_only=True
    )

    def __init__(
        self,
        rule: str,
        timezone: str | ZoneInfo | None = None,
        *,
        start: datetime | None = None,
        gap: str = "next",
        overlap: str = "first",
        anchored_at: datetime | None = None,
    ) -> None:
        key = check_wall_clock(
            "UTC" if timezone is None else timezone, gap=gap, overlap=overlap
        )
        recurrence = _read(rule, None if timezone is None else key, start)
        object.__setattr__(self, "rule", recurrence.text())
        object.__setattr__(self, "timezone", recurrence.timezone)
        object.__setattr__(self, "gap", gap)
        object.__setattr__(self, "overlap", overlap)
        anchor = None
        if anchored_at is not None and recurrence.start is None:
            anchor = checked_instant(anchored_at, name="anchored_at")
        object.__setattr__(self, "anchored_at", anchor)
        self._check_that_it_fires()

    def next_fire_time(self, after: datetime) -> datetime | None:
        """The first fire time strictly later than an instant.

        Args:
            after: Any aware instant. Without ``DTSTART``, if it has not been scheduled,
                it counts from here.

        Returns:
            A time in UTC; None if there is none for a hundred years, or before the year
            10000.
        """
        if self.anchored_at is None and not self._has_start():
            anchor = utc(after, name="after")
            series = RecurrenceSeries(self._recurrence(), anchor, self._clock())
            return series.next(anchor)
        return self._known().next(after)

    def anchored(self, now: datetime) -> Self:
        """This trigger starting at ``now``, unless it starts somewhere already.

        Args:
            now: When the definition is first scheduled; aware.
        """
        if self.anchored_at is not None or self._has_start():
            return self
        return replace(self, anchored_at=now)

    def describe(self) -> str:
        """When it fires, in English, without the time zone.

        Returns:
            Such as ``every other tuesday at 09:34``; a rule without a common phrase is
            described part by part.
        """
        recurrence = self._recurrence()
        text = describe_recurrence(recurrence, load_zone(self.timezone))
        if recurrence.start is None:
            return text
        return f"{text} starting {recurrence.start.isoformat(' ', 'seconds')}"

    def warnings(self, now: datetime) -> Sequence[str]:
        """Warnings about mistakes that its author may have made.

        Args:
            now: When it is scheduled.

        Returns:
            A sentence for each day of the month that some months do not have, for an
            ``EXDATE`` that excludes nothing, and for a time that a change of the clocks
            skips within a year.
        """
        trigger = self.anchored(now)
        recurrence, clock = trigger._recurrence(), trigger._clock()
        anchor = trigger.anchored_at or _ANY_INSTANT
        start = recurrence.start or local_time(anchor, clock.zone)
        everything = _series(replace(recurrence, exceptions=()), anchor, clock)
        sentences: list[str] = []
        for rule in recurrence.rules:
            pinned = rule.pinned(start)
            sentences += [
                f"{write_rule(pinned)} {each}" for each in rule_warnings(pinned)
            ]
        for moment in recurrence.exceptions[:_MOST_EXCEPTIONS]:
            if not everything.fires(moment):
                sentences.append(
                    f"EXDATE {write_moment(moment)} excludes nothing: it would not fire"
                    " then; VALUE=DATE excludes a whole day"
                )
                break
        return [*sentences, *WallClockTrigger.warnings(trigger, now)]

    def _rule(self) -> tuple[Search, bool]:
        series = _series(
            self._recurrence(), self.anchored_at or _ANY_INSTANT, self._clock()
        )
        return series, series.elapsed

    def _fire_times(self) -> FireTimes:
        return at_one_microsecond(self._known().times())

    def _progression(self) -> Progression | None:
        if self.anchored_at is None and not self._has_start():
            return None
        return self._known().progression()

    def _known(self) -> RecurrenceSeries:
        found, _, _ = self._reading()
        assert isinstance(found, RecurrenceSeries)
        return found

    def _recurrence(self) -> Recurrence:
        return _read(self.rule, self.timezone, None)

    def _has_start(self) -> bool:
        return self.rule.startswith("DTSTART")

    def _check_that_it_fires(self) -> None:
        recurrence = self._recurrence()
        for rule in recurrence.rules:
            if not _can_fire(rule):
                raise InvalidTriggerError(
                    f"recurrence {shown(self.rule)}: {write_rule(rule)} never fires: no"
                    " time of any year is in all of its parts"
                )
        if self._has_start() and self.next_fire_time(FIRST_INSTANT) is None:
            raise InvalidTriggerError(
                f"recurrence {shown(self.rule)}: it never fires: for a hundred years"
                " from DTSTART, nothing is left by INTERVAL, UNTIL and EXDATE"
            )


def _read(text: object, timezone: str | None, start: object) -> Recurrence:
    if start is None and isinstance(text, str) and len(text) <= LONGEST:
        return _read_text(text, timezone)
    return read_recurrence(text, timezone, start)


_read_text = lru_cache(maxsize=256)(read_recurrence)


@lru_cache(maxsize=1024)
def _can_fire(rule: RecurrenceRule) -> bool:
    """Whether a rule fires if it starts at the right time."""
    starts = [_ANY_START]
    if rule.weeks and not rule.names_days:
        # It takes its day of the week from where it starts.
        starts = [_ANY_START + timedelta(days=days) for days in range(7)]
    return any(
        LocalTimes(replace(rule, interval=1), each).search(_ANY_START) is not None
        for each in starts
    )


# A definition is read many times, and each time makes an equal trigger.
@lru_cache(maxsize=1024)
def _series(
    recurrence: Recurrence, anchor: datetime, clock: WallClock
) -> RecurrenceSeries:
    return RecurrenceSeries(recurrence, anchor, clock)
