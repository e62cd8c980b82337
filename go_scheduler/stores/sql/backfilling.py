"""How fire times that have passed get their instances, each batch in one transaction.

In words that every engine and every driver understands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlalchemy import and_, case, literal

from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.models import Outcome
from go_scheduler.stores.changes import check_is_as_read
from go_scheduler.stores.slots import overlap_of_backfilled, slot_of
from go_scheduler.stores.sql.edits import definition_of, live_among
from go_scheduler.stores.sql.instance_rows import NOT_ELSEWHERE
from go_scheduler.stores.sql.tables import definitions, instances

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from sqlalchemy import Connection, Row

    from go_scheduler.models import TaskDefinition
    from go_scheduler.policies import Overlap
    from go_scheduler.stores.sql.dialect import Dialect

# What one that was skipped is without, so that it is as if it were new.
_BEGUN_ANEW = {
    "parked": False,
    "waits": False,
    "runs": 0,
    "hangs": 0,
    "claimed_by": None,
    **NOT_ELSEWHERE,
    "expires_at": None,
    "started_at": None,
    "completed_at": None,
    "outcome": None,
    "ended_attempt": None,
    "cancel_requested": False,
    "skipped_first": None,
    "skipped_last": None,
    "skipped_count": None,
    "skipped_reason": None,
}
_FOLLOWING = (
    "queue",
    "priority",
    "expire_after",
    "slot",
    "overlap",
    "frozen",
    "backfilled",
    "trace_context",
)


def backfill(
    connection: Connection,
    dialect: Dialect,
    definition: TaskDefinition,
    fire_times: Sequence[datetime],
    overlap: Overlap,
) -> Sequence[datetime]:
    """Make instances, as ``Store.backfill_instances``.

    Args:
        connection: In a transaction.
        dialect: The engine's own words.
        definition: As it was read.
        fire_times: Of it.
        overlap: By which they are judged.
    """
    query = live_among(dialect, [definition.id])
    # As whoever fires it: no two make the same at one moment, and a loop finds a
    # definition that is busy, and not rows that a transaction of the user's has made.
    locked = query.with_for_update(key_share=True, of=definitions)
    of = connection.execute(locked).one_or_none()
    if of is None:
        raise TaskDefinitionNotFoundError(definition.id)
    check_is_as_read(definition, of.revision)
    if not fire_times:
        return []
    now = dialect.now(connection)
    # One order for all nodes, so that none waits for another in a circle.
    rows = [
        {**each, "trace_context": definition.trace_context}
        for each in _rows(of, sorted(fire_times), overlap, dialect, now)
    ]
    made = dialect.insert(instances)
    made = made.on_conflict_do_update(
        index_elements=[instances.c.definition_key, instances.c.fire_time],
        set_={
            **_BEGUN_ANEW,
            **{name: made.excluded[name] for name in _FOLLOWING},
            "due_at": instances.c.execute_at,
            "claimable_at": _claimable_at(of, now),
        },
        where=and_(
            instances.c.outcome == Outcome.SKIPPED.value,
            instances.c.backfilled.is_(None),
        ),
    )
    found = connection.execute(made.returning(instances.c.fire_time), rows)
    done = set(found.scalars())
    dialect.hint(connection, [now for _ in done], now)
    return [each for each in fire_times if each in done]


def _claimable_at(of: Row[Any], now: datetime) -> object:
    """When one that was skipped joins the line, which may be due but later."""
    if of.paused:
        return None
    column = instances.c.execute_at
    return case((column < now, literal(now, column.type)), else_=column)


def _rows(
    of: Row[Any],
    fire_times: Sequence[datetime],
    overlap: Overlap,
    dialect: Dialect,
    now: datetime,
) -> Iterator[dict[str, object]]:
    judged_by = overlap_of_backfilled(overlap)
    slot = slot_of(definition_of(of), fired=False, backfilled=overlap)
    for fire_time in fire_times:
        id = uuid4()
        yield {
            "id": id,
            "definition_key": of.key,
            "shard": id.int % dialect.shards,
            "queue": of.queue,
            "priority": of.priority,
            "expire_after": of.expire_after,
            "slot": slot,
            "overlap": None if judged_by is None else judged_by.value,
            "frozen": of.paused,
            "backfilled": overlap.value,
            "created_at": now,
            "fire_time": fire_time,
            "execute_at": fire_time,
            "due_at": fire_time,
            "claimable_at": None if of.paused else max(fire_time, now),
        }
