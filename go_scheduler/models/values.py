"""Makes and copies frozen values whose fields need no check, and so takes less time."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields, replace
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
    # As dataclasses make their methods: a call for each field would take longer.
    exec("\n".join(lines), scope)
    return cast("Callable[Fields, Value]", scope["make"])


def _parameter(field: Field[Any]) -> str:
    name = field.name
    return name if _default(field) is MISSING else f"{name}=default[{name!r}]"


def _default(field: Field[Any]) -> object:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


_OWN = "go_scheduler.models."


class _Maker(NamedTuple):
    """How the fields of a class are read all at once, where each is, what makes it."""

    read: Callable[[object], tuple[Any, ...]]
    place: Mapping[str, int]
    make: Callable[..., Any]


def changed(value: Value, **others: object) -> Value:
    """A copy in which these fields are others, as ``dataclasses.replace`` makes it.

    What is checked when a value is made has been checked of the one that is copied, and
    is not checked of the others: they are this package's own. It takes a tenth of the
    time.

    Args:
        value: A definition or an instance.
        others: Fields, each as it is kept.
    """
    maker = _maker_of(type(value))
    if maker is None:
        return replace(value, **others)
    fields = list(maker.read(value))
    for name, other in others.items():
        fields[maker.place[name]] = other
    copy: Value = maker.make(*fields)
    return copy


# Classes of users come and go.
@lru_cache(maxsize=64)
def _maker_of(kind: type[DataclassInstance]) -> _Maker | None:
    """That of a class; None: a user's own, which may have more than fields."""
    if not kind.__module__.startswith(_OWN):
        return None
    names = [each.name for each in fields(kind)]
    place = {name: index for index, name in enumerate(names)}
    return _Maker(attrgetter(*names), place, trusted(kind))
