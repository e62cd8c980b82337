"""What users see of nodes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.client.awaitable import awaitable
from go_scheduler.client.store_access import StoreAccess
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.models import NodeInfo
from go_scheduler.models.counts import HOUR, MINUTE
from go_scheduler.stores.base import CONTACTS_KEPT
from go_scheduler.triggers.base import utc

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from go_scheduler.models import QueueStats
    from go_scheduler.stores.messages import NodeContact

_ALIVE = timedelta(minutes=1)
_MOST_PERIODS = 2000


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
        return sorted((node_info(each, now) for each in contacts), key=_place)

    anodes = awaitable(nodes)
    """Await what ``nodes`` does; see there."""

    def stats_since(
        self,
        since: datetime,
        until: datetime | None = None,
        *,
        every: timedelta = MINUTE,
    ) -> Sequence[QueueStats]:
        """What all nodes together have counted, by minute and queue.

        A node writes what it has counted once the minute is over, a few seconds later,
        and when it stops; one that is killed writes nothing of its last minute. Minutes
        are kept for two days, and hours for 31.

        Args:
            since: Only minutes that begin no earlier.
            until: Only those that begin before this; None: up to now.
            every: ``timedelta(hours=1)``: what was counted in each hour, and not in
                each minute.

        Returns:
            By when they begin, and then by queue; those in which nothing began or ended
            are left out. Empty if the store keeps none.

        Raises:
            ConfigurationError: An argument is wrong, or it asks for more than 2,000
                minutes or hours.
        """
        since = utc(since, name="since")
        store = self._ready()
        until = store.now() if until is None else utc(until, name="until")
        if every not in (MINUTE, HOUR):
            raise ConfigurationError(
                "every must be timedelta(minutes=1) or timedelta(hours=1), not"
                f" {shown(every)}"
            )
        if until - since > _MOST_PERIODS * every:
            raise ConfigurationError(
                f"from since to until there are more than {_MOST_PERIODS:,} of every:"
                " ask for hours, or in parts"
            )
        found: dict[tuple[datetime, str], QueueStats] = {}
        for each in store.list_stats(every=every, since=since, until=until):
            key = each.at, each.queue
            found[key] = found[key] + each if key in found else each
        return [found[key] for key in sorted(found)]

    astats_since = awaitable(stats_since)
    """Await what ``stats_since`` does; see there."""


def node_info(contact: NodeContact, now: datetime) -> NodeInfo:
    """What a node told last, as it is seen now."""
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


def _place(node: NodeInfo) -> tuple[bool, str, str, datetime]:
    # A row that was written by other means than this package may hold anything.
    return not node.alive, str(node.host), str(node.pid), node.since
