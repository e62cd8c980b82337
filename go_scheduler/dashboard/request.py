"""Requests to pages: their session, fields and caller, their routes and answers.

```python
ROUTES = [
    page("/definitions/{id:uuid}", definition),
    change("/definitions/{id:uuid}/pause", pause, needs="jobs:pause"),
]
```
"""

from __future__ import annotations

import hashlib
import hmac
import inspect
import json
import re
import secrets
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit
from uuid import UUID

from cryptography.fernet import Fernet, InvalidToken
from fastapi import Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.datastructures import ImmutableMultiDict
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from go_scheduler.client import Client
from go_scheduler.client.store_access import on_thread
from go_scheduler.clock import Clock, StoreClock
from go_scheduler.dashboard.live import Live
from go_scheduler.dashboard.words import FILTERS
from go_scheduler.formatting import shown
from go_scheduler.http.access.authentication import ANYBODY, Access, Audit, OpenAccess
from go_scheduler.http.access.caller import SCOPES, Caller, is_restricted
from go_scheduler.http.access.loopback import check_local, is_loopback
from go_scheduler.http.bodies import if_given, read_object
from go_scheduler.http.paths import path_within
from go_scheduler.http.problems import Problem, invalid, not_allowed

if TYPE_CHECKING:
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


SETTING = "dashboard.sessions"
"""The setting of the store with the key, which all servers share."""


class SignedCookies:
    """Encrypts values, and decrypts what the same key has encrypted.

    Args:
        key: 32 random bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._fernet = Fernet(urlsafe_b64encode(key))

    def encrypt(
        self, purpose: str, values: Mapping[str, object], until: datetime
    ) -> str:
        """Encrypt values.

        Args:
            purpose: The only purpose for which they can be decrypted.
            values: JSON values.
            until: When they expire.
        """
        said = json.dumps([purpose, until.timestamp(), values]).encode()
        # The token has no time of its own: ``until`` counts, by our clock.
        return self._fernet.encrypt_at_time(said, 0).decode()

    def decrypt(self, purpose: str, text: str, now: datetime) -> dict[str, Any] | None:
        """Decrypt values; None: they are forged, expired, or for another purpose."""
        try:
            said = json.loads(self._fernet.decrypt(text.encode()))
        except (InvalidToken, UnicodeEncodeError):
            return None
        its_purpose, until, values = said
        is_good = its_purpose == purpose and now.timestamp() < until
        return values if is_good else None

    def sign(self, *texts: str) -> str:
        """A signature (HMAC) of some texts."""
        text = json.dumps(texts).encode()
        return hmac.new(self._key, text, "sha256").hexdigest()


_PORT = re.compile(r":([0-9]{1,5})$")


def cookie_of(request: Request, name: str) -> str:
    """The value of a cookie; empty if the browser has none."""
    return request.cookies.get(_name(name, request), "")


def kept_under(request: Request, name: str) -> list[str]:
    """The endings of the names of cookies that begin with a name."""
    pattern = _name(f"{name}-ENDING", request)
    pattern = re.escape(pattern).replace("ENDING", "([0-9a-f]{8})")
    found = (re.fullmatch(pattern, each) for each in request.cookies)
    return [each[1] for each in found if each]


def set_cookie(
    request: Request,
    response: Response,
    name: str,
    value: str,
    *,
    same_site: Literal["strict", "lax"] = "strict",
    lasts: timedelta | None = None,
) -> None:
    """Set a cookie.

    Args:
        request: A request of the browser.
        response: The answer that sets it.
        name: The name of the cookie.
        value: The value.
        same_site: Whether a link of another site sends it along.
        lasts: For how long; None: until the browser is closed.
    """
    response.set_cookie(
        _name(name, request),
        value,
        max_age=None if lasts is None else int(lasts.total_seconds()),
        path="/",
        secure=_is_secure(request),
        httponly=True,
        samesite=same_site,
    )


def delete_cookie(request: Request, response: Response, name: str) -> None:
    """Delete a cookie."""
    is_secure = _is_secure(request)
    response.delete_cookie(_name(name, request), secure=is_secure, httponly=True)


def _is_secure(request: Request) -> bool:
    return origin_of(request).startswith("https:")


def _name(name: str, request: Request) -> str:
    """The full name of a cookie. By https no other host can set one of that name."""
    if root := request.scope.get("root_path", ""):
        # Another dashboard on this host needs cookies of other names.
        name = f"{name}-{hashlib.sha256(root.encode()).hexdigest()[:8]}"
    if _is_secure(request):
        return f"__Host-{name}"
    # All ports of this machine share their cookies.
    port = _PORT.search(origin_of(request))
    return f"{name}-{port[1]}" if port else name


_COOKIE = "go_scheduler"
_PURPOSE = "session"
_MOST_CHARACTERS = 3500
_MOST_ENDED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The session of a browser.

    Attributes:
        id: Random; another one whenever somebody signs in.
        signed_in: Who has signed in; None: nobody has.
        is_new: Whether the cookie is still to be set.
    """

    id: str
    signed_in: Mapping[str, Any] | None = field(default=None, repr=False)
    is_new: bool = False


class Sessions:
    """Makes sessions, reads them from cookies, and ends them.

    Args:
        client: Its store has the key of the cookies.
        clock: Tells when sessions expire.
        lasts: How long a session lasts.
    """

    def __init__(self, client: Client, clock: Clock, *, lasts: timedelta) -> None:
        self._client = client
        self._clock = clock
        self._lasts = lasts
        self._cookies: SignedCookies | None = None
        self._ended: OrderedDict[str, None] = OrderedDict()

    async def cookies(self) -> SignedCookies:
        """What encrypts the cookies.

        Raises:
            StoreError: The key cannot be read.
        """
        if self._cookies is None:
            key = await on_thread(self._key)
            self._cookies = SignedCookies(bytes.fromhex(key))
        return self._cookies

    def _key(self) -> str:
        """The key that the store keeps for all servers; at first a new one."""
        return self._client._ready().keep_setting(SETTING, secrets.token_hex(32))

    async def token(self, session: Session, subject: str = "") -> str:
        """The CSRF token of a session and its user."""
        return (await self.cookies()).sign("token", session.id, subject)

    async def of(self, request: Request) -> Session:
        """The session of a request; a new one if it has none."""
        value = cookie_of(request, _COOKIE)
        found = (await self.cookies()).decrypt(_PURPOSE, value, self._clock.now())
        if found is None or found["id"] in self._ended:
            return self.begin()
        return Session(**found)

    def begin(self, signed_in: Mapping[str, Any] | None = None) -> Session:
        """A new session; None: nobody has signed in."""
        return Session(
            id=secrets.token_urlsafe(16),
            signed_in=signed_in,
            is_new=True,
        )

    async def keep(
        self, session: Session, request: Request, response: Response
    ) -> None:
        """Set the cookie of a session.

        Raises:
            Problem: 400, it is too large for a cookie.
        """
        values = {"id": session.id, "signed_in": session.signed_in}
        until = self._clock.now() + self._lasts
        value = (await self.cookies()).encrypt(_PURPOSE, values, until)
        if len(value) > _MOST_CHARACTERS:
            raise Problem(
                400,
                "session",
                "Nobody was signed in",
                "the queues and owners that the issuer has sent are too many for a"
                " cookie: have it send fewer, or use an API key",
            )
        set_cookie(request, response, _COOKIE, value)

    def end(self, session: Session, request: Request, response: Response) -> None:
        """Delete the cookie of a session, and refuse it in this process from now on."""
        self._ended[session.id] = None
        if len(self._ended) > _MOST_ENDED:
            self._ended.popitem(last=False)
        delete_cookie(request, response, _COOKIE)


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
        raise not_allowed(
            "plain-http",
            "changes and sign-ins are possible by https alone, or on the machine of the"
            " dashboard",
        )
    if not is_own:
        raise not_allowed(
            "foreign-page",
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


Given: TypeAlias = Mapping[str, str]
"""The fields of a query or a form."""

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
        path = quote(path_within(self.request.scope))
        query = self.request.scope["query_string"].decode("latin-1")
        return f"{path}?{query}" if query else path

    @property
    def pages(self) -> list[tuple[str, str]]:
        """Name and path of the pages in the navigation."""
        return [
            *PAGES,
            *([("Nodes", "/nodes")] if sees_nodes(self.caller) else []),
            ("Search", "/search"),
        ]

    def onward(self, path: str | None = None) -> Response:
        """A page that redirects, so that strict cookies come with the next request.

        Args:
            path: As in ``path``; None: the requested one.
        """
        return self.show("onward.html", to=self.outside(path or self.path))

    def outside(self, path: str) -> str:
        """The path and query of a page, as browsers have them.

        Args:
            path: As in ``path``.
        """
        return quote(self.request.scope.get("root_path", "")) + path

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
        url = self.outside(quote(path))
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
        check_local(request)
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
