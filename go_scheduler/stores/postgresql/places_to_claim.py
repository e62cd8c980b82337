"""Where a claim has to look: queues, the classes in them, and the shards of those."""

from __future__ import annotations

import random
from itertools import product
from typing import TYPE_CHECKING

from go_scheduler.stores.sql.database import Lane

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import timedelta

    from go_scheduler.stores.postgresql.executing import Statements
    from go_scheduler.stores.sql.classes import Classes
    from go_scheduler.stores.sql.sweep import Sweep

Place = tuple[str, int, int]
"""A queue, a class of it, and a shard of that."""

CLAIM = "claim"
LOOKING = "claim_and_look"
"""Claims, and answers which other classes there are in the queue as well."""


class PlacesToClaim:
    """Finds the places of the index in which there is anything to claim.

    Args:
        statements: Executes the one that looks there, where there is more than one.
        classes: Says which classes there are.
        shards: Over how many parts of the index instances are spread.
        reads_rows: Whether a claim may read more rows than it takes.
    """

    def __init__(
        self,
        statements: Statements,
        classes: Classes,
        *,
        shards: int,
        reads_rows: bool,
    ) -> None:
        self._statements = statements
        self._classes = classes
        self._shards = shards
        self._reads_rows = reads_rows

    def find(
        self, queues: Sequence[str], ahead: timedelta, limit: int
    ) -> Iterable[tuple[Place, str]]:
        """Where to claim, class by class, and by which statement."""
        looks, known = self._classes.look(), self._classes.known
        places = list(product(queues, known, range(self._shards)))
        # Where a claim may read more rows than it takes, it looks by itself.
        if len(places) == 1 and looks and self._reads_rows:
            return self._alone(places[0])
        if len(places) > 1 or looks:
            places = self._full(places, queues, known, ahead, limit, looks=looks)
        return [(place, CLAIM) for place in places]

    def look_back(self, name: str) -> Mapping[str, object]:
        """How far back a statement has to look for classes, if it does."""
        return {"look_back": self._look.back} if name == LOOKING else {}

    def found(self, priorities: Iterable[int]) -> None:
        """Note what a look for classes has found."""
        self._look.finish()
        self._classes.learn(priorities)

    @property
    def _look(self) -> Sweep:
        return self._statements.sweep("classes")

    def _alone(self, place: Place) -> Iterator[tuple[Place, str]]:
        """The only place, and those that its claim has found to be beside it."""
        queue, known, shard = place
        yield place, LOOKING
        for priority in self._classes.known:
            if priority != known:
                yield (queue, priority, shard), CLAIM

    def _full(
        self,
        places: Sequence[Place],
        queues: Sequence[str],
        known: Sequence[int],
        ahead: timedelta,
        limit: int,
        *,
        looks: bool,
    ) -> list[Place]:
        """Those in which there is anything.

        Within a class the order is random: nodes should not meet in one place.
        """
        sweeps = [self._statements.sweep(place) for place in places]
        parameters: dict[str, object] = {"ahead": ahead}
        for number, queue in enumerate(queues):
            parameters[f"queue{number}"] = queue
        for number, sweep in enumerate(sweeps):
            parameters[f"back{number}"] = sweep.back
        parameters["limit"] = 1 if self._reads_rows else limit
        if looks:
            parameters |= self.look_back(LOOKING)
        heads = self._statements.heads(len(queues), known, looks=looks)
        rows = self._statements.read(Lane.BY_TIME, heads, parameters)
        heads_found = {row.head for row in rows}
        for number, sweep in enumerate(sweeps):
            if number not in heads_found:
                sweep.finish()
        full = [place for number, place in enumerate(places) if number in heads_found]
        if looks:
            others = {-1 - number for number in heads_found if number < 0}
            self.found(others)
            # In which shards of them anything waits, is not known yet.
            full += product(queues, others, range(self._shards))
        random.shuffle(full)
        in_turn = self._classes.in_turn()
        return sorted(full, key=lambda place: in_turn.index(place[1]))
