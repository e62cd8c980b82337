"""JSON values: what metadata and a trigger's state are made of, made read-only."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import count
from typing import Never, TypeAlias, cast

from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import LONGEST_SHOWN, a, shown

JSON: TypeAlias = (
    bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"] | None
)

_DEEPEST = 100


class FrozenObject(dict[str, JSON]):
    """A JSON object that refuses to be changed."""

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> Never:
        raise TypeError("this value is read-only: make a changed copy instead")

    __setitem__ = __delitem__ = clear = pop = popitem = _refuse
    setdefault = update = __ior__ = _refuse

    def __reduce__(self) -> tuple[type[FrozenObject], tuple[dict[str, JSON]]]:
        return type(self), (dict(self),)


class FrozenArray(list[JSON]):
    """A JSON array that refuses to be changed."""

    __slots__ = ()

    _refuse = FrozenObject._refuse

    __setitem__ = __delitem__ = append = clear = extend = insert = _refuse
    pop = remove = reverse = sort = __iadd__ = __imul__ = _refuse

    def __reduce__(self) -> tuple[type[FrozenArray], tuple[list[JSON]]]:
        return type(self), (list(self),)


NOTHING = FrozenObject()
"""The empty object: one for all that hold none."""


def freeze(value: object, *, name: str, limit: int) -> FrozenObject:
    """A read-only copy of a JSON object, if every store can keep it.

    Args:
        value: The mapping to copy.
        name: What to call it in an error.
        limit: The most bytes its JSON text may have, in UTF-8.

    Raises:
        ConfigurationError: It is no JSON object, too large, or holds what no store can
            keep: NaN, an infinity, a NUL, a lone surrogate, a cycle.
    """
    if type(value) is FrozenObject:
        return value
    return freeze_and_write(value, name=name, limit=limit)[0]


def freeze_and_write(
    value: object, *, name: str, limit: int
) -> tuple[FrozenObject, str]:
    """Do what ``freeze`` does, and return the JSON text as well."""
    if type(value) is FrozenObject:
        return value, to_text(value)
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{name} must be a mapping, not {shown(value)}")
    frozen, text = _freeze_within(value, name, limit)
    assert isinstance(frozen, FrozenObject)
    return frozen, text


def write_value(value: object, *, name: str, limit: int) -> str:
    """Write a JSON value of any kind; refuse what ``freeze`` refuses."""
    return _freeze_within(value, name, limit)[1]


def _freeze_within(value: object, name: str, limit: int) -> tuple[JSON, str]:
    # Each value takes at least a byte. Shared parts may add up to billions of values.
    values_left = count(limit, -1)
    frozen = _freeze(value, (name,), values_left)
    text = to_text(frozen)
    if (size := len(text.encode())) > limit:
        raise ConfigurationError(
            f"{name} is {size} bytes as JSON; at most {limit} are kept: store large"
            " payloads elsewhere and keep a reference to them here"
        )
    return frozen, text


to_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""A JSON value as it is kept in every table."""


def read_value(text: str) -> JSON:
    """Read a JSON text; it takes a third of the time if ``to_text`` wrote it.

    Raises:
        ValueError: It is no JSON.
    """
    try:
        value, end = _decode(text)
        if end == len(text):
            return cast("JSON", value)
    except ValueError:
        # There may be spaces before it.
        pass
    return cast("JSON", json.loads(text))


def read_object(text: str) -> FrozenObject:
    """The read-only object of a JSON text that was checked when it was written.

    Raises:
        ValueError: It is no JSON, or no object.
    """
    if text == "{}":
        return NOTHING
    try:
        # Most texts need no further check.
        if "[" not in text and "\\" not in text and text.count("{") <= _DEEPEST:
            value, end = _plain.raw_decode(text)
            if end == len(text) and isinstance(value, FrozenObject):
                return value
    except ValueError:
        # What is wrong is told below.
        pass
    value = read_frozen(text)
    if not isinstance(value, FrozenObject):
        raise ConfigurationError(f"no JSON object: {text:.80}")
    return value


def read_frozen(text: str) -> JSON:
    """The read-only value, of any kind, of a JSON text.

    Raises:
        ValueError: It is no JSON, or holds what JSON cannot.
    """
    values_left = count(len(text) + 1, -1)
    return _freeze(json.loads(text), ("the text",), values_left)


def _finite(text: str) -> float:
    if math.isfinite(value := float(text)):
        return value
    raise ValueError(text)


_decode = json.JSONDecoder().raw_decode
_plain = json.JSONDecoder(
    object_pairs_hook=FrozenObject, parse_float=_finite, parse_constant=_finite
)


def is_same(one: JSON, other: JSON) -> bool:
    """Whether two values have the same JSON text, unlike ``1 == True`` in Python."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def contains(outer: JSON, inner: JSON) -> bool:
    """Whether every part of ``inner`` is found in ``outer``, as SQL's ``@>`` has it."""
    if isinstance(inner, Mapping):
        return isinstance(outer, Mapping) and all(
            key in outer and contains(outer[key], part) for key, part in inner.items()
        )
    if isinstance(inner, Sequence) and not isinstance(inner, str):
        return (
            isinstance(outer, Sequence)
            and not isinstance(outer, str)
            and all(any(contains(item, part) for item in outer) for part in inner)
        )
    return isinstance(outer, bool) == isinstance(inner, bool) and outer == inner


def check_text(text: str, name: str) -> str:
    """A text, if every store can keep it.

    Args:
        text: The text.
        name: What to call it in an error.

    Raises:
        ConfigurationError: It holds a NUL or a lone surrogate.
    """
    if (flaw := _flaw_of(text)) is not None:
        raise ConfigurationError(f"{name} {flaw}")
    # str() of a member of `class Colour(str, Enum)` would be "Colour.RED".
    return str.__str__(text)


def _flaw_of(text: str) -> str | None:
    if "\0" in text:
        return "holds a NUL, which no database keeps"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "holds a lone surrogate, which no database keeps"
    return None


_Path: TypeAlias = tuple[object, ...]
"""The name of the outermost value, then the keys and indices down to a part."""


def _freeze(value: object, path: _Path, left: Iterator[int]) -> JSON:
    if not next(left):
        raise _refusal(path, "is one value too many")
    if len(path) - 1 > _DEEPEST:
        raise _refusal(path, f"is nested more than {_DEEPEST} deep, or holds itself")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _freeze_text(value, path)
    if isinstance(value, int):
        return _checked_int(value, path)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _refusal(path, f"is {shown(value)}, which JSON cannot hold")
        return float(value)
    if isinstance(value, Mapping):
        return FrozenObject(
            (_key(key, path), _freeze(item, (*path, key), left))
            for key, item in value.items()
        )
    if isinstance(value, list | tuple):
        return FrozenArray(
            _freeze(item, (*path, index), left) for index, item in enumerate(value)
        )
    advice = ": write its .isoformat()" if isinstance(value, date) else ""
    noun = a(type(value).__name__)
    raise _refusal(path, f"is {noun}, which JSON cannot hold{advice}")


def _freeze_text(text: str, path: _Path) -> str:
    if (flaw := _flaw_of(text)) is not None:
        raise _refusal(path, flaw)
    return str.__str__(text)


def _checked_int(value: int, path: _Path) -> int:
    try:
        # Python refuses to write, and databases to read, numbers of many digits.
        str(int(value))
    except ValueError:
        raise _refusal(
            path, "is a number of so many digits that it cannot be written as text"
        ) from None
    return int(value)


def _key(key: object, path: _Path) -> str:
    if not isinstance(key, str):
        raise _refusal(path, f"has the key {shown(key)}; JSON keys are strings")
    return _freeze_text(key, path)


def _refusal(path: _Path, why: str) -> ConfigurationError:
    name, *keys = path
    place = f"{name}{''.join(f'[{shown(key)}]' for key in keys)}"
    if len(place) > LONGEST_SHOWN:
        place = f"{place[:LONGEST_SHOWN]}…"
    return ConfigurationError(f"{place} {why}")


def write_instant(at: datetime) -> str:
    """An instant in UTC as JSON has it everywhere: RFC 3339, with a Z."""
    return at.isoformat().removesuffix("+00:00") + "Z"
