"""Cookies: kept by browsers for the dashboard, and out of reach for scripts."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from datetime import timedelta

    from starlette.requests import Request
    from starlette.responses import Response

    from go_scheduler.dashboard.context import Context

_PORT = re.compile(r":([0-9]{1,5})$")


def cookie_of(request: Request, name: str) -> str:
    """What a browser keeps; empty, if it keeps nothing."""
    return request.cookies.get(_name(name, request), "")


def kept_under(request: Request, name: str) -> list[str]:
    """The ends of the names of what a browser keeps that has a name and an end."""
    pattern = _name(f"{name}-ENDING", request)
    pattern = re.escape(pattern).replace("ENDING", "([0-9a-f]{8})")
    found = (re.fullmatch(pattern, each) for each in request.cookies)
    return [each[1] for each in found if each]


def keep(
    request: Request,
    response: Response,
    name: str,
    value: str,
    *,
    same_site: Literal["strict", "lax"] = "strict",
    lasts: timedelta | None = None,
) -> None:
    """Have a browser keep a value.

    Args:
        request: Of the browser.
        response: What tells it.
        name: Of the cookie.
        value: What it keeps.
        same_site: Whether it is sent along only with what our own pages lead to.
        lasts: For how long; None: until it is closed.
    """
    origin = _origin(request)
    response.set_cookie(
        _name(name, request),
        value,
        max_age=None if lasts is None else int(lasts.total_seconds()),
        path="/",
        secure=_is_secure(origin),
        httponly=True,
        samesite=same_site,
    )


def forget(request: Request, response: Response, name: str) -> None:
    """Have a browser forget what it keeps."""
    is_secure = _is_secure(_origin(request))
    response.delete_cookie(_name(name, request), secure=is_secure, httponly=True)


def _origin(request: Request) -> str:
    here: Context = request.app.state.context
    return here.place.origin(request)


def _is_secure(origin: str) -> bool:
    return origin.startswith("https:")


def _name(name: str, request: Request) -> str:
    """What it is called: so that no other host can have set it, if that can be."""
    origin, root = _origin(request), request.scope.get("root_path", "")
    if root:
        # Another dashboard beside it has cookies of its own, of the same path.
        name = f"{name}-{hashlib.sha256(root.encode()).hexdigest()[:8]}"
    if _is_secure(origin):
        return f"__Host-{name}"
    # Ports of this machine have their cookies in common.
    port = _PORT.search(origin)
    return f"{name}-{port[1]}" if port else name
