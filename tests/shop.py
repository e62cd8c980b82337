"""A user's table in the store's database, for what commits with the user's own rows."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sqlalchemy import (
    Column,
    Integer,
    MetaData,
    Table,
    create_engine,
    func,
    insert,
    make_url,
    select,
)

from go_scheduler import current_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection
    from sqlalchemy.orm import Session

    Begin = Callable[[], AbstractContextManager[Connection | Session]]

METADATA = MetaData()
ORDERS = Table("orders", METADATA, Column("id", Integer, primary_key=True))


class RollBack(Exception):
    """Ends a transaction."""


class Shop:
    """A user's table, in the database that the store is in."""

    def __init__(self, url: str) -> None:
        given = make_url(url)
        if not given.drivername.startswith("sqlite"):
            scheme = given.drivername.partition("+")[0]
            given = given.set(drivername=f"{scheme}+psycopg")
        self.url = given
        self.engine = create_engine(given)

    def order(self, connection: Connection | Session) -> None:
        """Write a row of the user's."""
        connection.execute(insert(ORDERS))

    def complete(self, *, commits: bool = True) -> None:
        """Write such a row, and complete the run with it."""
        with suppress(RollBack), self.engine.begin() as connection:
            self.order(connection)
            current_run().complete_in(connection)
            if not commits:
                raise RollBack

    @property
    def orders(self) -> int:
        """How many of them have been committed."""
        with self.engine.connect() as connection:
            return connection.scalar(select(func.count()).select_from(ORDERS)) or 0
