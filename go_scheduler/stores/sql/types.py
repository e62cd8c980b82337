"""Column types that every engine keeps exactly, and that never fail when read.

A row that was written by other means than this package may hold anything. Its value is
read as ``UNREADABLE``: it affects its own row, and not all that are fetched with it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from sqlalchemy import CHAR, TIMESTAMP, BigInteger, Text, TypeDecorator, Uuid

from go_scheduler.json import (
    JSON,
    FrozenObject,
    read_frozen,
    read_object,
    to_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy.engine import Dialect
    from sqlalchemy.types import TypeEngine

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Unreadable:
    """A value in the database that is none of ours, such as a time past 9999."""

    def __repr__(self) -> str:
        return "an unreadable value"


UNREADABLE: Final = Unreadable()


def to_microseconds(duration: timedelta) -> int:
    """A duration as durations are kept in every table."""
    return duration // _MICROSECOND


def from_microseconds(count: int) -> timedelta:
    """The duration that was kept as this."""
    return timedelta(microseconds=count)


def to_sqlite_time(at: datetime) -> int:
    """A time as SQLite keeps it: microseconds since 1970, in UTC."""
    return (at - _EPOCH) // _MICROSECOND


# Most values have been read just before: the times of a batch, the same few keys.
@lru_cache(maxsize=4096)
def from_sqlite_time(value: object) -> datetime | Unreadable | None:
    """The time that SQLite keeps as this."""
    if value is None:
        return None
    if not isinstance(value, int):
        return UNREADABLE
    try:
        return _EPOCH + timedelta(microseconds=value)
    except OverflowError:
        return UNREADABLE


@lru_cache(maxsize=4096)
def from_server_time(value: object) -> datetime | Unreadable | None:
    """The time that a server whose time zone is UTC writes as this text.

    A connection of the user's has read it already, in whatever zone is the user's.
    """
    if value is None:
        return None
    try:
        if isinstance(value, datetime):
            return value.astimezone(UTC)
        return datetime.fromisoformat(str(value))
    except (ValueError, OverflowError):
        return UNREADABLE


def to_sqlite_id(id: UUID) -> str:
    """An id as SQLite keeps it: 32 hexadecimal digits."""
    return id.hex


@lru_cache(maxsize=4096)
def from_sqlite_id(value: object) -> UUID | Unreadable | None:
    """The id that SQLite keeps as this."""
    if value is None:
        return None
    try:
        found = UUID(int=int(value, 16))  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return UNREADABLE
    # An id in capitals, or with hyphens, is one that no statement would find again.
    return found if found.hex == value else UNREADABLE


class _Exact(TypeDecorator[Any]):
    """A value that SQLite has no type of its own for."""

    cache_ok = True
    _to_sqlite: Callable[[Any], object]
    _from_sqlite: Callable[[object], object]

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any] | None:
        if dialect.name != "sqlite":
            return None
        convert = type(self)._to_sqlite
        return lambda value: None if value is None else convert(value)

    def result_processor(
        self, dialect: Dialect, coltype: object
    ) -> Callable[[Any], Any] | None:
        return type(self)._from_sqlite if dialect.name == "sqlite" else None


class Time(_Exact):
    """An aware instant, to the microsecond."""

    impl = TIMESTAMP(timezone=True)
    cache_ok = True
    _to_sqlite = staticmethod(to_sqlite_time)
    _from_sqlite = staticmethod(from_sqlite_time)

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """A whole number on SQLite."""
        if dialect.name == "sqlite":
            return dialect.type_descriptor(BigInteger())
        return dialect.type_descriptor(TIMESTAMP(timezone=True))

    def result_processor(
        self, dialect: Dialect, coltype: object
    ) -> Callable[[Any], Any] | None:
        """A server's text is read here: the driver is slow to."""
        return super().result_processor(dialect, coltype) or from_server_time


class Id(_Exact):
    """A UUID."""

    impl = Uuid
    cache_ok = True
    _to_sqlite = staticmethod(to_sqlite_id)
    _from_sqlite = staticmethod(from_sqlite_id)

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Text on SQLite."""
        if dialect.name == "sqlite":
            return dialect.type_descriptor(CHAR(32))
        return dialect.type_descriptor(Uuid())


class Object(TypeDecorator[Any]):
    """A JSON object, as text: no JSON type keeps every number as it is."""

    impl = Text
    cache_ok = True

    def process_bind_param(
        self, value: Mapping[str, JSON] | None, dialect: Dialect
    ) -> str | None:
        """Its text."""
        return None if value is None else to_text(value)

    def process_result_value(
        self, value: object, dialect: Dialect
    ) -> FrozenObject | Unreadable | None:
        """The object, read-only."""
        if value is None:
            return None
        try:
            return read_object(str(value))
        except (ValueError, RecursionError):
            return UNREADABLE


class Value(TypeDecorator[Any]):
    """A JSON value of any kind, as text; written as text, and read as the value."""

    impl = Text
    cache_ok = True

    def process_result_value(self, value: object, dialect: Dialect) -> object:
        """The value, read-only."""
        if value is None:
            return None
        try:
            return read_frozen(str(value))
        except (ValueError, RecursionError):
            return UNREADABLE
