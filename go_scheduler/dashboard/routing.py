"""Routes of pages, and what each asks first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Route

from go_scheduler.dashboard.visit import Visit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from go_scheduler.dashboard.context import Context


def page(path: str, answer: Callable[[Visit], Awaitable[Response]]) -> Route:
    """The route of a page that shows something, to callers with ``jobs:read``.

    Args:
        path: Such as ``/definitions/{id:uuid}``.
        answer: What answers it.
    """

    async def endpoint(request: Request) -> Response:
        here: Context = request.app.state.context
        caller = await here.admission.caller_of(request)
        caller.check_scopes("jobs:read")
        return await answer(Visit(request, caller))

    return Route(path, endpoint, methods=["GET"])
