"""The filters of templates: times, durations, numbers and states as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from markupsafe import Markup

from go_scheduler.clock import ZERO
from go_scheduler.formatting import clock_text, duration_text, shown, summary
from go_scheduler.json import to_text
from go_scheduler.triggers.previews import describe_with_zone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from go_scheduler.models import NodeInfo, TaskDefinition, TaskInstance

NOTHING = "–"
"""The placeholder for an empty value."""
_SHOWN = 120


def instant(at: datetime | None) -> Markup | str:
    """A time in UTC as an element that machines can read."""
    if at is None:
        return NOTHING
    at = at.astimezone(UTC)
    return Markup('<time datetime="{}">{} UTC</time>').format(
        at.isoformat(), plain_instant(at)
    )


def plain_instant(at: datetime) -> str:
    """A time in UTC as plain text."""
    return clock_text(at.astimezone(UTC), "milliseconds")


def span(duration: timedelta | None) -> str:
    """A duration in its two largest units. A negative one is early."""
    if duration is None:
        return NOTHING
    if duration < ZERO:
        return f"{duration_text(-duration)} early"
    return duration_text(duration)


def number(count: int) -> str:
    """A whole number with commas."""
    return f"{count:,}"


def short(text: str | None) -> str:
    """The beginning of a text of any length."""
    if text is None:
        return NOTHING
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def short_id(id: UUID) -> str:
    """The first characters of an id."""
    return str(id)[:8]


def said(error: str | None) -> str:
    """The line of an error that says what was raised."""
    return NOTHING if error is None else short(summary(error))


def took(instance: TaskInstance, now: datetime) -> timedelta | None:
    """How long the last run took, or has taken so far; None: it has not begun."""
    if instance.started_at is None:
        return None
    return (instance.completed_at or now) - instance.started_at


def late(instance: TaskInstance) -> timedelta | None:
    """How late its last run began; None: it has not begun."""
    if instance.started_at is None:
        return None
    return instance.started_at - instance.due_at


def fires(definition: TaskDefinition) -> str:
    """When a definition fires, in words."""
    try:
        return describe_with_zone(definition.trigger)
    except Exception as error:
        # A trigger of a user may raise anything. The rest of the list is shown.
        return f"its trigger cannot be described: {shown(error)}"


def node_state(node: NodeInfo) -> str:
    """The state of a node."""
    if not node.alive:
        return "not seen for longer than its lease"
    return "stopping" if node.stopping else "alive"


_FILTERS = (
    *(instant, plain_instant, span, number, short, short_id, said, took, late),
    *(fires, node_state),
)
FILTERS: Mapping[str, Callable[..., object]] = {
    "json_text": to_text,
    **{each.__name__: each for each in _FILTERS},
}
"""The filters of templates, by name."""
