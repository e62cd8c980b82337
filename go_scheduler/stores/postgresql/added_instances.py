"""Instances of no fire time, added by one statement on the PostgreSQL family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy.exc import IntegrityError

from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.models.values import changed
from go_scheduler.stores.postgresql import dialect
from go_scheduler.stores.sql.database import Lane, Overtaken
from go_scheduler.stores.sql.rows import (
    DEFINITION_COLUMNS,
    DefinitionRow,
    read_instance,
    to_microseconds,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection, Row

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.messages import Addition, Claimant
    from go_scheduler.stores.postgresql.executing import Statements
    from go_scheduler.stores.sql.additions import Additions
    from go_scheduler.stores.sql.database import Database
    from go_scheduler.stores.sql.reader import Reader

_WIDTH = len(DEFINITION_COLUMNS)
_MOST_KNOWN = 10_000
# Those that add to a limited definition do it one after the other.
_WAITS_IN_TURN = 4


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
        self._notices = statements.notices
        self._database = database
        self._statements = statements
        self._additions = additions
        self._reader = reader
        self._shards = shards
        self._limited: dict[UUID, bool] = {}
        self._limited_within: dict[UUID, bool] = {}

    def add_within(
        self,
        connection: Connection,
        definition_id: UUID,
        additions: Sequence[Addition],
    ) -> Sequence[TaskInstance]:
        """Add within a transaction of the user's, as ``Additions.add``."""
        # What is known of it may never be committed, and only says which lock to take
        # first: of two who share one before each asks for its own, one has to repeat.
        limited = self._limited_within.get(definition_id)
        if limited is None:
            limited = self._additions.is_limited(connection, definition_id)
        add = self._additions.add_to_limited if limited else self._additions.add
        found = add(connection, definition_id, additions)
        for each in found[:1]:
            _note_limit(self._limited_within, each.definition)
        return found

    def add(
        self,
        definition_id: UUID,
        additions: Sequence[Addition],
        claimant: Claimant | None,
    ) -> Sequence[TaskInstance]:
        """Add, as ``Store.add_instances``."""
        if self._is_limited(definition_id):
            return self._add_few(definition_id, additions)
        start = {} if claimant is None else _start_of(claimant)
        name = "add_and_start" if start else "add"
        # Of those with one key, only the first can be added.
        firsts = {each.key or each.id: each for each in reversed(additions)}
        # One order for all nodes, so that none waits for another in a circle.
        new = sorted(firsts.values(), key=lambda each: each.key or "")
        columns = self._columns(new)
        parameters = {"definition_id": definition_id, **columns, **start}

        def add(connection: Connection) -> _Added:
            started = self._notices.elapsed()
            within = self._notices.within(started)
            rows = self._execute(
                connection, name, {**parameters, "hint_within": within}
            )
            if not rows:
                raise TaskDefinitionNotFoundError(definition_id)
            [row] = rows
            self._notices.note(row, started)
            if row.ids is None and len(new) == len(additions):
                return _Added(row, {})
            ids = [each.id for each in new] if row.ids is None else row.ids
            added = frozenset(ids)
            left = [each for each in additions if each.id not in added]
            existing = self._additions.existing(connection, row.key, left)
            return _Added(row, existing)

        row, existing = self._database.run(Lane.NEW, add)
        [definition] = self._reader.definitions(
            Lane.BY_HAND, [DefinitionRow(*row[:_WIDTH])]
        )
        started = _started(row, start)
        _note_limit(self._limited, definition)
        return [
            read_instance(tuple(existing[each.id]), definition)
            if each.id in existing
            else _made(each, definition, row.now, started)
            for each in additions
        ]

    def _add_few(
        self, definition_id: UUID, additions: Sequence[Addition]
    ) -> Sequence[TaskInstance]:
        """Add to a definition of which few may wait; nothing is started."""
        found = self._database.transact(
            lambda each: self._additions.add_to_limited(each, definition_id, additions),
            waits=_WAITS_IN_TURN,
        )
        for each in found[:1]:
            _note_limit(self._limited, each.definition)
        return found

    def _is_limited(self, definition_id: UUID) -> bool:
        """Whether few may wait: read once, and as each answer says from then on."""
        found = self._limited.get(definition_id)
        if found is not None:
            return found
        return self._database.run(
            Lane.NEW, lambda each: self._additions.is_limited(each, definition_id)
        )

    def _execute(
        self, connection: Connection, name: str, parameters: Mapping[str, object]
    ) -> Sequence[Any]:
        try:
            return self._statements.execute_plainly(connection, name, parameters)
        except IntegrityError as error:
            raise Overtaken from error

    def _columns(self, new: Sequence[Addition]) -> Mapping[str, object]:
        return {
            "ids": dialect.ids(each.id for each in new),
            "shards": dialect.numbers(each.id.int % self._shards for each in new),
            "keys": dialect.texts(each.key for each in new),
            "payloads": dialect.texts(each.payload_text for each in new),
            "times": dialect.times(each.at for each in new),
            "delays": dialect.numbers(to_microseconds(each.delay) for each in new),
            "trace_contexts": dialect.texts(each.trace_context for each in new),
        }


class _Added(NamedTuple):
    """What came of a batch: what the statement says, and what was there already."""

    row: Any
    existing: Mapping[UUID, Row[Any]]


def _note_limit(known: dict[UUID, bool], definition: TaskDefinition) -> None:
    if len(known) >= _MOST_KNOWN:
        known.clear()
    known[definition.id] = definition.max_queue is not None


def _start_of(claimant: Claimant) -> Mapping[str, object]:
    """What a statement has to know of a node to start what is due."""
    names = claimant.names
    return {
        "node": claimant.node,
        "queues": dialect.texts(claimant.queues),
        "names": None if names is None else dialect.texts(names),
        "lease": claimant.lease,
        "expire_after": claimant.expire_after,
    }


def _started(row: Any, start: Mapping[str, object]) -> Mapping[str, object]:
    """The fields of those that are due, if these are started."""
    if not (start and row.starts):
        return {}
    return {
        "claimed_by": start["node"],
        "attempt": 1,
        "runs": 1,
        "started_at": row.now,
        "expires_at": row.expires_at,
    }


def _made(
    addition: Addition,
    definition: TaskDefinition,
    now: datetime,
    started: Mapping[str, object],
) -> TaskInstance:
    made = addition.made(definition, now)
    return changed(made, **started) if started and made.due_at <= now else made
