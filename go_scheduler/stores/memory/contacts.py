"""When nodes were in contact with a ``MemoryStore``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.stores.messages import NodeContact


class ContactTable:
    """The last contact of each node."""

    def __init__(self) -> None:
        self._rows: dict[UUID, NodeContact] = {}

    @property
    def rows(self) -> Sequence[NodeContact]:
        """All of them, in no order."""
        return tuple(self._rows.values())

    def note(self, contact: NodeContact) -> None:
        """Keep a contact, in the place of what was known of its node."""
        self._rows[contact.announced.node] = contact

    def since(self, at: datetime) -> Sequence[NodeContact]:
        """Those of nodes that were seen no earlier than this."""
        return [each for each in self._rows.values() if each.until >= at]

    def forget(self, until: datetime) -> None:
        """Forget nodes that were last seen before this."""
        self._rows = {each.announced.node: each for each in self.since(until)}
