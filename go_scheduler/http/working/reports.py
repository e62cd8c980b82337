"""What a worker says of its runs: that they go on, and what came of them."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from go_scheduler.errors import GoSchedulerError
from go_scheduler.http.working.server import AwayError, LostError
from go_scheduler.working.pauses import Pauses

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from go_scheduler.http.working.given import Given
    from go_scheduler.http.working.server import Server
    from go_scheduler.running.failure import Failure
    from go_scheduler.working.given import Ending

_LOG = logging.getLogger("go_scheduler.http.worker")
_MOST = 100
_MOST_REASON = 10_000
_BYTES = 256 * 1024
BEYOND = timedelta(minutes=10)


class Reports:
    """Tells a server of runs, again and again while it is away.

    Successes are told together: those that come while others are being told.

    Args:
        server: The server.
        beyond: For how long after the lease is over what came of a run is still told.
    """

    def __init__(self, server: Server, beyond: timedelta = BEYOND) -> None:
        self._server = server
        self._beyond = beyond.total_seconds()
        self._completed: list[tuple[bytes, asyncio.Future[Exception | None]]] = []
        self._telling: asyncio.Task[None] | None = None

    async def keep(self, given: Given) -> None:
        """Send a heartbeat every third of the lease, until the run is lost."""
        third = given.lease / 3
        pauses, pause = Pauses(third), third
        while not given.lost:
            await asyncio.sleep(pause)
            try:
                self._note(given, await self._server.tell(given, "heartbeat"))
            except AwayError as error:
                pause = min(pauses.next(error.seconds), third)
            except (LostError, GoSchedulerError) as error:
                _lose(given, error)
            else:
                pauses, pause = Pauses(third), third

    async def extend(self, given: Given, seconds: float) -> None:
        """Ask for more time; if the server does not answer, heartbeats go on."""
        try:
            answer = await self._server.tell(given, "extend", seconds=seconds)
            self._note(given, answer)
        except AwayError as error:
            _LOG.warning("%s gets no more time: %s", given.work.instance_id, error)
        except (LostError, GoSchedulerError) as error:
            _lose(given, error)

    async def give_back(self, given: Given) -> None:
        """Say that a run has not begun; if nobody hears it, its lease lapses."""
        try:
            await self._server.tell(given, "release")
        except (AwayError, LostError, GoSchedulerError) as error:
            _LOG.warning("%s is not given back: %s", given.work.instance_id, error)

    async def tell(self, given: Given, ending: Ending) -> None:
        """Say what came of a run, and go on trying until its time is long over."""
        # As often as heartbeats are tried, which keep it from running elsewhere.
        loop, pauses = asyncio.get_running_loop(), Pauses(given.lease / 3)
        until = loop.time() + given.lease + self._beyond
        while True:
            try:
                if ending.failure is not None:
                    await self._fail(given, ending.failure)
                else:
                    await self._complete(given, ending.result)
                return
            except AwayError as error:
                pause = pauses.next(error.seconds)
                if loop.time() + pause > until:
                    _untold(given, error)
                    return
            except (LostError, GoSchedulerError) as error:
                _untold(given, error)
                return
            await asyncio.sleep(pause)

    async def _fail(self, given: Given, failure: Failure) -> None:
        # Of what is lost only a success counts.
        if given.lost:
            raise LostError("it runs elsewhere")
        if (delay := failure.given_back_for) is not None:
            seconds, reason = delay.total_seconds(), failure.error[-_MOST_REASON:]
            await self._server.tell(given, "release", delay=seconds, reason=reason)
            return
        body: dict[str, object] = {"message": failure.error, **given.times}
        if failure.is_final:
            body["fail"] = True
        elif failure.retry_in is not None:
            body["retry_after"] = failure.retry_in.total_seconds()
        await self._server.tell(given, "error", **body)

    async def _complete(self, given: Given, result: object) -> None:
        said = {"instance_id": str(given.work.instance_id), "token": given.token}
        body = {**said, **given.times, "result": result}
        text = json.dumps(body, ensure_ascii=False).encode()
        future = asyncio.get_running_loop().create_future()
        self._completed.append((text, future))
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell_completed())
        if (error := await future) is not None:
            raise error

    async def _tell_completed(self) -> None:
        while some := self._some():
            answers: Sequence[Exception | None]
            try:
                answers = await self._server.complete([text for text, _ in some])
            except Exception as error:
                answers = [error] * len(some)
            for (_, future), answer in zip(some, answers, strict=True):
                future.set_result(answer)
        self._telling = None

    def _some(self) -> list[tuple[bytes, asyncio.Future[Exception | None]]]:
        """The first that go into one body."""
        size = count = 0
        for text, _ in self._completed[:_MOST]:
            size += len(text)
            if count and size > _BYTES:
                break
            count += 1
        some, self._completed = self._completed[:count], self._completed[count:]
        return some

    def _note(self, given: Given, answer: Mapping[str, Any]) -> None:
        if answer["answer"] == "stop":
            given.cancel_requested = True


def _lose(given: Given, error: Exception) -> None:
    _LOG.warning("%s is lost: %s", given.work.instance_id, error)
    given.lost = True


def _untold(given: Given, error: Exception) -> None:
    _LOG.warning("what came of %s is not recorded: %s", given.work.instance_id, error)
