"""Previews of triggers, for people to look at before and after scheduling them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import partial
from typing import TYPE_CHECKING

from go_scheduler.argument_hints import write_instead
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.triggers.base import Trigger, next_fire_time_of, utc
from go_scheduler.triggers.on_demand import OnDemandTrigger
from go_scheduler.triggers.times import MICROSECOND
from go_scheduler.triggers.trigger_timeouts import ask
from go_scheduler.triggers.wall_clock_trigger import WallClockTrigger
from go_scheduler.triggers.words import WEEKDAYS
from go_scheduler.triggers.zones import load_zone, zone_key, zone_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from zoneinfo import ZoneInfo

MOST = 10_000
"""The most fire times that can be previewed at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedTime:
    """One fire time of a preview; as text, a line for a person to read.

    Attributes:
        at: The fire time, in the schedule's own zone.
        effect: What the clocks do to it, such as ``02:30 does not exist that day``;
            None: nothing.
    """

    at: datetime
    effect: str | None = None

    def __str__(self) -> str:
        clock = self.at.isoformat(
            " ", "microseconds" if self.at.microsecond else "auto"
        )
        day = WEEKDAYS[self.at.weekday()][:3].capitalize()
        line = f"{day} {clock}"
        return line if self.effect is None else f"{line}  ({self.effect})"


@write_instead("preview(trigger, 10, now)")
def preview(
    trigger: Trigger,
    n: int,
    after: datetime,
    *,
    timezone: str | ZoneInfo | None = None,
) -> Sequence[PreviewedTime]:
    """The next fire times of a trigger, and what is special about them.

    Args:
        trigger: It need not be scheduled. What counts from when it is first scheduled
            counts from ``after``. Of one that counts from the end of each run, only the
            first fire time is known.
        n: How many; 1 to 10,000.
        after: Any aware instant; they are strictly later.
        timezone: Where they are shown: an IANA name, or a ``ZoneInfo``; None: in the
            trigger's own zone, UTC if it has none.

    Returns:
        The fire times, the earliest first; fewer than ``n`` if there are no more.

    Raises:
        ConfigurationError: An argument is of the wrong type or out of range.
        InvalidTriggerError: There is no such time zone, or the trigger misbehaves, or
            hangs.
    """
    if not isinstance(trigger, Trigger):
        raise ConfigurationError(f"trigger must be a trigger, not {shown(trigger)}")
    if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= MOST:
        raise ConfigurationError(
            f"n must be a whole number in 1–{MOST}, not {shown(n)}"
        )
    zone = load_zone(zone_key(timezone or zone_of(trigger) or "UTC"))
    after = utc(after, name="after")
    scheduled = trigger.anchored(after)
    found: list[PreviewedTime] = []
    while len(found) < (1 if trigger.waits else n):
        at = ask(trigger, partial(next_fire_time_of, scheduled, after))
        if at is None:
            break
        found.append(
            PreviewedTime(at=_in_zone(at, zone), effect=effect_of(scheduled, at))
        )
        after = at
    return found


@write_instead("explain(trigger, now)")
def explain(trigger: Trigger, after: datetime, *, n: int = 5) -> str:
    """A trigger in words: what it says, when it fires next, what to beware of.

    Args:
        trigger: It need not be scheduled.
        after: As for ``preview``.
        n: How many fire times to list; as for ``preview``.

    Returns:
        Some lines of text.

    Raises:
        ConfigurationError: As for ``preview``.
        InvalidTriggerError: As for ``preview``.
    """
    times = preview(trigger, n, after)
    if isinstance(trigger, OnDemandTrigger):
        return f"{trigger.describe()}, at no time of its own"
    lines = [f"{trigger.describe()}, in {zone_of(trigger) or 'UTC'}"]
    lines += [f"  {each}" for each in times]
    if not times:
        lines.append("  never")
    lines += [f"beware: {each}" for each in trigger.warnings(utc(after, name="after"))]
    return "\n".join(lines)


def _in_zone(at: datetime, zone: tzinfo) -> datetime:
    """An instant as the zone's clock shows it; in UTC if no clock of the zone can."""
    try:
        return at.astimezone(zone)
    except OverflowError:
        return at


def effect_of(trigger: Trigger, at: datetime) -> str | None:
    """The effect of the clocks on the part of a trigger that fires at an instant."""
    if isinstance(trigger, WallClockTrigger) and (
        trigger.next_fire_time(at - MICROSECOND) == at
        and (effect := trigger.effect(at)) is not None
    ):
        return effect
    effects = (effect_of(part, at) for part in trigger.parts())
    return next(filter(None, effects), None)
