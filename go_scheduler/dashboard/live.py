"""Server-sent events: pages are told that something has changed, and ask for it anew.

What has changed is not in the event: each viewer is shown what they may see.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from go_scheduler.client.awaitable import on_thread
from go_scheduler.errors import StoreError
from go_scheduler.http.problems import RETRY_AFTER, Problem

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Callable,
        Hashable,
        Mapping,
    )

    from go_scheduler.client import Client

_LOOKED_AT = 200
_COUNTED = 1_000
CHANGED = "event: changed\ndata: {}\n\n"
_BEGIN = "retry: 3000\n\n"
_BEAT = ": still here\n\n"


def of_instances(client: Client) -> Hashable:
    """What is different when something has run, failed, or come to wait."""
    failed = client.list_ended("failed", limit=1)
    return (
        tuple(client.counts_up_to(_COUNTED).items()),
        tuple((each.queue, each.due) for each in client.backlog(_COUNTED)),
        tuple((each.id, each.completed_at) for each in failed),
        tuple(
            (each.id, each.attempt, each.state)
            for each in client.list_claims(limit=_LOOKED_AT)
        ),
    )


def of_nodes(client: Client) -> Hashable:
    """What is different when a node has come, gone, or is about to."""
    nodes = client.nodes()
    return tuple((each.id, each.alive, each.stopping) for each in nodes)


KINDS: Mapping[str, Callable[[Client], Hashable]] = {
    "instances": of_instances,
    "nodes": of_nodes,
}
"""What is looked at for each kind of page."""


class Live:
    """Tells viewers of changes; of each kind one reader looks, while anybody views.

    Args:
        client: What is looked at.
        every: How many seconds there are between two looks.
        lasts: For how many seconds a stream goes on; browsers then ask again, and are
            let in again.
        most: The most viewers at once.
    """

    def __init__(
        self,
        client: Client,
        *,
        every: float = 2,
        lasts: float = 30,
        most: int = 200,
    ) -> None:
        self._client = client
        self._stopping = asyncio.Event()
        self._every = every
        self._lasts = lasts
        self._most = most
        self._readers: dict[str, _Reader] = {}

    @property
    def viewers(self) -> int:
        """How many there are."""
        return sum(each.viewers for each in self._readers.values())

    def stop(self) -> None:
        """End all streams, and begin no others."""
        self._stopping.set()

    def stream(self, kind: str) -> AsyncGenerator[str]:
        """The events for one viewer, as they are sent.

        Args:
            kind: Of ``KINDS``.

        Raises:
            Problem: 404, there is no such kind; 503, there are too many viewers.
        """
        if kind not in KINDS:
            raise Problem(404, "not-found", "Not Found", "nothing is told of this")
        if self.viewers >= self._most or self._stopping.is_set():
            raise Problem(
                503,
                "too-many-viewers",
                "Too many viewers",
                "reload the page to see what has changed",
                headers=RETRY_AFTER,
            )
        return self._events(kind)

    async def _events(self, kind: str) -> AsyncGenerator[str]:
        if kind not in self._readers:
            self._readers[kind] = _Reader(self._client, KINDS[kind], self._every)
        reader = self._readers[kind]
        stopping = asyncio.create_task(self._stopping.wait())
        reader.enter()
        try:
            yield _BEGIN
            with suppress(TimeoutError):
                async with asyncio.timeout(self._lasts):
                    async for event in _until(stopping, reader):
                        yield event
            # Only what is sent shows that a browser has gone.
            yield _BEAT
        finally:
            stopping.cancel()
            if reader.leave():
                self._readers.pop(kind, None)


async def _until(stopping: asyncio.Task[object], reader: _Reader) -> AsyncIterator[str]:
    """An event for each change, until the streams are to end."""
    seen = reader.changes
    while not stopping.done():
        changed = asyncio.create_task(reader.after(seen))
        try:
            await asyncio.wait({stopping, changed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
        if not stopping.done():
            seen = reader.changes
            yield CHANGED.format(seen)


class _Reader:
    """Looks for changes of one kind, for all who view it.

    Args:
        client: What is looked at.
        look: What is different when something has changed.
        every: How many seconds there are between two looks.
    """

    def __init__(
        self, client: Client, look: Callable[[Client], Hashable], every: float
    ) -> None:
        self._client = client
        self._look = look
        self._every = every
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self.viewers = 0
        self.changes = 0

    def enter(self) -> None:
        """One more views it; the first begins it."""
        self.viewers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._read())

    def leave(self) -> bool:
        """One less views it; whether that was the last, which ends it."""
        self.viewers -= 1
        if self.viewers or self._task is None:
            return False
        self._task.cancel()
        return True

    async def after(self, seen: int) -> None:
        """Wait for a change that is later than so many."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.changes > seen)

    async def _read(self) -> None:
        last: Hashable = None
        while True:
            # While the store is away pages stay as they are.
            with suppress(StoreError):
                found = await on_thread(self._look, self._client)
                if last not in (None, found):
                    async with self._changed:
                        self.changes += 1
                        self._changed.notify_all()
                last = found
            await asyncio.sleep(self._every)
