"""How a ``MemoryStore`` goes over what is parked."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from go_scheduler.models import Outcome, Skipped
from go_scheduler.stores.memory.finishing import cancel
from go_scheduler.stores.messages import Reviewed
from go_scheduler.stores.slots import REPLACED, fate_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.memory.stored import StoredInstance
    from go_scheduler.stores.memory.tables import Tables


def review_parked(tables: Tables, now: datetime, limit: int) -> Reviewed:
    """End what its overlap ends, and let go on what can, as ``Store.review_parked``."""
    slots = tables.instances.slots
    skipped: list[TaskInstance] = []
    replaced: list[TaskInstance] = []

    def skip(row: StoredInstance, reason: str) -> None:
        at = row.fire_time or row.execute_at
        row.skipped = Skipped(first=at, last=at, count=1, reason=reason)
        tables.instances.end(row, Outcome.SKIPPED, now)
        skipped.append(row.view())

    undecided = list(islice(_undecided(tables, now), limit))
    for row in undecided:
        assert row.overlap is not None
        holder = slots.holder(row.slot)
        # One that was replaced a moment ago may have left the slot to nobody.
        runs = holder is not None and holder.of is row.of
        waiting = {each.id: each for each in slots.waiting(row)}
        met = runs or _met(row, tables)
        fate = fate_of(row.overlap, runs=met, waiting=list(waiting))
        for each in fate.replaced:
            skip(waiting[each], REPLACED)
        if fate.reason is not None:
            skip(row, fate.reason)
        else:
            slots.accept(row)
        if fate.stops and runs and holder is not None and not holder.cancel_requested:
            _stop(holder, tables, now)
            replaced.append(holder.view())
    turns = slots.next_ones(limit)
    unparked = [row for row in turns if not _is_to_be_judged(row, tables, now)]
    for row in unparked:
        tables.instances.unpark(row)
    return Reviewed(
        unparked=[row.view() for row in unparked],
        skipped=skipped,
        replaced=replaced,
        parked=bool(slots),
        more=limit in (len(turns), len(undecided)),
    )


def _undecided(tables: Tables, now: datetime) -> Iterator[StoredInstance]:
    """Rows due and undecided whose slot is taken, or that have met one of their own."""
    slots = tables.instances.slots
    for row in slots.undecided(now):
        if slots.holder(row.slot) is not None or _met(row, tables):
            yield row


def _is_to_be_judged(row: StoredInstance, tables: Tables, now: datetime) -> bool:
    return row.overlap is not None and row.due_at <= now and _met(row, tables)


def _met(row: StoredInstance, tables: Tables) -> bool:
    """Whether one of its own, which has ended since, had its slot when it was due."""
    former = None if row.behind is None else tables.instances.get(row.behind)
    return (
        former is not None
        and former.of is row.of
        and former.completed_at is not None
        and former.completed_at >= row.due_at
    )


def _stop(holder: StoredInstance, tables: Tables, now: datetime) -> None:
    if holder.of.definition.trigger.waits:
        # Whoever ends it says when its definition fires next.
        tables.instances.ask_to_stop(holder)
    else:
        cancel(holder.id, None, tables, now)
