"""Rows of the statements that the loops execute, read column by column."""

from __future__ import annotations

from collections import namedtuple
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import ColumnElement
    from sqlalchemy.engine import Dialect


class Columns:
    """The columns that a statement returns, and how their values are read.

    Args:
        columns: In their order, each by a name of its own.
        dialect: The driver's, whose values these are.
    """

    def __init__(self, columns: Iterable[ColumnElement[Any]], dialect: Dialect) -> None:
        columns = list(columns)
        row = namedtuple("_Row", [str(each.key) for each in columns])  # type: ignore[misc]
        # As its ``_make`` does it, without a call of Python's for each row.
        self._row = partial(tuple.__new__, row)
        types = (each.type.dialect_impl(dialect) for each in columns)
        reads = (each.result_processor(dialect, None) for each in types)
        self._reads = [
            (number, read) for number, read in enumerate(reads) if read is not None
        ]

    def read(self, rows: Sequence[Iterable[object]]) -> Sequence[Any]:
        """Named tuples of the values of rows, which are as the driver has them."""
        if not rows:
            return []
        # Column by column: that takes a third of the steps.
        columns: list[Iterable[object]] = list(zip(*rows, strict=True))
        for number, read in self._reads:
            columns[number] = map(read, columns[number])
        return list(map(self._row, zip(*columns, strict=True)))
