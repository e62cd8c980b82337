"""The part of a SQL store that makes what users ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.stores.by_hand_store import ByHandStore
from go_scheduler.stores.sql.backfilling import backfill

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.policies import Overlap
    from go_scheduler.stores.messages import Addition
    from go_scheduler.stores.sql.additions import Additions
    from go_scheduler.stores.sql.database import Database
    from go_scheduler.stores.sql.dialect import Dialect


class SQLByHand(ByHandStore):
    """Makes instances, each batch in a transaction of its own."""

    _database: Database
    _dialect: Dialect
    _additions: Additions

    def add_instances(
        self, definition_id: UUID, additions: Sequence[Addition]
    ) -> Sequence[TaskInstance]:
        """Make instances of a definition that are no fire times'."""
        return self._database.transact(
            lambda connection: self._additions.add(connection, definition_id, additions)
        )

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
