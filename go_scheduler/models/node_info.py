"""Nodes, as those who hold a scheduler or a client see them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """One start of a scheduler, in any process, and what it runs.

    Attributes:
        id: Its id, fresh for every start: that of ``TaskInstance.claimed_by``.
        host: The name of its machine; None: it is not known.
        pid: Its process; None: it is not known.
        version: That of ``go_scheduler`` there; None: it is not known.
        queues: Those that it serves; empty: it runs nothing. None: they are not known.
        names: Those for which it has a handler. None: it takes any name, or they are
            more than a thousand.
        since: Since when it has reached the store without a break.
        seen_at: When it last did.
        stopping: Whether it has been told to stop, and takes nothing more.
        alive: Whether it was seen within the last ``lease`` of its own, or minute if
            that is not known.
    """

    id: UUID
    host: str | None
    pid: int | None
    version: str | None
    queues: tuple[str, ...] | None
    names: tuple[str, ...] | None
    since: datetime
    seen_at: datetime
    stopping: bool
    alive: bool

    def __str__(self) -> str:
        if self.host is None:
            return f"node {self.id}"
        return f"node {self.id} (host {self.host}, pid {self.pid})"

    @property
    def takes_on(self) -> bool:
        """Whether it lives, and takes what is due."""
        return self.alive and not self.stopping

    def serves(self, queue: str) -> bool:
        """Whether it runs what is in a queue, as far as is known."""
        return self.queues is None or queue in self.queues

    def knows(self, name: str | None) -> bool:
        """Whether it has a handler for a name, as far as is known."""
        return self.names is None or name in self.names
