"""The revisions of the schema, in their order, and the right to make them."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from sqlalchemy import Connection, TextClause, text

from go_scheduler.errors import ConfigurationError, StoreError
from go_scheduler.formatting import shown
from go_scheduler.stores.sql.database import Database, Lane

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


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

    It is a row that one process has until it expires. On CockroachDB there are no
    advisory locks, and DDL commits the transaction that would hold the lock of a row.
    This lock needs neither, and outlives its owner only shortly.

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


_FOLDER = Path(__file__).parent


class Script(NamedTuple):
    """A revision, and the module that leads to it."""

    revision: str
    module: Any


class History:
    """Every revision, from the first to the newest.

    Args:
        versions: The folder that has them. Their names are in the order in which they
            were written.
    """

    def __init__(self, versions: Path) -> None:
        files = sorted(versions.glob("r[0-9]*.py"))
        self._scripts = tuple(map(_read, files))
        self._revisions = [script.revision for script in self._scripts]

    @property
    def head(self) -> str:
        """The newest revision."""
        return self._revisions[-1]

    def after(self, revision: str | None) -> Sequence[Script]:
        """What is to be done from a revision on, in order; None is an empty database.

        Raises:
            ConfigurationError: There is no such revision.
        """
        if revision is None:
            return self._scripts
        if revision not in self._revisions:
            raise ConfigurationError(
                f"there is no revision {shown(revision)}; there are"
                f" {self._revisions[0]} to {self.head}"
            )
        return self._scripts[self._revisions.index(revision) + 1 :]

    def recognise(self, found: Sequence[str]) -> str | None:
        """The revision that a database is at, by what its table of versions says.

        Raises:
            StoreError: It is none of these, or more than one.
        """
        if len(found) > 1:
            raise StoreError(
                f"the table go_scheduler_schema_version says {', '.join(found)}, and"
                " should say one revision: two migrations have run beside each other,"
                " or one by other means"
            )
        if not found:
            return None
        if found[0] < self._revisions[0]:
            raise StoreError(
                f"the database's schema is at revision {found[0]}, which was made"
                f" before {self._revisions[0]}, the first that leads to later ones:"
                " recreate the database, or name another one"
            )
        if found[0] not in self._revisions:
            raise StoreError(
                f"the database's schema is at revision {found[0]}, which was made by a"
                f" newer go_scheduler; this one knows {self.head} as the newest:"
                " upgrade it"
            )
        return found[0]


@cache
def history() -> History:
    """The history of this package's schema, read once."""
    return History(_FOLDER / "versions")


def _read(file: Path) -> Script:
    spec = spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module: Any = module_from_spec(spec)
    spec.loader.exec_module(module)
    return Script(module.revision, module)


# Alembic's own layout, so that its tools can read it.
CREATE_TABLE = """
CREATE TABLE IF NOT EXISTS go_scheduler_schema_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT go_scheduler_schema_version_pkc PRIMARY KEY (version_num)
)
"""
_EXISTS = "SELECT to_regclass('go_scheduler_schema_version') IS NOT NULL"
_EXISTS_ON_SQLITE = """
SELECT count(*) FROM sqlite_master
 WHERE type = 'table' AND name = 'go_scheduler_schema_version'
"""
_READ = "SELECT version_num FROM go_scheduler_schema_version ORDER BY version_num"
_BEGIN = f"""
INSERT INTO go_scheduler_schema_version (version_num)
SELECT CAST(:revision AS varchar(32)) WHERE {IS_OURS}
RETURNING version_num
"""
_GO_ON = f"""
UPDATE go_scheduler_schema_version SET version_num = CAST(:revision AS varchar(32))
 WHERE version_num = CAST(:previous AS varchar(32)) AND {IS_OURS}
RETURNING version_num
"""
_SET_FIRST = """
INSERT INTO go_scheduler_schema_version (version_num)
SELECT '{revision}' WHERE NOT EXISTS (SELECT 1 FROM go_scheduler_schema_version)
"""
_SET_NEXT = """
UPDATE go_scheduler_schema_version SET version_num = '{revision}'
 WHERE version_num = '{previous}'
"""


def read_revisions(connection: Connection) -> Sequence[str]:
    """The revisions found: none in an empty database, one when all is well."""
    on_sqlite = connection.dialect.name == "sqlite"
    exists = text(_EXISTS_ON_SQLITE if on_sqlite else _EXISTS)
    if not connection.scalar(exists):
        return []
    return connection.scalars(text(_READ)).all()


def write_revision(
    connection: Connection, revision: str, *, previous: str | None, lock: MigrationLock
) -> bool:
    """Note that a step has been done; False if the lock is somebody else's by now."""
    statement = text(_BEGIN if previous is None else _GO_ON)
    values = {"revision": revision, "owner": lock.owner, "fence": lock.fence}
    if previous is not None:
        values["previous"] = previous
    return bool(connection.scalars(statement, values).all())


def write_revision_sql(revision: str, *, previous: str | None) -> str:
    """The same as SQL to be run by hand, which does no harm when repeated."""
    statement = _SET_FIRST if previous is None else _SET_NEXT
    return statement.format(revision=revision, previous=previous)
