"""What each route asks first: who calls, and whether they may."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from fastapi import Depends, Request

from go_scheduler.http.access.caller import SCOPES, Caller
from go_scheduler.http.access.loopback import check_local

ANYBODY = "anybody"
"""The subject of callers where there is no authentication."""


class Access(Protocol):
    """Tells who calls."""

    async def authenticate(self, request: Request) -> Caller:
        """Who sent a request.

        It is asked before anything of the body is read.

        Raises:
            Problem: 401, it is not known; 403, nobody may.
        """
        ...


class OpenAccess:
    """Without authentication: lets everybody on this machine do everything.

    Args:
        origins: Sites whose pages a browser on this machine may have ask as well, such
            as ``http://localhost:3000``.
    """

    def __init__(self, origins: Collection[str] = ()) -> None:
        self._origins = frozenset(origins)
        self._anybody = Caller(subject=ANYBODY, scopes=frozenset(SCOPES))

    async def authenticate(self, request: Request) -> Caller:
        """One who may do everything.

        Raises:
            Problem: 403 or 415, it may come from elsewhere.
        """
        check_local(request, self._origins)
        return self._anybody


def allowed(*scopes: str) -> Any:
    """What a route depends on to know its caller, who has these scopes.

    ```python
    async def read(caller: Annotated[Caller, allowed("jobs:read")]) -> None:
    ```
    """

    async def check(request: Request) -> Caller:
        request.state.needed = scopes
        caller: Caller = request.state.caller
        caller.check_scopes(*scopes)
        return caller

    return Depends(check)
