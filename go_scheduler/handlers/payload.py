"""The payload of a task: the arguments of its handler, to JSON and back."""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from types import SimpleNamespace
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from go_scheduler.checks import check_type
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import a, shown
from go_scheduler.models import TaskInstance
from go_scheduler.pydantic_messages import worded
from go_scheduler.run import Fail

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from go_scheduler.json import JSON

Read: TypeAlias = Callable[[object], object]
"""Turns what was enqueued or stored into a value as a handler takes it.

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
_UNSAID = inspect.Parameter.empty


def plain_type(annotation: object) -> Read | None:
    """The function that reads values of a plain type; None: the type is not plain.

    It works the same with and without pydantic, as the program that enqueues may lack
    it while the one that runs has it.
    """
    kind, within = get_origin(annotation) or annotation, get_args(annotation)
    if kind in (Any, object):
        return _anything
    kinds = next((kinds for each, kinds in _SCALARS if each is annotation), ())
    if kinds:
        # A bool is an int, but is not meant by one.
        return _checked(
            lambda value: (
                isinstance(value, kinds) and (type(value) is not bool or bool in kinds)
            )
        )
    if kind is Literal and all(type(each) in _CHOICES for each in within):
        # True == 1, but is not meant by Literal[1].
        choices = [(type(each), each) for each in within]
        return _checked(lambda value: (type(value), value) in choices)
    if kind not in (Union, types.UnionType, list, tuple, dict):
        return None
    parts = [plain_type(each) for each in within if each is not ...]
    known = [each for each in parts if each is not None]
    if len(known) < len(parts):
        return None
    item = known[-1] if known else _anything
    if kind is list:
        return lambda value: [item(each) for each in _of(value, list, tuple)]
    if kind is dict:
        # Keys of a JSON object are strings.
        if within and within[0] not in (str, Any, object):
            return None
        return lambda value: {
            name: item(it) for name, it in _of(value, Mapping).items()
        }
    if kind is tuple:
        # tuple[()] is the empty tuple; a bare tuple may hold anything.
        if ... in within or not hasattr(annotation, "__args__"):
            return lambda value: tuple(map(item, _of(value, list, tuple)))
        return partial(_fixed, known)
    return partial(_either, known)


def _anything(value: object) -> object:
    return value


def _checked(is_one: Callable[[object], bool]) -> Read:
    def read(value: object) -> object:
        if not is_one(value):
            raise ValueError(value)
        return value

    return read


def _of(value: object, *kinds: type) -> Any:
    """The value, of which a tuple counts as a JSON array."""
    if not isinstance(value, kinds):
        raise ValueError(value)
    return value


def _fixed(items: Sequence[Read], value: object) -> object:
    # Another number of values is a ValueError too.
    pairs = zip(items, _of(value, list, tuple), strict=True)
    return tuple(item(each) for item, each in pairs)


def _either(types: Sequence[Read], value: object) -> object:
    for each in types:
        try:
            return each(value)
        except ValueError:
            continue
    raise ValueError(value)


class Adapter:
    """Checks the values of a parameter, and has them as JSON.

    Values of plain types are JSON as they are. Pydantic checks all others: models,
    dataclasses, dates.

    Args:
        name: Of the parameter.
        annotation: The type.

    Raises:
        ConfigurationError: JSON cannot hold the type; or that takes pydantic, which is
            not installed.
    """

    def __init__(self, name: str, annotation: object) -> None:
        self._name = name
        self._annotation = annotation
        plain = plain_type(annotation)
        self._type = None if plain else _by_pydantic(name, annotation)
        self._read: Read = plain or self._validated

    def dump(self, value: object) -> JSON:
        """Turn a value into JSON, if that can be read again.

        Raises:
            ValueError: It is not of the parameter's type.
        """
        if self._type is not None:
            try:
                # A value of another type is noticed when it is read back.
                value = self._type.dump_python(
                    value, mode="json", by_alias=True, warnings=False
                )
            except ValueError as error:
                raise ValueError(f"{self._name}: {error}") from None
        self.load(cast("JSON", value))
        return cast("JSON", value)

    def load(self, value: JSON) -> object:
        """The value that was dumped; lists and dicts may be changed.

        Raises:
            ValueError: It is not of the parameter's type.
        """
        try:
            return self._read(value)
        except ValueError as error:
            raise ValueError(self._refusal(value, error)) from None

    def _validated(self, value: object) -> object:
        """A value of the type, read as strictly as plain values are."""
        assert self._type is not None
        return self._type.validate_json(json.dumps(value), strict=True)

    def _refusal(self, value: object, error: Any) -> str:
        if self._type is None:
            wanted = inspect.formatannotation(self._annotation)
            return f"{self._name} must be {wanted}, not {shown(value)}"
        if not hasattr(error, "errors"):
            # It is none of pydantic's: the number has too many digits.
            return f"{self._name}: {error}"
        return "; ".join(
            f"{'.'.join(map(str, (self._name, *each['loc'])))}: {worded(each)}"
            for each in error.errors(include_url=False)
        )


def _by_pydantic(name: str, annotation: Any) -> TypeAdapter[object]:
    if find_spec("pydantic") is None:
        kind = a(getattr(annotation, "__name__", str(annotation)))
        raise ConfigurationError(
            f"parameter {name} is {kind}:"
            " install pydantic, the extra payloads, which checks dataclasses, dates and"
            " models; or take plain values"
        )
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        return TypeAdapter(annotation)
    except PydanticUserError as error:
        raise ConfigurationError(
            f"parameter {name} is {shown(annotation)}, which no payload can hold:"
            f" {error.message.splitlines()[0]}"
        ) from None


RESERVED = ("at", "connection", "delay", "key", "payload")
"""Parameters of ``enqueue`` itself."""

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Payload:
    """What a task is enqueued with: each argument by the name of its parameter.

    A first parameter that is annotated as ``TaskInstance``, or not annotated and called
    ``instance``, is not part of it: it is given the instance.

    Args:
        task: The task's name.
        function: Its handler.

    Attributes:
        types: The types of the parameters, by name.

    Raises:
        ConfigurationError: A parameter cannot be given by its name, has a name that
            ``enqueue`` takes for itself, or a type that JSON cannot hold.
    """

    def __init__(self, task: str, function: Callable[..., object]) -> None:
        self._task = task
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except ValueError:
            raise ConfigurationError(
                f"task {task!r}: the handler's parameters are not known:"
                f" {shown(function)}"
            ) from None
        hints = _hints_of(task, function, parameters)
        self.takes_instance = bool(parameters) and _is_instance(parameters[0], hints)
        if self.takes_instance:
            del parameters[0]
        self._signature = inspect.Signature(parameters)
        self._others: str | None = None
        self._adapters: dict[str, Adapter] = {}
        self.types: dict[str, Any] = {}
        for each in parameters:
            if each.kind is inspect.Parameter.VAR_KEYWORD:
                self._others = each.name
                continue
            if each.kind not in _BY_NAME:
                raise ConfigurationError(
                    f"task {task!r}: parameter {each} cannot be given by its name, as a"
                    " payload has it"
                )
            if each.name in RESERVED:
                raise ConfigurationError(
                    f"task {task!r}: no parameter can be called {each.name}, which"
                    " enqueue() takes for itself"
                )
            hint = hints.get(each.name, Any)
            self.types[each.name] = hint
            try:
                self._adapters[each.name] = Adapter(each.name, hint)
            except ConfigurationError as error:
                raise ConfigurationError(f"task {task!r}: {error}") from None

    @property
    def required(self) -> tuple[str, ...]:
        """The parameters without a default."""
        return tuple(
            name
            for name in self._adapters
            if self._signature.parameters[name].default is _UNSAID
        )

    def schema(self) -> dict[str, JSON]:
        """The JSON schema of what is stored.

        Raises:
            ConfigurationError: A parameter has no schema; or pydantic, the extra
                ``types``, is not installed.
        """
        if find_spec("pydantic") is None:
            raise ConfigurationError(
                "the schema of a task's parameters is made by pydantic: install the"
                " extra types"
            )
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticInvalidForJsonSchema

        adapters: Any = [
            (name, "validation", TypeAdapter(kind)) for name, kind in self.types.items()
        ]
        try:
            schemas, shared = TypeAdapter.json_schemas(adapters)
        except PydanticInvalidForJsonSchema as error:
            raise ConfigurationError(
                f"one of the parameters {', '.join(self.types)} has no JSON schema:"
                f" {error.message.splitlines()[0]}"
            ) from None
        properties: dict[str, Any] = {
            name: dict(schemas[name, "validation"]) for name in self.types
        }
        for name in self.types.keys() - {*self.required}:
            # JSON cannot hold every default.
            with suppress(ValueError):
                default = self._adapter(name).dump(
                    self._signature.parameters[name].default
                )
                if default is not None:
                    properties[name]["default"] = default
        schema = {
            "type": "object",
            "properties": properties,
            "required": list(self.required),
            "additionalProperties": self._others is not None,
        }
        return cast("dict[str, JSON]", schema | shared)

    def arguments(self, /, *args: object, **kwargs: object) -> dict[str, object]:
        """The arguments of a call by the names of their parameters.

        Raises:
            ConfigurationError: The handler cannot be called with them.
        """
        try:
            named = dict(self._signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise ConfigurationError(self._refusal(kwargs, error)) from None
        if self._others is not None:
            named |= named.pop(self._others, {})
        return named

    def write(self, given: Mapping[str, object]) -> dict[str, JSON]:
        """Arguments as they are stored.

        Raises:
            ConfigurationError: They are not what the handler takes.
        """
        check_type("payload", given, Mapping)
        if not all(isinstance(name, str) for name in given):
            raise ConfigurationError(
                f"the names in a payload must be texts: {shown(given)}"
            )
        arguments = self.arguments(**given)
        try:
            return {
                name: self._adapter(name).dump(value)
                for name, value in arguments.items()
            }
        except ValueError as error:
            raise ConfigurationError(f"task {self._task!r}: {error}") from None

    def read(self, stored: Mapping[str, JSON]) -> dict[str, object]:
        """Arguments as the handler takes them.

        Raises:
            Fail: They do not fit any more; no further run would change that.
        """
        try:
            arguments = self.arguments(**stored)
            return {name: self._adapter(name).load(stored[name]) for name in arguments}
        except ValueError as error:
            raise Fail(f"the payload {shown(stored)} does not fit: {error}") from None

    def _refusal(self, given: Mapping[str, object], error: TypeError) -> str:
        """Why the handler cannot be called, with the name that may be meant."""
        from difflib import get_close_matches

        known = self._signature.parameters
        others = [] if self._others is not None else given.keys() - known.keys()
        for wrong in sorted(others):
            for meant in get_close_matches(wrong, known.keys() - given.keys(), n=1):
                return (
                    f"task {self._task!r} takes no {wrong!r}; did you mean {meant!r}?"
                )
        # A missing argument is told first, as that helps more.
        if others and "unexpected" in str(error):
            takes = ", ".join(known) or "nothing"
            return f"task {self._task!r} takes no {min(others)!r}; it takes {takes}"
        return f"task {self._task!r}: {error}"

    def _adapter(self, name: str) -> Adapter:
        return self._adapters.get(name, _OTHER)


_OTHER = Adapter("a further argument", Any)


def _is_instance(parameter: inspect.Parameter, hints: Mapping[str, object]) -> bool:
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return False
    if parameter.annotation is _UNSAID:
        return parameter.name == "instance"
    return hints[parameter.name] is TaskInstance


def _hints_of(
    task: str, function: Callable[..., object], parameters: Sequence[inspect.Parameter]
) -> Mapping[str, object]:
    """The types of the parameters that are annotated."""
    annotated = {
        each.name: each.annotation
        for each in parameters
        if each.annotation is not _UNSAID
    }
    names = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return get_type_hints(
            SimpleNamespace(__annotations__=annotated),
            names,
            # Often the name is imported for type checkers only.
            {"TaskInstance": TaskInstance},
            include_extras=True,
        )
    except NameError as error:
        raise ConfigurationError(
            f"task {task!r}: an annotation of its handler is not known when it runs:"
            f" {error}; import it outside of TYPE_CHECKING"
        ) from None


_Order = TypeVar("_Order")


class ParameterOrders(Payload, Generic[_Order]):
    """A payload that consists of the arguments of a function that makes an order.

    Args:
        task: What the executor is called in errors.
        make: The function. It raises ``ConfigurationError`` for what the executor
            would not do.
        schema: Makes the JSON schema; None: it is made from the parameters.
    """

    def __init__(
        self,
        task: str,
        make: Callable[..., _Order],
        schema: Callable[[], dict[str, JSON]] | None = None,
    ) -> None:
        super().__init__(task, make)
        self._make = make
        self._schema = schema

    def __reduce__(self) -> tuple[object, ...]:
        # Pickled for other processes, where its checks are built again.
        return type(self), (self._task, self._make, self._schema)

    def schema(self) -> dict[str, JSON]:
        """The JSON schema of what is stored."""
        return super().schema() if self._schema is None else self._schema()

    def write(self, given: Mapping[str, object]) -> dict[str, JSON]:
        """The payload as it is stored, if it is an order.

        Raises:
            ConfigurationError: It is no order, or the executor would not do it.
        """
        stored = super().write(given)
        self._make(**self.read(stored))
        return stored

    def of(self, instance: TaskInstance) -> _Order:
        """The order of an instance: its payload, or else its definition's metadata.

        Raises:
            Fail: It is no order that the executor would do.
        """
        given = instance.metadata if instance.payload is None else instance.payload
        try:
            return self._make(**self.read(given))
        except ConfigurationError as error:
            raise Fail(str(error)) from None
