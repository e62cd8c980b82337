"""The steps of a revision, for databases that have rows and nodes that go on running.

Each does no harm when repeated. SQL that is printed is run within one transaction, for
whose end nodes wait that write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, MetaData, Table, text
from sqlalchemy.schema import CreateColumn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alembic.operations import Operations


def add_column(op: Operations, table: str, column: Column[Any]) -> None:
    """Add a column that nodes of the version before need not know.

    Args:
        op: As ``upgrade`` has it.
        table: The table's name.
        column: It may be empty, or has a constant default.
    """
    context = op.get_context()
    if_missing = " IF NOT EXISTS"
    if context.dialect.name == "sqlite":
        if_missing = ""
        names = f"SELECT name FROM pragma_table_info('{table}')"
        if not context.as_sql and column.name in op.get_bind().scalars(text(names)):
            return
    Table(table, MetaData(), column)
    described = CreateColumn(column).compile(dialect=context.dialect)
    op.execute(f"ALTER TABLE {table} ADD COLUMN{if_missing} {described}")


def create_index(
    op: Operations,
    name: str,
    table: str,
    columns: Sequence[str],
    *,
    where: str | None = None,
    unique: bool = False,
) -> None:
    """Create an index while others write to the table.

    Args:
        op: As ``upgrade`` has it.
        name: The index's name.
        table: The table's name.
        columns: The names of its columns.
        where: The condition on the rows that it has; None: all.
        unique: Whether no two rows may be alike.
    """
    context = op.get_context()
    concurrently = context.dialect.name == "postgresql" and not context.as_sql
    if concurrently and op.get_bind().scalar(text(_BROKEN), {"name": name}):
        op.drop_index(name, postgresql_concurrently=True)
    condition = None if where is None else text(where)
    op.create_index(
        name,
        table,
        list(columns),
        unique=unique,
        if_not_exists=True,
        postgresql_where=condition,
        sqlite_where=condition,
        postgresql_concurrently=concurrently,
    )


# Whoever was interrupted has left it, and it would count as made.
_BROKEN = """
SELECT EXISTS (SELECT 1 FROM pg_index
                WHERE indexrelid = to_regclass(:name) AND NOT indisvalid)
"""
