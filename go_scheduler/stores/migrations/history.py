"""The revisions of the schema, and the SQL that each stands for."""

from __future__ import annotations

from functools import cache
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from go_scheduler.errors import ConfigurationError, StoreError
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alembic.script import Script
    from sqlalchemy import Connection

_FOLDER = Path(__file__).parent


class History:
    """Every revision, from the first to the newest.

    Args:
        versions: The folder that has them. Their names are in the order in which they
            were written.
    """

    def __init__(self, versions: Path) -> None:
        scripts = ScriptDirectory(_FOLDER, version_locations=[versions])
        self._scripts = tuple(scripts.walk_revisions())[::-1]
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
                " before the first release and leads to no later one: recreate the"
                " database, or name another one"
            )
        if found[0] not in self._revisions:
            raise StoreError(
                f"the database's schema is at revision {found[0]}, which was made by a"
                f" newer go_scheduler; this one knows {self.head} as the newest:"
                " upgrade it"
            )
        return found[0]

    def sql(self, dialect: str, *, since: str | None) -> str:
        """The statements that the steps after a revision consist of."""
        output = StringIO()
        options = {"as_sql": True, "output_buffer": output}
        operations = Operations(
            MigrationContext.configure(dialect_name=dialect, opts=options)
        )
        for script in self.after(since):
            script.module.upgrade(operations)
        return output.getvalue()


@cache
def history() -> History:
    """The history of this package's schema, read once."""
    return History(_FOLDER / "versions")


def operations(connection: Connection) -> Operations:
    """What a revision's ``upgrade`` is called with, to act on a connection.

    Alembic would have it import one that belongs to the process, which stores that
    migrate in two threads would take from each other.
    """
    return Operations(MigrationContext.configure(connection))
