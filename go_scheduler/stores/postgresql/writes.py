"""Writes over a batch of named rows, none of which waits for what is locked.

A batch that nobody has locked costs one statement. Only if that meets a lock, it is
found out which rows are free, and they are written without the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar
from uuid import UUID

from go_scheduler.errors import StoreError
from go_scheduler.stores.postgresql.driver import met_a_lock
from go_scheduler.stores.sql.database import Lane

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from sqlalchemy import Row

    from go_scheduler.stores.postgresql.executing import Statements

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
