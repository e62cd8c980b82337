"""The entrance: what each request passes first, before any of it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request

from go_scheduler.clock import ZERO
from go_scheduler.http.access.audit import Audit
from go_scheduler.http.access.bearer import BearerAccess
from go_scheduler.http.access.caller import Caller
from go_scheduler.http.access.guard import ANYBODY
from go_scheduler.http.access.rates import Rates, network_of
from go_scheduler.http.access.refusals import too_many
from go_scheduler.http.paths import path_within
from go_scheduler.http.problems import Problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from go_scheduler.http.context import Context

METADATA = "/.well-known/oauth-protected-resource"
"""Where it is said who gives tokens (RFC 9728)."""

OPEN_PATHS = frozenset({"/healthz", "/readyz", METADATA})
"""What everybody may ask, also where there is authentication."""

_POLICY = 1008
_NOBODY = Caller(subject="nobody", scopes=frozenset())


class Entrance:
    """Finds out who sends a request, and refuses those that may send none.

    It does so before the body is read, and for paths that do not exist as well. What
    comes behind finds the caller in ``request.state.caller``.

    Args:
        app: What comes behind.
        context: Of the application.
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
        """Who sends it.

        Raises:
            Problem: They may not, or too often.
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
        request.state.caller = caller  # Told of those, too, who come too often.
        self._count(f"subject {caller.subject}" if is_known else f"address {address}")
        return caller

    def _count(self, caller: str) -> None:
        wait = ZERO if self._rates is None else self._rates.take(caller)
        if wait > ZERO:
            raise too_many("too many requests of this caller: come again later", wait)
