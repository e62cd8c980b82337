"""Sessions: people are known again by a sealed cookie that their browser keeps."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from cryptography.fernet import Fernet, InvalidToken

from go_scheduler.client.awaitable import on_thread
from go_scheduler.http.problems import Problem

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from fastapi import Request
    from starlette.responses import Response

    from go_scheduler.client import Client
    from go_scheduler.clock import Clock
    from go_scheduler.dashboard.request import Context

SETTING = "dashboard.sessions"
"""Under which name the store keeps the key, which all servers share."""


class SignedCookies:
    """Seals values, and opens what was sealed with the same key.

    Args:
        key: 32 random bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._fernet = Fernet(urlsafe_b64encode(key))

    @classmethod
    async def of(cls, client: Client) -> SignedCookies:
        """That of a client's store."""

        def read() -> SignedCookies:
            store = client._ready()
            kept = store.keep_setting(SETTING, secrets.token_hex(32))
            return cls(bytes.fromhex(kept))

        return await on_thread(read)

    def close(self, purpose: str, values: Mapping[str, object], until: datetime) -> str:
        """Seal values.

        Args:
            purpose: What they are for; they are good for nothing else.
            values: Of JSON.
            until: When they are no longer good.
        """
        said = json.dumps([purpose, until.timestamp(), values]).encode()
        # When it was made is told by our clock, if by anything.
        return self._fernet.encrypt_at_time(said, 0).decode()

    def open(self, purpose: str, sealed: str, now: datetime) -> dict[str, Any] | None:
        """What was sealed; None: it was not, or for another purpose, or is too old."""
        try:
            said = json.loads(self._fernet.decrypt(sealed.encode()))
        except (InvalidToken, UnicodeEncodeError):
            return None
        its_purpose, until, values = said
        is_good = its_purpose == purpose and now.timestamp() < until
        return values if is_good else None

    def proof(self, *texts: str) -> str:
        """What nobody can know who has not the key, for these texts."""
        text = json.dumps(texts).encode()
        return hmac.new(self._key, text, "sha256").hexdigest()


_PORT = re.compile(r":([0-9]{1,5})$")


def cookie_of(request: Request, name: str) -> str:
    """What a browser keeps; empty, if it keeps nothing."""
    return request.cookies.get(_name(name, request), "")


def kept_under(request: Request, name: str) -> list[str]:
    """The ends of the names of what a browser keeps that has a name and an end."""
    pattern = _name(f"{name}-ENDING", request)
    pattern = re.escape(pattern).replace("ENDING", "([0-9a-f]{8})")
    found = (re.fullmatch(pattern, each) for each in request.cookies)
    return [each[1] for each in found if each]


def keep(
    request: Request,
    response: Response,
    name: str,
    value: str,
    *,
    same_site: Literal["strict", "lax"] = "strict",
    lasts: timedelta | None = None,
) -> None:
    """Have a browser keep a value.

    Args:
        request: Of the browser.
        response: What tells it.
        name: Of the cookie.
        value: What it keeps.
        same_site: Whether it is sent along only with what our own pages lead to.
        lasts: For how long; None: until it is closed.
    """
    origin = _origin(request)
    response.set_cookie(
        _name(name, request),
        value,
        max_age=None if lasts is None else int(lasts.total_seconds()),
        path="/",
        secure=_is_secure(origin),
        httponly=True,
        samesite=same_site,
    )


def forget(request: Request, response: Response, name: str) -> None:
    """Have a browser forget what it keeps."""
    is_secure = _is_secure(_origin(request))
    response.delete_cookie(_name(name, request), secure=is_secure, httponly=True)


def _origin(request: Request) -> str:
    here: Context = request.app.state.context
    return here.place.origin(request)


def _is_secure(origin: str) -> bool:
    return origin.startswith("https:")


def _name(name: str, request: Request) -> str:
    """What it is called: so that no other host can have set it, if that can be."""
    origin, root = _origin(request), request.scope.get("root_path", "")
    if root:
        # Another dashboard beside it has cookies of its own, of the same path.
        name = f"{name}-{hashlib.sha256(root.encode()).hexdigest()[:8]}"
    if _is_secure(origin):
        return f"__Host-{name}"
    # Ports of this machine have their cookies in common.
    port = _PORT.search(origin)
    return f"{name}-{port[1]}" if port else name


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
        self._seal: SignedCookies | None = None
        self._ended: OrderedDict[str, None] = OrderedDict()

    async def seal(self) -> SignedCookies:
        """By what they are sealed.

        Raises:
            StoreError: The key cannot be had.
        """
        if self._seal is None:
            self._seal = await SignedCookies.of(self._client)
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
