"""One life of a worker, from its start to its end, on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Coroutine

    from go_scheduler.working.calling import Calling


class Life(ABC):
    """Takes work and has it done, until it is told to stop.

    Args:
        calling: Calls the handlers.
        log: Says what is left behind.

    Attributes:
        error: What has ended it; None: nothing has.
    """

    def __init__(self, calling: Calling, log: logging.Logger) -> None:
        self._calling = calling
        self._left_log = log
        self._over: Future[None] = Future()
        self._runs: set[asyncio.Task[None]] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="go_scheduler worker", daemon=True
        )
        self._refused: Exception | None = None
        self.error: BaseException | None = None

    def start(self) -> None:
        """Begin, on its thread.

        Raises:
            Exception: It cannot begin, and is over.
        """
        self._thread.start()
        self._ready.wait()
        if self._refused is not None:
            self._thread.join()
            raise self._refused

    def request_stop(self) -> None:
        """Take no more work; what runs is awaited."""
        # Its event loop is closed once it is over.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stopping.set)

    def leave(self) -> None:
        """Await nothing any more."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._leaving.set)

    def join(self, seconds: float | None) -> bool:
        """Wait until it is over, and no longer than so long; whether it is."""
        self._thread.join(seconds)
        return self._over.done()

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._over.done()

    def when_over(self, call: Callable[[], None]) -> None:
        """Have it called once this is over, or now if it is."""
        self._over.add_done_callback(lambda _: call())

    def _prepare(self) -> None:
        """Do what has to be done before ``start`` returns; it raises what this does."""
        return

    @abstractmethod
    async def _live(self) -> None:
        """Take work until ``_stopping``, and await what runs, until ``_leaving``."""

    def _run(self) -> None:
        try:
            asyncio.run(self._begin_and_live())
        # Coverage no longer follows this thread when its event loop has ended.
        except BaseException as error:  # pragma: no cover
            self.error = error
        finally:  # pragma: no cover
            self._calling.stop()
            self._over.set_result(None)

    async def _begin_and_live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping, self._leaving = asyncio.Event(), asyncio.Event()
        try:
            self._prepare()
        except Exception as error:
            self._refused = error
            raise
        finally:
            self._ready.set()
        await self._live()

    async def _until_left(self) -> None:
        """Await what runs, until it is to be left behind."""
        await first(asyncio.create_task(self._end()), self._leaving.wait())
        if self._runs:
            text = (
                "left behind, with runs that have not ended or are still to be told"
                " of: %d; they run again once they are missed"
            )
            self._left_log.warning(text, len(self._runs))

    async def _end(self) -> None:
        while self._runs:
            await asyncio.wait(self._runs)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._runs.add(task)
        task.add_done_callback(self._runs.discard)


async def first(task: asyncio.Future[Any], other: Coroutine[Any, Any, object]) -> None:
    """Wait until one of two is done, and leave the other."""
    waiting = asyncio.create_task(other)
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
