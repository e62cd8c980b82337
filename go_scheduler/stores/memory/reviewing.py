"""How a ``MemoryStore`` goes over what is parked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.models import Outcome, Skipped
from go_scheduler.stores.memory.finishing import cancel
from go_scheduler.stores.messages import Reviewed
from go_scheduler.stores.slots import REPLACED, fate_of

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.memory.stored import StoredInstance
    from go_scheduler.stores.memory.tables import Tables


def review_parked(tables: Tables, now: datetime, limit: int) -> Reviewed:
    """Let go on what can, and end what its overlap ends, as ``Store.review_parked``."""
    slots = tables.instances.slots
    unparked = slots.next_ones(limit)
    for row in unparked:
        tables.instances.unpark(row)
    skipped: list[TaskInstance] = []
    replaced: list[TaskInstance] = []

    def skip(row: StoredInstance, reason: str) -> None:
        at = row.fire_time or row.execute_at
        row.skipped = Skipped(first=at, last=at, count=1, reason=reason)
        tables.instances.end(row, Outcome.SKIPPED, now)
        skipped.append(row.view())

    undecided = slots.undecided(now, limit)
    for row in undecided:
        assert row.overlap is not None
        holder = slots.holder(row.slot)
        # One that was replaced a moment ago may have left the slot to nobody.
        runs = holder is not None and holder.of is row.of
        waiting = {each.id: each for each in slots.waiting(row)}
        fate = fate_of(row.overlap, runs=runs, waiting=list(waiting))
        for each in fate.replaced:
            skip(waiting[each], REPLACED)
        if fate.reason is not None:
            skip(row, fate.reason)
        else:
            slots.accept(row)
        if fate.stops and holder is not None and not holder.cancel_requested:
            _stop(holder, tables, now)
            replaced.append(holder.view())
    return Reviewed(
        unparked=[row.view() for row in unparked],
        skipped=skipped,
        replaced=replaced,
        parked=bool(slots),
        more=limit in (len(unparked), len(undecided)),
    )


def _stop(holder: StoredInstance, tables: Tables, now: datetime) -> None:
    if holder.of.definition.trigger.waits:
        # Whoever ends it says when its definition fires next.
        holder.cancel_requested = True
    else:
        cancel(holder.id, None, tables, now)
