"""Authentication of requests, authorization of routes, and their audit."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Protocol
from urllib.parse import quote

from fastapi import Request, Security
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase

from go_scheduler.clock import ZERO
from go_scheduler.events import RequestAllowed, RequestRefused
from go_scheduler.http.access.bearer import BearerAccess
from go_scheduler.http.access.caller import SCOPES, Caller
from go_scheduler.http.access.loopback import check_local
from go_scheduler.http.access.rate_limits import Rates, network_of, too_many
from go_scheduler.http.access.refusals import checked_origins
from go_scheduler.http.paths import path_within
from go_scheduler.http.problems import Problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from go_scheduler.client import Client
    from go_scheduler.clock import Clock
    from go_scheduler.http.context import Context

REFUSALS = (401, 403, 429)
"""The statuses of refusals."""

_SECOND = timedelta(seconds=1)
_LONGEST_PATH = 200


class Audit:
    """Emits an event for each request, without secrets.

    The log has a few refusals a second, and a count of the others, so that nobody can
    fill it. Listeners receive all events.

    Args:
        client: Has the listeners.
        clock: Measures time.
    """

    def __init__(self, client: Client, clock: Clock) -> None:
        self._clock = clock
        self._teller = client.teller("http")
        self._bounded = client.teller("http", bounded=True)
        self._begun = clock.elapsed()

    def answered(self, request: Request, status: int) -> None:
        """Emit the event of a request that was answered."""
        if status in REFUSALS:
            needed = " ".join(_needed(request)) or "another caller"
            self.refused(request, status, f"it needs {needed}, or other restrictions")
        else:
            self._teller.tell(RequestAllowed(**_told(request, status)))

    def refused(self, request: Request, status: int, reason: str) -> None:
        """Emit the event of a request that was refused."""
        now = self._clock.elapsed()
        if now - self._begun >= _SECOND:
            self._begun = now
            self._bounded.begin()
        self._bounded.tell(RequestRefused(**_told(request, status), reason=reason))


def _told(request: Request, status: int) -> dict[str, Any]:
    caller = getattr(request.state, "caller", None)
    # Quoted, without line feeds: nobody may forge a line of the log.
    path = quote(request.scope["path"])[:_LONGEST_PATH]
    return {
        "subject": None if caller is None else caller.subject,
        "address": None if request.client is None else request.client.host,
        "method": request.method,
        "path": path,
        "scopes": _needed(request),
        "status": status,
    }


def _needed(request: Request) -> tuple[str, ...]:
    """The scopes that the route needs; empty before a route was found."""
    needed: tuple[str, ...] = getattr(request.state, "needed", ())
    return needed


ANYBODY = "anybody"
"""The subject of callers where there is no authentication."""


class Access(Protocol):
    """Authenticates callers."""

    @property
    def origins(self) -> Collection[str]:
        """Sites whose pages may call from a browser."""
        ...

    async def authenticate(self, request: Request) -> Caller:
        """Return the caller of a request, before its body is read.

        Raises:
            Problem: 401, the caller is unknown; 403, nobody may call.
        """
        ...


class OpenAccess:
    """No authentication: everybody on this machine may do everything.

    Args:
        origins: Sites whose pages may call from a browser on this machine, such as
            ``http://localhost:3000``.
    """

    def __init__(self, origins: Collection[str] = ()) -> None:
        self.origins = checked_origins(origins)
        self._anybody = Caller(subject=ANYBODY, scopes=frozenset(SCOPES))

    async def authenticate(self, request: Request) -> Caller:
        """Return a caller who may do everything.

        Raises:
            Problem: 403 or 415, the request may come from elsewhere.
        """
        check_local(request, self.origins)
        return self._anybody


def allowed(*scopes: str) -> Any:
    """The dependency of a route that needs these scopes; it is the caller.

    ```python
    async def read(caller: Annotated[Caller, allowed("jobs:read")]) -> None:
    ```
    """
    return Security(Allowed(scopes), scopes=list(scopes))


class Allowed(SecurityBase):
    """Refuses callers without these scopes, and describes them in OpenAPI.

    Args:
        scopes: The needed scopes, all of them.
    """

    def __init__(self, scopes: tuple[str, ...]) -> None:
        self.scopes = scopes
        self.scheme_name = "token"
        self.model = HTTPBearer(
            description="An API key, or a token of the issuer; none is needed on the"
            " server's own machine where there is no authentication."
        )

    async def __call__(self, request: Request) -> Caller:
        """The caller of a request.

        Raises:
            Problem: 403, a scope is missing.
        """
        request.state.needed = self.scopes
        caller: Caller = request.state.caller
        caller.check_scopes(*self.scopes)
        return caller

    # Older versions of FastAPI cannot resolve annotations of callable objects that are
    # texts.
    __call__.__annotations__.update({"request": Request, "return": Caller})


JobReader = Annotated[Caller, allowed("jobs:read")]
JobWriter = Annotated[Caller, allowed("jobs:write")]
JobPauser = Annotated[Caller, allowed("jobs:pause")]
RunReader = Annotated[Caller, allowed("runs:read")]
RunWriter = Annotated[Caller, allowed("runs:write")]
Worker = Annotated[Caller, allowed("workers")]
Admin = Annotated[Caller, allowed("admin")]


METADATA = "/.well-known/oauth-protected-resource"
"""The path of the metadata about the issuer (RFC 9728)."""

OPEN_PATHS = frozenset({"/healthz", "/readyz", METADATA})
"""Paths that need no authentication."""

_POLICY = 1008
_NOBODY = Caller(subject="nobody", scopes=frozenset())


class Authentication:
    """Middleware that authenticates callers, and limits their rate.

    It runs before the body is read, also for paths that do not exist. Routes find the
    caller in ``request.state.caller``.

    Args:
        app: Answers the requests.
        context: The context of the application.
    """

    def __init__(self, app: ASGIApp, context: Context) -> None:
        self._app = app
        self._access = context.access
        rate = context.limits.rate
        self._rates = None if rate is None else Rates(rate, context.clock)
        self._audit = Audit(context.client, context.clock)
        if isinstance(self._access, BearerAccess):
            self._access.tell_by(context.client.teller("http"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": _POLICY})
            return
        request = Request(scope)
        try:
            caller = await self._admit(request)
        except Problem as problem:
            self._audit.refused(request, problem.status, problem.detail)
            await problem.answer()(scope, receive, send)
            return
        request.state.caller = caller
        status = 500

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, note)
        finally:
            self._audit.answered(request, status)

    async def _admit(self, request: Request) -> Caller:
        """The caller of a request.

        Raises:
            Problem: The caller may not call, or calls too often.
        """
        if (
            isinstance(self._access, BearerAccess)
            and path_within(request.scope) in OPEN_PATHS
        ):
            return _NOBODY
        address = network_of(request.client.host) if request.client else ""
        try:
            caller = await self._access.authenticate(request)
        except Problem:
            self._count(f"address {address}")
            raise
        is_known = caller.subject != ANYBODY
        request.state.caller = caller  # For the event of a caller over the rate.
        self._count(f"subject {caller.subject}" if is_known else f"address {address}")
        return caller

    def _count(self, caller: str) -> None:
        wait = ZERO if self._rates is None else self._rates.take(caller)
        if wait > ZERO:
            raise too_many("too many requests of this caller: come again later", wait)
