"""The table of instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0003"
down_revision = "0002"

_TIME = TIMESTAMP(timezone=True).with_variant(BigInteger(), "sqlite")


def upgrade(op: Operations) -> None:
    """Create the table."""
    op.create_table(
        "task_instances",
        Column("id", Uuid(), primary_key=True),
        Column("definition_key", Uuid(), nullable=False),
        Column("shard", SmallInteger(), nullable=False, server_default=text("0")),
        Column("queue", Text(), nullable=False),
        Column("expire_after", BigInteger()),
        Column("waits", Boolean(), nullable=False, server_default=false()),
        Column("held", Boolean(), nullable=False, server_default=false()),
        Column("fire_time", _TIME),
        Column("execute_at", _TIME, nullable=False),
        Column("due_at", _TIME, nullable=False),
        Column("claimable_at", _TIME),
        Column("attempt", BigInteger(), nullable=False, server_default=text("0")),
        Column("runs", BigInteger(), nullable=False, server_default=text("0")),
        Column("hangs", BigInteger(), nullable=False, server_default=text("0")),
        Column("claimed_by", Uuid()),
        Column("expires_at", _TIME),
        Column("started_at", _TIME),
        Column("completed_at", _TIME),
        Column("outcome", Text()),
        Column("ended_attempt", BigInteger()),
        Column("error", Text()),
        Column("cancel_requested", Boolean(), nullable=False, server_default=false()),
        Column("skipped_last", _TIME),
        Column("skipped_count", BigInteger()),
        Column("skipped_reason", Text()),
        UniqueConstraint("definition_key", "fire_time", name="task_instances_fire_key"),
        CheckConstraint(
            "(completed_at IS NULL) = (outcome IS NULL)",
            name="task_instances_end_check",
        ),
        if_not_exists=True,
    )
