"""API keys, which the configuration keeps as hashes."""

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
from go_scheduler.errors import ConfigurationError
from go_scheduler.http.access.caller import Caller, check_scopes, granted
from go_scheduler.http.access.refusals import bad_token
from go_scheduler.triggers.base import utc

if TYPE_CHECKING:
    from collections.abc import Iterable

    from go_scheduler.clock import Clock

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
