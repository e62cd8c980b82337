"""Runs the server: its socket, its connections, its bus, and an orderly stop."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import (
    AbstractContextManager,
    ExitStack,
    closing,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from go_scheduler.client import Client
from go_scheduler.clock import ZERO, SystemClock
from go_scheduler.errors import ConfigurationError
from go_scheduler.events.event import ANSWERED
from go_scheduler.http.access.authentication import Access
from go_scheduler.http.app import MountedPages, Pages, create_app
from go_scheduler.http.configuration.loading import check
from go_scheduler.http.configuration.sections import Configuration, ServerSection
from go_scheduler.http.context import Context
from go_scheduler.http.limits import Limited
from go_scheduler.http.logs import RequestLog, written_log
from go_scheduler.http.problems import (
    CLOSE,
    RETRY_AFTER,
    Problem,
    headers_too_large,
    too_slow,
)
from go_scheduler.scheduler import NO_HANDLER, Scheduler
from go_scheduler.stores.base import Store
from go_scheduler.stores.opening import open_store
from go_scheduler.telemetry.figures import Gathering

_BACKLOG = 2048
_WHY_NOT = {
    errno.EADDRINUSE: "is taken: another server listens there; choose another --port",
    errno.EACCES: "needs rights that this user has not: choose a --port above 1023",
    errno.EADDRNOTAVAIL: "is no address of this machine: choose another --host",
}


def listening(server: ServerSection) -> socket.socket:
    """Open the listening socket of the settings.

    Raises:
        ConfigurationError: The address cannot be used.
    """
    where = f"{server.host}:{server.port}"
    try:
        family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
        return socket.create_server(
            (server.host, server.port), family=family, backlog=_BACKLOG
        )
    except OSError as error:
        reason = _WHY_NOT.get(error.errno or 0, f"cannot be listened on: {error}")
        raise ConfigurationError(f"{where} {reason}") from None


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose servers limit the time of a TLS handshake.

    The default of asyncio is a minute, and uvicorn has no option for it.

    Args:
        handshake: How long a handshake may take.
    """

    def __init__(self, handshake: timedelta) -> None:
        super().__init__()
        self._handshake = handshake.total_seconds()

    async def create_server(self, *args: Any, **kwargs: Any) -> asyncio.Server:
        """Create a server with the time limit."""
        if kwargs.get("ssl") is not None:
            kwargs = {"ssl_handshake_timeout": self._handshake} | kwargs
        return await super().create_server(*args, **kwargs)


if TYPE_CHECKING:
    # The protocol of httptools has the same members, and another parser.
    from uvicorn.protocols.http.h11_impl import H11Protocol as Protocol
else:
    Protocol = asyncio.Protocol

_LOG = logging.getLogger("go_scheduler.http")
# How many bytes are read of a body that was answered before its end, or ahead of the
# next request.
_LEFT_OVER = 1024 * 1024
# How many surplus connections get an answer; further ones are aborted.
_TOLD = 100
_LOGGED_AGAIN = 60.0
# Files of stores, modules and child processes.
_OTHER_FILES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The limits of connections.

    Attributes:
        most: The most connections.
        head: How long the head of a request may take to arrive, from its first byte,
            or from when a new connection is open.
        head_bytes: The most bytes of the head.
        answer: How long a client may read nothing of an answer.
    """

    most: int
    head: timedelta
    head_bytes: int
    answer: timedelta


def bounded(
    bounds: Bounds, protocol: type[asyncio.Protocol] = AutoHTTPProtocol
) -> type[asyncio.Protocol]:
    """The protocol class for uvicorn's ``http=``, with these bounds.

    uvicorn's ``timeout_keep_alive`` limits how long an idle connection is kept.

    Args:
        bounds: The bounds.
        protocol: A protocol of uvicorn.
    """
    return type("Connection", (_Connection, protocol), {"bounds": bounds})


def allow_files(connections: int) -> int:
    """Raise the limit of open files; returns how many connections it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + _OTHER_FILES
    if soft >= needed or soft == resource.RLIM_INFINITY:
        return connections
    files = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return min(connections, max(files - _OTHER_FILES, files // 2))


class _Connection(Protocol):
    """One connection, closed when it is beyond a limit."""

    bounds: ClassVar[Bounds]
    logged_at: ClassVar[float | None] = None

    _is_surplus = False
    _unread = 0
    _asking: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a connection."""
        super().connection_made(transport)  # type: ignore[arg-type]
        surplus = len(self.connections) - self.bounds.most
        self._is_surplus = surplus > 0
        if self._is_surplus:
            self._log()
        if surplus > _TOLD:
            self.transport.abort()
        else:
            self._let_ask()

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        self._has_asked()
        self._has_read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Receive data."""
        self._has_read()
        if self._is_surplus:
            # Not before: a client that is still sending might not read the answer.
            self._refuse(_TOO_MANY)
            return
        cycle = self.cycle
        is_body = cycle and cycle.more_body and not cycle.response_complete
        super().data_received(data)
        if is_body or self.cycle is not cycle:
            self._has_asked()
            return
        self._unread += len(data)
        if self._unread > (self.bounds.head_bytes if self._is_idle else _LEFT_OVER):
            self._refuse(_TOO_LONG)
        elif self._asking is None and (cycle is None or cycle.response_complete):
            self._let_ask()

    def on_response_complete(self) -> None:
        """Get ready for the next request."""
        super().on_response_complete()
        self._unread = 0
        if self.transport.get_write_buffer_size():
            self._let_read()

    def pause_writing(self) -> None:
        """Pause: the client has not read the data that was sent."""
        super().pause_writing()
        self._let_read()

    def resume_writing(self) -> None:
        """Go on sending."""
        self._has_read()
        super().resume_writing()

    def _let_ask(self) -> None:
        seconds = self.bounds.head.total_seconds()
        self._asking = self.loop.call_later(seconds, self._cut_off)

    def _has_asked(self) -> None:
        self._unread = 0
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    def _let_read(self) -> None:
        self._has_read()
        seconds = self.bounds.answer.total_seconds()
        self._reading = self.loop.call_later(seconds, self.transport.abort)

    def _has_read(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    @property
    def _is_idle(self) -> bool:
        """Whether data is the head of a request, and no other request is under way.

        Otherwise it is of the next request, or of a body that was answered early.
        """
        cycle = self.cycle
        return cycle is None or (cycle.response_complete and not cycle.more_body)

    def _cut_off(self) -> None:
        self._refuse(_TOO_SLOW if self._unread else b"")

    def _refuse(self, answer: bytes) -> None:
        if self._is_idle:
            self.transport.write(answer)
        self.transport.close()

    def _log(self) -> None:
        now, kind = self.loop.time(), type(self)
        if kind.logged_at is None or now - kind.logged_at > _LOGGED_AGAIN:
            kind.logged_at = now
            _LOG.warning(
                "there are %d connections, and more are refused: server.connections"
                " is how many there may be",
                self.bounds.most,
            )


def _written(problem: Problem) -> bytes:
    """The bytes of an answer that no application sends."""
    answer = problem.answer()
    lines = [f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}".encode()]
    lines += [b": ".join(each) for each in answer.raw_headers]
    return b"\r\n".join([*lines, b"", bytes(answer.body)])


_TOO_MANY = _written(
    Problem(
        503,
        "connections",
        "Too many connections",
        "the server has as many connections as it takes: come again later",
        headers=RETRY_AFTER | CLOSE,
    )
)
_TOO_SLOW = _written(too_slow("the head of the request took too long to arrive"))
_TOO_LONG = _written(headers_too_large("the head of the request is too long"))


if TYPE_CHECKING:
    MakePages: TypeAlias = Callable[[Configuration, Client, Access], Pages]

EMBEDDED = "sqlite:///go_scheduler.db"
"""The default store of a server: a file in the working folder."""

_PAGES = "/dashboard"
_TURN = 0.1
# The request line, before the headers.
_LONGEST_PATH = 64 * 1024


def serve(
    settings: Configuration,
    *,
    runs: bool = True,
    pages: MakePages | None = None,
    say: Callable[[str], None] | None = None,
) -> bool:
    """Serve until a signal. The first signal awaits runs; a second one does not.

    Args:
        settings: All settings.
        runs: Whether this process creates instances, hands out work and runs jobs;
            otherwise it only answers, and other processes do that.
        pages: Makes pages that are served beside the API, under ``/dashboard``; None:
            there are none.
        say: Called with each message for the person who starts it; None: messages
            are printed.

    Returns:
        Whether all runs ended within the drain window.

    Raises:
        ConfigurationError: A setting is wrong, or the port cannot be had.
        StoreError: The store cannot be used.
    """
    say = say or _print
    check(settings)
    url = settings.store.url
    if url is None:
        say(f"no store is named: it is {EMBEDDED}, a file in this folder")
    with (
        _logged(settings),
        listening(settings.server) as listener,
        closing(open_store(url.get_secret_value() if url else EMBEDDED)) as store,
    ):
        return _run(
            _Serving(settings, store, pages, _PAGES, runs=runs, say=say), listener
        )


def serve_pages(
    settings: Configuration,
    pages: MakePages,
    *,
    store: Store,
    say: Callable[[str], None],
) -> None:
    """Serve only pages, until a signal.

    Args:
        settings: All settings.
        pages: Makes the pages.
        store: The store that the pages show.
        say: Called with each message for the person who starts it.

    Raises:
        ConfigurationError: A setting is wrong, or the port cannot be had.
    """
    with (
        _logged(settings),
        listening(settings.server) as listener,
    ):
        _run(_Serving(settings, store, pages, "", runs=False, say=say), listener)


def _run(serving: _Serving, listener: socket.socket) -> bool:
    make_loop = partial(Loop, serving.settings.server.head_timeout)
    with (
        # uvicorn logs an error for each request that is cancelled at a second signal.
        _filtered("uvicorn.error", lambda _: not serving.leaves),
        asyncio.Runner(loop_factory=make_loop) as runner,
    ):
        ended = runner.run(serving.until_stopped(listener))
        if not serving.leaves:
            # Else they would use the store after its end.
            serving.threads.shutdown()
        return ended


class _Serving:
    """One run of the server.

    Args:
        settings: All settings.
        store: The store.
        make_pages: Makes pages that are served beside the API; None: there are none.
        path: The path of the pages; empty: all paths, without the API.
        runs: Whether this process runs anything, or only answers.
        say: Called with each message for the person who starts it.
    """

    def __init__(
        self,
        settings: Configuration,
        store: Store,
        make_pages: MakePages | None,
        path: str,
        *,
        runs: bool,
        say: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self._path = path
        self._say = say
        types = settings.types.job_types()
        # Adds the job types that workers on the bus run.
        self._bus = ExitStack()
        self._dispatcher = self._bus.enter_context(
            settings.dispatch.opened(types, queue=settings.types.queue)
        )
        metrics = Gathering()
        arguments = {**settings.scheduler.as_arguments(), "listeners": [metrics]}
        if types.types:
            arguments["queues"] = settings.types.queues(types)
        # It runs the server's own job types alone.
        scheduler = Scheduler(types if types.types else None, store, **arguments)
        self._scheduler = scheduler
        self._runs = runs
        # A scheduler that is never started is not healthy: use a client to answer only.
        client = scheduler if runs else Client(store)
        # It is a node of its own, and hands out work that runs elsewhere.
        self._work = settings.work.hand_out(scheduler) if runs else None
        access, limits = settings.access.made(), settings.server.request_limits()
        api = create_app(
            client,
            access=access,
            work=self._work,
            types=types,
            limits=limits,
            jobs=settings.jobs.made(),
            metrics=metrics,
        )
        context: Context = api.state.context
        self.threads = context.threads
        self.leaves = False
        app: ASGIApp = api
        self._pages: Pages | None = None
        if make_pages is not None:
            self._pages = make_pages(settings, client, access)
            app = MountedPages(api, Limited(self._pages, limits, self.threads), path)
        self._server = _Server(_uvicorn(settings, app))

    async def until_stopped(self, listener: socket.socket) -> bool:
        """Serve until a signal; returns whether all runs ended."""
        loop = asyncio.get_running_loop()
        asked: asyncio.Queue[None] = asyncio.Queue()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, asked.put_nowait, None)
        if self._runs:
            if self._dispatcher is not None:
                # Before the start, which publishes due instances at once.
                self._bus.enter_context(self._dispatcher.hearing(self._scheduler))
            await asyncio.to_thread(self._scheduler.start)
        self._server.when_started(lambda: self._say_where(listener))
        serving = asyncio.create_task(self._server.serve(sockets=[listener]))
        try:
            await _first(serving, asyncio.create_task(asked.get()))
            draining = asyncio.create_task(self._drain(serving))
            await _first(draining, asyncio.create_task(asked.get()))
            if draining.done():
                return draining.result()
            self.leaves = self._server.force_exit = True
            draining.cancel()
            await asyncio.wait([draining])
            return False
        finally:
            await self._leave_behind()
            while self.leaves and not serving.done():
                # From Python 3.12 on, a server waits for its connections to close.
                for each in [*self._server.server_state.connections]:
                    each.transport.abort()
                await asyncio.wait([serving], timeout=_TURN)
            await serving

    async def _drain(self, serving: asyncio.Task[None]) -> bool:
        """Take no more requests, and wait for runs within the drain window."""
        if self._work is not None:
            self._work.stop_taking()
        if self._pages is not None:
            self._pages.stop()
        self._server.should_exit = True
        stopped = await self._scheduler.astop(self.settings.server.drain)
        await asyncio.wait([serving])
        return stopped

    async def _leave_behind(self) -> None:
        """Stop the scheduler and the bus without waiting."""
        self._server.should_exit = True
        await asyncio.to_thread(self._scheduler.stop, ZERO)
        await asyncio.to_thread(self._bus.close)

    def _say_where(self, listener: socket.socket) -> None:
        server = self.settings.server
        scheme = "http" if server.tls_certificate is None else "https"
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        url = f"{scheme}://{shown}:{port}"
        if not self._path:
            self._say(f"go_scheduler listens on {url}, and shows there what runs")
            return
        self._say(f"go_scheduler listens on {url}, and {url}/openapi.json describes it")
        if self._pages is not None:
            self._say(f"{url}{self._path}/ shows what runs")


@contextmanager
def _logged(settings: Configuration) -> Iterator[None]:
    """Write the log within the context, without lines that mean nothing here."""
    with (
        written_log(settings.log),
        # A server may have no handler of its own.
        _filtered("go_scheduler.scheduler", lambda it: it.getMessage() != NO_HANDLER),
        # The line of each request says the same.
        _filtered("go_scheduler.http", lambda it: it.msg != ANSWERED)
        if settings.log.requests
        else nullcontext(),
    ):
        yield


@contextmanager
def _filtered(
    logger: str, keeps: Callable[[logging.LogRecord], bool]
) -> Iterator[None]:
    """Filter the records of a logger within the context."""
    log = logging.getLogger(logger)
    log.addFilter(keeps)
    try:
        yield
    finally:
        log.removeFilter(keeps)


class _Server(uvicorn.Server):
    """Calls a function when it has started, and handles no signals."""

    def when_started(self, tell: Callable[[], None]) -> None:
        """Call this function once the server has started."""
        self._tell = tell

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve."""
        await super().startup(sockets)
        self._tell()

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Leave the signal handlers as they are."""
        return nullcontext()


def _uvicorn(settings: Configuration, app: ASGIApp) -> uvicorn.Config:
    server, log = settings.server, settings.log
    if log.requests:
        app = RequestLog(app, clock=SystemClock(), polls=log.log_polls)
    password = server.tls_key_password
    head_bytes = server.limits.header_bytes + _LONGEST_PATH
    bounds = Bounds(
        most=allow_files(server.connections),
        head=server.head_timeout,
        head_bytes=head_bytes,
        answer=server.write_timeout,
    )
    return uvicorn.Config(
        app,
        http=bounded(bounds),
        h11_max_incomplete_event_size=head_bytes,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        # The address of a caller is the address of the connection, not of a header.
        proxy_headers=False,
        root_path=server.root_path,
        timeout_keep_alive=round(server.keep_alive.total_seconds()),
        timeout_graceful_shutdown=round(server.drain.total_seconds()),
        ssl_certfile=server.tls_certificate,
        ssl_keyfile=server.tls_key,
        ssl_keyfile_password=None if password is None else password.get_secret_value(),
    )


async def _first(*tasks: asyncio.Task[bool] | asyncio.Task[None]) -> None:
    """Wait for the first of these tasks, and cancel the last one."""
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    tasks[-1].cancel()


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
