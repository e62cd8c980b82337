"""Applications to call: in this process, or by a server on a port of its own."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx
import uvicorn

from go_scheduler.http.access.authentication import OpenAccess
from go_scheduler.http.access.caller import SCOPES, Caller
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping

    from fastapi import Request
    from starlette.applications import Starlette
    from starlette.types import ASGIApp

_T = TypeVar("_T")
LINES = {"Content-Type": "application/x-ndjson"}


def in_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test that is async in an event loop of its own."""

    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


def get(url: str, **options: Any) -> httpx.Response:
    """Send a GET request, with a timeout for slow machines."""
    return httpx.get(url, timeout=FAILED_AFTER, **options)


@asynccontextmanager
async def called(
    app: Starlette,
    *,
    address: str = "127.0.0.1",
    url: str = "http://127.0.0.1",
    **options: Any,
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application in this process, which calls from this address."""
    transport = httpx.ASGITransport(app, client=(address, 1))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url=url, **options) as client,
    ):
        yield client


class Calling:
    """Calls an application in this process, one call after the other.

    Args:
        app: The application.
        **options: As for ``called``.
    """

    def __init__(self, app: Starlette, **options: Any) -> None:
        self._called = called(app, **options)

    def __enter__(self) -> Self:
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._client = self.run(self._stack.enter_async_context(self._called))
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._stack.aclose())
        self._runner.close()

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self.run(self._client.request(method, path, **options))

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)

    def put(self, path: str, **options: Any) -> httpx.Response:
        return self.request("PUT", path, **options)

    def patch(self, path: str, **options: Any) -> httpx.Response:
        return self.request("PATCH", path, **options)

    def delete(self, path: str, **options: Any) -> httpx.Response:
        return self.request("DELETE", path, **options)

    def options(self, path: str, **options: Any) -> httpx.Response:
        return self.request("OPTIONS", path, **options)

    def cookie(self, name: str) -> str:
        """A stored cookie, as the header has it."""
        return f"{name}={self._client.cookies[name]}"

    @property
    def cookies(self) -> Mapping[str, str]:
        return dict(self._client.cookies)

    def forget(self) -> None:
        """Delete all cookies."""
        self._client.cookies.clear()

    def run(self, call: Coroutine[Any, Any, _T]) -> _T:
        return self._runner.run(call)


class As(OpenAccess):
    """Takes everybody for the same caller, whom a test may change.

    Args:
        **fields: Those of ``Caller``; without scopes, the caller has all.
    """

    def __init__(self, **fields: Collection[str] | None) -> None:
        super().__init__()
        self.caller = Caller(subject="ann", scopes=frozenset(SCOPES))
        self.become(**fields)

    def become(self, **fields: Collection[str] | None) -> None:
        given: dict[str, Any] = {
            name: None if each is None else frozenset(each)
            for name, each in fields.items()
        }
        self.caller = replace(self.caller, **given)

    async def authenticate(self, request: Request) -> Caller:
        return self.caller


def lines(jobs: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in jobs)


def events_of(answer: httpx.Response) -> list[dict[str, Any]]:
    """The events that an import answers."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith(LINES["Content-Type"])
    return [json.loads(each) for each in answer.text.splitlines()]


def field_of(answer: httpx.Response) -> str:
    """The field that a refusal names first."""
    assert answer.status_code == 422, answer.text
    return str(answer.json()["errors"][0]["field"])


def is_problem(answer: httpx.Response, status: int, slug: str) -> bool:
    """Whether an answer is this problem; a failing test shows the answer."""
    kind = f"urn:go_scheduler:{slug}"
    found = answer.status_code, answer.json().get("type")
    assert found == (status, kind), answer.text
    return True


def sent(
    where: tuple[str, int], *head: str, body: bytes = b"", ends: bool = False
) -> str:
    """Send a request as it is written, and read until the server closes."""
    with socket.create_connection(where, FAILED_AFTER) as connection:
        connection.sendall("\r\n".join([*head, "", ""]).encode() + body)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


class _Server(uvicorn.Server):
    """Sets an event when it has started."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()


@contextmanager
def served(
    app: ASGIApp,
    *,
    port: int = 0,
    bound: socket.socket | None = None,
    **options: object,
) -> Iterator[tuple[str, int]]:
    """Serve on a thread, on a port or on a bound socket; answers the address."""
    config = uvicorn.Config(
        app,
        port=port,
        log_config=None,
        # Longer than a client keeps one: it may send just as the server closes it.
        timeout_keep_alive=FAILED_AFTER,
        timeout_graceful_shutdown=FAILED_AFTER,
        **options,  # type: ignore[arg-type]
    )
    server = _Server(config)
    sockets = None if bound is None else [bound]
    thread = threading.Thread(target=server.run, args=(sockets,))
    thread.start()
    try:
        assert server.is_up.wait(FAILED_AFTER)
        where = bound or server.servers[0].sockets[0]
        host, port = where.getsockname()
        yield host, port
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def client_of(app: Starlette) -> Iterator[httpx.Client]:
    """Serve an application on a port of its own, and call it."""
    with (
        served(app) as (host, port),
        httpx.Client(base_url=f"http://{host}:{port}", timeout=FAILED_AFTER) as client,
    ):
        yield client
