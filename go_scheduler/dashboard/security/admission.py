"""Admission: who sent a request to a page, and whether anything is shown to them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from starlette.requests import Request

from go_scheduler.http.access.caller import SCOPES, Caller
from go_scheduler.http.access.guard import ANYBODY
from go_scheduler.http.access.loopback import check_here
from go_scheduler.http.problems import Problem

if TYPE_CHECKING:
    from go_scheduler.http.access.guard import Access

Authorize: TypeAlias = Callable[[Request], Caller | Awaitable[Caller | None] | None]
"""Tells whose request it is: a caller, or None for somebody who may see nothing."""

_ANYBODY = Caller(subject=ANYBODY, scopes=frozenset(SCOPES))


class Admission:
    """Finds out who calls.

    Args:
        access: Tells it, as for the HTTP API.
        authorize: Tells it, where the dashboard is mounted.
    """

    def __init__(self, access: Access | None, authorize: Authorize | None) -> None:
        self._authorize = authorize

    async def caller_of(self, request: Request) -> Caller:
        """Who sent a request.

        Raises:
            Problem: They may see nothing, or it is not known who it is.
        """
        if self._authorize is None:
            check_here(request)
            return _ANYBODY
        found = self._authorize(request)
        caller = await found if inspect.isawaitable(found) else found
        if caller is None:
            raise Problem(403, "not-allowed", "Not allowed", "this is not shown to you")
        return caller
