"""Refuses forms that a browser sends for another site (CSRF)."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from go_scheduler.http.access.loopback import is_loopback
from go_scheduler.http.problems import Problem

if TYPE_CHECKING:
    from fastapi import Request

    from go_scheduler.dashboard.admission import Form
    from go_scheduler.dashboard.request import Context

TOKEN = "csrf"
"""The field that has the token of the page."""

HEADER = "X-CSRF-Token"
"""The header that may have the token instead."""


def origin_of(request: Request) -> str:
    """The origin of the dashboard, as the browser that sends a request has it.

    Unless one is configured, it is the requested host, by https unless that is this
    machine.
    """
    here: Context = request.app.state.context
    if here.origin is not None:
        return here.origin
    # A proxy that ends TLS does not tell the server so. Nobody signs in without TLS.
    host = request.headers.get("host", "")
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        name = ""
    is_plain = request.scope["scheme"] == "http" and is_loopback(name)
    return f"{'http' if is_plain else 'https'}://{host}"


def check_own_page(request: Request) -> None:
    """Refuse a request that no page of the dashboard has sent.

    Raises:
        Problem: 403, another site has sent it, or the browser does not say which.
    """
    origin = origin_of(request)
    site = request.headers.get("sec-fetch-site")
    sent = request.headers.getlist("origin")
    if site is None:
        # Older browsers send at least the origin with each POST.
        is_own = [each.lower() for each in sent] == [origin.lower()]
    else:
        # The browser has compared the origins; a proxy may have changed the host.
        is_own = site == "same-origin"
    is_https = origin.startswith("https:")
    if not is_own and is_https and sent == [f"http:{origin.partition(':')[2]}"]:
        raise Problem(
            403,
            "plain-http",
            "Not allowed",
            "changes and sign-ins are possible by https alone, or on the machine of the"
            " dashboard",
        )
    if not is_own:
        raise Problem(
            403,
            "foreign-page",
            "Not allowed",
            f"it was not sent by a page of the dashboard at {origin}",
        )


def comes_from_elsewhere(request: Request) -> bool:
    """Whether a link of another site leads here: browsers send no strict cookie."""
    headers = request.headers
    return (
        headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
        and headers.get("sec-fetch-site") in ("cross-site", "same-site")
    )


def check_token(request: Request, form: Form, token: str) -> None:
    """Refuse a form that was made for another caller or another session.

    Raises:
        Problem: 403.
    """
    given = request.headers.get(HEADER) or form.get(TOKEN, "")
    if not secrets.compare_digest(given.encode(), token.encode()):
        raise Problem(
            403,
            "old-page",
            "This page is too old",
            "it was made for an earlier session: go back, reload it and try again",
        )
