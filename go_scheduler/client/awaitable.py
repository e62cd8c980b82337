"""The awaitable form of a method that waits for the store: it waits on a thread."""

from __future__ import annotations

import asyncio
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_Self = TypeVar("_Self")
_P = ParamSpec("_P")
_T = TypeVar("_T")


def awaitable(
    method: Callable[Concatenate[_Self, _P], _T],
) -> Callable[Concatenate[_Self, _P], Coroutine[Any, Any, _T]]:
    """The same method, to be awaited; the event loop goes on meanwhile."""

    async def call(self: _Self, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await asyncio.to_thread(method, self, *args, **kwargs)

    update_wrapper(call, method)
    call.__name__ = f"a{method.__name__}"
    call.__doc__ = f"Await what ``{method.__name__}`` does; see there."
    return call
