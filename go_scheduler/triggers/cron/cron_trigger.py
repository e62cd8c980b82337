"""The trigger that fires by a cron expression, in a time zone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from go_scheduler.instead import write_instead
from go_scheduler.triggers.base import Progression
from go_scheduler.triggers.cron.cron_description import describe
from go_scheduler.triggers.cron.cron_warnings import warnings
from go_scheduler.triggers.cron.cron_years import CronYears
from go_scheduler.triggers.cron.expression import normalise, parse, search, split
from go_scheduler.triggers.instants import SECOND
from go_scheduler.triggers.wall.wall_clock_trigger import (
    WallClockTrigger,
    check_wall_clock,
)
from go_scheduler.triggers.wall.zones import load_zone
from go_scheduler.triggers.words import NEVER_FROM_NOW_ON
from go_scheduler.triggers.years.clock_years import ClockYears
from go_scheduler.triggers.years.years import NEVER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from go_scheduler.triggers.wall.local_time import Search
    from go_scheduler.triggers.years.years import Years


@write_instead('CronTrigger("0 9 * * Mon-Fri", timezone="Europe/Berlin")')
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

    The day fields know more: day-of-month ``L`` is the last day and ``L-3`` the third
    before it, ``15W`` is the weekday from Monday to Friday that is nearest to the 15th
    and in the same month, ``LW`` the last of these; day-of-week ``FRI#3`` or ``5#3`` is
    the third Friday of the month, ``FRIL`` or ``5L`` the last one. A month that has no
    such day is passed over. If both fields are restricted, it is enough that one of
    them matches; only ``*`` and ``?`` are no restriction, ``*/2`` is one.

    Where the clocks change, a fixed time that is skipped fires once, at the end of the
    gap, and one that occurs twice fires the first time (Debian's rule); ``gap`` and
    ``overlap`` choose otherwise. But if second, minute or hour starts with a ``*``, it
    fires as time elapses: in both of two repeated hours, and not for one that is
    skipped. A gap of three hours or more fires nothing.

    Attributes:
        expression: The expression, with single spaces and in upper case; a macro in
            lower case.
        timezone: The zone's IANA name.
        gap: When a fixed local time fires that does not exist: ``next``, at the end of
            the gap, or ``skip``, not at all.
        overlap: When a fixed local time fires that occurs twice: the ``first`` time,
            the ``second`` or ``both``.

    Args:
        expression: At most 256 characters.
        timezone: An IANA name, or a ``ZoneInfo`` that has one.

    Raises:
        InvalidTriggerError: The expression does not parse, or matches no date that
            exists, or there is no such time zone, or no such choice.
    """

    kind: ClassVar[str] = "cron"

    expression: str
    timezone: str
    gap: str = field(default="next", kw_only=True)
    overlap: str = field(default="first", kw_only=True)

    def __init__(
        self,
        expression: str,
        timezone: str | ZoneInfo = "UTC",
        *,
        gap: str = "next",
        overlap: str = "first",
    ) -> None:
        text = normalise(expression)
        parse(text)
        key = check_wall_clock(timezone, gap=gap, overlap=overlap)
        object.__setattr__(self, "expression", text)
        object.__setattr__(self, "timezone", key)
        object.__setattr__(self, "gap", gap)
        object.__setattr__(self, "overlap", overlap)

    def describe(self) -> str:
        """When it fires, in English, such as ``every weekday at 08:30``."""
        return describe(parse(self.expression))

    def warnings(self, now: datetime) -> Sequence[str]:
        """What its author may not have meant, a sentence each.

        Args:
            now: When it is scheduled.
        """
        # A dataclass with slots is made anew, so that super() would not find its class.
        return (
            *warnings(split(self.expression), parse(self.expression)),
            *WallClockTrigger.warnings(self, now),
            *(() if self.next_fire_time(now) else (NEVER_FROM_NOW_ON,)),
        )

    def _rule(self) -> tuple[Search, bool]:
        return search(self.expression), parse(self.expression).elapsed

    def _years(self, phase: int) -> Years:
        if phase:
            return NEVER
        fields = parse(self.expression)
        return ClockYears(
            CronYears(fields, search(self.expression)),
            load_zone(self.timezone),
            elapsed=fields.elapsed,
            gap=self.gap,
            overlap=self.overlap,
        )

    def _progression(self) -> Progression | None:
        if self.expression == "* * * * * * *":
            return Progression(0, SECOND)
        return None
