"""Server-sent events: pages are told that something has changed, and ask for it anew.

What has changed is not in the event: each viewer is shown what they may see.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from go_scheduler.client.awaitable import on_thread
from go_scheduler.errors import StoreError
from go_scheduler.http.problems import RETRY_AFTER, Problem
from go_scheduler.models import Outcome

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Callable,
        Hashable,
        Mapping,
    )

    from go_scheduler.client import Client
    from go_scheduler.http.access.caller import Caller

_LOOKED_AT = 200
_COUNTED = 1_000
_WAITING = 50
CHANGED = "event: changed\ndata: {}\n\n"
_BEGIN = "retry: 3000\n\n"
_BEAT = ": still here\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restriction:
    """Whose changes a viewer is told of.

    Attributes:
        queues: Those of these queues; None: of all.
        owners: Those of these owners; None: of all.
    """

    queues: frozenset[str] | None = None
    owners: frozenset[str] | None = None

    @classmethod
    def of(cls, caller: Caller) -> Restriction:
        """What a caller may know of."""
        queues, owners = (
            None if each is None else frozenset(each)
            for each in (caller.queues, caller.owners)
        )
        return cls(queues=queues, owners=owners)


UNRESTRICTED = Restriction()
"""What those see who are not restricted."""


def of_instances(client: Client, restriction: Restriction) -> Hashable:
    """What is different when something has run, failed, or come to wait."""
    if restriction != UNRESTRICTED:
        return _of_theirs(client, restriction)
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


def _of_theirs(client: Client, restriction: Restriction) -> Hashable:
    """The same of what is theirs alone: of others' nobody is told that it changes."""
    of: Any = {"queues": restriction.queues, "owners": restriction.owners}
    ended = (client.list_ended(each, **of, limit=1) for each in Outcome)
    waiting = client.list_waiting(**of, limit=_WAITING)
    claims = client.list_claims(**of, limit=_LOOKED_AT)
    return (
        tuple((each.id, each.completed_at) for page in ended for each in page),
        tuple((each.id, each.due_at) for each in waiting),
        tuple((each.id, each.attempt, each.state) for each in claims),
    )


def of_nodes(client: Client, restriction: Restriction) -> Hashable:
    """What is different when a node has come, gone, or is about to."""
    nodes = client.nodes()
    return tuple((each.id, each.alive, each.stopping) for each in nodes)


KINDS: Mapping[str, Callable[[Client, Restriction], Hashable]] = {
    "instances": of_instances,
    "nodes": of_nodes,
}
"""What is looked at for each kind of page."""


class Live:
    """Tells viewers of changes; of each kind one reader looks, while anybody views.

    Each restriction has readers of its own; the more there are, the longer they wait,
    so that the store is asked no more often.

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
        self._readers: dict[tuple[str, Restriction], _Reader] = {}

    @property
    def viewers(self) -> int:
        """How many there are."""
        return sum(each.viewers for each in self._readers.values())

    def stop(self) -> None:
        """End all streams, and begin no others."""
        self._stopping.set()

    def stream(
        self, kind: str, restriction: Restriction = UNRESTRICTED
    ) -> AsyncGenerator[str]:
        """The events for one viewer, as they are sent.

        Args:
            kind: Of ``KINDS``.
            restriction: What they may know of.

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
        return self._events(kind, restriction)

    def _pause(self) -> float:
        restricted = sum(
            restriction != UNRESTRICTED for _, restriction in self._readers
        )
        return self._every * max(1, restricted)

    async def _events(self, kind: str, restriction: Restriction) -> AsyncGenerator[str]:
        if (kind, restriction) not in self._readers:
            look = partial(KINDS[kind], self._client, restriction)
            self._readers[kind, restriction] = _Reader(look, self._pause)
        reader = self._readers[kind, restriction]
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
                self._readers.pop((kind, restriction), None)


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
        look: What is different when something has changed.
        pause: How many seconds there are between two looks.
    """

    def __init__(
        self, look: Callable[[], Hashable], pause: Callable[[], float]
    ) -> None:
        self._look = look
        self._pause = pause
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
                found = await on_thread(self._look)
                if last not in (None, found):
                    async with self._changed:
                        self.changes += 1
                        self._changed.notify_all()
                last = found
            await asyncio.sleep(self._pause())
