"""How instances are claimed on the PostgreSQL family: by queue, shard and time."""

from __future__ import annotations

import logging
import random
from functools import partial
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.stores.postgresql import statements as sql
from go_scheduler.stores.postgresql.driver import met_a_lock
from go_scheduler.stores.sql.database import Lane

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta
    from typing import Any

    from sqlalchemy import Row
    from sqlalchemy.sql.selectable import TextualSelect

    from go_scheduler.stores.messages import Claimant
    from go_scheduler.stores.postgresql.executing import Statements
    from go_scheduler.stores.sql.sweep import Sweep

_COLUMNS = (*sql.BOTH, "place", "now")
_CAREFUL_CLAIMS = 20
_log = logging.getLogger(__name__)

_Place = tuple[str, int]
"""A queue, and a shard of it."""


class Claims:
    """Takes what is due for a node.

    Args:
        statements: Executes them.
        shards: Over how many parts of the index instances are spread.
        reads_rows: Whether a claim may read more rows than it takes.
    """

    def __init__(
        self, statements: Statements, *, shards: int, reads_rows: bool
    ) -> None:
        self._statements = statements
        self._shards = shards
        self._reads_rows = reads_rows
        # Where claims have met a lock, and how many more are careful there.
        self._careful: dict[object, int] = {}
        self._reported = False

    def take(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
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
        places = self._places(claimant.queues, ahead, limit)
        old: list[Row[Any]] = []
        new: list[Row[Any]] = []
        claims = [
            (new, partial(self._claim_free, place, terms, ahead)) for place in places
        ]
        if lapsed is not None:
            again = partial(self._claim_lapsed, claimant.queues, terms, lapsed)
            claims.insert(0, (old, again))
        failure: StoreError | None = None
        for claimed, claim in claims:
            if (left := limit - len(old) - len(new)) <= 0:
                break
            try:
                claimed += claim(left)
            except StoreError as error:
                # What has been claimed must not lapse while this waits for others.
                last = old or new or failure or isinstance(error, StoreUnavailableError)
                failure = error
                if last:
                    break
        self._report(failure, raises=not (old or new))
        return old, new

    def _report(self, failure: StoreError | None, *, raises: bool) -> None:
        """Raise it if nothing was claimed, else say so the first time in a row."""
        if failure is not None and raises:
            raise failure
        if failure is not None and not self._reported:
            _log.warning("some of what is due cannot be claimed: %s", failure)
        self._reported = failure is not None

    def _places(
        self, queues: Sequence[str], ahead: timedelta, limit: int
    ) -> Sequence[_Place]:
        """Where to claim, in a random order: nodes should not meet in one place."""
        places = [(queue, shard) for queue in queues for shard in range(self._shards)]
        if len(places) == 1:
            return places
        sweeps = [self._statements.sweep(place) for place in places]
        if self._reads_rows:
            limit = 1
        parameters: dict[str, object] = {"ahead": ahead}
        for number, (queue, _) in enumerate(places):
            parameters[f"queue{number}"] = queue
            parameters[f"back{number}"] = sweeps[number].back

        statement = self._heads(places, limit=limit)
        rows = self._statements.read(Lane.SCANS, statement, parameters)
        found = {row.head for row in rows}
        for number, sweep in enumerate(sweeps):
            if number not in found:
                sweep.finish()
        full = [place for number, place in enumerate(places) if number in found]
        return random.sample(full, len(full))

    def _heads(self, places: Sequence[_Place], *, limit: int) -> TextualSelect:
        branches = [
            self._statements.fill(sql.HEAD, head=number, shard=shard, limit=limit)
            for number, (_, shard) in enumerate(places)
        ]
        return self._statements.text(
            sql.HEADS,
            returns=("head",),
            branches=", ".join(branches),
            union=sql.union([f"head{number}" for number in range(len(places))]),
        )

    def _past_locks(
        self, where: object, claim: Callable[[str, str], Sequence[Row[Any]]], only: str
    ) -> Sequence[Row[Any]]:
        """Claim, past rows that a user's open transaction has locked.

        On CockroachDB such a lock may be on the row alone and not on the index that is
        walked: a claim that does not read the row waits for it. It may be on the
        definition: one that reads that waits as well. Reading all rows would lock more
        of them than are claimed, and reading their definitions apart is one statement
        more, so that is done only where it is needed.

        Args:
            where: Of which claims.
            claim: Claims what meets one more condition, and reads definitions with it
                unless there is another.
            only: The condition that makes it read the rows before it chooses.
        """
        if self._reads_rows:
            return claim(only, "")
        if careful := self._careful.get(where, 0):
            self._careful[where] = careful - 1
            return claim(only, sql.APART)
        try:
            return claim("", "")
        except StoreError as error:
            if not met_a_lock(error):
                raise
            self._careful[where] = _CAREFUL_CLAIMS
            return claim(only, sql.APART)

    def _claim_free(
        self,
        place: _Place,
        terms: Mapping[str, object],
        ahead: timedelta,
        limit: int,
    ) -> Sequence[Row[Any]]:
        queue, shard = place
        sweep = self._statements.sweep(place)

        def claim(only: str, apart: str) -> Sequence[Row[Any]]:
            parameters = {
                **terms,
                "queue": queue,
                "shard": shard,
                "back": sweep.back,
                "ahead": ahead,
            }
            statement = self._text(sql.FREE, sql.IS_FREE, limit, only, apart)
            return self._claim(sweep, statement, parameters, limit)

        rows = self._past_locks(place, claim, sql.SOUND_AND_FREE)
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
        # Those that look only for what lapsed long ago reach no further than that.
        where = ("lapsed", tuple(queues), lapsed > ZERO)
        sweep = self._statements.sweep(where)

        def claim(only: str, apart: str) -> Sequence[Row[Any]]:
            parameters = {
                **terms,
                "queues": list(queues),
                "lapsed": lapsed,
                "back": sweep.back + lapsed,
            }
            statement = self._text(sql.LAPSED, sql.HAS_LAPSED, limit, only, apart)
            return self._claim(sweep, statement, parameters, limit)

        return self._past_locks(where, claim, sql.SOUND)

    def _claim(
        self,
        sweep: Sweep,
        statement: TextualSelect,
        parameters: Mapping[str, object],
        limit: int,
    ) -> Sequence[Row[Any]]:
        def execute() -> Sequence[Row[Any]]:
            # Done and repeated, a claim would leave what it has claimed to its lease.
            return self._statements.run(
                Lane.SCANS, statement, parameters, repeatable=False
            )

        return self._statements.scan(sweep, execute, limit=limit)

    def _text(
        self, due: str, guard: str, limit: int, only: str, apart: str
    ) -> TextualSelect:
        return self._statements.text(
            sql.CLAIM,
            returns=_COLUMNS,
            limit=limit,
            sound=sql.SOUND,
            only=only,
            due=due,
            guard=guard,
            starts=sql.STARTS,
            apart=apart,
        )
