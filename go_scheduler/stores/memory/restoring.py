"""How a row of a ``MemoryStore`` is made again of what others saw of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.stores.memory.stored import StoredInstance

if TYPE_CHECKING:
    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.memory.stored import StoredDefinition

_RESTORED = (
    "accepted_at",
    "attempt",
    "cancel_requested",
    "claimed_by",
    "client",
    "completed_at",
    "due_at",
    "ended_attempt",
    "error",
    "expires_at",
    "given_back",
    "hangs",
    "key",
    "outcome",
    "own_trace_context",
    "parked",
    "payload",
    "progress",
    "reopened_at",
    "result",
    "runs",
    "skipped",
    "start_by",
    "started_at",
    "state",
    "worker",
)
"""What a row has that is not made with it, by the names that others see."""


def restored(instance: TaskInstance, of: StoredDefinition) -> StoredInstance:
    """The row that others saw as this instance."""
    row = StoredInstance(
        instance.id,
        of,
        instance.execute_at,
        fire_time=instance.fire_time,
        created_at=instance.created_at,
        backfilled=instance.backfilled,
    )
    for name in _RESTORED:
        setattr(row, name, getattr(instance, name))
    return row
