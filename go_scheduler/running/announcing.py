"""Announcing: what a node tells of itself to the others."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from go_scheduler.handlers.registry import HandlerRegistry
from go_scheduler.stores.messages import Announcement
from go_scheduler.version import __version__

if TYPE_CHECKING:
    from uuid import UUID

    from go_scheduler.handlers.registry import Handler
    from go_scheduler.settings import Settings

# Of more it is not told which they are: each node writes all of it every few seconds.
_MOST_NAMES = 1000


class Announcing:
    """Says who a node is, and what it runs.

    Args:
        node: Its id.
        handler: What it calls; None: nothing.
        settings: Which queues it serves.

    Attributes:
        node: Its id.
        queues: Those that it serves.
        stopping: Whether it takes nothing more.
    """

    def __init__(self, node: UUID, handler: Handler | None, settings: Settings) -> None:
        self.node = node
        self._handler = handler
        self.queues = () if handler is None else tuple(settings.queues)
        self._lease = settings.lease
        self._host = socket.gethostname()
        self._pid = os.getpid()
        self.stopping = False

    def announcement(self) -> Announcement:
        """What there is to tell now: names may be registered at any time."""
        return Announcement(
            node=self.node,
            host=self._host,
            pid=self._pid,
            version=__version__,
            queues=self.queues,
            names=self.names,
            lease=self._lease,
            stopping=self.stopping,
        )

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of what it can run; None: any, or too many to say."""
        if self._handler is None:
            return ()
        if not isinstance(self._handler, HandlerRegistry):
            return None
        names = self._handler.names
        return names if len(names) <= _MOST_NAMES else None
