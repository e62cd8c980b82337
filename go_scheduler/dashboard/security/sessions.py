"""Sessions: by what a browser is known again, kept by itself in a sealed cookie."""

from __future__ import annotations

import re
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from go_scheduler.dashboard.security.place import origin_of
from go_scheduler.dashboard.security.seal import Seal

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from go_scheduler.client import Client
    from go_scheduler.clock import Clock

LASTS = timedelta(hours=8)
"""How long somebody is signed in who does not sign out."""

_PORT = re.compile(r":([0-9]{1,5})$")
_PURPOSE = "session"
_MOST_ENDED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """By what a browser is known again.

    Attributes:
        id: Random, and another one whenever somebody signs in.
        signed_in: What is known of whoever has signed in; None: nobody has.
        is_new: Whether the browser is still to be told of it.
    """

    id: str
    signed_in: Mapping[str, Any] | None = field(default=None, repr=False)
    is_new: bool = False


class Sessions:
    """Makes sessions, finds those of requests, and ends them.

    Args:
        client: Whose store has the key by which they are sealed.
        clock: Tells when they end.
        lasts: How long each does.
    """

    def __init__(
        self, client: Client, clock: Clock, *, lasts: timedelta = LASTS
    ) -> None:
        self._client = client
        self._clock = clock
        self._lasts = lasts
        self._seal: Seal | None = None
        self._ended: OrderedDict[str, None] = OrderedDict()

    async def seal(self) -> Seal:
        """By what they are sealed.

        Raises:
            StoreError: The key cannot be had.
        """
        if self._seal is None:
            self._seal = await Seal.of(self._client)
        return self._seal

    async def of(self, request: Request) -> Session:
        """That of a request; a new one, if it has none."""
        sealed = request.cookies.get(_name(request), "")
        found = (await self.seal()).open(_PURPOSE, sealed, self._clock.now())
        if found is None or found["id"] in self._ended:
            return self.begin()
        return Session(**found)

    def begin(self, signed_in: Mapping[str, Any] | None = None) -> Session:
        """A new one, of whoever has signed in, or of nobody."""
        return Session(
            id=secrets.token_urlsafe(16),
            signed_in=signed_in,
            is_new=True,
        )

    async def keep(
        self, session: Session, request: Request, response: Response
    ) -> None:
        """Have the browser keep it."""
        values = {"id": session.id, "signed_in": session.signed_in}
        until = self._clock.now() + self._lasts
        sealed = (await self.seal()).close(_PURPOSE, values, until)
        _set_cookie(request, response, sealed)

    def end(self, session: Session, request: Request, response: Response) -> None:
        """Have the browser forget it, and take it no more in this process."""
        self._ended[session.id] = None
        if len(self._ended) > _MOST_ENDED:
            self._ended.popitem(last=False)
        _set_cookie(request, response, "", max_age=0)


def set_cookie(
    request: Request, response: Response, name: str, value: str, **options: Any
) -> None:
    """Have a browser keep a value for the dashboard, which no script can read."""
    is_safe = origin_of(request).startswith("https:")
    response.set_cookie(name, value, path="/", secure=is_safe, httponly=True, **options)


def cookie_name(request: Request, name: str) -> str:
    """What a cookie is called: one that no other host can have set, if that is so."""
    origin = origin_of(request)
    if origin.startswith("https:"):
        return f"__Host-{name}"
    # Ports of this machine have their cookies in common.
    port = _PORT.search(origin)
    return f"{name}-{port[1]}" if port else name


def _name(request: Request) -> str:
    return cookie_name(request, "go_scheduler")


def _set_cookie(
    request: Request, response: Response, value: str, *, max_age: int | None = None
) -> None:
    set_cookie(
        request,
        response,
        _name(request),
        value,
        samesite="strict",
        max_age=max_age,
    )
