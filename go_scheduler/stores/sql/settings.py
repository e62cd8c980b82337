"""What all nodes agree on: the first to ask has set it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from go_scheduler.stores.sql.tables import settings

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from go_scheduler.stores.sql.dialect import Dialect


def keep_setting(
    connection: Connection, dialect: Dialect, *, name: str, value: str
) -> str:
    """Set what nobody has set, as ``Store.keep_setting``."""
    # It waits for whoever sets it at this moment, so that what is read is there.
    new = dialect.insert(settings).values(name=name, value=value)
    connection.execute(new.on_conflict_do_nothing())
    query = select(settings.c.value).where(settings.c.name == name)
    return str(connection.execute(query).scalar_one())
