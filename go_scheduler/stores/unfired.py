"""What of a trigger had not fired when another one took its place; for every store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.models import Skipped
from go_scheduler.models.pause import explained_by_pause
from go_scheduler.triggers.base import is_own, next_fire_time_of

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler.models import TaskDefinition
    from go_scheduler.triggers.base import Trigger

UNFIRED = "its definition was given another trigger before it had fired"
"""Why fire times are skipped that had passed without an instance by then."""
MORE = "; there may have been more until then"
"""What is said as well if not all of them were counted."""
MOST_COUNTED = 100
"""So many of them are counted: others wait meanwhile."""


def unfired(old: TaskDefinition, now: datetime) -> Skipped | None:
    """The record of the fire times of a definition that have passed and not fired.

    Args:
        old: The definition before its trigger changes.
        now: The store's time.

    Returns:
        One record of all of them, which goes on until now if they are not all known;
        None: there are none.
    """
    first = old.next_fire_time
    if first is None or first > now:
        return None
    count, last = _passed(old.trigger, first, now)
    reason = UNFIRED
    if last is None:
        last, reason = now, UNFIRED + MORE
    since, pause = old.paused_at, old.last_pause
    if since is not None and since <= last:
        reason = explained_by_pause(reason, since, old.note)
    elif pause is not None:
        reason = pause.explained(reason, first, last)
    return Skipped(first=first, last=last, count=count, reason=reason)


def _passed(
    trigger: Trigger, first: datetime, now: datetime
) -> tuple[int, datetime | None]:
    """How many fire times there are up to now, and the last; None: maybe more."""
    count, last = 1, first
    if trigger.waits:
        return count, last
    # What is not ours may hang, and others wait meanwhile.
    while is_own(trigger) and count < MOST_COUNTED:
        try:
            following = next_fire_time_of(trigger, last)
        except Exception:
            # To give it another one may be the way out of just that.
            break
        if following is None or following > now:
            return count, last
        count, last = count + 1, following
    return count, None
