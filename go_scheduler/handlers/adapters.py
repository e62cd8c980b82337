"""Between a parameter's type and JSON: by pydantic, or for plain values without."""

from __future__ import annotations

import inspect
import json
import types
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, Union, cast, get_args, get_origin

from go_scheduler.errors import ConfigurationError
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.json import JSON

_PLAIN = (bool, int, float, str, list, dict, type(None))


class Adapter(Protocol):
    """Checks the values of a parameter."""

    def dump(self, value: object) -> JSON:
        """A value as JSON.

        Raises:
            ValueError: It is not of the parameter's type.
        """

    def load(self, value: JSON) -> object:
        """The value that was dumped.

        Raises:
            ValueError: It is none of the parameter's type.
        """


def adapter_for(name: str, annotation: object) -> Adapter:
    """What checks the values of a parameter.

    Raises:
        ConfigurationError: Its type is one that JSON cannot hold; or only pydantic
            could say, and that is not installed.
    """
    if annotation in (inspect.Parameter.empty, Any, object):
        return PlainAdapter(name, ())
    if find_spec("pydantic") is not None:
        return PydanticAdapter(name, annotation)
    kinds = _plain_kinds(annotation)
    if kinds is None:
        raise ConfigurationError(
            f"parameter {name} is a {getattr(annotation, '__name__', annotation)}:"
            " install pydantic, the extra payloads, which checks dataclasses, dates and"
            " models; or take plain values"
        )
    return PlainAdapter(name, kinds)


class PlainAdapter:
    """Values that are JSON as they are.

    Args:
        name: Of the parameter.
        kinds: The types that they may have; empty: any.
    """

    def __init__(self, name: str, kinds: tuple[type, ...]) -> None:
        self._name = name
        self._kinds = kinds

    def dump(self, value: object) -> JSON:
        """The value itself."""
        return cast("JSON", self._checked(value))

    def load(self, value: JSON) -> object:
        """The value itself."""
        return self._checked(value)

    def _checked(self, value: object) -> object:
        kinds = self._kinds
        is_stray_bool = isinstance(value, bool) and bool not in kinds
        if kinds and (not isinstance(value, kinds) or is_stray_bool):
            wanted = " or ".join(each.__name__ for each in kinds)
            raise ValueError(f"{self._name} must be {wanted}, not {shown(value)}")
        return value


class PydanticAdapter:
    """Values of whatever types pydantic knows: models, dataclasses, dates.

    Args:
        name: Of the parameter.
        annotation: The type.
    """

    def __init__(self, name: str, annotation: Any) -> None:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError

        self._name = name
        try:
            self._type: TypeAdapter[object] = TypeAdapter(annotation)
        except PydanticUserError as error:
            raise ConfigurationError(
                f"parameter {name} is {shown(annotation)}, which no payload can hold:"
                f" {error.message.splitlines()[0]}"
            ) from None

    def dump(self, value: object) -> JSON:
        """The value as JSON, once it is of the type."""
        known = self._checked(self._type.validate_python, value)
        return cast("JSON", self._type.dump_python(known, mode="json"))

    def load(self, value: JSON) -> object:
        """A value of the type."""
        return self._checked(self._type.validate_json, json.dumps(value))

    def _checked(self, validate: Callable[[Any], object], value: object) -> object:
        from pydantic import ValidationError

        try:
            return validate(value)
        except ValidationError as error:
            problems = [
                f"{'.'.join(map(str, (self._name, *each['loc'])))}: {each['msg']}"
                for each in error.errors(include_url=False, include_context=False)
            ]
            raise ValueError("; ".join(problems)) from None


def _plain_kinds(annotation: object) -> tuple[type, ...] | None:
    """The types of plain values that an annotation allows; None: it is no such one."""
    if get_origin(annotation) in (Union, types.UnionType):
        found = [_plain_kinds(each) for each in get_args(annotation)]
        if None in found:
            return None
        return tuple(kind for each in found if each is not None for kind in each)
    kind = type(None) if annotation is None else get_origin(annotation) or annotation
    if kind not in _PLAIN:
        return None
    assert isinstance(kind, type)
    return (int, float) if kind is float else (kind,)
