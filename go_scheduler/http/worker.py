"""A worker: runs handlers here that a server elsewhere has work for."""

from __future__ import annotations

import os
import socket
import threading
from datetime import timedelta
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Self

from go_scheduler.checks import check_at_least, check_name, check_type
from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError
from go_scheduler.events.instrument import Instrument
from go_scheduler.handlers.registry import HandlerRegistry
from go_scheduler.http.access.loopback import check_safe_url
from go_scheduler.http.working.calling import check_handler
from go_scheduler.http.working.life import Life, Settings
from go_scheduler.http.working.server import checked_url
from go_scheduler.http.working.work import Work
from go_scheduler.shown import shown
from go_scheduler.signals import caught_signals, next_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from go_scheduler.http.working.server import Token

__all__ = ["Work", "Worker"]

_UNLESS = "; plain_http=True sends it there all the same, for others to read"
_LONGEST_WAIT = timedelta(seconds=60)


class Worker:
    """Waits for work of a server by long-poll, and runs it here.

    ```python
    def handle(work: Work) -> object:
        return {"sent": work.payload}

    Worker("http://127.0.0.1:8710", handle, queues=("mail",)).run()
    ```

    Sync handlers are called on threads, ``async def`` ones on an event loop. What they
    return is the result, if it is JSON; what they raise is the error: ``RetryAfter``
    and ``Fail`` decide as in any handler. Inside them ``current_run()`` says whether
    the run was cancelled or lost, and its ``extend`` asks for more time; heartbeats are
    sent meanwhile. A server that is away is asked again, by and by, and told then what
    came of runs.

    Args:
        url: Of the server, such as ``http://127.0.0.1:8710``.
        handler: Called with ``Work``; or a ``HandlerRegistry``, whose handlers are
            called by type, as by a scheduler.
        queues: Whose work to take.
        max_workers: The most handlers that run at once.
        token: An API key, or a token of the issuer; or what answers one, called on a
            thread, at first and when the server does not take the last one any more.
            None: the server asks for none.
        plain_http: Whether the token may be sent to another machine by http, where
            others may read it on its way.
        name: What the server shows to people; None: this machine's name, and the
            number of this process.
        wait: How long to wait for work before asking anew, at most a minute.
        telemetry: Has a span around each call of a handler, in the trace in which it
            was asked for, such as a ``Telemetry``; None: nobody traces.

    Raises:
        ConfigurationError: An argument is wrong.
    """

    def __init__(
        self,
        url: str,
        handler: Callable[[Any], object],
        *,
        queues: Iterable[str] = ("default",),
        max_workers: int = 32,
        token: Token = None,
        plain_http: bool = False,
        name: str | None = None,
        wait: timedelta = timedelta(seconds=30),
        telemetry: Instrument | None = None,
    ) -> None:
        if not isinstance(handler, HandlerRegistry):
            check_handler(handler)
        check_type("max_workers", max_workers, int)
        if max_workers < 1:
            raise ConfigurationError(f"max_workers must be at least 1: {max_workers}")
        check_type("plain_http", plain_http, bool)
        if token is not None:
            if not callable(token):
                check_type("token", token, str)
            if not plain_http:
                check_safe_url(checked_url(url), unless=_UNLESS)
        check_at_least("wait", wait, ZERO)
        if wait > _LONGEST_WAIT:
            raise ConfigurationError(f"wait must be a minute at most: {shown(wait)}")
        if telemetry is not None:
            check_type("telemetry", telemetry, Instrument)
        if name is None:
            name = f"{socket.gethostname()[:100]} {os.getpid()}"
        self._settings = Settings(
            url=checked_url(url),
            handler=handler,
            queues=_joined(queues),
            max_workers=max_workers,
            token=token,
            name=check_name("name", name),
            wait=wait,
            telemetry=telemetry,
        )
        self._lock = threading.Lock()
        self._life: Life | None = None

    def start(self) -> None:
        """Begin to wait for work, on threads of its own; harmless if it does."""
        self._started(_nobody)

    def stop(self, timeout: timedelta | None = None) -> bool:
        """Take no more work, and await what runs and what is still to be told.

        Args:
            timeout: How long to wait before leaving that behind, which then runs again
                elsewhere; None: until all has ended.

        Returns:
            Whether all has ended; true if it was not running.

        Raises:
            NotAllowedError: It had ended: the server does not know who it is, or does
                not let them work.
            GoSchedulerError: It had ended, as the server refused it for another reason.
        """
        if timeout is not None:
            check_at_least("timeout", timeout, ZERO)
        with self._lock:
            life, self._life = self._life, None
        if life is None:
            return True
        life.request_stop()
        done = life.join(None if timeout is None else timeout.total_seconds())
        if not done:
            life.leave()
            life.join(None)
        if life.error is not None:
            raise life.error
        return done

    def run(self) -> None:
        """Work until SIGINT, SIGTERM or ``stop()``.

        The first signal awaits the running handlers; a second one leaves them behind.
        Signals are caught on the main thread only, and only while this runs.

        Raises:
            NotAllowedError: The server does not know who asks, or does not let them
                work.
            GoSchedulerError: The server refuses it for another reason.
        """
        requests: SimpleQueue[int | None] = SimpleQueue()
        with caught_signals(requests):
            life = self._started(lambda: requests.put(None))
            if next_request(requests) is not None:
                life.request_stop()
                if next_request(requests) is not None:
                    life.leave()
        self.stop()

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, and wait for what runs."""
        self.stop()

    def _started(self, ended: Callable[[], None]) -> Life:
        with self._lock:
            if self._life is None or self._life.is_over:
                self._life = Life(self._settings)
                self._life.start()
            self._life.when_over(ended)
            return self._life


def _joined(queues: Iterable[str]) -> str:
    """Queues as they are asked for."""
    if isinstance(queues, str):
        raise ConfigurationError(f"queues must be several texts, such as ({queues!r},)")
    names = [check_name("queue", each) for each in queues]
    if not names:
        raise ConfigurationError("queues must name one at least")
    for each in names:
        if "," in each:
            raise ConfigurationError(
                f"over HTTP a queue is named without a comma: {shown(each)}"
            )
    return ",".join(names)


def _nobody() -> None:
    """Nobody is told."""
