"""How SQLite executes a statement that is written for PostgreSQL: step by step.

The text is read with a table of replacements. Each part of its WITH that changes rows
is a statement of its own. A part that only reads stands within the statement that reads
it, or is one of its own as well if several do. What a step returns is passed to those
behind it: a single row as parameters, more as JSON. All are one transaction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
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
from go_scheduler.stores.sql.database import Lane, Result, Sweep
from go_scheduler.stores.sql.rows import to_microseconds, to_sqlite_time
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
    from collections.abc import Callable, Iterable, Sequence

    from sqlalchemy import Connection

    from go_scheduler.stores.sql.database import Database
    from go_scheduler.stores.sql.rows import Columns
    from go_scheduler.stores.sql.statement import Batch, Statement, Terms, Write

_DIALECT = sqlite.dialect()


class FileStatements(Statements):
    """Executes statements on a file.

    Args:
        database: The file.
        microseconds: The store's time.
    """

    rolls_back = True

    def __init__(self, database: Database, microseconds: Callable[[], int]) -> None:
        self._database = database
        self._microseconds = microseconds
        self._whole = _Whole(SystemClock().elapsed)

    def reading(self, lane: Lane) -> Lane:
        """Those that read: only one writes, and others wait for it in turn."""
        return Lane.BY_TIME

    def sweep(self, scan: object) -> Sweep:
        """Every scan reads from the beginning: rows that are gone leave no traces."""
        return self._whole

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
        """Execute a statement in a transaction that has the write lock."""
        given = self._given(statement, terms, batches)
        alone = len(steps_of(statement)) == 1
        write = self._database.write if alone else self._database.transact
        found = write(
            lambda connection: self._steps(connection, statement, *given),
            repeatable=repeatable,
        )
        return _columns(statement).read(found)

    def within(self, lane: Lane, work: Callable[[Connection], Result]) -> Result:
        """Call ``work`` in a transaction that has the write lock."""
        return self._database.transact(work)

    def execute(
        self,
        connection: Connection,
        statement: Statement,
        terms: Terms,
        batches: Mapping[str, Batch] | None = None,
    ) -> Sequence[Any]:
        """Execute a statement on a connection, which is in a transaction."""
        given = self._given(statement, terms, batches)
        return _columns(statement).read(self._steps(connection, statement, *given))

    def read(
        self,
        lane: Lane,
        statement: Statement,
        terms: Terms,
        batches: Mapping[str, Batch] | None = None,
    ) -> Sequence[Any]:
        """Execute a statement that only reads: nobody waits for it."""
        given = self._given(statement, terms, batches)
        found = self._database.run(
            lane, lambda connection: self._steps(connection, statement, *given)
        )
        return _columns(statement).read(found)

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

    def _given(
        self,
        statement: Statement,
        terms: Terms,
        batches: Mapping[str, Batch] | None,
    ) -> tuple[Mapping[str, object], Mapping[str, Batch]]:
        """Parameters and batches as a file takes them."""
        values = {name: _value(each) for name, each in terms.items()}
        rows = {
            name: _encoded(each, statement.batches[name])
            for name, each in (batches or {}).items()
        }
        return values, rows

    def _steps(
        self,
        connection: Connection,
        statement: Statement,
        values: Mapping[str, object],
        batches: Mapping[str, Batch],
    ) -> Batch:
        """Execute the steps; the rows of the last one, as they are stored."""
        tables = dict(batches)
        execute = partial(self._database.execute, connection)
        # Asked for under the write lock.
        values = {**values, "now": self._microseconds()}
        for step in steps_of(statement):
            tables[step.name] = _step(execute, step, values, tables)
        return tables[step.name]


class _Whole(Sweep):
    """A scan of everything."""

    @property
    def back(self) -> timedelta:
        """All that SQLite can count."""
        return _LONGEST


# Below the microseconds of any time, by 64 bits.
_LONGEST = timedelta(days=100_000_000)


def _step(
    execute: Callable[[str, Mapping[str, object]], Batch],
    step: Step,
    values: Mapping[str, object],
    tables: Mapping[str, Batch],
) -> Batch:
    """Execute one step; the rows of its table."""
    joined = [()] if step.joined is None else tables[step.joined]
    added = [_computed(each, values, tables) for each in step.computed]
    pick = _picker(step.places)
    if step.sql is None:
        return [pick((*row, *added)) for row in joined]
    sources = dict(tables)
    for name, (place, not_null) in step.filters.items():
        sources[name] = [
            row
            for row in tables[name]
            if (row[place] is not None if not_null else row[place])
        ]
        if not sources[name]:
            return []
    if (
        step.needs_rows
        and step.passed
        and not any(sources[name] for name in step.passed)
    ):
        return []
    found = execute(*_with_tables(step, values, sources))
    if step.joined is None:
        return found
    of: Any = joined
    if not step.numbered:
        of = {row[0]: row for row in joined}
    return [pick((*of[row[0]], *row, *added)) for row in found]


def _with_tables(
    step: Step, values: Mapping[str, object], tables: Mapping[str, Batch]
) -> tuple[str, Mapping[str, object]]:
    """What a step executes, and its parameters with the tables that it reads."""
    assert step.sql is not None
    passed = {}
    for name, places in step.passed.items():
        rows = list(map(_picker(places), tables[name]))
        if step.numbered and name == step.joined:
            rows = [(number, *row) for number, row in enumerate(rows)]
        passed[name] = rows
    if any(len(rows) != 1 for rows in passed.values()):
        texts = {name: _as_json(rows) for name, rows in passed.items()}
        return step.sql, {**values, **texts}
    ones = {
        f"{name}_{number}": value
        for name, [row] in passed.items()
        for number, value in enumerate(row)
    }
    return step.for_one, {**values, **ones}


def _computed(
    value: Computed, values: Mapping[str, object], tables: Mapping[str, Batch]
) -> object:
    if value.is_now:
        return values["now"]
    if value.ids_of is None:
        return None
    ids = [row[0] for row in tables[value.ids_of]]
    return None if len(ids) == values[value.given] else ids


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
     AND length(\1.id) = 32 AND \1.id NOT GLOB '*[^0-9a-f]*'"""
_WORDS = [
    (re.compile(pattern, re.DOTALL), word)
    for pattern, word in (
        (r"\bis_sound\((\w+)\)", _SOUND),
        (r"\bon_sqlite\(((?:[^()]|\([^()]*\))*)\)", r"\1"),
        (r"\bown\(([\w.]+), (\w+)\)", r"json_extract(\1, '$.\2')"),
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
_COMPUTED = re.compile(r"(:now|NULL|ids_unless_all\((\w+)\.id, :(\w+)\))\s+AS\s+\w+")


class Filter(NamedTuple):
    """A condition on a table that is passed, with which the WHERE begins.

    Attributes:
        place: Of the value, in each row.
        not_null: Whether it has to be there; else it has to be true.
    """

    place: int
    not_null: bool


class Computed(NamedTuple):
    """A value that the answer has in each row: NULL, unless it is one of these.

    Attributes:
        is_now: Whether it is the store's time.
        ids_of: The table whose ids they are, unless it has as many rows as given.
        given: The parameter that says how many those are.
    """

    is_now: bool
    ids_of: str | None
    given: str


class Step(NamedTuple):
    """One of the statements that SQLite executes for another.

    Attributes:
        name: The table that it makes.
        columns: The columns of that.
        sql: What it executes; None: it takes rows of a former step as they are, or
            one without any.
        for_one: The same for tables of one row each, whose values are parameters.
        passed: The tables that are passed, and the places of the values that are, in
            each row.
        filters: Which rows of those are. Without any, the step is left out.
        joined: The table whose rows are joined to those that come back: by the number
            of the row, which comes back first, if they are ``numbered``; else by their
            first value.
        numbered: Whether the rows of that are passed with their numbers before them.
        computed: What is added to these rows.
        places: Which values of all these make a row of the table.
        needs_rows: Whether nothing comes of it if all tables that are passed are empty.
    """

    name: str
    columns: Sequence[str] = ()
    sql: str | None = None
    for_one: str = ""
    passed: Mapping[str, tuple[int, ...]] = {}
    filters: Mapping[str, Filter] = {}
    joined: str | None = None
    numbered: bool = False
    computed: Sequence[Computed] = ()
    places: tuple[int, ...] = ()
    needs_rows: bool = True


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
            return self._pick(part, listed, *source.groups())
        items = items_of(listed)
        names = [name_of(each) for each in items]
        computed = [_computed_by(each) for each in items]
        if part.name == ANSWER and None not in computed:
            values = [each for each in computed if each]
            places = tuple(range(len(values)))
            return Step(part.name, names, computed=values, places=places)
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
        [table] = joined
        of = list(self._columns[table])
        number = count(len(of))
        places = tuple(
            of.index(column) if prefix == table else next(number)
            for prefix, column, _ in items
        )
        return step._replace(joined=table, places=places)

    def _pick(self, part: _Part, listed: str, table: str, rest: str) -> Step:
        """Rows of a former part, with what is read beside them or computed."""
        of = list(self._columns[table])
        places: dict[str, int] = {}
        read: list[str] = []
        computed: list[Computed] = []
        for item in items_of(listed):
            if value := _computed_by(item):
                computed.append(value)
            elif (own := _ITEM.fullmatch(item)) and own[1] in (None, table):
                places[item] = of.index(own[2])
            else:
                read.append(item)
        numbered = bool(read or rest.strip())
        # The number of a row comes back before what is read beside it.
        number = count(len(of) + numbered)
        places |= {item: next(number) for item in read}
        names = [name_of(each) for each in items_of(listed)]
        step = Step(
            part.name,
            names,
            joined=table,
            computed=computed,
            places=tuple(
                places[each] if each in places else next(number)
                for each in items_of(listed)
            ),
        )
        if not numbered:
            return step
        body = f"SELECT {', '.join([f'{table}.number', *read])} FROM {table}{rest}"
        made = self._made(part._replace(body=body), body, numbered=table)
        return step._replace(
            sql=made.sql, for_one=made.for_one, passed=made.passed, numbered=True
        )

    def _made(self, part: _Part, body: str, *, numbered: str = "") -> Step:
        """A statement with the tables that it reads; the rows of one are numbered."""
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
                number = ["number"] if name == numbered else []
                tables.append((name, _json(name, [*number, *needed])))
                single.append((name, _values(name, [*number, *needed])))
                if (found := _filter_of(body, name, columns)) is not None:
                    filters[name] = found
        sql = _with([*tables, *inlined], body)
        for_one = _with([*single, *inlined], body)
        return Step(part.name, sql=sql, for_one=for_one, passed=passed, filters=filters)


def _computed_by(item: str) -> Computed | None:
    value = _COMPUTED.fullmatch(item)
    if value is None:
        return None
    return Computed(value[1] == ":now", value[2], value[3] or "")


def _filter_of(body: str, table: str, columns: Sequence[str]) -> Filter | None:
    aliases = [alias for name, alias in _TABLES.findall(body) if name == table]
    for alias in filter(None, aliases):
        found = re.search(rf"\bWHERE {alias}\.(\w+) (IS NOT NULL )?AND\b", body)
        if found is not None:
            return Filter(columns.index(found[1]), found[2] is not None)
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
