"""Makes and copies frozen values whose fields need no check, and so takes less time."""

from __future__ import annotations

import os
from dataclasses import MISSING, Field, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import DataclassInstance

Fields = ParamSpec("Fields")
Value = TypeVar("Value", bound="DataclassInstance")


def trusted(kind: Callable[Fields, Value]) -> Callable[Fields, Value]:
    """Make a function that builds values of a class without its checks.

    A frozen class has to set each field by ``object.__setattr__``, which is slow. Here
    the fields are set on an object of a plain class with the same slots, whose class is
    then changed to ``kind``. Fields may also be given by position, which is faster
    still if there are many.

    Args:
        kind: A frozen dataclass whose slots are its fields. Its defaults are shared.
    """
    known = cast("type[Value]", kind)
    names = [each.name for each in fields(known)]
    draft = type(known.__name__, (), {"__slots__": names})
    lines = [
        f"def make({', '.join(map(_parameter, fields(known)))}):",
        "    value = new(draft)",
        *(f"    value.{name} = {name}" for name in names),
        "    value.__class__ = known",
        "    return value",
    ]
    scope: dict[str, Any] = {
        "new": object.__new__,
        "draft": draft,
        "known": known,
        "default": {each.name: _default(each) for each in fields(known)},
    }
    # Generated as code, as dataclasses do: a call for each field would take longer.
    exec("\n".join(lines), scope)
    return cast("Callable[Fields, Value]", scope["make"])


def _parameter(field: Field[Any]) -> str:
    name = field.name
    return name if _default(field) is MISSING else f"{name}=default[{name!r}]"


def _default(field: Field[Any]) -> object:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


_OWN = "go_scheduler.models"


def new_ids(count: int) -> list[UUID]:
    """As ``uuid4`` makes each, but the system is asked for all at once.

    Each time it is asked another thread may take Python's lock, and keep it.
    """
    chance = os.urandom(16 * count)
    return [
        UUID(bytes=chance[first : first + 16], version=4)
        for first in range(0, len(chance), 16)
    ]


def changed(value: Value, **others: object) -> Value:
    """Copy a value with other fields, as ``dataclasses.replace`` does, but unchecked.

    The copied value was checked when it was made, and the new fields come from this
    package. It takes a tenth of the time.

    Args:
        value: A definition or an instance.
        others: The new fields, as they are kept.
    """
    copied: Value = copier(type(value), *others)(value, *others.values())
    return copied


@lru_cache(maxsize=512)
def copier(kind: type[Value], *others: str) -> Callable[..., Value]:
    """Make a function that copies a value, and takes the values of these fields.

    Args:
        kind: The class of the value.
        others: The fields that are given by position, in this order.
    """
    if not kind.__module__.startswith(_OWN):
        # A user's own class may have more state.
        return lambda value, *new: replace(value, **dict(zip(others, new, strict=True)))
    names = [each.name for each in fields(kind)]
    given = [each if each in others else f"value_.{each}" for each in names]
    given += [f"{each}={each}" for each in others if each not in names]
    scope: dict[str, Any] = {"make": _maker_of(kind)}
    # Generated as code, as ``trusted`` does.
    parameters = ", ".join(["value_", *others])
    exec(f"def copy({parameters}): return make({', '.join(given)})", scope)
    return cast("Callable[..., Value]", scope["copy"])


@lru_cache(maxsize=64)
def _maker_of(kind: type[DataclassInstance]) -> Callable[..., Any]:
    return trusted(kind)
