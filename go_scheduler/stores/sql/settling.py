"""How SQL stores go over what is parked: a look, and a short transaction if need be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from go_scheduler.stores.messages import Settled
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.lists import BOTH
from go_scheduler.stores.sql.slots import PARKED, TURNS, UNJUDGED, ParkedInstances
from go_scheduler.stores.sql.tables import definitions, instances

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from uuid import UUID

    from sqlalchemy import Connection
    from sqlalchemy.sql.selectable import TextualSelect

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.sql.database import Database
    from go_scheduler.stores.sql.dialect import Dialect
    from go_scheduler.stores.sql.reader import Reader

Found = TypeVar("Found")


class Settling:
    """Goes over what is parked. Reads are not part of what is written by them.

    Args:
        database: Where.
        dialect: The engine's own words.
        reader: Makes instances of rows.
    """

    def __init__(self, database: Database, dialect: Dialect, reader: Reader) -> None:
        self._database = database
        self._dialect = dialect
        self._reader = reader

    def settle(self, limit: int) -> Settled:
        """Let go on, and judge, as ``Store.settle_slots``."""
        if not self._look(lambda connection: connection.execute(PARKED).all()):
            return Settled()
        turns = self._find(TURNS, limit)
        unparked: Sequence[UUID] = []
        if turns:
            unparked = self._database.transact(
                lambda each: ParkedInstances(each, self._dialect, turns).let_go_on()
            )
        busy = len(unparked) < len(turns)
        skipped: Collection[UUID] = ()
        replaced: Collection[UUID] = ()
        if unjudged := self._find(UNJUDGED, limit):

            def judge(connection: Connection) -> tuple[ParkedInstances, int]:
                parked = ParkedInstances(connection, self._dialect, unjudged)
                return parked, parked.judge()

            judged, left = self._database.transact(judge)
            skipped, replaced = judged.skipped, judged.replaced
            busy = busy or left > 0
        return Settled(
            unparked=self._instances(unparked),
            skipped=self._instances(skipped),
            replaced=self._instances(replaced),
            parked=True,
            busy=busy,
        )

    def _find(self, statement: TextualSelect, limit: int) -> Mapping[UUID, str]:
        """The names of the slots of some that are parked, by their ids."""

        def find(connection: Connection) -> Mapping[UUID, str]:
            parameters: dict[str, Any] = {"limit": limit}
            if statement is UNJUDGED:
                parameters["now"] = self._dialect.now(connection)
            rows = connection.execute(statement, parameters)
            return {row.id: row.slot for row in rows}

        return self._look(find)

    def _look(self, read: Callable[[Connection], Found]) -> Found:
        return self._database.run(
            Lane.BY_TIME, lambda connection: self._dialect.past_locks(connection, read)
        )

    def _instances(self, ids: Collection[UUID]) -> Sequence[TaskInstance]:
        if not ids:
            return ()
        query = BOTH.where(self._dialect.among(instances.c.id, ids))
        query = self._dialect.looked_up(query, instances, "task_instances_pkey")
        query = self._dialect.looked_up(query, definitions, "task_definitions_pkey")
        rows = self._look(lambda connection: connection.execute(query).all())
        return self._reader.instances(Lane.BY_TIME, rows)
