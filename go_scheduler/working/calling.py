"""How a worker's handlers are called: on threads, or on an event loop of theirs."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from concurrent.futures import Future
from contextlib import nullcontext
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.registry import (
    HandlerRegistry,
    async_test,
    refuse_generator,
)
from go_scheduler.run import HandedOn, enter_run, leave_run
from go_scheduler.running.elsewhere import result_text
from go_scheduler.running.failure import failure_of
from go_scheduler.working.given import Ending

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractContextManager

    from go_scheduler.events.instrument import Instrument
    from go_scheduler.working.given import Given


class Calling:
    """Calls the handler for what was given, each on a thread or as a task.

    Its threads are daemons: one that hangs keeps no process from its end.

    Args:
        handler: What is called, with the work; a registry's with the instance.
        log: Says which results are not kept.
        telemetry: Has a span around each call; None: there is none.
    """

    def __init__(
        self,
        handler: Callable[[Any], object],
        log: logging.Logger,
        telemetry: Instrument | None = None,
    ) -> None:
        self._log = log
        self._telemetry = telemetry
        self._handler = handler
        self._by_type = isinstance(handler, HandlerRegistry)
        self._is_async = async_test(handler)
        self._queue: SimpleQueue[tuple[Given, Future[Ending]] | None] = SimpleQueue()
        self._threads = self._busy = 0
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        # Of those that execute something there.
        self._ends: dict[Given, Callable[[], object]] = {}

    async def call(self, given: Given) -> Ending:
        """Call it; answers what came of it."""
        argument = given.instance if self._by_type else given.work
        if self._is_async(argument):  # type: ignore[arg-type]
            task = self._call_async(argument, given)
            return await asyncio.wrap_future(
                asyncio.run_coroutine_threadsafe(task, self._event_loop())
            )
        future: Future[Ending] = Future()
        # From now on nobody can cancel it.
        future.set_running_or_notify_cancel()
        self._busy += 1
        if self._threads < self._busy:
            self._threads += 1
            _start("handler", self._work)
        self._queue.put((given, future))
        try:
            return await asyncio.wrap_future(future)
        finally:
            self._busy -= 1

    def end(self, given: Given) -> None:
        """Cancel what is executed for it on the event loop, now or once something is.

        It is ``was_ended`` from then on; what runs on a thread goes on.
        """
        given.is_to_end = True
        end = self._ends.get(given)
        if end is not None:
            given.was_ended = True
            end()

    def stop(self) -> None:
        """Let the threads end once they are free."""
        for _ in range(self._threads):
            self._queue.put(None)
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)

    def _work(self) -> None:
        while (found := self._queue.get()) is not None:
            given, future = found
            future.set_result(self._call(given))

    def _call(self, given: Given) -> Ending:
        token = enter_run(given)
        try:
            with self._around(given):
                result = self._handler(given.instance if self._by_type else given.work)
                refuse_generator(result)
                if inspect.isawaitable(result):
                    result = asyncio.run_coroutine_threadsafe(
                        self._await(result, given), self._event_loop()
                    ).result()
                return self._success(given, result)
        except BaseException as error:
            return Ending(failure_of(error, callers=_CALLERS))
        finally:
            self._ends.pop(given, None)
            leave_run(token)

    async def _call_async(self, argument: Any, given: Given) -> Ending:
        enter_run(given)
        self._note_task(given)
        try:
            with self._around(given):
                result: Any = self._handler(argument)
                return self._success(given, await result)
        # SystemExit would end the event loop, and with it every other handler.
        except BaseException as error:
            return Ending(failure_of(error, callers=_CALLERS))
        finally:
            del self._ends[given]

    async def _await(self, result: Awaitable[object], given: Given) -> object:
        """Await what a sync handler returned."""
        self._note_task(given)
        return await result

    def _note_task(self, given: Given) -> None:
        """Have the present task be what is cancelled, once it awaits something.

        Cancelled before it has begun, it would never await what it was given.
        """
        task = asyncio.current_task()
        assert task is not None
        cancel = partial(self._event_loop().call_soon_threadsafe, task.cancel)
        self._ends[given] = cancel
        # Noted first: whoever ends it now finds that, or has said so before.
        if given.is_to_end:
            self.end(given)

    def _around(self, given: Given) -> AbstractContextManager[object]:
        if self._telemetry is None:
            return nullcontext()
        return self._telemetry.around(given.instance)

    def _success(self, given: Given, result: object) -> Ending:
        if result is HandedOn or isinstance(result, HandedOn):
            raise ConfigurationError(
                "HandedOn is for handlers next to their store, and this one runs in"
                f" {given.place}, which has been handed it on already"
            )
        try:
            text = result_text(result)
        except ConfigurationError as error:
            # What is done is done, and must not be done again for that.
            self._log.warning("what a handler returned is not kept: %s", error)
            text = None
        # A copy: what it was may be changed by now.
        return Ending(result=None if text is None else json.loads(text))

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                _start("event loop", self._run_loop, self._loop)
            return self._loop

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.get_loop().run_forever()


def _start(name: str, target: Callable[..., None], *args: object) -> None:
    name = f"go_scheduler worker {name}"
    threading.Thread(target=target, args=args, name=name, daemon=True).start()


_CALLERS = {
    each.__code__
    for each in (Calling._call, Calling._call_async, HandlerRegistry.__call__)
}
