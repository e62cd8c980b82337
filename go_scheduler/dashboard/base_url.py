"""The URL of the dashboard in browsers, and paths within it (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from go_scheduler.http.access.loopback import is_loopback

if TYPE_CHECKING:
    from fastapi import Request


class BaseUrl:
    """The URL of the dashboard, as browsers have it.

    Args:
        origin: Such as ``https://tasks.example.org``; None: the host of each
            request, by https unless it is this machine.
    """

    def __init__(self, origin: str | None) -> None:
        self._origin = origin

    def origin(self, request: Request) -> str:
        """The origin of the dashboard, for a request."""
        return self._origin or _origin_of(request)


def _origin_of(request: Request) -> str:
    # Who ends TLS before it says nothing of that, and nobody else is to be signed in.
    host = request.headers.get("host", "")
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        name = ""
    is_plain = request.scope["scheme"] == "http" and is_loopback(name)
    return f"{'http' if is_plain else 'https'}://{host}"


def path_to_return_to(given: str) -> str:
    """The given path if it is within the dashboard; else ``/``."""
    is_path = given.startswith("/") and given.isascii() and given.isprintable()
    if not is_path or given.startswith("//") or "\\" in given:
        return "/"
    return given
