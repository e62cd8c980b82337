"""The table of what is remembered of definitions that have ended and are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import TIMESTAMP, BigInteger, Column, Text, Uuid

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0018"
down_revision = "0017"

_TIME = TIMESTAMP(timezone=True).with_variant(BigInteger(), "sqlite")


def upgrade(op: Operations) -> None:
    """Create the table."""
    op.create_table(
        "task_tombstones",
        Column("id", Uuid(), primary_key=True),
        Column("trigger_kind", Text(), nullable=False),
        Column("trigger_state", Text(), nullable=False),
        Column("revision", BigInteger(), nullable=False),
        Column("completed_at", _TIME, nullable=False),
        if_not_exists=True,
    )
