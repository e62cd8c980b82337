"""What users see of nodes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.client.awaitable import awaitable
from go_scheduler.client.store_access import StoreAccess
from go_scheduler.models import NodeInfo
from go_scheduler.stores.base import CONTACTS_KEPT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from go_scheduler.stores.messages import NodeContact

_ALIVE = timedelta(minutes=1)


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
