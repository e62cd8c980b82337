"""An application with a route for each scope, keys, and raw requests."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from go_scheduler import MemoryStore
from go_scheduler.client import Client
from go_scheduler.http import create_app
from go_scheduler.http.access.authentication import (
    ApiKey,
    BearerAccess,
    allowed,
    new_key,
)
from go_scheduler.http.access.caller import SCOPES, Caller
from tests.http import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.types import ASGIApp

PATHS = {each: f"/probe/{each.replace(':', '-')}" for each in SCOPES}


class Key:
    """An API key, its entry in the configuration, and the header that sends it."""

    def __init__(self, subject: str = "reports", **given: Any) -> None:
        new = new_key()
        self.text = new.key
        self.known = ApiKey(subject=subject, hash=new.kept, **given)
        self.header = {"Authorization": f"Bearer {new.key}"}


def with_keys(*keys: Key, **options: Any) -> FastAPI:
    """The application, for callers with these keys."""
    access = BearerAccess(keys=[each.known for each in keys])
    return probing(access=access, **options)


def probing(client: Client | None = None, **options: Any) -> FastAPI:
    """An application whose routes answer the caller."""
    app = create_app(client or Client(MemoryStore()), **options)
    for scope, path in PATHS.items():
        its_caller = allowed(scope)

        @app.api_route(path, methods=["GET", "POST"])
        async def probe(
            caller: Caller = its_caller, queue: str | None = None
        ) -> dict[str, object]:
            if queue is not None:
                caller.check_queue(queue)
            names = ("scopes", "queues", "owners")
            found = {name: getattr(caller, name) for name in names}
            return {"subject": caller.subject} | {
                name: None if each is None else sorted(each)
                for name, each in found.items()
            }

    return app


@contextmanager
def served(make: Callable[[int], ASGIApp], **options: Any) -> Iterator[int]:
    """Serve the application that is made for a port."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        with serving.served(make(port), bound=bound, ws="none", **options):
            yield port


def sent(port: int, request: str, *headers: str, body: str = "") -> tuple[int, str]:
    """Send a request as it is written, and read the status and all of the answer."""
    head = f"{request} HTTP/1.1", *headers, "Connection: close"
    answer = serving.sent(("127.0.0.1", port), *head, body=body.encode())
    return int(answer.split(" ", 2)[1]), answer
