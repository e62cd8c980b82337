"""Rows of the statements that the loops execute, made by fewer steps than usual."""

from __future__ import annotations

from collections import namedtuple
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sqlalchemy import Connection
    from sqlalchemy.engine import Dialect
    from sqlalchemy.sql.selectable import TextualSelect


def fetch(
    connection: Connection, statement: TextualSelect, parameters: Mapping[str, object]
) -> Sequence[Any]:
    """Execute a statement that says what it returns, and fetch that.

    Returns:
        Named tuples with the values that ``all`` would give.
    """
    result = connection.execute(statement, parameters)
    # The rows as the driver has them; its errors are translated as those of any other.
    found = result.cursor_strategy.fetchall(result, result.cursor)
    if not found:
        return []
    form = _form_of(statement, connection.dialect)
    columns: list[Iterable[object]] = list(zip(*found, strict=True))
    for number, read in form.conversions:
        columns[number] = map(read, columns[number])
    return list(map(form.row, zip(*columns, strict=True)))


class _Form(NamedTuple):
    """What makes a row of its values, and what is converted before, by position."""

    row: Callable[[Iterable[object]], Any]
    conversions: Sequence[tuple[int, Callable[[Any], Any]]]


# Each of the two engines of a store has a dialect of its own.
@lru_cache(maxsize=1024)
def _form_of(statement: TextualSelect, dialect: Dialect) -> _Form:
    columns = statement.selected_columns
    reads = (
        each.type.dialect_impl(dialect).result_processor(dialect, None)
        for each in columns
    )
    return _Form(
        # As its ``_make`` does it, without a call of Python's for each row.
        partial(tuple.__new__, namedtuple("_Row", columns.keys())),
        [(number, read) for number, read in enumerate(reads) if read is not None],
    )
