"""Requests to pages: query parameters, the caller, routes and answers.

```python
ROUTES = [
    page("/definitions/{id:uuid}", definition),
    change("/definitions/{id:uuid}/pause", pause, needs="jobs:pause"),
]
```
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar
from urllib.parse import quote, urlencode
from uuid import UUID

from fastapi import Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.datastructures import ImmutableMultiDict
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from go_scheduler.client import Client
from go_scheduler.client.store_access import on_thread
from go_scheduler.clock import Clock, StoreClock
from go_scheduler.dashboard.live import Live
from go_scheduler.dashboard.sessions import (
    Sessions,
    check_own_page,
    check_token,
    comes_from_elsewhere,
    read_form,
)
from go_scheduler.dashboard.words import FILTERS
from go_scheduler.formatting import shown
from go_scheduler.http.access.authentication import ANYBODY, Access, Audit, OpenAccess
from go_scheduler.http.access.caller import SCOPES, Caller, is_restricted
from go_scheduler.http.access.loopback import check_here
from go_scheduler.http.bodies import if_given, read_object
from go_scheduler.http.paths import path_from_outside, path_within
from go_scheduler.http.problems import Problem, invalid, not_allowed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from go_scheduler.dashboard.sessions import Form, Session
    from go_scheduler.dashboard.signing_in import LoginMethods  # noqa: TC004 # in a circle
    from go_scheduler.json import JSON

Authorize: TypeAlias = Callable[[Request], Caller | Awaitable[Caller | None] | None]
"""Returns the caller of a request, or None for someone who may see nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What all pages need.

    Attributes:
        client: A client, or a scheduler.
        clock: Tells the time of sessions.
        store_clock: Tells the time of the store.
        origin: The origin of the dashboard in browsers; None: the requested host.
        access: Authenticates callers as the HTTP API does.
        authorize: Authenticates them instead, where the dashboard is mounted.
        login_methods: How people sign in; None: nobody signs in here.
        sessions: The sessions of browsers.
        audit: Records who did what.
        allows_changes: Whether pages may change anything.
        live: Tells viewers of changes.
        templates: The templates of pages.
    """

    client: Client
    clock: Clock
    store_clock: StoreClock
    origin: str | None
    access: Access | None
    authorize: Authorize | None
    login_methods: LoginMethods | None
    sessions: Sessions
    audit: Audit
    allows_changes: bool
    live: Live
    templates: Environment


STATIC = Path(__file__).with_name("static")


@cache
def environment() -> Environment:
    """Renders templates. Values are escaped in all of them."""
    found = Environment(
        loader=PackageLoader("go_scheduler.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(FILTERS)
    return found


@cache
def version_of(name: str) -> str:
    """A hash of a static file, for its link."""
    return hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:16]


if TYPE_CHECKING:
    Given = Mapping[str, str]

_Word = TypeVar("_Word", bound=str)
_YEARS = range(1900, 9900)
_LONGEST_TEXT = 10_000


def text(given: Given, name: str) -> str | None:
    """A stripped text; None: the field is absent or empty.

    Raises:
        Problem: 422, it is too long, or no store can keep it.
    """
    found = given.get(name, "").strip()
    if len(found) > _LONGEST_TEXT or "\0" in found:
        raise invalid(name, f"it must be a text of at most {_LONGEST_TEXT} characters")
    return found or None


def word(given: Given, name: str, words: Collection[_Word]) -> _Word | None:
    """One of some words; None: the field is absent or empty.

    Raises:
        Problem: 422, it is none of these words.
    """
    found = text(given, name)
    for each in words:
        if each == found:
            return each
    if found is None:
        return None
    raise invalid(name, f"it must be one of {', '.join(words)}, not {shown(found)}")


def instant(given: Given, name: str) -> datetime | None:
    """A time, in UTC unless it has another offset; None: the field is absent or empty.

    Raises:
        Problem: 422, it is no time, or before 1900 or after 9899.
    """
    found = text(given, name)
    if found is None:
        return None
    try:
        # A + in a URL that is not written as %2B becomes a space.
        at = datetime.fromisoformat(found.replace(" ", "+") if "T" in found else found)
        if at.year in _YEARS:
            return at.replace(tzinfo=at.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise invalid(
        name, f"it must be a time such as 2030-01-01T09:00, not {shown(found)}"
    )


def ids(given: Given, name: str, *, most: int) -> list[UUID]:
    """Ids with commas between them.

    Raises:
        Problem: 422, one of them is no id, or there are too many.
    """
    found = [each for each in (text(given, name) or "").split(",") if each.strip()]
    if len(found) > most:
        raise invalid(name, f"it has {len(found)} ids; at most {most} are shown")
    try:
        return [UUID(each.strip()) for each in found]
    except ValueError:
        raise invalid(
            name, f"it must be ids with commas between them, not {shown(found)}"
        ) from None


def json_object(given: Given, name: str) -> Mapping[str, JSON] | None:
    """A JSON object; None: the field is absent or empty.

    Raises:
        Problem: 422, it is no JSON object.
    """
    return if_given(text(given, name), lambda it: read_object(name, it))


PAGES = [
    ("Overview", "/"),
    ("Strip", "/strip"),
    ("Definitions", "/definitions"),
    ("Instances", "/instances"),
]
_NOBODY = Caller(subject="", scopes=frozenset())
_ANYBODY = Caller(subject=ANYBODY, scopes=frozenset(SCOPES))


class PageRequest:
    """One request to a page.

    Attributes:
        request: The request, as Starlette has it.
        here: What all pages need.
        caller: The sender.
        session: The session of their browser; None: it has none.
        token: The value of the field ``csrf`` of forms.
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
        """The client that pages call."""
        return self.here.client

    @property
    def query(self) -> Given:
        """The query parameters."""
        return self.request.query_params

    @property
    def id(self) -> UUID:
        """The id in the path."""
        found: UUID = self.request.path_params["id"]
        return found

    @property
    def now(self) -> datetime:
        """The time of the store, like all times in its rows."""
        return self.here.store_clock.now()

    @property
    def is_partial(self) -> bool:
        """Whether htmx asks for a part of a page."""
        return "hx-request" in self.request.headers

    @property
    def is_stream(self) -> bool:
        """Whether the answer is a stream of events, which cannot be redirected."""
        return "text/event-stream" in self.request.headers.get("accept", "")

    @property
    def path(self) -> str:
        """The path and query of the request, as routes have them."""
        return self._asked(path_within(self.request.scope))

    @property
    def pages(self) -> list[tuple[str, str]]:
        """Name and path of the pages in the navigation."""
        return [
            *PAGES,
            *([("Nodes", "/nodes")] if sees_nodes(self.caller) else []),
            ("Search", "/search"),
        ]

    @property
    def itself(self) -> str:
        """The path and query of the request, as browsers have them."""
        return self._asked(self.outside(path_within(self.request.scope)))

    def _asked(self, path: str) -> str:
        query = self.request.scope["query_string"].decode("latin-1")
        return f"{quote(path)}?{query}" if query else quote(path)

    def onward(self, path: str | None = None) -> Response:
        """A page that redirects, so that strict cookies come with the next request.

        Args:
            path: As in ``path``; None: the requested one.
        """
        return self.show("onward.html", to=self.outside(path or self.path))

    def outside(self, path: str) -> str:
        """The path and query of a page, as browsers have them."""
        return path_from_outside(self.request, path)

    def may(self, scope: str) -> bool:
        """Whether the caller has a scope, and the dashboard allows what it is for."""
        is_reading = scope in ("jobs:read", "runs:read", "admin")
        return scope in self.caller.scopes and (is_reading or self.here.allows_changes)

    def link(self, path: str, **query: object) -> str:
        """The path of a page as browsers have it, wherever the dashboard is mounted.

        Args:
            path: As routes have it, such as ``/definitions``.
            **query: The query; None is left out.
        """
        url = quote(path_from_outside(self.request, path))
        said = {name: each for name, each in query.items() if each is not None}
        return f"{url}?{urlencode(said)}" if said else url

    def static(self, name: str) -> str:
        """The link to a static file. Browsers cache it until the file changes."""
        return self.link(f"/static/{name}", v=version_of(name))

    def show(self, template: str, *, status: int = 200, **values: object) -> Response:
        """Render a page, or a part of one.

        Args:
            template: Its file.
            status: Of the answer.
            **values: Values for the template; ``visit`` is this request.
        """
        found = self.here.templates.get_template(template)
        path = path_within(self.request.scope)
        return HTMLResponse(found.render(visit=self, path=path, **values), status)

    def go(self, path: str, **query: object) -> Response:
        """Redirect the browser to a page, with the arguments of ``link``."""
        return self.send_to(self.link(path, **query))

    def send_to(self, url: str) -> Response:
        """Redirect the browser to a URL."""
        if self.is_partial:
            return Response(headers={"HX-Redirect": url})
        return RedirectResponse(url, 303)


Answer: TypeAlias = Callable[[PageRequest], Awaitable[Response]]
"""Answers a request to a page."""

_READING = ("jobs:read", "runs:read")


def page(path: str, answer: Answer, *, needs: tuple[str, ...] = _READING) -> Route:
    """The route of a page, or of a part of one.

    Args:
        path: Such as ``/definitions/{id:uuid}``.
        answer: Answers the request.
        needs: The scopes that callers need.
    """

    async def endpoint(request: Request) -> Response:
        if comes_from_elsewhere(request):
            return PageRequest(request).onward()
        visit = await _admitted(request, *needs)
        return await _answered(visit, answer)

    return Route(path, endpoint, methods=["GET"])


def change(path: str, answer: Answer, *, needs: str) -> Route:
    """The route of a form that changes something. It is sent by POST.

    Only pages of the dashboard may send it, with ``visit.token`` in the field ``csrf``;
    htmx sends the token in a header. The fields are in ``visit.form``.

    Args:
        path: Such as ``/definitions/{id:uuid}/pause``.
        answer: Answers the request.
        needs: The scope that callers need.
    """

    async def endpoint(request: Request) -> Response:
        here: Context = request.app.state.context
        check_own_page(request)
        try:
            visit = await _admitted(request, needs)
            if not here.allows_changes:
                raise not_allowed("read-only", "this dashboard changes nothing")
            visit.form = await read_form(request)
            check_token(request, visit.form, visit.token)
            response = await _answered(visit, answer)
        except Problem as problem:
            here.audit.refused(request, problem.status, problem.detail)
            raise
        here.audit.answered(request, response.status_code)
        return response

    return Route(path, endpoint, methods=["POST"])


async def _admitted(request: Request, *needs: str) -> PageRequest:
    """Authenticate a caller, and check their scopes.

    Raises:
        Problem: 401, they have to sign in; 403, they may not.
    """
    here: Context = request.app.state.context
    session = await here.sessions.of(request)
    caller = await _caller_of(request, session)
    request.state.caller, request.state.needed = caller, needs
    caller.check_scopes(*needs)
    await on_thread(here.store_clock.refresh, waits=True)
    token = await here.sessions.token(session, caller.subject)
    return PageRequest(request, caller, session, token)


async def _caller_of(request: Request, session: Session) -> Caller:
    here: Context = request.app.state.context
    if here.authorize is not None:
        found = here.authorize(request)
        caller = await found if inspect.isawaitable(found) else found
        if caller is None:
            raise not_allowed("not-allowed", "you may see nothing here")
        if not isinstance(caller, Caller):
            raise TypeError(
                "authorize must return a Caller or None, not a value of type"
                f" {type(caller).__name__}"
            )
        return caller
    if here.login_methods is not None:
        return here.login_methods.caller_of(session.signed_in)
    if here.access is None or isinstance(here.access, OpenAccess):
        check_here(request)
        return _ANYBODY
    return await here.access.authenticate(request)


async def _answered(visit: PageRequest, answer: Answer) -> Response:
    response = await answer(visit)
    if visit.session is not None and visit.session.is_new:
        await visit.here.sessions.keep(visit.session, visit.request, response)
    return response


def sees_nodes(caller: Caller) -> bool:
    """Whether a caller may see nodes, which serve everybody's queues and names."""
    return "admin" in caller.scopes and not is_restricted(caller)
