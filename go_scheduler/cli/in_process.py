"""What a server would answer, of a store and in this process."""

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

    from go_scheduler.cli.connection import Connected

_URL = "http://127.0.0.1"


class InProcess(httpx.BaseTransport):
    """Has an application answer requests.

    Args:
        app: Which.
    """

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._transport = httpx.ASGITransport(app)
        self._runner = asyncio.Runner()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """What it answers, whole."""
        return self._runner.run(self._answer(request))

    def close(self) -> None:
        """Leave nothing behind."""
        self._runner.close()
        self._app.state.context.threads.shutdown()

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        answer = await self._transport.handle_async_request(request)
        return httpx.Response(
            answer.status_code, headers=answer.headers, content=await answer.aread()
        )


@contextmanager
def answering(client: Connected) -> Iterator[Remote]:
    """What asks a server: the one that is connected, or one in front of the store.

    So what only servers know of is the same for both.
    """
    if isinstance(client, Remote):
        yield client
        return
    with Remote(_URL, transport=InProcess(create_app(client))) as remote:
        yield remote
