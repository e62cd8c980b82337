"""Numbers for people to look at: counts, queues, and how late runs began."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate

BOUNDS_IN_SECONDS = (
    0.0005,
    0.0007,
    *(
        round(step * 10.0**power, 4)
        for power in range(-3, 4)
        for step in (1, 1.5, 2, 3, 5, 7)
    ),
    *(3600.0 * hours for hours in (3, 6, 12, 24)),
)
"""The upper bounds, each half as much again as the one before or a little less."""

BOUNDS = tuple(timedelta(seconds=each) for each in BOUNDS_IN_SECONDS)
"""The same; what is later than the last has a bucket of its own."""


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
        """The histogram of buckets as ``buckets()`` gives them, with any bounds."""
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
        """How late at most a share of the runs began.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The instances of a queue that have one name, in numbers that only rise.

    Attributes:
        queue: Their queue.
        name: The name of their definitions; None: they have none.
        fired: How many were made of fire times.
        ended: How many ended with which outcome, and under *retried* how many runs
            ended after which their instance runs again.
        lateness: How late their runs began.
        late: The sum of that.
        durations: How long their runs took, if anybody asks for it.
        took: The sum of that.
    """

    queue: str
    name: str | None
    fired: int = 0
    ended: Mapping[str, int] = field(default_factory=dict)
    lateness: Histogram = field(default_factory=Histogram)
    late: timedelta = timedelta(0)
    durations: Histogram = field(default_factory=Histogram)
    took: timedelta = timedelta(0)

    def __add__(self, other: Counts) -> Counts:
        """The sum of two counts, with the queue and name of the first."""
        return Counts(
            queue=self.queue,
            name=self.name,
            fired=self.fired + other.fired,
            ended=_added(self.ended, other.ended),
            lateness=self.lateness + other.lateness,
            late=self.late + other.late,
            durations=self.durations + other.durations,
            took=self.took + other.took,
        )


MINUTE = timedelta(minutes=1)

RETRIED = "retried"
"""Counted beside the outcomes: a run has ended, and its instance runs again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """Counts of one queue in one minute.

    Attributes:
        at: Start of the minute, by the store's time.
        queue: The queue.
        ended: Number of instances that ended, by the name of the outcome. *retried* is
            the number of runs that another run of their instance follows.
        lateness: How late the runs of this minute began.
    """

    at: datetime
    queue: str
    ended: Mapping[str, int] = field(default_factory=dict)
    lateness: Histogram = field(default_factory=Histogram)

    def __add__(self, other: QueueStats) -> QueueStats:
        """The sum of two nodes' counts of the same minute and queue."""
        return QueueStats(
            at=self.at,
            queue=self.queue,
            ended=_added(self.ended, other.ended),
            lateness=self.lateness + other.lateness,
        )


def _added(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    return dict(Counter(one) + Counter(other))


COUNTED = 10_000
"""How far is counted, by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A number of things, counted up to a limit; as text, such as ``10,000+``.

    Attributes:
        count: How many were counted.
        more: Whether there are more, or may be.
    """

    count: int
    more: bool = False

    @classmethod
    def up_to(cls, most: int, found: int) -> Counted:
        """A number that is counted up to ``most``."""
        return cls(count=min(most, found), more=found > most)

    def __str__(self) -> str:
        return f"{self.count:,}+" if self.more else f"{self.count:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What is due in a queue and has not been claimed.

    Attributes:
        queue: The queue.
        due: How many instances.
        oldest: The earliest ``due_at`` of those that were counted.
    """

    queue: str
    due: Counted
    oldest: datetime
