"""Checks of arguments, each with a message that says what was expected and found."""

from __future__ import annotations

from datetime import timedelta

from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError
from go_scheduler.json import check_text

NAME_LIMIT = 200
"""The most characters a definition's name, or a queue's, may have."""

LONGEST = timedelta(days=36_525)
"""The longest duration that an argument may have: 100 years."""


def check_type(name: str, value: object, kind: type) -> None:
    """Refuse a value of another type; a bool is no int.

    Raises:
        ConfigurationError: It is of another type.
    """
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ConfigurationError(
            f"{name} must be {_article(kind.__name__)}, not {value!r:.200}"
        )


def check_name(name: str, value: object) -> str:
    """A short text, if every store can keep it.

    Returns:
        The text, as a plain one if it was of a subclass of ``str``.

    Raises:
        ConfigurationError: It is no text, empty, too long, or holds a NUL or a
            surrogate.
    """
    check_type(name, value, str)
    assert isinstance(value, str)
    if not 0 < len(value) <= NAME_LIMIT:
        raise ConfigurationError(
            f"{name} must have 1 to {NAME_LIMIT} characters, not {len(value)}"
        )
    return check_text(value, name)


def check_positive(name: str, value: object) -> None:
    """Refuse what is not a timedelta above zero.

    Raises:
        ConfigurationError: It is no timedelta, zero, negative, or longer than 100
            years.
    """
    check_type(name, value, timedelta)
    assert isinstance(value, timedelta)
    if not ZERO < value <= LONGEST:
        raise ConfigurationError(
            f"{name} must be longer than zero and at most 100 years: {value!r}"
        )


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeio' else 'a'} {noun}"
