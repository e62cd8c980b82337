"""The payload of a task: the arguments of its handler, as JSON."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, get_type_hints

from go_scheduler.checks import check_type
from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.adapters import adapter_for
from go_scheduler.models import TaskInstance
from go_scheduler.raised import Fail
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from go_scheduler.handlers.adapters import Adapter
    from go_scheduler.json import JSON

RESERVED = ("at", "connection", "delay", "key", "payload")
"""What ``enqueue`` takes for itself."""

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Payload:
    """What a task is enqueued with: each argument by the name of its parameter.

    A first parameter that is annotated as ``TaskInstance``, or not annotated and called
    ``instance``, is none of them: it is given the instance.

    Args:
        task: The task's name.
        function: Its handler.

    Attributes:
        types: Of the parameters, by their names.

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
        self.types: dict[str, object] = {}
        for each in parameters:
            if each.kind is inspect.Parameter.VAR_KEYWORD:
                self._others = each.name
                continue
            self._check(each)
            hint = hints.get(each.name, each.annotation)
            self.types[each.name] = hint
            try:
                self._adapters[each.name] = adapter_for(each.name, hint)
            except ConfigurationError as error:
                raise ConfigurationError(f"task {task!r}: {error}") from None

    @property
    def required(self) -> tuple[str, ...]:
        """The parameters without a default."""
        return tuple(
            name
            for name in self._adapters
            if self._signature.parameters[name].default is inspect.Parameter.empty
        )

    @property
    def takes_others(self) -> bool:
        """Whether any further argument may be given, by whatever name."""
        return self._others is not None

    def default_of(self, name: str) -> JSON:
        """What a parameter is if it is not given; None: nothing that JSON can hold."""
        default = self._signature.parameters[name].default
        try:
            return self._adapter(name).dump(default)
        except ValueError:
            return None

    def schema(self) -> dict[str, JSON]:
        """The JSON schema of what is stored.

        Raises:
            ConfigurationError: pydantic, the extra ``types``, is not installed.
        """
        from go_scheduler.handlers.parameters_schema import parameters_schema

        return parameters_schema(self)

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
            raise ConfigurationError(f"a payload has names: {shown(given)}")
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
            Fail: They are not what it takes, by now: no further run would change that.
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
        # What is missing as well is more to the point.
        if others and "unexpected" in str(error):
            takes = ", ".join(known) or "nothing"
            return f"task {self._task!r} takes no {min(others)!r}; it takes {takes}"
        return f"task {self._task!r}: {error}"

    def _adapter(self, name: str) -> Adapter:
        return self._adapters.get(name, _OTHER)

    def _check(self, parameter: inspect.Parameter) -> None:
        if parameter.kind not in _BY_NAME:
            raise ConfigurationError(
                f"task {self._task!r}: parameter {parameter} cannot be given by its"
                " name, as a payload has it"
            )
        if parameter.name in RESERVED:
            raise ConfigurationError(
                f"task {self._task!r}: no parameter can be called {parameter.name},"
                " which enqueue() takes for itself"
            )


_OTHER = adapter_for("a further argument", Any)


def _is_instance(parameter: inspect.Parameter, hints: Mapping[str, object]) -> bool:
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return False
    if parameter.annotation is inspect.Parameter.empty:
        return parameter.name == "instance"
    return hints[parameter.name] is TaskInstance


def _hints_of(
    task: str, function: Callable[..., object], parameters: Sequence[inspect.Parameter]
) -> Mapping[str, object]:
    """The types of parameters, where they are annotated."""
    annotated = {
        each.name: each.annotation
        for each in parameters
        if each.annotation is not inspect.Parameter.empty
    }
    names = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return get_type_hints(
            SimpleNamespace(__annotations__=annotated),
            names,
            # Commonly imported for type checkers alone.
            {"TaskInstance": TaskInstance},
            include_extras=True,
        )
    except NameError as error:
        raise ConfigurationError(
            f"task {task!r}: an annotation of its handler is not known when it runs:"
            f" {error}; import it outside of TYPE_CHECKING"
        ) from None
