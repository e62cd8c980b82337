"""The right to migrate a database: a row that one process has until it expires.

On CockroachDB there are no advisory locks, and DDL commits the transaction that would
hold the lock of a row. This lock needs neither, and outlives its owner only shortly.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from sqlalchemy import text

from go_scheduler.errors import StoreError
from go_scheduler.stores.sql.database import Lane

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy import TextClause

    from go_scheduler.stores.sql.database import Database

_CREATE = """
CREATE TABLE IF NOT EXISTS go_scheduler_lock (
    name TEXT NOT NULL PRIMARY KEY,
    owner TEXT,
    fence BIGINT NOT NULL,
    expires_at {time} NOT NULL
)
"""
_ACQUIRE = """
INSERT INTO go_scheduler_lock AS l (name, owner, fence, expires_at)
VALUES ('migrate', CAST(:owner AS text), 1, {later})
ON CONFLICT (name) DO UPDATE
   SET owner = excluded.owner, fence = l.fence + 1, expires_at = excluded.expires_at
 WHERE l.expires_at <= {now} OR l.owner = excluded.owner
RETURNING fence
"""
_OURS = """
name = 'migrate' AND owner = CAST(:owner AS text) AND fence = CAST(:fence AS bigint)
"""
_RENEW = f"UPDATE go_scheduler_lock SET expires_at = {{later}} WHERE {_OURS}"
_RELEASE = f"UPDATE go_scheduler_lock SET expires_at = {{now}} WHERE {_OURS}"
_OWNER = "SELECT owner FROM go_scheduler_lock WHERE name = 'migrate'"

IS_OURS = f"EXISTS (SELECT 1 FROM go_scheduler_lock WHERE {_OURS})"
"""A condition on ``:owner`` and ``:fence``: nobody else has acquired it since.

What is written under it is written by one process, however late it comes to write.
"""

_POSTGRESQL = {
    "time": "TIMESTAMP WITH TIME ZONE",
    "now": "now()",
    "later": "now() + CAST(:length AS bigint) * interval '1 millisecond'",
}
_SQLITE_NOW = "CAST((julianday('now') - 2440587.5) * 86400000 AS integer)"
_SQLITE = {
    "time": "BIGINT",
    "now": _SQLITE_NOW,
    "later": f"{_SQLITE_NOW} + CAST(:length AS integer)",
}


def _words(dialect: str) -> Mapping[str, str]:
    return _SQLITE if dialect == "sqlite" else _POSTGRESQL


def create_lock_table_sql(dialect: str) -> str:
    """The statement that creates the table of locks, if there is none."""
    return _CREATE.format(**_words(dialect))


class MigrationLock:
    """One process's right to be the one that migrates a database.

    Args:
        database: The database to migrate.
        dialect: Its kind.
        length: How long it lasts when it is not renewed.
    """

    def __init__(self, database: Database, dialect: str, *, length: timedelta) -> None:
        self.owner = f"{socket.gethostname()}, process {os.getpid()}, {uuid4().hex[:8]}"
        self.fence = 0
        self._database = database
        self._dialect = dialect
        self._length = length

    def acquire(self) -> bool:
        """Take it, unless somebody else has it and it has not expired."""
        fences = self._database.run(
            Lane.BY_HAND,
            lambda connection: connection.scalars(
                self._text(_ACQUIRE),
                {"owner": self.owner, "length": self._milliseconds},
            ).all(),
        )
        if fences:
            self.fence = fences[0]
        return bool(fences)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Renew it while the ``with`` statement lasts; then release it."""
        ended = threading.Event()
        keeper = threading.Thread(
            target=self._keep, args=(ended,), name="go_scheduler-migration", daemon=True
        )
        keeper.start()
        try:
            yield
        finally:
            ended.set()
            keeper.join()
            self._update(_RELEASE)

    def last_owner(self) -> str:
        """Who has it, or had it last."""
        owner = self._database.run(
            Lane.BY_HAND, lambda connection: connection.scalar(text(_OWNER))
        )
        return owner or "nobody"

    def _keep(self, ended: threading.Event) -> None:
        while not ended.wait(self._length.total_seconds() / 3):
            self._update(_RENEW, length=self._milliseconds)

    @property
    def _milliseconds(self) -> int:
        return self._length // timedelta(milliseconds=1)

    def _text(self, statement: str) -> TextClause:
        return text(statement.format(**_words(self._dialect)))

    def _update(self, statement: str, **values: object) -> None:
        # If it fails, the lock expires, and then what its owner does is in vain.
        with suppress(StoreError):
            self._database.run(
                Lane.RENEWALS,
                lambda connection: connection.execute(
                    self._text(statement),
                    {"owner": self.owner, "fence": self.fence, **values},
                ),
            )
