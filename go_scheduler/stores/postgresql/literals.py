"""Arrays as PostgreSQL reads them from text, which every driver can send.

A small batch is one array literal a column. So is any on a connection of the user's.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from go_scheduler.stores.sql.rows import to_microseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID


def ids(values: Iterable[UUID]) -> str:
    """Ids, to be cast to ``uuid[]``."""
    # Digits without hyphens, which a server reads as well, take half the time.
    return _array([each.hex for each in values])


def numbers(values: Iterable[int | None]) -> str:
    """Whole numbers, to be cast to ``bigint[]``."""
    return _array(["NULL" if each is None else str(each) for each in values])


def truths(values: Iterable[bool]) -> str:
    """Truth values, to be cast to ``boolean[]``."""
    return _array(["t" if each else "f" for each in values])


def times(values: Iterable[datetime | None]) -> str:
    """Times, to be cast to ``timestamptz[]``."""
    return _array(["NULL" if each is None else _time(each) for each in values])


def words(values: Iterable[str | None]) -> str:
    """Words of letters alone, to be cast to ``text[]``."""
    return _array(["NULL" if each is None else each for each in values])


def texts(values: Iterable[str | None]) -> str:
    """Texts of any kind, to be cast to ``text[]``."""
    return _array(["NULL" if each is None else _quoted(each) for each in values])


def _time(at: datetime) -> str:
    # UTC, for a server reads no offset of other than whole minutes.
    return _written(at if at.tzinfo is UTC else at.astimezone(UTC))


# Many times of a batch are the same; in UTC equal ones are written alike.
@lru_cache(maxsize=4096)
def _written(at: datetime) -> str:
    return at.isoformat()


def _array(items: Sequence[str]) -> str:
    return f"{{{','.join(items)}}}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def durations(values: Iterable[timedelta | None]) -> str:
    """Durations in microseconds, to be cast to ``bigint[]``."""
    return numbers(None if each is None else to_microseconds(each) for each in values)


BY_KIND: Mapping[str, Callable[[Iterable[Any]], str]] = {
    "uuid": ids,
    "bigint": numbers,
    "duration": durations,
    "boolean": truths,
    "timestamptz": times,
    "text": texts,
    "word": words,
}
"""What writes the values of a column of a batch, by its kind."""
