"""Between values and the texts that a Redis store keeps of them.

A time is 18 digits, the microseconds since the year 1: such texts are in the order of
the times, and any time that Python has is one. An id is 32 hexadecimal digits.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from secrets import token_hex
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from go_scheduler.stores.sql.types import UNREADABLE, Unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIRST = datetime.min.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# A number that a script can reckon with: 142 years.
_MOST = 2**52

Value = TypeVar("Value")


def time_text(at: datetime) -> str:
    """The text of an aware time."""
    since = at - _FIRST
    return f"{since.days * 86400 + since.seconds:012d}{since.microseconds:06d}"


def maybe_time_text(at: datetime | None) -> str | None:
    """The text of a time, if it is one."""
    return None if at is None else time_text(at)


# Most values have been read just before: the times of a batch, the same few ids.
@lru_cache(maxsize=4096)
def read_time(text: str | None) -> datetime | Unreadable | None:
    """The time of a text."""
    if text is None:
        return None
    try:
        return _FIRST + timedelta(seconds=int(text[:12]), microseconds=int(text[12:]))
    except (ValueError, OverflowError):
        return UNREADABLE


@lru_cache(maxsize=4096)
def read_id(text: str | None) -> UUID | Unreadable | None:
    """The id of a text."""
    if text is None:
        return None
    try:
        return UUID(hex=text)
    except ValueError:
        return UNREADABLE


def micros(duration: timedelta) -> int:
    """A duration in microseconds, as far as a script can reckon."""
    return max(-_MOST, min(duration // _MICROSECOND, _MOST))


def fresh_id() -> str:
    """The text of a random id."""
    digits = token_hex(16)
    return f"{digits[:12]}4{digits[13:16]}a{digits[17:]}"


def present(values: Mapping[str, Value | None]) -> dict[str, Value]:
    """Those that are there: a script takes what is absent for nothing."""
    return {name: value for name, value in values.items() if value is not None}
