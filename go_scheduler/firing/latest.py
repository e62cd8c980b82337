"""The latest fire time of a trigger up to an instant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.triggers.base import next_fire_time_of

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler.triggers.base import Trigger


def latest_fire_time(trigger: Trigger, low: datetime, until: datetime) -> datetime:
    """The latest fire time that is not after ``until``, by bisection.

    Args:
        trigger: Its fire times do not depend on where the search starts.
        low: A fire time that is not after ``until``.
        until: The end.
    """
    high = until
    while low < high:
        following = next_fire_time_of(trigger, low)
        if following is None or following > until:
            break
        middle = following + (high - following) / 2
        beyond = next_fire_time_of(trigger, middle)
        if beyond is None or beyond > until:
            low, high = following, middle
        else:
            low = beyond
    return low
