"""Presence: what a node tells of itself to the others."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.handlers.registry import HandlerRegistry
from go_scheduler.stores.messages import Announcement
from go_scheduler.version import __version__

if TYPE_CHECKING:
    from go_scheduler.running.calling.workers import Handling
    from go_scheduler.running.metrics import Objective
    from go_scheduler.running.state import NodeState
    from go_scheduler.stores.messages import Claimant

# Of more it is not told which they are: each node writes all of it every few seconds.
_MOST_NAMES = 1000


class Presence:
    """Says who a node is, what it runs, and what has become of that.

    Args:
        state: What the node's parts share.
        handling: What it calls, if anything.
        objective: How late its runs may be.

    Attributes:
        stopping: Whether it takes nothing more.
    """

    def __init__(
        self, state: NodeState, handling: Handling, objective: Objective
    ) -> None:
        self._store = state.store
        self._metrics = state.metrics
        self._objective = objective
        self._state = state
        self._handling = handling
        self._host = socket.gethostname()
        self._pid = os.getpid()
        self.stopping = False

    def announcement(self) -> Announcement:
        """What there is to tell now: names may be registered at any time."""
        claimant = self._state.claimant
        return Announcement(
            node=claimant.node,
            host=self._host,
            pid=self._pid,
            version=__version__,
            queues=claimant.queues,
            names=self._names(),
            lease=claimant.lease,
            stopping=self.stopping,
        )

    def look(self) -> None:
        """Go on with counting, and judge whether runs begin in time."""
        self._objective.look()

    def write_stats(self, *, last: bool = False) -> None:
        """Write what was counted, if a minute is over in which anything was.

        Args:
            last: Whether to write all there is: nothing more is counted.

        Raises:
            StoreError: It could not be written, and is written the next time.
        """
        taken = self._metrics.take(last=last)
        if taken:
            try:
                self._store.note_stats(self._state.node, taken)
            except BaseException:
                self._metrics.put_back()
                raise

    @property
    def claimant(self) -> Claimant:
        """The node as a store needs to know it, with the names that it can run now."""
        return replace(self._state.claimant, names=self._names())

    def _names(self) -> tuple[str, ...] | None:
        """The names of what it can run; None: any, or too many to say."""
        if not self._handling.claims:
            return ()
        if not isinstance(self._handling.handler, HandlerRegistry):
            return None
        names = self._handling.handler.names
        return names if len(names) <= _MOST_NAMES else None
