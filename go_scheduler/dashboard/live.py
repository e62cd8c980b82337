"""Server-sent events: pages learn that something has changed, and reload it.

An event does not say what has changed. Each viewer reloads what they may see.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.client.store_access import on_thread
from go_scheduler.errors import StoreError
from go_scheduler.http.problems import RETRY_AFTER, Problem
from go_scheduler.models import Outcome

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Hashable, Mapping

    from go_scheduler.client import Client
    from go_scheduler.http.access.caller import Caller

_LOOKED_AT = 200
_COUNTED = 1_000
_WAITING = 50
CHANGED = "event: changed\ndata: {}\n\n"
_BEGIN = "retry: 3000\n\n"
_BEAT = ": still here\n\n"


class Restriction(NamedTuple):
    """Filters the changes that a viewer learns of.

    Attributes:
        queues: Only of these queues; None: of all.
        owners: Only of these owners; None: of all.
    """

    queues: frozenset[str] | None = None
    owners: frozenset[str] | None = None

    @classmethod
    def of(cls, caller: Caller) -> Restriction:
        """The filter of a caller."""
        given = (caller.queues, caller.owners)
        return cls(*(None if each is None else frozenset(each) for each in given))


UNRESTRICTED = Restriction()
"""The filter of viewers who may see everything."""


def of_instances(client: Client, restriction: Restriction) -> Hashable:
    """A value that differs when an instance ran, failed, or came to wait."""
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
    """The same for a restricted viewer, without the changes of others."""
    of = restriction._asdict()
    ended = (client.list_ended(each, **of, limit=1) for each in Outcome)
    waiting = client.list_waiting(**of, limit=_WAITING)
    claims = client.list_claims(**of, limit=_LOOKED_AT)
    return (
        tuple((each.id, each.completed_at) for page in ended for each in page),
        tuple((each.id, each.due_at) for each in waiting),
        tuple((each.id, each.attempt, each.state) for each in claims),
    )


def of_nodes(client: Client, restriction: Restriction) -> Hashable:
    """A value that differs when a node has come, gone, or begun to stop."""
    nodes = client.nodes()
    return tuple((each.id, each.alive, each.stopping) for each in nodes)


KINDS: Mapping[str, Callable[[Client, Restriction], Hashable]] = {
    "instances": of_instances,
    "nodes": of_nodes,
}
"""What is polled for each kind of page."""


class Live:
    """Tells viewers of changes. For each kind one reader polls while anybody views.

    Each restriction has readers of its own. The more readers there are, the longer each
    waits, so that the store is polled no more often.

    Args:
        client: The client to poll.
        every: Seconds between two polls.
        lasts: Seconds until a stream ends. The browser then connects, and is
            authenticated, again.
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
        self._stopping = False
        self._every = every
        self._lasts = lasts
        self._most = most
        self._readers: dict[tuple[str, Restriction], _Reader] = {}

    @property
    def viewers(self) -> int:
        """The number of viewers."""
        return sum(each.viewers for each in self._readers.values())

    def stop(self) -> None:
        """End all streams, and refuse new ones."""
        self._stopping = True
        for each in self._readers.values():
            each.changed.set()

    def stream(
        self, kind: str, restriction: Restriction = UNRESTRICTED
    ) -> AsyncGenerator[str]:
        """The events for one viewer, as they are sent.

        Args:
            kind: One of ``KINDS``.
            restriction: Filters the changes.

        Raises:
            Problem: 404, there is no such kind; 503, there are too many viewers.
        """
        if kind not in KINDS:
            raise Problem(404, "not-found", "Not Found", "there is no such event")
        if self.viewers >= self._most or self._stopping:
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
        reader = self._readers.get((kind, restriction))
        if reader is None:
            look = partial(KINDS[kind], self._client, restriction)
            reader = self._readers[kind, restriction] = _Reader(look, self._pause)
        reader.viewers += 1
        try:
            changed = reader.changed
            yield _BEGIN
            with suppress(TimeoutError):
                async with asyncio.timeout(self._lasts):
                    while not self._stopping:
                        await changed.wait()
                        if not self._stopping:
                            changed = reader.changed
                            yield CHANGED.format(reader.changes)
            # Only sending shows that a browser has gone.
            yield _BEAT
        finally:
            reader.viewers -= 1
            if not reader.viewers:
                reader.task.cancel()
                self._readers.pop((kind, restriction), None)


class _Reader:
    """Polls for changes of one kind, for all of its viewers.

    Args:
        look: Reads a value that differs when something has changed.
        pause: Seconds between two polls.

    Attributes:
        changed: Is set at the next change; the change after that has another one.
    """

    def __init__(
        self, look: Callable[[], Hashable], pause: Callable[[], float]
    ) -> None:
        self._look = look
        self._pause = pause
        self.changed = asyncio.Event()
        self.viewers = 0
        self.changes = 0
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        last: Hashable = None
        while True:
            # While the store is away, pages stay as they are.
            with suppress(StoreError):
                found = await on_thread(self._look)
                if last not in (None, found):
                    self.changes += 1
                    self.changed.set()
                    self.changed = asyncio.Event()
                last = found
            await asyncio.sleep(self._pause())
