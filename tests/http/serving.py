"""Applications to call: in this process, or by a server on a port of its own."""

from __future__ import annotations

import threading
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import httpx
import uvicorn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from fastapi import FastAPI

PATIENCE = 30
"""For how many seconds a test waits that fails."""


@asynccontextmanager
async def called(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """What calls an application in this process."""
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://127.0.0.1"
        ) as client,
    ):
        yield client


class _Server(uvicorn.Server):
    """Says when it has started, and leaves signals alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = threading.Event()

    async def startup(self, sockets: object = None) -> None:
        await super().startup()
        self.is_up.set()


@contextmanager
def served(app: FastAPI, **options: object) -> Iterator[tuple[str, int]]:
    """A server on a port of its own, on a thread; where it is."""
    config = uvicorn.Config(
        app,
        port=0,
        log_config=None,
        timeout_graceful_shutdown=PATIENCE,
        **options,  # type: ignore[arg-type]
    )
    server = _Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert server.is_up.wait(PATIENCE)
        host, port = server.servers[0].sockets[0].getsockname()
        yield host, port
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def client_of(app: FastAPI) -> Iterator[httpx.Client]:
    """What calls an application that is served."""
    with (
        served(app) as (host, port),
        httpx.Client(base_url=f"http://{host}:{port}", timeout=PATIENCE) as client,
    ):
        yield client
