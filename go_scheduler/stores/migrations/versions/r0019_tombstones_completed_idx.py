"""Finds ids that ended long ago."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0019"
down_revision = "0018"


def upgrade(op: Operations) -> None:
    """Create the index."""
    op.create_index(
        "task_tombstones_completed_idx",
        "task_tombstones",
        ["completed_at", "id"],
        if_not_exists=True,
    )
