"""The dashboard as an application: its routes, its static files, its error pages."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from fastapi import Request
from starlette import staticfiles
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Mount

from go_scheduler.client import Client, check_client
from go_scheduler.clock import Clock, StoreClock, SystemClock
from go_scheduler.dashboard import pages, signing_in
from go_scheduler.dashboard.live import Live
from go_scheduler.dashboard.request import (
    STATIC,
    Context,
    PageRequest,
    Sessions,
    environment,
)
from go_scheduler.dashboard.signing_in import SIGNED_OUT, LoginMethods, SignIn
from go_scheduler.errors import ConfigurationError, GoSchedulerError
from go_scheduler.http.access.authentication import Audit, BearerAccess, OpenAccess
from go_scheduler.http.access.loopback import checked_origins
from go_scheduler.http.problems import Problem, Unexpected, of_error

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from go_scheduler.dashboard.request import Authorize
    from go_scheduler.http.access.authentication import Access
    from go_scheduler.http.configuration.sections import Configuration

_CHANGED = ("/definitions/", "/instances/")


async def answer_failure(request: Request, error: Exception) -> Response:
    """Answer with the page of an error."""
    if isinstance(error, HTTPException) and error.status_code == 404:
        detail = "there is no page under this path"
        error = Problem(404, "no-path", "Not Found", detail)
    return _page(request, of_error(request, error))


def _page(request: Request, problem: Problem) -> Response:
    shown = PageRequest(request)
    if problem.slug == SIGNED_OUT and not shown.is_stream:
        asked = shown.path if request.method == "GET" and not shown.is_partial else None
        return shown.go("/login", next=asked)
    page = ""
    if request.method == "POST" and shown.path.startswith(_CHANGED):
        # The last part of the path names the form.
        page = shown.path.rpartition("/")[0]
    response = shown.show(
        "error.html", status=problem.status, problem=problem, page=page
    )
    response.headers.update(problem.headers or {})
    return response


class UnexpectedPage(Unexpected):
    """Answers an unexpected error with a page."""

    def answer(self, scope: Scope, problem: Problem) -> Response:
        """Make the page."""
        return _page(Request(scope), problem)


_FOREVER = "public, max-age=31536000, immutable"
_ASK = "public, no-cache"


class StaticFiles(staticfiles.StaticFiles):
    """The files of the package, with an ETag."""

    def __init__(self) -> None:
        super().__init__(directory=STATIC)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Serve a file. A link with its version may be cached for ever."""
        response = await super().get_response(path, scope)
        is_versioned = "v" in parse_qs(scope["query_string"].decode("latin-1"))
        response.headers["Cache-Control"] = _FOREVER if is_versioned else _ASK
        return response


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


class Dashboard(Starlette):
    """The application."""

    def stop(self) -> None:
        """End the streams of events, because the server is about to stop.

        It is called on the event loop. Otherwise they end by themselves soon after.
        """
        context: Context = self.state.context
        context.live.stop()


def create_dashboard(
    client: Client,
    *,
    access: Access | None = None,
    authorize: Authorize | None = None,
    allow_changes: bool | None = None,
    sign_in: SignIn | None = None,
    origin: str | None = None,
    clock: Clock | None = None,
) -> Dashboard:
    """Make the pages that show what runs, what failed, what comes next, and how late.

    The application can be served by itself, or mounted in another one under any path.

    ```python
    app.mount("/dashboard", create_dashboard(scheduler, authorize=who))
    ```

    Without ``access`` and ``authorize`` it answers only requests from this machine, and
    changes nothing.

    Args:
        client: A ``Client``, or a scheduler, whose store is shown.
        access: Authenticates callers, as for ``create_app``.
        authorize: Authenticates them instead. It is called with each request, and
            returns a ``Caller``, or None for someone who may see nothing; it may be
            async.
        allow_changes: Whether pages have buttons that change something, for callers
            with the scopes for it; None: if callers are known, so not by
            ``OpenAccess``.
        sign_in: How people sign in if ``access`` has keys or an issuer; None:
            ``SignIn()``.
        origin: The origin in browsers, such as ``https://tasks.example.org``; None: the
            requested host.
        clock: The clock; None: the one of the system.

    Raises:
        ConfigurationError: The client is none, the origin is wrong, or changes are
            allowed to anybody.
    """
    check_client("client", client)
    clock = clock or SystemClock()
    if allow_changes and access is None and authorize is None:
        raise ConfigurationError(
            "allow_changes= needs to know who changes something: give access= or"
            " authorize="
        )
    is_open = access is None or isinstance(access, OpenAccess)
    is_known = authorize is not None or not is_open
    sign_in = sign_in or SignIn()
    if origin is not None:
        checked_origins([origin])
    login_methods = None
    if authorize is None and isinstance(access, BearerAccess):
        login_methods = LoginMethods(access, sign_in, clock)
        access.tell_by(client.teller("http"))
    app = Dashboard(
        routes=[
            Mount("/static", StaticFiles(), name="static"),
            *signing_in.ROUTES,
            *pages.ROUTES,
        ],
        middleware=[Middleware(SecurityHeaders), Middleware(UnexpectedPage)],
        exception_handlers=dict.fromkeys(
            (Problem, GoSchedulerError, HTTPException), answer_failure
        ),
    )
    app.state.context = Context(
        client=client,
        clock=clock,
        store_clock=StoreClock(clock, lambda: client._ready().now()),
        origin=origin,
        access=access,
        authorize=authorize,
        login_methods=login_methods,
        sessions=Sessions(client, clock, lasts=sign_in.lasts),
        audit=Audit(client, clock),
        allows_changes=is_known if allow_changes is None else allow_changes,
        live=Live(client),
        templates=environment(),
    )
    return app


def configured(settings: Configuration, client: Client, access: Access) -> Dashboard:
    """The dashboard of a server.

    Args:
        settings: The configuration.
        client: The client whose store is shown.
        access: Authenticates callers.

    Raises:
        ConfigurationError: A setting is wrong.
    """
    given = settings.dashboard
    secret = given.client_secret
    return create_dashboard(
        client,
        access=access,
        allow_changes=given.allow_changes,
        sign_in=SignIn(
            client_id=given.client_id,
            client_secret=None if secret is None else secret.get_secret_value(),
            scope=given.scope,
            lasts=given.session,
        ),
        origin=given.origin,
    )
