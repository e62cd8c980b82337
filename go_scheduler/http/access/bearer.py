"""Access by API keys and by the tokens of an OIDC issuer."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from go_scheduler.checks import check_name
from go_scheduler.clock import SystemClock
from go_scheduler.errors import ConfigurationError
from go_scheduler.http.access.caller import Caller, check_scopes, granted
from go_scheduler.http.access.issuer import Tokens
from go_scheduler.http.access.refusals import (
    bad_request,
    bad_token,
    checked_origins,
    without_token,
)
from go_scheduler.triggers.base import utc

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Sequence

    from fastapi import Request

    from go_scheduler.clock import Clock
    from go_scheduler.events.event_bus import Teller
    from go_scheduler.http.access.issuer import OidcIssuer


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


def is_key(token: str) -> bool:
    """Whether a token begins like an API key, with ``gs_``."""
    return token.startswith("gs_")


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
                f"hash of the key of {self.subject} must be what new_key() has"
                " made: eight characters, a colon, and 64; not the key itself"
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
            raise bad_request("there is more than one Authorization")
        scheme, _, token = "".join(given).partition(" ")
        if scheme.lower() != "bearer":
            raise without_token()
        token = token.strip(" ")
        if not _TOKEN.fullmatch(token):
            raise bad_request("what follows Bearer is neither a token nor a key")
        if is_key(token):
            return self.keys.caller_of(token)
        if self.tokens is None:
            raise bad_token("only API keys are taken here")
        return await self.tokens.caller_of(token)
