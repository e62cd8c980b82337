"""One life of a worker of a server: it waits for work, and has it done."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from go_scheduler.clock import SystemClock
from go_scheduler.http.working.given import Given
from go_scheduler.http.working.reports import BEYOND, Reports
from go_scheduler.http.working.server import AwayError, Server
from go_scheduler.working import life
from go_scheduler.working.calling import Calling
from go_scheduler.working.life import first
from go_scheduler.working.pauses import Pauses

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from go_scheduler.events.instrument import Instrument
    from go_scheduler.http.working.server import Token

_CLOCK = SystemClock()
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


class Life(life.Life):
    """Waits for work and has it done, until it is told to stop.

    Args:
        settings: What it is like.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(Calling(settings.handler, _LOG, settings.telemetry), _LOG)
        self._settings = settings
        self._called = 0

    async def _live(self) -> None:
        self._changed = asyncio.Event()
        async with Server(self._settings.url, self._settings.token) as server:
            self._server = server
            self._reports = Reports(server, self._settings.beyond)
            polling = asyncio.create_task(self._poll())
            await first(polling, self._stopping.wait())
            polling.cancel()
            await asyncio.wait([polling])
            await self._until_left()
        # What it was refused for; else it was cancelled.
        if not polling.cancelled():
            polling.result()

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
            began = _CLOCK.now()
            try:
                ending = await self._calling.call(given)
            finally:
                self._called -= 1
                self._changed.set()
            # The clock may have been set back.
            ended = max(began, _CLOCK.now())
            times = {"started_at": began, "ended_at": ended}
            given.times = {name: at.isoformat() for name, at in times.items()}
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
