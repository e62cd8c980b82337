"""A seal: what browsers keep for the dashboard, and can neither read nor change."""

from __future__ import annotations

import hmac
import json
import secrets
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Any

from cryptography.fernet import Fernet, InvalidToken

from go_scheduler.client.awaitable import on_thread

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from go_scheduler.client import Client

SETTING = "dashboard.sessions"
"""Under which name the store keeps the key, which all servers share."""


class Seal:
    """Seals values, and opens what was sealed with the same key.

    Args:
        key: 32 random bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._fernet = Fernet(urlsafe_b64encode(key))

    @classmethod
    async def of(cls, client: Client) -> Seal:
        """That of a client's store."""

        def read() -> Seal:
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
