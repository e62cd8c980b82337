"""Room for new versions of a row beside the old one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alembic.operations import Operations

revision = "0014"
down_revision = "0013"


def upgrade(op: Operations) -> None:
    """Leave room on each page, where rows are on pages."""
    if op.get_context().dialect.name == "postgresql":
        op.execute("ALTER TABLE task_instances SET (fillfactor = 70)")
