"""An application with a route for each scope, and servers to send raw requests to."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import APIRouter, FastAPI

from go_scheduler import MemoryStore
from go_scheduler.client import Client
from go_scheduler.http import create_app
from go_scheduler.http.access.authentication import allowed
from go_scheduler.http.access.caller import SCOPES, Caller
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.types import ASGIApp

PATHS = {each: f"/probe/{each.replace(':', '-')}" for each in SCOPES}
JSON = "Content-Type: application/json"


def probing(client: Client | None = None, **options: Any) -> FastAPI:
    """An application whose routes answer who has called."""
    app = create_app(client or Client(MemoryStore()), **options)
    for scope, path in PATHS.items():
        app.include_router(_probe(scope, path))
    return app


def _probe(scope: str, path: str) -> APIRouter:
    router = APIRouter()
    its_caller = allowed(scope)

    @router.api_route(path, methods=["GET", "POST"])
    async def probe(
        caller: Caller = its_caller, queue: str | None = None
    ) -> dict[str, object]:
        if queue is not None:
            caller.check_queue(queue)
        return {
            "subject": caller.subject,
            "scopes": sorted(caller.scopes),
            "queues": None if caller.queues is None else sorted(caller.queues),
            "owners": None if caller.owners is None else sorted(caller.owners),
        }

    return router


class Server(uvicorn.Server):
    """Says when it answers."""

    def __init__(self, app: ASGIApp, **options: Any) -> None:
        super().__init__(uvicorn.Config(app, log_config=None, ws="none", **options))
        self.answers = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.answers.set()


@contextmanager
def served(make: Callable[[int], ASGIApp], **options: Any) -> Iterator[int]:
    """Serve an application on a port of its own.

    Args:
        make: Makes the application, of the port.
        **options: Of uvicorn.
    """
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        server = Server(make(port), **options)
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        try:
            assert server.answers.wait(FAILED_AFTER)
            yield port
        finally:
            server.should_exit = True
            thread.join(FAILED_AFTER)
            assert not thread.is_alive()


def sent(port: int, request: str, *headers: str, body: str = "") -> tuple[int, str]:
    """Send a request as it is written, and read the status and all of the answer."""
    lines = [f"{request} HTTP/1.1", *headers, "Connection: close", "", body]
    with socket.create_connection(("127.0.0.1", port), FAILED_AFTER) as connection:
        connection.sendall("\r\n".join(lines).encode())
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return int(answer.split(b" ", 2)[1]), answer.decode()
