"""What each route asks first: who calls, and whether they may."""

# Without `from __future__ import annotations`: older versions of FastAPI cannot look up
# the annotations of an object that is called, if they are texts.

from collections.abc import Collection
from typing import Any, Protocol

from fastapi import Request, Security
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase

from go_scheduler.http.access.caller import SCOPES, Caller
from go_scheduler.http.access.loopback import check_local
from go_scheduler.http.access.origins import checked_origins

ANYBODY = "anybody"
"""The subject of callers where there is no authentication."""


class Access(Protocol):
    """Tells who calls."""

    @property
    def origins(self) -> Collection[str]:
        """Sites whose pages may call from a browser."""
        ...

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
        self.origins = checked_origins(origins)
        self._anybody = Caller(subject=ANYBODY, scopes=frozenset(SCOPES))

    async def authenticate(self, request: Request) -> Caller:
        """One who may do everything.

        Raises:
            Problem: 403 or 415, it may come from elsewhere.
        """
        check_local(request, self.origins)
        return self._anybody


def allowed(*scopes: str) -> Any:
    """What a route depends on to know its caller, who has these scopes.

    ```python
    async def read(caller: Annotated[Caller, allowed("jobs:read")]) -> None:
    ```
    """
    return Security(Allowed(scopes), scopes=list(scopes))


class Allowed(SecurityBase):
    """Lets callers by who have these scopes, and describes that.

    Args:
        scopes: All that it takes.
    """

    def __init__(self, scopes: tuple[str, ...]) -> None:
        self.scopes = scopes
        self.scheme_name = "token"
        self.model = HTTPBearer(
            description="An API key, or a token of the issuer; none is needed on the"
            " server's own machine where there is no authentication."
        )

    async def __call__(self, request: Request) -> Caller:
        """The caller of a request.

        Raises:
            Problem: 403, something is missing.
        """
        request.state.needed = self.scopes
        caller: Caller = request.state.caller
        caller.check_scopes(*self.scopes)
        return caller
