"""The table that says at which revision a database is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text

from go_scheduler.stores.migrations.lock import IS_OURS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from go_scheduler.stores.migrations.lock import MigrationLock

# Alembic's own layout, so that its tools can read it.
CREATE = """
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
