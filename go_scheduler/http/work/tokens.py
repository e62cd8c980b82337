"""Tokens: what a worker shows to say that a run is its own, and how they are signed."""

from __future__ import annotations

import asyncio
import binascii
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.http.problems import Problem
from go_scheduler.stores.messages import Claim

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from uuid import UUID

    from go_scheduler.http.access.caller import Caller
    from go_scheduler.scheduler import Scheduler

SETTING = "http.work_tokens"
"""Under which name the store keeps the key."""

_ATTEMPT = 8
_MAC = 32
_LONGEST_TOKEN = 2000


class Signed(NamedTuple):
    """What a token says.

    Attributes:
        attempt: Of the run.
        queue: In which its instance was when it was handed out.
    """

    attempt: int
    queue: str


class Tokens:
    """Makes tokens, and reads those that were made with the same key.

    A token holds for one attempt of one instance, and for the caller it was made for.

    Args:
        key: Shared by all servers of a store.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def make(self, instance_id: UUID, subject: str, signed: Signed) -> str:
        """The token of a run.

        Args:
            instance_id: Of what.
            subject: Who runs it.
            signed: What it says.
        """
        says = signed.attempt.to_bytes(_ATTEMPT) + signed.queue.encode()
        return urlsafe_b64encode(self._mac(instance_id, subject, says) + says).decode()

    def read(self, token: str, instance_id: UUID, subject: str) -> Signed:
        """What a token says.

        Raises:
            Problem: 403, it was not made here, or for another run or caller.
        """
        decoded = _decoded(token)
        mac, says = decoded[:_MAC], decoded[_MAC:]
        if not hmac.compare_digest(mac, self._mac(instance_id, subject, says)):
            raise Problem(
                403,
                "work-token",
                "Not allowed",
                "the token is not that of this instance, or was given to another"
                " caller: pass it on as it came with the work",
            )
        return Signed(int.from_bytes(says[:_ATTEMPT]), says[_ATTEMPT:].decode())

    def _mac(self, instance_id: UUID, subject: str, says: bytes) -> bytes:
        # The one part whose length may vary comes last, behind the length of the other.
        length = len(says).to_bytes(_ATTEMPT)
        text = instance_id.bytes + length + says + subject.encode()
        return hmac.digest(self._key, text, "sha256")


def _decoded(token: str) -> bytes:
    """The bytes of a token; none, if it is no token."""
    try:
        return urlsafe_b64decode(token[:_LONGEST_TOKEN].encode())
    except (binascii.Error, UnicodeEncodeError):
        return b""


class Signing:
    """Reads the key once, as all servers of the store share it.

    Args:
        scheduler: That of the store.
        threads: Where it is read.
    """

    def __init__(self, scheduler: Scheduler, threads: Executor) -> None:
        self._scheduler = scheduler
        self._threads = threads
        self._tokens: Tokens | None = None

    async def tokens(self) -> Tokens:
        """What makes tokens.

        Raises:
            StoreError: The key is not known yet, and the store is away.
        """
        if self._tokens is None:
            loop = asyncio.get_running_loop()
            self._tokens = await loop.run_in_executor(self._threads, self._read_key)
        return self._tokens

    async def claim(self, instance_id: UUID, token: str, caller: Caller) -> Claim:
        """What a token claims.

        Raises:
            Problem: 403, it is not theirs, or they may not work any more.
            StoreError: As ``tokens``.
        """
        tokens = await self.tokens()
        signed = tokens.read(token, instance_id, caller.subject)
        caller.check_work(signed.queue)
        return Claim(instance_id=instance_id, attempt=signed.attempt)

    def _read_key(self) -> Tokens:
        store = self._scheduler._ready()
        return Tokens(bytes.fromhex(store.keep_setting(SETTING, secrets.token_hex(32))))
