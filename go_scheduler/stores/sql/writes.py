"""Writes over a batch of named rows, none of which waits for what is locked.

What nobody has locked costs one statement. Only if that meets a lock, it is found out
which rows are free, and they are written without the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar
from uuid import UUID

from sqlalchemy.sql.selectable import TextualSelect

from go_scheduler.errors import StoreError
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.driver import met_a_lock

if TYPE_CHECKING:
    from typing import Any

    from sqlalchemy import Connection, Row

    from go_scheduler.stores.sql.statements import Statements

Item = TypeVar("Item")

# Each takes as long as a loop waits for a lock; nobody is to wait for hundreds of them.
_MOST_WAITS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Write(Generic[Item]):
    """A statement over a batch. All three take the same parameters.

    Attributes:
        lane: Where it is executed.
        statement: Changes all that is current, and returns it.
        free: Locks the rows that nobody else has locked, and returns their ids.
        current: Returns the ids of those that the statement would change.
        parameters: What they are executed with for some of the batch.
        id_of: The id of one of the batch.
        repeatable: As for ``Database.run``.
    """

    lane: Lane
    statement: TextualSelect
    free: TextualSelect
    current: TextualSelect
    parameters: Callable[[Sequence[Item]], Mapping[str, object]]
    id_of: Callable[[Item], UUID]
    repeatable: bool = True


class Written(NamedTuple):
    """What a write returned, and the ids of what was locked and is unchanged."""

    rows: Sequence[Row[Any]]
    busy: Set[UUID] = frozenset()


class Writes:
    """Executes writes, past what is locked.

    Args:
        statements: Executes them.
        skips_settling: Whether SKIP LOCKED skips also what was committed a moment ago.
    """

    def __init__(self, statements: Statements, *, skips_settling: bool) -> None:
        self._statements = statements
        self._skips_settling = skips_settling

    def write(self, write: Write[Item], batch: Sequence[Item]) -> Written:
        """Write a batch, but for the rows that somebody else has locked."""
        try:
            return Written(self._execute(write, batch))
        except StoreError as error:
            if not met_a_lock(error):
                raise
        if self._skips_settling:
            return self._write_in_parts(write, batch)
        return self._write_free(write, batch)

    def _execute(self, write: Write[Item], batch: Sequence[Item]) -> Sequence[Row[Any]]:
        return self._statements.run(
            write.lane,
            write.statement,
            write.parameters(batch),
            repeatable=write.repeatable,
        )

    def _write_free(self, write: Write[Item], batch: Sequence[Item]) -> Written:
        """Lock what is free, write that, and see what the others are."""

        def work(connection: Connection) -> Written:
            free = self._ids(connection, write, write.free, batch)
            mine = [each for each in batch if write.id_of(each) in free]
            rest = [each for each in batch if write.id_of(each) not in free]
            rows = self._statements.execute(
                connection, write.statement, write.parameters(mine)
            )
            return Written(rows, self._ids(connection, write, write.current, rest))

        try:
            return self._statements.transact(
                write.lane, work, repeatable=write.repeatable
            )
        except StoreError as error:
            if not met_a_lock(error):
                raise
        # A whole table is locked, or what some of them would write beside their rows.
        return self._write_parts(write, [batch])

    def _ids(
        self,
        connection: Connection,
        write: Write[Item],
        statement: TextualSelect,
        batch: Sequence[Item],
    ) -> Set[UUID]:
        parameters = write.parameters(batch)
        rows = self._statements.execute(connection, statement, parameters)
        return {row.id for row in rows}

    def _write_in_parts(self, write: Write[Item], batch: Sequence[Item]) -> Written:
        """Write what is surely free, and of the others each that turns out to be."""
        found = self._statements.run(write.lane, write.free, write.parameters(batch))
        free = {row.id for row in found}
        mine = [each for each in batch if write.id_of(each) in free]
        rest = [each for each in batch if write.id_of(each) not in free]
        return self._write_parts(write, [mine, rest])

    def _write_parts(
        self, write: Write[Item], parts: Iterable[Sequence[Item]]
    ) -> Written:
        """Write each part, or its halves, but give up after some that met a lock."""
        rows: list[Row[Any]] = []
        busy: set[UUID] = set()
        left = deque(parts)
        waits = 0
        while left:
            part = left.popleft()
            if waits < _MOST_WAITS:
                try:
                    rows += self._execute(write, part)
                except StoreError as error:
                    if not met_a_lock(error):
                        raise
                    waits += 1
                else:
                    continue
            if waits < _MOST_WAITS and len(part) > 1:
                middle = len(part) // 2
                left += [part[:middle], part[middle:]]
            else:
                busy.update(map(write.id_of, part))
        return Written(rows, busy)
