"""The part of the store interface that is about nodes, and what they have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from go_scheduler.models import QueueStats
    from go_scheduler.stores.messages import Announcement, NodeContact


class NodeStore(ABC):
    """Records what nodes tell of themselves, and finds queues that none serves.

    It also keeps what all of them are to agree on.
    """

    @abstractmethod
    def note_contact(self, announced: Announcement, *, unbroken: timedelta) -> None:
        """Record that a node has been in contact with the store up to now.

        Args:
            announced: What it tells of itself; what was recorded of it before is
                replaced.
            unbroken: For how long without a break; zero or more.
        """

    @abstractmethod
    def list_contacts(self, *, within: timedelta) -> Sequence[NodeContact]:
        """Read when nodes were in contact with the store.

        Args:
            within: Only of nodes last seen at most so long ago; at most an hour.

        Returns:
            One for each node, living or dead, in no order.
        """

    # A store may keep nothing.
    def note_stats(  # noqa: B027
        self, node: UUID, stats: Sequence[QueueStats]
    ) -> None:
        """Keep what a node has counted, at most once a minute.

        As it stands here nothing is kept, which a store may leave so.

        Args:
            node: The node.
            stats: Each of another minute or hour, or another queue; in the place of
                what the node has had kept of the same.
        """

    def list_stats(
        self, *, every: timedelta, since: datetime, until: datetime
    ) -> Sequence[QueueStats]:
        """Read what was counted.

        Args:
            every: Minutes or hours: how long they are.
            since: Only those that begin no earlier.
            until: Only those that begin before this.

        Returns:
            One for each minute or hour, queue and node, by when they begin, and then by
            queue in any order; empty if the store keeps none.
        """
        return ()

    @abstractmethod
    def list_due_queues(self, *, apart_from: Collection[str]) -> Collection[str]:
        """Name queues in which something is due that nobody has claimed.

        What is frozen is not due. Every node asks a few times a minute, to find out
        which queues nobody serves.

        Args:
            apart_from: Queues that are left out, however much is due there.

        Returns:
            In no order, each once; of several at least one.
        """

    @abstractmethod
    def keep_setting(self, name: str, value: str) -> str:
        """Agree on a setting with all who use the store: the first to ask has set it.

        Args:
            name: Which setting.
            value: What it is to be, unless it has been set.

        Returns:
            What is kept: whoever asks for this name gets the same, from now on.
        """
