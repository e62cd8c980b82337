"""Definitions of ids that were never stored before, each batch by one statement."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from contextvars import copy_context
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlalchemy.exc import IntegrityError

from go_scheduler.models import TaskInstance
from go_scheduler.models.values import changed
from go_scheduler.stores.hints import SOON, SOON_AFTER_ALL
from go_scheduler.stores.messages import Put
from go_scheduler.stores.postgresql import dialect
from go_scheduler.stores.postgresql.dialect import may_notify
from go_scheduler.stores.postgresql.executing import understands
from go_scheduler.stores.rules import created, is_over_at_once, overlap_of, slot_of
from go_scheduler.stores.sql.database import LATE_AFTER, Lane, Overtaken
from go_scheduler.stores.sql.puts import Newcomer, Putting
from go_scheduler.stores.sql.rows import to_microseconds, write_contents

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
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
    ) -> Iterator[Newcomer]:
        """Insert those whose ids neither are nor were stored, nor are remembered.

        Args:
            connection: In a transaction: of ours, or the user's.
            given: The definitions.
            late: Whether others may see them only much later.

        Yields:
            Those that were inserted, batch by batch: nothing is that is not asked for.

        Raises:
            Overtaken: Somebody else has inserted one at the same moment.
        """
        # What has not committed has notified nobody yet.
        soon = SOON_AFTER_ALL if late else SOON
        within = soon if may_notify(connection) else None
        terms = {"is_late": late, "hint_within": within}
        new = [each for each in given if each.revision is None]
        # One order for all nodes, so that none waits for another in a circle.
        new.sort(key=attrgetter("id.int"))
        with closing(self._batches(new)) as batches:
            for batch in batches:
                row = self._insert(connection, "insert_new", batch, terms)
                yield from batch.made(row.now, row.ids)

    def _batches(self, new: Sequence[TaskDefinition]) -> Generator[_Batch, None, None]:
        """So many by one statement that it is not noticed what each of them costs.

        Others are written down while the server is busy with one, in the context of the
        caller: triggers of the user's may look into it.
        """
        parts = [
            new[first : first + _LARGEST] for first in range(0, len(new), _LARGEST)
        ]
        batch = partial(_Batch, shards=self._shards)
        batches: Iterator[_Batch] = map(batch, parts)
        ahead = ThreadPoolExecutor(1, "go-scheduler-batches")
        try:
            # At the end of a program no thread can be started any more.
            with suppress(RuntimeError):
                if len(parts) > 1:
                    batches = ahead.map(partial(copy_context().run, batch), parts)
            yield from batches
        finally:
            ahead.shutdown(cancel_futures=True)

    def insert_one(
        self, connection: Connection, given: TaskDefinition
    ) -> Newcomer | None:
        """Insert one if its id is new, as ``insert``; it commits by itself.

        Raises:
            Overtaken: Somebody else has inserted it at the same moment.
        """
        if given.revision is not None:
            return None
        started = self._notices.elapsed()
        terms = {"is_late": False, "hint_within": self._notices.within(started)}
        batch = _Batch([given], shards=self._shards)
        row = self._insert(connection, "insert_new", batch, terms)
        self._notices.note(row, started)
        return next(batch.made(row.now, row.ids), None)

    def start(
        self, connection: Connection, firing: Firing, claimant: Claimant
    ) -> tuple[Newcomer, TaskInstance] | None:
        """Insert one that fires at once, and start its instance.

        Args:
            connection: Of ours.
            firing: As for ``Store.put_definitions``.
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
        batch = _Batch([new], shards=self._shards)
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
            created_at=row.now,
        )

    def _insert(
        self,
        connection: Connection,
        name: str,
        batch: _Batch,
        parameters: Mapping[str, object],
    ) -> Any:
        """Insert by the statement of this name; its answer, if it has one."""
        terms = {**parameters, "late": LATE_AFTER, **batch.columns}
        try:
            rows = self._statements.execute_plainly(connection, name, terms)
        except IntegrityError as error:
            raise Overtaken from error
        return rows[0] if rows else None


class _Batch:
    """Definitions to be inserted, with the keys and the texts that they are to have."""

    def __init__(self, new: Sequence[TaskDefinition], *, shards: int) -> None:
        self.new = new
        self.keys = [uuid4() for _ in new]
        self.contents = [write_contents(each) for each in new]
        self.columns = {
            "keys": dialect.ids(self.keys),
            "shards": dialect.numbers(key.int % shards for key in self.keys),
            **_columns(new, self.contents),
        }

    def made(
        self, now: datetime, ids: Collection[UUID] | None = None
    ) -> Iterator[Newcomer]:
        """Those that were inserted at this time: these, or all."""
        which = None if ids is None else frozenset(ids)
        for each, key, of in zip(self.new, self.keys, self.contents, strict=True):
            if which is None or each.id in which:
                yield Newcomer(created(each, now, revision=1), key, of, now)


def _columns(
    new: Sequence[TaskDefinition], contents: Sequence[ContentsRow]
) -> Mapping[str, object]:
    names, metadata, kinds, states, policies = zip(*contents, strict=True)
    return {
        "ids": dialect.ids([each.id for each in new]),
        "queues": dialect.texts([each.queue for each in new]),
        "priorities": dialect.numbers([each.priority for each in new]),
        "expiries": dialect.numbers(
            [
                None if (after := each.expire_after) is None else to_microseconds(after)
                for each in new
            ]
        ),
        "waits": dialect.truths([each.trigger.waits for each in new]),
        "fire_times": dialect.times([each.next_fire_time for each in new]),
        "over": dialect.truths(map(is_over_at_once, new)),
        "paused": dialect.truths([each.paused for each in new]),
        "slots": dialect.texts([slot_of(each, fired=False) for each in new]),
        "overlaps": dialect.words([overlap_of(each, fired=False) for each in new]),
        "notes": dialect.texts([each.note for each in new]),
        "named": dialect.truths([each.named for each in new]),
        "names": dialect.texts(names),
        "metadata": dialect.texts(metadata),
        "kinds": dialect.texts(kinds),
        "states": dialect.texts(states),
        "policies": dialect.texts(policies),
    }


class ServerPutting(Putting):
    """Puts definitions; a single one is put alone, and may be started at once."""

    _newcomers: Newcomers

    def put_new(self, definition: TaskDefinition) -> Put | None:
        """Put one if it is new: no transaction has to be begun and ended for it."""
        made = self._database.run(
            Lane.NEW,
            lambda connection: self._newcomers.insert_one(connection, definition),
        )
        if made is None:
            return None
        if made.is_read_soon:
            self.remember([made])
        return Put(definitions=[made.definition])

    def put(
        self, definitions: Sequence[TaskDefinition], *, late: bool, repeatable: bool
    ) -> Sequence[TaskDefinition]:
        """Put several; a single one is not new, for that was tried."""
        if len(definitions) > 1:
            return super().put(definitions, late=late, repeatable=repeatable)
        return self._database.transact(
            lambda connection: self._puts.put(connection, definitions, late=late),
            repeatable=repeatable,
        )

    def put_within(
        self,
        connection: Connection,
        definitions: Sequence[TaskDefinition],
        *,
        late: bool,
    ) -> Sequence[TaskDefinition]:
        """Put definitions within a transaction of the user's."""
        if understands(connection):
            return super().put_within(connection, definitions, late=late)
        return self._puts.put(connection, definitions, late=late)

    def start(self, firing: Firing, claimant: Claimant) -> Put | None:
        """Put one that fires at once and start it; None: it is not new."""
        if firing.definition.revision is not None:
            return None
        started = self._database.run(
            Lane.NEW,
            lambda connection: self._newcomers.start(connection, firing, claimant),
            # One that was done, and is repeated, finds an id that is not new.
            repeatable=False,
        )
        if started is None:
            return None
        newcomer, instance = started
        if newcomer.definition.completed_at is None:
            self.remember([newcomer])
        before = changed(
            newcomer.definition, next_fire_time=instance.fire_time, completed_at=None
        )
        return Put(definitions=[before], started=[instance])
