"""Queues in which something is due, but for those that are known to be served."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from sqlalchemy import select

from go_scheduler.stores.sql.tables import instances

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection

    from go_scheduler.stores.sql.dialect import Dialect


def due_queues(
    connection: Connection, dialect: Dialect, apart_from: Collection[str]
) -> set[str]:
    """One of each gap that these leave between them in the order of the index.

    Only the gaps are walked over, and nothing of these queues: where claims have been
    made for hours, the traces that they leave in an index may take long to walk over.
    """
    now = dialect.now(connection)
    several = len(apart_from) > 1
    known = dialect.ordered(connection, apart_from) if several else apart_from
    bounds = ("", *known, None)
    found: set[str] = set()
    for low, high in pairwise(bounds):
        queue = instances.c.queue
        query = select(queue).limit(1).where(queue > low)
        if high is not None:
            query = query.where(queue < high)
        query = query.where(
            instances.c.claimable_at.is_not(None), instances.c.claimable_at <= now
        )
        query = dialect.looked_up(query, instances, "task_instances_claimable_idx")
        found.update(connection.execute(query).scalars())
    return found
