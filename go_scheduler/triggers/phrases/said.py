"""Answers of the rules of the grammar, on the way to the parts of a phrase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from go_scheduler.triggers.phrases.phrase_words import Word

if TYPE_CHECKING:
    from collections.abc import Sequence

Said: TypeAlias = Mapping[str, object]
"""The answer of one rule of the grammar, by the names of ``Parts``."""


def values_of(children: Sequence[Any]) -> list[Any]:
    """The values that the words of a list stand for."""
    return [
        each.value if isinstance(each, Word) else each
        for each in children
        if type_of(each) not in ("AND", "AT")
    ]


def type_of(child: object) -> str | None:
    """The terminal of a word; None for what has been read already."""
    return child.type if isinstance(child, Word) else None
