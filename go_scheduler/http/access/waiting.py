"""How many workers may wait at once, of one caller and of all."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.http.access.refusals import too_many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.http.access.caller import Caller

_AGAIN = timedelta(seconds=5)


class Waiting:
    """Counts those that wait.

    Args:
        each: How many workers of one caller may wait.
        all: How many of all callers.
    """

    def __init__(self, *, each: int = 1_000, all: int = 10_000) -> None:
        self._each = each
        self._all = all
        self._of: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """How many wait, of all callers."""
        return self._of.total()

    @contextmanager
    def place(self, caller: Caller) -> Iterator[None]:
        """A place to wait in.

        Raises:
            Problem: 429, there is none left.
        """
        if self._of[caller.subject] >= self._each:
            raise too_many(
                f"{self._each} workers of this caller are waiting already", _AGAIN
            )
        if self._of.total() >= self._all:
            raise too_many(f"{self._all} workers are waiting already", _AGAIN)
        self._of[caller.subject] += 1
        try:
            yield
        finally:
            self._of[caller.subject] -= 1
            if not self._of[caller.subject]:
                del self._of[caller.subject]
