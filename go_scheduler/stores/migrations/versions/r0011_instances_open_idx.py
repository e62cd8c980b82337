"""Finds what is open of a definition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0011"
down_revision = "0010"


def upgrade(op: Operations) -> None:
    """Create the index."""
    where = text("completed_at IS NULL AND outcome IS NULL")
    op.create_index(
        "task_instances_open_idx",
        "task_instances",
        ["definition_key"],
        if_not_exists=True,
        postgresql_where=where,
        sqlite_where=where,
    )
