"""The Redis store: each method a script, which the server runs as one transaction."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.checks import check_positive
from go_scheduler.stores.base import CONTACTS_KEPT, STATS_KEPT, Store
from go_scheduler.stores.findings import answers
from go_scheduler.stores.redis.contacts import (
    read_contact,
    read_stats,
    write_announcement,
    write_stats,
)
from go_scheduler.stores.redis.definition_calls import Puts, RedisDefinitions
from go_scheduler.stores.redis.instance_calls import RedisAdditions, RedisInstances
from go_scheduler.stores.redis.listener import Listener
from go_scheduler.stores.redis.lists import RedisReads
from go_scheduler.stores.redis.rows import Reader, given_time, micros, time_text
from go_scheduler.stores.redis.server import (
    QUESTIONS,
    Server,
    check_version,
    parse,
    told,
    warn,
)
from go_scheduler.stores.rules import Turns, note_forgotten

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.clock import Clock
    from go_scheduler.models import QueueStats
    from go_scheduler.stores.findings import Finding
    from go_scheduler.stores.hints import Hints
    from go_scheduler.stores.messages import Announcement, NodeContact, Retention
    from go_scheduler.stores.redis.server import Question

_TIMEOUT = timedelta(seconds=5)


class RedisStore(
    RedisDefinitions,
    RedisAdditions,
    RedisInstances,
    RedisReads,
    Store,
):
    """Keeps everything in one Redis or Valkey, for processes on any machines.

    It takes Redis 6.2 or later. What is kept there survives a killed server, and a
    power failure, as its ``appendonly`` and ``appendfsync`` say: a node that starts
    warns where something may be lost. The store's time is that of the server.

    All keys of a store are in one hash slot: a cluster spreads stores, and not one
    store.

    Args:
        url: ``redis://user:password@host:6379/0``, ``rediss://…`` for TLS,
            ``redis+sentinel://host:26379,other:26379/name-of-master`` or
            ``redis+cluster://host:6379,other:6379``. ``?namespace=billing`` at its end
            says what ``namespace`` does.
        clock: Used instead of the server's time, for tests.
        namespace: What its keys begin with: stores of different ones know nothing of
            each other. None: what the URL says, or else ``go_scheduler``.
        timeout: How long an answer is waited for.

    Raises:
        ConfigurationError: The URL is not that of a Redis, or has another namespace
            than the argument, or the namespace cannot be part of a key.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        namespace: str | None = None,
        timeout: timedelta = _TIMEOUT,
    ) -> None:
        super().__init__(clock)
        check_positive("timeout", timeout)
        self._address = parse(url, namespace)
        # In braces: all its keys are in one hash slot.
        prefix = f"{{{self._address.namespace}}}:"
        self._server = Server(self._address, prefix, timeout)
        self._reader = Reader()
        self._puts = Puts(self._server, self._reader, self._now)
        self._turns = Turns()
        self._has_warned = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{self._address}')"

    def initialize(self) -> None:
        """Find the server, and refuse one that is too old."""
        check_version(self._server)
        self._server.run("now")

    def examine(self) -> Sequence[Finding]:
        """What is wrong with the server."""
        client = self._server.reached()

        def ask(question: Question) -> list[Finding]:
            with told():
                return list(question(client))

        return list(answers(QUESTIONS, ask))

    def connect(self) -> None:
        """Open a connection, and look how the server keeps what it is told."""
        self._server.run("now")
        if not self._has_warned:
            warn(self._server)
            self._has_warned = True

    def close(self) -> None:
        """Let go of all connections."""
        self._server.close()

    def hints(self) -> Hints:
        """What others publish."""
        server = self._server
        return Listener(server.listen, f"{server.prefix}hints", server.timeout)

    def now(self) -> datetime:
        """The time of the clock that was passed, else the server's."""
        if self.clock is not None:
            return self.clock.now()
        return given_time(self._server.run("now"))

    # Nodes.

    def note_contact(self, announced: Announcement, *, unbroken: timedelta) -> None:
        """Record that a node has been in contact with the store up to now."""
        self._server.run(
            "note_contact",
            now=self._now(),
            node=announced.node.hex,
            unbroken=micros(unbroken),
            announced=write_announcement(announced),
        )

    def list_contacts(self, *, within: timedelta) -> Sequence[NodeContact]:
        """Read when nodes were in contact with the store."""
        found = self._server.run(
            "list_contacts", now=self._now(), within=micros(within)
        )
        return [read_contact(node, text) for node, text in found]

    def note_stats(self, node: UUID, stats: Sequence[QueueStats]) -> None:
        """Keep what a node has counted."""
        written = [write_stats(each) for each in stats]
        self._server.run("note_stats", node=node.hex, stats=written)

    def list_stats(self, *, since: datetime, until: datetime) -> Sequence[QueueStats]:
        """Read what was counted."""
        found = self._server.run(
            "list_stats", since=time_text(since), until=time_text(until)
        )
        return [read_stats(*each) for each in found]

    def list_due_queues(self, *, apart_from: Collection[str]) -> Collection[str]:
        """Name queues in which something is due that nobody has claimed."""
        found: list[str] = self._server.run(
            "list_due_queues", now=self._now(), apart=dict.fromkeys(apart_from, True)
        )
        return found

    def keep_setting(self, name: str, value: str) -> str:
        """Agree on a setting: the first to ask has set it."""
        kept: str = self._server.run("keep_setting", name=name, value=value)
        return kept

    # Cleanup.

    def delete_finished(self, retention: Retention, *, limit: int) -> int:
        """Delete what ended long ago."""
        most = self.most_remembered
        deleted, forgotten = self._server.run(
            "delete_finished",
            now=self._now(),
            ended=micros(retention.ended),
            failed=micros(retention.failed),
            remembered=micros(retention.remembered),
            contacts=micros(CONTACTS_KEPT),
            stats=micros(STATS_KEPT),
            most=most,
            limit=limit,
        )
        note_forgotten(forgotten, most=most)
        found: int = deleted
        return found
