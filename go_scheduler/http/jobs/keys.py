"""Keys whose jobs are being written: by one request at a time."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Set


class Keys:
    """Has requests that write jobs of the same keys follow one another."""

    def __init__(self) -> None:
        self._held: set[tuple[str, str]] = set()
        self._let_go = asyncio.Event()

    @asynccontextmanager
    async def held(self, keys: Set[tuple[str, str]]) -> AsyncIterator[None]:
        """Have these, all at once, as soon as nobody else has any of them.

        Args:
            keys: Each with its type.
        """
        while not self._held.isdisjoint(keys):
            await self._let_go.wait()
        self._held |= keys
        try:
            yield
        finally:
            self._held -= keys
            self._let_go.set()
            self._let_go = asyncio.Event()
