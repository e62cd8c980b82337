"""Durations as people write them, in settings and on the command line."""

from __future__ import annotations

import re
from datetime import timedelta

from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown

_UNITS = {
    word: unit
    for unit, words in {
        "milliseconds": "ms",
        "seconds": "s sec second seconds",
        "minutes": "m min minute minutes",
        "hours": "h hour hours",
        "days": "d day days",
        "weeks": "w week weeks",
    }.items()
    for word in words.split()
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)", re.ASCII)
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)


def read_duration(value: object, name: str = "a duration") -> timedelta:
    """Parse a duration: seconds, or text such as ``5m`` or ``1h 30m``.

    Args:
        value: A number of seconds, or text.
        name: The name of the value in an error.

    Raises:
        ConfigurationError: It is no duration.
    """
    if isinstance(value, timedelta):
        return value
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return timedelta(seconds=value)
        if isinstance(value, str):
            return _read_text(value.strip().lower())
    except (ValueError, OverflowError):
        pass
    raise ConfigurationError(
        f"{name} must be a number of seconds, or a text such as 90s, 5m, 1h30m or 2d,"
        f" not {shown(value)}"
    )


def _read_text(text: str) -> timedelta:
    if _NUMBER.fullmatch(text):
        return timedelta(seconds=float(text))
    found, end = timedelta(), 0
    while part := _PART.match(text, end):
        number, unit = part.groups()
        if unit not in _UNITS:
            raise ValueError(unit)
        found += timedelta(**{_UNITS[unit]: float(number)})
        end = part.end()
    if not end or end != len(text):
        raise ValueError(text)
    return found
