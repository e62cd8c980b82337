"""The schema of a SQL store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.tables import metadata

if TYPE_CHECKING:
    from go_scheduler.stores.sql.database import Database


class Schema:
    def __init__(self, dialect: str, migrate: bool) -> None:
        self._dialect = dialect

    def prepare(self, database: Database) -> None:
        database.run(Lane.USERS, lambda connection: metadata.create_all(connection))
