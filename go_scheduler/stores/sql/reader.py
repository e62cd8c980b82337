"""Instances and definitions, made of rows and of contents that may be cached."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from sqlalchemy import Row, Select, Table, select

from go_scheduler.stores.sql.rows import (
    CLAIMED_COLUMNS,
    DEFINITION_COLUMNS,
    INSTANCE_COLUMNS,
    Contents,
    ContentsRow,
    DefinitionRow,
    missing_definition,
    read_contents,
    read_definition,
    read_instance,
    without_key,
)
from go_scheduler.stores.sql.tables import Dialect, contents, definitions
from go_scheduler.triggers.base import UnknownTrigger, is_own

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.sql.database import Database, Lane

_MOST_BYTES = 32 * 1024 * 1024
_BYTES_OF_AN_ENTRY = 1024


class _Entry(NamedTuple):
    revision: object
    contents: Contents
    size: int


class ContentsCache:
    """Contents by key and revision, up to some 32 MiB of text.

    Where a revision can come again, another value stands for it that changes with them.

    Only what is committed may be put in: the loops go by what they find here.

    Args:
        most_bytes: How much text it keeps.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._entries: OrderedDict[UUID, _Entry] = OrderedDict()
        self._size = 0

    def get(self, key: UUID, revision: object) -> Contents | None:
        """The contents that a definition had at this revision, if they are known."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry.revision != revision:
                return None
            self._entries.move_to_end(key)
            return entry.contents

    def put(
        self, key: UUID, revision: object, row: ContentsRow | Row[Any] | None
    ) -> Contents:
        """Read a row of ``task_contents``, and remember its contents."""
        contents = read_contents(row)
        if isinstance(contents.trigger, UnknownTrigger):
            # An unknown trigger may become known: its class may still be imported, or
            # its row be written anew.
            return contents
        assert row is not None, "what is missing has an unknown trigger"
        self.keep(key, revision, contents, row)
        return contents

    def keep(
        self,
        key: UUID,
        revision: object,
        contents: Contents,
        row: ContentsRow | Row[Any],
    ) -> None:
        """Remember the contents of a row of ``task_contents``."""
        size = _BYTES_OF_AN_ENTRY + len(row.metadata) + len(row.trigger_state)
        with self._lock:
            self._remove(key)
            self._entries[key] = _Entry(revision, contents, size)
            self._size += size
            while self._size > self._most_bytes:
                self._remove(next(iter(self._entries)))

    def _remove(self, key: UUID) -> None:
        if (entry := self._entries.pop(key, None)) is not None:
            self._size -= entry.size


# Where the columns of a definition begin, the first of which is its id, and where those
# of its contents.
_ID = len(CLAIMED_COLUMNS)
_TEXTS = _ID + len(DEFINITION_COLUMNS) - 1
_KIND = _TEXTS + ContentsRow._fields.index("trigger_kind")
_END = _TEXTS + len(ContentsRow._fields)
_DEFINITIONS = select(*(definitions.c[name] for name in DEFINITION_COLUMNS))
# What serves to search would be as much again.
_CONTENTS = select(contents.c.key, *(contents.c[name] for name in ContentsRow._fields))


class Reader:
    """Makes values of rows, outside of transactions: what it reads, it may remember.

    Args:
        database: Where contents are fetched.
        dialect: The engine's own words.
    """

    def __init__(self, database: Database, dialect: Dialect) -> None:
        self._database = database
        self._dialect = dialect
        # What a transaction of the user's has written may be rolled back.
        self._contents = ContentsCache(0 if dialect.joined else _MOST_BYTES)

    def definitions(
        self, lane: Lane, rows: Sequence[DefinitionRow]
    ) -> list[TaskDefinition]:
        """The definitions of rows; no connection is used if all contents are known."""
        known = {row.key: self._contents.get(row.key, row.revision) for row in rows}
        unknown = [key for key, found in known.items() if found is None]
        fetched = self._fetch(lane, unknown) if unknown else {}
        return [
            read_definition(
                row,
                known[row.key]
                or self._contents.put(row.key, row.revision, fetched.get(row.key)),
            )
            for row in rows
        ]

    def remember(self, key: UUID, new: TaskDefinition, row: ContentsRow) -> None:
        """Keep what has just been committed, so that it need not be fetched."""
        revision = new.revision or 0
        if is_own(new.trigger):
            policies = without_key(row.policies)
            known = Contents(row.name, new.metadata, new.trigger, *policies)
            self._contents.keep(key, revision, known, row)
        else:
            self._contents.put(key, revision, row)

    def _fetch(self, lane: Lane, keys: Sequence[UUID]) -> Mapping[UUID, Row[Any]]:
        rows = self._look_up(lane, _CONTENTS, contents, keys)
        return {row.key: row for row in rows}

    def _look_up(
        self, lane: Lane, query: Select[Any], table: Table, keys: Sequence[UUID]
    ) -> Sequence[Row[Any]]:
        """The rows of a table that have these keys, though they may be locked."""
        query = query.where(self._dialect.among(table.c.key, keys))
        query = self._dialect.looked_up(query, table, f"{table.name}_pkey")
        return self._database.run(
            lane,
            lambda connection: self._dialect.past_locks(
                connection, lambda each: each.execute(query).all()
            ),
        )

    def instances(self, lane: Lane, rows: Sequence[Row[Any]]) -> list[TaskInstance]:
        """The instances of rows of ``INSTANCE_COLUMNS`` and ``DEFINITION_COLUMNS``."""
        width = len(INSTANCE_COLUMNS)
        found = {row[width]: row for row in rows if row[width] is not None}
        distinct = [DefinitionRow(*row[width:]) for row in found.values()]
        by_key = self.by_key(lane, distinct)
        return [
            read_instance(
                row[:width],
                by_key.get(row.definition_key)
                or missing_definition(row.definition_key),
            )
            for row in rows
        ]

    def claimed(
        self, lane: Lane, rows: Sequence[Any], *, with_contents: bool = False
    ) -> list[TaskInstance]:
        """The instances of rows that are claimed and have not ended.

        What was not read with them is read now.

        Args:
            lane: Whose connections are used.
            rows: Of ``INSTANCE`` and ``DEFINITION``.
            with_contents: Whether they have ``CONTENTS`` too, which are not remembered.
        """
        distinct = {
            number: row for row in rows if (number := _number(row[1])) is not None
        }
        by_number: dict[int | None, TaskDefinition] = {}
        known: list[DefinitionRow] = []
        apart: list[UUID] = []
        for number, row in distinct.items():
            if row[_ID] is None:
                apart.append(row[1])
                continue
            of_definition = DefinitionRow(row[1], *row[_ID:_TEXTS])
            if with_contents and row[_KIND] is not None:
                texts = ContentsRow(*row[_TEXTS:_END])
                by_number[number] = read_definition(of_definition, read_contents(texts))
            else:
                known.append(of_definition)
        if apart:
            found = self._look_up(lane, _DEFINITIONS, definitions, apart)
            known += map(DefinitionRow._make, found)
        for key, definition in self.by_key(lane, known).items():
            by_number[key.int] = definition
        return [
            read_instance(
                row[:_ID],
                by_number.get(_number(row[1])) or missing_definition(row[1]),
            )
            for row in rows
        ]

    def by_key(
        self, lane: Lane, rows: Sequence[DefinitionRow]
    ) -> Mapping[UUID, TaskDefinition]:
        """The definitions of rows, by the keys of those."""
        keys = (row.key for row in rows)
        return dict(zip(keys, self.definitions(lane, rows), strict=True))


def _number(key: object) -> int | None:
    """A key, to be looked up in a fraction of the time; None: it cannot be read."""
    return key.int if isinstance(key, UUID) else None


def readable_claims(instances: Iterable[TaskInstance]) -> list[TaskInstance]:
    """Instances but those whose ``expires_at`` cannot be read: no claim holds so."""
    return [each for each in instances if each.expires_at is not None or each.parked]


def as_parked(instance: TaskInstance) -> TaskInstance:
    """An instance as its start has left it: parked, if it has not started."""
    if instance.claimed_by is not None:
        return instance
    return replace(instance, parked=True)


def earliest_first(instances: Iterable[TaskInstance]) -> list[TaskInstance]:
    """Instances in the order of their ``due_at``."""
    return sorted(instances, key=attrgetter("due_at"))
