"""How a SQLite file executes statements: each of their steps in one transaction."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from functools import lru_cache, partial
from math import isfinite
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sqlalchemy.dialects import sqlite

from go_scheduler.clock import SystemClock
from go_scheduler.errors import StoreError
from go_scheduler.stores.sql.database import Lane, Result, Sweep
from go_scheduler.stores.sql.rows import to_microseconds, to_sqlite_time
from go_scheduler.stores.sql.statement import HIGHEST, Statements, Written
from go_scheduler.stores.sqlite.steps import steps_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sqlalchemy import Connection

    from go_scheduler.stores.sql.database import Database
    from go_scheduler.stores.sql.rows import Columns
    from go_scheduler.stores.sql.statement import Batch, Statement, Terms, Write
    from go_scheduler.stores.sqlite.steps import Computed, Step

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
