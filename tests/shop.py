"""A user's table in the store's database, for what commits with the user's own rows."""

from __future__ import annotations

from contextlib import contextmanager, suppress
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
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from sqlalchemy import URL, Connection, Engine
    from sqlalchemy.orm import Session

    Begin = Callable[[], AbstractContextManager[Connection | Session]]

METADATA = MetaData()
ORDERS = Table("orders", METADATA, Column("id", Integer, primary_key=True))


class RollBack(Exception):
    """Ends a transaction."""


def with_driver(url: str) -> URL:
    """The URL of a store as users give it to SQLAlchemy."""
    given = make_url(url)
    if given.drivername.startswith("sqlite"):
        return given
    scheme = given.drivername.partition("+")[0]
    return given.set(drivername=f"{scheme}+psycopg")


@contextmanager
def engine_of(url: str) -> Iterator[Engine]:
    """A user's engine for the database of a store."""
    engine = create_engine(with_driver(url))
    yield engine
    engine.dispose()


class Shop:
    """A user's table, in the database that the store is in."""

    def __init__(self, url: str) -> None:
        self.url = with_driver(url)
        self.engine = create_engine(self.url)

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
