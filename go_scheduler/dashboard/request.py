"""Requests to pages: what they ask for, who sent them, and how they are answered.

```python
ROUTES = [
    page("/definitions/{id:uuid}", definition),
    change("/definitions/{id:uuid}/pause", pause, needs="jobs:pause"),
]
```
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar
from urllib.parse import quote, urlencode
from uuid import UUID

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.datastructures import ImmutableMultiDict
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from go_scheduler.client import Client
from go_scheduler.client.awaitable import on_thread
from go_scheduler.clock import Clock, StoreClock
from go_scheduler.dashboard.admission import Admission, check_token, read_form
from go_scheduler.dashboard.base_url import (
    BaseUrl,
    check_own_page,
    comes_from_elsewhere,
)
from go_scheduler.dashboard.live import Live
from go_scheduler.dashboard.sessions import Sessions
from go_scheduler.dashboard.visibility import sees_nodes
from go_scheduler.dashboard.words import FILTERS
from go_scheduler.formatting import shown
from go_scheduler.http.access.authentication import Audit
from go_scheduler.http.access.caller import Caller
from go_scheduler.http.paths import path_from_outside, path_within
from go_scheduler.http.problems import Problem, invalid

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from fastapi import Request

    from go_scheduler.dashboard.admission import Form
    from go_scheduler.dashboard.sessions import Session
    from go_scheduler.json import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What pages need.

    Attributes:
        client: What they call: a client, or a scheduler.
        clock: Tells the time of sessions.
        store_clock: Tells that of the store.
        place: Where browsers have the dashboard.
        admission: Finds out who calls.
        sessions: Know browsers again.
        audit: Tells who did what.
        allows_changes: Whether pages may change anything.
        live: Tells those who view them of changes.
        templates: What they are made of.
    """

    client: Client
    clock: Clock
    store_clock: StoreClock
    place: BaseUrl
    admission: Admission
    sessions: Sessions
    audit: Audit
    allows_changes: bool
    live: Live
    templates: Environment


STATIC = Path(__file__).with_name("static")


@cache
def environment() -> Environment:
    """What renders templates; whatever they show is escaped, in all of them."""
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
    """What changes whenever a static file does."""
    return hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:16]


if TYPE_CHECKING:
    Given = Mapping[str, str]

_Word = TypeVar("_Word", bound=str)
_YEARS = range(1900, 9900)
_LONGEST_TEXT = 10_000


def text(given: Given, name: str) -> str | None:
    """A text without what is around it; None: nothing was given.

    Raises:
        Problem: 422, it is too long, or nothing that a store can keep.
    """
    found = given.get(name, "").strip()
    if len(found) > _LONGEST_TEXT or "\0" in found:
        raise invalid(name, f"it must be a text of at most {_LONGEST_TEXT} characters")
    return found or None


def word(given: Given, name: str, words: Collection[_Word]) -> _Word | None:
    """One of some words; None: nothing was given.

    Raises:
        Problem: 422, it is another.
    """
    found = text(given, name)
    for each in words:
        if each == found:
            return each
    if found is None:
        return None
    raise invalid(name, f"it must be one of {', '.join(words)}, not {shown(found)}")


def instant(given: Given, name: str) -> datetime | None:
    """A time, of UTC if it says nothing else; None: nothing was given.

    Raises:
        Problem: 422, it is none, or far from any that something fires at.
    """
    found = text(given, name)
    if found is None:
        return None
    try:
        # A + that nobody wrote as %2B has become a space.
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
        Problem: 422, one is none, or they are too many.
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
    """A JSON object; None: nothing was given.

    Raises:
        Problem: 422, it is none.
    """
    found = text(given, name)
    if found is None:
        return None
    try:
        value = json.loads(found)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        example = '{"a": 1}'
        raise invalid(
            name, f"it must be a JSON object such as {example}, not {shown(found)}"
        )
    return value


PAGES = [
    ("Overview", "/"),
    ("Strip", "/strip"),
    ("Definitions", "/definitions"),
    ("Instances", "/instances"),
]
_NOBODY = Caller(subject="", scopes=frozenset())


class PageRequest:
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


Answer: TypeAlias = Callable[[PageRequest], Awaitable[Response]]
"""What answers a request."""

_READING = ("jobs:read", "runs:read")


def page(path: str, answer: Answer, *, needs: tuple[str, ...] = _READING) -> Route:
    """The route of a page, or of a part of one, that shows something.

    Args:
        path: Such as ``/definitions/{id:uuid}``.
        answer: What answers it.
        needs: The scopes that its callers need.
    """

    async def endpoint(request: Request) -> Response:
        if comes_from_elsewhere(request):
            return PageRequest(request).onward()
        visit = await _admitted(request, *needs)
        return await _answered(visit, answer)

    return Route(path, endpoint, methods=["GET"])


def change(path: str, answer: Answer, *, needs: str) -> Route:
    """The route of a form that changes something: it is sent by POST.

    It is taken from the dashboard's own pages alone, which have ``visit.token`` in a
    field ``csrf``; what htmx sends has it anyway. Its fields are in ``visit.form``.

    Args:
        path: Such as ``/definitions/{id:uuid}/pause``.
        answer: What answers it.
        needs: The scope that its callers need.
    """

    async def endpoint(request: Request) -> Response:
        here: Context = request.app.state.context
        check_own_page(request, here.place.origin(request))
        try:
            visit = await _admitted(request, needs)
            if not here.allows_changes:
                raise Problem(
                    403, "read-only", "Not allowed", "this dashboard changes nothing"
                )
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
    """A visit of somebody who may.

    Raises:
        Problem: 401, they have to sign in; 403, they may not.
    """
    here: Context = request.app.state.context
    session = await here.sessions.of(request)
    caller = await here.admission.caller_of(request, session)
    request.state.caller, request.state.needed = caller, needs
    caller.check_scopes(*needs)
    await on_thread(here.store_clock.refresh, waits=True)
    token = await here.sessions.token(session, caller.subject)
    return PageRequest(request, caller, session, token)


async def _answered(visit: PageRequest, answer: Answer) -> Response:
    response = await answer(visit)
    if visit.session is not None and visit.session.is_new:
        await visit.here.sessions.keep(visit.session, visit.request, response)
    return response
