"""A worker in Python: takes work from an HTTP server, and runs handlers for it."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from uuid import UUID

import httpx

from go_scheduler.checks import check_at_least, check_type
from go_scheduler.clock import ZERO
from go_scheduler.errors import (
    ConfigurationError,
    GoSchedulerError,
    StoreUnavailableError,
)
from go_scheduler.events.event import Instrument
from go_scheduler.formatting import shown
from go_scheduler.http.access.loopback import check_safe_url
from go_scheduler.http.gathered import Gathered
from go_scheduler.http.remote_errors import error_of
from go_scheduler.json import NOTHING
from go_scheduler.working import worker
from go_scheduler.working.worker import (
    BaseWorker,
    Pauses,
    Transport,
    Work,
    check_arguments,
    checked_name,
    checked_queues,
    frozen,
    own_name,
    tell_progress,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence

    from go_scheduler.running.outcomes import Failure
    from go_scheduler.working.worker import Ending, Loop

    Token = str | Callable[[], str] | None

__all__ = ["Work", "Worker", "tell_progress"]


class Given(worker.Given):
    """A run that the server has handed out to this worker.

    Args:
        item: The item of the server's answer.
        loop: As for any that a worker has.

    Attributes:
        pauses: The pauses between its heartbeats while the server is away.
        asking: Held while the server is asked: heartbeats are in their order, and the
            result comes after them.
    """

    place = "a worker of an HTTP server"
    recorder = "the server"

    def __init__(self, item: Mapping[str, Any], loop: Loop) -> None:
        super().__init__(_work_of(item), item["lease"], loop)
        self.token: str = item["token"]
        self.pauses = Pauses(self.lease / 3)
        self.asking = asyncio.Lock()

    @property
    def times(self) -> Mapping[str, str]:
        """When the run began and ended, as the body of a report has it."""
        return {
            "started_at": self.began_at.isoformat(),
            "ended_at": self.ended_at.isoformat(),
        }


def _work_of(item: Mapping[str, Any]) -> Work:
    payload, metadata = item["payload"], item["metadata"]
    definition_id: str | None = item.get("definition_id")
    return Work(
        instance_id=UUID(item["instance_id"]),
        type=item["type"],
        payload=None if payload is None else frozen(payload, "payload"),
        metadata=frozen(metadata, "metadata") if metadata else NOTHING,
        attempt=item["attempt"],
        execute_at=datetime.fromisoformat(item["execute_at"]),
        # Servers of earlier versions do not send the following fields.
        definition_id=None if definition_id is None else UUID(definition_id),
        queue=item.get("queue"),
        traceparent=item.get("traceparent"),
        tracestate=item.get("tracestate"),
    )


_PATIENCE = 30.0
_CONNECTIONS = 20
# Shorter than the keep-alive of servers: a request on a connection that the server
# closes at the same moment fails.
_CONNECTION_KEPT = 4.0
_JSON = {"Content-Type": "application/json"}


class AwayError(StoreUnavailableError):
    """The server or its store does not answer; trying again may help.

    Attributes:
        seconds: The ``Retry-After`` of the answer, in seconds; 0: there is none.
    """

    def __init__(self, why: str, seconds: float = 0.0) -> None:
        super().__init__(why)
        self.seconds = seconds


class LostError(Exception):
    """The worker has lost the claim of a run, or the instance has ended."""


class Bearer(httpx.Auth):
    """Adds the token to each request."""

    def __init__(self, token: str | Callable[[], str]) -> None:
        self._given = token
        self._token = token if isinstance(token, str) else None

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Send the token; if it is refused, get another one and send that once."""
        if self._token is None:
            await self._ask()
        request.headers["Authorization"] = f"Bearer {self._token}"
        answer = yield request
        if answer.status_code == 401 and callable(self._given):
            await self._ask()
            request.headers["Authorization"] = f"Bearer {self._token}"
            yield request

    async def _ask(self) -> None:
        assert callable(self._given)
        try:
            self._token = await asyncio.to_thread(self._given)
        except Exception as error:
            raise AwayError(f"token() raised {error!r}") from error


def checked_url(url: object) -> str:
    """The URL of a server, without a slash at its end.

    Raises:
        ConfigurationError: It is no http or https URL with a host.
    """
    try:
        parsed = httpx.URL(url)  # type: ignore[arg-type]
        is_one = parsed.scheme in ("http", "https") and bool(parsed.host)
    except (httpx.InvalidURL, TypeError):
        is_one = False
    if not is_one:
        raise ConfigurationError(
            f"a server's URL is such as http://127.0.0.1:8710, not {url!r}"
        )
    return str(url).rstrip("/")


def _error(status: int, wrong: Mapping[str, Any], after: str = "") -> Exception:
    if status == 409:
        return LostError(wrong.get("detail"))
    error = error_of(status, wrong, None)
    if status >= 500 or isinstance(error, StoreUnavailableError):
        return AwayError(str(error), float(after) if after.isdecimal() else 0.0)
    return error


_LOG = logging.getLogger("go_scheduler.http.worker")
_MOST_REPORTS = 100
_MOST_REASON = 10_000
_BYTES = 256 * 1024
BEYOND = timedelta(minutes=10)


_MOST_ASKED_FOR = 100
# The most unsent results for each worker thread: no more work is taken from a server
# that takes no reports.
_UNTOLD = 2


def _fitting(completed: Sequence[bytes]) -> int:
    """How many successes fit into one body."""
    sizes = accumulate(map(len, completed[:_MOST_REPORTS]))
    return max(1, sum(size <= _BYTES for size in sizes))


class HTTPTransport(Transport[Given]):
    """Polls a server for work, and repeats a report while the server is away.

    Successes that come in while a report is under way are sent together afterwards.

    Args:
        url: The URL of the server.
        queues: The queues, with commas between them.
        max_workers: The most handlers that run at once.
        token: The token, or a function that returns it; None: no token is sent.
        name: The name of the worker that the server shows.
        wait: How long a poll waits for work.
        beyond: How long after the end of the lease the result of a run is still sent.

    Attributes:
        url: The URL of the server.
        hands_out: Whether the answer to the current poll has begun.
    """

    def __init__(
        self,
        url: str,
        *,
        queues: str,
        max_workers: int,
        token: Token,
        name: str,
        wait: timedelta,
        beyond: timedelta = BEYOND,
    ) -> None:
        self.url = url
        self._http = httpx.AsyncClient(
            base_url=url,
            auth=None if token is None else Bearer(token),
            timeout=_PATIENCE,
            limits=httpx.Limits(
                max_connections=_CONNECTIONS, keepalive_expiry=_CONNECTION_KEPT
            ),
            event_hooks={"response": [self._note_answer]},
        )
        self.hands_out = False
        self._wait = wait.total_seconds()
        self._query = {"queues": queues, "wait": self._wait, "worker": name}
        self._max_workers = max_workers
        self._beyond = beyond.total_seconds()
        self._called = self._untold = 0
        self._has_room = asyncio.Event()
        self._completing = Gathered(self._send_completed, _fitting)

    async def take(self) -> None:
        """Take work whenever a handler may be called.

        Raises:
            GoSchedulerError: The server refuses the worker.
        """
        pauses, is_away = Pauses(), False
        while True:
            while (room := self.room()) < 1:
                self._has_room.clear()
                await self._has_room.wait()
            try:
                await self._poll(room)
            except AwayError as error:
                if not is_away:
                    _LOG.warning("no work at the moment: %s", error)
                is_away = True
                await asyncio.sleep(pauses.next(error.seconds))
                continue
            if is_away:
                _LOG.info("%s answers again", self.url)
            is_away = False
            pauses.reset()

    async def _poll(self, most: int) -> None:
        """Wait for work, and begin it; also what is handed out as this is cancelled."""
        taking = asyncio.create_task(self._take(most))
        try:
            await asyncio.shield(taking)
        except asyncio.CancelledError:
            if not self.hands_out:
                taking.cancel()
            await asyncio.wait([taking])
            raise
        finally:
            if taking.done() and not taking.cancelled() and not taking.exception():
                for each in taking.result():
                    self._called += 1
                    self._loop.begin(Given(each, self._loop))

    async def _take(self, most: int) -> Sequence[Mapping[str, Any]]:
        """Wait for work; returns the items, none if no work came in that time."""
        self.hands_out = False
        answer = await self._ask(
            "GET",
            "",
            params={**self._query, "max": most},
            timeout=httpx.Timeout(_PATIENCE, read=self._wait + _PATIENCE),
        )
        found: Sequence[Mapping[str, Any]] = []
        return found if answer is None else answer["work"]

    def room(self) -> int:
        """How many more runs it takes: fewer if many results are not sent yet."""
        most = self._max_workers
        return min(_MOST_ASKED_FOR, most - self._called, _UNTOLD * most - self._untold)

    async def keep(self, given: Given, by: timedelta | None = None) -> float:
        """Send a heartbeat with the progress, or ask for more time."""
        third = given.lease / 3
        async with given.asking:
            body: dict[str, object] = {}
            progress = None
            if by is not None:
                body["seconds"] = by.total_seconds()
            elif (progress := given.progress) is not None:
                body["progress"], given.progress = progress, None
            what = "heartbeat" if by is None else "extend"
            try:
                # One that is not answered is not to hold up the next, or the result.
                async with asyncio.timeout(third):
                    answer = await self._tell(given, what, **body)
            except (AwayError, TimeoutError) as error:
                if by is not None:
                    text = "%s gets no more time: %s"
                    _LOG.warning(text, given.work.instance_id, error or "no answer")
                # The next heartbeat has it, if there is nothing newer by then.
                if given.progress is None:
                    given.progress = progress
                after = error.seconds if isinstance(error, AwayError) else 0.0
                return min(given.pauses.next(after), third)
            except (LostError, GoSchedulerError) as error:
                id = given.work.instance_id
                if progress is not None and isinstance(error, ConfigurationError):
                    # Such as by a server that knows of no progress.
                    _LOG.warning("the progress of %s is not taken: %s", id, error)
                    return 0.0
                _LOG.warning("%s is lost: %s", id, error)
                given.lost = True
            else:
                given.pauses.reset()
                if answer["answer"] == "stop":
                    given.cancel_requested = True
        return third

    def leave(self, given: Given) -> None:
        """Free the place of a run."""
        self._called -= 1
        self._has_room.set()

    async def give_back(self, given: Given) -> None:
        """Release a run that has not begun; if that fails, its lease lapses."""
        try:
            await self._tell(given, "release")
        except (LostError, GoSchedulerError) as error:
            _LOG.warning("%s is not given back: %s", given.work.instance_id, error)

    async def report(self, given: Given, ending: Ending) -> None:
        """Send the result of a run, and repeat that until its time is over."""
        self._untold += 1
        try:
            await self._report(given, ending)
        except (LostError, GoSchedulerError) as error:
            text = "the result of %s is not recorded: %s"
            _LOG.warning(text, given.work.instance_id, error)
        finally:
            self._untold -= 1
            self._has_room.set()

    async def _report(self, given: Given, ending: Ending) -> None:
        # As often as heartbeats, which keep the instance from running elsewhere.
        loop, pauses = asyncio.get_running_loop(), Pauses(given.lease / 3)
        until = loop.time() + given.lease + self._beyond
        # What the handler has asked for comes first, if it is answered soon.
        with suppress(TimeoutError):
            async with asyncio.timeout(given.lease / 3), given.asking:
                pass
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
                    raise
            await asyncio.sleep(pause)

    async def _fail(self, given: Given, failure: Failure) -> None:
        # The server takes only a success of a run that is lost.
        if given.lost:
            raise LostError("it runs elsewhere")
        if (delay := failure.given_back_for) is not None:
            seconds, reason = delay.total_seconds(), failure.error[-_MOST_REASON:]
            await self._tell(given, "release", delay=seconds, reason=reason)
            return
        body: dict[str, object] = {"message": failure.error, **given.times}
        if failure.is_final:
            body["fail"] = True
        elif failure.retry_in is not None:
            body["retry_after"] = failure.retry_in.total_seconds()
        await self._tell(given, "error", **body)

    async def _complete(self, given: Given, result: object) -> None:
        said = {"instance_id": str(given.work.instance_id), "token": given.token}
        body = {**said, **given.times, "result": result}
        await self._completing.ask(json.dumps(body, ensure_ascii=False).encode())

    async def _tell(self, given: Given, what: str, **body: object) -> Any:
        """Report something about a run; returns the server's answer."""
        path = f"/{given.work.instance_id}/{what}"
        return await self._ask("POST", path, json={"token": given.token, **body})

    async def _send_completed(
        self, completed: Sequence[bytes]
    ) -> Sequence[Exception | None]:
        """Report several successes; returns the error of each, in order."""
        content = b'{"completed": [' + b",".join(completed) + b"]}"
        answer = await self._ask("POST", "/complete", content=content, headers=_JSON)
        told = [
            None
            if (wrong := each["problem"]) is None
            else _error(wrong["status"], wrong)
            for each in answer["answers"]
        ]
        if len(told) != len(completed):
            raise AwayError(
                f"{self.url}: it answered {len(told)} of {len(completed)} successes"
            )
        return told

    async def _ask(self, method: str, path: str, **options: Any) -> Any:
        """Send a request; returns the body of the answer, or None without a body.

        Raises:
            AwayError: Trying again may help.
            LostError: 409.
            GoSchedulerError: The server refuses the request.
        """
        try:
            answer = await self._http.request(method, f"/v1/work{path}", **options)
            if answer.is_success:
                return answer.json() if answer.content else None
            kind = answer.headers.get("content-type", "")
            is_problem = kind.startswith("application/problem+json")
            wrong = answer.json() if is_problem else {}
        except (httpx.HTTPError, ValueError) as error:
            raise AwayError(f"{self.url}: {error or type(error).__name__}") from error
        raise _error(answer.status_code, wrong, answer.headers.get("retry-after", ""))

    async def _note_answer(self, answer: httpx.Response) -> None:
        # Only polls for work are sent by GET.
        if answer.request.method == "GET" and answer.is_success:
            self.hands_out = True

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


_UNLESS = "; plain_http=True sends it there all the same, for others to read"
_LONGEST_WAIT = timedelta(seconds=60)


class Worker(BaseWorker):
    """Takes work from a server by long-poll, and runs it in this process.

    ```python
    def handle(work: Work) -> object:
        return {"sent": work.payload}

    Worker("http://127.0.0.1:8710", handle, queues=("mail",)).run()
    ```

    Sync handlers are called on threads, async handlers on an event loop. The return
    value is the result, if it is JSON. An exception is the error of the run;
    ``RetryAfter``, ``Fail`` and ``GiveBack`` work as in any handler. In a handler,
    ``current_run()`` says whether the run was cancelled or lost, and its ``extend``
    asks for more time; ``tell_progress`` says how far it has come. The worker sends
    heartbeats meanwhile. While the server is away, the worker tries again with growing
    pauses, and sends the results of runs later.

    Args:
        url: The URL of the server, such as ``http://127.0.0.1:8710``.
        handler: Called with ``Work``; or a ``HandlerRegistry``, whose handlers are
            called by type, as by a scheduler.
        queues: The queues whose work is taken.
        max_workers: The most handlers that run at once.
        token: An API key, or a token of the issuer; or a function that returns it. The
            function is called on a thread, before the first request and when the
            server refuses the token. None: no token is sent.
        plain_http: Whether the token may be sent to another machine by http, where
            others may read it on its way.
        name: The name that the server shows; None: the name of this machine, and the
            number of this process.
        wait: How long a poll waits for work, at most a minute.
        telemetry: Makes a span around each call of a handler, in the trace of the
            instance, such as a ``Telemetry``; None: no spans.

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
        transport = partial(
            HTTPTransport,
            checked_url(url),
            queues=_joined(queues),
            max_workers=max_workers,
            token=token,
            name=own_name() if name is None else checked_name(name),
            wait=wait,
        )
        super().__init__(transport, handler, log=_LOG, telemetry=telemetry)


def _joined(queues: Iterable[str]) -> str:
    """The queues as the query of a poll has them."""
    names = checked_queues(queues)
    for each in names:
        if "," in each:
            raise ConfigurationError(
                f"over HTTP a queue is named without a comma: {shown(each)}"
            )
    return ",".join(names)
