"""The key by which tokens are signed, and what the tokens of workers claim."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

from go_scheduler.http.work.tokens import SETTING, Tokens
from go_scheduler.stores.messages import Claim

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from uuid import UUID

    from go_scheduler.http.access.caller import Caller
    from go_scheduler.scheduler import Scheduler


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
