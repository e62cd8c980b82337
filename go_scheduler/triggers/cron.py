"""The trigger that fires by a cron expression, in a time zone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from go_scheduler.triggers.base import Trigger, utc
from go_scheduler.triggers.cron_expression import normalise, parse
from go_scheduler.triggers.local_time import load_zone, next_instant, zone_key

if TYPE_CHECKING:
    from datetime import datetime
    from zoneinfo import ZoneInfo


@dataclass(frozen=True, slots=True, init=False)
class CronTrigger(Trigger):
    """Fires whenever the clock of a time zone matches a cron expression.

    The five fields are minute, hour, day-of-month, month and day-of-week. Each is ``*``
    or a list of numbers, ranges (``1-5``) and steps (``*/10``, ``5/10``, ``10-40/5``).
    Months and days of the week also have names (``JAN``, ``january``, ``Mon-Fri``), and
    Sunday is 0 or 7. If both day fields are restricted, it is enough that one of them
    matches; only a ``*`` is no restriction, ``*/2`` is one. The macros are ``@hourly``,
    ``@daily``, ``@midnight``, ``@weekly``, ``@monthly``, ``@yearly``, ``@annually``.

    Where the clocks change, it keeps Debian's rule. A time that is skipped fires once,
    at the end of the gap, and one that occurs twice fires the first time. But if minute
    or hour starts with a ``*``, it fires as time elapses: in both of two repeated
    hours, and not for one that is skipped. A gap of three hours or more fires nothing.

    Attributes:
        expression: The expression, with single spaces and in upper case; a macro in
            lower case.
        timezone: The zone's IANA name.

    Args:
        expression: At most 256 characters.
        timezone: An IANA name, or a ``ZoneInfo`` that has one.

    Raises:
        InvalidTriggerError: The expression does not parse, or matches no date that
            exists, or there is no such time zone.
    """

    kind: ClassVar[str] = "cron"

    expression: str
    timezone: str

    def __init__(self, expression: str, timezone: str | ZoneInfo = "UTC") -> None:
        text = normalise(expression)
        parse(text)
        object.__setattr__(self, "expression", text)
        object.__setattr__(self, "timezone", zone_key(timezone))

    def next_fire_time(self, after: datetime) -> datetime | None:
        """The first matching instant strictly later than a given one.

        Args:
            after: Any aware instant.

        Returns:
            A time in UTC; None if there is none before the year 10000.
        """
        # What was parsed is remembered there, and is no part of the trigger's value.
        fields = parse(self.expression)
        return next_instant(
            fields.search,
            utc(after, name="after"),
            load_zone(self.timezone),
            elapsed=fields.elapsed,
        )
