"""Instances that are added to a SQLite file and are no fire times'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.json import to_text
from go_scheduler.models.changed import changed
from go_scheduler.stores.hand_over_store import may_start
from go_scheduler.stores.sql.additions import Additions
from go_scheduler.stores.sql.instance_rows import read_instance
from go_scheduler.stores.sql.rows import (
    DEFINITION_COLUMNS,
    ContentsRow,
    DefinitionRow,
    read_contents,
    read_definition,
)
from go_scheduler.stores.sql.types import to_sqlite_time
from go_scheduler.stores.sqlite.batches import run_batch, time_of
from go_scheduler.stores.sqlite.statements.additions import ADD, LIVE

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime
    from typing import Any
    from uuid import UUID

    from sqlalchemy import Connection

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.messages import Addition, Claimant

_WIDTH = len(DEFINITION_COLUMNS)
_KIND = _WIDTH + ContentsRow._fields.index("trigger_kind")


class AddedInstances(Additions):
    """Adds instances by two statements, and may start them as well."""

    def add(
        self,
        connection: Connection,
        definition_id: UUID,
        additions: Sequence[Addition],
    ) -> Sequence[TaskInstance]:
        """Add, as any ``Additions`` do it."""
        return self._add(connection, definition_id, additions, None, names=None)

    def start(
        self,
        connection: Connection,
        definition_id: UUID,
        additions: Sequence[Addition],
        claimant: Claimant,
        *,
        names: Collection[str] | None,
    ) -> Sequence[TaskInstance]:
        """Add and start, as ``Store.add_and_start``."""
        return self._add(connection, definition_id, additions, claimant, names=names)

    def _add(
        self,
        connection: Connection,
        definition_id: UUID,
        additions: Sequence[Addition],
        claimant: Claimant | None,
        *,
        names: Collection[str] | None,
    ) -> Sequence[TaskInstance]:
        found = LIVE.fetch(connection, {"id": definition_id.hex})
        if not found:
            raise TaskDefinitionNotFoundError(definition_id)
        if not additions:
            return []
        [values] = found
        definition = _definition(values)
        if self.dropped(connection, values[0], definition, additions):
            return super().add(connection, definition_id, additions)
        now = self._dialect.now(connection)
        made = [each.made(definition, now) for each in additions]
        if claimant is not None and may_start(made[0], claimant, names):
            made = [
                started(each, claimant, now) if each.due_at <= now else each
                for each in made
            ]
        added = _insert(connection, values[0], made, now)
        left = [each for each in additions if each.id.hex not in added]
        existing = self.existing(connection, values[0], left)
        return [
            read_instance(tuple(existing[each.id]), definition)
            if each.id in existing
            else each
            for each in made
        ]


def started(made: TaskInstance, claimant: Claimant, at: datetime) -> TaskInstance:
    """A new instance as it is when it has been claimed and started at once."""
    longest = made.definition.expire_after
    if longest is None:
        longest = claimant.expire_after
    return changed(
        made,
        claimed_by=claimant.node,
        attempt=1,
        runs=1,
        started_at=at,
        expires_at=at + min(claimant.lease, longest),
    )


def _insert(
    connection: Connection, key: UUID, made: Sequence[TaskInstance], now: datetime
) -> Collection[str]:
    """Insert those that are not there, by one statement; say which those were."""
    batch = [
        (
            each.id.hex,
            each.key,
            None if each.payload is None else to_text(each.payload),
            to_sqlite_time(each.execute_at),
            None if each.claimed_by is None else each.claimed_by.hex,
            time_of(each.expires_at),
            each.own_trace_context,
        )
        for each in made
    ]
    terms = {"definition_key": key.hex, "now": to_sqlite_time(now)}
    return {row.id for row in run_batch(connection, ADD, batch, **terms)}


def _definition(values: Sequence[Any]) -> TaskDefinition:
    contents = None if values[_KIND] is None else ContentsRow(*values[_WIDTH:])
    return read_definition(DefinitionRow(*values[:_WIDTH]), read_contents(contents))
