"""Durations as people write them, in settings and on the command line."""

from __future__ import annotations

import re
from datetime import timedelta

from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown

_NUMBER = r"(\d+(?:\.\d+)?)"
_UNITS = (
    "(?P<milliseconds>ms)|(?P<seconds>s|sec|seconds?)|(?P<minutes>m|min|minutes?)"
    "|(?P<hours>h|hours?)|(?P<days>d|days?)|(?P<weeks>w|weeks?)"
)
_PART = re.compile(rf"\s*{_NUMBER}\s*(?:{_UNITS})(?![a-z])", re.ASCII)


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
            text = value.strip().lower()
            if re.fullmatch(_NUMBER, text, re.ASCII):
                return timedelta(seconds=float(text))
            parts = [*_PART.finditer(text)]
            if parts and "".join(each[0] for each in parts) == text:
                # The group of the unit has the name of the argument of a timedelta.
                lengths = ({str(each.lastgroup): float(each[1])} for each in parts)
                return sum((timedelta(**each) for each in lengths), timedelta())
    except (ValueError, OverflowError):
        pass
    raise ConfigurationError(
        f"{name} must be a number of seconds, or a text such as 90s, 5m, 1h30m or 2d,"
        f" not {shown(value)}"
    )
