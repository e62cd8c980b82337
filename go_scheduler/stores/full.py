"""What becomes of additions of which too many would wait: one rule for all (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.errors import QueueFullError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from uuid import UUID

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.messages import Addition

FULL = "%d of it wait, and no more may (max_queue)"
"""Why something is recorded as skipped, with the ``max_queue``."""


def dropped(
    definition: TaskDefinition,
    additions: Sequence[Addition],
    *,
    known: Collection[UUID | str],
    waiting: int,
) -> Collection[UUID]:
    """Which additions are recorded as skipped, as too many wait.

    Args:
        definition: The definition, with a ``max_queue``.
        additions: What is to be added to it.
        known: The ids and keys of those that there are already.
        waiting: How many of the definition wait.

    Returns:
        The ids of the last ones, for which there is no room.

    Raises:
        QueueFullError: There are such, and the definition has them refused.
    """
    most = definition.max_queue
    assert most is not None
    firsts: dict[UUID | str, UUID] = {}
    for each in additions:
        if each.id not in known and each.key not in known:
            firsts.setdefault(each.key or each.id, each.id)
    beyond = list(firsts.values())[max(0, most - waiting) :]
    if beyond and definition.when_full == "refuse":
        raise QueueFullError(definition.id, most)
    return frozenset(beyond)
