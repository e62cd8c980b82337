"""The pending instances of a ``MemoryStore``: by class, queue, and due time."""

from __future__ import annotations

from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from sortedcontainers import SortedList

from go_scheduler.checks import PRIORITIES
from go_scheduler.stores.priorities import Turns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from go_scheduler.stores.memory.span import Entry
    from go_scheduler.stores.memory.stored import StoredInstance

_LAST_ID = 1 << 128


class PendingRows:
    """A sorted list for each class of each queue.

    Args:
        rows: All rows, by their ids.
    """

    def __init__(self, rows: Mapping[int, StoredInstance]) -> None:
        self._rows = rows
        # By class, and then by queue.
        self._lists: list[dict[str, SortedList[Entry]]] = [{} for _ in PRIORITIES]
        self._turns = Turns()

    def add(self, row: StoredInstance) -> None:
        """Let a row be claimed."""
        by_queue = self._lists[row.priority]
        if (rows := by_queue.get(row.queue)) is None:
            rows = by_queue[row.queue] = SortedList()
        rows.add((row.due_at, row.id.int))

    def discard(self, row: StoredInstance) -> None:
        """Keep a row from being claimed, if it may be."""
        if (rows := self._lists[row.priority].get(row.queue)) is not None:
            rows.discard((row.due_at, row.id.int))

    def take(
        self, queues: Sequence[str], until: datetime, limit: int
    ) -> list[StoredInstance]:
        """Take out rows due by then, the earliest first.

        Those of a class come before those of the next, as it is this claim's turn.
        """
        found: list[StoredInstance] = []
        for priority in self._turns.next():
            by_queue = self._lists[priority]
            lists = [by_queue[name] for name in queues if name in by_queue]
            if lists:
                taken = _taken(lists, until, limit - len(found))
                found += [self._rows[id] for _, id in taken]
        found.sort(key=attrgetter("due_at"))
        return found

    def due_queues(self, now: datetime) -> set[str]:
        """The queues in which something is due."""
        lists = (each for by_queue in self._lists for each in by_queue.items())
        return {queue for queue, rows in lists if rows and rows[0][0] <= now}


def _taken(
    lists: Sequence[SortedList[Entry]], until: datetime, limit: int
) -> Sequence[Entry]:
    """Take the earliest due by then from the heads of lists."""
    if len(lists) == 1:
        [rows] = lists
        found = rows[: min(limit, rows.bisect_right((until, _LAST_ID)))]
        del rows[: len(found)]
        return found
    found = []
    for entry in islice(merge(*lists), limit):
        if entry[0] > until:
            break
        found.append(entry)
    if found:
        for rows in lists:
            del rows[: rows.bisect_right(found[-1])]
    return found
