"""Applications to call: in this process, or by a server on a port of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx
import uvicorn

from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from starlette.applications import Starlette
    from starlette.types import ASGIApp

_T = TypeVar("_T")


def get(url: str, **options: Any) -> httpx.Response:
    """What is answered, however slow this machine is at the moment."""
    return httpx.get(url, timeout=FAILED_AFTER, **options)


@asynccontextmanager
async def called(app: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    """What calls an application in this process."""
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://127.0.0.1"
        ) as client,
    ):
        yield client


class Calling:
    """Calls an application in this process, one call after the other."""

    def __init__(self, app: Starlette) -> None:
        self._app = app

    def __enter__(self) -> Self:
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._client = self._run(self._stack.enter_async_context(called(self._app)))
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._stack.aclose())
        self._runner.close()

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self._run(self._client.request(method, path, **options))

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

    def cookie(self, name: str) -> str:
        """A cookie that it keeps, as it would be sent."""
        return f"{name}={self._client.cookies[name]}"

    @property
    def cookies(self) -> Mapping[str, str]:
        """All that it keeps."""
        return dict(self._client.cookies)

    def forget(self) -> None:
        """Keep no cookies."""
        self._client.cookies.clear()

    def _run(self, call: Coroutine[Any, Any, _T]) -> _T:
        return self._runner.run(call)


class _Server(uvicorn.Server):
    """Says when it has started, and leaves signals alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = threading.Event()

    async def startup(self, sockets: object = None) -> None:
        await super().startup()
        self.is_up.set()


@contextmanager
def served(
    app: ASGIApp, *, port: int = 0, **options: object
) -> Iterator[tuple[str, int]]:
    """A server on a port, or on one of its own, on a thread; where it is."""
    config = uvicorn.Config(
        app,
        port=port,
        log_config=None,
        timeout_graceful_shutdown=FAILED_AFTER,
        **options,  # type: ignore[arg-type]
    )
    server = _Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert server.is_up.wait(FAILED_AFTER)
        host, port = server.servers[0].sockets[0].getsockname()
        yield host, port
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def client_of(app: Starlette) -> Iterator[httpx.Client]:
    """What calls an application that is served."""
    with (
        served(app) as (host, port),
        httpx.Client(base_url=f"http://{host}:{port}", timeout=FAILED_AFTER) as client,
    ):
        yield client
