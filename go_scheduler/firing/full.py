"""What a definition does not fire, as too many of its instances wait already (pure)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.models import Skipped
from go_scheduler.stores.full import FULL

if TYPE_CHECKING:
    from go_scheduler.stores.messages import Firing


def within_queue(firing: Firing, room: int) -> Firing:
    """A step of so many instances at most.

    While there is room the step ends before what is beyond it; without any, that is
    recorded as skipped.

    Args:
        firing: The step, with fire times.
        room: How many more may wait; none if it is not above zero.
    """
    times = firing.fire_times
    if len(times) <= room:
        return firing
    if room > 0:
        return replace(
            firing,
            fire_times=times[:room],
            execute_times=firing.execute_times[:room],
            next_fire_time=times[room],
        )
    reason = FULL % firing.definition.max_queue
    skipped = Skipped(first=times[0], last=times[-1], count=len(times), reason=reason)
    if (before := firing.skipped) is not None:
        skipped = Skipped(
            first=min(before.first, skipped.first),
            last=max(before.last, skipped.last),
            count=before.count + skipped.count,
            reason=f"{before.reason}; {reason}",
        )
    return replace(firing, fire_times=(), execute_times=(), skipped=skipped)
