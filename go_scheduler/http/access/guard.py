"""What each route asks first: who calls, and whether they may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from fastapi import Depends, Request

from go_scheduler.http.access.caller import SCOPES, Caller

if TYPE_CHECKING:
    from go_scheduler.http.context import Context


class Access(Protocol):
    """Tells who calls."""

    async def authenticate(self, request: Request) -> Caller:
        """Who sent a request.

        Raises:
            Problem: 401, it is not known; 403, nobody may.
        """
        ...


class OpenAccess:
    """Lets everybody do everything."""

    async def authenticate(self, request: Request) -> Caller:
        """One who may do everything."""
        return Caller(subject="anybody", scopes=frozenset(SCOPES))


def allowed(*scopes: str) -> Any:
    """What a route depends on to know its caller, who has these scopes.

    ```python
    async def read(caller: Annotated[Caller, allowed("jobs:read")]) -> None:
    ```
    """

    async def check(request: Request) -> Caller:
        context: Context = request.app.state.context
        caller = await context.access.authenticate(request)
        caller.check_scopes(*scopes)
        return caller

    return Depends(check)
