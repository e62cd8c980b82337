"""The statements of the PostgreSQL family: what the loops do, each over a batch.

Each is one statement that commits by itself. Who owns what rests on the conditions of
the UPDATEs alone; SKIP LOCKED only keeps nodes out of each other's way. Every parameter
is cast, for CockroachDB infers other types than PostgreSQL. ``{now}`` is the database's
``now()``, or the time of the clock that the store was given; a limit is written out,
because CockroachDB does not push down one that it does not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.stores.sql.rows import CLAIMED_COLUMNS, DEFINITION_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable

INSTANCE = ", ".join(f"t.{name}" for name in CLAIMED_COLUMNS)
# What follows the columns of an instance; its definition's key is among those.
_REST = DEFINITION_COLUMNS[1:]
OF_DEFINITION = "d_"
DEFINITION = ", ".join(f"d.{name} AS {OF_DEFINITION}{name}" for name in _REST)
# On CockroachDB a statement that reads a definition waits for whoever is writing it. A
# claim or a start that met such a lock leaves definitions out: they are read after it.
APART = "AND false"
BOTH = (*CLAIMED_COLUMNS, *(OF_DEFINITION + name for name in _REST))
# What was written by hand may be out of all bounds.
EXPIRE_AFTER = """
coalesce(CASE WHEN t.expire_after BETWEEN 0 AND 3155760000000000
              THEN t.expire_after END * interval '1 microsecond',
         CAST(:expire_after AS interval))
"""
WORDS = {"instance": INSTANCE, "definition": DEFINITION, "expire_after": EXPIRE_AFTER}
"""What every statement may use, beside ``{now}`` and where it looks rows up."""
INDEXES = {
    "due_in_time": "task_definitions_due_idx",
    "due_late": "task_definitions_late_idx",
    "over_completed_at": "task_definitions_completed_idx",
    "over_deleted_at": "task_definitions_deleted_idx",
    "claimable": "task_instances_claimable_idx",
    "leases": "task_instances_lease_idx",
    "ended": "task_instances_ended_idx",
    "failed": "task_instances_failed_idx",
    "live": "task_definitions_id_key",
    "former": "task_definitions_former_idx",
    "remembered": "task_tombstones_pkey",
    "definitions_key": "task_definitions_pkey",
    "contents_key": "task_contents_pkey",
    "instances_key": "task_instances_pkey",
    "fired": "task_instances_fire_key",
    "open": "task_instances_open_idx",
}
"""Where rows are looked up, each by the word that follows the table's name.

On CockroachDB it says so: by statistics that are missing, or stale, the whole table may
seem to be cheaper to read. On PostgreSQL the connections' settings see to it.
"""

# Of ids that are new in every respect, so that nothing has to be read first. Each of
# the conditions is written so that it is a look-up, as UNLESS_OPEN is; for ON CONFLICT,
# CockroachDB would read the whole index where statistics say that it is short.
INSERT_NEW = """
WITH x AS MATERIALIZED (
  SELECT * FROM unnest(
         CAST(:keys AS uuid[]), CAST(:ids AS uuid[]), CAST(:shards AS bigint[]),
         CAST(:queues AS text[]), CAST(:expiries AS bigint[]),
         CAST(:waits AS boolean[]), CAST(:fire_times AS timestamptz[]),
         CAST(:paused AS boolean[]), CAST(:notes AS text[]),
         CAST(:named AS boolean[]), CAST(:names AS text[]), CAST(:metadata AS text[]),
         CAST(:kinds AS text[]), CAST(:states AS text[]), CAST(:policies AS text[]))
         AS x (key, id, shard, queue, expire_after, waits, next_fire_time, paused, note,
               named, name, metadata, trigger_kind, trigger_state, policies)),
made AS (
  INSERT INTO task_definitions
         (key, id, shard, queue, expire_after, waits, next_fire_time, late, paused,
          note, completed_at, revision, named, created_at)
  SELECT x.key, x.id, x.shard, x.queue, x.expire_after, x.waits, x.next_fire_time,
         CAST(:is_late AS boolean)
         OR coalesce(x.next_fire_time <= {now} - CAST(:late AS interval), false),
         x.paused, CASE WHEN x.paused THEN x.note END,
         CASE WHEN x.next_fire_time IS NULL AND NOT x.waits THEN {now} END, 1, x.named,
         {now}
    FROM x
   WHERE NOT EXISTS (SELECT 1 FROM task_definitions{live} AS d
                      WHERE d.id = x.id AND d.deleted_at IS NULL OFFSET 0)
     AND NOT EXISTS (SELECT 1 FROM task_definitions{former} AS d
                      WHERE d.id = x.id AND d.deleted_at IS NOT NULL OFFSET 0)
     AND NOT EXISTS (SELECT 1 FROM task_tombstones{remembered} AS t
                      WHERE t.id = x.id OFFSET 0)
  RETURNING key, id),
kept AS (
  INSERT INTO task_contents
         (key, name, metadata, metadata_search, trigger_kind, trigger_state, policies)
  SELECT x.key, x.name, x.metadata, CAST(x.metadata AS jsonb), x.trigger_kind,
         x.trigger_state, x.policies
    FROM x JOIN made ON made.key = x.key
  RETURNING key)
SELECT id, {now} AS now FROM made
"""

DUE = """
WITH {branches}
SELECT {columns}, {now} AS now FROM ({union}) AS due
 ORDER BY next_fire_time, id LIMIT {limit}
"""
DUE_IN_TIME = """
in_time{shard} AS MATERIALIZED (
  SELECT {columns} FROM task_definitions{due_in_time}
   WHERE shard = {shard} AND next_fire_time IS NOT NULL AND NOT paused AND NOT late
     AND next_fire_time >= {now} - CAST(:back AS interval)
     AND next_fire_time <= {now} + CAST(:ahead AS interval) {after}
   ORDER BY next_fire_time, id LIMIT {limit})
"""
DUE_LATE = """
late AS MATERIALIZED (
  SELECT {columns} FROM task_definitions{due_late}
   WHERE next_fire_time IS NOT NULL AND NOT paused AND late
     AND next_fire_time <= {now} + CAST(:ahead AS interval) {after}
   ORDER BY next_fire_time, id LIMIT {limit})
"""
AFTER = """
   AND (next_fire_time, id)
       > (CAST(:after_time AS timestamptz), CAST(:after_id AS uuid))
"""

# Where definitions are named by their ids, PostgreSQL is not to know how many: for many
# it would read the whole index, if no statistics say how large that is.
FIRE = """
WITH moved AS (
  UPDATE task_definitions{live} AS d
     SET next_fire_time = x.next_at,
         late = coalesce(x.next_at <= {now} - CAST(:late AS interval), false),
         completed_at = CASE WHEN x.next_at IS NULL AND NOT d.waits THEN {now}
                        END
    FROM unnest((SELECT CAST(:ids AS uuid[])),
                (SELECT CAST(:expected AS timestamptz[])),
                (SELECT CAST(:revisions AS bigint[])),
                (SELECT CAST(:next_times AS timestamptz[])))
         AS x (id, expected, revision, next_at)
   WHERE d.id = x.id AND d.deleted_at IS NULL AND NOT d.paused
     AND d.next_fire_time IS NOT DISTINCT FROM x.expected AND d.revision = x.revision
     {unless}
  RETURNING d.key, d.id, d.queue, d.expire_after, d.waits),
made AS (
  INSERT INTO task_instances
         (id, definition_key, shard, queue, expire_after, waits, fire_time, execute_at,
          due_at, claimable_at, outcome, completed_at, skipped_last, skipped_count,
          skipped_reason)
  SELECT f.id, m.key, f.shard, m.queue, m.expire_after, m.waits, f.fire_time,
         f.fire_time, f.fire_time,
         CASE WHEN f.reason IS NULL THEN greatest(f.fire_time, {now}) END,
         CASE WHEN f.reason IS NOT NULL THEN 'skipped' END,
         CASE WHEN f.reason IS NOT NULL THEN {now} END,
         f.last, f.count, f.reason
    FROM unnest(CAST(:instance_ids AS uuid[]), CAST(:definition_ids AS uuid[]),
                CAST(:shards AS bigint[]), CAST(:fire_times AS timestamptz[]),
                CAST(:lasts AS timestamptz[]), CAST(:counts AS bigint[]),
                CAST(:reasons AS text[]))
         AS f (id, definition_id, shard, fire_time, last, count, reason)
    JOIN moved AS m ON m.id = f.definition_id
  ON CONFLICT (definition_key, fire_time) DO NOTHING RETURNING id)
SELECT id FROM moved
"""

# For a batch in which some wait for the end of a run. In any other a server would be
# free to look at more instances than it has to, and to wait for those that are locked.
# Written so, CockroachDB looks up; and by OFFSET PostgreSQL, which could read all that
# is open to join it.
UNLESS_OPEN = """
     AND NOT EXISTS (
           SELECT 1 FROM task_instances{open} AS o
            WHERE o.definition_key = d.key AND d.waits
              AND o.completed_at IS NULL AND o.outcome IS NULL OFFSET 0)
"""

# A guess at where there is anything to claim, when there is more than one place. On
# CockroachDB a plain read of what a claim would take settles it: the claim finds it.
HEADS = """
WITH {branches} SELECT DISTINCT head FROM ({union}) AS heads
"""
HEAD = """
head{head} AS MATERIALIZED (
  SELECT {head} AS head, claimable_at FROM task_instances{claimable}
   WHERE queue = CAST(:queue{head} AS text) AND shard = {shard}
     AND claimable_at IS NOT NULL
     AND claimable_at >= {now} - CAST(:back{head} AS interval)
     AND claimable_at <= {now} + CAST(:ahead AS interval)
   ORDER BY claimable_at LIMIT {limit})
"""
CLAIM = """
WITH due AS MATERIALIZED ({due}),
t AS (
  UPDATE task_instances{instances_key} AS t
     SET claimed_by = CAST(:node AS uuid), attempt = t.attempt + 1, claimable_at = NULL,
         runs = t.runs + CASE WHEN {starts} THEN 1 ELSE 0 END,
         started_at = CASE WHEN {starts} THEN greatest({now}, t.due_at) END,
         expires_at = greatest({now}, t.due_at) + CASE WHEN {starts}
             THEN least(CAST(:lease AS interval),
                        {expire_after})
             ELSE CAST(:lease AS interval) END
    FROM due
   WHERE t.id = due.id AND {guard} {sound}
  RETURNING {instance}, due.place)
SELECT {instance}, {definition}, t.place, {now} AS now
  FROM t LEFT JOIN task_definitions{definitions_key} AS d
                   ON d.key = t.definition_key {apart}
"""
# What was written by hand may be out of all bounds here as well.
SOUND = """
     AND attempt < 9000000000000000000 AND runs < 9000000000000000000
     AND due_at < {now} + interval '36525 days'
"""
STARTS = "t.due_at <= {now} + CAST(:lead AS interval)"
FREE = """
  SELECT id, claimable_at AS place FROM task_instances{claimable}
   WHERE queue = CAST(:queue AS text) AND shard = CAST(:shard AS bigint)
     AND claimable_at IS NOT NULL
     AND claimable_at >= {now} - CAST(:back AS interval)
     AND claimable_at <= {now} + CAST(:ahead AS interval) {only}
   ORDER BY claimable_at, due_at LIMIT {limit} FOR UPDATE SKIP LOCKED
"""
IS_FREE = "claimed_by IS NULL AND completed_at IS NULL AND NOT held"
# No index has all of it: rows are read before they are chosen. Those that are locked
# are skipped then, and what was written by hand and no claim can take fills no batch.
SOUND_AND_FREE = f"{SOUND} AND {IS_FREE}"
LAPSED = """
  SELECT id, expires_at AS place FROM task_instances{leases}
   WHERE claimed_by IS NOT NULL AND completed_at IS NULL AND NOT held
     AND expires_at >= {now} - CAST(:back AS interval)
     AND expires_at <= {now} - CAST(:lapsed AS interval)
     AND queue = ANY(CAST(:queues AS text[])) {only}
   ORDER BY expires_at LIMIT {limit} FOR UPDATE SKIP LOCKED
"""

HAS_LAPSED = """
t.completed_at IS NULL AND t.expires_at <= {now} - CAST(:lapsed AS interval)
"""
# No index has it by itself; that of the leases has all of them, and is small.
CLAIMED = """
WITH t AS MATERIALIZED (
  SELECT {instance} FROM task_instances{leases} AS t
   WHERE t.claimed_by = CAST(:node AS uuid) AND t.completed_at IS NULL AND NOT t.held
     AND t.expires_at IS NOT NULL AND t.id > CAST(:after AS uuid))
SELECT {instance}, {definition}
  FROM t LEFT JOIN task_definitions{definitions_key} AS d ON d.key = t.definition_key
 ORDER BY t.id LIMIT {limit}
"""

# From here on instances are named by their claims. `attempt` names one claim, so that
# the owner need not be compared: comparing it would let a planner walk an index of all
# that is claimed instead of the primary key.
OWNED = """
     t.id = x.id AND t.attempt = x.attempt
     AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL
"""
START = """
WITH t AS (
  UPDATE task_instances{instances_key} AS t
     SET runs = t.runs + CASE WHEN t.started_at IS NULL THEN 1 ELSE 0 END,
         started_at = coalesce(t.started_at, greatest({now}, t.due_at)),
         expires_at = CASE WHEN t.started_at IS NOT NULL THEN t.expires_at
             ELSE greatest({now}, t.due_at)
                  + least(CAST(:lease AS interval),
                          {expire_after}) END
    FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[])) AS x (id, attempt)
   WHERE {owned}
  RETURNING {instance})
SELECT {instance}, {definition}
  FROM t LEFT JOIN task_definitions{definitions_key} AS d
                   ON d.key = t.definition_key {apart}
"""
RENEW = """
UPDATE task_instances{instances_key} AS t
   SET expires_at = {now} + x.lease * interval '1 microsecond'
  FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[]),
              CAST(:leases AS bigint[])) AS x (id, attempt, lease)
 WHERE {owned}
RETURNING t.id, t.cancel_requested
"""
# The first success wins, of whichever attempt.
MAY_END = """
     t.id = x.id
     AND (t.attempt = x.attempt AND t.completed_at IS NULL AND t.claimed_by IS NOT NULL
          OR x.outcome = 'completed' AND x.attempt BETWEEN 1 AND t.attempt
             AND (t.completed_at IS NULL OR t.outcome = 'failed'))
"""
# What had failed has moved its definition on: to know it, for what is returned are the
# new values, it waits for nothing any more.
FINISH = """
WITH ended AS (
  UPDATE task_instances{instances_key} AS t
     SET outcome = x.outcome,
         ended_attempt = CASE WHEN x.outcome IS NOT NULL THEN x.attempt END,
         waits = t.waits AND t.completed_at IS NULL,
         hangs = CASE WHEN x.hung THEN t.hangs + 1
                      WHEN x.outcome IS NOT NULL THEN t.hangs ELSE 0 END,
         completed_at = CASE WHEN x.outcome IS NOT NULL THEN {now} END,
         started_at = CASE WHEN x.outcome IS NOT NULL THEN x.started_at END,
         runs = t.runs - CASE WHEN x.started_at IS NULL AND t.started_at IS NOT NULL
                              AND t.attempt = x.attempt AND t.completed_at IS NULL
                         THEN 1 ELSE 0 END,
         error = coalesce(x.error, t.error),
         claimed_by = CASE WHEN x.outcome IS NOT NULL THEN t.claimed_by END,
         expires_at = CASE WHEN x.outcome IS NOT NULL THEN t.expires_at END,
         due_at = CASE WHEN x.outcome IS NOT NULL THEN t.due_at
                  ELSE {now} + x.retry_in * interval '1 microsecond' END,
         claimable_at = CASE WHEN x.outcome IS NULL AND NOT t.held
                        THEN {now} + x.retry_in * interval '1 microsecond' END
    FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[]),
                CAST(:outcomes AS text[]), CAST(:started AS timestamptz[]),
                CAST(:retries AS bigint[]), CAST(:hung AS boolean[]),
                CAST(:errors AS text[]), CAST(:next_times AS timestamptz[]))
         AS x (id, attempt, outcome, started_at, retry_in, hung, error, next_at)
   WHERE {may_end}
  RETURNING t.id, t.definition_key, (t.waits AND x.outcome IS NOT NULL) AS goes_on,
            x.next_at),
{gone_on}
SELECT id FROM ended
"""
GONE_ON = """
gone_on AS (
  UPDATE task_definitions{definitions_key} AS d
     SET next_fire_time = coalesce(d.next_fire_time, e.next_at),
         late = coalesce(coalesce(d.next_fire_time, e.next_at)
                         <= {now} - CAST(:late AS interval), false),
         completed_at = CASE WHEN d.next_fire_time IS NULL AND e.next_at IS NULL
                        THEN {now} END
    FROM ended AS e
   WHERE e.goes_on AND d.key = e.definition_key AND d.waits
     AND d.completed_at IS NULL AND d.deleted_at IS NULL
  RETURNING d.key)
"""
RELEASE = """
UPDATE task_instances{instances_key} AS t
   SET claimed_by = NULL, expires_at = NULL, started_at = NULL,
       runs = t.runs - CASE WHEN t.started_at IS NOT NULL THEN 1 ELSE 0 END,
       due_at = CASE WHEN x.delay > 0
                THEN greatest(t.due_at, {now} + x.delay * interval '1 microsecond')
                ELSE t.due_at END,
       claimable_at = CASE WHEN NOT t.held
           THEN greatest(t.due_at, {now} + x.delay * interval '1 microsecond') END
  FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[]),
              CAST(:delays AS bigint[])) AS x (id, attempt, delay)
 WHERE {owned}
RETURNING t.id
"""
# What of a batch can be written though somebody else has locked the rest of it, and
# what of it is still as it was. On CockroachDB it is the row that is locked, and not
# what an index has of it: hence the revision.
FREE_INSTANCES = """
SELECT id FROM task_instances{instances_key}
 WHERE id IN (SELECT unnest((SELECT CAST(:ids AS uuid[]))))
 ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
"""
FREE_DEFINITIONS = """
SELECT id, revision FROM task_definitions{live}
 WHERE id IN (SELECT unnest((SELECT CAST(:ids AS uuid[])))) AND deleted_at IS NULL
 ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
"""
# The end of what a definition waits for is written into that as well.
FREE_TO_END = """
WITH t AS MATERIALIZED (
  SELECT id, definition_key, waits AND id = ANY(CAST(:ended AS uuid[])) AS goes_on
    FROM task_instances{instances_key}
   WHERE id IN (SELECT unnest((SELECT CAST(:ids AS uuid[]))))
   ORDER BY id FOR NO KEY UPDATE SKIP LOCKED),
d AS MATERIALIZED (
  SELECT key FROM task_definitions{definitions_key}
   WHERE key IN (SELECT definition_key FROM t WHERE goes_on)
   ORDER BY key FOR NO KEY UPDATE SKIP LOCKED)
SELECT id FROM t WHERE NOT goes_on OR definition_key IN (SELECT key FROM d)
"""
STILL_OWNED = """
SELECT t.id
  FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[])) AS x (id, attempt)
  JOIN task_instances{instances_key} AS t ON {owned}
"""
STILL_MAY_END = """
SELECT t.id
  FROM unnest(CAST(:ids AS uuid[]), CAST(:attempts AS bigint[]),
              CAST(:outcomes AS text[])) AS x (id, attempt, outcome)
  JOIN task_instances{instances_key} AS t ON {may_end}
"""
STILL_TO_FIRE = """
SELECT d.id
  FROM unnest((SELECT CAST(:ids AS uuid[])),
              (SELECT CAST(:expected AS timestamptz[])),
              (SELECT CAST(:revisions AS bigint[]))) AS x (id, expected, revision)
  JOIN task_definitions{live} AS d
    ON d.id = x.id AND d.deleted_at IS NULL AND NOT d.paused
   AND d.next_fire_time IS NOT DISTINCT FROM x.expected AND d.revision = x.revision
"""
CANCEL = """
WITH ended AS (
  UPDATE task_instances{instances_key} AS t
     SET cancel_requested = t.cancel_requested OR t.started_at IS NOT NULL,
         outcome = CASE WHEN t.started_at IS NULL THEN 'cancelled' END,
         completed_at = CASE WHEN t.started_at IS NULL THEN {now} END,
         claimable_at = NULL
    FROM unnest(CAST(:ids AS uuid[]), CAST(:next_times AS timestamptz[]))
         AS x (id, next_at)
   WHERE t.id = x.id AND t.completed_at IS NULL
  RETURNING t.id, t.definition_key, (t.waits AND t.started_at IS NULL) AS goes_on,
            x.next_at, (t.started_at IS NOT NULL) AS runs_on),
{gone_on}
SELECT id, runs_on FROM ended
"""

NOTE_CONTACT = """
INSERT INTO task_nodes (node, contact_since, seen_at, queues)
VALUES (CAST(:node AS uuid), {now} - CAST(:unbroken AS interval), {now},
        CAST(:queues AS text))
ON CONFLICT (node) DO UPDATE
   SET contact_since = excluded.contact_since, seen_at = excluded.seen_at,
       queues = excluded.queues
RETURNING node
"""
CONTACTS = """
SELECT node, contact_since, seen_at, queues FROM task_nodes
 WHERE seen_at >= {now} - CAST(:within AS interval)
"""
DELETE_CONTACTS = """
DELETE FROM task_nodes WHERE seen_at < {now} - CAST(:kept AS interval) RETURNING node
"""

# Of what is to be deleted a column is read that no index has, for that reason as well.
DELETE_OVER = """
WITH old AS MATERIALIZED (
  SELECT id, completed_at, attempt FROM task_instances{over}
   WHERE completed_at IS NOT NULL AND outcome {which} 'failed'
     AND completed_at >= {now} - CAST(:back AS interval)
     AND completed_at <= {now} - CAST(:older_than AS interval)
   ORDER BY completed_at LIMIT {limit} FOR UPDATE SKIP LOCKED)
DELETE FROM task_instances{instances_key} AS t USING old
 WHERE t.id = old.id
RETURNING t.completed_at, {now} AS now
"""
DELETE_DEFINITIONS = """
WITH old AS MATERIALIZED (
  SELECT d.key, d.revision FROM task_definitions{over} AS d
   WHERE d.{since} IS NOT NULL AND d.{since} <= {now} - CAST(:older_than AS interval)
     AND NOT EXISTS (SELECT 1 FROM task_instances{fired} AS i
                      WHERE i.definition_key = d.key)
   ORDER BY d.{since} LIMIT {limit} FOR UPDATE SKIP LOCKED),
gone AS (
  DELETE FROM task_definitions{definitions_key} AS d USING old
   WHERE d.key = old.key AND d.{since} <= {now} - CAST(:older_than AS interval)
  RETURNING d.key, d.id, d.revision, d.completed_at, d.named),
emptied AS (
  DELETE FROM task_contents{contents_key} AS c USING gone WHERE c.key = gone.key
  RETURNING c.key, c.trigger_kind, c.trigger_state),
remembered AS (
  INSERT INTO task_tombstones (id, trigger_kind, trigger_state, revision, completed_at)
  SELECT gone.id, emptied.trigger_kind, emptied.trigger_state, gone.revision,
         gone.completed_at
    FROM gone JOIN emptied ON emptied.key = gone.key
   WHERE gone.named AND gone.completed_at IS NOT NULL
  ON CONFLICT (id) DO UPDATE
     SET trigger_kind = excluded.trigger_kind, trigger_state = excluded.trigger_state,
         revision = excluded.revision, completed_at = excluded.completed_at
  RETURNING id)
SELECT key FROM gone
"""


def union(names: Iterable[str]) -> str:
    """All rows of the named branches of a statement."""
    return " UNION ALL ".join(f"SELECT * FROM {name}" for name in names)
