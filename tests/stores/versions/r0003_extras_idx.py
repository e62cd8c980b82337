"""An index of that table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0003"
down_revision = "0002"


def upgrade(op: Operations) -> None:
    """Create the index."""
    op.create_index("task_extras_name_idx", "task_extras", ["name"], if_not_exists=True)
