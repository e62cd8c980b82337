"""Arrays as PostgreSQL's protocol has them in binary: one for each column of a batch.

psycopg would write them too, but value by value, with a search for the type of each.
That takes longer than the server needs for the whole statement.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from struct import Struct, error
from typing import TYPE_CHECKING, Any

from psycopg import errors
from psycopg.adapt import Dumper
from psycopg.pq import Format

from go_scheduler.stores.sql.rows import to_microseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID

    from psycopg.abc import AdaptContext

_NULL = b"\xff\xff\xff\xff"
_TRUE, _FALSE = b"\0\0\0\1\1", b"\0\0\0\1\0"
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
# Dimensions, flags, the type of the elements; how many they are, the first index.
_head = Struct("!iiIii").pack
# Each element after its length.
_number = Struct("!iq").pack
_length = Struct("!i").pack
_LENGTH_OF_ID = 16 << 128


class Ids(tuple["UUID", ...]):
    """Ids, as ``uuid[]``."""


class Numbers(tuple["int | None", ...]):
    """Whole numbers, as ``bigint[]``."""


class Durations(tuple["timedelta | None", ...]):
    """Durations, as ``bigint[]``: in microseconds."""


class Truths(tuple[bool, ...]):
    """Truth values, as ``boolean[]``."""


class Times(tuple["datetime | None", ...]):
    """Times, as ``timestamptz[]``."""


class Texts(tuple["str | None", ...]):
    """Texts, as ``text[]``."""


BY_KIND: Mapping[str, Callable[[Iterable[Any]], object]] = {
    "uuid": Ids,
    "bigint": Numbers,
    "duration": Durations,
    "boolean": Truths,
    "timestamptz": Times,
    "text": Texts,
    "word": Texts,
}
"""What the values of a column of a batch become, by its kind."""


def _array(element: int, values: Sequence[bytes]) -> bytes:
    """An array of values of a type, each of which stands after its length."""
    return _head(1, 0, element, len(values), 1) + b"".join(values)


class _IdsDumper(Dumper):
    format, oid = Format.BINARY, 2951

    def dump(self, obj: Ids) -> bytes:
        return _array(2950, [(_LENGTH_OF_ID | each.int).to_bytes(20) for each in obj])


class _NumbersDumper(Dumper):
    format, oid = Format.BINARY, 1016

    def dump(self, obj: Numbers) -> bytes:
        return _array(20, [_NULL if each is None else _whole(each) for each in obj])


def _whole(number: int) -> bytes:
    try:
        return _number(8, number)
    except error:
        raise errors.DataError(f"the number {number} is out of range") from None


class _DurationsDumper(Dumper):
    format, oid = Format.BINARY, 1016

    def dump(self, obj: Durations) -> bytes:
        written = [
            _NULL if each is None else _whole(to_microseconds(each)) for each in obj
        ]
        return _array(20, written)


class _TruthsDumper(Dumper):
    format, oid = Format.BINARY, 1000

    def dump(self, obj: Truths) -> bytes:
        return _array(16, [_TRUE if each else _FALSE for each in obj])


class _TimesDumper(Dumper):
    format, oid = Format.BINARY, 1185

    def dump(self, obj: Times) -> bytes:
        return _array(1184, [_NULL if each is None else _time(each) for each in obj])


# Many times of a batch are the same. In UTC equal ones are one instant; in another
# zone, when clocks are set back, they may be two.
def _time(at: datetime) -> bytes:
    return _time_in_utc(at if at.tzinfo is UTC else at.astimezone(UTC))


@lru_cache(maxsize=4096)
def _time_in_utc(at: datetime) -> bytes:
    return _number(8, to_microseconds(at - _EPOCH))


class _TextsDumper(Dumper):
    format, oid = Format.BINARY, 1009

    def dump(self, obj: Texts) -> bytes:
        # Many texts of a batch are the same.
        written = {each: _text(each) for each in set(obj)}
        return _array(25, [written[each] for each in obj])


def _text(text: str | None) -> bytes:
    if text is None:
        return _NULL
    if "\0" in text:
        # Of texts in this form only PostgreSQL looks for it.
        raise errors.DataError("a text holds a NUL, which no database keeps")
    data = text.encode()
    return _length(len(data)) + data


def know_arrays(connection: AdaptContext) -> None:
    """Let a connection of psycopg's take arrays of these classes."""
    for kind, dumper in _DUMPERS.items():
        connection.adapters.register_dumper(kind, dumper)


_DUMPERS: Mapping[type, type[Any]] = {
    Ids: _IdsDumper,
    Numbers: _NumbersDumper,
    Durations: _DurationsDumper,
    Truths: _TruthsDumper,
    Times: _TimesDumper,
    Texts: _TextsDumper,
}
