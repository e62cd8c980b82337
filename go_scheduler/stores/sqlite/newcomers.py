"""Definitions of ids that were never stored before, written as rows to SQLite."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import uuid4

from sqlalchemy.exc import IntegrityError

from go_scheduler.models import TaskInstance
from go_scheduler.models.changed import changed
from go_scheduler.stores.changes import created
from go_scheduler.stores.sql.database import Overtaken
from go_scheduler.stores.sql.putting import Newcomer
from go_scheduler.stores.sql.rows import write_contents, write_definition
from go_scheduler.stores.sql.sweep import LATE_AFTER
from go_scheduler.stores.sql.types import to_sqlite_time
from go_scheduler.stores.sqlite.added_instances import started
from go_scheduler.stores.sqlite.batches import time_of, write_all
from go_scheduler.stores.sqlite.statements.additions import ADD_STARTED
from go_scheduler.stores.sqlite.statements.definitions import (
    INSERT_CONTENTS,
    INSERT_NEW,
    KNOWN,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.messages import Claimant, Firing


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
            firing: As for ``Store.put_and_start``.
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
