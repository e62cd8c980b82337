"""How many runs a worker takes, of all tasks and of each."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from go_scheduler.dispatch.working.taken import Taken


_APART, _LONGEST_TURN = timedelta(seconds=1), timedelta(minutes=1)


class Places:
    """Which places are free, and how many messages may come from each topic for them.

    Args:
        most: The most runs at once.
        limits: The most of some tasks, by their names.
        topics: Where runs come from; each with the task whose own topic it is, or None.
    """

    def __init__(
        self, most: int, limits: Mapping[str, int], topics: Mapping[str, str | None]
    ) -> None:
        self._free = most
        self._limits = limits
        self._topics = topics
        self._running: Counter[str | None] = Counter()
        self._refused: Counter[str | None] = Counter()

    def room(self, topic: str, task: str | None = None) -> int:
        """How many more may come from a topic, of its own task or of this one."""
        task = self._topics[topic] or task
        # Of a topic that many tasks share, only what has come says whose it is.
        limit = None if task is None else self._limits.get(task)
        if limit is None:
            return self._free
        return min(self._free, limit - self._running[task])

    def take(self, taken: Taken) -> None:
        """Give a place to one that has come."""
        self._free -= 1
        self._running[taken.run.task] += 1
        del self._refused[taken.run.task]

    def turn(self, task: str) -> timedelta:
        """For how long one that is beyond the limit of its task is not to come again.

        As many as may run have the same turn, and others later ones: what came together
        would else come together again, and all but these few in vain.
        """
        turns = self._refused[task] // self._limits[task] + 1
        self._refused[task] += 1
        return min(turns * _APART, _LONGEST_TURN)

    def leave(self, taken: Taken) -> None:
        """Have its place back."""
        self._free += 1
        self._running[taken.run.task] -= 1

    def prefetch(self, topic: str, present: int = 0) -> int:
        """How many messages of a topic may be under way to here.

        It changes once it is off by more than half of what there is room for, or there
        is none: each change costs a talk with the broker.

        Args:
            topic: The topic.
            present: How many may be at present.
        """
        # What all topics may bring together is more than there is room for only if
        # there is less of that than there are topics.
        share = min(self.room(topic), max(1, self._free // len(self._topics)))
        return present if share <= 2 * present and present <= 2 * share else share
