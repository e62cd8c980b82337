"""The awaitable form of a method that waits for the store: it waits on a thread."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, copy_context
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from go_scheduler.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from concurrent.futures import Executor

_Self = TypeVar("_Self")
_P = ParamSpec("_P")
_T = TypeVar("_T")

THREADS: ContextVar[Executor | None] = ContextVar("THREADS", default=None)
"""The executor in which awaited calls wait for the store; None: the loop's own."""


async def on_thread(call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Make a call that waits for the store, or takes long, on a thread, and await it.

    Raises:
        StoreUnavailableError: There is no thread for it, and nothing was done.
    """
    in_context = partial(copy_context().run, call, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(THREADS.get(), in_context)


class RunSync(Protocol):
    """The ``run_sync`` of an ``AsyncSession`` or ``AsyncConnection``."""

    def __call__(self, call: Callable[[Any], _T]) -> Awaitable[_T]:
        """Call the function with the sync connection behind this one."""


def awaitable(
    method: Callable[Concatenate[_Self, _P], _T],
) -> Callable[Concatenate[_Self, _P], Coroutine[Any, Any, _T]]:
    """Make the awaitable form of a method, which does not block the event loop.

    Its ``connection``, if it takes one and is given it, is an async one.
    """

    async def call(self: _Self, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        if (connection := kwargs.get("connection")) is None:
            return await on_thread(method, self, *args, **kwargs)
        run_sync = run_sync_of(connection, method.__name__)

        def join(joined: object) -> _T:
            kwargs["connection"] = joined
            return method(self, *args, **kwargs)

        return await run_sync(join)

    update_wrapper(call, method)
    call.__name__ = f"a{method.__name__}"
    call.__doc__ = f"Await what ``{method.__name__}`` does; see there."
    return call


def run_sync_of(connection: object, name: str) -> RunSync:
    """The ``run_sync`` of a user's async connection.

    Args:
        connection: The user's.
        name: The call for a sync one.

    Raises:
        ConfigurationError: It is none.
    """
    found = getattr(connection, "run_sync", None)
    if found is None:
        raise ConfigurationError(
            "connection must be a SQLAlchemy AsyncConnection or AsyncSession, not of"
            f" type {type(connection).__name__}: with that one, call {name}()"
        )
    run_sync: RunSync = found
    return run_sync
