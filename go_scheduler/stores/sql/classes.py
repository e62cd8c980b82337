"""Which classes of priority there are to ask for what is due."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.checks import PRIORITIES
from go_scheduler.stores.priorities import NORMAL, Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from go_scheduler.models import TaskDefinition

_PAUSE = timedelta(seconds=1)


class Classes:
    """Knows which classes are in use, so that the others cost no statement.

    One is known as soon as this process has put or read a definition of it. What
    others have put is found by a claim: once in a second one looks into all classes.

    Args:
        elapsed: The time on a clock that nobody sets.
    """

    def __init__(self, elapsed: Callable[[], timedelta]) -> None:
        self._elapsed = elapsed
        self._turns = Turns()
        # In order; replaced, never changed, so that it is read without a lock.
        self.known: tuple[int, ...] = (NORMAL,)
        self._look_at = elapsed()

    def learn(self, priorities: Iterable[int]) -> None:
        """Note that these are in use."""
        new = set(priorities).difference(self.known)
        if new:
            self.known = tuple(sorted(new.union(self.known)))

    def seen(self, definitions: Sequence[TaskDefinition]) -> Sequence[TaskDefinition]:
        """Note those of definitions, and answer these."""
        self.learn(each.priority for each in definitions)
        return definitions

    def in_turn(self, *, every: bool = False) -> Sequence[int]:
        """Those that are known, or all, in the order in which a claim asks them."""
        known = PRIORITIES if every else self.known
        return [each for each in self._turns.next() if each in known]

    def look(self) -> bool:
        """Whether the claim that is about to be made looks for others."""
        elapsed = self._elapsed()
        if elapsed < self._look_at or len(self.known) == len(PRIORITIES):
            return False
        self._look_at = elapsed + _PAUSE
        return True
