"""What is known of runs on a bus that are lost to whoever takes them over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from go_scheduler.stores.silences import silence_of
from go_scheduler.stores.sql.types import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from go_scheduler.models import Silence


def silences_of(rows: Iterable[Any]) -> dict[UUID, Silence]:
    """By the ids of instances, of rows as they were before they were claimed.

    Args:
        rows: Of ``id``, ``began``, ``taken_at``, ``due_by`` and ``ran_by``.
    """
    found = {}
    for row in rows:
        times = row.began, row.taken_at, row.due_by
        # Whoever cannot tell when it was takes it over as one of no bus.
        if UNREADABLE not in times:
            silence = silence_of(
                row.began,
                accepted_at=row.taken_at,
                start_by=row.due_by,
                worker=row.ran_by,
            )
            if silence is not None:
                found[row.id] = silence
    return found
