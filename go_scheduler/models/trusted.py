"""Makes frozen values of what needs no check, in a fraction of the time."""

from __future__ import annotations

from dataclasses import field, fields, make_dataclass
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import DataclassInstance

Fields = ParamSpec("Fields")
Value = TypeVar("Value", bound="DataclassInstance")


def trusted(kind: Callable[Fields, Value]) -> Callable[Fields, Value]:
    """What makes the same values as a class does, of fields as it keeps them.

    A frozen class writes its fields one by one past its own refusal. Here they are
    written plainly, to an object of a class that refuses and checks nothing and has the
    same slots; at last that becomes one of ``kind``. It takes fields by position, too,
    which is faster still where there are many.

    Args:
        kind: A frozen dataclass whose slots are its fields.
    """
    known = cast("type[Value]", kind)

    def close(value: object) -> None:
        value.__class__ = known

    return make_dataclass(
        known.__name__,
        [
            (
                each.name,
                object,
                field(default=each.default, default_factory=each.default_factory),
            )
            for each in fields(known)
        ],
        namespace={"__post_init__": close},
        slots=True,
        eq=False,
        repr=False,
    )
