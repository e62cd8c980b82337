"""The trigger that fires by a cron expression, in a time zone, and its search."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from go_scheduler.argument_hints import write_instead
from go_scheduler.triggers.base import Progression
from go_scheduler.triggers.cron.expression import (
    expression_of,
    normalise,
    parse,
    split,
)
from go_scheduler.triggers.description import cron_warnings, describe_cron
from go_scheduler.triggers.fire_time_sets import (
    EMPTY,
    CachedYears,
    FireTimes,
    Year,
    YearlySet,
    at_one_microsecond,
    in_zone,
    on_days,
)
from go_scheduler.triggers.times import SECOND, days_in
from go_scheduler.triggers.wall_clock_trigger import (
    WallClockTrigger,
    check_wall_clock,
)
from go_scheduler.triggers.words import NEVER_FROM_NOW_ON
from go_scheduler.triggers.zones import load_zone

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from go_scheduler.triggers.cron.expression import CronExpression
    from go_scheduler.triggers.fire_time_sets import SearchBudget
    from go_scheduler.triggers.local_time import Search


def local_times(fields: CronExpression) -> YearlySet:
    """The local times that match, as a set."""
    times = _times(fields.hours, fields.minutes, fields.seconds)

    @CachedYears
    def make(calendar: int, year: int) -> Year:
        return on_days(days_in(year), fields.days_as_bits(year), times)

    def find(year: int, budget: SearchBudget) -> Year:
        if fields.years and year not in fields.years:
            return EMPTY[days_in(year)]
        return make(fields.calendar(year), year)

    return YearlySet(find, max(fields.years) + 2 if fields.years else 0)


@lru_cache(maxsize=256)
def _times(hours: Sequence[int], minutes: Sequence[int], seconds: Sequence[int]) -> int:
    """The seconds of a day, as bits."""
    minute = sum(1 << each for each in seconds)
    hour = sum(minute << 60 * each for each in minutes)
    return sum(hour << 3600 * each for each in hours)


@write_instead('CronTrigger(hour=9, minute=30, day_of_week="mon-fri")')
@dataclass(frozen=True, slots=True, init=False)
class CronTrigger(WallClockTrigger):
    """Fires whenever the clock of a time zone matches a cron expression.

    Five fields are minute, hour, day-of-month, month and day-of-week. Seven have a
    second in front and a year, from 1970 to 2099, at the end. Six are refused, since
    programs differ in what they mean. Each field is ``*`` or a list of numbers, ranges
    (``1-5``) and steps (``*/10``, ``5/10``, ``10-40/5``). Months and days of the week
    also have names (``JAN``, ``january``, ``Mon-Fri``), and Sunday is 0 or 7. The
    macros are ``@hourly``, ``@daily``, ``@midnight``, ``@weekly``, ``@monthly``,
    ``@yearly`` and ``@annually``.

    The day fields have more forms. In day-of-month ``L`` is the last day, ``L-3`` the
    third day before it, ``15W`` the day from Monday to Friday that is nearest to the
    15th in the same month, and ``LW`` the last day from Monday to Friday. In
    day-of-week ``FRI#3`` or ``5#3`` is the third Friday of the month, and ``FRIL`` or
    ``5L`` the last one. A month without such a day is skipped. If both fields are
    restricted, one of them has to match. ``*`` and ``?`` are no restriction, but
    ``*/2`` is.

    Where the clocks change, a fixed time that is skipped fires once, at the end of the
    gap. A fixed time that occurs twice fires the first time (Debian's rule). ``gap``
    and ``overlap`` choose otherwise. If second, minute or hour starts with a ``*``, the
    trigger follows elapsed time: it fires in both of two repeated hours, and not for a
    skipped hour. A gap of three hours or more fires nothing.

    Fields may be given by their names instead: ``CronTrigger(hour=9, minute=30,
    day_of_week="mon-fri")`` is ``CronTrigger("30 9 * * mon-fri")``. A field that is not
    given is at its minimum if it is smaller than all given fields, and ``*`` otherwise:
    ``CronTrigger(day=1)`` fires when a month begins. Here days of the week are names
    only, as their numbers differ between cron and other schedulers. At most one of the
    two day fields may be restricted.

    Attributes:
        expression: The expression, with single spaces and in upper case; a macro in
            lower case.
        timezone: The zone's IANA name.
        gap: When a fixed local time fires that does not exist: ``next``, at the end of
            the gap, or ``skip``, not at all.
        overlap: When a fixed local time fires that occurs twice: the ``first`` time,
            the ``second`` or ``both``.

    Args:
        expression: At most 256 characters; None: it is made of the fields below.
        timezone: An IANA name, or a ``ZoneInfo`` that has one.
        year: A number, or a text as an expression has it there.
        month: A number, a name, or such a text.
        day: The day of the month: a number, or such a text, as ``"1,15"`` or ``"L"``.
        day_of_week: Names, as ``"mon-fri"``, ``"mon,thu"`` or ``"fri#2"``.
        hour: A number, or such a text, as ``"9-17"`` or ``"*/2"``.
        minute: Likewise.
        second: Likewise.
        gap: As above.
        overlap: As above.

    Raises:
        InvalidTriggerError: The expression or a field does not parse, no date matches,
            the time zone does not exist, or ``gap`` or ``overlap`` is wrong.
    """

    kind: ClassVar[str] = "cron"

    expression: str
    timezone: str
    gap: str = field(default="next", kw_only=True)
    overlap: str = field(default="first", kw_only=True)

    def __init__(
        self,
        expression: str | None = None,
        timezone: str | ZoneInfo = "UTC",
        *,
        year: int | str | None = None,
        month: int | str | None = None,
        day: int | str | None = None,
        day_of_week: str | None = None,
        hour: int | str | None = None,
        minute: int | str | None = None,
        second: int | str | None = None,
        gap: str = "next",
        overlap: str = "first",
    ) -> None:
        text = normalise(
            expression_of(
                expression,
                year=year,
                month=month,
                day=day,
                day_of_week=day_of_week,
                hour=hour,
                minute=minute,
                second=second,
            )
        )
        parse(text)
        key = check_wall_clock(timezone, gap=gap, overlap=overlap)
        object.__setattr__(self, "expression", text)
        object.__setattr__(self, "timezone", key)
        object.__setattr__(self, "gap", gap)
        object.__setattr__(self, "overlap", overlap)

    def describe(self) -> str:
        """When it fires, in English, such as ``every weekday at 08:30``."""
        return describe_cron(parse(self.expression))

    def warnings(self, now: datetime) -> Sequence[str]:
        """Warnings about mistakes that its author may have made, a sentence each.

        Args:
            now: When it is scheduled.
        """
        # A dataclass with slots is made anew, so that super() would not find its class.
        return (
            *cron_warnings(split(self.expression), parse(self.expression)),
            *WallClockTrigger.warnings(self, now),
            *(() if self.next_fire_time(now) else (NEVER_FROM_NOW_ON,)),
        )

    def _rule(self) -> tuple[Search, bool]:
        fields = parse(self.expression)
        return fields.search, fields.elapsed

    def _fire_times(self) -> FireTimes:
        fields = parse(self.expression)
        times = in_zone(
            local_times(fields),
            load_zone(self.timezone),
            elapsed=fields.elapsed,
            gap=self.gap,
            overlap=self.overlap,
        )
        return at_one_microsecond(times)

    def _progression(self) -> Progression | None:
        if self.expression == "* * * * * * *":
            return Progression(0, SECOND)
        return None
