"""How PostgreSQL and CockroachDB execute statements: as one, in their own words."""

from __future__ import annotations

import re
from collections import deque
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import (
    ARRAY,
    Text,
    TwoPhaseTransaction,
    Uuid,
    any_,
    bindparam,
    cast,
    func,
    select,
    text,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import Insert as PostgreSQLInsert
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.exc import IntegrityError

from go_scheduler.clock import ZERO, Clock, SystemClock
from go_scheduler.errors import StoreError
from go_scheduler.stores.hints import SOON, SOON_AFTER_ALL, News
from go_scheduler.stores.postgresql.driver import PLANS_FOR_ANY, met_a_lock
from go_scheduler.stores.sql.database import Database, Lane, Overtaken, Sweep
from go_scheduler.stores.sql.rows import Columns, from_server_time, to_microseconds
from go_scheduler.stores.sql.statement import HIGHEST, Statements, Written, with_batches
from go_scheduler.stores.sql.tables import Dialect, contents

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from uuid import UUID

    from sqlalchemy import ColumnElement, Connection, Table
    from sqlalchemy.sql.selectable import TextualSelect

    from go_scheduler.json import JSON
    from go_scheduler.stores.sql.statement import Batch, Statement, Terms, Write


# By the table and not by its schema: whoever writes has found it by a search path.
CHANNEL = "concat('go_scheduler ', CAST(CAST('task_definitions' AS regclass) AS oid))"
"""The channel, as SQL; it is one database's, and the table's own."""

# In few letters: they are sent to every node.
NEWS = {b"d": News.DEFINITIONS, b"i": News.INSTANCES}
"""What a notification is about, by what it says; of anything, if that is nothing."""

NOTIFY = f"SELECT pg_notify({CHANNEL}, '')"
"""Others hear of it when the transaction commits, and once."""

NOTIFY_EVERY = timedelta(milliseconds=5)


def may_notify(connection: Connection) -> bool:
    """Whether its transaction may: one that has notified cannot be prepared."""
    return not isinstance(connection.get_transaction(), TwoPhaseTransaction)


def notified(notifies: bool, made: str, at: str, news: str) -> str:
    """Whether others were notified of what was made, as SQL.

    Args:
        notifies: Whether they are at all.
        made: The table of what was made.
        at: Its column that says when that is due.
        news: What they are told, of ``NEWS``.
    """
    if not notifies:
        return "CAST(NULL AS boolean)"
    return f"""(SELECT pg_notify(
                 {CHANNEL},
                 '{news}') IS NOT NULL
          FROM {made} AS m
         WHERE m.{at} <= now() + CAST(:hint_within AS interval)
         LIMIT 1)"""


class Notices:
    """Sees to it that the writes of a process notify others now and then, not each.

    Commits that notify wait for each other. Who has been notified looks twice: what is
    written in silence must have committed by then. So the silence is counted from the
    start of the statement that notified, and where answers take as long there is none.

    Args:
        elapsed: Measures the time in between.
    """

    def __init__(self, elapsed: Callable[[], timedelta]) -> None:
        self.elapsed = elapsed
        self._next = ZERO

    def within(self, started: timedelta) -> timedelta | None:
        """How soon it must be due what others are notified of by a write.

        Args:
            started: The elapsed time at which it starts.

        Returns:
            None: they are notified of nothing.
        """
        return SOON if started >= self._next else None

    def note(self, row: Any, started: timedelta) -> None:
        """Take note of whether a write has notified others, as its answer says."""
        if row.hinted:
            self._next = started + NOTIFY_EVERY


class PostgreSQLDialect(Dialect):
    """PostgreSQL's words.

    Attributes:
        notifies: Whether writes notify other processes.

    Args:
        clock: Used instead of the database's time.
        notifies: As the attribute.
    """

    name = "postgresql"

    def __init__(self, clock: Clock | None, *, notifies: bool = True) -> None:
        self._clock = clock
        self.notifies = notifies

    def now(self, connection: Connection) -> datetime:
        """The clock's time, or the database's."""
        if self._clock is not None:
            return self._clock.now()
        answer = connection.exec_driver_sql("SELECT now()").scalar_one()
        now = from_server_time(answer)
        assert isinstance(now, datetime)
        return now

    def among(
        self, column: ColumnElement[Any], ids: Collection[UUID]
    ) -> ColumnElement[bool]:
        """One array."""
        return column == any_(array(ids))

    def contains(self, metadata: Mapping[str, JSON]) -> ColumnElement[bool]:
        """By the index on the metadata."""
        return contents.c.metadata_search.contains(metadata)

    def ordered(self, connection: Connection, texts: Collection[str]) -> Sequence[str]:
        """By the database's collation."""
        each = func.unnest(bindparam(None, list(texts), type_=ARRAY(Text)))
        return (
            connection.execute(select(each.label("text")).order_by("text"))
            .scalars()
            .all()
        )

    def notify(self, connection: Connection) -> None:
        """By NOTIFY, which others hear when the transaction commits."""
        if self.notifies and may_notify(connection):
            connection.execute(text(NOTIFY))

    def hint_within(self, connection: Connection, *, late: bool) -> timedelta | None:
        """By NOTIFY: of what has not committed nobody has been notified yet."""
        soon = SOON_AFTER_ALL if late else SOON
        return soon if may_notify(connection) else None

    @staticmethod
    def by_index(index: str) -> str:
        """The hint behind a table's name: rows are looked up by this index only."""
        return ""

    def insert(self, table: Table) -> PostgreSQLInsert:
        """Insert rows; what conflicts may be left out."""
        return postgresql.insert(table)


def array(several: Collection[UUID]) -> ColumnElement[Any]:
    """Ids as one parameter, which the driver need not write one by one."""
    return cast(bindparam(None, ARRAYS["uuid"](several), type_=Text), ARRAY(Uuid))


def _array_of(write: Callable[[Any], str]) -> Callable[[Iterable[Any]], str]:
    def written(values: Iterable[Any]) -> str:
        items = ["NULL" if each is None else write(each) for each in values]
        return f"{{{','.join(items)}}}"

    return written


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# Many times of a batch are the same; in UTC equal ones are written alike.
@lru_cache(maxsize=4096)
def _written(at: datetime) -> str:
    return at.isoformat()


ARRAYS: Mapping[str, Callable[[Iterable[Any]], str]] = {
    # Digits without hyphens, which a server reads as well, take half the time.
    "uuid": _array_of(lambda each: each.hex),
    "bigint": _array_of(str),
    "duration": _array_of(lambda each: str(to_microseconds(each))),
    "boolean": _array_of(lambda each: "t" if each else "f"),
    # UTC, for a server reads no offset of other than whole minutes.
    "timestamptz": _array_of(
        lambda each: _written(each if each.tzinfo is UTC else each.astimezone(UTC))
    ),
    "text": _array_of(_quoted),
}
"""What writes the values of a column of a batch, by its kind.

An array is written as a text, which every driver can send. psycopg would look for the
type of each value, which takes longer than the server needs for the whole statement.
"""


# CockroachDB's gives values as this one does.
_DRIVER = psycopg.dialect()  # type: ignore[no-untyped-call] # it has no types
_PARAMETER = re.compile(r":(\w+)")
# That of a batch, in a table of which it is a column.
_ARRAY = re.compile(r"(?:(?<=\(SELECT )|(?<=ANY\())CAST\(:(\w+_\w+) AS(?= \w+\[\])")
_INDEX = re.compile(r"@(\w+)")
_WORDS = [
    (
        re.compile(r"\bis_sound\((\w+)\)"),
        rf"""\1.attempt < {HIGHEST} AND \1.runs < {HIGHEST}
     AND \1.due_at < now() + interval '36525 days'""",
    ),
    (re.compile(r"\s+AND on_sqlite\(((?:[^()]|\([^()]*\))*)\)"), ""),
    (re.compile(r"\bas_jsonb\(([\w.]+)\)"), r"CAST(\1 AS jsonb)"),
    (re.compile(r"\bown\(([\w.]+), (\w+)\)"), r"(CAST(\1 AS json) ->> '\2')"),
    (
        re.compile(r"\bids_unless_all\((\w+)\.id, (:\w+)\)"),
        r"""CASE WHEN (SELECT count(*) FROM \1) < CAST(\2 AS bigint)
       THEN ARRAY(SELECT id FROM \1) END""",
    ),
]
_NOTIFIED = re.compile(r"notified\((\w+), (\w+), (\w)\)")
# A join could read the whole index, if no statistics say how large that is.
_AMONG_KEYS = "IN (SELECT k.key FROM batch AS k (key uuid))"
_OF_DEFINITION = "ON d.key = t.definition_key"
# A wait takes as long as a loop waits for a lock. So many find one row among thousands.
_MOST_WAITS = 15


class _Made(NamedTuple):
    """A statement as our driver takes it, and what comes back.

    Attributes:
        sql: What our driver takes.
        text: The same for a connection of the user's, whatever its driver is.
        columns: How the rows are read that our driver returns.
        notifies: Whether other processes are notified.
    """

    sql: str
    text: TextualSelect
    columns: Columns
    notifies: bool


class ServerStatements(Statements):
    """Executes statements on a server.

    Args:
        database: Where they are executed.
        dialect: The engine's own words.
        clock: Used instead of the database's time, for tests.
    """

    _dialect: PostgreSQLDialect

    def __init__(
        self, database: Database, dialect: PostgreSQLDialect, *, clock: Clock | None
    ) -> None:
        super().__init__(database, dialect)
        self._clock = clock
        measured_by = clock or SystemClock()
        # Only the store checks what was passed as its clock.
        self._elapsed = lambda: measured_by.elapsed()
        self._sweeps: dict[object, Sweep] = {}
        self._notices = Notices(self._elapsed)

    def sweep(self, scan: object) -> Sweep:
        """How far the scan of this name has come."""
        sweep = self._sweeps.get(scan)
        if sweep is None:
            sweep = self._sweeps[scan] = Sweep(self._elapsed)
        return sweep

    def met_a_lock(self, error: BaseException) -> bool:
        """Whether an error says that somebody else has locked a row."""
        return met_a_lock(error)

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
        """Write a batch, past what is locked."""
        terms = {**(terms or {}), **_arrays(write.statement, beside or {})}
        # One order for all nodes, so that none waits for another in a circle.
        batch = sorted(batch, key=lambda row: row[0].int)

        def execute(rows: Batch, *, apart: bool = False) -> Sequence[Any]:
            return self.run(
                lane,
                write.statement,
                terms,
                {"x": rows},
                repeatable=repeatable,
                apart=apart,
            )

        with _leaving_what_is_locked():
            return Written(execute(batch))
        with _leaving_what_is_locked():
            given = {**terms, **_arrays(write.statement, {"x": batch})}
            # This read comes first: on CockroachDB it also settles rows that SKIP
            # LOCKED would skip.
            rows = self.read(lane, write.current, given)
            current: set[UUID] = {row.id for row in rows}
            rows = self.run(lane, write.free, given)
            free = current & {row.id for row in rows}
            written = _in_parts(
                partial(execute, apart=write.apart),
                [row for row in batch if row[0] in free],
            )
            return Written(written.rows, (current - free) | written.busy)
        # A whole table is locked.
        return Written([], {row[0] for row in batch})

    def execute(
        self,
        connection: Connection,
        statement: Statement,
        terms: Terms,
        batches: Mapping[str, Batch] | None = None,
        *,
        apart: bool = False,
    ) -> Sequence[Any]:
        """Execute a statement on a connection, and fetch what it returns."""
        batches = batches or {}
        parameters = {**terms, **_arrays(statement, batches)}
        if self._clock is not None:
            parameters["now"] = self._clock.now()
        made = _made(
            statement,
            type(self._dialect),
            notifies=self._dialect.notifies,
            clocked=self._clock is not None,
            apart=apart,
            counts=connection.get_execution_options().get(PLANS_FOR_ANY, False),
        )
        if self._dialect.joined:
            soon = self._dialect.hint_within(connection, late=True)
            with _races_of(statement):
                return connection.execute(
                    made.text, {**parameters, "hint_within": soon}
                ).all()
        started = self._notices.elapsed()
        by_itself = made.notifies and "hint_within" not in terms
        if by_itself:
            parameters["hint_within"] = self._notices.within(started)
        sql = made.sql
        if (limit := parameters.get("limit")) is not None:
            # It is written out: CockroachDB pushes no unknown one down to a scan.
            sql = sql.replace("%(limit)s", str(int(limit)))
        with _races_of(statement):
            found = self._database.execute(connection, sql, parameters)
        rows = made.columns.read(found)
        if by_itself:
            for row in rows:
                self._notices.note(row, started)
        return rows


@contextmanager
def _races_of(statement: Statement) -> Iterator[None]:
    try:
        yield
    except IntegrityError as error:
        if statement.races:
            raise Overtaken from error
        raise


def _arrays(statement: Statement, batches: Mapping[str, Batch]) -> dict[str, object]:
    """The parameters that are batches: one array for each column."""
    found: dict[str, object] = {}
    for table, declared in statement.batches.items():
        if table in batches:
            columns = list(zip(*batches[table], strict=True)) or [()] * len(declared)
            for (name, kind), values in zip(declared, columns, strict=True):
                found[f"{table}_{name}"] = ARRAYS[kind](values)
    return found


@lru_cache(maxsize=500)
def _made(
    statement: Statement,
    dialect: type[PostgreSQLDialect],
    *,
    notifies: bool,
    clocked: bool = False,
    apart: bool = False,
    counts: bool = False,
) -> _Made:
    """Make it once, however many stores are opened.

    Args:
        statement: What is made.
        dialect: The engine's own words.
        notifies: Whether it may notify others.
        clocked: Whether a clock is used instead of the database's time.
        apart: Whether the definitions of ``t`` are left out.
        counts: Whether the planner may see how many rows a batch has.
    """
    sql = statement.sql
    if dialect.name == "postgresql":
        sql = sql.replace(_AMONG_KEYS, "= ANY(CAST(:k_key AS uuid[]))")
    sql = with_batches(sql, partial(_unnested, counts=counts))
    for pattern, word in _WORDS:
        sql = pattern.sub(word, sql)
    sql = _INDEX.sub(lambda found: dialect.by_index(found[1]), sql).strip()
    sql = _NOTIFIED.sub(lambda found: notified(notifies, *found.groups()), sql)
    if clocked:
        sql = sql.replace("now()", "CAST(:now AS timestamptz)")
    if apart:
        sql = sql.replace(_OF_DEFINITION, f"{_OF_DEFINITION} AND false")
    # A driver that asks the server for types of parameters would want a list.
    plain = _ARRAY.sub(r"CAST(CAST(:\1 AS text) AS", sql)
    return _Made(
        sql=_PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%")),
        text=text(plain).columns(*statement.typed()),
        columns=statement.columns(_DRIVER),
        notifies="hint_within" in sql,
    )


def sql_of(statement: Statement, dialect: PostgreSQLDialect) -> str:
    """The text that a kind of server is sent, with the driver's parameters."""
    return _made(statement, type(dialect), notifies=dialect.notifies).sql


# The number of rows is hidden from PostgreSQL by subqueries: for many it would read a
# whole index, if no statistics say how large that is. Whoever makes plans for any
# values does not see it anyway, and is spared some microseconds for each of them.
def _unnested(table: str, declared: Sequence[tuple[str, str]], *, counts: bool) -> str:
    columns = [
        f"CAST(:{table}_{name} AS {'bigint' if kind == 'duration' else kind}[])"
        for name, kind in declared
    ]
    if not counts:
        columns = [f"(SELECT {each})" for each in columns]
    names = ", ".join(name for name, _ in declared)
    return f"unnest({', '.join(columns)})\n         AS {table} ({names})"


def _in_parts(execute: Callable[[Batch], Sequence[Any]], batch: Batch) -> Written:
    """Write all or its halves, for what they write beside their rows may be locked.

    After some that met a lock it is given up.
    """
    rows: list[Any] = []
    busy: set[UUID] = set()
    parts = deque([batch] if batch else [])
    waits = 0
    while parts:
        part = parts.popleft()
        if waits < _MOST_WAITS:
            with _leaving_what_is_locked():
                rows += execute(part)
                continue
            waits += 1
        if waits < _MOST_WAITS and len(part) > 1:
            middle = len(part) // 2
            parts += [part[:middle], part[middle:]]
        else:
            busy.update(row[0] for row in part)
    return Written(rows, busy)


@contextmanager
def _leaving_what_is_locked() -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        if not met_a_lock(error):
            raise
