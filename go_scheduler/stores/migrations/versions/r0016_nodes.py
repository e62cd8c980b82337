"""The table of nodes, and of when they were in contact with the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import TIMESTAMP, BigInteger, Column, Text, Uuid

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0016"
down_revision = "0015"

_TIME = TIMESTAMP(timezone=True).with_variant(BigInteger(), "sqlite")


def upgrade(op: Operations) -> None:
    """Create the table."""
    op.create_table(
        "task_nodes",
        Column("node", Uuid(), primary_key=True),
        Column("contact_since", _TIME, nullable=False),
        Column("seen_at", _TIME, nullable=False),
        Column("queues", Text()),
        if_not_exists=True,
    )
