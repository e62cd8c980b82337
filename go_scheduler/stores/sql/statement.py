"""Statements: what a store does in one step, written once for every engine.

The text is PostgreSQL's. What it says besides:

* ``batch AS x (id uuid, lease duration)`` is a table of rows that the caller passes. A
  ``duration`` is whole microseconds.
* ``task_instances@task_instances_pkey`` names the index by which rows are looked up. It
  becomes CockroachDB's hint, and nothing elsewhere.
* ``AND on_sqlite(…)`` is a condition for SQLite alone.
* ``as_jsonb(c.metadata)`` is a copy that serves to search; empty on SQLite.
* ``notified(made, claimable_at, i)`` tells other processes if any row of ``made`` is
  soon, and says whether it did; see ``hints``.
* ``is_sound(t)`` is false of a row that no claim can take: one that was written by
  other means than this package, and is out of all bounds.

PostgreSQL and CockroachDB execute it as one statement. SQLite has no statement that
changes two tables. There each part of a WITH that changes rows is a statement of its
own, within one transaction that has the write lock, and what it returns is a table for
the parts behind it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import count
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import column

from go_scheduler.checks import LONGEST
from go_scheduler.stores.sql.rows import (
    CLAIMED_COLUMNS,
    DEFINITION_COLUMNS,
    Columns,
    ContentsRow,
    Ids,
    to_microseconds,
    to_sqlite_time,
)
from go_scheduler.stores.sql.tables import contents, definitions, instances, nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Set
    from uuid import UUID

    from sqlalchemy import Connection
    from sqlalchemy.engine import Dialect

    from go_scheduler.stores.sql.database import Lane, Sweep

Result = TypeVar("Result")
Batch: TypeAlias = Sequence[Sequence[Any]]
Terms: TypeAlias = Mapping[str, Any]

# The key of its definition is among an instance's own columns.
_OTHERS = DEFINITION_COLUMNS[1:]


def _listed(columns: Iterable[str]) -> str:
    return fill(", ".join(columns), width=80, subsequent_indent=" " * 9)


INSTANCE = _listed(f"t.{name}" for name in CLAIMED_COLUMNS)
"""The columns that are read of an instance that is claimed, as ``t``."""
DEFINITION = _listed(f"d.{name} AS d_{name}" for name in _OTHERS)
"""Those of its definition, as ``d``."""
CONTENTS = _listed(f"c.{name} AS c_{name}" for name in ContentsRow._fields)
"""Those of the contents of that, as ``c``."""
CLAIMED = (*CLAIMED_COLUMNS, *(f"d_{name}" for name in _OTHERS))
"""The names of the first two."""
ALL = (*CLAIMED, *(f"c_{name}" for name in ContentsRow._fields))
"""The names of all three."""


def of_shard(shard: object, shards: int) -> str:
    """The condition of one part of an index, where there are several."""
    return f"shard = {shard} AND " if shards > 1 else ""


_TYPES = {
    **{each.name: each.type for each in (*definitions.c, *instances.c, *nodes.c)},
    **{f"d_{each.name}": each.type for each in definitions.c},
    **{f"c_{each.name}": each.type for each in contents.c},
    "made_id": instances.c.id.type,
    "ids": Ids(),
    **dict.fromkeys(
        ("place", "now", "began", "taken_at", "due_by"), instances.c.due_at.type
    ),
}

_BATCH = re.compile(r"\bbatch AS (\w+)\s*\(([^)]*)\)")
_PART = re.compile(r"\s*(\w+) AS (?:MATERIALIZED )?\(")
_TABLES = re.compile(r"\b(?:FROM|JOIN|USING)\s+(\w+)\b")
_TARGET = re.compile(r"\s*(?:UPDATE|DELETE FROM)\s+\w+\s+AS\s+(\w+)")
_RETURNING = re.compile(r"\bRETURNING\s+(.*)\Z", re.DOTALL)
_ITEM = re.compile(r"(?:(\w+)\.)?(\w+)(?:\s+AS\s+(\w+))?")
_FROM = re.compile(r"\s*FROM\s+(\w+)\b(.*)", re.DOTALL)


@dataclass(frozen=True, eq=False)
class Statement:
    """A statement of a store.

    Attributes:
        sql: Its text, with named parameters.
        returns: The names of the columns that come back.
    """

    sql: str
    returns: tuple[str, ...]

    def columns(self, dialect: Dialect) -> Columns:
        """How the rows are read that a driver returns."""
        return Columns(
            (column(name, _TYPES.get(name)) for name in self.returns), dialect
        )

    @cached_property
    def batches(self) -> Mapping[str, Sequence[tuple[str, str]]]:
        """The batches that it takes, by their names: the columns and their types."""
        found: dict[str, Sequence[tuple[str, str]]] = {}
        for name, listed in _BATCH.findall(self.sql):
            columns = [_column(each) for each in listed.split(",")]
            # A part may read some of them alone.
            found[name] = max(columns, found.get(name, ()), key=len)
        return found

    @cached_property
    def steps(self) -> Sequence[Step]:
        """The statements that SQLite executes, one after the other."""
        return _Steps(self.sql, self.batches).found


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
    """Executes statements; each is a transaction of its own."""

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

    @abstractmethod
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

    @abstractmethod
    def execute(
        self,
        connection: Connection,
        statement: Statement,
        terms: Terms,
        batches: Mapping[str, Batch] | None = None,
    ) -> Sequence[Any]:
        """Execute a statement on a connection, which may be in a transaction.

        Raises:
            Overtaken: Somebody else has inserted the same at this moment.
        """

    @abstractmethod
    def within(self, lane: Lane, work: Callable[[Connection], Result]) -> Result:
        """Call ``work``, whose first statement alone changes something."""

    @abstractmethod
    def read(self, lane: Lane, statement: Statement, terms: Terms) -> Sequence[Any]:
        """Execute a statement that only reads, and wait for nobody's lock."""

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


class Step(NamedTuple):
    """One of the statements that SQLite executes for another.

    Attributes:
        name: The table that it makes.
        columns: The columns of that.
        sql: What it executes; None: it takes rows of a former step as they are.
        passed: The tables that are passed as JSON, and the places of the values that
            are, in each row.
        joined: The table whose rows are joined to those that come back: by the number
            of the row, which comes back first, if they are ``numbered``; else by their
            first value.
        numbered: Whether the rows of that are passed with their numbers before them.
        places: Which values of both rows make a row of the table.
        needs_rows: Whether nothing comes of it if all tables that are passed are empty.
    """

    name: str
    columns: Sequence[str] = ()
    sql: str | None = None
    passed: Mapping[str, Sequence[int]] = {}
    joined: str | None = None
    numbered: bool = False
    places: Sequence[int] = ()
    needs_rows: bool = True


class _Part(NamedTuple):
    name: str
    body: str

    @property
    def changes(self) -> bool:
        """Whether it changes rows."""
        return not self.body.lstrip().startswith("SELECT")

    @property
    def tables(self) -> set[str]:
        """The tables that it reads."""
        return set(_TABLES.findall(self.body))


_ANSWER = ""


class _Steps:
    """Takes a statement apart."""

    def __init__(
        self, sql: str, batches: Mapping[str, Sequence[tuple[str, str]]]
    ) -> None:
        text = _in_words_of_sqlite(_BATCH.sub(r"\1", sql))
        self._parts, answer = _parts_of(text)
        self._parts.append(_Part(_ANSWER, answer))
        self._columns: dict[str, Sequence[str]] = {
            name: [column for column, _ in columns] for name, columns in batches.items()
        }
        self._used = {
            name for each in self._parts for name in each.tables if name != each.name
        }
        self._inlined = self._find_inlined()
        self.found: list[Step] = []
        for part in self._parts:
            if part.name not in self._inlined:
                step = self._step(part)
                self._columns[part.name] = step.columns
                self.found.append(step)

    def _find_inlined(self) -> Mapping[str, str]:
        """Which parts stand within a statement behind them, and in which.

        A part that is read by one statement stands there, unless another one changes
        rows in between: it has to see the rows as they were.
        """
        inlined: dict[str, str] = {}
        order = {part.name: number for number, part in enumerate(self._parts)}
        for part in reversed(self._parts[:-1]):
            readers = [each.name for each in self._parts if part.name in each.tables]
            statements = {inlined.get(each, each) for each in readers}
            if part.changes or len(statements) != 1:
                continue
            [statement] = statements
            between = self._parts[order[part.name] + 1 : order[statement]]
            returned = rf"\bRETURNING\b.*\b{part.name}\."
            if re.search(returned, self._parts[order[statement]].body, re.DOTALL):
                continue
            if not any(each.changes for each in between):
                inlined[part.name] = statement
        return inlined

    def _step(self, part: _Part) -> Step:
        if part.changes:
            return self._change(part)
        listed = _list_of(part.body)
        source = _FROM.fullmatch(part.body, part.body.index(listed) + len(listed))
        if part.name == _ANSWER and source is not None and source[1] in self._columns:
            return self._pick(part, listed, *source.groups())
        names = [_name_of(each) for each in _items(listed)]
        return self._made(part, part.body)._replace(columns=names, needs_rows=False)

    def _change(self, part: _Part) -> Step:
        """A statement that changes rows, and returns what is asked for of it."""
        found = _RETURNING.search(part.body)
        if found is None or part.name not in (*self._used, _ANSWER):
            return self._made(part, part.body[: found and found.start()])
        named = _TARGET.match(part.body)
        target = "" if named is None else named[1]
        items = [_parsed(each) for each in _items(found[1])]
        joined = {table for table, *_ in items} - {"", target}
        own = [f"{each[1]} AS {each[2]}" for each in items if each[0] not in joined]
        step = self._made(
            part, f"{part.body[: found.start()]}RETURNING {', '.join(own)}"
        )._replace(columns=[name for *_, name in items])
        if not joined:
            return step
        [table] = joined
        of = list(self._columns[table])
        number = count(len(of))
        places = [
            of.index(column) if prefix == table else next(number)
            for prefix, column, _ in items
        ]
        return step._replace(joined=table, places=places)

    def _pick(self, part: _Part, items: str, table: str, rest: str) -> Step:
        """Rows of a former part, with what is read beside them."""
        of = list(self._columns[table])
        listed = _items(items)
        own = [each for each in listed if not re.fullmatch(rf"(?:{table}\.)?\w+", each)]
        number = count(len(of) + 1)
        places = [
            next(number) if each in own else of.index(_name_of(each)) for each in listed
        ]
        step = Step(
            part.name,
            [_name_of(each) for each in listed],
            joined=table,
            places=places,
        )
        if not (own or rest.strip()):
            return step
        body = f"SELECT {', '.join([f'{table}.number', *own])} FROM {table}{rest}"
        made = self._made(part, body, numbered=table)
        return step._replace(sql=made.sql, passed=made.passed, numbered=True)

    def _made(self, part: _Part, body: str, *, numbered: str = "") -> Step:
        """A statement with the tables that it reads; the rows of one are numbered."""
        inlined = [
            each for each in self._parts if self._inlined.get(each.name) == part.name
        ]
        text = " ".join([body, *(each.body for each in inlined)])
        read = part.tables.union(*(each.tables for each in inlined))
        passed, tables = {}, []
        for name, columns in self._columns.items():
            if name in read:
                words = set(re.findall(r"\w+", text))
                needed = [each for each in columns if each in words]
                passed[name] = [columns.index(each) for each in needed]
                number = ["number"] if name == numbered else []
                tables.append((name, _json(name, [*number, *needed])))
        return Step(part.name, sql=_with([*tables, *inlined], body), passed=passed)


def _parsed(item: str) -> tuple[str, str, str]:
    """The table, the column and the name of what is returned."""
    found = _ITEM.fullmatch(item)
    assert found is not None, f"SQLite returns columns only: {item}"
    return found[1] or "", found[2], found[3] or found[2]


def _parts_of(sql: str) -> tuple[list[_Part], str]:
    """The parts of a WITH, and the statement behind it."""
    start = re.match(r"\s*WITH\b", sql)
    if start is None:
        return [], sql
    parts = []
    position = start.end()
    while True:
        head = _PART.match(sql, position)
        assert head is not None, sql[position:]
        end = _end_of(sql, head.end())
        parts.append(_Part(head[1], sql[head.end() : end]))
        rest = sql[end + 1 :]
        if not rest.lstrip().startswith(","):
            return parts, rest
        position = end + 1 + rest.index(",") + 1


def _end_of(sql: str, position: int) -> int:
    """Where the parenthesis ends that was opened before a position."""
    depth = 1
    while True:
        depth += {"(": 1, ")": -1}.get(sql[position], 0)
        if not depth:
            return position
        position += 1


def _items(listed: str) -> list[str]:
    """The items of a list between commas, but for those within parentheses."""
    found, depth, start = [], 0, 0
    for position, sign in enumerate(listed):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "," and not depth:
            found.append(listed[start:position].strip())
            start = position + 1
    return [*found, listed[start:].strip()]


def _list_of(select: str) -> str:
    """What a SELECT selects."""
    depth, start = 0, select.index("SELECT") + len("SELECT ")
    for position in range(start, len(select)):
        depth += {"(": 1, ")": -1}.get(select[position], 0)
        if not depth and re.match(r"\sFROM\b", select[position:]):
            return select[start:position]
    return select[start:]


def _name_of(item: str) -> str:
    return re.split(r"\s|\.", item)[-1]


def _json(name: str, columns: Sequence[str]) -> str:
    """A table of rows that are passed as JSON: each is taken apart once."""
    listed = ", ".join(
        f"json_extract(value, '$[{number}]') AS {column}"
        for number, column in enumerate(columns)
    )
    return f"SELECT {listed} FROM json_each(:{name})"


_INSERTED = re.compile(r"(\s*INSERT\s+INTO\s+\w+\s*\([^)]*\)\s*)(.*)", re.DOTALL)


def _with(tables: Iterable[tuple[str, str]], body: str) -> str:
    listed = ",\n".join(f"{name} AS MATERIALIZED ({sql})" for name, sql in tables)
    if not listed:
        return body.strip()
    # Its first word has to be INSERT: by that Python's sqlite3 knows that a transaction
    # of the user's begins.
    if (insert := _INSERTED.match(body)) is not None:
        return f"{insert[1].strip()}\nWITH {listed}\n{insert[2].strip()}"
    return f"WITH {listed}\n{body.strip()}"


_HIGHEST = 9_000_000_000_000_000_000
_FIRST = to_sqlite_time(datetime.min.replace(tzinfo=UTC))
_SOUND_ON_SQLITE = rf"""typeof(\1.due_at) = 'integer'
     AND \1.due_at >= {_FIRST} AND \1.due_at < :now + {to_microseconds(LONGEST)}
     AND typeof(\1.attempt) = 'integer' AND \1.attempt < {_HIGHEST}
     AND typeof(\1.runs) = 'integer' AND \1.runs < {_HIGHEST}
     AND length(\1.id) = 32 AND \1.id NOT GLOB '*[^0-9a-f]*'"""
_SOUND = rf"""\1.attempt < {_HIGHEST} AND \1.runs < {_HIGHEST}
     AND \1.due_at < now() + interval '36525 days'"""
_IS_SOUND = re.compile(r"\bis_sound\((\w+)\)")


_ON_SQLITE = re.compile(r"\s+AND on_sqlite\(((?:[^()]|\([^()]*\))*)\)")


_AS_JSONB = re.compile(r"\bas_jsonb\(([\w.]+)\)")


def on_server(sql: str) -> str:
    """The text without what only this package knows, but for indexes and batches."""
    sql = _AS_JSONB.sub(r"CAST(\1 AS jsonb)", sql)
    return _IS_SOUND.sub(_SOUND, _ON_SQLITE.sub("", sql))


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


_LOCKS = r"\s+FOR (?:NO KEY )?(?:UPDATE|KEY SHARE)(?: OF \w+)?(?: SKIP LOCKED)?"
_DELETE = (
    r"DELETE FROM (\w+) AS (\w+)\s+USING (\w+) AS (\w+)\s+WHERE (.*?)(?=RETURNING)"
)
_SQLITE = [
    (re.compile(pattern, re.DOTALL), word)
    for pattern, word in (
        (_IS_SOUND.pattern, _SOUND_ON_SQLITE),
        (_ON_SQLITE.pattern, r" AND \1"),
        (r"\s+OFFSET 0\b", ""),
        (r"\bas_jsonb\([\w.]+\)|\bnotified\([^)]*\)", "NULL"),
        (r"\bARRAY\(SELECT ([\w.]+) FROM", r"(SELECT json_group_array(\1) FROM"),
        (r"\bnow\(\)", ":now"),
        (r"@\w+", ""),
        (_LOCKS, ""),
        (r"\s+\* interval '1 microsecond'", ""),
        (r"unnest\(CAST\(:(\w+) AS \w+\[\]\)\)", r"value FROM json_each(:\1)"),
        (
            r"= ANY\(CAST\((:\w+) AS \w+\[\]\)\)",
            r"IN (SELECT value FROM json_each(\1))",
        ),
        (r"CAST\((:\w+) AS \w+(?:\[\])?\)", r"\1"),
        (r"\bgreatest\(", "max("),
        (r"\bleast\(", "min("),
        (r"\bIS NOT DISTINCT FROM\b", "IS"),
        (r"\bIS DISTINCT FROM\b", "IS NOT"),
        # Tables are read in the order in which they are written.
        (r"(?<!LEFT )(?<!CROSS )\bJOIN\b", "CROSS JOIN"),
        (
            _DELETE,
            r"DELETE FROM \1 AS \2 WHERE rowid IN (SELECT \2.rowid FROM \3 AS \4"
            r" CROSS JOIN \1 AS \2 WHERE \5) ",
        ),
    )
]


def _in_words_of_sqlite(sql: str) -> str:
    for pattern, word in _SQLITE:
        sql = pattern.sub(word, sql)
    return sql
