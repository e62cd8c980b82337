"""Groups of options that commands have in common, as dataclasses."""

from __future__ import annotations

import inspect
from dataclasses import fields, is_dataclass
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def grouped(function: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of its groups, one by one.

    A parameter that is annotated with a dataclass stands for the fields of that, each
    of which says by its annotation what option it is.
    """
    parameters = inspect.signature(function).parameters.values()
    groups: dict[str, Any] = {
        each.name: each.annotation
        for each in parameters
        if is_dataclass(each.annotation)
    }

    def call(**given: Any) -> None:
        for name, group in groups.items():
            options = {each.name: given.pop(each.name) for each in fields(group)}
            given[name] = group(**options)
        function(**given)

    update_wrapper(call, function)
    # Else the signature of what is wrapped would count.
    del call.__wrapped__  # type: ignore[attr-defined]
    call.__annotations__ = {}
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            option.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for each in parameters
            for option in _options(each)
        ]
    )
    return call


def _options(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    group = parameter.annotation
    if not is_dataclass(group):
        yield parameter
        return
    made: Any = group
    yield from inspect.signature(made).parameters.values()
