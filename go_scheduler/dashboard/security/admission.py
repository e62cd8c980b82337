"""Admission: who sent a request to a page, and whether anything is shown to them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from starlette.requests import Request

from go_scheduler.http.access.caller import SCOPES, Caller
from go_scheduler.http.access.guard import ANYBODY, OpenAccess
from go_scheduler.http.access.loopback import check_here
from go_scheduler.http.problems import Problem

if TYPE_CHECKING:
    from go_scheduler.dashboard.security.sessions import Session
    from go_scheduler.dashboard.signing_in.doors import Doors
    from go_scheduler.http.access.guard import Access

Authorize: TypeAlias = Callable[[Request], Caller | Awaitable[Caller | None] | None]
"""Tells whose request it is: a caller, or None for somebody who may see nothing."""

_ANYBODY = Caller(subject=ANYBODY, scopes=frozenset(SCOPES))


class Admission:
    """Finds out who calls.

    Args:
        access: Tells it, as for the HTTP API.
        authorize: Tells it, where the dashboard is mounted.
        doors: Let people in; None: nobody signs in here.
    """

    def __init__(
        self,
        access: Access | None,
        authorize: Authorize | None,
        doors: Doors | None,
    ) -> None:
        self._access = access
        self._authorize = authorize
        self.doors = doors

    async def caller_of(self, request: Request, session: Session) -> Caller:
        """Who sent a request.

        Raises:
            Problem: 401, they have to sign in; 403, they may see nothing.
        """
        if self._authorize is not None:
            found = self._authorize(request)
            caller = await found if inspect.isawaitable(found) else found
            if caller is None:
                raise Problem(
                    403, "not-allowed", "Not allowed", "nothing of this is for you"
                )
            if not isinstance(caller, Caller):
                raise TypeError(
                    "authorize must answer a Caller or None, not a value of type"
                    f" {type(caller).__name__}"
                )
            return caller
        if self.doors is not None:
            return self.doors.caller_of(session.signed_in)
        if self._access is None or isinstance(self._access, OpenAccess):
            check_here(request)
            return _ANYBODY
        return await self._access.authenticate(request)
