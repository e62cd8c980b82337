"""A column that no store uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Column, Text

from go_scheduler.stores.migrations.steps import add_column

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0002"
down_revision = "0001"


def upgrade(op: Operations) -> None:
    """Add the column."""
    column = Column("extra", Text(), nullable=False, server_default="none")
    add_column(op, "task_instances", column)
