"""Runs the server: from the settings to its orderly end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

import uvicorn

from go_scheduler.client import Client
from go_scheduler.clock import ZERO, SystemClock
from go_scheduler.events.lines.requests import ANSWERED
from go_scheduler.http.app import create_app
from go_scheduler.http.beside import Beside
from go_scheduler.http.configuration.checking import check
from go_scheduler.http.connections import Bounds, allow_files, bounded
from go_scheduler.http.dispatched import Dispatched
from go_scheduler.http.limits import Limited
from go_scheduler.http.listening import Loop, listening
from go_scheduler.http.logs import RequestLog, written_log
from go_scheduler.scheduler import NO_HANDLER, Scheduler
from go_scheduler.stores.opening import open_store
from go_scheduler.telemetry.gathering import Gathering

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from starlette.types import ASGIApp

    from go_scheduler.handlers.job_types import JobTypes
    from go_scheduler.http.access.guard import Access
    from go_scheduler.http.beside import Pages
    from go_scheduler.http.configuration.configuration import Configuration
    from go_scheduler.http.context import Context
    from go_scheduler.stores.base import Store

    MakePages: TypeAlias = Callable[[Configuration, Client, Access], Pages]

EMBEDDED = "sqlite:///go_scheduler.db"
"""The store of a server that is told of none: a file in the working folder."""

_PAGES = "/dashboard"
_TURN = 0.1
# Of what stands before the headers.
_LONGEST_PATH = 64 * 1024


def serve(
    settings: Configuration,
    *,
    runs: bool = True,
    pages: MakePages | None = None,
    say: Callable[[str], None] | None = None,
) -> bool:
    """Serve until a signal: at the first, what runs is awaited; at the second, not.

    Args:
        settings: All that is set.
        runs: Whether this process creates instances, hands out work and runs jobs;
            if not, others do that for whom it only answers.
        pages: Makes pages that are served beside the API, under ``/dashboard``; None:
            there are none.
        say: Called with what a person who has started it is to know; None: it is
            printed.

    Returns:
        Whether all that ran came to an end within the drain window.

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
        serving = _Serving(settings, store, runs=runs, say=say)
        serving.answer_by(pages, _PAGES)
        return _run(serving, listener)


def serve_pages(
    settings: Configuration,
    pages: MakePages,
    *,
    store: Store,
    say: Callable[[str], None],
) -> None:
    """Serve pages alone, until a signal.

    Args:
        settings: All that is set.
        pages: Makes them.
        store: What they are about.
        say: Called with what a person who has started it is to know.

    Raises:
        ConfigurationError: A setting is wrong, or the port cannot be had.
    """
    with (
        _logged(settings),
        listening(settings.server) as listener,
    ):
        serving = _Serving(settings, store, runs=False, say=say)
        serving.answer_by(pages, "")
        _run(serving, listener)


def _run(serving: _Serving, listener: socket.socket) -> bool:
    make_loop = partial(Loop, serving.settings.server.head_timeout)
    with (
        # What is left behind is cancelled, which uvicorn takes for an error.
        _untold("uvicorn.error", lambda _: not serving.leaves),
        asyncio.Runner(loop_factory=make_loop) as runner,
    ):
        return runner.run(serving.until_stopped(listener))


class _Serving:
    """One server, from its start to its end."""

    def __init__(
        self,
        settings: Configuration,
        store: Store,
        *,
        runs: bool,
        say: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self._say = say
        types = settings.types.job_types()
        self._dispatched = Dispatched(settings, types)
        metrics = Gathering()
        scheduler = self._scheduler = _scheduler(settings, types, store, metrics)
        self._runs = runs
        # A scheduler that is never started is not well, and what only answers has none.
        client = self._client = scheduler if runs else Client(store)
        # Crews run as nodes of their own, and hand out what nobody here may run.
        self._work = settings.work.hand_out(scheduler) if runs else None
        self._access = settings.access.access()
        self._app = create_app(
            client,
            access=self._access,
            work=self._work,
            types=types,
            limits=settings.server.request_limits(),
            jobs=settings.jobs.defaults(),
            metrics=metrics,
        )
        self._pages: Pages | None = None
        self.leaves = False

    def answer_by(self, make: MakePages | None, path: str) -> None:
        """Answer by the API, and by pages beside it.

        Args:
            make: Makes these; None: there are none.
            path: Where they are; empty: everywhere, and there is no API.
        """
        app: ASGIApp = self._app
        self._path = path
        if make is not None:
            context: Context = self._app.state.context
            self._pages = make(self.settings, self._client, self._access)
            limited = Limited(self._pages, context.limits, context.threads)
            app = Beside(app, limited, path)
        self._server = _Server(_uvicorn(self.settings, app))

    async def until_stopped(self, listener: socket.socket) -> bool:
        """Serve; whether all that ran came to an end."""
        loop = asyncio.get_running_loop()
        asked: asyncio.Queue[None] = asyncio.Queue()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, asked.put_nowait, None)
        if self._runs:
            # First: what is due is published as soon as it has started.
            self._dispatched.hear(self._scheduler)
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
                # From Python 3.12 on a server waits for its connections to close.
                for each in [*self._server.server_state.connections]:
                    each.transport.abort()
                await asyncio.wait([serving], timeout=_TURN)
            await serving

    async def _drain(self, serving: asyncio.Task[None]) -> bool:
        """Take nothing more, and wait for what runs, as long as is set."""
        if self._work is not None:
            self._work.stop_taking()
        if self._pages is not None:
            self._pages.stop()
        self._server.should_exit = True
        stopped = await self._scheduler.astop(self.settings.server.drain)
        await asyncio.wait([serving])
        return stopped

    async def _leave_behind(self) -> None:
        """Have nothing go on that has not come to its end."""
        self._server.should_exit = True
        await asyncio.to_thread(self._scheduler.stop, ZERO)
        await asyncio.to_thread(self._dispatched.close)

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
    """Have the log written, as it is meant for a server."""
    with (
        written_log(settings.log),
        # That is how it is meant.
        _untold("go_scheduler.scheduler", lambda it: it.getMessage() != NO_HANDLER),
        # The line of each request says it.
        _untold("go_scheduler.http", lambda it: it.msg != ANSWERED)
        if settings.log.requests
        else nullcontext(),
    ):
        yield


@contextmanager
def _untold(
    logger: str, is_told: Callable[[logging.LogRecord], bool]
) -> Iterator[None]:
    """Have the log tell less while this lasts."""
    log = logging.getLogger(logger)
    log.addFilter(is_told)
    try:
        yield
    finally:
        log.removeFilter(is_told)


def _scheduler(
    settings: Configuration, types: JobTypes, store: Store, metrics: Gathering
) -> Scheduler:
    """The node of a server: it runs its own types of jobs, and nothing else."""
    arguments = {**settings.scheduler.arguments(), "listeners": [metrics]}
    if not types.types:
        return Scheduler(None, store, **arguments)
    return Scheduler(
        types, store, **arguments | {"queues": settings.types.queues(types)}
    )


class _Server(uvicorn.Server):
    """Tells when it has started, and leaves signals to others."""

    def when_started(self, tell: Callable[[], None]) -> None:
        """Call this once it has."""
        self._tell = tell

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        self._tell()

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Leave them as they are."""
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
        # Whoever calls is known by the connection, not by what a header says.
        proxy_headers=False,
        root_path=server.root_path,
        timeout_keep_alive=round(server.keep_alive.total_seconds()),
        timeout_graceful_shutdown=round(server.drain.total_seconds()),
        ssl_certfile=server.tls_certificate,
        ssl_keyfile=server.tls_key,
        ssl_keyfile_password=None if password is None else password.get_secret_value(),
    )


async def _first(*tasks: asyncio.Task[bool] | asyncio.Task[None]) -> None:
    """Wait for the first of these, and leave the last alone."""
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    tasks[-1].cancel()


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
