"""The SQLite store: what the loops do, each as one transaction over a batch."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import SystemClock
from go_scheduler.models.values import changed
from go_scheduler.stores.messages import Put
from go_scheduler.stores.rules import note_forgotten
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.puts import Putting
from go_scheduler.stores.sql.rows import (
    read_contacts,
    to_microseconds,
    to_sqlite_time,
    write_announcement,
)
from go_scheduler.stores.sql.schema import Schema
from go_scheduler.stores.sql.store import SQLStore
from go_scheduler.stores.sqlite.database import FileWatch, SQLiteDatabase
from go_scheduler.stores.sqlite.dialect import SQLiteDialect
from go_scheduler.stores.sqlite.due_definitions import delete_ended
from go_scheduler.stores.sqlite.executing import FileStatements
from go_scheduler.stores.sqlite.newcomers import AddedInstances, Newcomers
from go_scheduler.stores.sqlite.questions import findings
from go_scheduler.stores.sqlite.statements import LIST_CONTACTS, NOTE_CONTACT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection
    from sqlalchemy.engine import URL

    from go_scheduler.clock import Clock
    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.findings import Finding
    from go_scheduler.stores.hints import Hints
    from go_scheduler.stores.messages import (
        Addition,
        Announcement,
        Claimant,
        Firing,
        NodeContact,
        Retention,
    )

_BUSY_TIMEOUT = timedelta(seconds=5)


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
            checks that it is, and makes no file.
        durable: Whether every write waits for the disk (``synchronous=FULL``). Without,
            small writes are several times as fast, and a power failure may undo the
            last ones: what has run may run again. The file stays whole either way.
        busy_timeout: How long a call waits for other processes that write.

    Raises:
        ConfigurationError: The URL is not that of a SQLite file, or the SQLite of this
            Python is older than 3.35.
    """

    _database: SQLiteDatabase
    _additions: AddedInstances

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
        self._migrates = migrate
        super().__init__(database, dialect, schema=schema, clock=clock)
        self._time = (clock or SystemClock()).now

        self._statements = FileStatements(database, self._microseconds)
        self._newcomers = Newcomers(self._time)
        self._putting = Putting(database, self._newcomers, self._puts, self._reader)
        self._additions = AddedInstances(dialect)

    def __repr__(self) -> str:
        return f"{type(self).__name__}('sqlite:///{self._database.path}')"

    def initialize(self) -> None:
        """Make the file, and bring its schema up to date; or check that it is."""
        self._database.prepare(makes=self._migrates)
        super().initialize()

    def examine(self) -> Sequence[Finding]:
        """What is wrong with the file."""
        return list(findings(self._database.path))

    def hints(self) -> Hints:
        """Whether the file has been written to by others."""
        return FileWatch(self._database.version)

    def now(self) -> datetime:
        """The time of the clock that was passed, else the machine's."""
        return self._time()

    # Definitions.

    def put_definitions(
        self,
        definitions: Sequence[TaskDefinition],
        *,
        firings: Sequence[Firing] = (),
        claimant: Claimant | None = None,
    ) -> Put:
        """Insert each definition, or replace the one with its id."""
        given = self._classes.seen(definitions)
        if claimant is None or not len(given) == len(firings) == 1:
            return Put(definitions=self._put(given))
        [firing] = firings

        def put(connection: Connection) -> Put:
            started = self._newcomers.start(connection, firing, claimant)
            if started is None:
                stored = self._puts.put(connection, [firing.definition])
                return Put(definitions=stored)
            newcomer, instance = started
            fires_at = {"next_fire_time": instance.fire_time, "completed_at": None}
            before = changed(newcomer.definition, **fires_at)
            return Put(definitions=[before], started=[instance])

        # One that was done, and is repeated, finds a definition that is not new.
        return self._database.transact(put, repeatable=False)

    # Instances.

    def add_instances(
        self,
        definition_id: UUID,
        additions: Sequence[Addition],
        *,
        claimant: Claimant | None = None,
    ) -> Sequence[TaskInstance]:
        """Make instances of a definition that are no fire times'."""
        return self._database.transact(
            lambda connection: self._additions.add(
                connection, definition_id, additions, claimant
            )
        )

    # Nodes.

    def note_contact(self, announced: Announcement, *, unbroken: timedelta) -> None:
        """Record that a node has been in contact with the store up to now."""

        def parameters() -> Mapping[str, object]:
            now = self._microseconds()
            return {
                "node": announced.node.hex,
                "since": now - to_microseconds(unbroken),
                "now": now,
                **write_announcement(announced),
            }

        self._database.write(NOTE_CONTACT, parameters)

    def list_contacts(self, *, within: timedelta) -> Sequence[NodeContact]:
        """Read when nodes were in contact with the store."""
        since = self._microseconds() - to_microseconds(within)
        return read_contacts(
            self._database.run(
                Lane.BY_TIME,
                lambda connection: connection.execute(
                    LIST_CONTACTS, {"since": since}
                ).all(),
            )
        )

    # Cleanup.

    def delete_finished(self, retention: Retention, *, limit: int) -> int:
        """Delete what ended long ago."""

        def delete(connection: Connection) -> tuple[int, int]:
            now = self._microseconds()
            deleted, completed = delete_ended(connection, retention, now, limit)
            forgotten = self._forget(
                connection, retention.remembered, made=completed, limit=limit
            )
            return deleted, forgotten

        deleted, forgotten = self._database.transact(delete)
        note_forgotten(forgotten, most=self.most_remembered)
        return deleted

    def _microseconds(self) -> int:
        """The store's time; what writes asks for it under the write lock."""
        return to_sqlite_time(self._time())
