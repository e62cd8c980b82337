"""Previews of triggers, for people to look at before and after scheduling them.

Triggers may be of third parties. They are asked on threads that are abandoned if they
hang. The loop that fires them has a timeout of its own.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from go_scheduler.argument_hints import write_instead
from go_scheduler.errors import ConfigurationError, InvalidTriggerError
from go_scheduler.formatting import shown
from go_scheduler.triggers.base import Trigger, is_own, name_of, next_fire_time_of, utc
from go_scheduler.triggers.local_time import (
    WallClockTrigger,
    load_zone,
    zone_key,
    zone_of,
)
from go_scheduler.triggers.simple import OnDemandTrigger
from go_scheduler.triggers.times import MICROSECOND
from go_scheduler.triggers.words import WEEKDAYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from zoneinfo import ZoneInfo


_T = TypeVar("_T")

PATIENCE = 1.0
"""The timeout of a call, in seconds."""

_hanging: dict[type, Future[object]] = {}


def describe_with_zone(trigger: Trigger) -> str:
    """When a trigger fires, in words, with its time zone unless that is UTC.

    If its parts are in different zones, all zones are named.

    Raises:
        Exception: It is a third party's, and its description fails.
    """

    def zones(part: Trigger) -> Iterator[str | None]:
        yield zone_of(part)
        for each in part.parts():
            yield from zones(each)

    def describe() -> str:
        names = dict.fromkeys(filter(None, zones(trigger)))
        text = str(trigger.describe())
        return text if {*names} <= {"UTC"} else f"{text} ({', '.join(names)})"

    return ask(trigger, describe)


def ask(trigger: Trigger, call: Callable[[], _T]) -> _T:
    """Call a trigger, which may be a third party's, with a timeout.

    While a trigger hangs, no other trigger of its class is called.

    Args:
        trigger: The trigger that is called.
        call: Calls it.

    Raises:
        InvalidTriggerError: It hangs, or it raised SystemExit or the like.
    """
    if is_own(trigger):
        return call()
    kind = type(trigger)
    before = _hanging.get(kind)
    if before is not None and not before.done():
        raise InvalidTriggerError(f"{name_of(kind)} hangs: it has not answered yet")
    answer: Future[_T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except Exception as error:
            answer.set_exception(error)
        except BaseException as error:
            # SystemExit of a trigger must not look like ours.
            answer.set_exception(InvalidTriggerError(f"it raised {shown(error)}"))

    threading.Thread(target=run, name="go_scheduler trigger", daemon=True).start()
    try:
        return answer.result(PATIENCE)
    except TimeoutError:
        # It has answered just now, or the trigger itself has raised TimeoutError.
        if answer.done():
            return answer.result()
        _hanging[kind] = answer  # type: ignore[assignment]
    raise InvalidTriggerError(
        f"{name_of(kind)} hangs: it did not answer within {PATIENCE:g} s"
    )


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
