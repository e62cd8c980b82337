"""What goes wrong, as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request

from go_scheduler.dashboard.signing_in.doors import SIGNED_OUT
from go_scheduler.dashboard.visit import Visit
from go_scheduler.http.problems import Problem, Unexpected, of_error

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Scope

_CHANGED = ("/definitions/", "/instances/")


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


class UnexpectedPage(Unexpected):
    """Likewise of what nobody expected."""

    def answer(self, scope: Scope, problem: Problem) -> Response:
        """The page that says so."""
        return _page(Request(scope), problem)
