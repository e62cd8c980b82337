"""Between a parameter's type and JSON: by pydantic, or for plain values without."""

from __future__ import annotations

import inspect
import json
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, cast

from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.plain import plain_type
from go_scheduler.shown import a, shown
from go_scheduler.worded import worded

if TYPE_CHECKING:
    from go_scheduler.handlers.plain import Read
    from go_scheduler.json import JSON


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
    if annotation is inspect.Parameter.empty:
        annotation = Any
    if (read := plain_type(annotation)) is not None:
        return PlainAdapter(name, annotation, read)
    if find_spec("pydantic") is None:
        kind = a(getattr(annotation, "__name__", str(annotation)))
        raise ConfigurationError(
            f"parameter {name} is {kind}:"
            " install pydantic, the extra payloads, which checks dataclasses, dates and"
            " models; or take plain values"
        )
    return PydanticAdapter(name, annotation)


class PlainAdapter:
    """Values that are JSON as they are.

    Args:
        name: Of the parameter.
        annotation: The type.
        read: What reads its values.
    """

    def __init__(self, name: str, annotation: object, read: Read) -> None:
        self._name = name
        self._annotation = annotation
        self._read = read

    def dump(self, value: object) -> JSON:
        """The value itself."""
        self.load(cast("JSON", value))
        return cast("JSON", value)

    def load(self, value: JSON) -> object:
        """The value, in lists and dicts that may be changed."""
        try:
            return self._read(value)
        except ValueError:
            wanted = inspect.formatannotation(self._annotation)
            raise ValueError(
                f"{self._name} must be {wanted}, not {shown(value)}"
            ) from None


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
        """The value as JSON, if that can be read again."""
        try:
            # What is of another type is seen when it is read.
            written = self._type.dump_python(
                value, mode="json", by_alias=True, warnings=False
            )
        except ValueError as error:
            raise ValueError(f"{self._name}: {error}") from None
        self.load(written)
        return cast("JSON", written)

    def load(self, value: JSON) -> object:
        """A value of the type, read as strictly as plain values are."""
        from pydantic import ValidationError

        try:
            return self._type.validate_json(json.dumps(value), strict=True)
        except ValidationError as error:
            problems = [
                f"{'.'.join(map(str, (self._name, *each['loc'])))}: {worded(each)}"
                for each in error.errors(include_url=False)
            ]
            raise ValueError("; ".join(problems)) from None
