"""What is deleted because it is over, and what nodes tell of themselves."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, select

from go_scheduler.checks import LONGEST
from go_scheduler.models import Histogram, QueueStats
from go_scheduler.models.counts import MINUTE
from go_scheduler.stores.base import CONTACTS_KEPT, STATS_KEPT
from go_scheduler.stores.rules import note_forgotten
from go_scheduler.stores.sql.database import Lane
from go_scheduler.stores.sql.edits import batch_of
from go_scheduler.stores.sql.rows import (
    CONTACT_COLUMNS,
    EARLIEST,
    LATEST,
    Unreadable,
    from_microseconds,
    read_contacts,
    to_microseconds,
    write_announcement,
)
from go_scheduler.stores.sql.runs import COMING
from go_scheduler.stores.sql.statement import SQLPart, Statement, first_of_each_shard
from go_scheduler.stores.sql.tables import settings
from go_scheduler.stores.sql.tables import stats as counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from go_scheduler.stores.messages import Announcement, NodeContact, Retention


# One whose fire time is to come stays: by it a pause or an edit knows that it has
# begun.
@lru_cache
def find_instances(shards: int, *, failed: bool) -> Statement:
    """Finds instances that ended long ago, those that failed or all others."""
    index, equal = ("failed", "=") if failed else ("ended", "<>")
    part = f"""
SELECT id, completed_at, now() AS now FROM task_instances@task_instances_{index}_idx
 WHERE {{shard}}completed_at IS NOT NULL AND outcome {equal} 'failed'
   AND completed_at >= now() - CAST(:back AS interval)
   AND completed_at <= now() - CAST(:older_than AS interval)
   AND ({COMING.replace("t.", "")}) IS NOT TRUE
   AND on_sqlite(typeof(id) = 'text' AND length(id) = 32)
   AND on_sqlite(id NOT GLOB '*[^0-9a-f]*')
   AND on_sqlite(typeof(completed_at) = 'integer' AND completed_at >= :earliest)"""
    return Statement(first_of_each_shard(part, "completed_at", shards))


# No index has ``attempt``: rows are read before they are chosen. Those that are locked
# are skipped, and those that have been made to run again.
_DELETE_INSTANCES = Statement("""
WITH old AS MATERIALIZED (
  SELECT t.id, t.attempt, t.error IS NOT NULL OR t.outcome <> 'completed' AS failed
    FROM batch AS x (id uuid, ended timestamptz)
    JOIN task_instances@task_instances_pkey AS t ON t.id = x.id
   WHERE t.completed_at = x.ended
   FOR UPDATE OF t SKIP LOCKED),
runs AS (
  DELETE FROM task_runs@task_runs_pkey AS r USING old AS old
   WHERE r.instance_id = old.id AND (old.attempt > 1 OR old.failed)
  RETURNING r.attempt)
DELETE FROM task_instances@task_instances_pkey AS t USING old AS old
 WHERE t.id = old.id
RETURNING t.id
""")


# Whose instances have all been deleted, by a look at what nobody is adding.
_IS_EMPTY = """NOT EXISTS (SELECT 1 FROM task_instances@task_instances_fire_key AS i
                      WHERE i.definition_key = d.key)"""


@lru_cache
def find_definitions(shards: int, since: str) -> Statement:
    """Finds definitions without instances that ended long ago, or were deleted."""
    index = f"task_definitions_{since.removesuffix('_at')}_idx"
    part = f"""
SELECT d.key AS d_key, d.{since} FROM task_definitions@{index} AS d
 WHERE {{shard}}d.{since} IS NOT NULL
   AND d.{since} <= now() - CAST(:older_than AS interval)
   AND {_IS_EMPTY}"""
    return Statement(first_of_each_shard(part, since, shards))


# Whoever adds an instance to a definition holds it until that has been committed: what
# comes after this statement sees the instance.
_LOCK_DEFINITIONS = Statement("""
SELECT key AS d_key FROM task_definitions@task_definitions_pkey
 WHERE key IN (SELECT x.key FROM batch AS x (key uuid))
 ORDER BY key FOR UPDATE SKIP LOCKED
""")


def _delete_definitions(since: str) -> Statement:
    """Deletes those that still are as they were found; remembers ids that ended."""
    return Statement(f"""
WITH old AS MATERIALIZED (
  SELECT d.key
    FROM batch AS x (key uuid)
    JOIN task_definitions@task_definitions_pkey AS d ON d.key = x.key
   WHERE d.{since} <= now() - CAST(:older_than AS interval) AND {_IS_EMPTY}),
gone AS (
  DELETE FROM task_definitions@task_definitions_pkey AS d USING old AS o
   WHERE d.key = o.key
  RETURNING d.key, d.id, d.shard, d.revision, d.completed_at, d.named),
emptied AS (
  DELETE FROM task_contents@task_contents_pkey AS c USING gone AS g
   WHERE c.key = g.key
  RETURNING c.key, c.trigger_kind, c.trigger_state),
remembered AS (
  INSERT INTO task_tombstones
         (id, shard, trigger_kind, trigger_state, revision, completed_at)
  SELECT g.id, g.shard, e.trigger_kind, e.trigger_state, g.revision, g.completed_at
    FROM gone AS g JOIN emptied AS e ON e.key = g.key
   WHERE g.named AND g.completed_at IS NOT NULL
  ON CONFLICT (id) DO UPDATE
     SET trigger_kind = excluded.trigger_kind, trigger_state = excluded.trigger_state,
         revision = excluded.revision, completed_at = excluded.completed_at
  RETURNING id)
SELECT key AS d_key FROM gone
""")


_DELETE_COMPLETED = _delete_definitions("completed_at")
_DELETE_DELETED = _delete_definitions("deleted_at")


@lru_cache
def find_remembered(shards: int) -> Statement:
    """Finds remembered ids, those first that ended first."""
    part = """
SELECT id, completed_at FROM task_tombstones@task_tombstones_completed_idx
 WHERE {shard}completed_at <= now() - CAST(:older_than AS interval)"""
    return Statement(first_of_each_shard(part, "completed_at, id", shards))


_NO_AGE = -LONGEST
_COUNT_REMEMBERED = Statement("""
SELECT count(*) AS remembered
  FROM (SELECT t.id FROM task_tombstones@task_tombstones_completed_idx AS t
         LIMIT :limit) AS known
""")
# One that a user's transaction has locked stays until the next time.
_FORGET = Statement("""
WITH old AS MATERIALIZED (
  SELECT t.id
    FROM batch AS x (id uuid)
    JOIN task_tombstones@task_tombstones_pkey AS t ON t.id = x.id
   FOR UPDATE OF t SKIP LOCKED)
DELETE FROM task_tombstones@task_tombstones_pkey AS t USING old AS old
 WHERE t.id = old.id
RETURNING t.id
""")
# What was counted goes with it: by itself it would be one way more to a server.
_DELETE_CONTACTS = Statement("""
WITH old AS MATERIALIZED (
  SELECT every, begins_at, queue, node FROM task_stats@task_stats_pkey
   WHERE every = 60000000 AND begins_at < now() - CAST(:stats_kept AS interval)
   ORDER BY every, begins_at, queue, node LIMIT 5000 FOR UPDATE SKIP LOCKED),
counted AS (
  DELETE FROM task_stats@task_stats_pkey AS s USING old AS old
   WHERE s.every = old.every AND s.begins_at = old.begins_at AND s.queue = old.queue
     AND s.node = old.node
  RETURNING s.every)
DELETE FROM task_nodes WHERE seen_at < now() - CAST(:kept AS interval) RETURNING node
""")
_NOTE_CONTACT = Statement("""
INSERT INTO task_nodes (node, contact_since, seen_at, queues, names, host, pid, version,
                        lease, stopping)
VALUES (CAST(:node AS uuid), now() - CAST(:unbroken AS interval), now(),
        CAST(:queues AS text), CAST(:names AS text), CAST(:host AS text),
        CAST(:pid AS bigint), CAST(:version AS text), CAST(:lease AS bigint),
        CAST(:stopping AS boolean))
ON CONFLICT (node) DO UPDATE
   SET contact_since = excluded.contact_since, seen_at = excluded.seen_at,
       queues = excluded.queues, names = excluded.names, host = excluded.host,
       pid = excluded.pid, version = excluded.version, lease = excluded.lease,
       stopping = excluded.stopping
RETURNING node
""")
_LIST_CONTACTS = Statement(f"""
SELECT {", ".join(CONTACT_COLUMNS)}
  FROM task_nodes
 WHERE seen_at >= now() - CAST(:within AS interval)
""")


class SQLCleanup(SQLPart):
    """Deletes what is over."""

    most_remembered: int
    # How many ids may have been remembered since they were counted: a count reads as
    # many as may be kept, and is made only when so many are new.
    _made = math.inf

    def delete_finished(self, retention: Retention, *, limit: int) -> int:
        """Delete what ended long ago."""
        shards = self._dialect.shards
        older_than = min(retention.ended, LONGEST)
        find = find_instances(shards, failed=False)
        left = limit - self._delete_instances(find, older_than, limit)
        if left:
            find = find_instances(shards, failed=True)
            failed = min(retention.failed, LONGEST)
            left -= self._delete_instances(find, failed, left)
        if left:
            find = find_definitions(shards, "completed_at")
            completed = self._delete(find, _DELETE_COMPLETED, older_than, left)
            left -= completed
            # Rows that a delete has left behind for their history count for nobody.
            find = find_definitions(shards, "deleted_at")
            self._delete(find, _DELETE_DELETED, older_than, limit)
            terms = {"kept": CONTACTS_KEPT, "stats_kept": STATS_KEPT}
            self._statements.run(Lane.BY_TIME, _DELETE_CONTACTS, terms)
            self._forget_ended(retention.remembered, made=completed, limit=limit)
        # Nobody waits for a cleanup.
        self._database.replace_one()
        return limit - left

    def _delete_instances(
        self, find: Statement, older_than: timedelta, limit: int
    ) -> int:
        sweep = self._statements.sweep((find, older_than))
        terms = {
            "older_than": older_than,
            "back": sweep.back + older_than,
            "earliest": EARLIEST,
            "latest": LATEST,
            "limit": limit,
        }
        deleted = 0
        # What a delete that fails has left is behind the place that was reached.
        with self._statements.scanning(sweep):
            found = self._statements.read(Lane.BY_TIME, find, terms)
            if found:
                rows = {"x": [(row.id, row.completed_at) for row in found]}
                run = self._statements.run
                deleted = len(run(Lane.BY_TIME, _DELETE_INSTANCES, {}, rows))
        if len(found) < limit:
            sweep.finish()
        else:
            sweep.go_on(found[0].now - found[-1].completed_at - older_than)
        return deleted

    def _delete(
        self, find: Statement, delete: Statement, older_than: timedelta, limit: int
    ) -> int:
        terms = {"older_than": older_than}
        found = self._statements.read(Lane.BY_TIME, find, {**terms, "limit": limit})
        if not found:
            return 0

        def work(connection: Connection) -> int:
            execute = self._statements.execute
            keys = [(row.d_key,) for row in found]
            free = execute(connection, _LOCK_DEFINITIONS, {}, {"x": keys})
            keys = [(row.d_key,) for row in free]
            return len(execute(connection, delete, terms, {"x": keys}))

        return self._database.transact(work)

    def _forget_ended(self, remember: timedelta, *, made: int, limit: int) -> None:
        """Forget ids that ended long ago, or are too many."""
        self._forget_first(limit, older_than=min(remember, LONGEST))
        most = self.most_remembered
        self._made += made
        if self._made * 100 < most:
            return
        terms = {"limit": most + limit}
        [row] = self._statements.read(Lane.BY_TIME, _COUNT_REMEMBERED, terms)
        forgotten = self._forget_first(row.remembered - most, older_than=_NO_AGE)
        if forgotten < limit:
            self._made = 0
        note_forgotten(forgotten, most=most)

    def _forget_first(self, count: int, *, older_than: timedelta) -> int:
        """Forget so many ids, those first that ended first; answer how many it were."""
        if count <= 0:
            return 0
        terms = {"older_than": older_than, "limit": count}
        find = find_remembered(self._dialect.shards)
        found = self._statements.read(Lane.BY_TIME, find, terms)
        if not found:
            return 0
        ids = {"x": batch_of(row.id for row in found)}
        return len(self._statements.run(Lane.BY_TIME, _FORGET, {}, ids))


SHARDS = "shards"
"""The setting that has the number of shards with which the database was made."""


_LATER = "later"
_EVERY = to_microseconds(MINUTE)
_KEY = (counted.c.every, counted.c.begins_at, counted.c.queue, counted.c.node)


class SQLNodes(SQLPart):
    """Keeps what nodes tell of themselves, what they count, and what they agree on."""

    def note_contact(self, announced: Announcement, *, unbroken: timedelta) -> None:
        """Record that a node has been in contact with the store up to now."""
        terms = {
            "node": announced.node,
            "unbroken": unbroken,
            **write_announcement(announced),
        }
        self._statements.run(Lane.RENEWALS, _NOTE_CONTACT, terms)

    def list_contacts(self, *, within: timedelta) -> Sequence[NodeContact]:
        """Read when nodes were in contact with the store."""
        terms = {"within": within}
        return read_contacts(self._statements.read(Lane.BY_TIME, _LIST_CONTACTS, terms))

    def keep_setting(self, name: str, value: str) -> str:
        """Agree on a setting: the first to ask has set it."""
        # It waits for whoever sets it at this moment, so that what is read is there.
        new = self._dialect.insert(settings).values(name=name, value=value)
        query = select(settings.c.value).where(settings.c.name == name)

        def keep(connection: Connection) -> str:
            connection.execute(new.on_conflict_do_nothing())
            return str(connection.execute(query).scalar_one())

        return self._database.transact(keep)

    def note_stats(self, node: UUID, stats: Sequence[QueueStats]) -> None:
        """Keep what a node has counted."""
        new = self._dialect.insert(counted).values(
            [_stats_row(node, each) for each in stats]
        )
        values = {"ended": new.excluded.ended, "lateness": new.excluded.lateness}
        noted = new.on_conflict_do_update(index_elements=_KEY, set_=values)
        self._database.transact(lambda each: each.execute(noted))

    def list_stats(self, *, since: datetime, until: datetime) -> Sequence[QueueStats]:
        """Read what was counted, but for what cannot be read."""
        column = counted.c
        query = (
            select(column.begins_at, column.queue, column.ended, column.lateness)
            .where(
                column.every == _EVERY,
                column.begins_at >= since,
                column.begins_at < until,
            )
            .order_by(*_KEY)
        )
        rows = self._list(lambda connection: connection.execute(query).all())
        return [each for each in map(_read_stats, rows) if each is not None]


def _stats_row(node: UUID, noted: QueueStats) -> dict[str, object]:
    return {
        "every": _EVERY,
        "begins_at": noted.at,
        "queue": noted.queue,
        "node": node,
        "ended": json.dumps(dict(noted.ended)),
        "lateness": json.dumps(
            {
                _LATER if bound is None else to_microseconds(bound): count
                for bound, count in noted.lateness.buckets()
            }
        ),
    }


def _read_stats(row: Any) -> QueueStats | None:
    try:
        ended = {str(how): int(n) for how, n in json.loads(row.ended).items()}
        lateness = Histogram.of(
            (None if bound == _LATER else from_microseconds(int(bound)), int(count))
            for bound, count in json.loads(row.lateness).items()
        )
    # A row that was written by other means than this package may hold anything.
    except (ValueError, TypeError, AttributeError, OverflowError):
        return None
    if isinstance(row.begins_at, Unreadable):
        return None
    return QueueStats(at=row.begins_at, queue=row.queue, ended=ended, lateness=lateness)
