"""Instances of no fire time, added by one statement on the PostgreSQL family."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy.exc import IntegrityError

from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.stores.postgresql import arrays
from go_scheduler.stores.postgresql.statements.additions import STARTED
from go_scheduler.stores.sql.database import Lane, Overtaken
from go_scheduler.stores.sql.instance_rows import read_instance
from go_scheduler.stores.sql.rows import DEFINITION_COLUMNS, DefinitionRow
from go_scheduler.stores.sql.types import to_microseconds, to_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from uuid import UUID

    from sqlalchemy import Connection, Row

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.messages import Addition, Claimant
    from go_scheduler.stores.postgresql.executing import Statements
    from go_scheduler.stores.sql.additions import Additions
    from go_scheduler.stores.sql.database import Database
    from go_scheduler.stores.sql.reader import Reader

_WIDTH = len(DEFINITION_COLUMNS)


class AddedInstances:
    """Adds instances without having to read first.

    Args:
        database: Where.
        statements: Executes them.
        additions: Reads what is there already.
        reader: Makes definitions of rows.
        shards: Over how many parts of an index instances are spread.
    """

    def __init__(
        self,
        database: Database,
        statements: Statements,
        additions: Additions,
        reader: Reader,
        *,
        shards: int,
    ) -> None:
        self._database = database
        self._statements = statements
        self._additions = additions
        self._reader = reader
        self._shards = shards

    def add(
        self, definition_id: UUID, additions: Sequence[Addition]
    ) -> Sequence[TaskInstance]:
        """Add, as ``Store.add_instances``."""
        return self._add("add", definition_id, additions, {})

    def start(
        self,
        definition_id: UUID,
        additions: Sequence[Addition],
        claimant: Claimant,
        *,
        names: Collection[str] | None,
    ) -> Sequence[TaskInstance]:
        """Add and start, as ``Store.add_and_start``."""
        start = {
            "node": claimant.node,
            "queues": list(claimant.queues),
            "names": None if names is None else list(names),
            "lease": claimant.lease,
            "expire_after": claimant.expire_after,
        }
        return self._add("add_and_start", definition_id, additions, start)

    def _add(
        self,
        name: str,
        definition_id: UUID,
        additions: Sequence[Addition],
        start: Mapping[str, object],
    ) -> Sequence[TaskInstance]:
        columns = self._columns(additions)
        parameters = {"definition_id": definition_id, **columns, **start}

        def add(connection: Connection) -> _Added:
            rows = self._execute(connection, name, parameters)
            if not rows:
                raise TaskDefinitionNotFoundError(definition_id)
            made = {row.made_id: row for row in rows}
            left = [each for each in additions if each.id not in made]
            existing = self._additions.existing(connection, rows[0].key, left)
            return _Added(DefinitionRow(*rows[0][:_WIDTH]), made, existing)

        added = self._database.run(Lane.BY_HAND, add)
        [definition] = self._reader.definitions(Lane.BY_HAND, [added.of])
        return [
            read_instance(tuple(added.existing[each.id]), definition)
            if each.id in added.existing
            else _made(each, definition, added.made[each.id])
            for each in additions
        ]

    def _execute(
        self, connection: Connection, name: str, parameters: Mapping[str, object]
    ) -> Sequence[Row[Any]]:
        try:
            return self._statements.execute(connection, name, parameters)
        except IntegrityError as error:
            raise Overtaken from error

    def _columns(self, additions: Sequence[Addition]) -> Mapping[str, object]:
        # Of those with one key, only the first can be added.
        firsts = {each.key or each.id: each for each in reversed(additions)}
        # One order for all nodes, so that none waits for another in a circle.
        new = sorted(firsts.values(), key=lambda each: each.key or "")
        payloads = (each.payload for each in new)
        return {
            "ids": arrays.ids(each.id for each in new),
            "shards": arrays.numbers(each.id.int % self._shards for each in new),
            "keys": arrays.texts(each.key for each in new),
            "payloads": arrays.texts(
                None if each is None else to_text(each) for each in payloads
            ),
            "times": arrays.times(each.at for each in new),
            "delays": arrays.numbers(to_microseconds(each.delay) for each in new),
        }


class _Added(NamedTuple):
    """What came of a batch: what is said of what was made, and what was there."""

    of: DefinitionRow
    made: Mapping[UUID, Row[Any]]
    existing: Mapping[UUID, Row[Any]]


def _made(
    addition: Addition, definition: TaskDefinition, row: Row[Any]
) -> TaskInstance:
    made = addition.made(definition, row.execute_at)
    started = dict(zip(STARTED, row[_WIDTH + 2 :], strict=False))
    return replace(made, **started) if started else made
