"""How definitions are put where new ones need not be read first."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.sql.database import Database
    from go_scheduler.stores.sql.puts import Puts
    from go_scheduler.stores.sql.reader import Reader
    from go_scheduler.stores.sql.rows import ContentsRow

_SOON = timedelta(minutes=1)


class Newcomer(NamedTuple):
    """A definition that was inserted, as it is stored."""

    definition: TaskDefinition
    key: UUID
    contents: ContentsRow
    made_at: datetime

    @property
    def is_read_soon(self) -> bool:
        """Whether a loop reads it soon, or whenever somebody asks for it."""
        fires_at = self.definition.next_fire_time
        return fires_at is None or fires_at <= self.made_at + _SOON


class Inserts(Protocol):
    """What inserts definitions that are new."""

    def insert(
        self, connection: Connection, given: Sequence[TaskDefinition], *, late: bool
    ) -> Iterable[Newcomer]:
        """Insert those whose ids neither are nor were stored, nor are remembered."""


class Putting:
    """Puts definitions, and reads only what is there of those that are not new.

    Args:
        database: Where.
        newcomers: Inserts the new ones.
        puts: Puts the others.
        reader: Told of what has been committed and fires soon.
    """

    def __init__(
        self, database: Database, newcomers: Inserts, puts: Puts, reader: Reader
    ) -> None:
        self._database = database
        self._newcomers = newcomers
        self._puts = puts
        self._reader = reader

    def put(
        self, definitions: Sequence[TaskDefinition], *, late: bool, repeatable: bool
    ) -> Sequence[TaskDefinition]:
        """Put several in one transaction; as for ``Database.transact``."""
        put, soon = self._database.transact(
            lambda connection: self._put(connection, definitions, late=late),
            repeatable=repeatable,
        )
        # Not before it has been committed.
        self.remember(soon)
        return put

    def put_within(
        self,
        connection: Connection,
        definitions: Sequence[TaskDefinition],
        *,
        late: bool,
    ) -> Sequence[TaskDefinition]:
        """Put definitions within a transaction that may be the user's."""
        if any(each.revision is not None for each in definitions):
            # Whoever is told of a conflict may still commit: nothing is put before.
            return self._puts.put(connection, definitions, late=late)
        return self._put(connection, definitions, late=late)[0]

    def remember(self, soon: Iterable[Newcomer]) -> None:
        """Let the loops find what they read soon."""
        for each in soon:
            self._reader.remember(each.key, each.definition, each.contents)

    def _put(
        self,
        connection: Connection,
        definitions: Sequence[TaskDefinition],
        *,
        late: bool,
    ) -> tuple[Sequence[TaskDefinition], Sequence[Newcomer]]:
        put: dict[UUID, TaskDefinition] = {}
        soon = []
        for made in self._newcomers.insert(connection, definitions, late=late):
            put[made.definition.id] = made.definition
            if made.is_read_soon:
                soon.append(made)
        others = [each for each in definitions if each.id not in put]
        if others:
            stored = self._puts.put(connection, others, late=late)
            put.update((each.id, each) for each in stored)
        return [put[each.id] for each in definitions], soon
