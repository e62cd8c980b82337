"""Which part of a list of instances a page is taken of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sortedcontainers import SortedList

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from go_scheduler.stores.memory.stored import StoredInstance
    from go_scheduler.stores.messages import Position

Entry = tuple["datetime", int]
"""A row in a sorted list: what it is sorted by, a time and its id.

Not the row itself: the garbage collector need not walk what holds neither.
"""


class Span(NamedTuple):
    """Which part of a list of instances, and in which order.

    Attributes:
        since: No earlier than this.
        after: Where the page before ended.
        newest_first: Whether the list goes backwards.
    """

    since: datetime | None
    after: Position | None
    newest_first: bool

    def walk(self, entries: SortedList[Entry]) -> Iterator[Entry]:
        """Those of the entries that are in it."""
        # Bounds are the beginning of an entry, which compares all the same.
        first: Any = None if self.since is None else (self.since,)
        last: Any = None
        if self.after is not None and self.newest_first:
            last = (self.after.at, self.after.id.int - 1)
        elif self.after is not None:
            begin = (self.after.at, self.after.id.int + 1)
            first = begin if first is None else max(first, begin)
        return entries.irange(first, last, reverse=self.newest_first)

    def cut(self, rows: Iterable[StoredInstance]) -> Sequence[StoredInstance]:
        """Those of the rows that are in it, in its order."""
        by_entry = {(row.execute_at, row.id.int): row for row in rows}
        return [by_entry[entry] for entry in self.walk(SortedList(by_entry))]
