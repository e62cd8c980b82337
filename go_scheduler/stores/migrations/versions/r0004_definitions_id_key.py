"""One living definition has an id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0004"
down_revision = "0003"


def upgrade(op: Operations) -> None:
    """Create the index."""
    where = text("deleted_at IS NULL")
    op.create_index(
        "task_definitions_id_key",
        "task_definitions",
        ["id"],
        unique=True,
        if_not_exists=True,
        postgresql_where=where,
        sqlite_where=where,
    )
