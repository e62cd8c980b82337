"""Readiness: whether the store answers, asked no more often than need be."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from go_scheduler.client import Client
    from go_scheduler.clock import Clock

_KEPT = timedelta(seconds=1)


class Readiness:
    """Asks the store whether it answers: once for all who ask within a second.

    Args:
        client: That of the store.
        clock: Measures time.
    """

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._asked_at = clock.elapsed()
        self._asking: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Return if it answers.

        Raises:
            StoreError: It does not, or did not within the last second.
        """
        asking = self._asking
        if asking is None or (asking.done() and self._age >= _KEPT):
            self._asked_at = self._clock.elapsed()
            asking = self._asking = asyncio.create_task(self._client.acheck())
        # Who does not wait for it any longer is one of many.
        await asyncio.shield(asking)

    @property
    def _age(self) -> timedelta:
        return self._clock.elapsed() - self._asked_at
