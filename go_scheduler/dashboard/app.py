"""The dashboard as an application of its own, to be served or mounted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Mount

from go_scheduler.client.client import check_client
from go_scheduler.clock import StoreClock, SystemClock
from go_scheduler.dashboard.context import Context
from go_scheduler.dashboard.failures import UnexpectedPage, answer_failure
from go_scheduler.dashboard.live import Live
from go_scheduler.dashboard.pages import PAGES
from go_scheduler.dashboard.rendering import environment
from go_scheduler.dashboard.security.admission import Admission
from go_scheduler.dashboard.security.headers import SecurityHeaders
from go_scheduler.dashboard.security.place import Place
from go_scheduler.dashboard.security.sessions import Sessions
from go_scheduler.dashboard.signing_in import routes
from go_scheduler.dashboard.signing_in.doors import Doors
from go_scheduler.dashboard.signing_in.sign_in import SignIn
from go_scheduler.dashboard.static_files import StaticFiles
from go_scheduler.errors import ConfigurationError, GoSchedulerError
from go_scheduler.http.access.audit import Audit
from go_scheduler.http.access.bearer import BearerAccess
from go_scheduler.http.access.guard import OpenAccess
from go_scheduler.http.access.origins import checked_origins
from go_scheduler.http.problems import Problem

if TYPE_CHECKING:
    from go_scheduler.client import Client
    from go_scheduler.clock import Clock
    from go_scheduler.dashboard.security.admission import Authorize
    from go_scheduler.http.access.guard import Access


class Dashboard(Starlette):
    """The application."""

    def stop(self) -> None:
        """End streams of events: the server that has it is about to stop.

        It is called on the event loop. Without it they end by themselves soon after.
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
    """Pages that show what runs, what failed, what comes, and how late.

    The application can be served by itself, or mounted in another under any path.

    ```python
    app.mount("/dashboard", create_dashboard(scheduler, authorize=who))
    ```

    Without ``access`` and ``authorize`` it answers this machine alone, and changes
    nothing.

    Args:
        client: What it shows: a ``Client``, or a scheduler.
        access: Tells who calls, as for ``create_app``.
        authorize: Tells it instead, called with each request: a ``Caller``, or None for
            somebody who may see nothing; it may be async.
        allow_changes: Whether its pages have buttons that change something, for callers
            whose scopes allow that; None: where it is known who calls, so not by
            ``OpenAccess``.
        sign_in: How people sign in where ``access`` is by keys or an issuer; None:
            ``SignIn()``.
        origin: Where browsers have it, such as ``https://tasks.example.org``; None:
            the host that they ask for.
        clock: Tells the time; None: the system's.

    Raises:
        ConfigurationError: It is no client, anybody might change something, or the
            origin is none.
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
    doors = None
    if authorize is None and isinstance(access, BearerAccess):
        doors = Doors(access, sign_in, clock)
        access.tell_by(client.teller("http"))
    app = Dashboard(
        routes=[
            Mount("/static", StaticFiles(), name="static"),
            *routes.ROUTES,
            *(route for page in PAGES for route in page.ROUTES),
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
        place=Place(origin),
        admission=Admission(access, authorize, doors),
        sessions=Sessions(client, clock, lasts=sign_in.lasts),
        audit=Audit(client, clock),
        allows_changes=is_known if allow_changes is None else allow_changes,
        live=Live(client),
        templates=environment(),
    )
    return app
