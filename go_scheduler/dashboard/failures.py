"""What goes wrong, as a page."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from uuid import uuid4

from starlette.requests import Request

from go_scheduler.dashboard.signing_in.doors import SIGNED_OUT
from go_scheduler.dashboard.visit import Visit
from go_scheduler.http.problems import Problem, of_error

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_CHANGED = ("/definitions/", "/instances/")
_LOG = logging.getLogger("go_scheduler.dashboard")


async def answer_failure(request: Request, error: Exception) -> Response:
    """The page that says what is wrong."""
    return _page(request, of_error(request, error))


def _page(request: Request, problem: Problem) -> Response:
    shown = Visit(request)
    if problem.slug == SIGNED_OUT and not shown.is_stream:
        asked = shown.path if request.method == "GET" and not shown.is_partial else None
        return shown.go("/login", next=asked)
    page = ""
    if request.method == "POST" and shown.path.startswith(_CHANGED):
        # The last part is which of the page's forms was sent.
        page = shown.path.rpartition("/")[0]
    response = shown.show(
        "error.html", status=problem.status, problem=problem, page=page
    )
    response.headers.update(problem.headers or {})
    return response


class Unexpected:
    """Answers what nobody expected, and has the log tell of it once.

    Args:
        app: What may raise it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        started = False

        async def note(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, note)
        except Exception:
            # What has begun to be answered can only be broken off, by the server.
            if started or scope["type"] != "http":
                raise
            id = uuid4()
            _LOG.exception("a page failed, and showed the id %s", id)
            problem = Problem(
                500,
                "unexpected",
                "Something unexpected happened",
                f"the server's log says more of it, by the id {id}",
            )
            await _page(Request(scope), problem)(scope, receive, send)
