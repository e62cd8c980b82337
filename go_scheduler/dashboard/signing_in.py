"""Signing in and out: by an API key, or at an OIDC issuer."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from go_scheduler.checks import check_at_least, check_name
from go_scheduler.dashboard.request import (
    PageRequest,
    check_own_page,
    check_token,
    comes_from_elsewhere,
    cookie_of,
    delete_cookie,
    kept_under,
    origin_of,
    read_form,
    set_cookie,
)
from go_scheduler.http.access.authentication import BearerAccess, kept_of
from go_scheduler.http.access.caller import Caller
from go_scheduler.http.access.login import (
    LoginError,
    LoginProvider,
    ProviderAwayError,
)
from go_scheduler.http.limits import Rate, Rates, network_of, too_many
from go_scheduler.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from fastapi import Request

    from go_scheduler.clock import Clock
    from go_scheduler.http.access.issuer import Tokens

LASTS = timedelta(hours=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """How people sign in to the dashboard.

    Args:
        client_id: The client id of the dashboard at the issuer; None: the
            ``client_id`` of the issuer, which the command line uses.
        client_secret: The client secret at the issuer; None: there is none (a public
            client).
        scope: The scopes to request from the issuer.
        lasts: How long a session lasts.

    Raises:
        ConfigurationError: One of these is wrong.
    """

    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    scope: str = "openid"
    lasts: timedelta = LASTS

    def __post_init__(self) -> None:
        if self.client_id is not None:
            check_name("client_id", self.client_id)
        check_at_least("lasts", self.lasts, timedelta(minutes=1))


def refused(detail: str) -> Problem:
    """The error of a sign-in that has failed."""
    return Problem(400, "sign-in", "Nobody was signed in", f"{detail}: sign in again")


_T = TypeVar("_T")

_CALLER = TypeAdapter(Caller)
_THREADS = 4
_RATE = Rate(per_second=5, burst=20)


class LoginMethods:
    """Signs people in: by an API key, or at the issuer by the code flow, with PKCE.

    Args:
        bearer: Has the keys and the issuer.
        sign_in: The settings of the dashboard.
        clock: For the rate limit of sign-ins.

    Attributes:
        takes_keys: Whether people sign in by an API key.
        has_issuer: Whether they sign in at the issuer.
    """

    def __init__(self, bearer: BearerAccess, sign_in: SignIn, clock: Clock) -> None:
        self._bearer = bearer
        self._sign_in = sign_in
        self._rates = Rates(_RATE, clock)
        issuer = bearer.issuer
        self._client_id = sign_in.client_id or (issuer and issuer.client_id) or ""
        self.takes_keys = bool(bearer.keys)
        self.has_issuer = issuer is not None and self._client_id != ""
        # Threads of its own: an issuer that does not answer delays nothing else.
        self._threads = ThreadPoolExecutor(_THREADS, "go_scheduler sign-in")

    async def begin(self, back: str) -> tuple[str, dict[str, str]]:
        """Begin a sign-in.

        Args:
            back: The URL to which the issuer sends the browser back.

        Returns:
            The URL at the issuer to which the browser goes, and the values that a
            cookie keeps meanwhile.

        Raises:
            Problem: The issuer cannot be reached, or is none.
        """
        kept = {name: secrets.token_urlsafe(32) for name in ("state", "nonce")}
        kept["verifier"] = secrets.token_urlsafe(64)
        url = await self._asked(
            lambda: self._provider().authorization_url(back, **kept)
        )
        return url, kept

    async def end(
        self, came: Mapping[str, str], kept: Mapping[str, str], back: str
    ) -> Caller:
        """End a sign-in.

        Args:
            came: The query of the request that comes back from the issuer.
            kept: What the cookie has kept.
            back: The URL to which the issuer has sent the browser back.

        Raises:
            Problem: It is no answer to this sign-in, or the issuer refuses.
        """

        def exchange() -> dict[str, Any]:
            provider = self._provider()
            if not provider.has_answered(came, kept["state"]):
                raise LoginError("this is no answer to the request to the issuer")
            grant = provider.code_grant(came, verifier=kept["verifier"], back=back)
            secret = self._sign_in.client_secret
            if secret is not None:
                grant["client_secret"] = secret
            return provider.ask("token", **grant)

        return await self._caller(await self._asked(exchange), kept["nonce"])

    def tokens(self) -> Tokens:
        """Checks the tokens of the issuer.

        Raises:
            Problem: 404, people do not sign in at one.
        """
        if self._bearer.tokens is None or not self.has_issuer:
            raise Problem(404, "no-path", "Not Found", "people sign in by a key here")
        return self._bearer.tokens

    def _provider(self) -> LoginProvider:
        tokens = self.tokens()
        return LoginProvider.discover(
            tokens.issuer.issuer,
            client_id=self._client_id,
            scope=self._sign_in.scope,
            tls=tokens.tls,
        )

    async def _asked(self, ask: Callable[[], _T]) -> _T:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, ask)
        except ProviderAwayError as error:
            raise Problem(
                503,
                "issuer-away",
                "The issuer cannot be reached",
                "it does not answer at the moment: try again later",
            ) from error
        except LoginError as error:
            raise refused(str(error)) from error

    async def _caller(self, given: Mapping[str, Any], nonce: str) -> Caller:
        access, id_token = given.get("access_token"), given.get("id_token")
        if not isinstance(access, str) or not isinstance(id_token, str):
            raise refused("the issuer has not sent both an access and an ID token")
        claims = await self.tokens().claims_of_id(id_token, self._client_id)
        if claims.get("nonce") != nonce:
            raise refused("the ID token is not for this sign-in")
        caller = await self.tokens().caller_of(access)
        if claims["sub"] != caller.subject:
            raise refused("the tokens are of different people")
        return caller

    def count(self, request: Request) -> None:
        """Apply the rate limit to an attempt.

        Raises:
            Problem: 429.
        """
        address = network_of(request.client.host) if request.client else ""
        if wait := self._rates.take(address):
            raise too_many("there were too many sign-ins: try again later", wait)

    def known_by_key(self, key: str) -> tuple[Caller, Mapping[str, Any]]:
        """The caller of a key, and the value that the session keeps: a hash of the key.

        Raises:
            Problem: 401, there is no such key.
        """
        kept = kept_of(key)
        return self._bearer.keys.caller_of_kept(kept), {"key": kept}

    def known_at_issuer(self, caller: Caller) -> Mapping[str, Any]:
        """The values that a session keeps of a caller who signed in at the issuer."""
        return {"issuer": self._issuer, **_CALLER.dump_python(caller, mode="json")}

    def caller_of(self, signed_in: Mapping[str, Any] | None) -> Caller:
        """The caller who has signed in.

        Args:
            signed_in: The values that the session keeps.

        Raises:
            Problem: 401, nobody has signed in, or the access was taken away.
        """
        if signed_in is None:
            raise signed_out()
        if "key" in signed_in:
            try:
                return self._bearer.keys.caller_of_kept(signed_in["key"])
            except Problem:
                raise signed_out() from None
        if signed_in["issuer"] != self._issuer:
            raise signed_out()
        return _CALLER.validate_python(signed_in)

    @property
    def _issuer(self) -> list[str] | None:
        issuer = self._bearer.issuer
        return None if issuer is None else [issuer.issuer, issuer.audience]


SIGNED_OUT = "signed-out"


def signed_out() -> Problem:
    """The error for a caller who has to sign in first."""
    return Problem(401, SIGNED_OUT, "Not signed in", "sign in to see this")


BACK = "/login/callback"
"""The path to which an issuer sends a browser back."""

_BEGUN = "go_scheduler-login"
_PURPOSE = "login"
_TAKES = timedelta(minutes=10)
_MOST_BEGUN = 4


async def show(visit: PageRequest, methods: LoginMethods) -> Response:
    """The page where somebody signs in."""
    if comes_from_elsewhere(visit.request):
        # No session comes with such a request, and a new one would replace it.
        return visit.onward()
    return await _show(visit, methods, visit.query.get("next", "/"))


async def by_key(visit: PageRequest, methods: LoginMethods) -> Response:
    """Sign in by an API key."""
    request, here = visit.request, visit.here
    check_own_page(request)
    methods.count(request)
    form = await read_form(request)
    session = await here.sessions.of(request)
    check_token(request, form, await here.sessions.token(session))
    to = form.get("next", "/")
    try:
        caller, signed_in = methods.known_by_key(form.get("key", "").strip())
    except Problem as problem:
        here.audit.refused(request, problem.status, problem.detail)
        return await _show(visit, methods, to, "There is no such key.")
    response = visit.send_to(visit.outside(path_to_return_to(to)))
    await _let_in(visit, response, caller, signed_in)
    return response


async def begin(visit: PageRequest, methods: LoginMethods) -> Response:
    """Redirect to the issuer."""
    request, here = visit.request, visit.here
    methods.tokens()
    methods.count(request)
    url, kept = await methods.begin(_back(visit))
    until = here.clock.now() + _TAKES
    to = path_to_return_to(visit.query.get("next", "/"))
    cookies = await here.sessions.cookies()
    value = cookies.encrypt(_PURPOSE, {**kept, "next": to}, until)
    response = RedirectResponse(url, 303)
    # Each tab has its own. Browsers send no strict cookie with a request that another
    # site leads to.
    name = _begun(kept["state"])
    set_cookie(request, response, name, value, same_site="lax", lasts=_TAKES)
    for each in kept_under(request, _BEGUN)[: 1 - _MOST_BEGUN]:
        delete_cookie(request, response, f"{_BEGUN}-{each}")
    return response


async def end(visit: PageRequest, methods: LoginMethods) -> Response:
    """Sign in a browser that comes back from the issuer."""
    request, here = visit.request, visit.here
    methods.tokens()
    methods.count(request)
    cookies = await here.sessions.cookies()
    name = _begun(visit.query.get("state", ""))
    kept = cookies.decrypt(_PURPOSE, cookie_of(request, name), here.clock.now())
    if kept is None:
        return await _not_begun(visit, methods)
    try:
        caller = await methods.end(visit.query, kept, _back(visit))
    except Problem as problem:
        here.audit.refused(request, problem.status, problem.detail)
        raise
    # Browsers send a strict cookie only with requests that our own page leads to.
    response = visit.onward(kept["next"])
    delete_cookie(request, response, name)
    await _let_in(visit, response, caller, methods.known_at_issuer(caller))
    return response


async def sign_out(visit: PageRequest, methods: LoginMethods) -> Response:
    """End a session."""
    request, sessions = visit.request, visit.here.sessions
    check_own_page(request)
    session = await sessions.of(request)
    caller = methods.caller_of(session.signed_in)
    token = await sessions.token(session, caller.subject)
    check_token(request, await read_form(request), token)
    response = visit.go("/login")
    sessions.end(session, request, response)
    return response


def _route(
    path: str,
    answer: Callable[[PageRequest, LoginMethods], Awaitable[Response]],
    method: str = "GET",
) -> Route:
    async def endpoint(request: Request) -> Response:
        visit = PageRequest(request)
        methods = visit.here.login_methods
        if methods is None:
            raise Problem(404, "no-path", "Not Found", "nobody has to sign in here")
        return await answer(visit, methods)

    return Route(path, endpoint, methods=[method])


ROUTES = [
    _route("/login", show),
    _route("/login", by_key, "POST"),
    _route("/login/issuer", begin),
    _route(BACK, end),
    _route("/logout", sign_out, "POST"),
]


async def _show(
    visit: PageRequest, methods: LoginMethods, to: str, wrong: str = ""
) -> Response:
    sessions = visit.here.sessions
    session = visit.session = await sessions.of(visit.request)
    visit.token = await sessions.token(session)
    response = visit.show(
        "login.html",
        status=401 if wrong else 200,
        next=path_to_return_to(to),
        takes_keys=methods.takes_keys,
        has_issuer=methods.has_issuer,
        wrong=wrong,
    )
    if session.is_new:
        await sessions.keep(session, visit.request, response)
    return response


async def _not_begun(visit: PageRequest, methods: LoginMethods) -> Response:
    """Answer a sign-in that has expired, or that this browser never began."""
    if comes_from_elsewhere(visit.request):
        # No session comes with such a request.
        return visit.onward()
    session = await visit.here.sessions.of(visit.request)
    try:
        methods.caller_of(session.signed_in)
    except Problem:
        raise refused("it took too long, or began in another browser") from None
    return visit.go("/")


def _begun(state: str) -> str:
    """The name of the cookie of a sign-in that has begun."""
    return f"{_BEGUN}-{hashlib.sha256(state.encode()).hexdigest()[:8]}"


async def _let_in(
    visit: PageRequest, response: Response, caller: Caller, signed_in: Mapping[str, Any]
) -> None:
    """Begin a new session for a caller, in place of the one they had."""
    here, request = visit.here, visit.request
    await here.sessions.keep(here.sessions.begin(signed_in), request, response)
    request.state.caller = caller
    here.audit.answered(request, response.status_code)


def _back(visit: PageRequest) -> str:
    return origin_of(visit.request) + visit.link(BACK)


def path_to_return_to(given: str) -> str:
    """The given path if it is within the dashboard; else ``/``."""
    is_path = given.startswith("/") and given.isascii() and given.isprintable()
    if not is_path or given.startswith("//") or "\\" in given:
        return "/"
    return given
