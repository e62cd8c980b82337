"""Finds what may be claimed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0009"
down_revision = "0008"


def upgrade(op: Operations) -> None:
    """Create the index."""
    where = text("claimable_at IS NOT NULL")
    op.create_index(
        "task_instances_claimable_idx",
        "task_instances",
        ["queue", "shard", "claimable_at", "due_at"],
        if_not_exists=True,
        postgresql_where=where,
        sqlite_where=where,
    )
