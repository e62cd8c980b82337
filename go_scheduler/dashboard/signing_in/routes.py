"""The pages by which people sign in, and out."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from go_scheduler.dashboard.security.cookies import cookie_of, forget, keep, kept_under
from go_scheduler.dashboard.security.forms import check_token, read_form
from go_scheduler.dashboard.security.place import (
    check_own_page,
    comes_from_elsewhere,
    path_to_return_to,
)
from go_scheduler.dashboard.signing_in.code_flow import CodeFlow, refused
from go_scheduler.dashboard.visit import Visit
from go_scheduler.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from starlette.requests import Request

    from go_scheduler.dashboard.context import Context
    from go_scheduler.dashboard.signing_in.doors import Doors
    from go_scheduler.http.access.caller import Caller

BACK = "/login/callback"
"""Where an issuer sends a browser back to."""

_BEGUN = "go_scheduler-login"
_PURPOSE = "login"
_TAKES = timedelta(minutes=10)
_MOST = 4


async def show(request: Request) -> Response:
    """The page where somebody signs in."""
    _doors(request)
    if comes_from_elsewhere(request):
        # Here no session would be known, and a new one would take its place.
        return Visit(request).onward()
    return await _show(request, request.query_params.get("next", "/"))


async def by_key(request: Request) -> Response:
    """Sign in by an API key."""
    doors, here = _doors(request), _here(request)
    check_own_page(request, here.place.origin(request))
    doors.count(request)
    form = await read_form(request)
    session = await here.sessions.of(request)
    check_token(request, form, await here.sessions.token(session))
    try:
        caller, signed_in = doors.known_by_key(form.get("key", "").strip())
    except Problem as problem:
        here.audit.refused(request, problem.status, problem.detail)
        return await _show(request, form.get("next", "/"), "There is no such key.")
    visit = Visit(request)
    to = path_to_return_to(form.get("next", "/"))
    response = visit.send_to(visit.outside(to))
    await _let_in(request, response, caller, signed_in)
    return response


async def begin(request: Request) -> Response:
    """Send somebody to the issuer."""
    doors, here, flow = _doors(request), _here(request), _code_flow(request)
    doors.count(request)
    begun = await flow.begin(_back(request))
    until = here.clock.now() + _TAKES
    to = path_to_return_to(request.query_params.get("next", "/"))
    seal = await here.sessions.seal()
    sealed = seal.close(_PURPOSE, {**begun.kept, "next": to}, until)
    response = RedirectResponse(begun.url, 303)
    # Each tab has its own. What another site leads to is not sent along with a strict
    # one.
    name = _begun(begun.kept["state"])
    keep(request, response, name, sealed, same_site="lax", lasts=_TAKES)
    for each in kept_under(request, _BEGUN)[: 1 - _MOST]:
        forget(request, response, f"{_BEGUN}-{each}")
    return response


async def end(request: Request) -> Response:
    """Take somebody who comes back from the issuer."""
    doors, here, flow = _doors(request), _here(request), _code_flow(request)
    doors.count(request)
    seal = await here.sessions.seal()
    name = _begun(request.query_params.get("state", ""))
    kept = seal.open(_PURPOSE, cookie_of(request, name), here.clock.now())
    if kept is None:
        return await _not_begun(request)
    try:
        caller = await flow.end(request.query_params, kept, _back(request))
    except Problem as problem:
        here.audit.refused(request, problem.status, problem.detail)
        raise
    # A strict cookie is sent along only with what our own page leads to.
    response = Visit(request).onward(kept["next"])
    forget(request, response, name)
    await _let_in(request, response, caller, doors.known_at_issuer(caller))
    return response


async def sign_out(request: Request) -> Response:
    """End a session."""
    doors, here = _doors(request), _here(request)
    check_own_page(request, here.place.origin(request))
    session = await here.sessions.of(request)
    caller = doors.caller_of(session.signed_in)
    token = await here.sessions.token(session, caller.subject)
    check_token(request, await read_form(request), token)
    response = Visit(request).go("/login")
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
    here, doors = _here(request), _doors(request)
    session = await here.sessions.of(request)
    token = await here.sessions.token(session)
    visit = Visit(request, session=session, token=token)
    response = visit.show(
        "login.html",
        status=401 if wrong else 200,
        next=path_to_return_to(to),
        takes_keys=doors.takes_keys,
        has_issuer=doors.code_flow is not None,
        wrong=wrong,
    )
    if session.is_new:
        await here.sessions.keep(session, request, response)
    return response


async def _not_begun(request: Request) -> Response:
    """Answer what is over, as after going back in a browser, or never was."""
    if comes_from_elsewhere(request):
        # Here no session would be known.
        return Visit(request).onward()
    session = await _here(request).sessions.of(request)
    try:
        _doors(request).caller_of(session.signed_in)
    except Problem:
        raise refused("it took too long, or was begun in another browser") from None
    return Visit(request).go("/")


def _begun(state: str) -> str:
    """The name of what a browser keeps of a sign-in that has begun."""
    return f"{_BEGUN}-{hashlib.sha256(state.encode()).hexdigest()[:8]}"


async def _let_in(
    request: Request, response: Response, caller: Caller, signed_in: Mapping[str, Any]
) -> None:
    """Have somebody be known by a new session, whatever one they had."""
    here = _here(request)
    await here.sessions.keep(here.sessions.begin(signed_in), request, response)
    request.state.caller = caller
    here.audit.answered(request, response.status_code)


def _here(request: Request) -> Context:
    here: Context = request.app.state.context
    return here


def _doors(request: Request) -> Doors:
    doors = _here(request).admission.doors
    if doors is None:
        raise Problem(404, "no-path", "Not Found", "nobody has to sign in here")
    return doors


def _code_flow(request: Request) -> CodeFlow:
    flow = _doors(request).code_flow
    if flow is None:
        raise Problem(404, "no-path", "Not Found", "people sign in by a key here")
    return flow


def _back(request: Request) -> str:
    return _here(request).place.origin(request) + Visit(request).link(BACK)
