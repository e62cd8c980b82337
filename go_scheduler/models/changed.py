"""Copies of values with other fields, made without looking at any of them again."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from _typeshed import DataclassInstance

Value = TypeVar("Value", bound="DataclassInstance")

_OWN = "go_scheduler.models."


class _Slots(NamedTuple):
    """How the fields of a class are read all at once, and written one by one."""

    read: Callable[[object], tuple[Any, ...]]
    write: Sequence[Callable[[object, object], None]]
    by_name: Mapping[str, Callable[[object, object], None]]


def changed(value: Value, **others: object) -> Value:
    """A copy in which these fields are others, as ``dataclasses.replace`` makes it.

    What is checked when a value is made has been checked of the one that is copied, and
    is not checked of the others: they are this package's own. It takes a fifth of the
    time.

    Args:
        value: A definition or an instance.
        others: Fields, each as it is kept.
    """
    slots = _slots_of(type(value))
    if slots is None:
        return replace(value, **others)
    copy = object.__new__(type(value))
    for write, field in zip(slots.write, slots.read(value), strict=True):
        write(copy, field)
    for name, other in others.items():
        slots.by_name[name](copy, other)
    return copy


@cache
def _slots_of(kind: type[DataclassInstance]) -> _Slots | None:
    """Those of a class; None: a user's own, which may have more than fields."""
    if not kind.__module__.startswith(_OWN):
        return None
    names = [each.name for each in fields(kind)]
    write = [getattr(kind, name).__set__ for name in names]
    return _Slots(attrgetter(*names), write, dict(zip(names, write, strict=True)))
