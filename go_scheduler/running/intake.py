"""The intake: which claimed instances may run here, and what becomes of the others.

Decisions alone, as in ``outcomes``: no store, no clock, no thread.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from go_scheduler.handlers.registry import NAMELESS, HandlerRegistry, find_handler
from go_scheduler.running import silent
from go_scheduler.running.lateness import too_late
from go_scheduler.running.outcomes import Decision, not_called, not_run, runs_before
from go_scheduler.triggers.stored import UnknownTrigger

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler.handlers.registry import Handler
    from go_scheduler.models import TaskInstance
    from go_scheduler.running.defaults import Defaults
    from go_scheduler.running.lateness import Asked

# It may come back to a node that cannot run it either, so wait a little first.
_FIRST_DELAY = timedelta(milliseconds=50)
_LONGEST_DELAY = timedelta(minutes=1)
_MOST_DOUBLED = 11

_MOST_NAMED = 10
"""The most of a node's own handlers that are named where one is missing."""


class Accepted(NamedTuple):
    """It is to be called here.

    Attributes:
        again: Whether that is because its last run came to no end.
    """

    again: bool


class Refused(NamedTuple):
    """It is not to be called now: that is its end, or it runs again later.

    Attributes:
        decision: What follows.
    """

    decision: Decision


class GivenBack(NamedTuple):
    """It is not to be called here, and may be elsewhere.

    Attributes:
        reason: Why not here, for a person to read.
        delay: For how long nobody should claim it.
    """

    reason: str
    delay: timedelta


Verdict: TypeAlias = Accepted | Refused | GivenBack

_ACCEPTED = Accepted(again=False)
_ACCEPTED_AGAIN = Accepted(again=True)


def judge(
    instance: TaskInstance,
    handler: Handler | None,
    *,
    defaults: Defaults,
    refusal: str | None,
    now: datetime,
    asked: Asked | None = None,
) -> Verdict:
    """Decide on an instance that this node has claimed, or started.

    Args:
        instance: The instance.
        handler: What this node calls; None: what runs it is elsewhere.
        defaults: What holds for definitions that do not say.
        refusal: Why no further run of its definition may begin here; None: it may.
        now: The store's time.
        asked: What triggers have answered for others of its batch.
    """
    runs, silence = runs_before(instance), instance.silence
    if silence is not None and not instance.cancel_requested:
        return Refused(silent.decided(instance, silence, defaults=defaults, now=now))
    # Every policy allows a first run.
    if runs or instance.cancel_requested:
        decision = not_called(instance, defaults.retry_of(instance), now=now)
        if decision is not None:
            return Refused(decision)
    reason = _not_callable(instance, handler) or refusal
    if reason is not None:
        delay = _FIRST_DELAY * 2 ** min(instance.attempt - 1, _MOST_DOUBLED)
        return GivenBack(reason, min(delay, _LONGEST_DELAY))
    reason = too_late(instance, defaults, now=now, asked=asked)
    if reason is not None:
        return Refused(not_run(instance, reason))
    return _ACCEPTED_AGAIN if runs and instance.error is None else _ACCEPTED


def _not_callable(instance: TaskInstance, handler: Handler | None) -> str | None:
    """Why this node has no handler for an instance, though others may have."""
    definition = instance.definition
    # It is asked of every instance, and isinstance() is slow for what is abstract.
    if type(definition.trigger) is UnknownTrigger:
        return definition.trigger.reason
    if handler is None or find_handler(handler, instance) is not None:
        return None
    if definition.name is None:
        return f"{NAMELESS} here: pass name= to TaskDefinition"
    assert isinstance(handler, HandlerRegistry)
    registered = ", ".join(map(repr, handler.names[:_MOST_NAMED])) or "none"
    return (
        f"no handler is registered for definitions {definition.name!r} here;"
        f" registered: {registered}"
    )
