"""What to write instead, beside Python's own error for arguments that do not exist."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Class = TypeVar("_Class", bound=type)


def write_instead(example: str) -> Callable[[_Class], _Class]:
    """Let a class note an example on the ``TypeError`` of a wrong construction."""

    def decorate(made: _Class) -> _Class:
        init: Callable[..., None] = made.__init__  # type: ignore[misc] # it is a class

        @wraps(init)
        def __init__(self: object, *args: Any, **kwargs: Any) -> None:
            try:
                init(self, *args, **kwargs)
            except TypeError as error:
                error.add_note(f"Write, for example: {example}")
                raise

        made.__init__ = __init__  # type: ignore[misc]
        return made

    return decorate
