"""A worker in Python: takes work from an HTTP server, and runs handlers for it."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import httpx

from go_scheduler.checks import check_at_least, check_type
from go_scheduler.clock import ZERO, SystemClock
from go_scheduler.errors import (
    ConfigurationError,
    GoSchedulerError,
    StoreUnavailableError,
)
from go_scheduler.events.listening import Instrument
from go_scheduler.formatting import shown
from go_scheduler.http.access.loopback import check_safe_url
from go_scheduler.http.remote_errors import error_of
from go_scheduler.json import NOTHING
from go_scheduler.working import worker
from go_scheduler.working.worker import (
    Calling,
    LivingWorker,
    Pauses,
    Work,
    check_arguments,
    checked_name,
    checked_queues,
    first,
    frozen,
    own_name,
)

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        Callable,
        Iterable,
        Mapping,
        Sequence,
    )

    from go_scheduler.running.outcomes import Failure
    from go_scheduler.working.worker import Ending

    Token = str | Callable[[], str] | None

__all__ = ["Work", "Worker"]


class Given(worker.Given):
    """A run that the server has handed out to this worker.

    Args:
        item: The item of the server's answer.
        extend: Asks the server for more time, without waiting for its answer.

    Attributes:
        times: When the run began and ended by this machine's clock, as the body of a
            report has them; empty while it runs.
    """

    place = "a worker of an HTTP server"
    recorder = "the server"

    def __init__(
        self, item: Mapping[str, Any], extend: Callable[[Given, timedelta], None]
    ) -> None:
        super().__init__(_work_of(item), extend)
        self.token: str = item["token"]
        self.lease: float = item["lease"]
        self.times: Mapping[str, str] = {}


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


class Server:
    """Sends requests to a server, with a connection pool, within one event loop.

    Args:
        url: The URL of the server.
        token: The token, or a function that returns it. The function is called before
            the first request, and again when the server refuses the token.

    Attributes:
        hands_out: Whether the answer to the current poll has begun.
    """

    def __init__(self, url: str, token: Token) -> None:
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

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def take(
        self, queues: str, *, most: int, wait: float, worker: str
    ) -> Sequence[Mapping[str, Any]]:
        """Wait for work; returns the items, none if no work came in that time."""
        self.hands_out = False
        answer = await self._ask(
            "GET",
            "",
            params={"queues": queues, "max": most, "wait": wait, "worker": worker},
            timeout=httpx.Timeout(_PATIENCE, read=wait + _PATIENCE),
        )
        found: Sequence[Mapping[str, Any]] = []
        return found if answer is None else answer["work"]

    async def tell(self, given: Given, what: str, **body: object) -> Any:
        """Report something about a run; returns the server's answer."""
        path = f"/{given.work.instance_id}/{what}"
        return await self._ask("POST", path, json={"token": given.token, **body})

    async def complete(self, completed: Sequence[bytes]) -> Sequence[Exception | None]:
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

    async def _note_answer(self, answer: httpx.Response) -> None:
        # Only polls for work are sent by GET.
        if answer.request.method == "GET" and answer.is_success:
            self.hands_out = True

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
            wrong = answer.json() if _is_problem(answer) else {}
        except (httpx.HTTPError, ValueError) as error:
            raise AwayError(f"{self.url}: {error or type(error).__name__}") from error
        raise _error(answer.status_code, wrong, answer.headers.get("retry-after", ""))


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


def _is_problem(answer: httpx.Response) -> bool:
    kind: str = answer.headers.get("content-type", "")
    return kind.startswith("application/problem+json")


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


class Reports:
    """Reports runs to a server, and repeats a report while the server is away.

    Successes that come in while a report is under way are sent together afterwards.

    Args:
        server: The server.
        beyond: How long after the end of the lease the result of a run is still sent.
    """

    def __init__(self, server: Server, beyond: timedelta = BEYOND) -> None:
        self._server = server
        self._beyond = beyond.total_seconds()
        self._completed: list[tuple[bytes, asyncio.Future[Exception | None]]] = []
        self._telling: asyncio.Task[None] | None = None

    async def keep(self, given: Given) -> None:
        """Send a heartbeat after each third of the lease, until the run is lost."""
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
        """Ask for more time; heartbeats go on if the server does not answer."""
        try:
            answer = await self._server.tell(given, "extend", seconds=seconds)
            self._note(given, answer)
        except AwayError as error:
            _LOG.warning("%s gets no more time: %s", given.work.instance_id, error)
        except (LostError, GoSchedulerError) as error:
            _lose(given, error)

    async def give_back(self, given: Given) -> None:
        """Release a run that has not begun; if that fails, its lease lapses."""
        try:
            await self._server.tell(given, "release")
        except (AwayError, LostError, GoSchedulerError) as error:
            _LOG.warning("%s is not given back: %s", given.work.instance_id, error)

    async def tell(self, given: Given, ending: Ending) -> None:
        """Send the result of a run, and repeat that until its time is over."""
        # As often as heartbeats, which keep the instance from running elsewhere.
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
        # The server takes only a success of a run that is lost.
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
        """Take the successes that fit into one body."""
        size = count = 0
        for text, _ in self._completed[:_MOST_REPORTS]:
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
    _LOG.warning("the result of %s is not recorded: %s", given.work.instance_id, error)


_CLOCK = SystemClock()
_MOST_ASKED_FOR = 100
# The most unsent results for each worker thread: no more work is taken from a server
# that takes no reports.
_UNTOLD = 2


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a worker.

    Attributes:
        url: The URL of its server.
        handler: The handler.
        queues: Its queues, with commas between them.
        max_workers: The most handlers that run at once.
        token: The token, or a function that returns it; None: no token is sent.
        name: The name of the worker that the server shows.
        wait: How long a poll waits for work.
        telemetry: Makes a span around each call of a handler; None: no spans.
        beyond: How long after the end of the lease the result of a run is still sent.
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


class Life(worker.Life):
    """One start of a worker: takes work and runs it, until it is stopped.

    Args:
        settings: The settings of the worker.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(Calling(settings.handler, _LOG, settings.telemetry), _LOG)
        self._settings = settings
        self._called = 0

    async def _live(self) -> None:
        self._changed = asyncio.Event()
        server = self._server = Server(self._settings.url, self._settings.token)
        async with aclosing(server):
            self._reports = Reports(server, self._settings.beyond)
            polling = asyncio.create_task(self._poll())
            await first(polling, self._stopping.wait())
            polling.cancel()
            await asyncio.wait([polling])
            await self._until_left()
        # Raises the error if the server has refused the worker.
        if not polling.cancelled():
            polling.result()

    async def _poll(self) -> None:
        """Take work whenever a handler may be called.

        Raises:
            GoSchedulerError: The server refuses the worker.
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
        """Wait for work; work that arrives after a stop is released."""
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
        """How many more runs it takes: fewer if many results are not sent yet."""
        most, untold = self._settings.max_workers, len(self._runs) - self._called
        return min(_MOST_ASKED_FOR, most - self._called, _UNTOLD * most - untold)

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
        """Ask for more time, from any thread."""

        def extend() -> None:
            self._spawn(self._reports.extend(given, by.total_seconds()))

        self._loop.call_soon_threadsafe(extend)


_UNLESS = "; plain_http=True sends it there all the same, for others to read"
_LONGEST_WAIT = timedelta(seconds=60)


class Worker(LivingWorker):
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
    asks for more time. The worker sends heartbeats meanwhile. While the server is away,
    the worker tries again with growing pauses, and sends the results of runs later.

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
    """The queues as the query of a poll has them."""
    names = checked_queues(queues)
    for each in names:
        if "," in each:
            raise ConfigurationError(
                f"over HTTP a queue is named without a comma: {shown(each)}"
            )
    return ",".join(names)
