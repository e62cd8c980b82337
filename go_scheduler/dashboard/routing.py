"""Routes of pages, and what each asks first.

```python
ROUTES = [
    page("/definitions/{id:uuid}", definition),
    change("/definitions/{id:uuid}/pause", pause, needs="jobs:pause"),
]
```
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from starlette.responses import Response
from starlette.routing import Route

from go_scheduler.client.awaitable import on_thread
from go_scheduler.dashboard.security.forms import check_token, read_form
from go_scheduler.dashboard.security.place import (
    check_own_page,
    comes_from_elsewhere,
)
from go_scheduler.dashboard.visit import Visit
from go_scheduler.http.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request

    from go_scheduler.dashboard.context import Context

Answer: TypeAlias = Callable[[Visit], Awaitable[Response]]
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
            return Visit(request).onward()
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


async def _admitted(request: Request, *needs: str) -> Visit:
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
    return Visit(request, caller, session, token)


async def _answered(visit: Visit, answer: Answer) -> Response:
    response = await answer(visit)
    if visit.session is not None and visit.session.is_new:
        await visit.here.sessions.keep(visit.session, visit.request, response)
    return response
