"""An index of that column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.stores.migrations.steps import create_index

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0003"
down_revision = "0002"


def upgrade(op: Operations) -> None:
    """Create the index."""
    create_index(
        op,
        "task_instances_extra_idx",
        "task_instances",
        ["extra"],
        where="extra <> 'none'",
    )
