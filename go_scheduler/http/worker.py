"""A worker: runs handlers here that a server elsewhere has work for."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from go_scheduler.checks import check_at_least, check_type
from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError
from go_scheduler.events.instrument import Instrument
from go_scheduler.formatting import shown
from go_scheduler.http.access.loopback import check_safe_url
from go_scheduler.http.working.life import Life, Settings, checked_url
from go_scheduler.working.worker import (
    LivingWorker,
    Work,
    check_arguments,
    checked_name,
    checked_queues,
    own_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from go_scheduler.http.working.life import Token

__all__ = ["Work", "Worker"]

_UNLESS = "; plain_http=True sends it there all the same, for others to read"
_LONGEST_WAIT = timedelta(seconds=60)


class Worker(LivingWorker):
    """Waits for work of a server by long-poll, and runs it here.

    ```python
    def handle(work: Work) -> object:
        return {"sent": work.payload}

    Worker("http://127.0.0.1:8710", handle, queues=("mail",)).run()
    ```

    Sync handlers are called on threads, ``async def`` ones on an event loop. What they
    return is the result, if it is JSON; what they raise is the error: ``RetryAfter``,
    ``Fail`` and ``GiveBack`` decide as in any handler. Inside them ``current_run()``
    says whether the run was cancelled or lost, and its ``extend`` asks for more time;
    heartbeats are sent meanwhile. A server that is away is asked again, by and by, and
    told then what came of runs.

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
        check_arguments(handler, max_workers, telemetry)
        check_type("plain_http", plain_http, bool)
        if token is not None:
            if not callable(token):
                check_type("token", token, str)
            if not plain_http:
                check_safe_url(checked_url(url), unless=_UNLESS)
        check_at_least("wait", wait, ZERO)
        if wait > _LONGEST_WAIT:
            raise ConfigurationError(f"wait must be a minute at most: {shown(wait)}")
        settings = Settings(
            url=checked_url(url),
            handler=handler,
            queues=_joined(queues),
            max_workers=max_workers,
            token=token,
            name=own_name() if name is None else checked_name(name),
            wait=wait,
            telemetry=telemetry,
        )
        super().__init__(lambda: Life(settings))


def _joined(queues: Iterable[str]) -> str:
    """Queues as they are asked for."""
    names = checked_queues(queues)
    for each in names:
        if "," in each:
            raise ConfigurationError(
                f"over HTTP a queue is named without a comma: {shown(each)}"
            )
    return ",".join(names)
