"""What revisions are made by: Alembic, on a database or into a text."""

from __future__ import annotations

import logging
from io import StringIO
from typing import TYPE_CHECKING

# Imported, Alembic tells of each of its plugins at the level of a program's own lines.
# What it tells later is the program's affair.
_plugins = logging.getLogger("alembic.runtime.plugins")
_nothing = logging.Filter("nothing")
_plugins.addFilter(_nothing)

from alembic.operations import Operations  # noqa: E402
from alembic.runtime.migration import MigrationContext  # noqa: E402

_plugins.removeFilter(_nothing)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from go_scheduler.stores.migrations.history import Script


def operations(connection: Connection) -> Operations:
    """What a revision's ``upgrade`` is called with, to act on a connection.

    Alembic would have it import one that belongs to the process, which stores that
    migrate in two threads would take from each other.
    """
    return Operations(MigrationContext.configure(connection))


def sql_of(scripts: Iterable[Script], dialect: str) -> str:
    """The statements that revisions consist of."""
    output = StringIO()
    options = {"as_sql": True, "output_buffer": output}
    operations = Operations(
        MigrationContext.configure(dialect_name=dialect, opts=options)
    )
    for script in scripts:
        script.module.upgrade(operations)
    return output.getvalue()
