"""Finds history that has grown old, but for what failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0012"
down_revision = "0011"


def upgrade(op: Operations) -> None:
    """Create the index."""
    where = text("completed_at IS NOT NULL AND outcome <> 'failed'")
    op.create_index(
        "task_instances_ended_idx",
        "task_instances",
        ["completed_at"],
        if_not_exists=True,
        postgresql_where=where,
        sqlite_where=where,
    )
