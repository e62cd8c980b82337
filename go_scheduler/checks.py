"""Checks of arguments, each with a message that says what was expected and found."""

from __future__ import annotations

import inspect
import re
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from go_scheduler.clock import CENTURY, ZERO
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import a, seconds_of, shown
from go_scheduler.json import check_text

if TYPE_CHECKING:
    from collections.abc import Callable

NAME_LIMIT = 200
"""The most characters a definition's name, or a queue's, may have."""

_ID = re.compile(
    r"[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}|[\da-f]{32}", re.ASCII | re.IGNORECASE
)

KEY_LIMIT = 2000
"""The most characters that the key of a definition may have."""

NOTE_LIMIT = 10_000
"""The most characters that the note of a pause may have."""

TRACE_CONTEXT_LIMIT = 600
"""The most characters that the context of a trace may have."""

_LATEST_VERSION = 2**63 - 1

PRIORITIES = range(4)
"""The classes of priority; what is in a smaller one goes first."""

LEAST_EXPIRE_AFTER = timedelta(milliseconds=100)
"""The shortest ``expire_after``. To record a start and call the handler takes a call of
the store, and some milliseconds on a busy machine."""

LONGEST = CENTURY
"""The longest duration that an argument may have: 100 years."""


_SUCH_AS = {
    "CatchUp": "CatchUp(mode='all')",
    "RetryPolicy": "RetryPolicy(max_attempts=5)",
    "Trigger": "CronTrigger('0 9 * * *')",
    "timedelta": "timedelta(seconds=300)",
}
"""Examples, by the name of the type, for types that people often get wrong."""


def check_type(name: str, value: object, kind: type) -> None:
    """Refuse a value of another type; a bool does not count as an int.

    Raises:
        ConfigurationError: It is of another type.
    """
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _other_type(name, value, kind)


def check_made(name: str, value: object, kind: type, *, opener: str) -> None:
    """Refuse what is no store or bus. A URL is not shown: it may hold a password.

    Args:
        name: What it is for.
        value: What was given.
        kind: The type that it must have.
        opener: The function that opens one by its URL, with its module.

    Raises:
        ConfigurationError: It is of another type.
    """
    if isinstance(value, str):
        raise ConfigurationError(
            f"{name} must be {a(kind.__name__)}, and not text: {opener}, makes one of a"
            " URL"
        )
    check_type(name, value, kind)


def check_takes_one(name: str, called: Callable[..., object], *, argument: str) -> None:
    """Refuse what cannot be called with one argument.

    Args:
        name: What is called.
        called: The callable itself.
        argument: What it is called with.

    Raises:
        ConfigurationError: It takes none, or needs more.
    """
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):
        return  # Some built-in callables have no signature.
    try:
        signature.bind(None)
    except TypeError as error:
        takes = signature if signature.parameters else "none"
        raise ConfigurationError(
            f"{name} is called with one argument, {argument}, and takes {takes}:"
            f" {error}; {shown(called)}"
        ) from None


def check_name(name: str, value: object, *, most: int = NAME_LIMIT) -> str:
    """Check a name: a short text that every store can keep.

    Returns:
        The text, as a plain one if it was of a subclass of ``str``.

    Raises:
        ConfigurationError: It is no text, empty, too long, or holds a NUL or a
            surrogate.
    """
    check_type(name, value, str)
    assert isinstance(value, str)
    if not 0 < len(value) <= most:
        raise ConfigurationError(
            f"{name} must have 1 to {most} characters, not {len(value)}"
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
            f"{name} must be longer than zero and at most 100 years:"
            f" {seconds_of(value)}"
        )


def check_at_least(name: str, value: object, least: timedelta) -> None:
    """Refuse what is not a timedelta of at least ``least``.

    Raises:
        ConfigurationError: It is no timedelta, shorter, or longer than 100 years.
    """
    check_type(name, value, timedelta)
    assert isinstance(value, timedelta)
    if not least <= value <= LONGEST:
        raise ConfigurationError(
            f"{name} must be at least {seconds_of(least)} and at most 100"
            f" years: {seconds_of(value)}"
        )


def check_number(name: str, value: object, least: int, most: int | None = None) -> int:
    """Check that a value is a whole number within bounds.

    Args:
        name: The name of the argument, for the error message.
        value: Its value.
        least: The lowest number that is allowed.
        most: The highest; None: any.

    Returns:
        The number.

    Raises:
        ConfigurationError: It is no whole number, or out of bounds.
    """
    check_type(name, value, int)
    assert isinstance(value, int)
    if value < least or (most is not None and value > most):
        within = f"at least {least:,}"
        if most is not None:
            within = f"from {least:,} to {most:,}"
        raise ConfigurationError(f"{name} must be {within}: {shown(value)}")
    return value


def check_policy(name: str, value: object, kind: type) -> None:
    """Refuse another type, and subclasses: no store would keep the fields they add.

    Raises:
        ConfigurationError: It is of another type.
    """
    if type(value) is not kind:
        raise _other_type(name, value, kind)


def check_key(value: object) -> str:
    """Check the key of a definition: a text that is no id, and that stores can keep.

    Returns:
        The text, as a plain one if it was of a subclass of ``str``.

    Raises:
        ConfigurationError: It is no text, empty, too long, a UUID, or holds a NUL or a
            surrogate.
    """
    key = check_name("key", value, most=KEY_LIMIT)
    if parse_id(key) is not None:
        raise ConfigurationError(
            f"key must be no UUID, which would be taken for an id: {shown(key)}"
        )
    return key


def parse_id(text: str) -> UUID | None:
    """The id of a text; None: it is no id, in neither of its two usual forms."""
    return UUID(text) if _ID.fullmatch(text) else None


def check_note(value: object) -> str:
    """Check a note: a text that every store can keep.

    Returns:
        The text, as a plain one if it was of a subclass of ``str``.

    Raises:
        ConfigurationError: It is no text, too long, or holds a NUL or a surrogate.
    """
    check_type("note", value, str)
    assert isinstance(value, str)
    if len(value) > NOTE_LIMIT:
        raise ConfigurationError(
            f"note has {len(value)} characters; at most {NOTE_LIMIT} are kept"
        )
    return check_text(value, "note")


def check_trace_context(value: object) -> str:
    """Check the context of a trace: a text that every store can keep.

    Returns:
        The text, as a plain one if it was of a subclass of ``str``.

    Raises:
        ConfigurationError: It is no text of visible ASCII characters, or too long.
    """
    check_type("trace_context", value, str)
    assert isinstance(value, str)
    if not 0 < len(value) <= TRACE_CONTEXT_LIMIT:
        raise ConfigurationError(
            f"trace_context has {len(value)} characters; it must have at least one, and"
            f" at most {TRACE_CONTEXT_LIMIT}"
        )
    if not (value.isascii() and value.isprintable()):
        raise ConfigurationError(
            "trace_context must be ASCII, such as the traceparent of W3C:"
            f" {shown(value)}"
        )
    return str(value)


def check_id(value: object) -> None:
    """Refuse what is not a UUID.

    Raises:
        ConfigurationError: It is none.
    """
    if isinstance(value, str):
        raise ConfigurationError(
            f"id must be a UUID, not {shown(value)}: give a text as key, which makes"
            " the same id each time"
        )
    check_type("id", value, UUID)


def check_definition_id(value: object) -> None:
    """Refuse what is not the id of a definition.

    Raises:
        ConfigurationError: It is no UUID.
    """
    if isinstance(value, str):
        raise ConfigurationError(
            f"definition_id must be a UUID, not {shown(value)}:"
            f" TaskDefinition.id_for({shown(value)}) makes one of a key, and"
            " id_for('task ' + name) is that of a task"
        )
    if isinstance(getattr(value, "id", None), UUID):
        raise ConfigurationError(
            f"definition_id must be a UUID, not {a(type(value).__name__)}: pass its id"
        )
    check_type("definition_id", value, UUID)


def check_version(value: object) -> None:
    """Check the version of a declared set; a set may have none.

    Raises:
        ConfigurationError: It is no whole number, or out of range.
    """
    if value is not None:
        check_number("version", value, 0, _LATEST_VERSION)


def _other_type(name: str, value: object, kind: type) -> ConfigurationError:
    noun = kind.__name__
    expected = a(noun)
    if noun in _SUCH_AS:
        expected = f"{expected}, such as {_SUCH_AS[noun]}"
    is_class = isinstance(value, type) and issubclass(value, kind)
    advice = ": that is the class, call it" if is_class else ""
    return ConfigurationError(f"{name} must be {expected}, not {shown(value)}{advice}")
