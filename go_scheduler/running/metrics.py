"""The metrics: what begins and ends on a node, in numbers, and if it begins in time."""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from go_scheduler.events import ObjectiveBroken, ObjectiveMet
from go_scheduler.models import Counts, Outcome, TaskDefinition
from go_scheduler.models.counts import (
    BOUNDS_IN_SECONDS,
    MINUTE,
    RETRIED,
    Histogram,
    QueueStats,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from go_scheduler.running.state import NodeState
    from go_scheduler.stores.messages import Firing

_PERIOD = timedelta(seconds=10)
# Further ones stand together, so that what is shown of them is bounded.
MOST_NAMES = 200
OTHERS = ("other", "other")
# Kept while the store is away. Further minutes push out the oldest.
_MOST_MINUTES = 240
# Each bucket, and how many were later than is wanted.
_BUCKETS = len(BOUNDS_IN_SECONDS) + 1
_BOUNDS_KEPT = (0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 50, 500, 5_000, 43_200)
# The twelve buckets that the store has: up to each of these, and later.
_KEPT = (*map(BOUNDS_IN_SECONDS.index, _BOUNDS_KEPT), _BUCKETS - 1)
Count: TypeAlias = "Callable[[TaskDefinition, Outcome | None, timedelta | None], None]"
"""As ``Metrics.ended``."""

_Key: TypeAlias = tuple[str, str | None]
_LONG_AGO = datetime(1, 1, 2, tzinfo=UTC)


class Recent(NamedTuple):
    """How late runs have begun lately: in the last minute, hour and day."""

    minute: Histogram
    hour: Histogram
    day: Histogram


class Metrics:
    """Counts the runs that begin and end here, by queue and minute.

    Counting one takes a lock and a look into a table of bounds; all else is done every
    ten seconds, with the counts of these.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._period: defaultdict[_Key, _Counts] = defaultdict(_Counts)
        self._totals: dict[_Key, Counts] = {}
        self._at = _LONG_AGO
        self._until = _LONG_AGO
        self._wanted = math.inf
        self._windows = (
            _Window(MINUTE, _PERIOD),
            _Window(timedelta(hours=1), MINUTE),
            _Window(timedelta(days=1), timedelta(minutes=15)),
        )
        self._minutes: dict[datetime, dict[str, QueueStats]] = {}
        self._taken: set[datetime] = set()

    def watch(self, wanted: timedelta) -> None:
        """Count also how many runs begin later than is wanted."""
        self._wanted = wanted.total_seconds()

    def begun(self, definition: TaskDefinition, late: timedelta, now: datetime) -> None:
        """Count a run that begins, so late, at this time of the store's."""
        seconds, key = late.total_seconds(), (definition.queue, definition.name)
        with self._lock:
            if now >= self._until:
                self._turn(now)
            counts = self._period[key]
            counts.seconds_late += seconds
            counts.late[bisect_left(BOUNDS_IN_SECONDS, seconds)] += 1
            if seconds > self._wanted:
                counts.late[_BUCKETS] += 1

    def ended(
        self,
        definition: TaskDefinition,
        outcome: Outcome | None,
        took: timedelta | None = None,
    ) -> None:
        """Count the end of an instance, or, without one, of a run that is repeated."""
        key = definition.queue, definition.name
        with self._lock:
            counts = self._period[key]
            if took is not None:
                seconds = took.total_seconds()
                counts.took[bisect_left(BOUNDS_IN_SECONDS, seconds)] += 1
                counts.seconds_taken += seconds
            how = RETRIED if outcome is None else outcome.value
            counts.ended[how] = counts.ended.get(how, 0) + 1

    def fired(self, firings: Sequence[Firing]) -> None:
        """Count the instances that firings have made."""
        with self._lock:
            for firing in firings:
                key = firing.definition.queue, firing.definition.name
                self._period[key].fired += len(firing.fire_times)

    def totals(self) -> Sequence[Counts]:
        """What was counted since the beginning."""
        with self._lock:
            self._fold()
            return [*self._totals.values()]

    def look(self, now: datetime) -> None:
        """Go on to this time of the store's; to be called every few seconds."""
        with self._lock:
            if not self._at <= now < self._until:
                self._turn(now)

    def recent(self) -> Recent:
        """How late runs have begun lately."""
        with self._lock:
            return Recent(
                *(Histogram(counts=tuple(each[:-1])) for each in self._sums())
            )

    def last_minute(self) -> tuple[int, int]:
        """How many runs began in the last minute, and how many later than wanted."""
        with self._lock:
            *counts, late = self._sums()[0]
        return sum(counts), late

    def take(self, *, last: bool = False) -> Sequence[QueueStats]:
        """Take the counts of the minutes that are over, to write them to the store.

        The counts that were taken before are forgotten: they have been written.

        Args:
            last: Whether to take the present minute too: nothing more is counted.
        """
        with self._lock:
            for at in self._taken:
                self._minutes.pop(at, None)
            if last:
                self._fold()
            over = {at for at in self._minutes if last or at + MINUTE <= self._at}
            self._taken = over
            return [each for at in sorted(over) for each in self._minutes[at].values()]

    def put_back(self) -> None:
        """Have the next take include the last one again: it could not be written."""
        with self._lock:
            self._taken = set()

    def _sums(self) -> Sequence[list[int]]:
        """Those of each window, with what has been counted since."""
        since = [counts.late for counts in self._period.values()]
        return [_sum([*each.parts.values(), *since]) for each in self._windows]

    def _turn(self, now: datetime) -> None:
        """Let the period end, and begin the one that this instant is in."""
        # What ended here while nothing began was counted lately.
        if self._at == _LONG_AGO:
            self._at = _floor(now, _PERIOD)
        self._fold()
        self._at = _floor(now, _PERIOD)
        self._until = self._at + _PERIOD
        for window in self._windows:
            window.forget(now)
        while len(self._minutes) > _MOST_MINUTES:
            del self._minutes[min(self._minutes)]

    def _fold(self) -> None:
        """Add what was counted in the period to all that it is part of."""
        if not self._period or self._at == _LONG_AGO:
            return
        period, self._period = self._period, defaultdict(_Counts)
        minute, late = _floor(self._at, MINUTE), _NOTHING
        for (queue, name), counted in period.items():
            counts = counted.counts(queue, name)
            key = queue, name
            if key not in self._totals and len(self._totals) >= MOST_NAMES:
                key = OTHERS
            before = self._totals.get(key, Counts(queue=key[0], name=key[1]))
            self._totals[key] = before + counts
            late = _sum([late, counted.late])
            if counts.ended or any(counted.late):
                queues = self._minutes.setdefault(minute, {})
                stats = queues.get(queue, QueueStats(at=minute, queue=queue))
                queues[queue] = stats + _stats(minute, counts)
        if any(late):
            for window in self._windows:
                window.add(self._at, late)


class _Counts:
    """What is counted of a queue and a name in one period."""

    def __init__(self) -> None:
        self.fired = 0
        self.seconds_late = 0.0
        self.seconds_taken = 0.0
        self.took = [0] * _BUCKETS
        self.ended: dict[str, int] = {}
        self.late = [0] * (_BUCKETS + 1)

    def counts(self, queue: str, name: str | None) -> Counts:
        """The same, as it is shown."""
        return Counts(
            queue=queue,
            name=name,
            fired=self.fired,
            ended=self.ended,
            lateness=Histogram(counts=tuple(self.late[:-1])),
            late=timedelta(seconds=self.seconds_late),
            durations=Histogram(counts=tuple(self.took)),
            took=timedelta(seconds=self.seconds_taken),
        )


def _stats(at: datetime, counts: Counts) -> QueueStats:
    """The same, as the store keeps it: the lateness in twelve buckets."""
    lateness = [0] * _BUCKETS
    for bucket, count in enumerate(counts.lateness.counts):
        lateness[_KEPT[bisect_left(_KEPT, bucket)]] += count
    return QueueStats(
        at=at,
        queue=counts.queue,
        ended=counts.ended,
        lateness=Histogram(counts=tuple(lateness)),
    )


class _Window:
    """Counts of the last while, in parts of which the oldest are forgotten."""

    def __init__(self, span: timedelta, width: timedelta) -> None:
        self._span = span
        self._width = width
        self.parts: dict[datetime, list[int]] = {}

    def add(self, at: datetime, counts: list[int]) -> None:
        """Add what was counted at this time."""
        part = _floor(at, self._width)
        self.parts[part] = _sum([self.parts.get(part, _NOTHING), counts])

    def forget(self, now: datetime) -> None:
        """Forget the parts that lie further back, and those to come of a clock set."""
        self.parts = {
            at: counts
            for at, counts in self.parts.items()
            if now - self._span < at <= now
        }


_NOTHING = [0] * (_BUCKETS + 1)


def _sum(counts: Sequence[list[int]]) -> list[int]:
    return [sum(each) for each in zip(_NOTHING, *counts, strict=True)]


def _floor(at: datetime, width: timedelta) -> datetime:
    return at - (at - _LONG_AGO) % width


# One of so many runs may be later.
_ONE_OF = 100


class Objective:
    """Tells when more than one run in a hundred was too late in the last minute.

    Args:
        state: What the node's parts share.

    Attributes:
        wanted: How late runs may be; None: nobody has said.
        met: Whether that is kept to; None: nobody has said how late they may be.
    """

    def __init__(self, state: NodeState) -> None:
        self.wanted = state.settings.lateness_objective
        self._metrics = state.metrics
        self._clock = state.clock
        self._node = state.node
        self._tell = state.events.teller("running").tell
        self._broken_at: timedelta | None = None
        if self.wanted is not None:
            self._metrics.watch(self.wanted)

    @property
    def met(self) -> bool | None:
        """Whether that is kept to; None: nobody has said how late they may be."""
        return None if self.wanted is None else self._broken_at is None

    def look(self) -> None:
        """Judge the last minute; to be called every few seconds."""
        elapsed = self._clock.elapsed()
        self._metrics.look(self._clock.at(elapsed))
        if self.wanted is None:
            return
        runs, late = self._metrics.last_minute()
        is_broken = late * _ONE_OF > runs
        if is_broken and self._broken_at is None:
            self._broken_at = elapsed
            self._tell(
                ObjectiveBroken(
                    node=self._node, objective=self.wanted, runs=runs, late=late
                )
            )
        elif self._broken_at is not None and not is_broken:
            after, self._broken_at = elapsed - self._broken_at, None
            self._tell(
                ObjectiveMet(node=self._node, objective=self.wanted, after=after)
            )
