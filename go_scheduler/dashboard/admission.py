"""Authenticates who asks for a page, reads forms, and adds the headers of answers."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import parse_qsl

from fastapi import Request
from starlette.datastructures import ImmutableMultiDict, MutableHeaders

from go_scheduler.http.access.authentication import ANYBODY, OpenAccess
from go_scheduler.http.access.caller import SCOPES, Caller
from go_scheduler.http.access.loopback import check_here
from go_scheduler.http.problems import Problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from go_scheduler.dashboard.sessions import Session
    from go_scheduler.dashboard.signing_in import LoginMethods
    from go_scheduler.http.access.authentication import Access

Authorize: TypeAlias = Callable[[Request], Caller | Awaitable[Caller | None] | None]
"""Returns the caller of a request, or None for someone who may see nothing."""

_ANYBODY = Caller(subject=ANYBODY, scopes=frozenset(SCOPES))


class Admission:
    """Authenticates the sender of a request.

    Args:
        access: Authenticates as the HTTP API does.
        authorize: Authenticates instead, where the dashboard is mounted.
        login_methods: How people sign in; None: nobody signs in here.
    """

    def __init__(
        self,
        access: Access | None,
        authorize: Authorize | None,
        login_methods: LoginMethods | None,
    ) -> None:
        self._access = access
        self._authorize = authorize
        self.login_methods = login_methods

    async def caller_of(self, request: Request, session: Session) -> Caller:
        """Authenticate the sender of a request.

        Raises:
            Problem: 401, they have to sign in; 403, they may see nothing.
        """
        if self._authorize is not None:
            found = self._authorize(request)
            caller = await found if inspect.isawaitable(found) else found
            if caller is None:
                raise Problem(
                    403, "not-allowed", "Not allowed", "you may see nothing here"
                )
            if not isinstance(caller, Caller):
                raise TypeError(
                    "authorize must return a Caller or None, not a value of type"
                    f" {type(caller).__name__}"
                )
            return caller
        if self.login_methods is not None:
            return self.login_methods.caller_of(session.signed_in)
        if self._access is None or isinstance(self._access, OpenAccess):
            check_here(request)
            return _ANYBODY
        return await self._access.authenticate(request)


_MEDIA_TYPE = "application/x-www-form-urlencoded"
_MOST_BYTES = 256 * 1024
_MOST_FIELDS = 100

Form = ImmutableMultiDict[str, str]


async def read_form(request: Request) -> Form:
    """Read the fields of a form.

    Raises:
        Problem: 413, it is too large; 415 or 400, it is no form.
    """
    given = request.headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() != _MEDIA_TYPE:
        raise Problem(415, "media-type", "Unsupported media type", "this takes a form")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise Problem(
                413, "too-large", "Too large", f"a form has {_MOST_BYTES} bytes at most"
            )
    try:
        fields = parse_qsl(
            body.decode(),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError:
        raise Problem(
            400, "malformed", "Bad Request", "the form cannot be read"
        ) from None
    return ImmutableMultiDict(fields)


_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_FEATURES = (
    *("accelerometer", "camera", "display-capture", "geolocation", "gyroscope"),
    *("magnetometer", "microphone", "midi", "payment", "publickey-credentials-get"),
    *("screen-wake-lock", "usb"),
)

HEADERS = {
    "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": ", ".join(f"{each}=()" for each in _FEATURES),
    # With no-referrer, browsers would send no origin with a form either.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""The headers of every answer."""


class SecurityHeaders:
    """Adds the security headers to every answer, and forbids caching by default."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""

        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, add)
