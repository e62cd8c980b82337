"""How instances are added that users ask for, each batch in one transaction.

In words that every engine and every driver understands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlalchemy import and_, case, literal, select

from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.models import Outcome
from go_scheduler.stores.base import ByHandStore
from go_scheduler.stores.rules import (
    FULL,
    check_is_as_read,
    dropped,
    overlap_of_backfilled,
    slot_of,
)
from go_scheduler.stores.sql.counts import count_waiting
from go_scheduler.stores.sql.database import Overtaken
from go_scheduler.stores.sql.edits import definition_of, live_among
from go_scheduler.stores.sql.rows import INSTANCE_COLUMNS, NOT_ELSEWHERE, read_instance
from go_scheduler.stores.sql.tables import definitions, instances

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import ColumnElement, Connection, Row, Select

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.policies import Overlap
    from go_scheduler.stores.messages import Addition
    from go_scheduler.stores.sql.database import Database
    from go_scheduler.stores.sql.tables import Dialect

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
            "shard": dialect.shard_of(id),
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


class Additions:
    """Adds instances to definitions.

    Args:
        dialect: The engine's own words.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def add(
        self,
        connection: Connection,
        definition_id: UUID,
        additions: Sequence[Addition],
    ) -> Sequence[TaskInstance]:
        """Add instances of one definition, as ``Store.add_instances``.

        Args:
            connection: In a transaction.
            definition_id: The definition.
            additions: What to add.

        Raises:
            TaskDefinitionNotFoundError: There is none with this id.
            Overtaken: Somebody else has added one with the same key at this moment.
        """
        # Whoever edits, pauses or deletes it waits, and then finds what is added here;
        # no fire and no other addition does.
        return self._add_locked(connection, definition_id, additions, shared=True)

    def add_to_limited(
        self,
        connection: Connection,
        definition_id: UUID,
        additions: Sequence[Addition],
    ) -> Sequence[TaskInstance]:
        """Add likewise to a definition of which few may wait, one after the other."""
        # On CockroachDB those with a shared lock would wait for each other.
        return self._add_locked(connection, definition_id, additions, shared=False)

    def _add_locked(
        self,
        connection: Connection,
        definition_id: UUID,
        additions: Sequence[Addition],
        *,
        shared: bool,
    ) -> Sequence[TaskInstance]:
        query = live_among(self._dialect, [definition_id])
        locked = query.with_for_update(read=shared, key_share=True, of=definitions)
        of = connection.execute(locked).one_or_none()
        if of is None:
            raise TaskDefinitionNotFoundError(definition_id)
        if not additions:
            return []
        definition = definition_of(of)
        beyond = self.dropped(connection, of.key, definition, additions)
        now = self._dialect.now(connection)
        rows = [
            self._columns(of, each, now, reason=FULL % definition.max_queue)
            if each.id in beyond
            else self._columns(of, each, now, reason=None)
            for each in additions
        ]
        made = self._insert(connection, rows).difference(beyond)
        self._dialect.hint(
            connection,
            (each.execute_at(now) for each in additions if each.id not in beyond),
            now,
        )
        left = [each for each in additions if each.id not in made]
        existing = self.existing(connection, of.key, left)
        return [
            read_instance(tuple(existing[each.id]), definition)
            if each.id in existing
            else each.made(definition, now)
            for each in additions
        ]

    def is_limited(self, connection: Connection, definition_id: UUID) -> bool:
        """Whether few of a definition may wait; of one that is not there: no."""
        query = live_among(self._dialect, [definition_id])
        row = connection.execute(query).one_or_none()
        return row is not None and definition_of(row).max_queue is not None

    def dropped(
        self,
        connection: Connection,
        key: UUID,
        definition: TaskDefinition,
        additions: Sequence[Addition],
    ) -> Collection[UUID]:
        """What is beyond how many may wait, however many add at this moment.

        Args:
            connection: In a transaction.
            key: Of the definition's row.
            definition: The definition.
            additions: What is to be added.

        Returns:
            The ids of what is to be recorded as skipped.

        Raises:
            QueueFullError: The definition has that refused.
        """
        most, column = definition.max_queue, instances.c
        if most is None:
            return ()
        row = select(definitions.c.key).where(definitions.c.key == key)
        connection.execute(row.with_for_update(key_share=True)).all()
        ids = self._dialect.among(column.id, [each.id for each in additions])
        by_id = self._look_up(select(column.id).where(ids), "task_instances_pkey")
        known = set(connection.scalars(by_id))
        keys = column.key.in_([each.key for each in additions if each.key])
        of_key = select(column.key).where(column.definition_key == key, keys)
        of_key = self._look_up(of_key, "task_instances_key_key")
        known.update(connection.scalars(of_key))
        waiting = count_waiting(connection, self._dialect, key=key, most=most)
        return dropped(definition, additions, known=known, waiting=waiting)

    def existing(
        self, connection: Connection, key: UUID, additions: Sequence[Addition]
    ) -> Mapping[UUID, Row[Any]]:
        """The rows of ``INSTANCE_COLUMNS`` in the place of what was not added.

        Args:
            connection: Of ours, or in a transaction.
            key: Of the definition's row.
            additions: What was not added.

        Returns:
            Each by the id of its addition.

        Raises:
            Overtaken: There is none of one: somebody else adds it, or deletes it.
        """
        if not additions:
            return {}
        column = instances.c
        ids = self._dialect.among(column.id, [each.id for each in additions])
        rows = connection.execute(self._rows("task_instances_pkey", ids)).all()
        by_id = {row.id: row for row in rows}
        keyed = self._rows(
            "task_instances_key_key",
            column.definition_key == key,
            column.key.in_([each.key for each in additions]),
            column.key.is_not(None),
        )
        by_key = {row.key: row for row in connection.execute(keyed)}
        found = {}
        for each in additions:
            row = by_id.get(each.id) or by_key.get(each.key)
            if row is None:
                raise Overtaken
            found[each.id] = row
        return found

    def _rows(self, index: str, *which: ColumnElement[bool]) -> Select[Any]:
        query = select(*(instances.c[name] for name in INSTANCE_COLUMNS))
        return self._look_up(query.where(*which), index)

    def _look_up(self, query: Select[Any], index: str) -> Select[Any]:
        return self._dialect.looked_up(query, instances, index)

    def _insert(
        self, connection: Connection, rows: Sequence[Mapping[str, object]]
    ) -> set[UUID]:
        """Insert those that are not there, by one statement; say which those were."""
        statement = self._dialect.insert(instances).on_conflict_do_nothing()
        return set(
            connection.execute(statement.returning(instances.c.id), rows).scalars()
        )

    def _columns(
        self, of: Row[Any], addition: Addition, now: datetime, *, reason: str | None
    ) -> Mapping[str, object]:
        """The row of an addition; with a reason, it is skipped by that."""
        execute_at = addition.execute_at(now)
        ended = reason is not None
        return {
            "id": addition.id,
            "definition_key": of.key,
            "shard": self._dialect.shard_of(addition.id),
            "queue": of.queue,
            "priority": of.priority,
            "expire_after": of.expire_after,
            "slot": of.slot,
            "overlap": of.overlap,
            "frozen": of.paused,
            "key": addition.key,
            "created_at": now,
            "execute_at": execute_at,
            "due_at": execute_at,
            "claimable_at": None if of.paused or ended else max(execute_at, now),
            "payload": addition.payload,
            "trace_context": addition.trace_context,
            "outcome": Outcome.SKIPPED.value if ended else None,
            "completed_at": now if ended else None,
            "skipped_first": execute_at if ended else None,
            "skipped_last": execute_at if ended else None,
            "skipped_count": 1 if ended else None,
            "skipped_reason": reason,
        }


class SQLByHand(ByHandStore):
    """Makes instances, each batch in a transaction of its own."""

    _database: Database
    _dialect: Dialect

    def backfill_instances(
        self,
        definition: TaskDefinition,
        fire_times: Sequence[datetime],
        *,
        overlap: Overlap,
    ) -> Sequence[datetime]:
        """Make instances for fire times of a definition that have none."""
        return self._database.transact(
            lambda each: backfill(each, self._dialect, definition, fire_times, overlap),
            # What was made, and is repeated, is there already.
            repeatable=False,
        )
