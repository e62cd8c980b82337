"""The Redis store: each method a script, which the server runs as one transaction."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.checks import check_positive
from go_scheduler.stores.base import CONTACTS_KEPT, STATS_KEPT, Store
from go_scheduler.stores.findings import answers
from go_scheduler.stores.redis.definition_calls import RedisDefinitions
from go_scheduler.stores.redis.instance_calls import RedisInstances
from go_scheduler.stores.redis.listener import Listener
from go_scheduler.stores.redis.lists import RedisReads
from go_scheduler.stores.redis.rows import (
    Reader,
    given_time,
    read_contact,
    read_stats,
    write_announcement,
    write_stats,
)
from go_scheduler.stores.redis.server import (
    QUESTIONS,
    Server,
    check_version,
    log_risks,
    parse,
    told,
)
from go_scheduler.stores.rules import Turns, note_forgotten

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.clock import Clock
    from go_scheduler.models import QueueStats
    from go_scheduler.stores.findings import Finding
    from go_scheduler.stores.hints import Hints
    from go_scheduler.stores.messages import Announcement, NodeContact, Retention
    from go_scheduler.stores.redis.server import Question

_TIMEOUT = timedelta(seconds=5)


class RedisStore(RedisDefinitions, RedisInstances, RedisReads, Store):
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
        self._server = Server(self._address, timeout)
        self._reader = Reader()
        self._turns = Turns()
        self._has_warned = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{self._address}')"

    def initialize(self) -> None:
        """Find the server, and refuse one that is too old."""
        check_version(self._server.reached())
        self._run("now")

    def examine(self) -> Sequence[Finding]:
        """What is wrong with the server."""
        client = self._server.reached()

        def ask(question: Question) -> list[Finding]:
            with told():
                return list(question(client))

        return list(answers(QUESTIONS, ask))

    def connect(self) -> None:
        """Open a connection, and look how the server keeps what it is told."""
        client = self._server.reached()
        if not self._has_warned:
            log_risks(client)
            self._has_warned = True

    def close(self) -> None:
        """Let go of all connections."""
        self._server.close()

    def hints(self) -> Hints:
        """What others publish."""
        return Listener(self._server)

    def now(self) -> datetime:
        """The time of the clock that was passed, else the server's."""
        return self.clock.now() if self.clock else given_time(self._run("now"))

    # Nodes.

    def note_contact(self, announced: Announcement, *, unbroken: timedelta) -> None:
        """Record that a node has been in contact with the store up to now."""
        self._run(
            "note_contact",
            node=announced.node,
            unbroken=unbroken,
            announced=write_announcement(announced),
        )

    def list_contacts(self, *, within: timedelta) -> Sequence[NodeContact]:
        """Read when nodes were in contact with the store."""
        found = self._run("list_contacts", within=within)
        return [read_contact(node, text) for node, text in found]

    def note_stats(self, node: UUID, stats: Sequence[QueueStats]) -> None:
        """Keep what a node has counted."""
        self._run("note_stats", node=node, stats=list(map(write_stats, stats)))

    def list_stats(self, *, since: datetime, until: datetime) -> Sequence[QueueStats]:
        """Read what was counted."""
        found = self._run("list_stats", since=since, until=until)
        return [read_stats(*each) for each in found]

    def keep_setting(self, name: str, value: str) -> str:
        """Agree on a setting: the first to ask has set it."""
        kept: str = self._run("keep_setting", name=name, value=value)
        return kept

    # Cleanup.

    def delete_finished(self, retention: Retention, *, limit: int) -> int:
        """Delete what ended long ago."""
        deleted: int
        deleted, forgotten = self._run(
            "delete_finished",
            retention=retention,
            contacts=CONTACTS_KEPT,
            stats=STATS_KEPT,
            most=self.most_remembered,
            limit=limit,
        )
        note_forgotten(forgotten, most=self.most_remembered)
        return deleted
