"""Statements that claim instances, and list those that are claimed."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from go_scheduler.checks import LONGEST, PRIORITIES
from go_scheduler.stores.sql.types import to_microseconds, to_sqlite_time
from go_scheduler.stores.sqlite.statements.parts import (
    INSTANCE,
    of_instances,
    of_lapsed,
)

if TYPE_CHECKING:
    from go_scheduler.stores.sqlite.statements.statement import Statement

_HIGHEST = 9_000_000_000_000_000_000
_LONGEST = to_microseconds(LONGEST)
_FIRST = to_sqlite_time(datetime.min.replace(tzinfo=UTC))
# A row that was written by other means than this package may be out of all bounds. No
# claim takes it: that could not be judged, or the instance not be named.
_SOUND = f"""
     AND typeof(due_at) = 'integer'
     AND due_at >= {_FIRST} AND due_at < :now + {_LONGEST}
     AND typeof(attempt) = 'integer' AND attempt < {_HIGHEST}
     AND typeof(runs) = 'integer' AND runs < {_HIGHEST}
     AND length(id) = 32 AND id NOT GLOB '*[^0-9a-f]*'"""
EXPIRE_AFTER = f"""coalesce(
                 CASE WHEN typeof(expire_after) = 'integer'
                      AND expire_after BETWEEN 0 AND {_LONGEST}
                 THEN expire_after END, :expire_after)"""
# What has to have a slot is left to the start.
_STARTS = "due_at <= :lead AND slot IS NULL"
_MARKED = f"""
   SET claimed_by = :node, attempt = attempt + 1, claimable_at = NULL,
       given_back = NULL,
       runs = runs + ({_STARTS}),
       started_at = CASE WHEN {_STARTS} THEN max(:now, due_at) END,
       expires_at = max(:now, due_at) + CASE WHEN {_STARTS}
           THEN min(:lease, {EXPIRE_AFTER}) ELSE :lease END"""


@lru_cache(maxsize=64)
def claim(queues: int, classes: tuple[int, ...]) -> Statement:
    """Claims in so many queues what nobody has claimed, ``:queue0`` the first.

    Args:
        queues: So many.
        classes: Those of priority to be asked, in this order.
    """
    heads = [
        f"""
    SELECT * FROM (
      SELECT id, {turn} AS turn, claimable_at, due_at FROM task_instances
       WHERE queue = :queue{number} AND priority = {priority} AND shard = 0
     AND claimable_at IS NOT NULL AND claimable_at <= :until{_SOUND}
       ORDER BY claimable_at, due_at LIMIT :limit)"""
        for number in range(queues)
        for turn, priority in enumerate(classes)
    ]
    return of_instances(f"""
UPDATE task_instances{_MARKED}
 WHERE id IN (
   SELECT id FROM ({" UNION ALL".join(heads)})
    ORDER BY turn, claimable_at, due_at LIMIT :limit)
RETURNING {INSTANCE}
""")


# Whoever finds nothing by it keeps nobody from writing. None has lapsed by NULL.
LOOK = f"""
SELECT EXISTS (
         SELECT 1 FROM task_instances
          WHERE queue IN (SELECT value FROM json_each(:queues))
            AND priority IN ({", ".join(map(str, PRIORITIES))}) AND shard = 0
            AND claimable_at IS NOT NULL AND claimable_at <= :until)
    OR EXISTS (
         SELECT 1 FROM task_instances
          WHERE claimed_by IS NOT NULL AND completed_at IS NULL AND NOT frozen
            AND expires_at <= :lapsed)
"""
FIND_LAPSED = of_lapsed(f"""
SELECT id, started_at, accepted_at, start_by, worker FROM task_instances
 WHERE claimed_by IS NOT NULL AND completed_at IS NULL AND NOT frozen
   AND expires_at <= :lapsed
   AND queue IN (SELECT value FROM json_each(:queues)){_SOUND}
 ORDER BY expires_at LIMIT :limit
""")
CLAIM_NAMED = of_instances(f"""
UPDATE task_instances{_MARKED}, worker = NULL, accepted_at = NULL, start_by = NULL,
       progress = NULL
 WHERE id IN (SELECT value FROM json_each(:ids))
RETURNING {INSTANCE}
""")

LIST_CLAIMED = of_instances(f"""
SELECT {INSTANCE}
  FROM task_instances
 WHERE claimed_by = :node AND completed_at IS NULL AND NOT frozen
   AND handed_on IS NOT attempt AND id > :after
 ORDER BY id LIMIT :limit
""")
