"""The executor that runs handlers in the caller's thread, for tests without threads."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_T = TypeVar("_T")


class InlineExecutor(Executor):
    """Runs what is submitted at once, in the caller's thread.

    It holds nothing, so that ``shutdown()`` has nothing to end and it can be used
    again.
    """

    def submit(
        self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[_T]:
        """Call a function and return its finished future.

        Args:
            fn: The function.
            *args: Its positional arguments.
            **kwargs: Its keyword arguments.

        Returns:
            A future that holds what the function returned, or whatever it raised:
            ``KeyboardInterrupt`` and ``SystemExit`` too, as they would be in a worker.
        """
        future: Future[_T] = Future()
        future.set_running_or_notify_cancel()
        try:
            result = fn(*args, **kwargs)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)
        return future
