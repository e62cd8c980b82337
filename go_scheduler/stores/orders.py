"""By what lists of instances are sorted, and what is within their bounds.

What has no such time comes first.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID

    from go_scheduler.models import TaskInstance

_EARLIEST = datetime.min.replace(tzinfo=UTC)


def by_end(instance: TaskInstance) -> tuple[datetime, UUID]:
    """When it ended."""
    return instance.completed_at or _EARLIEST, instance.id


def by_due(instance: TaskInstance) -> tuple[datetime, UUID]:
    """When it is due."""
    return instance.due_at, instance.id


def by_expiry(instance: TaskInstance) -> datetime:
    """When its claim expires."""
    return instance.expires_at or _EARLIEST


def by_fire_time(instance: TaskInstance) -> datetime:
    """For when it fired."""
    return instance.fire_time or _EARLIEST


def by_execution(instance: TaskInstance) -> tuple[datetime, UUID]:
    """When it is to run."""
    return instance.execute_at, instance.id


def is_fired_within(
    instance: TaskInstance, since: datetime | None, before: datetime | None
) -> bool:
    """Whether its fire time is within these bounds; without one, if there are none."""
    fire_time = instance.fire_time
    if fire_time is None:
        return since is None and before is None
    return (since is None or fire_time >= since) and (
        before is None or fire_time < before
    )
