"""An executor that says at each moment how much it takes."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from concurrent.futures import Executor, Future
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_T = TypeVar("_T")


class ElasticExecutor(Executor, ABC):
    """Calls what it is handed while it has room, which changes as others come and go.

    A scheduler claims no more for it than it has room for, and nothing while that is
    zero. What it is handed and has no room for waits; the scheduler gives that back to
    the store after a window, and then it is not called any more.

    Each call is made in the thread that hands it over, or in that which tells of new
    room: so it must only pass on what it gets, to others whose number changes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._calling = 0
        self._told: tuple[Callable[[], None], ...] = ()

    @property
    @abstractmethod
    def room(self) -> int:
        """How many more calls it takes at this moment, those not counted that it makes.

        Asked from several threads, and often: it must answer at once.
        """

    @property
    def places(self) -> int:
        """The same for what is claimed already, if that is more."""
        return self.room

    def grow(self) -> None:
        """Tell that there is more room: whoever inherits from this calls it then."""
        self._call_waiting()
        for tell in self._told:
            tell()

    def when_grown(self, tell: Callable[[], None]) -> None:
        """Call this each time there is more room."""
        with self._lock:
            self._told = (*self._told, tell)

    def forget(self, tell: Callable[[], None]) -> None:
        """Call this no more."""
        with self._lock:
            self._told = tuple(each for each in self._told if each is not tell)

    def submit(
        self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[_T]:
        """Call a function once there is room for it.

        Args:
            fn: The function.
            *args: Its positional arguments.
            **kwargs: Its keyword arguments.

        Returns:
            What will hold what it returned or raised.
        """
        future: Future[_T] = Future()
        self._waiting.append(partial(_call, future, partial(fn, *args, **kwargs)))
        self._call_waiting()
        return future

    def _call_waiting(self) -> None:
        while (call := self._next()) is not None:
            try:
                call()
            finally:
                with self._lock:
                    self._calling -= 1

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            # Those that are being made may not have taken their room yet.
            if not self._waiting or self._calling >= self.places:
                return None
            self._calling += 1
            return self._waiting.popleft()


def _call(future: Future[Any], fn: Callable[[], object]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = fn()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
