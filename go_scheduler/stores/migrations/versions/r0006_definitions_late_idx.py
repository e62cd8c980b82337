"""Finds what fires late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0006"
down_revision = "0005"


def upgrade(op: Operations) -> None:
    """Create the index."""
    where = text("next_fire_time IS NOT NULL AND NOT paused AND late")
    op.create_index(
        "task_definitions_late_idx",
        "task_definitions",
        ["next_fire_time", "id"],
        if_not_exists=True,
        postgresql_where=where,
        sqlite_where=where,
    )
