"""The store of all SQL engines.

What the loops call stands in ``firing``, ``claims``, ``runs``, ``reviewing`` and
``cleanup``; what puts in anything new, in ``inserts``. What users call besides is in
``puts``, ``edits``, ``additions`` and ``views``. Each module has its statements, and
the methods that send them. In a transaction of the user's they are the same: see
``join``.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from go_scheduler.clock import SystemClock
from go_scheduler.errors import StoreError
from go_scheduler.stores.base import TransactionalStore
from go_scheduler.stores.sql.additions import SQLByHand
from go_scheduler.stores.sql.claims import SQLClaims
from go_scheduler.stores.sql.cleanup import SQLCleanup
from go_scheduler.stores.sql.database import Classes, Lane
from go_scheduler.stores.sql.edits import Tombstones
from go_scheduler.stores.sql.firing import SQLFiring
from go_scheduler.stores.sql.inserts import SQLInserts
from go_scheduler.stores.sql.joined import JoinedDatabase, join, when_committed
from go_scheduler.stores.sql.lists import BOTH, due_queues
from go_scheduler.stores.sql.reader import Reader
from go_scheduler.stores.sql.reviewing import (
    FIND_TURNS,
    FIND_UNDECIDED,
    SQLReviewing,
    Walk,
)
from go_scheduler.stores.sql.runs import SQLRuns
from go_scheduler.stores.sql.stats import SHARDS, SQLStats
from go_scheduler.stores.sql.tables import definitions
from go_scheduler.stores.sql.views import SQLReads

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from sqlalchemy import Connection

    from go_scheduler.clock import Clock
    from go_scheduler.stores.base import JoinedStore
    from go_scheduler.stores.messages import (
        RunOutcome,
        Tombstone,
    )
    from go_scheduler.stores.sql.database import Database
    from go_scheduler.stores.sql.schema import Schema
    from go_scheduler.stores.sql.statement import Statements
    from go_scheduler.stores.sql.tables import Dialect


class SQLStore(
    SQLByHand,
    SQLInserts,
    SQLClaims,
    SQLFiring,
    SQLRuns,
    SQLCleanup,
    SQLReads,
    SQLReviewing,
    SQLStats,
    TransactionalStore,
):
    """Keeps definitions and instances in a database."""

    def __init__(
        self,
        database: Database,
        dialect: Dialect,
        statements: Statements,
        *,
        schema: Schema,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(clock)
        self._database = database
        self._dialect = dialect
        self._statements = statements
        self.shards = dialect.shards
        self._schema = schema
        self._tombstones = Tombstones(dialect)
        self._reader = Reader(database, dialect)
        self._both = dialect.looked_up(BOTH, definitions, "task_definitions_pkey")
        self._turns = Walk(FIND_TURNS)
        self._undecided = Walk(FIND_UNDECIDED)
        self._elapsed = (clock or SystemClock()).elapsed
        self._classes = Classes(self._elapsed)
        self._careful = {}
        self._limited = {}

    @property
    def retries(self) -> Mapping[str, int]:
        """How many statements were repeated, by the code of the error they met."""
        return dict(self._database.repeats)

    def initialize(self) -> None:
        """Bring the schema up to date, or check that it is."""
        self._schema.prepare(self._database)
        made = self.keep_setting(SHARDS, mine := str(self._dialect.shards))
        if made != mine:
            raise StoreError(
                f"the database was made with {made} shards, which it keeps for good,"
                f" and this version of go_scheduler has {mine}: use a version that has"
                f" {made}, or another database"
            )

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        self._database.close()

    def now(self) -> datetime:
        """The time of the clock that was passed, else the database's."""
        now, answered = self._database.run(Lane.BY_TIME, self._ask_for_time)
        # What has passed since the answer has passed in the database as well.
        return now + (self._elapsed() - answered)

    def _ask_for_time(self, connection: Connection) -> tuple[datetime, timedelta]:
        return self._dialect.now(connection), self._elapsed()

    def join(
        self, connection: object, *, committed: Callable[[], None] | None = None
    ) -> JoinedStore:
        """Take part in a transaction of the user's."""
        joined = self._joined(connection)
        if committed is not None:
            when_committed(connection, committed)
        return joined

    def _joined(self, connection: object) -> SQLStore:
        """A store of one connection, which is the user's."""
        theirs = self._database.run_once(lambda: join(connection, self._dialect))
        database = JoinedDatabase(theirs, self._database)
        dialect = copy(self._dialect)
        dialect.joined = True
        statements = self._statements.joined(database, dialect)
        return SQLStore(
            database, dialect, statements, schema=self._schema, clock=self.clock
        )

    def finish_instance_in(self, connection: object, outcome: RunOutcome) -> bool:
        """Record the end of one run within a transaction of the user's."""
        return self._joined(connection)._finish_joined(outcome)

    def list_tombstones(self, ids: Collection[UUID]) -> Sequence[Tombstone]:
        """Read what is remembered of these ids."""
        found = self._list(lambda connection: self._tombstones.find(connection, ids))
        return list(found.values())

    def list_due_queues(self, *, apart_from: Collection[str]) -> Collection[str]:
        """Name queues in which something is due that nobody has claimed."""
        return self._look(lambda each: due_queues(each, self._dialect, apart_from))
