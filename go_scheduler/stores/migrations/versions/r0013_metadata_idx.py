"""Finds definitions by what their metadata contains."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0013"
down_revision = "0012"


def upgrade(op: Operations) -> None:
    """Create the index, where there is one of this kind."""
    if op.get_context().dialect.name == "sqlite":
        return
    op.create_index(
        "task_contents_metadata_idx",
        "task_contents",
        ["metadata_search"],
        if_not_exists=True,
        # Not jsonb_path_ops, which CockroachDB does not know.
        postgresql_using="gin",
    )
