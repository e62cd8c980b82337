"""Definitions of ids that were never stored before, each batch by one statement."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlalchemy.exc import IntegrityError

from go_scheduler.models import TaskInstance
from go_scheduler.models.changed import changed
from go_scheduler.stores.changes import created, is_over_at_once
from go_scheduler.stores.hints import SOON, SOON_AFTER_ALL
from go_scheduler.stores.postgresql import arrays
from go_scheduler.stores.postgresql.notices import may_notify
from go_scheduler.stores.slots import overlap_of, slot_of
from go_scheduler.stores.sql.database import Overtaken
from go_scheduler.stores.sql.putting import Newcomer
from go_scheduler.stores.sql.rows import write_contents
from go_scheduler.stores.sql.sweep import LATE_AFTER
from go_scheduler.stores.sql.types import to_microseconds

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.messages import Claimant, Firing
    from go_scheduler.stores.postgresql.executing import Statements
    from go_scheduler.stores.sql.rows import ContentsRow


_LARGEST = 2000


class Newcomers:
    """Inserts definitions of the PostgreSQL family without having to read first.

    Args:
        statements: Executes them.
        shards: Over how many parts of an index definitions are spread.
    """

    def __init__(self, statements: Statements, *, shards: int) -> None:
        self._statements = statements
        self._notices = statements.notices
        self._shards = shards

    def insert(
        self, connection: Connection, given: Sequence[TaskDefinition], *, late: bool
    ) -> list[Newcomer]:
        """Insert those whose ids neither are nor were stored, nor are remembered.

        Args:
            connection: Of ours; in a transaction if there are several.
            given: The definitions.
            late: Whether others may see them only much later.

        Returns:
            Those that were inserted.

        Raises:
            Overtaken: Somebody else has inserted one at the same moment.
        """
        new = [each for each in given if each.revision is None]
        # One order for all nodes, so that none waits for another in a circle.
        new.sort(key=attrgetter("id.int"))
        alone = len(given) == 1 and not late
        started = self._notices.elapsed()
        if alone:
            within = self._notices.within(started)
        else:
            # What has not committed has notified nobody yet.
            soon = SOON_AFTER_ALL if late else SOON
            within = soon if may_notify(connection) else None
        made: list[Newcomer] = []
        # So many by one statement that it is not noticed what each of them costs.
        for first in range(0, len(new), _LARGEST):
            batch = _Batch(new[first : first + _LARGEST])
            terms = {"is_late": late, "hint_within": within}
            row = self._insert(connection, "insert_new", batch, terms)
            if alone:
                self._notices.note(row, started)
            made += batch.made(row.now, row.ids)
        return made

    def start(
        self, connection: Connection, firing: Firing, claimant: Claimant
    ) -> tuple[Newcomer, TaskInstance] | None:
        """Insert one that fires at once, and start its instance.

        Args:
            connection: Of ours.
            firing: As for ``Store.put_and_start``.
            claimant: Who has the instance.

        Returns:
            It, as it is after it has fired; None: its id is not new.

        Raises:
            Overtaken: Somebody else has inserted it at the same moment.
        """
        [fire_time] = firing.fire_times
        instance_id = uuid4()
        start = {
            "is_late": False,
            "instance_id": instance_id,
            "instance_shard": instance_id.int % self._shards,
            "fire_time": fire_time,
            "node": claimant.node,
            "lease": claimant.lease,
            "expire_after": claimant.expire_after,
        }
        new = changed(firing.definition, next_fire_time=firing.next_fire_time)
        batch = _Batch([new])
        row = self._insert(connection, "insert_and_start", batch, start)
        if row is None:
            return None
        [newcomer] = batch.made(row.now)
        return newcomer, TaskInstance(
            id=instance_id,
            definition=newcomer.definition,
            fire_time=fire_time,
            execute_at=fire_time,
            due_at=fire_time,
            attempt=1,
            runs=1,
            claimed_by=claimant.node,
            started_at=row.started_at,
            expires_at=row.expires_at,
        )

    def _insert(
        self,
        connection: Connection,
        name: str,
        batch: _Batch,
        parameters: Mapping[str, object],
    ) -> Any:
        """Insert by the statement of this name; its answer, if it has one."""
        shards = (key.int % self._shards for key in batch.keys)
        parameters = {
            **parameters,
            **_columns(batch.new, batch.contents),
            "keys": arrays.ids(batch.keys),
            "shards": arrays.numbers(shards),
            "late": LATE_AFTER,
        }
        try:
            rows = self._statements.execute_plainly(connection, name, parameters)
        except IntegrityError as error:
            raise Overtaken from error
        return rows[0] if rows else None


class _Batch:
    """Definitions to be inserted, with the keys and the texts that they are to have."""

    def __init__(self, new: Sequence[TaskDefinition]) -> None:
        self.new = new
        self.keys = [uuid4() for _ in new]
        self.contents = [write_contents(each) for each in new]

    def made(
        self, now: datetime, ids: Collection[UUID] | None = None
    ) -> list[Newcomer]:
        """Those that were inserted at this time: these, or all."""
        which = None if ids is None else frozenset(ids)
        return [
            Newcomer(created(each, now, revision=1), key, of, now)
            for each, key, of in zip(self.new, self.keys, self.contents, strict=True)
            if which is None or each.id in which
        ]


def _columns(
    new: Sequence[TaskDefinition], contents: Sequence[ContentsRow]
) -> Mapping[str, object]:
    durations = (each.expire_after for each in new)
    return {
        "ids": arrays.ids(each.id for each in new),
        "queues": arrays.texts(each.queue for each in new),
        "priorities": arrays.numbers(each.priority for each in new),
        "expiries": arrays.numbers(
            None if each is None else to_microseconds(each) for each in durations
        ),
        "waits": arrays.truths(each.trigger.waits for each in new),
        "fire_times": arrays.times(each.next_fire_time for each in new),
        "over": arrays.truths(map(is_over_at_once, new)),
        "paused": arrays.truths(each.paused for each in new),
        "slots": arrays.texts(slot_of(each, fired=False) for each in new),
        "overlaps": arrays.words(overlap_of(each, fired=False) for each in new),
        "notes": arrays.texts(each.note for each in new),
        "named": arrays.truths(each.named for each in new),
        "names": arrays.texts(each.name for each in contents),
        "metadata": arrays.texts(each.metadata for each in contents),
        "kinds": arrays.texts(each.trigger_kind for each in contents),
        "states": arrays.texts(each.trigger_state for each in contents),
        "policies": arrays.texts(each.policies for each in contents),
    }
