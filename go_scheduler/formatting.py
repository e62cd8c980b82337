"""Any value as part of a message."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from reprlib import Repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import timedelta

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

    What a user passes may be long, hold itself or a number that has too many digits to
    be written, or fail to show itself.
    """
    text = _repr.repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."


def brief(value: DataclassInstance) -> str:
    """A dataclass as Python shows it, without the fields that have their default."""
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


def seconds_of(length: timedelta) -> str:
    """A length as an error says it to everybody, whatever they wrote it in."""
    return f"{length.total_seconds():,.6f}".rstrip("0").rstrip(".") + " s"


def safe(text: str) -> str:
    """A text of anybody that does nothing to a terminal but to be read there."""
    return "".join(
        each
        if each.isprintable() or each == "\n"
        else each.encode("unicode_escape", "backslashreplace").decode()
        for each in text
    )
