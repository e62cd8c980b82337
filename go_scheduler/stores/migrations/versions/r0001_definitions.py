"""The table of definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import (
    TIMESTAMP,
    BigInteger,
    Boolean,
    Column,
    SmallInteger,
    Text,
    Uuid,
    false,
    text,
)

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0001"
down_revision = None

_TIME = TIMESTAMP(timezone=True).with_variant(BigInteger(), "sqlite")


def upgrade(op: Operations) -> None:
    """Create the table."""
    op.create_table(
        "task_definitions",
        Column("key", Uuid(), primary_key=True),
        Column("id", Uuid(), nullable=False),
        Column("shard", SmallInteger(), nullable=False, server_default=text("0")),
        Column("queue", Text(), nullable=False),
        Column("expire_after", BigInteger()),
        Column("waits", Boolean(), nullable=False, server_default=false()),
        Column("next_fire_time", _TIME),
        Column("late", Boolean(), nullable=False, server_default=false()),
        Column("paused", Boolean(), nullable=False, server_default=false()),
        Column("note", Text()),
        Column("completed_at", _TIME),
        Column("deleted_at", _TIME),
        Column("revision", BigInteger(), nullable=False),
        Column("named", Boolean(), nullable=False, server_default=false()),
        Column("created_at", _TIME, nullable=False),
        if_not_exists=True,
    )
