"""How definitions are put on the PostgreSQL family: a new one by one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.models.changed import changed
from go_scheduler.stores.postgresql.executing import understands
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.putting import Putting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.messages import Claimant, Firing
    from go_scheduler.stores.postgresql.newcomers import Newcomers


class ServerPutting(Putting):
    """Puts definitions; a single one is put alone, and may be started at once."""

    _newcomers: Newcomers

    def put_new(self, definition: TaskDefinition) -> TaskDefinition | None:
        """Put one if it is new: no transaction has to be begun and ended for it."""
        made = self._database.run(
            Lane.NEW,
            lambda connection: self._newcomers.insert_one(connection, definition),
        )
        if made is None:
            return None
        if made.is_read_soon:
            self.remember([made])
        return made.definition

    def put(
        self, definitions: Sequence[TaskDefinition], *, late: bool, repeatable: bool
    ) -> Sequence[TaskDefinition]:
        """Put several; a single one is not new, for that was tried."""
        if len(definitions) > 1:
            return super().put(definitions, late=late, repeatable=repeatable)
        return self._database.transact(
            lambda connection: self._puts.put(connection, definitions, late=late),
            repeatable=repeatable,
        )

    def put_within(
        self,
        connection: Connection,
        definitions: Sequence[TaskDefinition],
        *,
        late: bool,
    ) -> Sequence[TaskDefinition]:
        """Put definitions within a transaction of the user's."""
        if understands(connection):
            return super().put_within(connection, definitions, late=late)
        return self._puts.put(connection, definitions, late=late)

    def start(
        self, firing: Firing, claimant: Claimant
    ) -> tuple[TaskDefinition, TaskInstance] | None:
        """Put one that fires at once and start it; None: it is not new."""
        if firing.definition.revision is not None:
            return None
        started = self._database.run(
            Lane.NEW,
            lambda connection: self._newcomers.start(connection, firing, claimant),
            # One that was done, and is repeated, finds an id that is not new.
            repeatable=False,
        )
        if started is None:
            return None
        newcomer, instance = started
        if newcomer.definition.completed_at is None:
            self.remember([newcomer])
        put = changed(
            newcomer.definition, next_fire_time=instance.fire_time, completed_at=None
        )
        return put, instance
