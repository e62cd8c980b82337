"""Types of values that are JSON as they are, and what is one of them."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin

Read: TypeAlias = Callable[[object], object]
"""A value as a handler takes it, from what was enqueued or stored.

Raises:
    ValueError: It is not of the type.
"""

_SCALARS: tuple[tuple[object, tuple[type, ...]], ...] = (
    (bool, (bool,)),
    (int, (int,)),
    (float, (float, int)),
    (str, (str,)),
    (None, (type(None),)),
    (type(None), (type(None),)),
)
_CHOICES = (bool, int, str, type(None))


def plain_type(annotation: object) -> Read | None:
    """What reads the values of a type; None: it is none of those that are plain.

    It is the same with pydantic and without: who enqueues may not have it, who runs
    may.
    """
    if annotation in (Any, object):
        return _anything
    kind = get_origin(annotation) or annotation
    within = get_args(annotation)
    if kind is Literal:
        return _choice(within)
    if kind not in (Union, types.UnionType, list, tuple, dict):
        return _scalar(annotation)
    parts = [plain_type(each) for each in within if each is not ...]
    known = [each for each in parts if each is not None]
    if len(known) < len(parts):
        return None
    if kind is list:
        return _array(*known)
    if kind is tuple:
        # tuple[()] is the empty one, and tuple any.
        is_any = not hasattr(annotation, "__args__")
        return _tuple(known, repeats=is_any or ... in within)
    if kind is dict:
        return _object(known[1] if known else _anything) if _has_names(within) else None
    return _either(known)


def _anything(value: object) -> object:
    return value


def _scalar(annotation: object) -> Read | None:
    kinds = next((kinds for kind, kinds in _SCALARS if kind is annotation), None)
    if kinds is None:
        return None

    def read(value: object) -> object:
        is_stray_bool = isinstance(value, bool) and bool not in kinds
        if is_stray_bool or not isinstance(value, kinds):
            raise ValueError(value)
        return value

    return read


def _choice(words: tuple[object, ...]) -> Read | None:
    def read(value: object) -> object:
        # Unlike 1, True is no 1.
        if not any(type(value) is type(each) and value == each for each in words):
            raise ValueError(value)
        return value

    return read if all(type(each) in _CHOICES for each in words) else None


def _either(types: list[Read]) -> Read:
    def read(value: object) -> object:
        for each in types:
            try:
                return each(value)
            except ValueError:
                continue
        raise ValueError(value)

    return read


def _array(item: Read = _anything) -> Read:
    def read(value: object) -> object:
        return [item(each) for each in _items(value)]

    return read


def _tuple(items: list[Read], *, repeats: bool) -> Read:
    def read(value: object) -> object:
        given = _items(value)
        if repeats:
            item = items[0] if items else _anything
            return tuple(map(item, given))
        if len(given) != len(items):
            raise ValueError(value)
        return tuple(item(each) for item, each in zip(items, given, strict=True))

    return read


def _object(item: Read) -> Read:
    def read(value: object) -> object:
        if not isinstance(value, Mapping):
            raise ValueError(value)
        return {name: item(each) for name, each in value.items()}

    return read


def _items(value: object) -> list[object] | tuple[object, ...]:
    """What is in a JSON array, which a tuple becomes as well."""
    if not isinstance(value, list | tuple):
        raise ValueError(value)
    return value


def _has_names(within: tuple[object, ...]) -> bool:
    """Whether the keys of a dict may be those of a JSON object."""
    return not within or within[0] in (str, Any, object)
