"""Statements for instances that users ask for: what is there already, and backfills."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.models.values import new_ids
from go_scheduler.stores.rules import check_is_as_read, overlap_of_backfilled, slot_of
from go_scheduler.stores.sql.database import Overtaken
from go_scheduler.stores.sql.rows import (
    DEFINITION_COLUMNS,
    INSTANCE_COLUMNS,
    ContentsRow,
    DefinitionRow,
    read_contents,
    read_definition,
)
from go_scheduler.stores.sql.runs import NOT_ELSEWHERE
from go_scheduler.stores.sql.statement import CONTENTS, SQLPart, Statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from sqlalchemy import Connection

    from go_scheduler.models import TaskDefinition
    from go_scheduler.policies import Overlap
    from go_scheduler.stores.messages import Addition
    from go_scheduler.stores.sql.statement import Statements

_WIDTH = len(DEFINITION_COLUMNS)


def _live(lock: str = "") -> Statement:
    """Reads a definition with its contents, and locks it."""
    columns = ", ".join(f"d.{name}" for name in DEFINITION_COLUMNS)
    return Statement(
        f"""
SELECT {columns},
       {CONTENTS}
  FROM task_definitions@task_definitions_id_key AS d
       LEFT JOIN task_contents@task_contents_pkey AS c ON c.key = d.key
 WHERE d.id = CAST(:definition_id AS uuid) AND d.deleted_at IS NULL{lock}
""",
        (
            *(f"d_{name}" for name in DEFINITION_COLUMNS),
            *(f"c_{name}" for name in ContentsRow._fields),
        ),
    )


LIVE = _live()
LIVE_AND_SHARED = _live(" FOR KEY SHARE OF d")
"""Whoever edits, pauses or deletes it waits, and then finds what is added."""
LIVE_AND_LOCKED = _live(" FOR NO KEY UPDATE OF d")
"""So does whoever adds to it likewise."""


def lock_live(
    statements: Statements, connection: Connection, lock: Statement, id: UUID
) -> tuple[UUID, TaskDefinition]:
    """Lock a definition; the key of its row, and itself.

    Raises:
        TaskDefinitionNotFoundError: There is none with this id.
    """
    for row in statements.execute(connection, lock, {"definition_id": id}):
        return row.d_key, live_in(row)
    raise TaskDefinitionNotFoundError(id)


def live_in(row: Any) -> TaskDefinition:
    """The definition in a row of ``LIVE``."""
    contents = None if row.c_trigger_kind is None else ContentsRow(*row[_WIDTH:])
    return read_definition(DefinitionRow(*row[:_WIDTH]), read_contents(contents))


_COLUMNS = ", ".join(f"i.{name}" for name in INSTANCE_COLUMNS)
_EXISTING = Statement(
    f"""
SELECT {_COLUMNS}
  FROM task_instances@task_instances_pkey AS i
 WHERE i.id IN (SELECT x.id FROM batch AS x (id uuid, key text))
UNION ALL
SELECT {_COLUMNS}
  FROM task_instances@task_instances_key_key AS i
 WHERE i.definition_key = CAST(:key AS uuid) AND i.key IS NOT NULL
   AND i.key IN (SELECT x.key FROM batch AS x (id uuid, key text))
""",
    INSTANCE_COLUMNS,
)
_WAITING = Statement(
    """
SELECT count(*) AS waiting
  FROM (SELECT i.id FROM task_instances@task_instances_open_idx AS i
         WHERE i.definition_key = CAST(:key AS uuid)
           AND i.completed_at IS NULL AND i.outcome IS NULL
           AND (i.claimed_by IS NULL OR i.started_at IS NULL OR i.start_by IS NOT NULL)
         LIMIT :limit) AS few
""",
    ("waiting",),
)


def find(
    statements: Statements,
    connection: Connection,
    key: UUID,
    additions: Sequence[Addition],
) -> Sequence[Any]:
    """Rows of ``INSTANCE_COLUMNS`` with the ids of additions, or with their keys.

    Args:
        statements: Executes it.
        connection: Of ours, or of the user's.
        key: Of the definition's row.
        additions: What is looked for.
    """
    batch = [(each.id, each.key) for each in additions]
    return statements.execute(connection, _EXISTING, {"key": key}, {"x": batch})


def existing(
    statements: Statements,
    connection: Connection,
    key: UUID,
    additions: Sequence[Addition],
) -> Mapping[UUID, Any]:
    """Of what was not added the rows in its place, each by the id of its addition.

    Raises:
        Overtaken: There is none of one: somebody else adds it, or deletes it.
    """
    rows = find(statements, connection, key, additions)
    by_id = {row.id: row for row in rows}
    by_key = {row.key: row for row in rows if row.definition_key == key and row.key}
    found = {each.id: by_id.get(each.id) or by_key.get(each.key) for each in additions}
    if None in found.values():
        raise Overtaken
    return found


def count_waiting(
    statements: Statements, connection: Connection, key: UUID, most: int
) -> int:
    """How many instances of a definition have not begun, up to a bound."""
    terms = {"key": key, "limit": most}
    return int(statements.execute(connection, _WAITING, terms)[0].waiting)


# One that was skipped is as if it were new.
_BACKFILL = Statement(
    f"""
WITH made AS (
  INSERT INTO task_instances AS t
         (id, definition_key, shard, queue, priority, expire_after, slot, overlap,
          frozen, backfilled, trace_context, created_at, fire_time, execute_at, due_at,
          claimable_at)
  SELECT x.id, d.key, x.shard, d.queue, d.priority, d.expire_after,
         CAST(:slot AS text), CAST(:overlap AS text), d.paused,
         CAST(:backfilled AS text), CAST(:trace_context AS text), now(), x.at, x.at,
         x.at, CASE WHEN NOT d.paused THEN greatest(x.at, now()) END
    FROM batch AS x (id uuid, shard bigint, at timestamptz)
    JOIN task_definitions@task_definitions_pkey AS d ON d.key = CAST(:key AS uuid)
   WHERE true
  ON CONFLICT (definition_key, fire_time) DO UPDATE
     SET queue = excluded.queue, priority = excluded.priority,
         expire_after = excluded.expire_after, slot = excluded.slot,
         overlap = excluded.overlap, frozen = excluded.frozen,
         backfilled = excluded.backfilled, trace_context = excluded.trace_context,
         due_at = t.execute_at,
         claimable_at = CASE WHEN NOT excluded.frozen
                        THEN greatest(t.execute_at, now()) END,
         parked = false, waits = false, runs = 0, hangs = 0, claimed_by = NULL,
         {NOT_ELSEWHERE},
         given_back = NULL, expires_at = NULL, started_at = NULL, completed_at = NULL,
         outcome = NULL, ended_attempt = NULL, cancel_requested = false,
         skipped_first = NULL, skipped_last = NULL, skipped_count = NULL,
         skipped_reason = NULL
   WHERE t.outcome = 'skipped' AND t.backfilled IS NULL
  RETURNING fire_time, claimable_at)
SELECT fire_time, notified(made, claimable_at, i) AS hinted FROM made
""",
    ("fire_time", "hinted"),
)


class SQLByHand(SQLPart):
    """Makes instances, each batch in a transaction of its own."""

    def backfill_instances(
        self,
        definition: TaskDefinition,
        fire_times: Sequence[datetime],
        *,
        overlap: Overlap,
    ) -> Sequence[datetime]:
        """Make instances for fire times of a definition that have none."""
        return self._database.transact(
            lambda each: self._backfill(each, definition, fire_times, overlap),
            # What was made, and is repeated, is there already.
            repeatable=False,
        )

    def _backfill(
        self,
        connection: Connection,
        definition: TaskDefinition,
        fire_times: Sequence[datetime],
        overlap: Overlap,
    ) -> Sequence[datetime]:
        # As whoever fires it: no two make the same at one moment, and a loop finds a
        # definition that is busy, and not rows that a transaction of the user's has
        # made.
        key, of = lock_live(
            self._statements, connection, LIVE_AND_SHARED, definition.id
        )
        check_is_as_read(definition, of.revision)
        if not fire_times:
            return []
        judged_by = overlap_of_backfilled(overlap)
        terms = {
            "key": key,
            "slot": slot_of(of, fired=False, backfilled=overlap),
            "overlap": None if judged_by is None else judged_by.value,
            "backfilled": overlap.value,
            "trace_context": definition.trace_context,
            "hint_within": self._dialect.hint_within(connection, late=False),
        }
        ids = new_ids(len(fire_times))
        # One order for all nodes, so that none waits for another in a circle.
        batch = [
            (id, self._dialect.shard_of(id), at)
            for id, at in zip(ids, sorted(fire_times), strict=True)
        ]
        rows = self._statements.execute(connection, _BACKFILL, terms, {"x": batch})
        done = {row.fire_time for row in rows}
        return [each for each in fire_times if each in done]
