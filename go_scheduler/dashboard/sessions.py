"""Sessions of browsers, in encrypted cookies, and the forms that they may send."""

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
from urllib.parse import parse_qsl, urlsplit

from cryptography.fernet import Fernet, InvalidToken
from starlette.datastructures import ImmutableMultiDict

from go_scheduler.client.store_access import on_thread
from go_scheduler.http.access.loopback import is_loopback
from go_scheduler.http.problems import Problem, not_allowed

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from fastapi import Request
    from starlette.responses import Response

    from go_scheduler.client import Client
    from go_scheduler.clock import Clock
    from go_scheduler.dashboard.request import Context

SETTING = "dashboard.sessions"
"""The setting of the store with the key, which all servers share."""


class SignedCookies:
    """Encrypts values, and decrypts what the same key has encrypted.

    Args:
        key: 32 random bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._fernet = Fernet(urlsafe_b64encode(key))

    def encrypt(
        self, purpose: str, values: Mapping[str, object], until: datetime
    ) -> str:
        """Encrypt values.

        Args:
            purpose: The only purpose for which they can be decrypted.
            values: JSON values.
            until: When they expire.
        """
        said = json.dumps([purpose, until.timestamp(), values]).encode()
        # The token has no time of its own: ``until`` counts, by our clock.
        return self._fernet.encrypt_at_time(said, 0).decode()

    def decrypt(self, purpose: str, text: str, now: datetime) -> dict[str, Any] | None:
        """Decrypt values; None: they are forged, expired, or for another purpose."""
        try:
            said = json.loads(self._fernet.decrypt(text.encode()))
        except (InvalidToken, UnicodeEncodeError):
            return None
        its_purpose, until, values = said
        is_good = its_purpose == purpose and now.timestamp() < until
        return values if is_good else None

    def sign(self, *texts: str) -> str:
        """A signature (HMAC) of some texts."""
        text = json.dumps(texts).encode()
        return hmac.new(self._key, text, "sha256").hexdigest()


_PORT = re.compile(r":([0-9]{1,5})$")


def cookie_of(request: Request, name: str) -> str:
    """The value of a cookie; empty if the browser has none."""
    return request.cookies.get(_name(name, request), "")


def kept_under(request: Request, name: str) -> list[str]:
    """The endings of the names of cookies that begin with a name."""
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
    """Set a cookie.

    Args:
        request: A request of the browser.
        response: The answer that sets it.
        name: The name of the cookie.
        value: The value.
        same_site: Whether a link of another site sends it along.
        lasts: For how long; None: until the browser is closed.
    """
    response.set_cookie(
        _name(name, request),
        value,
        max_age=None if lasts is None else int(lasts.total_seconds()),
        path="/",
        secure=_is_secure(request),
        httponly=True,
        samesite=same_site,
    )


def forget(request: Request, response: Response, name: str) -> None:
    """Delete a cookie."""
    is_secure = _is_secure(request)
    response.delete_cookie(_name(name, request), secure=is_secure, httponly=True)


def _is_secure(request: Request) -> bool:
    return origin_of(request).startswith("https:")


def _name(name: str, request: Request) -> str:
    """The full name of a cookie. By https no other host can set one of that name."""
    if root := request.scope.get("root_path", ""):
        # Another dashboard on this host needs cookies of other names.
        name = f"{name}-{hashlib.sha256(root.encode()).hexdigest()[:8]}"
    if _is_secure(request):
        return f"__Host-{name}"
    # All ports of this machine share their cookies.
    port = _PORT.search(origin_of(request))
    return f"{name}-{port[1]}" if port else name


_COOKIE = "go_scheduler"
_PURPOSE = "session"
_MOST_CHARACTERS = 3500
_MOST_ENDED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The session of a browser.

    Attributes:
        id: Random; another one whenever somebody signs in.
        signed_in: Who has signed in; None: nobody has.
        is_new: Whether the cookie is still to be set.
    """

    id: str
    signed_in: Mapping[str, Any] | None = field(default=None, repr=False)
    is_new: bool = False


class Sessions:
    """Makes sessions, reads them from cookies, and ends them.

    Args:
        client: Its store has the key of the cookies.
        clock: Tells when sessions expire.
        lasts: How long a session lasts.
    """

    def __init__(self, client: Client, clock: Clock, *, lasts: timedelta) -> None:
        self._client = client
        self._clock = clock
        self._lasts = lasts
        self._cookies: SignedCookies | None = None
        self._ended: OrderedDict[str, None] = OrderedDict()

    async def cookies(self) -> SignedCookies:
        """What encrypts the cookies.

        Raises:
            StoreError: The key cannot be read.
        """
        if self._cookies is None:
            key = await on_thread(self._key)
            self._cookies = SignedCookies(bytes.fromhex(key))
        return self._cookies

    def _key(self) -> str:
        """The key that the store keeps for all servers; at first a new one."""
        return self._client._ready().keep_setting(SETTING, secrets.token_hex(32))

    async def token(self, session: Session, subject: str = "") -> str:
        """The CSRF token of a session and its user."""
        return (await self.cookies()).sign("token", session.id, subject)

    async def of(self, request: Request) -> Session:
        """The session of a request; a new one if it has none."""
        value = cookie_of(request, _COOKIE)
        found = (await self.cookies()).decrypt(_PURPOSE, value, self._clock.now())
        if found is None or found["id"] in self._ended:
            return self.begin()
        return Session(**found)

    def begin(self, signed_in: Mapping[str, Any] | None = None) -> Session:
        """A new session; None: nobody has signed in."""
        return Session(
            id=secrets.token_urlsafe(16),
            signed_in=signed_in,
            is_new=True,
        )

    async def keep(
        self, session: Session, request: Request, response: Response
    ) -> None:
        """Set the cookie of a session.

        Raises:
            Problem: 400, it is too large for a cookie.
        """
        values = {"id": session.id, "signed_in": session.signed_in}
        until = self._clock.now() + self._lasts
        value = (await self.cookies()).encrypt(_PURPOSE, values, until)
        if len(value) > _MOST_CHARACTERS:
            raise Problem(
                400,
                "session",
                "Nobody was signed in",
                "the queues and owners that the issuer has sent are too many for a"
                " cookie: have it send fewer, or use an API key",
            )
        keep(request, response, _COOKIE, value)

    def end(self, session: Session, request: Request, response: Response) -> None:
        """Delete the cookie of a session, and refuse it in this process from now on."""
        self._ended[session.id] = None
        if len(self._ended) > _MOST_ENDED:
            self._ended.popitem(last=False)
        forget(request, response, _COOKIE)


_MEDIA_TYPE = "application/x-www-form-urlencoded"
_MOST_BYTES = 256 * 1024
_MOST_FIELDS = 100

Form = ImmutableMultiDict[str, str]


async def read_form(request: Request) -> Form:
    """Read the fields of a form.

    Raises:
        Problem: 413, it is too large; 415 or 400, it is no form.
    """
    given = request.headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() != _MEDIA_TYPE:
        raise Problem(415, "media-type", "Unsupported media type", "this takes a form")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise Problem(
                413, "too-large", "Too large", f"a form has {_MOST_BYTES} bytes at most"
            )
    try:
        fields = parse_qsl(
            body.decode(),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError:
        raise Problem(
            400, "malformed", "Bad Request", "the form cannot be read"
        ) from None
    return ImmutableMultiDict(fields)


TOKEN = "csrf"
"""The field that has the token of the page."""

HEADER = "X-CSRF-Token"
"""The header that may have the token instead."""


def origin_of(request: Request) -> str:
    """The origin of the dashboard, as the browser that sends a request has it.

    Unless one is configured, it is the requested host, by https unless that is this
    machine.
    """
    here: Context = request.app.state.context
    if here.origin is not None:
        return here.origin
    # A proxy that ends TLS does not tell the server so. Nobody signs in without TLS.
    host = request.headers.get("host", "")
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        name = ""
    is_plain = request.scope["scheme"] == "http" and is_loopback(name)
    return f"{'http' if is_plain else 'https'}://{host}"


def check_own_page(request: Request) -> None:
    """Refuse a request that no page of the dashboard has sent.

    Raises:
        Problem: 403, another site has sent it, or the browser does not say which.
    """
    origin = origin_of(request)
    site = request.headers.get("sec-fetch-site")
    sent = request.headers.getlist("origin")
    if site is None:
        # Older browsers send at least the origin with each POST.
        is_own = [each.lower() for each in sent] == [origin.lower()]
    else:
        # The browser has compared the origins; a proxy may have changed the host.
        is_own = site == "same-origin"
    is_https = origin.startswith("https:")
    if not is_own and is_https and sent == [f"http:{origin.partition(':')[2]}"]:
        raise not_allowed(
            "plain-http",
            "changes and sign-ins are possible by https alone, or on the machine of the"
            " dashboard",
        )
    if not is_own:
        raise not_allowed(
            "foreign-page",
            f"it was not sent by a page of the dashboard at {origin}",
        )


def comes_from_elsewhere(request: Request) -> bool:
    """Whether a link of another site leads here: browsers send no strict cookie."""
    headers = request.headers
    return (
        headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
        and headers.get("sec-fetch-site") in ("cross-site", "same-site")
    )


def check_token(request: Request, form: Form, token: str) -> None:
    """Refuse a form that was made for another caller or another session.

    Raises:
        Problem: 403.
    """
    given = request.headers.get(HEADER) or form.get(TOKEN, "")
    if not secrets.compare_digest(given.encode(), token.encode()):
        raise Problem(
            403,
            "old-page",
            "This page is too old",
            "it was made for an earlier session: go back, reload it and try again",
        )
