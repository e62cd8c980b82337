"""The threads on which requests wait for the store: so many, and no more."""

from __future__ import annotations

import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from go_scheduler.errors import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.clock import Clock

_P = ParamSpec("_P")
_T = TypeVar("_T")

_STUCK = timedelta(seconds=5)


class Threads(Executor):
    """Runs calls that wait for the store, and refuses what it would keep waiting.

    While the store does not answer all threads wait for it, and who comes next would do
    nothing but wait, too. It is refused at once, and may try again.

    Args:
        clock: Measures how long a call has been waiting.
        threads: How many calls run at once.
        calls: How many there may be, those included that have not begun.
    """

    def __init__(self, clock: Clock, *, threads: int, calls: int) -> None:
        self._clock = clock
        self._threads = threads
        self._calls = calls
        self._pool = ThreadPoolExecutor(threads, "go_scheduler http")
        self._lock = threading.Lock()
        self._taken = 0
        self._began: dict[int, timedelta] = {}

    def submit(
        self, call: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[_T]:
        """Have a call run.

        Raises:
            StoreUnavailableError: There is no room for it.
        """

        def run() -> _T:
            me = threading.get_ident()
            self._began[me] = self._clock.elapsed()
            try:
                return call(*args, **kwargs)
            finally:
                del self._began[me]

        with self._lock:
            if self._is_full():
                raise StoreUnavailableError("too many calls wait for the store")
            self._taken += 1
        try:
            future = self._pool.submit(run)
        except RuntimeError:
            raise StoreUnavailableError("the server is stopping") from None
        future.add_done_callback(self._let_go)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more; see ``Executor``."""
        self._pool.shutdown(wait, cancel_futures=cancel_futures)

    def _is_full(self) -> bool:
        if self._taken < self._threads:
            return False
        if self._taken >= self._calls:
            return True
        # Copied in one step: threads begin and end meanwhile.
        began = min([*self._began.values()], default=None)
        return began is not None and self._clock.elapsed() - began > _STUCK

    def _let_go(self, _: Future[_T]) -> None:
        with self._lock:
            self._taken -= 1
