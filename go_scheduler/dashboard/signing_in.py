"""Signing in and out: by an API key, or at an OIDC issuer."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from go_scheduler.checks import check_at_least, check_name
from go_scheduler.dashboard.request import PageRequest
from go_scheduler.dashboard.sessions import (
    check_own_page,
    check_token,
    comes_from_elsewhere,
    cookie_of,
    forget,
    keep,
    kept_under,
    origin_of,
    read_form,
)
from go_scheduler.http.access.authentication import kept_of
from go_scheduler.http.access.caller import Caller
from go_scheduler.http.access.login import (
    LoginError,
    LoginProvider,
    ProviderAwayError,
    plain,
)
from go_scheduler.http.limits import Rate, Rates, network_of, too_many
from go_scheduler.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fastapi import Request

    from go_scheduler.clock import Clock
    from go_scheduler.dashboard.request import Context
    from go_scheduler.http.access.authentication import BearerAccess
    from go_scheduler.http.access.issuer import OidcIssuer, Tokens

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


_T = TypeVar("_T")

_THREADS = 4


class CodeFlow:
    """The OIDC authorization code flow, with PKCE.

    Args:
        issuer: The issuer.
        tokens: Checks its tokens.
        sign_in: The settings of the dashboard at the issuer.
        client_id: The client id of the dashboard at the issuer.
    """

    def __init__(
        self, issuer: OidcIssuer, tokens: Tokens, *, sign_in: SignIn, client_id: str
    ) -> None:
        self._tokens = tokens
        self._client_id = client_id
        self._secret = sign_in.client_secret
        self._discover = partial(
            LoginProvider.discover,
            issuer.issuer,
            client_id=client_id,
            scope=sign_in.scope,
            tls=tokens.tls,
        )
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
            lambda: self._discover().authorization_url(back, **kept)
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
        if not secrets.compare_digest(
            came.get("state", "").encode(), kept["state"].encode()
        ):
            raise refused("this is no answer to the request to the issuer")
        provider = await self._asked(self._discover)
        if not provider.has_sent(came):
            raise refused("the issuer did not send this")
        if "code" not in came:
            said = plain(came.get("error_description")) or plain(came.get("error"))
            raise refused(f"the issuer refuses: {said or 'it has sent no code'}")
        secret = {} if self._secret is None else {"client_secret": self._secret}
        given = await self._asked(
            partial(
                provider.ask,
                "token",
                grant_type="authorization_code",
                code=came["code"],
                redirect_uri=back,
                code_verifier=kept["verifier"],
                **secret,
            )
        )
        return await self._caller(given, kept["nonce"])

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
        claims = await self._tokens.claims_of_id(id_token, self._client_id)
        if claims.get("nonce") != nonce:
            raise refused("the ID token is not for this sign-in")
        caller = await self._tokens.caller_of(access)
        if claims["sub"] != caller.subject:
            raise refused("the tokens are of different people")
        return caller


def refused(detail: str) -> Problem:
    """The error of a sign-in that has failed."""
    return Problem(400, "sign-in", "Nobody was signed in", f"{detail}: sign in again")


_RATE = Rate(per_second=5, burst=20)


class LoginMethods:
    """Signs people in by an API key, or at the issuer.

    Args:
        bearer: Has the keys and the issuer.
        sign_in: The settings of the dashboard.
        clock: For the rate limit of sign-ins.
    """

    def __init__(self, bearer: BearerAccess, sign_in: SignIn, clock: Clock) -> None:
        self._bearer = bearer
        self._rates = Rates(_RATE, clock)
        self.takes_keys = bool(bearer.keys)
        issuer, tokens = bearer.issuer, bearer.tokens
        client_id = sign_in.client_id or (issuer and issuer.client_id)
        self.code_flow: CodeFlow | None = None
        if issuer is not None and tokens is not None and client_id:
            self.code_flow = CodeFlow(
                issuer, tokens, sign_in=sign_in, client_id=client_id
            )

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
        return {
            "issuer": self._issuer,
            "subject": caller.subject,
            "scopes": sorted(caller.scopes),
            "queues": None if caller.queues is None else sorted(caller.queues),
            "owners": None if caller.owners is None else sorted(caller.owners),
        }

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
        queues, owners = signed_in["queues"], signed_in["owners"]
        return Caller(
            subject=signed_in["subject"],
            scopes=frozenset(signed_in["scopes"]),
            queues=None if queues is None else frozenset(queues),
            owners=None if owners is None else frozenset(owners),
        )

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


async def show(request: Request) -> Response:
    """The page where somebody signs in."""
    _login_methods(request)
    if comes_from_elsewhere(request):
        # No session comes with such a request, and a new one would replace it.
        return PageRequest(request).onward()
    return await _show(request, request.query_params.get("next", "/"))


async def by_key(request: Request) -> Response:
    """Sign in by an API key."""
    login_methods, here = _login_methods(request), _here(request)
    check_own_page(request)
    login_methods.count(request)
    form = await read_form(request)
    session = await here.sessions.of(request)
    check_token(request, form, await here.sessions.token(session))
    try:
        caller, signed_in = login_methods.known_by_key(form.get("key", "").strip())
    except Problem as problem:
        here.audit.refused(request, problem.status, problem.detail)
        return await _show(request, form.get("next", "/"), "There is no such key.")
    visit = PageRequest(request)
    to = path_to_return_to(form.get("next", "/"))
    response = visit.send_to(visit.outside(to))
    await _let_in(request, response, caller, signed_in)
    return response


async def begin(request: Request) -> Response:
    """Redirect to the issuer."""
    here, flow = _here(request), _code_flow(request)
    _login_methods(request).count(request)
    url, kept = await flow.begin(_back(request))
    until = here.clock.now() + _TAKES
    to = path_to_return_to(request.query_params.get("next", "/"))
    cookies = await here.sessions.cookies()
    value = cookies.encrypt(_PURPOSE, {**kept, "next": to}, until)
    response = RedirectResponse(url, 303)
    # Each tab has its own. Browsers send no strict cookie with a request that another
    # site leads to.
    name = _begun(kept["state"])
    keep(request, response, name, value, same_site="lax", lasts=_TAKES)
    for each in kept_under(request, _BEGUN)[: 1 - _MOST_BEGUN]:
        forget(request, response, f"{_BEGUN}-{each}")
    return response


async def end(request: Request) -> Response:
    """Sign in a browser that comes back from the issuer."""
    login_methods, here = _login_methods(request), _here(request)
    flow = _code_flow(request)
    login_methods.count(request)
    cookies = await here.sessions.cookies()
    name = _begun(request.query_params.get("state", ""))
    kept = cookies.decrypt(_PURPOSE, cookie_of(request, name), here.clock.now())
    if kept is None:
        return await _not_begun(request)
    try:
        caller = await flow.end(request.query_params, kept, _back(request))
    except Problem as problem:
        here.audit.refused(request, problem.status, problem.detail)
        raise
    # Browsers send a strict cookie only with requests that our own page leads to.
    response = PageRequest(request).onward(kept["next"])
    forget(request, response, name)
    await _let_in(request, response, caller, login_methods.known_at_issuer(caller))
    return response


async def sign_out(request: Request) -> Response:
    """End a session."""
    login_methods, here = _login_methods(request), _here(request)
    check_own_page(request)
    session = await here.sessions.of(request)
    caller = login_methods.caller_of(session.signed_in)
    token = await here.sessions.token(session, caller.subject)
    check_token(request, await read_form(request), token)
    response = PageRequest(request).go("/login")
    here.sessions.end(session, request, response)
    return response


ROUTES = [
    Route("/login", show, methods=["GET"]),
    Route("/login", by_key, methods=["POST"]),
    Route("/login/issuer", begin, methods=["GET"]),
    Route(BACK, end, methods=["GET"]),
    Route("/logout", sign_out, methods=["POST"]),
]


async def _show(request: Request, to: str, wrong: str = "") -> Response:
    here, login_methods = _here(request), _login_methods(request)
    session = await here.sessions.of(request)
    token = await here.sessions.token(session)
    visit = PageRequest(request, session=session, token=token)
    response = visit.show(
        "login.html",
        status=401 if wrong else 200,
        next=path_to_return_to(to),
        takes_keys=login_methods.takes_keys,
        has_issuer=login_methods.code_flow is not None,
        wrong=wrong,
    )
    if session.is_new:
        await here.sessions.keep(session, request, response)
    return response


async def _not_begun(request: Request) -> Response:
    """Answer a sign-in that has expired, or that this browser never began."""
    if comes_from_elsewhere(request):
        # No session comes with such a request.
        return PageRequest(request).onward()
    session = await _here(request).sessions.of(request)
    try:
        _login_methods(request).caller_of(session.signed_in)
    except Problem:
        raise refused("it took too long, or began in another browser") from None
    return PageRequest(request).go("/")


def _begun(state: str) -> str:
    """The name of the cookie of a sign-in that has begun."""
    return f"{_BEGUN}-{hashlib.sha256(state.encode()).hexdigest()[:8]}"


async def _let_in(
    request: Request, response: Response, caller: Caller, signed_in: Mapping[str, Any]
) -> None:
    """Begin a new session for a caller, in place of the one they had."""
    here = _here(request)
    await here.sessions.keep(here.sessions.begin(signed_in), request, response)
    request.state.caller = caller
    here.audit.answered(request, response.status_code)


def _here(request: Request) -> Context:
    here: Context = request.app.state.context
    return here


def _login_methods(request: Request) -> LoginMethods:
    login_methods = _here(request).login_methods
    if login_methods is None:
        raise Problem(404, "no-path", "Not Found", "nobody has to sign in here")
    return login_methods


def _code_flow(request: Request) -> CodeFlow:
    flow = _login_methods(request).code_flow
    if flow is None:
        raise Problem(404, "no-path", "Not Found", "people sign in by a key here")
    return flow


def _back(request: Request) -> str:
    return origin_of(request) + PageRequest(request).link(BACK)


def path_to_return_to(given: str) -> str:
    """The given path if it is within the dashboard; else ``/``."""
    is_path = given.startswith("/") and given.isascii() and given.isprintable()
    if not is_path or given.startswith("//") or "\\" in given:
        return "/"
    return given
