"""A table that no store uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Column, Text, Uuid

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0002"
down_revision = "0001"


def upgrade(op: Operations) -> None:
    """Create the table."""
    op.create_table(
        "task_extras",
        Column("id", Uuid(), primary_key=True),
        Column("name", Text()),
        if_not_exists=True,
    )
