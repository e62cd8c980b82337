"""How the statements of the PostgreSQL family are made and executed.

A batch that nobody has locked costs one statement. Only if that meets a lock, it is
found out which rows are free, and they are written without the others.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from sqlalchemy import Integer, bindparam, column, text
from sqlalchemy.dialects.postgresql import psycopg

from go_scheduler.checks import LONGEST
from go_scheduler.clock import SystemClock
from go_scheduler.errors import StoreError
from go_scheduler.stores.base import CONTACTS_KEPT, STATS_KEPT
from go_scheduler.stores.postgresql.dialect import Notices
from go_scheduler.stores.postgresql.driver import met_a_lock
from go_scheduler.stores.postgresql.statements import (
    OF_CONTENTS,
    OF_DEFINITION,
    heads,
    in_words_of,
    statements_by_name,
)
from go_scheduler.stores.sql.database import Lane, Sweep
from go_scheduler.stores.sql.rows import Columns, read_contacts, write_announcement
from go_scheduler.stores.sql.tables import contents, definitions, instances, nodes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from sqlalchemy import Connection, Row, TextClause

    from go_scheduler.clock import Clock
    from go_scheduler.stores.messages import Announcement, NodeContact, Retention
    from go_scheduler.stores.postgresql.dialect import PostgreSQLDialect
    from go_scheduler.stores.postgresql.statements import Statement
    from go_scheduler.stores.sql.database import Database


def understands(connection: Connection) -> bool:
    """Whether ``execute_plainly`` does on a connection, which may be the user's."""
    return connection.dialect.driver == "psycopg"


class Statements:
    """Executes statements by their names, and knows how far the scans have come.

    Args:
        database: Where they are executed.
        dialect: The engine's own words.
        clock: Used instead of the database's time, for tests.

    Attributes:
        notices: Which of them notify other processes.
    """

    def __init__(
        self,
        database: Database,
        dialect: PostgreSQLDialect,
        *,
        clock: Clock | None,
    ) -> None:
        self._database = database
        self._dialect = dialect
        self._clock = clock
        self._elapsed = (clock or SystemClock()).elapsed
        by_name = statements_by_name(dialect)
        self._made = {name: _made(each, clock) for name, each in by_name.items()}
        self._plain = {name: _plain(by_name[name], clock) for name in _PLAIN}
        self._sweeps: dict[object, Sweep] = {}
        self.notices = Notices(self._elapsed)

    def heads(self, queues: int, known: Sequence[int], *, looks: bool) -> str:
        """The name of the statement that looks where to claim in so many queues.

        Args:
            queues: So many.
            known: The classes of priority.
            looks: Whether it looks for other classes, too.
        """
        name = f"heads of {queues} by {known}{' and others' * looks}"
        if name not in self._made:
            statement = heads(queues, self._dialect.shards, known, looks=looks)
            worded = in_words_of(self._dialect, statement)
            self._made[name] = _made(worded, self._clock)
        return name

    def run(
        self,
        lane: Lane,
        name: str,
        parameters: Mapping[str, object],
        *,
        repeatable: bool = True,
    ) -> Sequence[Row[Any]]:
        """Execute a statement and fetch what it returns, as ``Database.run``."""
        return self._database.run(
            lane,
            lambda connection: self.execute(connection, name, parameters),
            repeatable=repeatable,
        )

    def read(
        self, lane: Lane, name: str, parameters: Mapping[str, object]
    ) -> Sequence[Row[Any]]:
        """Execute a statement that only reads, and wait for nobody's lock."""
        return self._database.run(
            lane,
            lambda connection: self._dialect.past_locks(
                connection, lambda each: self.execute(each, name, parameters)
            ),
        )

    def execute(
        self, connection: Connection, name: str, parameters: Mapping[str, object]
    ) -> Sequence[Row[Any]]:
        """Execute a statement on a connection and fetch what it returns."""
        if self._clock is not None:
            parameters = {**parameters, "now": self._clock.now()}
        made = self._made[name]
        return made.columns.read(connection.execute(made.text, parameters).all())

    def execute_plainly(
        self, connection: Connection, name: str, parameters: Mapping[str, object]
    ) -> Sequence[Any]:
        """Execute one of few statements by the driver's own means, in half the time.

        Returns:
            As ``execute``.
        """
        if self._clock is not None:
            parameters = {**parameters, "now": self._clock.now()}
        found = connection.exec_driver_sql(self._plain[name], parameters).all()
        return self._made[name].columns.read(found)

    def sweep(self, scan: object) -> Sweep:
        """How far the scan of this name has come."""
        sweep = self._sweeps.get(scan)
        if sweep is None:
            sweep = self._sweeps[scan] = Sweep(self._elapsed)
        return sweep

    def scan(
        self, sweep: Sweep, look: Callable[[], Sequence[Row[Any]]], *, limit: int
    ) -> Sequence[Row[Any]]:
        """Go on with a sweep.

        Args:
            sweep: Finished if fewer rows than ``limit`` come back; begun anew if it
                fails, but for a lock.
            look: Executes the statement.
            limit: How many rows it returns at most.
        """
        try:
            rows = look()
        except BaseException as error:
            if not met_a_lock(error):
                sweep.start_over()
            raise
        if len(rows) < limit:
            sweep.finish()
        return rows


class _Made(NamedTuple):
    """A statement as SQLAlchemy takes it, and what comes back."""

    text: TextClause
    columns: Columns


# CockroachDB's gives values as this one does.
_DIALECT = psycopg.dialect()  # type: ignore[no-untyped-call] # it has no types
_PARAMETER = re.compile(r":(\w+)")
_TYPES = {
    **{each.name: each.type for each in (*definitions.c, *instances.c, *nodes.c)},
    **{OF_DEFINITION + each.name: each.type for each in definitions.c},
    **{OF_CONTENTS + each.name: each.type for each in contents.c},
    "made_id": instances.c.id.type,
    "place": instances.c.due_at.type,
    "now": instances.c.due_at.type,
    **dict.fromkeys(("began", "taken_at", "due_by"), instances.c.due_at.type),
}


_PLAIN = ("insert_new", "insert_and_start", "add", "add_and_start")


def _made(statement: Statement, clock: Clock | None) -> _Made:
    return _make(_by(clock, statement.sql), statement.returns)


@lru_cache(maxsize=500)
def _make(sql: str, returns: tuple[str, ...]) -> _Made:
    """Make it once, however many stores are opened; none of it is a connection's."""
    made = text(sql)
    if ":limit" in sql:
        # A limit is written out: CockroachDB pushes no unknown one down to a scan.
        limit = bindparam("limit", type_=Integer(), literal_execute=True)
        made = made.bindparams(limit)
    columns = (column(name, _TYPES.get(name)) for name in returns)
    return _Made(made, Columns(columns, _DIALECT))


def _plain(statement: Statement, clock: Clock | None) -> str:
    """A statement as the driver takes it."""
    return _PARAMETER.sub(r"%(\1)s", _by(clock, statement.sql))


def _by(clock: Clock | None, sql: str) -> str:
    """A statement that goes by a clock's time, if there is one."""
    return sql if clock is None else sql.replace("now()", "CAST(:now AS timestamptz)")


Item = TypeVar("Item")

# A wait takes as long as a loop waits for a lock. So many find one row among thousands.
_MOST_WAITS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Write(Generic[Item]):
    """A statement over a batch, by name. All four take the same parameters.

    Attributes:
        lane: Where it is executed.
        name: Changes all rows that are current, and returns them.
        apart: The same, but it reads only the rows that it changes.
        free: Locks the rows that nobody else has locked, and returns their ids.
        current: Returns the ids of those that the statement would change.
        parameters: What they are executed with for some of the batch.
        id_of: The id of one of the batch.
        repeatable: As for ``Database.run``.
    """

    lane: Lane
    name: str
    apart: str
    free: str
    current: str
    parameters: Callable[[Sequence[Item]], Mapping[str, object]]
    id_of: Callable[[Item], UUID]
    repeatable: bool = True


class Written(NamedTuple):
    """The rows that a write returned, and the ids of those that were locked."""

    rows: Sequence[Row[Any]]
    busy: Set[UUID] = frozenset()


class Writes:
    """Executes writes, past what is locked.

    Args:
        statements: Executes them.
    """

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def write(self, write: Write[Item], batch: Sequence[Item]) -> Written:
        """Write a batch, but for the rows that somebody else has locked."""
        with _leaving_what_is_locked():
            return Written(self._execute(write, write.name, batch))
        with _leaving_what_is_locked():
            return self._write_free(write, batch)
        # A whole table is locked.
        return Written([], {write.id_of(each) for each in batch})

    def _execute(
        self, write: Write[Item], name: str, batch: Sequence[Item]
    ) -> Sequence[Row[Any]]:
        return self._statements.run(
            write.lane,
            name,
            write.parameters(batch),
            repeatable=write.repeatable,
        )

    def _write_free(self, write: Write[Item], batch: Sequence[Item]) -> Written:
        """See what is current, and write what is free of it."""
        parameters = write.parameters(batch)
        # This read comes first: on CockroachDB it also settles rows that SKIP LOCKED
        # would skip.
        rows = self._statements.read(write.lane, write.current, parameters)
        current = {row.id for row in rows}
        rows = self._statements.run(write.lane, write.free, parameters)
        free = current & {row.id for row in rows}
        written = self._write_parts(
            write, [each for each in batch if write.id_of(each) in free]
        )
        return Written(written.rows, (current - free) | written.busy)

    def _write_parts(self, write: Write[Item], batch: Sequence[Item]) -> Written:
        """Write all or its halves, for what they write beside their rows may be locked.

        After some that met a lock it is given up.
        """
        rows: list[Row[Any]] = []
        busy: set[UUID] = set()
        parts = deque([batch] if batch else [])
        waits = 0
        while parts:
            part = parts.popleft()
            if waits < _MOST_WAITS:
                with _leaving_what_is_locked():
                    rows += self._execute(write, write.apart, part)
                    continue
                waits += 1
            if waits < _MOST_WAITS and len(part) > 1:
                middle = len(part) // 2
                parts += [part[:middle], part[middle:]]
            else:
                busy.update(map(write.id_of, part))
        return Written(rows, busy)


@contextmanager
def _leaving_what_is_locked() -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        if not met_a_lock(error):
            raise


class Contacts:
    """Notes and reads when nodes were in contact with the store.

    Args:
        statements: Executes what does so.
    """

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def note(self, announced: Announcement, unbroken: timedelta) -> None:
        """Note one, as ``Store.note_contact``."""
        parameters = {
            "node": announced.node,
            "unbroken": unbroken,
            **write_announcement(announced),
        }
        self._statements.run(Lane.RENEWALS, "note_contact", parameters)

    def within(self, span: timedelta) -> Sequence[NodeContact]:
        """Read those of that time, as ``Store.list_contacts``."""
        return read_contacts(
            self._statements.run(Lane.BY_TIME, "list_contacts", {"within": span})
        )


_KEPT = {"kept": CONTACTS_KEPT, "stats_kept": STATS_KEPT}


class Deletions:
    """Deletes instances that ended long ago, then completed definitions without any.

    Args:
        statements: Executes them.
    """

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def delete(
        self,
        retention: Retention,
        limit: int,
        *,
        forget: Callable[[int], None],
    ) -> int:
        """Delete, as ``Store.delete_finished``.

        Args:
            retention: For how long they are kept.
            limit: Most rows to delete.
            forget: Forgets ids, if all instances are gone that are to go; called with
                how many definitions went, whose ids may be remembered now.
        """
        older_than = min(retention.ended, LONGEST)
        failed = min(retention.failed, LONGEST)
        left = limit - self._instances("delete_ended", older_than, limit)
        if left:
            left -= self._instances("delete_failed", failed, left)
        if left:
            completed = self._definitions("delete_completed", older_than, left)
            left -= completed
            # Rows that a delete has left behind for their history count for nobody.
            self._definitions("delete_deleted", older_than, limit)
            self._statements.run(Lane.BY_TIME, "delete_contacts", _KEPT)
            forget(completed)
        return limit - left

    def _instances(self, name: str, older_than: timedelta, limit: int) -> int:
        sweep = self._statements.sweep((name, older_than))
        parameters = {
            "older_than": older_than,
            "back": sweep.back + older_than,
            "limit": limit,
        }
        rows = self._statements.scan(
            sweep,
            lambda: self._statements.run(Lane.BY_TIME, name, parameters),
            limit=limit,
        )
        if len(rows) == limit:
            last = max(row.completed_at for row in rows)
            sweep.go_on(rows[0].now - last - older_than)
        return len(rows)

    def _definitions(self, name: str, older_than: timedelta, limit: int) -> int:
        parameters = {"older_than": older_than, "limit": limit}
        return len(self._statements.run(Lane.BY_TIME, name, parameters))
