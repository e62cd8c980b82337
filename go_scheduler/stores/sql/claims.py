"""How instances are claimed on the PostgreSQL family: by queue, shard and time."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from go_scheduler.stores.sql import postgresql_statements as sql
from go_scheduler.stores.sql.database import Lane

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from typing import Any

    from sqlalchemy import Row

    from go_scheduler.models import Claimant
    from go_scheduler.stores.sql.statements import Statements

_COLUMNS = (*sql.BOTH, "place")


class Claims:
    """Takes what is due for a node.

    Args:
        statements: Executes them.
        shards: Over how many parts of the index instances are spread.
    """

    def __init__(self, statements: Statements, *, shards: int) -> None:
        self._statements = statements
        self._shards = shards

    def take(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: bool,
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
        places = self._places(claimant.queues, ahead)
        old: Sequence[Row[Any]] = []
        if lapsed:
            old = self._claim_lapsed(claimant.queues, limit, terms)
        new: list[Row[Any]] = []
        for queue, shard in places:
            if (left := limit - len(old) - len(new)) <= 0:
                break
            try:
                new += self._claim_free(queue, shard, left, terms, ahead=ahead)
            except Exception:
                # What has been claimed already must not be lost with what has not.
                if old or new:
                    break
                raise
        return old, new

    def _places(
        self, queues: Sequence[str], ahead: timedelta
    ) -> Sequence[tuple[str, int]]:
        """Where to claim, in a random order: nodes should not meet in one place."""
        places = [(queue, shard) for queue in queues for shard in range(self._shards)]
        if len(places) == 1:
            return places
        sweeps = [self._statements.sweep(place) for place in places]
        branches = ", ".join(
            self._statements.fill(sql.HEAD, head=number, shard=shard)
            for number, (_, shard) in enumerate(places)
        )
        statement = self._statements.text(
            sql.HEADS,
            returns=("head",),
            branches=branches,
            union=sql.union([f"head{number}" for number in range(len(places))]),
        )
        parameters: dict[str, object] = {"ahead": ahead}
        for number, (queue, _) in enumerate(places):
            parameters[f"queue{number}"] = queue
            parameters[f"back{number}"] = sweeps[number].back
        rows = self._statements.run(Lane.SCANS, statement, parameters)
        found = {row.head for row in rows}
        for number, sweep in enumerate(sweeps):
            if number not in found:
                sweep.finish()
        full = [place for number, place in enumerate(places) if number in found]
        return random.sample(full, len(full))

    def _claim_free(
        self,
        queue: str,
        shard: int,
        limit: int,
        terms: Mapping[str, object],
        *,
        ahead: timedelta,
    ) -> Sequence[Row[Any]]:
        sweep = self._statements.sweep((queue, shard))
        statement = self._statements.text(
            sql.CLAIM,
            returns=_COLUMNS,
            due=sql.FREE,
            guard=sql.IS_FREE,
            starts=sql.STARTS,
            limit=limit,
        )
        parameters = {
            **terms,
            "queue": queue,
            "shard": shard,
            "position": sweep.position,
            "back": sweep.back,
            "ahead": ahead,
        }
        # Done and repeated, a claim would leave what it has claimed to its lease.
        rows = self._statements.scan(
            sweep, statement, parameters, limit=limit, repeatable=False
        )
        if len(rows) == limit:
            sweep.go_on(max(row[-1] for row in rows))
        return rows

    def _claim_lapsed(
        self, queues: Sequence[str], limit: int, terms: Mapping[str, object]
    ) -> Sequence[Row[Any]]:
        sweep = self._statements.sweep(("lapsed", tuple(queues)))
        statement = self._statements.text(
            sql.CLAIM,
            returns=_COLUMNS,
            due=sql.LAPSED,
            guard=sql.HAS_LAPSED,
            starts=sql.STARTS,
            limit=limit,
        )
        parameters = {**terms, "queues": list(queues), "back": sweep.back}
        return self._statements.scan(
            sweep, statement, parameters, limit=limit, repeatable=False
        )
