"""How SQLite executes a statement that is written for PostgreSQL: step by step.

The text is read with a table of replacements. Each part of its WITH that changes rows
is a statement of its own. A part that only reads stands within the statement that reads
it, or is one of its own as well if several do. What a step returns is passed to those
behind it: a single row as parameters, more as JSON. All are one transaction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from itertools import count
from math import isfinite
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from sqlalchemy.dialects import sqlite

from go_scheduler.checks import LONGEST
from go_scheduler.clock import SystemClock
from go_scheduler.errors import StoreError
from go_scheduler.stores.sql.database import Database, Lane, Sweep
from go_scheduler.stores.sql.rows import Columns, to_microseconds, to_sqlite_time
from go_scheduler.stores.sql.statement import (
    ANSWER,
    HIGHEST,
    RETURNING,
    Statements,
    Written,
    items_of,
    list_of,
    name_of,
    parts_of,
    with_batches,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from go_scheduler.stores.sql.statement import Batch, Statement, Terms, Write
    from go_scheduler.stores.sql.tables import Dialect

_DIALECT = sqlite.dialect()


class FileStatements(Statements):
    """Executes statements on a file."""

    rolls_back = True

    def __init__(self, database: Database, dialect: Dialect) -> None:
        super().__init__(database, dialect)
        self._whole = _Whole(SystemClock().elapsed)

    def reading(self, lane: Lane) -> Lane:
        """Those that read: only one writes, and others wait for it in turn."""
        return Lane.BY_TIME

    def sweep(self, scan: object) -> Sweep:
        """Every scan reads from the beginning: rows that are gone leave no traces."""
        return self._whole

    def execute(
        self,
        connection: Connection,
        statement: Statement,
        terms: Terms,
        batches: Mapping[str, Batch] | None = None,
        *,
        apart: bool = False,
    ) -> Sequence[Any]:
        """Execute a statement on a connection, which is in a transaction."""
        values = {name: _value(each) for name, each in terms.items()}
        # Asked for under the write lock.
        values["now"] = to_sqlite_time(self._dialect.now(connection))
        tables = {
            name: _encoded(each, statement.batches[name])
            for name, each in (batches or {}).items()
        }
        execute = partial(self._database.execute, connection)
        for step in steps_of(statement):
            tables[step.name] = step.rows(execute, values, tables)
        return _columns(statement).read(tables[ANSWER])

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
        """Write a batch: no row is locked for whoever has the write lock."""
        found: list[Any] = []
        while batch:
            # Each id once: of two rows nobody would know which of them counted.
            firsts = {row[0]: row for row in reversed(batch)}
            batches = {**(beside or {}), "x": list(firsts.values())}
            found += self.run(
                lane, write.statement, terms or {}, batches, repeatable=repeatable
            )
            batch = [row for row in batch if row is not firsts[row[0]]]
        return Written(found)


class _Whole(Sweep):
    """A scan of everything."""

    @property
    def back(self) -> timedelta:
        """All that SQLite can count."""
        return _LONGEST


# Below the microseconds of any time, by 64 bits.
_LONGEST = timedelta(days=100_000_000)


@lru_cache(maxsize=500)
def _picker(places: tuple[int, ...]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """What takes the values at these places of a row."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda row: tuple([row[place] for place in places])


def _as_json(rows: Batch) -> str:
    try:
        return _dumped(rows)
    except ValueError:
        return _dumped([[_finite(value) for value in row] for row in rows])


def _dumped(rows: Batch) -> str:
    # Characters are not escaped: SQLite refuses what is no text.
    return json.dumps(rows, default=_text_of, ensure_ascii=False, allow_nan=False)


# A row that was written by other means than this package may hold anything. What JSON
# has not is passed as the next best, so that it affects no other row.
def _text_of(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _finite(value: object) -> object:
    if isinstance(value, float) and not isfinite(value):
        return HIGHEST if value > 0 else -HIGHEST
    return value


def _value(value: Any) -> object:
    """A parameter as a file takes it."""
    if isinstance(value, datetime):
        return to_sqlite_time(value)
    if isinstance(value, timedelta):
        return _microseconds(value)
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, str) or not isinstance(value, Collection):
        return value
    return json.dumps([_value(each) for each in value])


def _microseconds(duration: timedelta) -> int:
    count = to_microseconds(duration)
    if abs(count) > HIGHEST:
        raise StoreError(f"SQLite cannot keep a duration of {duration}")
    return count


_ENCODERS: dict[str, Callable[[Any], object]] = {
    "uuid": attrgetter("hex"),
    "timestamptz": to_sqlite_time,
    "duration": _microseconds,
}


def _encoded(batch: Batch, declared: Sequence[tuple[str, str]]) -> Batch:
    """A batch as a file takes it."""
    columns: list[Iterable[Any]] = list(zip(*batch, strict=True))
    for number, (_, kind) in enumerate(declared):
        if columns and (encode := _ENCODERS.get(kind)) is not None:
            columns[number] = [
                None if each is None else encode(each) for each in columns[number]
            ]
    return list(zip(*columns, strict=True))


@lru_cache(maxsize=200)
def _columns(statement: Statement) -> Columns:
    return statement.columns(_DIALECT)


_FIRST = to_sqlite_time(datetime.min.replace(tzinfo=UTC))
_SOUND = rf"""typeof(\1.due_at) = 'integer'
     AND \1.due_at >= {_FIRST} AND \1.due_at < :now + {to_microseconds(LONGEST)}
     AND typeof(\1.attempt) = 'integer' AND \1.attempt < {HIGHEST}
     AND typeof(\1.runs) = 'integer' AND \1.runs < {HIGHEST}
     AND typeof(\1.id) = 'text' AND length(\1.id) = 32
     AND \1.id NOT GLOB '*[^0-9a-f]*'"""
_WORDS = [
    (re.compile(pattern, re.DOTALL), word)
    for pattern, word in (
        (r"\bis_sound\((\w+)\)", _SOUND),
        (r"\bon_sqlite\(((?:[^()]|\([^()]*\))*)\)", r"\1"),
        (r"\bown\(([\w.]+), (\w+)\)", r"json_extract(\1, '$.\2')"),
        (
            r"\bids_unless_all\((\w+)\.id, (:\w+)\)",
            r"CASE WHEN (SELECT count(*) FROM \1) < \2"
            r" THEN (SELECT json_group_array(id) FROM \1) END",
        ),
        (r"\bas_jsonb\([\w.]+\)|\bnotified\([^)]*\)", "NULL"),
        (r"\bnow\(\)", ":now"),
        (r"@\w+", ""),
        (r"\s+OFFSET 0\b", ""),
        (r"\s+FOR (?:NO KEY )?(?:UPDATE|KEY SHARE)(?: OF \w+)?(?: SKIP LOCKED)?", ""),
        (r"\s+\* interval '1 microsecond'", ""),
        (r"\bunnest\(CAST\(:(\w+) AS \w+\[\]\)\)", r"value FROM json_each(:\1)"),
        (
            r"= ANY\(CAST\((:\w+) AS \w+\[\]\)\)",
            r"IN (SELECT value FROM json_each(\1))",
        ),
        (r"\bCAST\((:\w+) AS \w+(?:\[\])?\)", r"\1"),
        (r"\bgreatest\(", "max("),
        (r"\bleast\(", "min("),
        (r"\bIS NOT DISTINCT FROM\b", "IS"),
        (r"\bIS DISTINCT FROM\b", "IS NOT"),
        # Tables are read in the order in which they are written.
        (r"(?<!LEFT )(?<!CROSS )\bJOIN\b", "CROSS JOIN"),
        (
            r"DELETE FROM (\w+) AS (\w+)\s+USING (\w+(?: AS \w+)?)\s+"
            r"WHERE (.*?)(?=RETURNING)",
            r"DELETE FROM \1 AS \2 WHERE rowid IN (SELECT \2.rowid FROM \3"
            r" CROSS JOIN \1 AS \2 WHERE \4) ",
        ),
    )
]
_TABLES = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)\b(?:\s+AS\s+(\w+))?")
_TARGET = re.compile(r"\s*(?:UPDATE|DELETE FROM)\s+\w+\s+AS\s+(\w+)")
_ITEM = re.compile(r"(?:(\w+)\.)?(\w+)(?:\s+AS\s+(\w+))?")
_FROM = re.compile(r"\s*FROM\s+(\w+)\b(.*)", re.DOTALL)


class Step(NamedTuple):
    """One of the statements that SQLite executes for another.

    Attributes:
        name: The table that it makes.
        columns: The columns of that.
        sql: What it executes; None: it takes rows of a former step as they are.
        for_one: The same for tables of one row each, whose values are parameters.
        passed: The tables that are passed, and the places of the values that are, in
            each row.
        filters: Which rows of those are. Without any, the step is left out.
        joined: The table whose rows are joined to those that come back, by the first
            value of both.
        places: Which values of both make a row of the table.
        needs_rows: Whether nothing comes of it if all tables that are passed are empty.
    """

    name: str
    columns: Sequence[str] = ()
    sql: str | None = None
    for_one: str = ""
    passed: Mapping[str, tuple[int, ...]] = {}
    filters: Mapping[str, Callable[[Sequence[Any]], bool]] = {}
    joined: str | None = None
    places: tuple[int, ...] = ()
    needs_rows: bool = True

    def rows(
        self,
        execute: Callable[[str, Mapping[str, object]], Batch],
        values: Mapping[str, object],
        tables: Mapping[str, Batch],
    ) -> Batch:
        """Execute it; the rows of its table."""
        joined = [] if self.joined is None else tables[self.joined]
        pick = _picker(self.places)
        if self.sql is None:
            return list(map(pick, joined))
        passed = {}
        for name, places in self.passed.items():
            rows = tables[name]
            if (wanted := self.filters.get(name)) is not None:
                rows = list(filter(wanted, rows))
                if not rows:
                    return []
            passed[name] = list(map(_picker(places), rows))
        if self.needs_rows and passed and not any(passed.values()):
            return []
        found = execute(*self._with_tables(passed, values))
        if self.joined is None:
            return found
        of = {row[0]: row for row in joined}
        return [pick((*of[row[0]], *row)) for row in found]

    def _with_tables(
        self, passed: Mapping[str, Batch], values: Mapping[str, object]
    ) -> tuple[str, Mapping[str, object]]:
        """What is executed, and its parameters with the tables that it reads."""
        assert self.sql is not None
        if any(len(rows) != 1 for rows in passed.values()):
            texts = {name: _as_json(rows) for name, rows in passed.items()}
            return self.sql, {**values, **texts}
        ones = {
            f"{name}_{number}": value
            for name, [row] in passed.items()
            for number, value in enumerate(row)
        }
        return self.for_one, {**values, **ones}


@lru_cache(maxsize=500)
def steps_of(statement: Statement) -> Sequence[Step]:
    """The steps of a statement, in their order."""
    return _Steps(statement).found


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
        return {table for table, _ in _TABLES.findall(self.body)}


class _Steps:
    """Takes a statement apart."""

    def __init__(self, statement: Statement) -> None:
        text = with_batches(statement.sql, lambda name, _: name)
        for pattern, word in _WORDS:
            text = pattern.sub(word, text)
        self._parts = [_Part(*each) for each in parts_of(text)]
        self._columns: dict[str, Sequence[str]] = {
            name: [column for column, _ in columns]
            for name, columns in statement.batches.items()
        }
        self._inlined = self._find_inlined()
        self.found: list[Step] = []
        for number, part in enumerate(self._parts):
            if part.name not in self._inlined:
                behind = " ".join(each.body for each in self._parts[number + 1 :])
                step = self._step(part, set(re.findall(r"\w+", behind)))
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
            returned = rf"\bRETURNING\b.*\b{part.name}\."
            between = self._parts[order[part.name] + 1 : order[statement]]
            if not (
                any(each.changes for each in between)
                or re.search(returned, self._parts[order[statement]].body, re.DOTALL)
            ):
                inlined[part.name] = statement
        return inlined

    def _step(self, part: _Part, needed: set[str]) -> Step:
        if part.changes:
            return self._change(part, needed)
        listed = list_of(part.body)
        source = _FROM.fullmatch(part.body, part.body.index(listed) + len(listed))
        if part.name == ANSWER and source is not None and source[1] in self._columns:
            return self._pick(items_of(listed), *source.groups())
        names = [name_of(each) for each in items_of(listed)]
        return self._made(part, part.body)._replace(columns=names, needs_rows=False)

    def _change(self, part: _Part, needed: set[str]) -> Step:
        """A statement that changes rows, and returns what is needed of it."""
        found = RETURNING.search(part.body)
        if found is None or not (part.name == ANSWER or part.name in needed):
            return self._made(part, part.body[: found and found.start()])
        first, *others = [_parsed(each) for each in items_of(found[1])]
        if part.name != ANSWER:
            others = [each for each in others if each[2] in needed]
        items = [first, *others]
        named = _TARGET.match(part.body)
        joined = {table for table, *_ in items} - {"", named and named[1]}
        own = [f"{each[1]} AS {each[2]}" for each in items if each[0] not in joined]
        body = f"{part.body[: found.start()]}RETURNING {', '.join(own)}"
        step = self._made(part, body)._replace(columns=[name for *_, name in items])
        if not joined:
            return step
        # It returns columns of its own table alone.
        [table] = joined
        of = list(self._columns[table])
        places = [
            of.index(column) if prefix == table else None for prefix, column, _ in items
        ]
        return step._replace(joined=table, places=_numbered(places, len(of)))

    def _pick(self, items: Sequence[str], table: str, rest: str) -> Step:
        """The answer: rows of a former part, with what is read beside them."""
        of = list(self._columns[table])
        owned = {
            name: place
            for place, column in enumerate(of)
            for name in (column, f"{table}.{column}")
        }
        places = [owned.get(each.partition(" ")[0]) for each in items]
        names = [name_of(each) for each in items]
        read = [
            each for each, place in zip(items, places, strict=True) if place is None
        ]
        if not read and not rest.strip():
            return Step(ANSWER, names, joined=table, places=_numbered(places, 0))
        key = f"{table}.{of[0]}"
        body = f"SELECT {', '.join([key, *read])} FROM {table}{rest}"
        return self._made(_Part(ANSWER, body), body)._replace(
            columns=names, joined=table, places=_numbered(places, len(of) + 1)
        )

    def _made(self, part: _Part, body: str) -> Step:
        """A statement with the tables that it reads."""
        inlined = [
            each for each in self._parts if self._inlined.get(each.name) == part.name
        ]
        words = set(
            re.findall(r"\w+", " ".join([body, *(each.body for each in inlined)]))
        )
        read = part.tables.union(*(each.tables for each in inlined))
        passed, filters, tables, single = {}, {}, [], []
        for name, columns in self._columns.items():
            if name in read:
                needed = [each for each in columns if each in words]
                passed[name] = tuple(columns.index(each) for each in needed)
                tables.append((name, _json(name, needed)))
                single.append((name, _values(name, needed)))
                if (wanted := _filter_of(body, name, columns)) is not None:
                    filters[name] = wanted
        return Step(
            part.name,
            sql=_with([*tables, *inlined], body),
            for_one=_with([*single, *inlined], body),
            passed=passed,
            filters=filters,
        )


def _numbered(places: Sequence[int | None], first: int) -> tuple[int, ...]:
    """The places of values, where those that have none come one after the other."""
    number = count(first)
    return tuple(next(number) if each is None else each for each in places)


def _filter_of(
    body: str, table: str, columns: Sequence[str]
) -> Callable[[Sequence[Any]], bool] | None:
    """A condition on a table that is passed, with which the WHERE begins."""
    aliases = [alias for name, alias in _TABLES.findall(body) if name == table]
    for alias in filter(None, aliases):
        found = re.search(rf"\bWHERE {alias}\.(\w+) (IS NOT NULL )?AND\b", body)
        if found is not None:
            place = columns.index(found[1])
            if found[2] is None:
                return itemgetter(place)
            return lambda row: row[place] is not None
    return None


def _parsed(item: str) -> tuple[str, str, str]:
    """The table, the column and the name of what is returned."""
    found = _ITEM.fullmatch(item)
    assert found is not None, f"SQLite returns columns only: {item}"
    return found[1] or "", found[2], found[3] or found[2]


def _json(name: str, columns: Sequence[str]) -> str:
    """A table of rows that are passed as JSON: each is taken apart once."""
    listed = ", ".join(
        f"json_extract(value, '$[{number}]') AS {column}"
        for number, column in enumerate(columns)
    )
    return f"SELECT {listed} FROM json_each(:{name})"


def _values(name: str, columns: Sequence[str]) -> str:
    """A table of one row, whose values are parameters."""
    listed = ", ".join(
        f":{name}_{number} AS {column}" for number, column in enumerate(columns)
    )
    return f"SELECT {listed}"


def _with(tables: Iterable[tuple[str, str]], body: str) -> str:
    listed = ",\n".join(f"{name} AS MATERIALIZED ({sql})" for name, sql in tables)
    if not listed:
        return body.strip()
    return f"WITH {listed}\n{body.strip()}"
