"""Finds claims that have lapsed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0010"
down_revision = "0009"


def upgrade(op: Operations) -> None:
    """Create the index."""
    where = text("claimed_by IS NOT NULL AND completed_at IS NULL AND NOT held")
    op.create_index(
        "task_instances_lease_idx",
        "task_instances",
        ["expires_at", "queue"],
        if_not_exists=True,
        postgresql_where=where,
        sqlite_where=where,
    )
