"""Finds definitions that are done, for cleanup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0007"
down_revision = "0006"


def upgrade(op: Operations) -> None:
    """Create the index."""
    where = text("completed_at IS NOT NULL")
    op.create_index(
        "task_definitions_completed_idx",
        "task_definitions",
        ["completed_at"],
        if_not_exists=True,
        postgresql_where=where,
        sqlite_where=where,
    )
