"""Shares: which shards of the store's work a node takes for its own."""

from __future__ import annotations

from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Set
    from uuid import UUID

    from go_scheduler.stores.messages import Announcement


class Shares:
    """Which shards are a node's own, by what it knows of the others.

    For each shard all nodes are ranked by a hash of both, and the first has it. So all
    that know of the same nodes agree, and if one comes or goes its shards alone change
    hands. It is a hint: whoever has a wrong idea of the others costs nobody anything
    but statements, for all look at what is due in any shard.

    Args:
        node: The node.
        shards: Over how many shards the store spreads its work.
    """

    def __init__(self, node: UUID, shards: int) -> None:
        self._node = node
        self._shards = range(shards)
        self._known: Mapping[UUID, Collection[str] | None] = {}
        # Until it knows of any node, itself as well, nothing is its own.
        self._ranked: Mapping[int, list[UUID]] = {}
        self._claiming: dict[str, Set[int]] = {}

    @property
    def are_any(self) -> bool:
        """Whether there is anything to share."""
        return len(self._shards) > 1

    def know(self, announced: Iterable[Announcement]) -> None:
        """Take note of the nodes that are there; those that stop have no share."""
        known = {each.node: each.queues for each in announced if not each.stopping}
        if known.keys() != self._known.keys():
            self._ranked = {
                shard: sorted(known, key=partial(_rank, str(shard)))
                for shard in self._shards
            }
        self._known = known
        self._claiming = {}

    def of_firing(self) -> Set[int]:
        """The shards whose definitions are this node's to fire."""
        return self._of(lambda node: True)

    def of_claiming(self, queue: str) -> Set[int]:
        """The shards whose instances in a queue are this node's to claim.

        They are shared by those that serve the queue.
        """
        # Asked before each claim, and answered alike until more is known.
        answered = self._claiming
        if queue not in answered:
            answered[queue] = self._of(
                lambda node: _serves(self._known.get(node, ()), queue)
            )
        return answered[queue]

    def is_first(self, work: str, *, serves: bool = False) -> bool:
        """Whether this node is to do what one of all need do; each, if none is known.

        The others do it less often, as that one may not be able to.

        Args:
            work: What it is.
            serves: Whether those alone do it that serve a queue.
        """
        known = [
            node
            for node, queues in self._known.items()
            if not serves or queues is None or len(queues) > 0
        ]
        first = min(known, key=partial(_rank, work), default=self._node)
        return first == self._node

    def _of(self, takes_part: Callable[[UUID], bool]) -> Set[int]:
        return {
            shard
            for shard, ranked in self._ranked.items()
            if next(filter(takes_part, ranked), None) == self._node
        }


def _serves(queues: Collection[str] | None, queue: str) -> bool:
    # Those of a node that cannot be read may be any.
    return queues is None or queue in queues


def _rank(what: str, node: UUID) -> bytes:
    return blake2b(node.bytes + what.encode(), digest_size=8).digest()
