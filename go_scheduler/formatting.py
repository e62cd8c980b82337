"""Values as text in messages: any value, durations, times."""

from __future__ import annotations

import re
from dataclasses import MISSING, Field, fields
from datetime import UTC, datetime, timedelta
from reprlib import Repr
from typing import TYPE_CHECKING, Any

from go_scheduler.errors import ConfigurationError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


LONGEST_SHOWN = 200
"""The most characters of a value that a message repeats."""

_AN = (*"aeioAEIO", "hour", "uns")


class _Repr(Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxstring = self.maxother = LONGEST_SHOWN

    def repr1(self, x: object, level: int) -> str:
        try:
            return super().repr1(x, level)
        except Exception:
            return f"<{type(x).__name__}>"


_repr = _Repr()


def shown(value: object) -> str:
    """A value as Python shows it, shortened; its type where it cannot be shown.

    A user's value may be long, contain itself, contain a number with too many digits to
    write, or have a ``repr`` that fails.
    """
    text = _repr.repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."


def brief(value: DataclassInstance) -> str:
    """The ``repr`` of a dataclass, without fields that have their default."""
    said = (
        f"{each.name}={getattr(value, each.name)!r}"
        for each in fields(value)
        if each.repr and getattr(value, each.name) != _default_of(each)
    )
    return f"{type(value).__name__}({', '.join(said)})"


def _default_of(field: Field[Any]) -> object:
    made = field.default_factory
    return field.default if made is MISSING else made()


def a(noun: str) -> str:
    """A noun with its article, such as ``an int`` and ``a str``; ``bytes`` has none."""
    if noun == "bytes":
        return noun
    return f"{'an' if noun.startswith(_AN) else 'a'} {noun}"


_UNITS = (
    ("d", timedelta(days=1)),
    ("h", timedelta(hours=1)),
    ("min", timedelta(minutes=1)),
    ("s", timedelta(seconds=1)),
    ("ms", timedelta(milliseconds=1)),
)


def duration_text(duration: timedelta) -> str:
    """A duration in its two largest units, such as ``1 h 30 min``, for sentences."""
    parts: list[str] = []
    for name, unit in _UNITS:
        number, duration = divmod(duration, unit)
        if number and len(parts) < 2:
            parts.append(f"{number} {name}")
    return " ".join(parts) or "less than 1 ms"


def write_duration(duration: timedelta) -> str:
    """A duration as settings and options have it, such as ``1h30m``; it is exact."""
    seconds = duration // timedelta(seconds=1)
    rest = (duration - timedelta(seconds=seconds)) // timedelta(microseconds=1)
    days, seconds = divmod(seconds, 86_400)
    hours, seconds = divmod(seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    parts = [
        f"{n}{unit}" for n, unit in ((days, "d"), (hours, "h"), (minutes, "m")) if n
    ]
    if seconds or rest or not parts:
        fraction = f".{rest:06}".rstrip("0") if rest else ""
        parts.append(f"{seconds}{fraction}s")
    return "".join(parts)


def seconds_of(length: timedelta) -> str:
    """A duration in seconds, such as ``1.5 s``, for the errors of arguments."""
    return f"{length.total_seconds():,.6f}".rstrip("0").rstrip(".") + " s"


def clock_text(at: datetime, fraction: str = "microseconds") -> str:
    """A time as its own clock shows it, without the zone.

    Args:
        at: The time.
        fraction: How much follows the seconds, unless that is zero.
    """
    precision = fraction if at.microsecond else "seconds"
    return at.replace(tzinfo=None).isoformat(" ", precision)


def utc_text(at: datetime) -> str:
    """A time in UTC to the second, such as ``2030-01-01 09:00:00 UTC``."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def safe(text: str) -> str:
    """Untrusted text, without characters that could control a terminal."""
    return "".join(
        each
        if each.isprintable() or each == "\n"
        else each.encode("unicode_escape", "backslashreplace").decode()
        for each in text
    )


def summary(error: str) -> str:
    """The line of a traceback that says what was raised; else the first line."""
    # In an exception group's traceback each line begins with a rule, "|".
    lines = [each.removeprefix("  | ") for each in error.strip().splitlines()] or [""]
    frames = [i for i, line in enumerate(lines) if line.startswith("  File ")]
    behind = lines[frames[-1] :] if frames else lines
    return next(
        (line for line in behind if not line.startswith(" ")), lines[-1].strip()
    )


_NUMBER = r"(\d+(?:\.\d+)?)"
_UNIT = (
    "(?P<milliseconds>ms)|(?P<seconds>s|sec|seconds?)|(?P<minutes>m|min|minutes?)"
    "|(?P<hours>h|hours?)|(?P<days>d|days?)|(?P<weeks>w|weeks?)"
)
_PART = re.compile(rf"\s*{_NUMBER}\s*(?:{_UNIT})(?![a-z])", re.ASCII)


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
