"""Finds what fires next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0005"
down_revision = "0004"


def upgrade(op: Operations) -> None:
    """Create the index."""
    where = text("next_fire_time IS NOT NULL AND NOT paused AND NOT late")
    op.create_index(
        "task_definitions_due_idx",
        "task_definitions",
        ["shard", "next_fire_time", "id"],
        if_not_exists=True,
        postgresql_where=where,
        sqlite_where=where,
    )
