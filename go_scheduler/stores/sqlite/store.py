"""The SQLite store: what the loops do, each as one transaction over a batch."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from go_scheduler.clock import SystemClock
from go_scheduler.models import Cancelled
from go_scheduler.stores.base import CONTACTS_KEPT
from go_scheduler.stores.messages import Answer
from go_scheduler.stores.remembered import note_forgotten
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.dialects import SQLiteDialect
from go_scheduler.stores.sql.reader import earliest_first, judged, with_definitions
from go_scheduler.stores.sql.rows import (
    DefinitionRow,
    read_contacts,
    write_queues,
)
from go_scheduler.stores.sql.schema import Schema
from go_scheduler.stores.sql.store import SQLStore
from go_scheduler.stores.sql.sweep import LATE
from go_scheduler.stores.sql.types import to_microseconds, to_sqlite_time
from go_scheduler.stores.sqlite import statements as sql
from go_scheduler.stores.sqlite.batches import (
    ends,
    instances_of,
    key_of,
    retries,
    run_batch,
    time_of,
    write_all,
)
from go_scheduler.stores.sqlite.database import SQLiteDatabase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set
    from typing import Any

    from sqlalchemy import Connection, Row, TextClause
    from sqlalchemy.engine import URL

    from go_scheduler.clock import Clock
    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.messages import (
        Claim,
        Claimant,
        Firing,
        NodeContact,
        Release,
        Renewal,
        Retention,
        RunOutcome,
    )

_BUSY_TIMEOUT = timedelta(seconds=5)
_CONTACTS_KEPT = to_microseconds(CONTACTS_KEPT)
_LATE = to_microseconds(LATE)
# After all that cannot be read, before all that can.
_BEFORE_ALL_TIMES = to_sqlite_time(datetime.min.replace(tzinfo=UTC)) - 1


class SQLiteStore(SQLStore):
    """Keeps everything in one file, for the processes of one machine.

    What has been committed survives a killed process, and a power failure. The file is
    on a local disk: SQLite's locks do not work on most network file systems. Beside it
    SQLite keeps two more files, ending in ``-wal`` and ``-shm``, that belong to it. The
    store's time is the machine's.

    Any number of threads and processes may use one file. One writes at a time; readers
    wait for nobody. A user's own transaction that has written keeps all others waiting
    until it ends.

    **Fork**: a process that has been forked while a store was open cannot use its file,
    for SQLite's locks do not survive a fork: every call raises ``StoreError``. Close
    the store before the fork, or start processes by ``spawn`` or ``forkserver``.

    Args:
        url: ``sqlite:///relative/file.db`` or ``sqlite:////absolute/file.db``. The
            directory must exist; the file is made.
        clock: Used instead of the machine's time, for tests.
        migrate: Whether ``initialize`` brings the schema up to date; without, it only
            checks that it is.
        durable: Whether every write waits for the disk (``synchronous=FULL``). Without,
            small writes are several times as fast, and a power failure may undo the
            last ones: what has run may run again. The file stays whole either way.
        busy_timeout: How long a call waits for other processes that write.

    Raises:
        ConfigurationError: The URL is not that of a SQLite file, or the SQLite of this
            Python is older than 3.35.
    """

    _database: SQLiteDatabase

    def __init__(
        self,
        url: str | URL,
        *,
        clock: Clock | None = None,
        migrate: bool = True,
        durable: bool = True,
        busy_timeout: timedelta = _BUSY_TIMEOUT,
    ) -> None:
        database = SQLiteDatabase(url, durable=durable, busy_timeout=busy_timeout)
        dialect = SQLiteDialect(self.now)
        schema = Schema(dialect.name, migrate)
        super().__init__(database, dialect, schema=schema, clock=clock)
        self._time = (clock or SystemClock()).now

    def __repr__(self) -> str:
        return f"{type(self).__name__}('sqlite:///{self._database.path}')"

    def initialize(self) -> None:
        """Make the file, and bring its schema up to date or check that it is."""
        self._database.prepare()
        super().initialize()

    def now(self) -> datetime:
        """The time of the clock that was passed, else the machine's."""
        return self._time()

    # Definitions.

    def due_definitions(
        self, *, ahead: timedelta, after: TaskDefinition | None = None, limit: int
    ) -> Sequence[TaskDefinition]:
        """Read a page of the definitions that fire soon."""
        until = self._microseconds() + to_microseconds(ahead)
        parameters: dict[str, object] = {"until": until, "limit": limit}
        statement = sql.DUE
        if after is not None:
            statement = sql.DUE_AFTER
            parameters |= {
                "after_time": time_of(after.next_fire_time, default=_BEFORE_ALL_TIMES),
                "after_id": after.id.hex,
            }
        rows = self._database.run(
            Lane.SCANS,
            lambda connection: connection.execute(statement, parameters).all(),
        )
        return self._reader.definitions(
            Lane.SCANS, [DefinitionRow(*row) for row in rows]
        )

    def fire_definitions(self, firings: Sequence[Firing]) -> Answer[Set[UUID]]:
        """Create the instances of each firing and move its definition on."""
        if not firings:
            return Answer(done=frozenset())
        by_id = {each.definition.id.hex: each for each in firings}
        batch = [
            (
                id,
                time_of(each.definition.next_fire_time),
                each.definition.revision,
                time_of(each.next_fire_time),
            )
            for id, each in by_id.items()
        ]

        def fire(connection: Connection) -> Set[UUID]:
            now = self._microseconds()
            won = run_batch(connection, sql.FIRE, batch, now=now, late=now - _LATE)
            made = [
                instance
                for row in won
                for instance in instances_of(by_id[row.id], row, now)
            ]
            write_all(connection, sql.MAKE, made)
            return {by_id[row.id].definition.id for row in won}

        return Answer(done=self._database.transact(fire))

    # Instances.

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
    ) -> Sequence[TaskInstance]:
        """Hand due instances to one node, and to no other."""
        if not claimant.queues:
            return []
        queues = {f"queue{number}": each for number, each in enumerate(claimant.queues)}

        def claim(connection: Connection) -> _Taken:
            now = self._microseconds()
            terms = {
                **_terms(claimant, now),
                "node": claimant.node.hex,
                "lead": now + to_microseconds(lead),
            }
            old: Sequence[Row[Any]] = []
            if lapsed is not None:
                parameters = {
                    **terms,
                    "queues": json.dumps(claimant.queues),
                    "lapsed": now - to_microseconds(lapsed),
                    "limit": limit,
                }
                old = connection.execute(sql.CLAIM_LAPSED, parameters).all()
            new: Sequence[Row[Any]] = []
            if left := limit - len(old):
                until = now + to_microseconds(ahead)
                new = connection.execute(
                    sql.claim_free(len(queues)),
                    {**terms, **queues, "until": until, "limit": left},
                ).all()
            return _taken(connection, old, new)

        old, new = self._instances(self._database.transact(claim))
        return earliest_first(old) + earliest_first(new)

    def _instances(self, taken: _Taken) -> list[list[TaskInstance]]:
        """The instances of rows; read without keeping others from writing."""
        by_key = self._reader.by_key(Lane.SCANS, taken.definitions)
        return [with_definitions(rows, by_key) for rows in taken.instances]

    def list_claimed(
        self, node: UUID, *, after: TaskInstance | None = None, limit: int = 100
    ) -> Sequence[TaskInstance]:
        """Read a page of what a node has claimed and has not ended."""
        parameters = {
            "node": node.hex,
            "after": "" if after is None else after.id.hex,
            "limit": limit,
        }

        def read(connection: Connection) -> _Taken:
            return _taken(connection, connection.execute(sql.CLAIMED, parameters).all())

        [claimed] = self._instances(self._database.run(Lane.SCANS, read))
        return judged(claimed)

    def start_instances(
        self, claimant: Claimant, claims: Sequence[Claim]
    ) -> Answer[Sequence[TaskInstance]]:
        """Record that handlers are about to be called."""
        if not claims:
            return Answer(done=[])
        batch = [key_of(each) for each in claims]

        def start(connection: Connection) -> _Taken:
            terms = _terms(claimant, self._microseconds())
            return _taken(connection, run_batch(connection, sql.START, batch, **terms))

        [started] = self._instances(self._database.transact(start))
        return Answer(done=judged(started))

    def renew_claims(self, renewals: Sequence[Renewal]) -> Answer[Mapping[UUID, bool]]:
        """Let claims hold for their ``lease`` from the store's time on."""
        if not renewals:
            return Answer(done={})
        batch = [
            (*key_of(each.claim), to_microseconds(each.lease)) for each in renewals
        ]

        def renew(connection: Connection) -> Mapping[UUID, bool]:
            rows = run_batch(connection, sql.RENEW, batch, now=self._microseconds())
            return {UUID(row.id): bool(row.cancel_requested) for row in rows}

        return Answer(done=self._database.transact(renew))

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        """Record what became of runs."""
        if not outcomes:
            return Answer(done=frozenset())
        by_id = {each.claim.instance_id.hex: each for each in outcomes}
        batch = [(*key_of(each.claim), each.outcome) for each in outcomes]

        def finish(connection: Connection) -> Set[UUID]:
            now = self._microseconds()
            rows = run_batch(connection, sql.MAY_END, batch)
            recorded = [(row, by_id[row.id]) for row in rows]
            write_all(connection, sql.END, ends(recorded, now))
            write_all(connection, sql.RETRY, retries(recorded, now))
            waiting = {
                row.definition_key: each.next_fire_time
                for row, each in recorded
                if row.waits and each.outcome
            }
            _go_on(connection, waiting, now)
            return {each.claim.instance_id for _, each in recorded}

        return Answer(done=self._database.transact(finish))

    def release_instances(self, releases: Sequence[Release]) -> Answer[Set[UUID]]:
        """Give back what was claimed and not called."""
        if not releases:
            return Answer(done=frozenset())

        def release(connection: Connection) -> Set[UUID]:
            now = self._microseconds()
            batch = [
                (*key_of(each.claim), now + to_microseconds(each.delay))
                for each in releases
            ]
            rows = run_batch(connection, sql.RELEASE, batch, now=now)
            return {UUID(row.id) for row in rows}

        return Answer(done=self._database.transact(release))

    def cancel_instances(
        self, cancellations: Mapping[UUID, datetime | None]
    ) -> Mapping[UUID, Cancelled]:
        """Cancel what has not started; ask what runs to stop."""
        if not cancellations:
            return {}
        by_id = {each.hex: each for each in cancellations}
        batch = [(id,) for id in by_id]

        def cancel(connection: Connection) -> Mapping[UUID, Cancelled]:
            now = self._microseconds()
            rows = run_batch(connection, sql.CANCEL, batch, now=now)
            waiting = {
                row.definition_key: cancellations[by_id[row.id]]
                for row in rows
                if row.waits and row.outcome
            }
            _go_on(connection, waiting, now)
            return {
                by_id[row.id]: (
                    Cancelled.CANCELLED if row.outcome else Cancelled.REQUESTED
                )
                for row in rows
            }

        return self._database.transact(cancel)

    # Nodes.

    def note_contact(
        self, node: UUID, *, unbroken: timedelta, queues: Sequence[str]
    ) -> None:
        """Record that a node has been in contact with the store up to now."""

        def note(connection: Connection) -> None:
            now = self._microseconds()
            parameters = {
                "node": node.hex,
                "since": now - to_microseconds(unbroken),
                "now": now,
                "queues": write_queues(queues),
            }
            connection.execute(sql.NOTE_CONTACT, parameters)

        self._database.transact(note)

    def list_contacts(self, *, within: timedelta) -> Sequence[NodeContact]:
        """Read when nodes were in contact with the store."""
        since = self._microseconds() - to_microseconds(within)
        return read_contacts(
            self._database.run(
                Lane.SCANS,
                lambda connection: connection.execute(
                    sql.CONTACTS, {"since": since}
                ).all(),
            )
        )

    # Cleanup.

    def delete_finished(self, retention: Retention, *, limit: int) -> int:
        """Delete what ended long ago."""

        def delete(connection: Connection) -> tuple[int, int]:
            now = self._microseconds()
            until = now - to_microseconds(retention.ended)
            failed_until = now - to_microseconds(retention.failed)
            left = limit

            def delete_over(statement: TextClause, bound: int) -> int:
                bounds = {"until": bound, "limit": left}
                return connection.execute(statement, bounds).rowcount

            connection.execute(sql.DELETE_CONTACTS, {"since": now - _CONTACTS_KEPT})
            left -= delete_over(sql.DELETE_ENDED, until)
            left -= delete_over(sql.DELETE_FAILED, failed_until)
            # Nobody knows of the rows that a delete has left behind.
            _delete_definitions(connection, sql.DELETE_DELETED, until, limit)
            completed = _delete_definitions(
                connection, sql.DELETE_COMPLETED, until, left
            )
            left -= completed
            forgotten = self._forget(
                connection, retention.remembered, made=completed, limit=limit
            )
            return limit - left, forgotten

        deleted, forgotten = self._database.transact(delete)
        note_forgotten(forgotten, most=self.most_remembered)
        return deleted

    def _microseconds(self) -> int:
        """The store's time; asked for when the write lock is held, not before."""
        return to_sqlite_time(self._time())


class _Taken(NamedTuple):
    """What a claim or start has marked, and the definitions of all of it."""

    instances: Sequence[Sequence[Row[Any]]]
    definitions: Sequence[DefinitionRow]


def _taken(connection: Connection, *rows: Sequence[Row[Any]]) -> _Taken:
    keys = {each.definition_key for part in rows for each in part}
    if not keys:
        return _Taken(rows, [])
    known = [each.hex for each in keys if isinstance(each, UUID)]
    found = connection.execute(sql.DEFINITIONS, {"keys": json.dumps(known)})
    return _Taken(rows, [DefinitionRow(*row) for row in found])


def _go_on(
    connection: Connection, waiting: Mapping[str, datetime | None], now: int
) -> None:
    """Move the definitions on, by their keys, that waited for what has ended."""
    late = now - _LATE
    moved = [
        {"key": key, "next_at": time_of(at), "now": now, "late": late}
        for key, at in waiting.items()
    ]
    write_all(connection, sql.GO_ON, moved)


def _delete_definitions(
    connection: Connection, statement: TextClause, until: int, limit: int
) -> int:
    """Delete definitions, and remember the ids of those that have ended."""
    gone = connection.execute(statement, {"until": until, "limit": limit}).all()
    keys = json.dumps([each.key for each in gone])
    rows = connection.execute(sql.DELETE_CONTENTS, {"keys": keys})
    triggers = {row.key: row._asdict() for row in rows}
    remembered = [
        {**triggers[each.key], **each._asdict()}
        for each in gone
        if each.named and each.completed_at is not None and each.key in triggers
    ]
    if remembered:
        connection.execute(sql.REMEMBER, remembered)
    return len(gone)


def _terms(claimant: Claimant, now: int) -> dict[str, object]:
    return {
        "now": now,
        "lease": to_microseconds(claimant.lease),
        "expire_after": to_microseconds(claimant.expire_after),
    }
