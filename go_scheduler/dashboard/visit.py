"""One request to a page: who sent it, and how it is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from starlette.datastructures import ImmutableMultiDict
from starlette.responses import HTMLResponse, RedirectResponse, Response

from go_scheduler.dashboard.rendering import version_of
from go_scheduler.dashboard.seen import sees_nodes
from go_scheduler.http.access.caller import Caller
from go_scheduler.http.paths import path_from_outside, path_within

if TYPE_CHECKING:
    from datetime import datetime

    from starlette.requests import Request

    from go_scheduler.client import Client
    from go_scheduler.dashboard.context import Context
    from go_scheduler.dashboard.security.forms import Form
    from go_scheduler.dashboard.security.sessions import Session

PAGES = [
    ("Overview", "/"),
    ("Strip", "/strip"),
    ("Definitions", "/definitions"),
    ("Instances", "/instances"),
    ("Lateness", "/lateness"),
]
_NOBODY = Caller(subject="", scopes=frozenset())


class Visit:
    """One request to a page.

    Attributes:
        request: As it was sent.
        here: What pages need.
        caller: Who sent it.
        session: By what their browser is known again; None: it is not.
        token: What forms have in the field ``csrf``.
        form: The fields of the form that was sent, if it was one.
    """

    def __init__(
        self,
        request: Request,
        caller: Caller = _NOBODY,
        session: Session | None = None,
        token: str = "",
    ) -> None:
        self.request = request
        self.here: Context = request.app.state.context
        self.caller = caller
        self.session = session
        self.token = token
        self.form: Form = ImmutableMultiDict()

    @property
    def client(self) -> Client:
        """What pages call."""
        return self.here.client

    @property
    def now(self) -> datetime:
        """The present, as the store has it: by that its rows are told."""
        return self.here.store_clock.now()

    @property
    def is_partial(self) -> bool:
        """Whether htmx asks, for a part of a page."""
        return "hx-request" in self.request.headers

    @property
    def is_stream(self) -> bool:
        """Whether events are asked for, to which nobody can be sent elsewhere."""
        return "text/event-stream" in self.request.headers.get("accept", "")

    @property
    def path(self) -> str:
        """The path and query that was asked for, as the routes have it."""
        return self._asked(path_within(self.request.scope))

    @property
    def pages(self) -> list[tuple[str, str]]:
        """The pages that are linked from each, by what they are called."""
        return [
            *PAGES,
            *([("Nodes", "/nodes")] if sees_nodes(self.caller) else []),
            ("Search", "/search"),
        ]

    @property
    def itself(self) -> str:
        """The path and query that was asked for, as browsers have it."""
        return self._asked(self.outside(path_within(self.request.scope)))

    def _asked(self, path: str) -> str:
        query = self.request.scope["query_string"].decode("latin-1")
        return f"{quote(path)}?{query}" if query else quote(path)

    def onward(self, path: str | None = None) -> Response:
        """A page of ours that leads to another, so that strict cookies are sent there.

        Args:
            path: As ``path`` has it; None: the one that was asked for.
        """
        return self.show("onward.html", to=self.outside(path or self.path))

    def outside(self, path: str) -> str:
        """A path and query, as ``path`` has them, as browsers have it."""
        return path_from_outside(self.request, path)

    def may(self, scope: str) -> bool:
        """Whether they may do what a scope allows; to change anything, here."""
        is_reading = scope in ("jobs:read", "runs:read", "admin")
        return scope in self.caller.scopes and (is_reading or self.here.allows_changes)

    def link(self, path: str, **query: object) -> str:
        """A path of the dashboard's as browsers have it, wherever it is mounted.

        Args:
            path: As the routes have it, such as ``/definitions``.
            **query: What follows it; None is left out.
        """
        url = quote(path_from_outside(self.request, path))
        said = {name: each for name, each in query.items() if each is not None}
        return f"{url}?{urlencode(said)}" if said else url

    def static(self, name: str) -> str:
        """Where a static file is; browsers keep it until it changes."""
        return self.link(f"/static/{name}", v=version_of(name))

    def show(self, template: str, *, status: int = 200, **values: object) -> Response:
        """A page, or a part of one.

        Args:
            template: Its file.
            status: Of the answer.
            **values: What the template shows; ``visit`` is this one.
        """
        found = self.here.templates.get_template(template)
        path = path_within(self.request.scope)
        return HTMLResponse(found.render(visit=self, path=path, **values), status)

    def go(self, path: str, **query: object) -> Response:
        """Send the browser to another page, as ``link`` has it."""
        return self.send_to(self.link(path, **query))

    def send_to(self, url: str) -> Response:
        """Send the browser to a URL."""
        if self.is_partial:
            return Response(headers={"HX-Redirect": url})
        return RedirectResponse(url, 303)
