"""The claimed instances of a ``MemoryStore``, of which those are found that lapse."""

from __future__ import annotations

from datetime import UTC, datetime
from heapq import nsmallest
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from go_scheduler.stores.memory.stored import StoredInstance

_NEVER = datetime.max.replace(tzinfo=UTC)
_expires_at = attrgetter("expires_at")
_in_order = attrgetter("expires_at", "id.int")


class Leases:
    """Rows by their ids, and a time before which none of them lapses.

    Nearly all are let go of long before they would lapse, so they are in no order: they
    are gone through only when that time has come.
    """

    def __init__(self) -> None:
        self._rows: dict[int, StoredInstance] = {}
        self._first = _NEVER

    def __iter__(self) -> Iterator[StoredInstance]:
        return iter(self._rows.values())

    def add(self, row: StoredInstance) -> None:
        """Take a claimed row."""
        assert row.expires_at is not None
        self._rows[row.id.int] = row
        if row.expires_at < self._first:
            self._first = row.expires_at

    def remove(self, row: StoredInstance) -> None:
        """Let go of a row."""
        del self._rows[row.id.int]

    def take(
        self, queues: Sequence[str], until: datetime, limit: int
    ) -> list[StoredInstance]:
        """Take out rows that have lapsed by then, the first to lapse first."""
        if until < self._first:
            return []
        lapsed = (
            row
            for row in self
            if _expires_at(row) <= until and row.queue in queues and not row.frozen
        )
        taken = nsmallest(limit, lapsed, key=_in_order)
        for row in taken:
            self.remove(row)
        self._first = min(map(_expires_at, self), default=_NEVER)
        return taken
