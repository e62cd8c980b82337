"""Authentication by API keys and tokens, authorization of routes, and the audit."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Protocol
from urllib.parse import quote

from fastapi import Request, Security
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase

from go_scheduler.checks import check_name
from go_scheduler.clock import ZERO, Clock, SystemClock
from go_scheduler.errors import ConfigurationError
from go_scheduler.events import RequestAllowed, RequestRefused
from go_scheduler.http.access.caller import (
    SCOPES,
    Caller,
    bad_credentials,
    bad_token,
    check_scopes,
    granted,
    without_token,
)
from go_scheduler.http.access.issuer import OidcIssuer, Tokens
from go_scheduler.http.access.loopback import check_local, checked_origins
from go_scheduler.http.limits import Rates, network_of, too_many, wrong_media_type
from go_scheduler.http.paths import path_within
from go_scheduler.http.problems import Problem
from go_scheduler.triggers.base import utc

if TYPE_CHECKING:
    import ssl

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from go_scheduler.client import Client
    from go_scheduler.events.event_bus import Teller
    from go_scheduler.http.context import Context

REFUSALS = (401, 403, 429)
"""The statuses of refusals."""

_SECOND = timedelta(seconds=1)
_LONGEST_PATH = 200


class Audit:
    """Emits an event for each request, without secrets.

    The log has a few refusals a second, and a count of the others, so that nobody can
    fill it. Listeners receive all events.

    Args:
        client: Has the listeners.
        clock: Measures time.
    """

    def __init__(self, client: Client, clock: Clock) -> None:
        self._clock = clock
        self._teller = client.teller("http")
        self._bounded = client.teller("http", bounded=True)
        self._begun = clock.elapsed()

    def answered(self, request: Request, status: int) -> None:
        """Emit the event of a request that was answered."""
        if status in REFUSALS:
            needed = " ".join(_told(request, status)["scopes"]) or "another caller"
            self.refused(request, status, f"it needs {needed}, or other restrictions")
        else:
            self._teller.tell(RequestAllowed(**_told(request, status)))

    def refused(self, request: Request, status: int, reason: str) -> None:
        """Emit the event of a request that was refused."""
        now = self._clock.elapsed()
        if now - self._begun >= _SECOND:
            self._begun = now
            self._bounded.begin()
        self._bounded.tell(RequestRefused(**_told(request, status), reason=reason))


def _told(request: Request, status: int) -> dict[str, Any]:
    caller = getattr(request.state, "caller", None)
    # Quoted, without line feeds: nobody may forge a line of the log.
    path = quote(request.scope["path"])[:_LONGEST_PATH]
    return {
        "subject": None if caller is None else caller.subject,
        "address": None if request.client is None else request.client.host,
        "method": request.method,
        "path": path,
        # Those that the route needs; none before a route was found.
        "scopes": getattr(request.state, "needed", ()),
        "status": status,
    }


ANYBODY = "anybody"
"""The subject of callers where there is no authentication."""


class Access(Protocol):
    """Authenticates callers."""

    @property
    def origins(self) -> Collection[str]:
        """Sites whose pages may call from a browser."""
        ...

    async def authenticate(self, request: Request) -> Caller:
        """Return the caller of a request, before its body is read.

        Raises:
            Problem: 401, the caller is unknown; 403, nobody may call.
        """
        ...


class OpenAccess:
    """No authentication: everybody on this machine may do everything.

    Args:
        origins: Sites whose pages may call from a browser on this machine, such as
            ``http://localhost:3000``.
    """

    def __init__(self, origins: Collection[str] = ()) -> None:
        self.origins = checked_origins(origins)
        self._anybody = Caller(subject=ANYBODY, scopes=frozenset(SCOPES))

    async def authenticate(self, request: Request) -> Caller:
        """Return a caller who may do everything.

        Raises:
            Problem: 403, the request may come from elsewhere.
        """
        check_local(request, self.origins)
        return self._anybody


_KEPT = re.compile(r"[0-9a-f]{8}:[0-9a-f]{64}")
_KEY = re.compile(r"gs_([0-9a-f]{8})_[\w-]{43}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A new key.

    Attributes:
        key: The key, which its owner sends. It is shown once, and kept nowhere.
        kept: The ``hash`` for the configuration.
    """

    key: str = field(repr=False)
    kept: str


def new_key() -> NewKey:
    """Make a key: a prefix of eight characters, and 256 random bits."""
    prefix = secrets.token_hex(4)
    key = f"gs_{prefix}_{secrets.token_urlsafe(32)}"
    return NewKey(key=key, kept=f"{prefix}:{_digest(key)}")


def kept_of(token: str) -> str:
    """The hash of a key in the configuration; empty if it is no key."""
    match = _KEY.fullmatch(token)
    return "" if match is None else f"{match[1]}:{_digest(token)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """The permissions of one API key.

    Args:
        subject: The name of its owner, for the log.
        hash: The ``kept`` of ``new_key()``.
        scopes: Its scopes.
        queues: The queues that its owner may see; None: any.
        owners: The owners of definitions that it may see; None: any.
        expires_at: The time from which it is refused; None: it does not expire.

    Raises:
        ConfigurationError: A value is wrong.
    """

    subject: str
    hash: str = field(repr=False)
    scopes: Collection[str]
    queues: Collection[str] | None = None
    owners: Collection[str] | None = None
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        check_name("subject", self.subject)
        if not _KEPT.fullmatch(self.hash):
            raise ConfigurationError(
                f"hash of the key of {self.subject} must be what `go_scheduler"
                " key` or new_key() has made: eight characters, a colon, and 64; not"
                " the key itself"
            )
        for name in ("scopes", "queues", "owners"):
            if isinstance(getattr(self, name), str):
                raise ConfigurationError(f"{name} of {self.subject} must be a list")
        check_scopes(f"scopes of {self.subject}", self.scopes)
        if self.expires_at is not None:
            utc(self.expires_at, name=f"expires_at of {self.subject}")


class ApiKeys:
    """Authenticates callers by API keys.

    Args:
        keys: All keys.
        clock: Tells the time, for keys that expire.

    Raises:
        ConfigurationError: Two keys have the same prefix.
    """

    def __init__(self, keys: Iterable[ApiKey], clock: Clock) -> None:
        self._clock = clock
        self._keys: dict[str, ApiKey] = {}
        for each in keys:
            prefix = each.hash.partition(":")[0]
            if prefix in self._keys:
                raise ConfigurationError(
                    f"the keys of {self._keys[prefix].subject} and {each.subject} both"
                    f" begin with gs_{prefix}: make one of them anew"
                )
            self._keys[prefix] = each

    def __bool__(self) -> bool:
        """Whether there is a key."""
        return bool(self._keys)

    def caller_of(self, token: str) -> Caller:
        """The caller with this key.

        Raises:
            Problem: 401, there is no such key, or it has expired.
        """
        return self.caller_of_kept(kept_of(token))

    def caller_of_kept(self, kept: str) -> Caller:
        """The caller with the key of this hash.

        Raises:
            Problem: 401, there is no such key, or it has expired.
        """
        known = self._keys.get(kept.partition(":")[0])
        if known is None or not hmac.compare_digest(known.hash, kept):
            raise bad_token("there is no such key")
        if known.expires_at is not None and known.expires_at <= self._clock.now():
            raise bad_token("the key has expired")
        return Caller(
            subject=known.subject,
            scopes=granted(known.scopes),
            queues=None if known.queues is None else frozenset(known.queues),
            owners=None if known.owners is None else frozenset(known.owners),
        )


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


_TOKEN = re.compile(r"[\w.~+/-]+=*", re.ASCII)


class BearerAccess:
    """Authenticates callers by ``Authorization: Bearer …``, and nothing else.

    Args:
        keys: The API keys.
        issuer: The issuer whose tokens are taken; None: only API keys are taken.
        clock: Tells the time; None: the system's.
        tls: The certificates to trust for the issuer; None: those of httpx.
        origins: Sites whose pages may call from a browser.

    Attributes:
        issuer: The issuer whose tokens are taken; None: only API keys are taken.
        keys: Authenticates by API keys.
        tokens: Authenticates by tokens; None: only API keys are taken.

    Raises:
        ConfigurationError: There is neither a key nor an issuer.
    """

    def __init__(
        self,
        *,
        keys: Sequence[ApiKey] = (),
        issuer: OidcIssuer | None = None,
        clock: Clock | None = None,
        tls: ssl.SSLContext | None = None,
        origins: Collection[str] = (),
    ) -> None:
        if not keys and issuer is None:
            raise ConfigurationError(
                "nobody could get in: give keys=, or an issuer=, or both"
            )
        clock = clock or SystemClock()
        self.issuer = issuer
        self.origins = checked_origins(origins)
        self.keys = ApiKeys(keys, clock)
        self.tokens = None if issuer is None else Tokens(issuer, clock, tls)

    def tell_by(self, teller: Teller) -> None:
        """Report with this that the issuer's keys cannot be fetched."""
        if self.tokens is not None:
            self.tokens.keys.tell_by(teller)

    async def authenticate(self, request: Request) -> Caller:
        """Return the caller by the key or token of a request.

        Raises:
            Problem: 400 or 401, without a valid key or token; 503, the issuer is away.
        """
        given = request.headers.getlist("authorization")
        if len(given) > 1:
            raise bad_credentials("there is more than one Authorization")
        scheme, _, token = "".join(given).partition(" ")
        if scheme.lower() != "bearer":
            raise without_token()
        token = token.strip(" ")
        if not _TOKEN.fullmatch(token):
            raise bad_credentials("what follows Bearer is neither a token nor a key")
        if token.startswith("gs_"):
            return self.keys.caller_of(token)
        if self.tokens is None:
            raise bad_token("only API keys are taken here")
        return await self.tokens.caller_of(token)


def allowed(*scopes: str) -> Any:
    """The dependency of a route that needs these scopes; it is the caller.

    ```python
    async def read(caller: Annotated[Caller, allowed("jobs:read")]) -> None:
    ```
    """
    return Security(Allowed(scopes), scopes=list(scopes))


class Allowed(SecurityBase):
    """Refuses callers without these scopes, and describes them in OpenAPI.

    Args:
        scopes: The needed scopes, all of them.
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
            Problem: 403, a scope is missing.
        """
        request.state.needed = self.scopes
        caller: Caller = request.state.caller
        caller.check_scopes(*self.scopes)
        return caller

    # Older versions of FastAPI cannot resolve annotations of callable objects that are
    # texts.
    __call__.__annotations__.update({"request": Request, "return": Caller})


JobReader = Annotated[Caller, allowed("jobs:read")]
JobWriter = Annotated[Caller, allowed("jobs:write")]
JobPauser = Annotated[Caller, allowed("jobs:pause")]
RunReader = Annotated[Caller, allowed("runs:read")]
RunWriter = Annotated[Caller, allowed("runs:write")]
Worker = Annotated[Caller, allowed("workers")]
Admin = Annotated[Caller, allowed("admin")]


METADATA = "/.well-known/oauth-protected-resource"
"""The path of the metadata about the issuer (RFC 9728)."""

OPEN_PATHS = frozenset({"/healthz", "/readyz", METADATA})
"""Paths that need no authentication."""

_POLICY = 1008
_NOBODY = Caller(subject="nobody", scopes=frozenset())


class Authentication:
    """Middleware that authenticates callers, and limits their rate.

    It runs before the body is read, also for paths that do not exist, and then refuses
    bodies of other media types. Routes find the caller in ``request.state.caller``.

    Args:
        app: Answers the requests.
        context: The context of the application.
    """

    def __init__(self, app: ASGIApp, context: Context) -> None:
        self._app = app
        self._access = context.access
        rate = context.limits.rate
        self._rates = None if rate is None else Rates(rate, context.clock)
        self._audit = Audit(context.client, context.clock)
        if isinstance(self._access, BearerAccess):
            self._access.tell_by(context.client.teller("http"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": _POLICY})
            return
        request = Request(scope)
        try:
            caller = await self._admit(request)
        except Problem as refusal:
            self._audit.refused(request, refusal.status, refusal.detail)
            await refusal.answer()(scope, receive, send)
            return
        request.state.caller = caller
        status = 500

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            if (problem := wrong_media_type(scope)) is not None:
                await problem.answer()(scope, receive, note)
            else:
                await self._app(scope, receive, note)
        finally:
            self._audit.answered(request, status)

    async def _admit(self, request: Request) -> Caller:
        """The caller of a request.

        Raises:
            Problem: The caller may not call, or calls too often.
        """
        if (
            isinstance(self._access, BearerAccess)
            and path_within(request.scope) in OPEN_PATHS
        ):
            return _NOBODY
        address = network_of(request.client.host) if request.client else ""
        try:
            caller = await self._access.authenticate(request)
        except Problem:
            self._count(f"address {address}")
            raise
        is_known = caller.subject != ANYBODY
        request.state.caller = caller  # For the event of a caller over the rate.
        self._count(f"subject {caller.subject}" if is_known else f"address {address}")
        return caller

    def _count(self, caller: str) -> None:
        wait = ZERO if self._rates is None else self._rates.take(caller)
        if wait > ZERO:
            raise too_many("too many requests of this caller: come again later", wait)
