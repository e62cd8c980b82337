"""The instances of a ``MemoryStore`` that have ended, as cleanup takes them."""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from go_scheduler.models import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from go_scheduler.stores.memory.stored import StoredInstance

_FAILED = Outcome.FAILED


class EndedInstances:
    """Rows in the order in which they ended: those that failed, and others."""

    def __init__(self) -> None:
        # A dict would walk over rows that have been taken from its beginning.
        self._rows: dict[bool, OrderedDict[int, StoredInstance]] = {
            True: OrderedDict(),
            False: OrderedDict(),
        }

    def __iter__(self) -> Iterator[StoredInstance]:
        for rows in self._rows.values():
            yield from rows.values()

    def add(self, row: StoredInstance) -> None:
        """Take a row that has just ended."""
        self._beside(row)[row.id.int] = row

    def remove(self, row: StoredInstance) -> None:
        """Let go of a row."""
        del self._beside(row)[row.id.int]

    def take(
        self, until: datetime, limit: int, *, failed: bool
    ) -> Sequence[StoredInstance]:
        """Take rows that ended by then, oldest first: those that failed, or not."""

        def is_old(row: StoredInstance) -> bool:
            return row.completed_at is not None and row.completed_at <= until

        rows = self._rows[failed]
        taken = list(takewhile(is_old, islice(rows.values(), limit)))
        for row in taken:
            del rows[row.id.int]
        return taken

    def _beside(self, row: StoredInstance) -> OrderedDict[int, StoredInstance]:
        return self._rows[row.outcome is _FAILED]
