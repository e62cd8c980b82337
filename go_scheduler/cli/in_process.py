"""A server in this process, in front of a store."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx

from go_scheduler.http.app import create_app
from go_scheduler.http.remote import Remote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi import FastAPI

    from go_scheduler.cli.options import Connected

_URL = "http://127.0.0.1"


class InProcess(httpx.BaseTransport):
    """An httpx transport to an application in this process.

    Args:
        app: The application.
    """

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._transport = httpx.ASGITransport(app)
        self._runner = asyncio.Runner()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        return self._runner.run(self._answer(request))

    def close(self) -> None:
        """Stop the event loop and the threads."""
        self._runner.close()
        self._app.state.context.threads.shutdown()

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        answer = await self._transport.handle_async_request(request)
        return httpx.Response(
            answer.status_code, headers=answer.headers, content=await answer.aread()
        )


@contextmanager
def answering(client: Connected) -> Iterator[Remote]:
    """A client of the connected server, or of a server in front of the store.

    With it, types and imports need no second implementation for stores.
    """
    if isinstance(client, Remote):
        yield client
        return
    with Remote(_URL, transport=InProcess(create_app(client))) as remote:
        yield remote
