"""How instances are claimed on the PostgreSQL family: by queue, shard and time."""

from __future__ import annotations

import logging
import random
from functools import partial
from itertools import chain, product
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.stores.postgresql.driver import met_a_lock
from go_scheduler.stores.sql.database import Lane

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta
    from typing import Any

    from sqlalchemy import Row

    from go_scheduler.stores.messages import Claimant
    from go_scheduler.stores.postgresql.executing import Statements
    from go_scheduler.stores.sql.database import Classes, Sweep

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


_log = logging.getLogger(__name__)


class DueInstances:
    """Takes what is due for a node.

    Args:
        statements: Executes them.
        classes: Says which there are.
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
        self._places = PlacesToClaim(
            statements, classes, shards=shards, reads_rows=reads_rows
        )
        self._reads_rows = reads_rows
        self._reported = False

    def take(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
        deadline: datetime,
    ) -> tuple[Sequence[Row[Any]], Sequence[Row[Any]]]:
        """Claim, as ``Store.claim_instances``.

        Returns:
            The rows of those whose claims had lapsed, and of those that were free.
        """
        if not claimant.queues:
            return [], []
        terms = {
            "node": claimant.node,
            "lease": claimant.lease,
            "expire_after": claimant.expire_after,
            "lead": lead,
        }
        places = self._places.find(claimant.queues, ahead, limit)
        old: list[Row[Any]] = []
        new: list[Row[Any]] = []
        claims = (
            (new, partial(self._claim_free, place, name, terms, ahead))
            for place, name in places
        )
        if lapsed is None:
            self._claim_each(claims, limit)
        else:
            terms_again = {**terms, "deadline": deadline}
            again = partial(self._claim_lapsed, claimant.queues, terms_again, lapsed)
            self._claim_each(chain([(old, again)], claims), limit)
        return old, new

    def _claim_each(
        self,
        claims: Iterable[tuple[list[Row[Any]], Callable[[int], Sequence[Row[Any]]]]],
        limit: int,
    ) -> None:
        """Add to each list what its claim finds, until the limit is reached.

        Raises:
            StoreError: Nothing was claimed, and a claim has failed.
        """
        failure: StoreError | None = None
        left = limit
        for claimed, claim in claims:
            if left <= 0:
                break
            try:
                found = claim(left)
            except StoreError as error:
                unavailable = isinstance(error, StoreUnavailableError)
                # Instances that have been claimed must not lapse meanwhile.
                last = left < limit or failure or unavailable
                failure = error
                if last:
                    break
            else:
                claimed += found
                left -= len(found)
        self._report(failure, raises=left == limit)

    def _report(self, failure: StoreError | None, *, raises: bool) -> None:
        """Raise it if nothing was claimed, else say so the first time in a row."""
        if failure is not None and raises:
            raise failure
        if failure is not None and not self._reported:
            _log.warning("some of what is due cannot be claimed: %s", failure)
        self._reported = failure is not None

    def _past_locks(
        self, name: str, claim: Callable[[str], Sequence[Row[Any]]]
    ) -> Sequence[Row[Any]]:
        """Claim, past rows that a user's open transaction has locked.

        PostgreSQL skips those. What it does not skip, such as the lock for a page that
        another session adds to the table, is held for a moment: it is asked once more.

        On CockroachDB such a lock may be on the row alone and not on the index that is
        walked: a claim that does not read the row waits for it. It may be on the
        definition: one that reads that waits as well. Reading all rows would lock more
        of them than are claimed, and reading their definitions apart is one statement
        more, so that is done only where it is needed.

        Args:
            name: The statement; where claims read no rows, there is one that does.
            claim: Executes the statement of a name.
        """
        try:
            return claim(name)
        except StoreError as error:
            if not met_a_lock(error):
                raise
            return claim(name if self._reads_rows else f"{name}_past_locks")

    def _claim_free(
        self,
        place: Place,
        name: str,
        terms: Mapping[str, object],
        ahead: timedelta,
        limit: int,
    ) -> Sequence[Row[Any]]:
        queue, priority, shard = place
        sweep = self._statements.sweep(place)

        def claim(name: str) -> Sequence[Row[Any]]:
            parameters = {
                **terms,
                **self._places.look_back(name),
                "queue": queue,
                "priority": priority,
                "shard": shard,
                "back": sweep.back,
                "ahead": ahead,
                "limit": limit,
            }
            return self._claim(sweep, name, parameters, limit)

        rows = self._past_locks(name, claim)
        if len(rows) == limit:
            sweep.go_on(rows[0].now - max(row.place for row in rows))
        return rows

    def _claim_lapsed(
        self,
        queues: Sequence[str],
        terms: Mapping[str, object],
        lapsed: timedelta,
        limit: int,
    ) -> Sequence[Row[Any]]:
        # A look for claims that lapsed long ago reaches no further than that.
        place = ("lapsed", tuple(queues), lapsed > ZERO)
        sweep = self._statements.sweep(place)

        def claim(name: str) -> Sequence[Row[Any]]:
            parameters = {
                **terms,
                "queues": list(queues),
                "lapsed": lapsed,
                "back": sweep.back + lapsed,
                "limit": limit,
            }
            return self._claim(sweep, name, parameters, limit)

        return self._past_locks("claim_lapsed", claim)

    def _claim(
        self, sweep: Sweep, name: str, parameters: Mapping[str, object], limit: int
    ) -> Sequence[Row[Any]]:
        def execute() -> Sequence[Row[Any]]:
            # A claim that was done, and is repeated, leaves instances to their lease.
            rows = self._statements.run(
                Lane.BY_TIME, name, parameters, repeatable=False
            )
            return self._without_looks(rows) if name == LOOKING else rows

        return self._statements.scan(sweep, execute, limit=limit)

    def _without_looks(self, rows: Sequence[Row[Any]]) -> Sequence[Row[Any]]:
        """Learn of the classes that were found, which are not claimed."""
        self._places.found(row.attempt for row in rows if row.id is None)
        return [row for row in rows if row.id is not None]
