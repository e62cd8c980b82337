"""How instances are added that are no fire times', each batch in one transaction.

In words that every engine and every driver understands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.models import Outcome
from go_scheduler.stores.full import FULL, dropped
from go_scheduler.stores.sql.counting import count_waiting
from go_scheduler.stores.sql.database import Overtaken
from go_scheduler.stores.sql.edits import definition_of, live_among
from go_scheduler.stores.sql.instance_rows import INSTANCE_COLUMNS, read_instance
from go_scheduler.stores.sql.tables import definitions, instances

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import ColumnElement, Connection, Row, Select

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.messages import Addition
    from go_scheduler.stores.sql.dialect import Dialect


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
            "shard": addition.id.int % self._dialect.shards,
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
