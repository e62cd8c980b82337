"""Definitions and instances that are new to a SQLite file, written as rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import uuid4

from sqlalchemy.exc import IntegrityError

from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.json import to_text
from go_scheduler.models import TaskInstance
from go_scheduler.models.values import changed
from go_scheduler.stores.base import may_start
from go_scheduler.stores.rules import created
from go_scheduler.stores.sql.additions import Additions
from go_scheduler.stores.sql.database import LATE_AFTER, Overtaken
from go_scheduler.stores.sql.puts import Newcomer
from go_scheduler.stores.sql.rows import (
    DEFINITION_COLUMNS,
    ContentsRow,
    DefinitionRow,
    read_contents,
    read_definition,
    read_instance,
    to_sqlite_time,
    write_contents,
    write_definition,
)
from go_scheduler.stores.sqlite.batches import run_batch, time_of, write_all
from go_scheduler.stores.sqlite.statements import (
    ADD,
    ADD_STARTED,
    INSERT_CONTENTS,
    INSERT_NEW,
    KNOWN,
    LIVE,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime
    from typing import Any
    from uuid import UUID

    from sqlalchemy import Connection

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.messages import Addition, Claimant, Firing

_WIDTH = len(DEFINITION_COLUMNS)
_KIND = _WIDTH + ContentsRow._fields.index("trigger_kind")


class AddedInstances(Additions):
    """Adds instances by two statements, and may start them as well."""

    def add(
        self,
        connection: Connection,
        definition_id: UUID,
        additions: Sequence[Addition],
        claimant: Claimant | None = None,
    ) -> Sequence[TaskInstance]:
        """Add, as any ``Additions`` do it; start what is due for a claimant."""
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
        if claimant is not None and may_start(made[0], claimant):
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


class Newcomers:
    """Inserts definitions after a look at which of their ids are known.

    Args:
        time: The store's.
    """

    def __init__(self, time: Callable[[], datetime]) -> None:
        self._time = time

    def insert(
        self, connection: Connection, given: Sequence[TaskDefinition], *, late: bool
    ) -> list[Newcomer]:
        """Insert those whose ids neither are nor were stored, nor are remembered.

        Args:
            connection: In a transaction: of ours, or the user's.
            given: The definitions.
            late: Whether others may see them only much later.

        Returns:
            Those that were inserted.

        Raises:
            Overtaken: Somebody else has inserted one since the look: a transaction of
                the user's may begin with the first write.
        """
        ids = json.dumps([each.id.hex for each in given if each.revision is None])
        known = set(connection.exec_driver_sql(KNOWN, {"ids": ids}).scalars())
        now = self._time()
        made = [
            Newcomer(created(each, now, revision=1), uuid4(), write_contents(each), now)
            for each in given
            if each.revision is None and each.id.hex not in known
        ]
        rows = [_row(each, late=late) for each in made]
        try:
            write_all(connection, INSERT_NEW, rows)
        except IntegrityError as error:
            raise Overtaken from error
        contents = [(each.key.hex, *each.contents) for each in made]
        write_all(connection, INSERT_CONTENTS, contents)
        return made

    def start(
        self, connection: Connection, firing: Firing, claimant: Claimant
    ) -> tuple[Newcomer, TaskInstance] | None:
        """Insert one that fires at once, and start its instance.

        Args:
            connection: In a transaction of ours.
            firing: As for ``Store.put_definitions``.
            claimant: Who has the instance.

        Returns:
            It, as it is after it has fired; None: its id is not new.
        """
        [fire_time] = firing.fire_times
        new = changed(firing.definition, next_fire_time=firing.next_fire_time)
        made = self.insert(connection, [new], late=False)
        if not made:
            return None
        [newcomer] = made
        instance = TaskInstance(
            id=uuid4(),
            definition=newcomer.definition,
            fire_time=fire_time,
            execute_at=fire_time,
            due_at=fire_time,
            created_at=newcomer.made_at,
        )
        instance = started(instance, claimant, max(newcomer.made_at, fire_time))
        connection.exec_driver_sql(
            ADD_STARTED,
            {
                "id": instance.id.hex,
                "definition_key": newcomer.key.hex,
                "fire_time": to_sqlite_time(fire_time),
                "created_at": to_sqlite_time(newcomer.made_at),
                "node": claimant.node.hex,
                "started_at": time_of(instance.started_at),
                "expires_at": time_of(instance.expires_at),
            },
        )
        return newcomer, instance


def _row(new: Newcomer, *, late: bool) -> tuple[object, ...]:
    """The values of ``INSERT_NEW``."""
    definition = new.definition
    columns = write_definition(definition)
    next_fire_time = definition.next_fire_time
    is_late = next_fire_time is not None and next_fire_time <= new.made_at - LATE_AFTER
    return (
        new.key.hex,
        definition.id.hex,
        definition.queue,
        definition.priority,
        columns["expire_after"],
        columns["waits"],
        columns["slot"],
        columns["overlap"],
        time_of(next_fire_time),
        late or is_late,
        definition.paused,
        definition.note,
        time_of(definition.paused_at),
        time_of(definition.completed_at),
        definition.named,
        to_sqlite_time(new.made_at),
    )
