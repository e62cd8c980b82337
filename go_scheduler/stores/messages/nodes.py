"""What nodes tell of themselves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What a node tells of itself; None wherever nobody knows.

    Attributes:
        node: The node's id.
        host: The name of its machine.
        pid: Its process.
        version: That of this package there.
        queues: Those that it serves; empty: it runs nothing.
        names: Those for which it has a handler; None also if it takes any.
        lease: It tells of itself several times in so long.
        stopping: Whether it takes nothing more.
    """

    node: UUID
    host: str | None = None
    pid: int | None = None
    version: str | None = None
    queues: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None
    lease: timedelta | None = None
    stopping: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContact:
    """A time for which a node had unbroken contact with the store, by its clock.

    Attributes:
        announced: The node, and what it told last.
        since: From when on.
        until: Up to when.
    """

    announced: Announcement
    since: datetime
    until: datetime
