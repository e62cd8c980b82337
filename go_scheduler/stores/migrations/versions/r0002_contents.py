"""The table of what users wrote into their definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Column, Text, Uuid
from sqlalchemy.dialects.postgresql import JSONB

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0002"
down_revision = "0001"


def upgrade(op: Operations) -> None:
    """Create the table."""
    op.create_table(
        "task_contents",
        Column("key", Uuid(), primary_key=True),
        Column("name", Text()),
        Column("metadata", Text(), nullable=False),
        Column("metadata_search", JSONB().with_variant(Text(), "sqlite")),
        Column("trigger_kind", Text(), nullable=False),
        Column("trigger_state", Text(), nullable=False),
        Column("policies", Text(), nullable=False),
        if_not_exists=True,
    )
