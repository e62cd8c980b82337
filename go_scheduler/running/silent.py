"""What follows for a run on a bus that fell silent: it has failed (pure)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.models import Stage
from go_scheduler.running.outcomes import Decision, fell_silent

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler.models import Silence, TaskInstance
    from go_scheduler.running.defaults import Defaults

_UNHEARD = ", or no scheduler hears what workers say"
_TENTH, _SECOND = timedelta(milliseconds=100), timedelta(seconds=1)


def decided(
    instance: TaskInstance, silence: Silence, *, defaults: Defaults, now: datetime
) -> Decision:
    """What follows for an instance whose claim has been taken over from a bus."""
    return fell_silent(
        instance,
        _error(instance, silence, defaults),
        retry=defaults.retry_of(instance),
        expire_after=defaults.expire_after_of(instance),
        now=now,
    )


def _error(instance: TaskInstance, silence: Silence, defaults: Defaults) -> str:
    """In which stage it was, who had it, and for how long nobody said a word."""
    worker = silence.worker or "a worker"
    if silence.stage is Stage.STARTED:
        heard = instance.definition.heartbeat_timeout
        timeout = defaults.timeout_of(instance)
        # Its dispatcher may have said how long, or its timeout have ended it sooner.
        if heard is None or (timeout is not None and timeout < heard):
            return f"{worker} has been silent for longer than it may be"
        return f"{worker} has been silent for {heard}"
    within = instance.definition.start_timeout or _rounded(silence.within)
    if silence.stage is Stage.PUBLISHED:
        return f"published, and accepted by nobody within {within}{_UNHEARD}"
    return f"accepted by {worker}, and not begun within {within}"


def _rounded(within: timedelta | None) -> timedelta:
    """Without what publishing it took."""
    within = within or timedelta()
    unit = _TENTH if within < 10 * _SECOND else _SECOND
    return round(within / unit) * unit
