"""Definitions of the PostgreSQL family that are due: how they are read and fired."""

from __future__ import annotations

from datetime import timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

from go_scheduler.clock import ZERO
from go_scheduler.models import TaskInstance
from go_scheduler.stores.messages import Fired
from go_scheduler.stores.postgresql import dialect
from go_scheduler.stores.postgresql.executing import Write
from go_scheduler.stores.rules import fired
from go_scheduler.stores.sql.database import LATE_AFTER, Lane
from go_scheduler.stores.sql.rows import DefinitionRow, read_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.messages import Claimant, Firing
    from go_scheduler.stores.postgresql.executing import Statements, Writes
    from go_scheduler.stores.sql.reader import Reader

# A definition that is due and not fired for longer than this is left to deeper looks:
# every look would walk over all that has been fired since.
_STILL_DUE = timedelta(minutes=5)


class DueDefinitions:
    """Reads what is due, and fires it.

    Args:
        statements: Executes what reads.
        writes: Executes what fires.
        reader: Makes definitions of rows.
        shards: Over how many parts of an index instances are spread.
    """

    def __init__(
        self, statements: Statements, writes: Writes, reader: Reader, *, shards: int
    ) -> None:
        self._statements = statements
        self._writes = writes
        self._reader = reader
        self._shards = shards

    def page(
        self, ahead: timedelta, after: TaskDefinition | None, limit: int
    ) -> Sequence[TaskDefinition]:
        """Read a page, as ``Store.due_definitions``."""
        sweep = self._statements.sweep("due")
        parameters: dict[str, object] = {
            "ahead": ahead,
            # A fire time may have been so much late without being marked as late.
            "back": sweep.back + LATE_AFTER,
            "limit": limit,
        }
        name = "due"
        if after is not None:
            name = "due_after"
            parameters["after_time"] = after.next_fire_time
            parameters["after_id"] = after.id
        rows = self._statements.scan(
            sweep,
            lambda: self._statements.read(Lane.BY_TIME, name, parameters),
            # Definitions that were read are still due: only an empty page is the end.
            limit=1,
        )
        times = filter(None, (read_time(row.next_fire_time) for row in rows))
        if (earliest := min(times, default=None)) is not None:
            sweep.go_on(min(rows[0].now - earliest, _STILL_DUE))
        return self._reader.definitions(
            Lane.BY_TIME, [DefinitionRow(*row[:-1]) for row in rows]
        )

    def fire(self, firings: Sequence[Firing], claimant: Claimant | None) -> Fired:
        """Fire, as ``Store.fire_definitions``."""
        if not firings:
            return Fired(done=frozenset())
        start: Mapping[str, object] = {}
        if claimant is not None:
            name = "fire_and_start"
            start = {
                "node": claimant.node,
                "lease": claimant.lease,
                "expire_after": claimant.expire_after,
            }
        elif any(each.definition.trigger.waits for each in firings):
            name = "fire_waiting"
        else:
            name = "fire"
        write: Write[Firing] = Write(
            lane=Lane.BY_TIME,
            name=name,
            apart=name,
            free="fire_free",
            current="fire_current",
            parameters=lambda some: {**start, **self._parameters(some)},
            id_of=attrgetter("definition.id"),
            # A fire that was done, and is repeated, answers that another node won.
            repeatable=False,
        )
        # One order for all nodes, so that none waits for another in a circle.
        ordered = sorted(firings, key=lambda each: each.definition.id.int)
        rows, busy = self._writes.write(write, ordered)
        done = {row.id for row in rows}
        if claimant is None:
            return Fired(done=done, busy=busy)
        by_id = {each.definition.id: each for each in firings}
        started = [
            _started(by_id[row.id], row, claimant.node)
            for row in rows
            if row.made_id is not None
        ]
        return Fired(done=done, busy=busy, started=started)

    def _parameters(self, firings: Sequence[Firing]) -> Mapping[str, object]:
        made = [each for firing in firings for each in _made_by(firing)]
        ids = [uuid4() for _ in made]
        return {
            "late": LATE_AFTER,
            "ids": dialect.ids(each.definition.id for each in firings),
            "expected": dialect.times(
                each.definition.next_fire_time for each in firings
            ),
            "revisions": dialect.numbers(each.definition.revision for each in firings),
            "next_times": dialect.times(each.next_fire_time for each in firings),
            "instance_ids": dialect.ids(ids),
            "shards": dialect.numbers(id.int % self._shards for id in ids),
            "definition_ids": dialect.ids(each.definition_id for each in made),
            "fire_times": dialect.times(each.fire_time for each in made),
            "later": dialect.durations(each.later for each in made),
            "lasts": dialect.times(each.last for each in made),
            "counts": dialect.numbers(each.skipped for each in made),
            "reasons": dialect.texts(each.reason for each in made),
        }


class _Made(NamedTuple):
    """An instance that a firing makes."""

    definition_id: UUID
    fire_time: datetime
    later: timedelta = ZERO
    last: datetime | None = None
    skipped: int | None = None
    reason: str | None = None


def _started(firing: Firing, row: Any, node: UUID) -> TaskInstance:
    """The instance of a firing, as it was started."""
    [(fire_time, execute_at)] = firing.instances()
    return TaskInstance(
        id=row.made_id,
        definition=fired(firing.definition, firing.next_fire_time, row.now),
        fire_time=fire_time,
        execute_at=execute_at,
        due_at=execute_at,
        attempt=1,
        runs=1,
        claimed_by=node,
        started_at=row.started_at,
        expires_at=row.expires_at,
        created_at=row.now,
    )


def _made_by(firing: Firing) -> Iterator[_Made]:
    id, skipped = firing.definition.id, firing.skipped
    if skipped is not None:
        yield _Made(
            id, skipped.first, ZERO, skipped.last, skipped.count, skipped.reason
        )
    for fire_time, execute_at in firing.instances():
        yield _Made(id, fire_time, execute_at - fire_time)
