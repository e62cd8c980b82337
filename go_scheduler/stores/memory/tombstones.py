"""Ids that a ``MemoryStore`` remembers: of definitions that ended and are gone."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING
from uuid import UUID

from sortedcontainers import SortedList

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from go_scheduler.stores.messages import Tombstone


class TombstoneTable:
    """Tombstones by id, and in the order in which their definitions ended."""

    def __init__(self) -> None:
        self._rows: dict[int, Tombstone] = {}
        self._ended: SortedList[tuple[datetime, int]] = SortedList()

    @property
    def rows(self) -> Sequence[Tombstone]:
        """All of them, in no order."""
        return tuple(self._rows.values())

    def get(self, definition_id: UUID) -> Tombstone | None:
        """The tombstone of an id."""
        return self._rows.get(definition_id.int)

    def add(self, tombstone: Tombstone) -> None:
        """Remember an id."""
        self._rows[tombstone.id.int] = tombstone
        self._ended.add((tombstone.completed_at, tombstone.id.int))

    def forget(self, definition_id: UUID) -> None:
        """Forget an id, if it is remembered."""
        if remembered := self._rows.pop(definition_id.int, None):
            self._ended.remove((remembered.completed_at, definition_id.int))

    def forget_ended(self, until: datetime, limit: int) -> None:
        """Forget ids that ended by then, oldest first."""
        for completed_at, key in tuple(islice(self._ended, limit)):
            if completed_at <= until:
                self.forget(UUID(int=key))

    def forget_most(self, most: int, limit: int) -> int:
        """Forget of more than so many ids those that ended first; say how many."""
        too_many = max(0, len(self._ended) - most)
        oldest = tuple(islice(self._ended, min(too_many, limit)))
        for _, key in oldest:
            self.forget(UUID(int=key))
        return len(oldest)
