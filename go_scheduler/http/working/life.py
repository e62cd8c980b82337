"""One life of a worker, from its start to its end, on a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from go_scheduler.http.working.calling import Calling
from go_scheduler.http.working.given import Given
from go_scheduler.http.working.pauses import Pauses
from go_scheduler.http.working.reports import BEYOND, Reports
from go_scheduler.http.working.server import AwayError, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from go_scheduler.events.instrument import Instrument
    from go_scheduler.http.working.server import Token

_LOG = logging.getLogger("go_scheduler.http.worker")
_MOST = 100
# For each place: a server that takes no reports is asked for no more work.
_UNTOLD = 2


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a worker is like.

    Attributes:
        url: Of its server.
        handler: What it calls.
        queues: Whose work it takes, with commas between them.
        max_workers: The most handlers that run at once.
        token: Says who asks.
        name: What the server knows it by.
        wait: How long it waits for work before it asks anew.
        telemetry: Has a span around each call of a handler; None: there is none.
        beyond: For how long after the lease is over what came of a run is still told.
    """

    url: str
    handler: Callable[[Any], object]
    queues: str
    max_workers: int
    token: Token
    name: str
    wait: timedelta
    telemetry: Instrument | None = None
    beyond: timedelta = BEYOND


class Life:
    """Waits for work and has it done, until it is told to stop.

    Args:
        settings: What it is like.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._over: Future[None] = Future()
        self._calling = Calling(settings.handler, settings.telemetry)
        self._called = 0
        self._runs: set[asyncio.Task[None]] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="go_scheduler worker", daemon=True
        )
        self.error: BaseException | None = None

    def start(self) -> None:
        """Begin, on its thread."""
        self._thread.start()
        self._ready.wait()

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

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        # Coverage no longer follows this thread when its event loop has ended.
        except BaseException as error:  # pragma: no cover
            self.error = error
        finally:  # pragma: no cover
            self._calling.stop()
            self._over.set_result(None)

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping, self._leaving = asyncio.Event(), asyncio.Event()
        self._changed = asyncio.Event()
        self._ready.set()
        async with Server(self._settings.url, self._settings.token) as server:
            self._server = server
            self._reports = Reports(server, self._settings.beyond)
            polling = asyncio.create_task(self._poll())
            await _first(polling, self._stopping.wait())
            polling.cancel()
            await asyncio.wait([polling])
            await _first(asyncio.create_task(self._end()), self._leaving.wait())
        # What it was refused for; else it was cancelled.
        if not polling.cancelled():
            polling.result()

    async def _end(self) -> None:
        while self._runs:
            await asyncio.wait(self._runs)

    async def _poll(self) -> None:
        """Take work whenever there is a place for it.

        Raises:
            GoSchedulerError: The server refuses it.
        """
        settings, pauses, is_away = self._settings, Pauses(), False
        while True:
            while (room := self._room()) < 1:
                self._changed.clear()
                await self._changed.wait()
            try:
                found = await self._take(room)
            except AwayError as error:
                if not is_away:
                    _LOG.warning("no work at the moment: %s", error)
                is_away = True
                await asyncio.sleep(pauses.next(error.seconds))
                continue
            if is_away:
                _LOG.info("%s answers again", settings.url)
            is_away = False
            pauses.reset()
            for each in found:
                self._begin(each)

    async def _take(self, most: int) -> Sequence[Mapping[str, Any]]:
        """Wait for work; what still comes after a stop is given back."""
        settings = self._settings
        taking = asyncio.create_task(
            self._server.take(
                settings.queues,
                most=most,
                wait=settings.wait.total_seconds(),
                worker=settings.name,
            )
        )
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            if not self._server.hands_out:
                taking.cancel()
            await asyncio.wait([taking])
            if not taking.cancelled() and taking.exception() is None:
                for each in taking.result():
                    given = Given(each, self._extend_soon)
                    self._spawn(self._reports.give_back(given))
            raise

    def _room(self) -> int:
        """How much more it takes: less, if much is still to be told."""
        most, untold = self._settings.max_workers, len(self._runs) - self._called
        return min(_MOST, most - self._called, _UNTOLD * most - untold)

    def _begin(self, item: Mapping[str, Any]) -> None:
        self._called += 1
        self._spawn(self._have_done(Given(item, self._extend_soon)))

    async def _have_done(self, given: Given) -> None:
        keeping = asyncio.create_task(self._reports.keep(given))
        try:
            try:
                ending = await self._calling.call(given)
            finally:
                self._called -= 1
                self._changed.set()
            if ending.failure is not None:
                _LOG.warning(
                    "%s, attempt %d, has failed:\n%s",
                    given.work.instance_id,
                    given.work.attempt,
                    ending.failure.error,
                )
            await self._reports.tell(given, ending)
        finally:
            keeping.cancel()
            self._changed.set()

    def _extend_soon(self, given: Given, by: timedelta) -> None:
        """Ask for more time; from any thread."""

        def extend() -> None:
            self._spawn(self._reports.extend(given, by.total_seconds()))

        self._loop.call_soon_threadsafe(extend)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._runs.add(task)
        task.add_done_callback(self._runs.discard)


async def _first(task: asyncio.Task[None], other: Coroutine[Any, Any, object]) -> None:
    """Wait until one of two is done, and leave the other."""
    waiting = asyncio.create_task(other)
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
