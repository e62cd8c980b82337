"""What to write instead, beside Python's own error for arguments that do not exist."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from functools import wraps
from typing import Any, TypeVar

_Called = TypeVar("_Called", bound=Callable[..., object])

_ELSEWHERE = {
    "args": "metadata",
    "at": "fire_at",
    "coalesce": "catch_up",
    "countdown": "delay",
    "dow": "day_of_week",
    "eta": "at",
    "kwargs": "metadata",
    "max_attempts": "retry",
    "max_instances": "overlap",
    "max_retries": "max_attempts",
    "misfire_grace_time": "catch_up",
    "payload": "metadata",
    "run_date": "fire_at",
    "tz": "timezone",
    "window": "schedule_window",
}
"""What other schedulers call some arguments, and what they are called here."""


def write_instead(example: str) -> Callable[[_Called], _Called]:
    """Let a class or function note an example on the ``TypeError`` of a wrong call.

    Of an argument that does not exist the error names the one that may be meant.
    """

    def noting(function: Callable[..., Any]) -> Any:
        name = function.__name__
        if name == "__init__":
            name = function.__qualname__

        def note(error: TypeError, given: Collection[str]) -> None:
            # What is raised within it is not about how it was called.
            if error.__traceback__ is None or error.__traceback__.tb_next is None:
                near = [f"{meant}=" for meant in _misspelt(function, given)]
                if near:
                    # From Python 3.13 on it may have a guess of its own.
                    text = str(error).partition(". Did you mean ")[0]
                    error.args = (f"{text}: did you mean {' and '.join(near)}?",)
                elif str(error).endswith(" given") and _takes_names(function):
                    # The class that has a method is not the one that users name.
                    text = str(error).replace(function.__qualname__, name)
                    error.args = (f"{text}: pass the rest by name",)
                error.add_note(f"Write, for example: {example}")

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> object:
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                note(error, kwargs)
                raise

        @wraps(function)
        async def acall(*args: Any, **kwargs: Any) -> object:
            try:
                return await function(*args, **kwargs)
            except TypeError as error:
                note(error, kwargs)
                raise

        return acall if inspect.iscoroutinefunction(function) else call

    def decorate(called: _Called) -> _Called:
        if isinstance(called, type):
            called.__init__ = noting(called.__init__)  # type: ignore[misc]
            return called
        wrapped: _Called = noting(called)
        return wrapped

    return decorate


def _takes_names(function: Callable[..., object]) -> bool:
    """Whether it takes arguments by their names alone."""
    kinds = {each.kind for each in inspect.signature(function).parameters.values()}
    return bool(kinds & {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD})


def _misspelt(function: Callable[..., object], given: Collection[str]) -> Iterator[str]:
    """The arguments that may be meant by those that do not exist."""
    from difflib import get_close_matches

    known = [each for each in inspect.signature(function).parameters if each != "self"]
    for wrong in given:
        meant = _ELSEWHERE.get(wrong)
        if wrong not in known:
            near = [meant] if meant in known else get_close_matches(wrong, known, n=1)
            yield from near
