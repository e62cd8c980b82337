"""What to write instead, beside Python's own error for arguments that do not exist."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

_Called = TypeVar("_Called", bound=Callable[..., object])


def write_instead(example: str) -> Callable[[_Called], _Called]:
    """Let a class or function note an example on the ``TypeError`` of a wrong call."""

    def noting(function: Callable[..., Any]) -> Any:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> object:
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                # What is raised within it is not about how it was called.
                if error.__traceback__ is None or error.__traceback__.tb_next is None:
                    error.add_note(f"Write, for example: {example}")
                raise

        return call

    def decorate(called: _Called) -> _Called:
        if isinstance(called, type):
            called.__init__ = noting(called.__init__)  # type: ignore[misc]
            return called
        wrapped: _Called = noting(called)
        return wrapped

    return decorate
