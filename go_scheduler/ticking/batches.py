"""Writing many rows at once so that one bad row costs only itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from go_scheduler.errors import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Row = TypeVar("Row")
Answer = TypeVar("Answer")


def write_in_halves(
    rows: Sequence[Row],
    write: Callable[[Sequence[Row]], Answer],
    failed: Callable[[Row, Exception], None],
) -> list[Answer]:
    """Write a batch; if it fails, its halves, down to the rows that fail alone.

    Args:
        rows: The batch; nothing is written for an empty one.
        write: Writes some of the rows, all of them or none.
        failed: Told of each row that fails alone.

    Returns:
        The answers of the writes that succeeded, in the order of the rows.

    Raises:
        StoreUnavailableError: The store is away; some of the rows may have been
            written.
    """
    if not rows:
        return []
    try:
        return [write(rows)]
    except StoreUnavailableError:
        raise
    except Exception as error:
        if len(rows) == 1:
            failed(rows[0], error)
            return []
    middle = len(rows) // 2
    return write_in_halves(rows[:middle], write, failed) + write_in_halves(
        rows[middle:], write, failed
    )
