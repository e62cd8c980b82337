"""What users see of nodes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.client.awaitable import awaitable
from go_scheduler.client.store_access import StoreAccess
from go_scheduler.errors import ConfigurationError
from go_scheduler.models import NodeInfo
from go_scheduler.models.counts import MINUTE
from go_scheduler.stores.base import CONTACTS_KEPT
from go_scheduler.triggers.base import utc

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from go_scheduler.models import QueueStats
    from go_scheduler.stores.messages import NodeContact

_ALIVE = timedelta(minutes=1)
_MOST_MINUTES = 2000


class Nodes(StoreAccess):
    """Lists the nodes that share a store."""

    def nodes(self) -> Sequence[NodeInfo]:
        """The nodes that the store has seen within the last hour.

        A node is one start of a scheduler. Each tells the store of itself every few
        seconds, also one without a handler, and once more when it is told to stop.

        Returns:
            Those that are alive first; then by host, process and since when.
        """
        store = self._ready()
        contacts = store.list_contacts(within=CONTACTS_KEPT)
        now = store.now()
        found = [node_info(each, now) for each in contacts]
        # A row that this package did not write may hold anything.
        found.sort(key=lambda it: (not it.alive, str(it.host), str(it.pid), it.since))
        return found

    anodes = awaitable(nodes)
    """Await what ``nodes`` does; see there."""

    def stats_since(
        self, since: datetime, until: datetime | None = None
    ) -> Sequence[QueueStats]:
        """The counts of all nodes together, by minute and queue.

        A node writes the counts of a minute a few seconds after that minute, and when
        it stops. A node that is killed writes nothing of its last minute. The store
        keeps them for two days.

        Args:
            since: Only minutes that begin no earlier.
            until: Only minutes that begin before this; None: up to now.

        Returns:
            In the order of minutes, and then of queues. Minutes in which nothing began
            or ended are left out. Empty if the store keeps no counts.

        Raises:
            ConfigurationError: An argument is wrong, or it asks for more than 2,000
                minutes.
        """
        since = utc(since, name="since")
        store = self._ready()
        until = store.now() if until is None else utc(until, name="until")
        if until - since > _MOST_MINUTES * MINUTE:
            raise ConfigurationError(
                f"from since to until there are more than {_MOST_MINUTES:,} minutes:"
                " ask in parts"
            )
        found: dict[tuple[datetime, str], QueueStats] = {}
        for each in store.list_stats(since=since, until=until):
            key = each.at, each.queue
            found[key] = found[key] + each if key in found else each
        return [found[key] for key in sorted(found)]

    astats_since = awaitable(stats_since)
    """Await what ``stats_since`` does; see there."""


def node_info(contact: NodeContact, now: datetime) -> NodeInfo:
    """What a node last told of itself, judged at this time."""
    announced = contact.announced
    return NodeInfo(
        id=announced.node,
        host=announced.host,
        pid=announced.pid,
        version=announced.version,
        queues=announced.queues,
        names=announced.names,
        since=contact.since,
        seen_at=contact.until,
        stopping=announced.stopping,
        alive=now - contact.until <= (announced.lease or _ALIVE),
    )
