"""Statements: what a store does in one step, written once for every engine.

The text is PostgreSQL's. What it says besides:

* ``batch AS x (id uuid, lease duration)`` is a table of rows that the caller passes. A
  ``duration`` is whole microseconds.
* ``task_instances@task_instances_pkey`` names the index by which rows are looked up. It
  becomes CockroachDB's hint, and nothing elsewhere.
* ``AND on_sqlite(…)`` is a condition for SQLite alone.
* ``ids_unless_all(made.id, :given)`` are the ids of ``made``, or NULL if it has as many
  rows as given.
* ``as_jsonb(c.metadata)`` is a copy that serves to search; empty on SQLite.
* ``own(t.overrides, queue)`` is a field that an instance has of its own, as text.
* ``notified(made, claimable_at, i)`` tells other processes if any row of ``made`` is
  soon, and says whether it did; see ``hints``.
* ``is_sound(t)`` is false of a row that no claim can take: one that was written by
  other means than this package, and is out of all bounds.

PostgreSQL and CockroachDB execute it as one statement. SQLite has no statement that
changes two tables: see ``sqlite.executing``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

from sqlalchemy import ColumnElement, Connection, column

from go_scheduler.stores.rules import LOCK
from go_scheduler.stores.sql.database import Classes, Database, Lane, Result, Sweep
from go_scheduler.stores.sql.rows import (
    CLAIMED_COLUMNS,
    DEFINITION_COLUMNS,
    Columns,
    ContentsRow,
    Ids,
)
from go_scheduler.stores.sql.tables import contents, definitions, instances, nodes

if TYPE_CHECKING:
    from uuid import UUID

    from sqlalchemy.engine import Dialect as Driver

    from go_scheduler.stores.sql.reader import Reader
    from go_scheduler.stores.sql.tables import Dialect

Batch: TypeAlias = Sequence[Sequence[Any]]
Terms: TypeAlias = Mapping[str, Any]
Execute: TypeAlias = "Callable[..., Sequence[Any]]"
"""Executes a statement, with its terms and its batches, on one connection."""


def _listed(columns: Iterable[str]) -> str:
    return fill(", ".join(columns), width=80, subsequent_indent=" " * 9)


INSTANCE = _listed(f"t.{name}" for name in CLAIMED_COLUMNS)
"""The columns that are read of an instance that is claimed, as ``t``."""
DEFINITION = _listed(f"d.{name} AS d_{name}" for name in DEFINITION_COLUMNS[1:])
"""Those of its definition, as ``d``, whose key is among its own."""
CONTENTS = _listed(f"c.{name} AS c_{name}" for name in ContentsRow._fields)
"""Those of the contents of that, as ``c``."""


_OWN = {
    "queue": "own({}.overrides, queue)",
    "priority": "CAST(own({}.overrides, priority) AS bigint)",
    "expire_after": "CAST(own({}.overrides, expire_after) AS bigint)",
    "slot": f"'{LOCK}' || own({{}}.overrides, lock)",
}


def own_or(row: str, column: str, other: str) -> str:
    """What an instance has of its own in a column, or else what another one has."""
    return f"coalesce({_OWN[column].format(row)}, {other})"


def of_shard(shard: object, shards: int) -> str:
    """The condition of one part of an index, where there are several."""
    return f"shard = {shard} AND " if shards > 1 else ""


def first_of_each_shard(part: str, order: str, shards: int) -> str:
    """The first rows in the order of an index, as many as ``:limit`` says.

    Args:
        part: What they are selected by; ``{shard}`` stands for the condition of a part.
        order: The column that comes behind the shard in the index.
        shards: How many parts the index has. Each is read by itself, so that the
            server need not find out that it may stop early.
    """
    ending = f"\n   ORDER BY {order} LIMIT :limit"
    if shards == 1:
        return f"{part.format(shard='')}{ending}"
    conditions = [of_shard(shard, shards) for shard in range(shards)]
    every = "\n  UNION ALL ".join(
        f"SELECT * FROM ({part.format(shard=each)}{ending}) AS part"
        for each in conditions
    )
    return f"SELECT * FROM ({every}) AS parts{ending}"


_TYPES = {
    **{each.name: each.type for each in (*definitions.c, *instances.c, *nodes.c)},
    **{f"d_{each.name}": each.type for each in definitions.c},
    **{f"c_{each.name}": each.type for each in contents.c},
    "instance_id": instances.c.id.type,
    "made_id": instances.c.id.type,
    "ids": Ids(),
    **dict.fromkeys(
        ("place", "now", "began", "taken_at", "due_by"), instances.c.due_at.type
    ),
}

_BATCH = re.compile(r"\bbatch AS (\w+)\s*\(([^)]*)\)")


@dataclass(frozen=True, eq=False)
class Statement:
    """A statement of a store.

    Attributes:
        sql: Its text, with named parameters.
        races: Whether somebody else may have inserted the same at this moment; it is
            tried again then.
    """

    sql: str
    races: bool = False

    def columns(self, driver: Driver) -> Columns:
        """How the rows are read that a driver returns."""
        return Columns(self.typed(), driver)

    def typed(self) -> list[ColumnElement[Any]]:
        """The columns that come back, with their types."""
        return [column(name, _TYPES.get(name)) for name in self.returns]

    @cached_property
    def returns(self) -> Sequence[str]:
        """The names of the columns that come back."""
        _, answer = parts_of(self.sql)[-1]
        while (listed := list_of(answer)) == "*":
            answer = answer[answer.index("(") + 1 :]
        return [name_of(each) for each in items_of(listed)]

    @cached_property
    def batches(self) -> Mapping[str, Sequence[tuple[str, str]]]:
        """The batches that it takes, by their names: the columns and their types."""
        found: dict[str, Sequence[tuple[str, str]]] = {}
        for name, listed in _BATCH.findall(self.sql):
            columns = [_column(each) for each in listed.split(",")]
            # A part may read some of them alone.
            found[name] = max(columns, found.get(name, ()), key=len)
        return found


def _column(declared: str) -> tuple[str, str]:
    name, kind = declared.split()
    return name, kind


@dataclass(frozen=True, eq=False)
class Write:
    """A statement that changes the rows of a batch. All three take the same parameters.

    Attributes:
        statement: Changes all rows that are current, and returns them.
        free: Locks the rows that nobody else has locked, and returns their ids.
        current: Returns the ids of those that the statement would change.
        apart: Whether the statement reads definitions that it does not change. On
            CockroachDB it waits for whoever is writing one, and they are read after it.
    """

    statement: Statement
    free: Statement
    current: Statement
    apart: bool = False


class Written(NamedTuple):
    """The rows that a write returned, and the ids of those that were locked."""

    rows: Sequence[Any]
    busy: Set[UUID] = frozenset()


class Statements(ABC):
    """Executes statements; each is a transaction of its own.

    Args:
        database: Where they are executed.
        dialect: The engine's own words.

    Attributes:
        rolls_back: Whether what ``within`` calls is one transaction.
    """

    rolls_back = False

    def __init__(self, database: Database, dialect: Dialect) -> None:
        self._database = database
        self._dialect = dialect

    def joined(self, database: Database, dialect: Dialect) -> Self:
        """These on a connection of the user's."""
        joined = copy(self)
        joined._database = database
        joined._dialect = dialect
        return joined

    def reading(self, lane: Lane) -> Lane:
        """Which connections read what belongs to the statements of a lane."""
        return lane

    @abstractmethod
    def sweep(self, scan: object) -> Sweep:
        """How far the scan of this name has come."""

    def met_a_lock(self, error: BaseException) -> bool:
        """Whether an error says that somebody else has locked a row."""
        return False

    @contextmanager
    def scanning(self, *sweeps: Sweep) -> Iterator[None]:
        """Begin scans anew if what reads them fails, but for a lock."""
        try:
            yield
        except BaseException as error:
            if not self.met_a_lock(error):
                for sweep in sweeps:
                    sweep.start_over()
            raise

    def run(
        self,
        lane: Lane,
        statement: Statement,
        terms: Terms,
        batches: Mapping[str, Batch] | None = None,
        *,
        repeatable: bool = True,
        apart: bool = False,
    ) -> Sequence[Any]:
        """Execute a statement, and fetch what it returns.

        Args:
            lane: Which connections to use.
            statement: It changes something.
            terms: Its parameters.
            batches: The rows of its batches, whose columns are as it declares them.
            repeatable: As for ``Database.run``.
            apart: Whether the definitions of ``t`` are left out, to be read after it.
        """
        return self._database.change(
            lane,
            lambda connection: self.execute(
                connection, statement, terms, batches, apart=apart
            ),
            repeatable=repeatable,
        )

    @abstractmethod
    def execute(
        self,
        connection: Connection,
        statement: Statement,
        terms: Terms,
        batches: Mapping[str, Batch] | None = None,
        *,
        apart: bool = False,
    ) -> Sequence[Any]:
        """Execute a statement on a connection, which may be in a transaction.

        Raises:
            Overtaken: Somebody else has inserted the same at this moment.
        """

    def within(self, lane: Lane, work: Callable[[Connection], Result]) -> Result:
        """Call ``work``, whose first statement alone changes something."""
        return self._database.change(lane, work)

    def read(
        self,
        lane: Lane,
        statement: Statement,
        terms: Terms,
        batches: Mapping[str, Batch] | None = None,
    ) -> Sequence[Any]:
        """Execute a statement that only reads, and wait for nobody's lock."""
        return self._database.run(
            lane,
            lambda connection: self._dialect.past_locks(
                connection, lambda each: self.execute(each, statement, terms, batches)
            ),
        )

    @abstractmethod
    def write(
        self,
        lane: Lane,
        write: Write,
        batch: Batch,
        terms: Terms | None = None,
        beside: Mapping[str, Batch] | None = None,
        *,
        repeatable: bool = True,
    ) -> Written:
        """Write a batch, but for the rows that somebody else has locked.

        Args:
            lane: Which connections to use.
            write: What is done.
            batch: The rows of the batch ``x``, each of which begins with its id.
            terms: The other parameters.
            beside: The other batches.
            repeatable: As for ``Database.run``.
        """


class SQLPart:
    """What each part of a store works with."""

    _database: Database
    _dialect: Dialect
    _statements: Statements
    _reader: Reader
    _classes: Classes
    # Whether few instances of a definition may wait, as far as that is known.
    _limited: dict[UUID, bool]

    def _look(
        self, read: Callable[[Connection], Result], lane: Lane = Lane.BY_TIME
    ) -> Result:
        """Read, though somebody else may have locked the rows."""
        return self._database.run(
            lane, lambda connection: self._dialect.past_locks(connection, read)
        )

    def _list(self, read: Callable[[Connection], Result]) -> Result:
        """Read a list for users; it need not be of this very moment."""
        return self._database.run(
            Lane.BY_HAND, lambda connection: self._dialect.listed(connection, read)
        )


HIGHEST = 9_000_000_000_000_000_000
"""No attempt comes near it."""


def with_batches(
    sql: str, table: Callable[[str, Sequence[tuple[str, str]]], str]
) -> str:
    """The text with a table in the place of each batch.

    Args:
        sql: The text.
        table: Makes one of its name, and of its columns with their types.
    """

    def of(found: re.Match[str]) -> str:
        return table(found[1], [_column(each) for each in found[2].split(",")])

    return _BATCH.sub(of, sql)


ANSWER = ""
"""The name of the statement behind the parts of a WITH."""
RETURNING = re.compile(r"\bRETURNING\s+(.*)\Z", re.DOTALL)
_PART = re.compile(r"\s*(\w+) AS (?:MATERIALIZED )?\(")
_DEPTHS = {"(": 1, ")": -1}
_SELECT = re.compile(r"\bSELECT (?:DISTINCT )?")


def parts_of(sql: str) -> Sequence[tuple[str, str]]:
    """The parts of a WITH by their names, and the statement behind it."""
    parts: list[tuple[str, str]] = []
    start = re.match(r"\s*WITH\b", sql)
    while start is not None:
        head = _PART.match(sql, start.end())
        assert head is not None, sql
        end = _end_of(sql, head.end())
        parts.append((head[1], sql[head.end() : end]))
        sql = sql[end + 1 :]
        start = re.match(r"\s*,", sql)
    return [*parts, (ANSWER, sql)]


def _end_of(sql: str, position: int) -> int:
    """Where the parenthesis ends that was opened before a position."""
    depth = 1
    signs = re.compile(r"[()]").finditer(sql, position)
    while depth:
        sign = next(signs)
        depth += _DEPTHS[sign[0]]
    return sign.start()


def list_of(sql: str) -> str:
    """What a statement returns or selects."""
    if returning := RETURNING.search(sql):
        return returning[1]
    select = _SELECT.search(sql)
    assert select is not None, sql
    depth, start = 0, select.end()
    for sign in re.finditer(r"[()]|\sFROM\b", sql[start:]):
        depth += _DEPTHS.get(sign[0], 0)
        if not depth and sign[0] not in _DEPTHS:
            return sql[start : start + sign.start()]
    return sql[start:]


def items_of(listed: str) -> list[str]:
    """The items of a list between commas, but for those within parentheses."""
    found, depth, start = [], 0, 0
    for sign in re.finditer(r"[(),]", listed):
        depth += _DEPTHS.get(sign[0], 0)
        if sign[0] == "," and not depth:
            found.append(listed[start : sign.start()].strip())
            start = sign.end()
    return [*found, listed[start:].strip()]


def name_of(item: str) -> str:
    """The name of an item, which is its last word."""
    return re.split(r"\s|\.", item)[-1]
