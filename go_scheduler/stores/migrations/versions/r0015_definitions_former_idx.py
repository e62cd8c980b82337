"""Finds the former lives of an id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0015"
down_revision = "0014"


def upgrade(op: Operations) -> None:
    """Create the index."""
    where = text("deleted_at IS NOT NULL")
    op.create_index(
        "task_definitions_former_idx",
        "task_definitions",
        ["id"],
        if_not_exists=True,
        postgresql_where=where,
        sqlite_where=where,
    )
