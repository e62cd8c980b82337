"""Sessions: by what a browser is known again, kept by itself in a sealed cookie."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from go_scheduler.dashboard.security.cookies import cookie_of, forget, keep
from go_scheduler.dashboard.security.seal import Seal
from go_scheduler.http.problems import Problem

if TYPE_CHECKING:
    from datetime import timedelta

    from starlette.requests import Request
    from starlette.responses import Response

    from go_scheduler.client import Client
    from go_scheduler.clock import Clock

_COOKIE = "go_scheduler"
_PURPOSE = "session"
_MOST_CHARACTERS = 3500
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

    def __init__(self, client: Client, clock: Clock, *, lasts: timedelta) -> None:
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

    async def token(self, session: Session, subject: str = "") -> str:
        """What pages have that are made for a session, and somebody in it."""
        return (await self.seal()).proof("token", session.id, subject)

    async def of(self, request: Request) -> Session:
        """That of a request; a new one, if it has none."""
        sealed = cookie_of(request, _COOKIE)
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
        """Have the browser keep it.

        Raises:
            Problem: 400, that is more than it can.
        """
        values = {"id": session.id, "signed_in": session.signed_in}
        until = self._clock.now() + self._lasts
        sealed = (await self.seal()).close(_PURPOSE, values, until)
        if len(sealed) > _MOST_CHARACTERS:
            raise Problem(
                400,
                "session",
                "Nobody was signed in",
                "what the issuer has said of queues and owners is more than a browser"
                " keeps: have it say less, or use an API key",
            )
        keep(request, response, _COOKIE, sealed)

    def end(self, session: Session, request: Request, response: Response) -> None:
        """Have the browser forget it, and take it no more in this process."""
        self._ended[session.id] = None
        if len(self._ended) > _MOST_ENDED:
            self._ended.popitem(last=False)
        forget(request, response, _COOKIE)
