"""A histogram of how late runs began: few numbers, however many runs there are."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MOST_IN_SECONDS = (3600 * 3, 3600 * 6, 3600 * 12, 3600 * 24)
BOUNDS_IN_SECONDS = (
    0.0005,
    0.0007,
    *(
        round(step * 10.0**power, 4)
        for power in range(-3, 4)
        for step in (1, 1.5, 2, 3, 5, 7)
    ),
    *map(float, _MOST_IN_SECONDS),
)
"""The upper bounds, each half as much again as the one before or a little less."""

BOUNDS = tuple(timedelta(seconds=each) for each in BOUNDS_IN_SECONDS)
"""The same; what is later than the last stands in one bucket more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """How many runs began how late, by fixed bounds.

    Attributes:
        counts: How many began no later than each of ``BOUNDS``, and later than the one
            before; of the last, later than all.
    """

    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)

    @classmethod
    def of(cls, buckets: Iterable[tuple[timedelta | None, int]]) -> Histogram:
        """That of some buckets, such as ``buckets()`` gives, of whatever bounds."""
        counts = [0] * (len(BOUNDS) + 1)
        for bound, count in buckets:
            number = len(BOUNDS) if bound is None else bisect_left(BOUNDS, bound)
            counts[number] += count
        return cls(counts=tuple(counts))

    def buckets(self) -> Iterator[tuple[timedelta | None, int]]:
        """The upper bound of each bucket that is not empty, and how many are in it.

        The bound of the one that has no upper bound is None.
        """
        for bound, count in zip((*BOUNDS, None), self.counts, strict=True):
            if count:
                yield bound, count

    @property
    def total(self) -> int:
        """How many runs there are."""
        return sum(self.counts)

    def quantile(self, share: float) -> timedelta | None:
        """How late at most so large a share of the runs began.

        Args:
            share: Above 0, and at most 1: 0.99 is the 99th percentile.

        Returns:
            A bound: the true value is no later, and no earlier than the bound before.
            A day also stands for whatever is later. None: there are no runs.
        """
        total = self.total
        if not total:
            return None
        number = bisect_left(list(accumulate(self.counts)), share * total)
        return BOUNDS[min(number, len(BOUNDS) - 1)]

    def __add__(self, other: Histogram) -> Histogram:
        both = zip(self.counts, other.counts, strict=True)
        return Histogram(counts=tuple(a + b for a, b in both))
