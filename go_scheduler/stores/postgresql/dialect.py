"""PostgreSQL's own words: expressions, arrays, and notices to other processes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

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

from go_scheduler.clock import ZERO
from go_scheduler.stores.hints import SOON, SOON_AFTER_ALL, News, is_any_soon
from go_scheduler.stores.sql.rows import from_server_time, to_microseconds
from go_scheduler.stores.sql.tables import Dialect, contents

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from uuid import UUID

    from sqlalchemy import ColumnElement, Connection, Table
    from sqlalchemy.dialects.postgresql import Insert as PostgreSQLInsert

    from go_scheduler.clock import Clock
    from go_scheduler.json import JSON


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

    def ready(self, connection: Connection) -> None:
        """Do nothing: a server has what it takes."""

    def hint(
        self,
        connection: Connection,
        times: Iterable[datetime | None],
        now: datetime,
        *,
        late: bool = False,
    ) -> None:
        """By NOTIFY, which others hear when the transaction commits."""
        if (
            self.notifies
            and is_any_soon(times, now, late=late)
            and may_notify(connection)
        ):
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
    return cast(bindparam(None, _ids(several), type_=Text), ARRAY(Uuid))


def _ids(values: Iterable[UUID]) -> str:
    """Ids, to be cast to ``uuid[]``."""
    # Digits without hyphens, which a server reads as well, take half the time.
    return _array_of([each.hex for each in values])


def _numbers(values: Iterable[int | None]) -> str:
    """Whole numbers, to be cast to ``bigint[]``."""
    return _array_of(["NULL" if each is None else str(each) for each in values])


def _truths(values: Iterable[bool]) -> str:
    """Truth values, to be cast to ``boolean[]``."""
    return _array_of(["t" if each else "f" for each in values])


def _times(values: Iterable[datetime | None]) -> str:
    """Times, to be cast to ``timestamptz[]``."""
    return _array_of(["NULL" if each is None else _time(each) for each in values])


def _texts(values: Iterable[str | None]) -> str:
    """Texts, to be cast to ``text[]``."""
    return _array_of(["NULL" if each is None else _quoted(each) for each in values])


def _time(at: datetime) -> str:
    # UTC, for a server reads no offset of other than whole minutes.
    return _written(at if at.tzinfo is UTC else at.astimezone(UTC))


# Many times of a batch are the same; in UTC equal ones are written alike.
@lru_cache(maxsize=4096)
def _written(at: datetime) -> str:
    return at.isoformat()


def _array_of(items: Sequence[str]) -> str:
    return f"{{{','.join(items)}}}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _durations(values: Iterable[timedelta | None]) -> str:
    """Durations in microseconds, to be cast to ``bigint[]``."""
    return _numbers(None if each is None else to_microseconds(each) for each in values)


ARRAYS: Mapping[str, Callable[[Iterable[Any]], str]] = {
    "uuid": _ids,
    "bigint": _numbers,
    "duration": _durations,
    "boolean": _truths,
    "timestamptz": _times,
    "text": _texts,
}
"""What writes the values of a column of a batch, by its kind.

An array is written as a text, which every driver can send. psycopg would look for the
type of each value, which takes longer than the server needs for the whole statement.
"""
