"""The URL of the dashboard in browsers, and where a request comes from (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from go_scheduler.http.access.loopback import is_loopback
from go_scheduler.http.problems import Problem

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


def check_own_page(request: Request, origin: str) -> None:
    """Refuse a request that no page of the dashboard has sent.

    Args:
        request: The request of a browser.
        origin: The origin of the dashboard.

    Raises:
        Problem: 403, another site has sent it, or the browser does not say which.
    """
    site = request.headers.get("sec-fetch-site")
    sent = request.headers.getlist("origin")
    if site is None:
        # Browsers say at least this one with whatever is to change something.
        is_own = [each.lower() for each in sent] == [origin.lower()]
    else:
        # It has compared them itself, whatever a proxy makes of the host.
        is_own = site == "same-origin"
    is_https = origin.startswith("https:")
    if not is_own and is_https and sent == [f"http:{origin.partition(':')[2]}"]:
        raise Problem(
            403,
            "plain-http",
            "Not allowed",
            "whatever changes something, and signing in, is done by https alone, or on"
            " the machine of the dashboard",
        )
    if not is_own:
        raise Problem(
            403,
            "foreign-page",
            "Not allowed",
            f"it was not sent by a page of the dashboard at {origin}",
        )


def comes_from_elsewhere(request: Request) -> bool:
    """Whether a link of another site leads here: then no strict cookie is sent."""
    headers = request.headers
    return (
        headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
        and headers.get("sec-fetch-site") in ("cross-site", "same-site")
    )


def path_to_return_to(given: str) -> str:
    """The given path if it is within the dashboard; else ``/``."""
    is_path = given.startswith("/") and given.isascii() and given.isprintable()
    if not is_path or given.startswith("//") or "\\" in given:
        return "/"
    return given
