"""What becomes of the unstarted instances of a definition that is paused or edited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.models import Outcome, Skipped
from go_scheduler.stores.changes import EDITED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from go_scheduler.stores.memory.instances import InstanceTable
    from go_scheduler.stores.memory.stored import StoredDefinition


def take_back(
    row: StoredDefinition, instances: InstanceTable, now: datetime
) -> Sequence[datetime]:
    """Remove those to come, behind the last that stays; answer their fire times."""
    coming = [
        (each.fire_time, each)
        for each in row.rows
        if each.fire_time is not None and each.fire_time > now
    ]
    last = max((at for at, each in coming if not each.is_unused), default=now)
    removed = [(at, each) for at, each in coming if at > last]
    for _, each in removed:
        instances.remove(each)
    return [at for at, _ in removed]


def discard(row: StoredDefinition, instances: InstanceTable, now: datetime) -> None:
    """Remove those to come; those whose fire time has passed are skipped."""
    for each in row.rows:
        if not each.is_unused:
            continue
        assert each.fire_time is not None
        if each.fire_time > now:
            instances.remove(each)
        else:
            instances.end(each, Outcome.SKIPPED, now)
            each.claimed_by = None
            each.forget_worker()
            each.skipped = Skipped.itself(each.leave_fire_time(), EDITED)
