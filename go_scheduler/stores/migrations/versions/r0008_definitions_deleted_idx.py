"""Finds what deleted definitions have left for their history, oldest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0008"
down_revision = "0007"


def upgrade(op: Operations) -> None:
    """Create the index."""
    where = text("deleted_at IS NOT NULL")
    op.create_index(
        "task_definitions_deleted_idx",
        "task_definitions",
        ["deleted_at"],
        if_not_exists=True,
        postgresql_where=where,
        sqlite_where=where,
    )
