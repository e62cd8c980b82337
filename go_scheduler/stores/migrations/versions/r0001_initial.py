"""The first schema: all tables and indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    TIMESTAMP,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    SmallInteger,
    Text,
    UniqueConstraint,
    Uuid,
    false,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

if TYPE_CHECKING:
    from alembic.operations import Operations
    from sqlalchemy.schema import SchemaItem

revision = "2026.11.29b"
down_revision = None

_TIME = TIMESTAMP(timezone=True).with_variant(BigInteger(), "sqlite")
_JSON = JSONB().with_variant(Text(), "sqlite")


def upgrade(op: Operations) -> None:
    """Create the tables, then what finds their rows."""
    _create_definitions(op)
    _create_tables_beside_definitions(op)
    _create_instances(op)
    _create_tables_of_nodes(op)
    _create_tables_of_runs(op)
    _create_tables_of_the_whole(op)
    _index_definitions(op)
    _index_instances(op)
    in_turn = [*_shards(op), "completed_at", "id"]
    _create_index(op, "task_tombstones", "completed_idx", in_turn)


def _create_definitions(op: Operations) -> None:
    _create_table(
        op,
        "task_definitions",
        Column("key", Uuid(), primary_key=True),
        Column("id", Uuid(), nullable=False),
        Column("shard", SmallInteger(), nullable=False, server_default=text("0")),
        Column("queue", Text(), nullable=False),
        Column("priority", SmallInteger(), nullable=False, server_default=text("1")),
        Column("expire_after", BigInteger()),
        Column("overlap", Text()),
        Column("slot", Text()),
        Column("waits", Boolean(), nullable=False, server_default=false()),
        Column("next_fire_time", _TIME),
        Column("late", Boolean(), nullable=False, server_default=false()),
        Column("paused", Boolean(), nullable=False, server_default=false()),
        Column("note", Text()),
        Column("paused_at", _TIME),
        Column("completed_at", _TIME),
        Column("deleted_at", _TIME),
        Column("revision", BigInteger(), nullable=False),
        Column("named", Boolean(), nullable=False, server_default=false()),
        Column("owner", Text()),
        Column("created_at", _TIME, nullable=False),
        Column("label", Text()),
        Column("limit_name", Text()),
        Column("limit_per", Text()),
        Column("rate_name", Text()),
        Column("rate_per", Text()),
        Column("follow_up", Text()),
        Column("failures", BigInteger()),
        Column("pause_after", BigInteger()),
        Column("run_window", Text()),
        Column("fired_until", _TIME),
    )


def _create_tables_beside_definitions(op: Operations) -> None:
    _create_table(
        op,
        "task_contents",
        Column("key", Uuid(), primary_key=True),
        Column("name", Text()),
        Column("metadata", Text(), nullable=False),
        Column("metadata_search", _JSON),
        Column("trigger_kind", Text(), nullable=False),
        Column("trigger_state", Text(), nullable=False),
        Column("policies", Text(), nullable=False),
        Column("trigger_set_at", _TIME),
    )
    _create_table(
        op,
        "task_tombstones",
        Column("id", Uuid(), primary_key=True),
        Column("shard", SmallInteger(), nullable=False, server_default=text("0")),
        Column("trigger_kind", Text(), nullable=False),
        Column("trigger_state", Text(), nullable=False),
        Column("revision", BigInteger(), nullable=False),
        Column("completed_at", _TIME, nullable=False),
    )


def _create_instances(op: Operations) -> None:
    _create_table(
        op,
        "task_instances",
        *_columns_of_instances(),
        UniqueConstraint("definition_key", "fire_time", name="task_instances_fire_key"),
        CheckConstraint(
            "(completed_at IS NULL) = (outcome IS NULL)",
            name="task_instances_end_check",
        ),
    )
    if op.get_context().dialect.name == "postgresql":
        # Room for new versions of a row beside the old one.
        op.execute("ALTER TABLE task_instances SET (fillfactor = 70)")


def _columns_of_instances() -> list[Column[Any]]:
    return [
        Column("id", Uuid(), primary_key=True),
        Column("definition_key", Uuid(), nullable=False),
        Column("shard", SmallInteger(), nullable=False, server_default=text("0")),
        Column("queue", Text(), nullable=False),
        Column("priority", SmallInteger(), nullable=False, server_default=text("1")),
        Column("expire_after", BigInteger()),
        Column("slot", Text()),
        Column("waits", Boolean(), nullable=False, server_default=false()),
        Column("frozen", Boolean(), nullable=False, server_default=false()),
        Column("overlap", Text()),
        Column("parked", Boolean(), nullable=False, server_default=false()),
        Column("behind", Uuid()),
        Column("backfilled", Text()),
        Column("reopened_at", _TIME),
        Column("key", Text()),
        Column("created_at", _TIME),
        Column("accepted_at", _TIME),
        Column("fire_time", _TIME),
        Column("execute_at", _TIME, nullable=False),
        Column("due_at", _TIME, nullable=False),
        Column("start_by", _TIME),
        Column("claimable_at", _TIME),
        Column("attempt", BigInteger(), nullable=False, server_default=text("0")),
        Column("runs", BigInteger(), nullable=False, server_default=text("0")),
        Column("hangs", BigInteger(), nullable=False, server_default=text("0")),
        Column("claimed_by", Uuid()),
        Column("handed_on", BigInteger()),
        Column("worker", Text()),
        Column("expires_at", _TIME),
        Column("started_at", _TIME),
        Column("progress", Text()),
        Column("given_back", Text()),
        Column("client", Text()),
        Column("completed_at", _TIME),
        Column("outcome", Text()),
        Column("ended_attempt", BigInteger()),
        Column("result", Text()),
        Column("error", Text()),
        Column("cancel_requested", Boolean(), nullable=False, server_default=false()),
        Column("skipped_first", _TIME),
        Column("skipped_last", _TIME),
        Column("skipped_count", BigInteger()),
        Column("skipped_reason", Text()),
        Column("payload", Text()),
        Column("trace_context", Text()),
        Column("overrides", Text()),
        Column("limit_name", Text()),
        Column("limit_value", Text()),
        Column("rate_name", Text()),
        Column("rate_value", Text()),
        Column("follow_up", Text()),
        Column("follows", Uuid()),
        Column("keeps_result", Boolean()),
        Column("debounce_key", Text()),
        Column("run_window", Text()),
    ]


def _create_tables_of_nodes(op: Operations) -> None:
    _create_table(
        op,
        "task_nodes",
        Column("node", Uuid(), primary_key=True),
        Column("contact_since", _TIME, nullable=False),
        Column("seen_at", _TIME, nullable=False),
        Column("queues", Text()),
        Column("names", Text()),
        Column("host", Text()),
        Column("pid", BigInteger()),
        Column("version", Text()),
        Column("lease", BigInteger()),
        Column("stopping", Boolean(), nullable=False, server_default=false()),
    )
    _create_table(
        op,
        "task_stats",
        Column("every", BigInteger(), primary_key=True, autoincrement=False),
        Column("begins_at", _TIME, primary_key=True),
        Column("queue", Text(), primary_key=True),
        Column("node", Uuid(), primary_key=True),
        Column("ended", Text(), nullable=False),
        Column("lateness", Text(), nullable=False),
    )


def _create_tables_of_runs(op: Operations) -> None:
    _create_table(
        op,
        "task_runs",
        Column("instance_id", Uuid(), primary_key=True),
        Column("attempt", BigInteger(), primary_key=True, autoincrement=False),
        Column("node", Uuid()),
        Column("worker", Text()),
        Column("lost_in", Text()),
        Column("started_at", _TIME),
        Column("ended_at", _TIME, nullable=False),
        Column("outcome", Text(), nullable=False),
        Column("error", Text()),
    )
    _create_table(
        op,
        "task_slots",
        Column("name", Text(), primary_key=True),
        Column(
            "number",
            BigInteger(),
            primary_key=True,
            autoincrement=False,
            server_default=text("0"),
        ),
        Column("instance_id", Uuid()),
        Column("attempt", BigInteger()),
    )
    _create_table(
        op,
        "task_limits",
        Column("name", Text(), primary_key=True),
        Column("n", BigInteger()),
        Column("rate", BigInteger()),
        Column("every", BigInteger()),
        Column("burst", BigInteger()),
        Column("paused", Boolean(), nullable=False, server_default=false()),
        Column("owner", Text()),
        Column("revision", BigInteger(), nullable=False),
    )
    _create_table(
        op,
        "task_tokens",
        Column("name", Text(), primary_key=True),
        Column("free_at", _TIME, nullable=False),
    )


def _create_tables_of_the_whole(op: Operations) -> None:
    _create_table(
        op,
        "task_sets",
        Column("owner", Text(), primary_key=True),
        Column("version", BigInteger()),
        Column("declared_at", _TIME, nullable=False),
    )
    _create_table(
        op,
        "task_settings",
        Column("name", Text(), primary_key=True),
        Column("value", Text(), nullable=False),
    )


def _index_definitions(op: Operations) -> None:
    table = "task_definitions"
    live, deleted = "deleted_at IS NULL", "deleted_at IS NOT NULL"
    due = "next_fire_time IS NOT NULL AND NOT paused"
    in_time, late = f"{due} AND NOT late", f"{due} AND late"
    over, owned = "completed_at IS NOT NULL", f"owner IS NOT NULL AND {live}"
    shards = _shards(op)
    in_turn = ["next_fire_time", "id"]
    _create_index(op, table, "id_key", ["id"], where=live, unique=True)
    _create_index(op, table, "due_idx", [*shards, *in_turn], where=in_time)
    _create_index(op, table, "late_idx", in_turn, where=late)
    _create_index(op, table, "completed_idx", [*shards, "completed_at"], where=over)
    _create_index(op, table, "deleted_idx", [*shards, "deleted_at"], where=deleted)
    _create_index(op, table, "former_idx", ["id"], where=deleted)
    _create_index(op, table, "owner_idx", ["owner", "id"], where=owned)
    labelled = f"label IS NOT NULL AND {live}"
    _create_index(op, table, "label_key", ["label"], where=labelled, unique=True)
    if op.get_context().dialect.name != "sqlite":
        listed = f"{live} AND queue >= ''"
        _create_index(op, table, "queue_idx", ["queue", "id"], where=listed)
        op.create_index(
            "task_contents_metadata_idx",
            "task_contents",
            ["metadata_search"],
            if_not_exists=True,
            # Not jsonb_path_ops, which CockroachDB does not know.
            postgresql_using="gin",
        )


def _index_instances(op: Operations) -> None:
    table = "task_instances"
    shards = _shards(op)
    claimable = ["queue", "priority", *shards, "claimable_at", "due_at"]
    parked = "parked AND NOT frozen"
    in_turn = ["due_at", "execute_at"]
    claimed = "claimed_by IS NOT NULL AND completed_at IS NULL AND NOT frozen"
    is_open = "completed_at IS NULL AND outcome IS NULL"
    over = "completed_at IS NOT NULL"
    ended, failed = f"{over} AND outcome <> 'failed'", f"{over} AND outcome = 'failed'"
    in_line, keyed = "claimable_at IS NOT NULL", "key IS NOT NULL"
    of_key = ["definition_key", "key"]
    by_expiry = [*shards, "expires_at", "queue"]
    by_end = [*shards, "completed_at"]
    _create_index(op, table, "claimable_idx", claimable, where=in_line)
    _create_index(op, table, "parked_idx", ["slot", "priority", *in_turn], where=parked)
    undecided = f"{parked} AND overlap IS NOT NULL"
    _create_index(op, table, "undecided_idx", ["slot", *in_turn], where=undecided)
    _create_index(op, table, "lease_idx", by_expiry, where=claimed)
    _create_index(op, table, "open_idx", ["definition_key"], where=is_open)
    _create_index(op, table, "ended_idx", by_end, where=ended)
    _create_index(op, table, "failed_idx", [*by_end, "id"], where=failed)
    unrun = f"{over} AND outcome IN ('cancelled', 'skipped')"
    _create_index(op, table, "unrun_idx", ["outcome", *by_end, "id"], where=unrun)
    _create_index(op, table, "key_key", of_key, where=keyed, unique=True)
    of_debounce = ["definition_key", "debounce_key"]
    debounced = "debounce_key IS NOT NULL AND completed_at IS NULL"
    _create_index(op, table, "debounce_key", of_debounce, where=debounced, unique=True)


def _shards(op: Operations) -> list[str]:
    return ["shard"] if op.get_context().dialect.name == "cockroachdb" else []


def _create_table(op: Operations, name: str, *items: SchemaItem) -> None:
    op.create_table(name, *items, if_not_exists=True)


def _create_index(
    op: Operations,
    table: str,
    name: str,
    columns: list[str],
    *,
    where: str | None = None,
    unique: bool = False,
) -> None:
    condition = None if where is None else text(where)
    op.create_index(
        f"{table}_{name}",
        table,
        columns,
        unique=unique,
        if_not_exists=True,
        postgresql_where=condition,
        sqlite_where=condition,
    )
