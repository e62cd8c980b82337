"""The tables, as the statements see them; the migrations create them.

A definition is two rows. What moves, and what the loops look for, is narrow and in
``task_definitions``; what a user wrote, up to 64 KiB of it, is in ``task_contents`` and
is not touched when the definition fires. Both have the ``key`` of one life of the
definition: after a delete the row stays, marked, until its history is gone, and the
same ``id`` may begin another life under a new key. Of one that has ended and is gone
``task_tombstones`` keeps what says whether it would run again.

Durations are whole microseconds. There are no foreign keys: a delete takes the rows it
has to, in batches, and a row without its definition harms nobody.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from go_scheduler.stores.sql.types import Id, Time

metadata = MetaData()

_NO = false()
_ZERO = text("0")

definitions = Table(
    "task_definitions",
    metadata,
    Column("key", Id, primary_key=True),
    Column("id", Id, nullable=False),
    # Spreads what is due over ranges on CockroachDB; 0 elsewhere.
    Column("shard", SmallInteger, nullable=False, server_default=_ZERO),
    Column("queue", Text, nullable=False),
    Column("expire_after", BigInteger),
    # Whether its trigger waits for the end of a run.
    Column("waits", Boolean, nullable=False, server_default=_NO),
    Column("next_fire_time", Time),
    # Whether it may have passed when it became visible: scans look at all such rows,
    # and at the others only from a bound on that moves with the time.
    Column("late", Boolean, nullable=False, server_default=_NO),
    Column("paused", Boolean, nullable=False, server_default=_NO),
    Column("note", Text),
    Column("completed_at", Time),
    Column("deleted_at", Time),
    Column("revision", BigInteger, nullable=False),
    # Whether its id was passed, so that it is remembered.
    Column("named", Boolean, nullable=False, server_default=_NO),
    Column("created_at", Time, nullable=False),
)
_is_due = text("next_fire_time IS NOT NULL AND NOT paused AND NOT late")
_is_late = text("next_fire_time IS NOT NULL AND NOT paused AND late")
_is_live = text("deleted_at IS NULL")
_is_deleted = text("deleted_at IS NOT NULL")
_is_completed = text("completed_at IS NOT NULL")

contents = Table(
    "task_contents",
    metadata,
    Column("key", Id, primary_key=True),
    Column("name", Text),
    # The exact text is what is read. JSONB keeps neither -0.0 nor 1e300 as they are: it
    # serves to search, and is empty on SQLite.
    Column("metadata", Text, nullable=False),
    Column("metadata_search", JSONB().with_variant(Text(), "sqlite")),
    Column("trigger_kind", Text, nullable=False),
    Column("trigger_state", Text, nullable=False),
    Column("policies", Text, nullable=False),
)

instances = Table(
    "task_instances",
    metadata,
    Column("id", Id, primary_key=True),
    Column("definition_key", Id, nullable=False),
    Column("shard", SmallInteger, nullable=False, server_default=_ZERO),
    # These four follow the definition as long as the instance is open, so that claim
    # and start need no join.
    Column("queue", Text, nullable=False),
    Column("expire_after", BigInteger),
    Column("waits", Boolean, nullable=False, server_default=_NO),
    Column("held", Boolean, nullable=False, server_default=_NO),
    Column("fire_time", Time),
    Column("execute_at", Time, nullable=False),
    Column("due_at", Time, nullable=False),
    # The later of due_at and of when it was made pending: nothing new ever stands
    # below the bound of a scan. Empty unless it is pending and not held.
    Column("claimable_at", Time),
    Column("attempt", BigInteger, nullable=False, server_default=_ZERO),
    Column("runs", BigInteger, nullable=False, server_default=_ZERO),
    Column("hangs", BigInteger, nullable=False, server_default=_ZERO),
    Column("claimed_by", Id),
    Column("expires_at", Time),
    Column("started_at", Time),
    Column("completed_at", Time),
    Column("outcome", Text),
    Column("ended_attempt", BigInteger),
    Column("error", Text),
    Column("cancel_requested", Boolean, nullable=False, server_default=_NO),
    # Which fire times it stands for, with fire_time as the first of them.
    Column("skipped_last", Time),
    Column("skipped_count", BigInteger),
    Column("skipped_reason", Text),
    UniqueConstraint("definition_key", "fire_time", name="task_instances_fire_key"),
    CheckConstraint(
        "(completed_at IS NULL) = (outcome IS NULL)", name="task_instances_end_check"
    ),
)

tombstones = Table(
    "task_tombstones",
    metadata,
    Column("id", Id, primary_key=True),
    Column("trigger_kind", Text, nullable=False),
    Column("trigger_state", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("completed_at", Time, nullable=False),
)

nodes = Table(
    "task_nodes",
    metadata,
    Column("node", Id, primary_key=True),
    # The last time without a break in which it reached this store.
    Column("contact_since", Time, nullable=False),
    Column("seen_at", Time, nullable=False),
    # That it serves, as JSON.
    Column("queues", Text),
)

# The statements that name an instance by its id must walk the primary key. None of
# these predicates follows from their guard, (attempt, completed_at IS NULL, claimed_by
# IS NOT NULL), so that no planner can take one of these indexes for them.
_is_claimable = text("claimable_at IS NOT NULL")
_may_lapse = text("claimed_by IS NOT NULL AND completed_at IS NULL AND NOT held")
_is_open = text("completed_at IS NULL AND outcome IS NULL")
_has_ended = text("completed_at IS NOT NULL AND outcome <> 'failed'")
_has_failed = text("completed_at IS NOT NULL AND outcome = 'failed'")


def _index(name: str, *columns: Column[object], where: object, unique: bool = False):  # type: ignore[no-untyped-def]
    return Index(
        name, *columns, unique=unique, postgresql_where=where, sqlite_where=where
    )


indexes = (
    _index("task_definitions_id_key", definitions.c.id, where=_is_live, unique=True),
    _index(
        "task_definitions_due_idx",
        definitions.c.shard,
        definitions.c.next_fire_time,
        definitions.c.id,
        where=_is_due,
    ),
    _index(
        "task_definitions_late_idx",
        definitions.c.next_fire_time,
        definitions.c.id,
        where=_is_late,
    ),
    _index(
        "task_definitions_completed_idx",
        definitions.c.completed_at,
        where=_is_completed,
    ),
    _index("task_definitions_deleted_idx", definitions.c.deleted_at, where=_is_deleted),
    _index("task_definitions_former_idx", definitions.c.id, where=_is_deleted),
    _index(
        "task_instances_claimable_idx",
        instances.c.queue,
        instances.c.shard,
        instances.c.claimable_at,
        instances.c.due_at,
        where=_is_claimable,
    ),
    _index(
        "task_instances_lease_idx",
        instances.c.expires_at,
        instances.c.queue,
        where=_may_lapse,
    ),
    _index("task_instances_open_idx", instances.c.definition_key, where=_is_open),
    _index("task_instances_ended_idx", instances.c.completed_at, where=_has_ended),
    _index("task_instances_failed_idx", instances.c.completed_at, where=_has_failed),
    Index("task_tombstones_completed_idx", tombstones.c.completed_at, tombstones.c.id),
)
