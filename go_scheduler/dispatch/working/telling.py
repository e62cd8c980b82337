"""What a worker on a bus says of its runs."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from go_scheduler.dispatch.messages.statuses import Said, Status
from go_scheduler.dispatch.working.sender import ENDS, Sender

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from go_scheduler.dispatch.working.settings import Settings
    from go_scheduler.dispatch.working.taken import Taken
    from go_scheduler.working.given import Ending

_LOG = logging.getLogger("go_scheduler.dispatch.worker")


class Telling:
    """Makes statuses, and has them sent; used on one event loop.

    Args:
        settings: What the worker is like.
        stopping: Set once it is told to stop.
    """

    def __init__(self, settings: Settings, stopping: asyncio.Event) -> None:
        self._name = settings.name
        self._clock = settings.clock
        self._loop = asyncio.get_running_loop()
        self._sender = Sender(settings.bus, settings.topics.statuses, self._loop)
        self._stop = asyncio.ensure_future(stopping.wait())

    def close(self) -> None:
        """Send nothing more; what came of runs and is not sent is told in the log."""
        self._stop.cancel()
        for id, attempt, said in self._sender.close():
            if said in ENDS:
                text = "that %s, attempt %d, has %s is not told: the bus is away"
                _LOG.warning(text, id, attempt, said)

    def status(self, taken: Taken, said: Said, **more: Any) -> Status:
        """What is said of a run now."""
        return Status(
            status=said,
            instance_id=taken.key.instance_id,
            attempt=taken.key.attempt,
            worker=self._name,
            at=self._clock.now(),
            **more,
        )

    def begin(self, taken: Taken) -> None:
        """Say that its handler is about to be called."""
        taken.began_at = self._clock.now()
        self.say(self.status(taken, Said.STARTED))

    def end(self, taken: Taken, ending: Ending) -> Status:
        """What is said of a run in the end."""
        began = taken.began_at
        assert began is not None
        # The clock may have been set back.
        times = {"started_at": began, "ended_at": max(began, self._clock.now())}
        failure = ending.failure
        if failure is None:
            return self.status(taken, Said.SUCCEEDED, result=ending.result, **times)
        error = failure.error
        if (delay := failure.given_back_for) is not None:
            return self.status(taken, Said.RELEASED, delay=delay, error=error)
        if taken.was_ended:
            error = f"timed out after {taken.run.timeout}\n\n{error}"
        _LOG.warning("%s, attempt %d, has failed:\n%s", *taken.key, error)
        return self.status(
            taken,
            Said.FAILED,
            error=error,
            retry=False if failure.is_final else None,
            retry_in=failure.retry_in,
            **times,
        )

    def say(
        self, status: Status, then: Callable[[bool], None] = lambda sent: None
    ) -> None:
        """Have it sent, as by ``Sender.put``."""
        self._sender.put(status, then)

    async def tell(self, status: Status, patience: timedelta) -> bool:
        """Have it sent, and wait until it is; after a stop only so long.

        Returns:
            Whether the bus has it.
        """
        future: asyncio.Future[bool] = self._loop.create_future()
        self.say(status, future.set_result)
        both: list[asyncio.Future[Any]] = [future, self._stop]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not future.done():
            await asyncio.wait([future], timeout=patience.total_seconds())
        return future.done() and future.result()
