"""Values that an object works out once, without a lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class worked_out(Generic[T]):
    """A property that is computed when it is first read, and kept.

    Two threads may both compute it. Up to Python 3.11 ``functools.cached_property``
    locks it for all objects meanwhile: a user's trigger that hangs in one of them
    would hang all others.

    Args:
        compute: Computes the value.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> T:
        value: T = self._compute(instance)
        instance.__dict__[self._name] = value
        return value
