"""The slots of a ``MemoryStore``: who has each, and what is parked beside it."""

from __future__ import annotations

from itertools import islice, takewhile
from typing import TYPE_CHECKING

from sortedcontainers import SortedDict, SortedList

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.stores.memory.stored import StoredInstance


def in_turn(row: StoredInstance) -> tuple[int, datetime, datetime, int]:
    """By what it is decided whose turn it is."""
    return row.priority, *_when_due(row)


def _when_due(row: StoredInstance) -> tuple[datetime, datetime, int]:
    return row.due_at, row.execute_at, row.id.int


class SlotTable:
    """The holders by the names of their slots, and what is parked, in its turn."""

    def __init__(self) -> None:
        self._holders: dict[str, StoredInstance] = {}
        self._parked: SortedDict[str, SortedList[StoredInstance]] = SortedDict()
        self._undecided: SortedList[StoredInstance] = SortedList(key=_when_due)

    @property
    def holders(self) -> Mapping[str, UUID]:
        """Who has which slot."""
        return {name: row.id for name, row in self._holders.items()}

    def restore(self, name: str, row: StoredInstance) -> None:
        """Give a slot to its holder."""
        row.slot = name
        self._holders[name] = row

    def holder(self, name: str | None) -> StoredInstance | None:
        """The row that has this slot."""
        return None if name is None else self._holders.get(name)

    def holder_id(self, row: StoredInstance) -> UUID:
        """The id of the instance that has the slot of a row."""
        assert row.slot is not None
        return self._holders[row.slot].id

    def has(self, row: StoredInstance) -> bool:
        """Whether a row has its slot."""
        return self.holder(row.slot) is row

    def take(self, row: StoredInstance) -> bool:
        """Give a row its slot, if nobody else has it; true: it excludes nobody else."""
        return row.slot is None or self._holders.setdefault(row.slot, row) is row

    def free(self, row: StoredInstance) -> None:
        """Take back its slot from a row, if it has it."""
        if row.slot is not None and self._holders.get(row.slot) is row:
            del self._holders[row.slot]

    def park(self, row: StoredInstance) -> None:
        """Take a parked row."""
        assert row.slot is not None
        self._parked.setdefault(row.slot, SortedList(key=in_turn)).add(row)
        if row.overlap is not None:
            self._undecided.add(row)

    def unpark(self, row: StoredInstance) -> None:
        """Let go of a parked row; one that is frozen is not there."""
        assert row.slot is not None
        if (parked := self._parked.get(row.slot)) is not None:
            self._undecided.discard(row)
            parked.discard(row)
            if not parked:
                del self._parked[row.slot]

    def accept(self, row: StoredInstance) -> None:
        """Let a parked row wait, whatever its overlap."""
        self._undecided.remove(row)
        row.overlap = None

    def __bool__(self) -> bool:
        """Whether anything is parked."""
        return bool(self._parked)

    def next_ones(self, limit: int) -> Sequence[StoredInstance]:
        """The rows whose turn it is, of slots that nobody has."""
        free = (name for name in self._parked if name not in self._holders)
        return [self._parked[name][0] for name in islice(free, limit)]

    def undecided(self, until: datetime) -> Iterator[StoredInstance]:
        """Rows due by then that nothing has decided on."""
        return takewhile(lambda row: row.due_at <= until, self._undecided)

    def waiting(self, like: StoredInstance) -> Sequence[StoredInstance]:
        """Rows of the same definition that wait for the same slot, and may do so.

        What was backfilled, and what was not, are apart.
        """
        assert like.slot is not None
        parked: Iterable[StoredInstance] = self._parked[like.slot]
        return [
            row
            for row in parked
            if row.of is like.of
            and row.overlap is None
            and (row.backfilled is None) == (like.backfilled is None)
        ]
