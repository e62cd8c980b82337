"""API keys: for the small case, from the configuration, kept as hashes."""

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
    """A key that was just made.

    Attributes:
        key: What its owner sends; it is shown once, and kept nowhere.
        kept: What the configuration has of it, its ``hash``.
    """

    key: str = field(repr=False)
    kept: str


def new_key() -> NewKey:
    """Make a key: eight characters that find it, and 256 random bits."""
    prefix = secrets.token_hex(4)
    key = f"gs_{prefix}_{secrets.token_urlsafe(32)}"
    return NewKey(key=key, kept=f"{prefix}:{_digest(key)}")


def is_key(token: str) -> bool:
    """Whether a token is an API key, by its looks: it begins with ``gs_``."""
    return token.startswith("gs_")


def kept_of(token: str) -> str:
    """What the configuration has of a key; empty, if it is none."""
    match = _KEY.fullmatch(token)
    return "" if match is None else f"{match[1]}:{_digest(token)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """What one key may do.

    Args:
        subject: Who has it, for the log.
        hash: The ``kept`` of ``new_key()``.
        scopes: What it may do.
        queues: The queues that it may know of; None: any.
        owners: The owners of definitions that it may know of; None: any.
        expires_at: From when on it is not taken; None: it is taken until it is removed.

    Raises:
        ConfigurationError: One of these is no such thing.
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
    """Knows callers by their keys.

    Args:
        keys: All that there are.
        clock: Tells whether one has expired.

    Raises:
        ConfigurationError: Two begin alike.
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
        """Whether there are any."""
        return bool(self._keys)

    def caller_of(self, token: str) -> Caller:
        """Whose key this is.

        Raises:
            Problem: 401, there is no such key, or it has expired.
        """
        return self.caller_of_kept(kept_of(token))

    def caller_of_kept(self, kept: str) -> Caller:
        """Whose key it is of which this is kept.

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
