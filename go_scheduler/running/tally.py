"""The tally: what begins and ends on a node, in numbers, at next to no cost."""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.models import Outcome
from go_scheduler.models.histogram import BOUNDS_IN_SECONDS, Histogram
from go_scheduler.models.queue_stats import HOUR, MINUTE, RETRIED, QueueStats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_COMPLETED = Outcome.COMPLETED
_SLOT = timedelta(seconds=10)
_PERIODS = (MINUTE, HOUR)
# While the store is away; further ones push out the oldest.
_MOST_PERIODS = 240
# Each bucket, and how many were later than is wanted.
_BUCKETS = len(BOUNDS_IN_SECONDS) + 1
_LONG_AGO = datetime(1, 1, 2, tzinfo=UTC)


class Recent(NamedTuple):
    """How late runs have begun lately: in the last minute, hour and day."""

    minute: Histogram
    hour: Histogram
    day: Histogram


class Tally:
    """Counts the runs that begin and end here, by queue, minute and hour.

    Counting one takes a lock and a look into a table of bounds; all else is done every
    ten seconds, with the counts of these.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slot: dict[str, _Counts] = {}
        self._at = _LONG_AGO
        self._until = _LONG_AGO
        self._wanted = math.inf
        self._windows = (
            _Window(MINUTE, _SLOT),
            _Window(HOUR, MINUTE),
            _Window(timedelta(days=1), timedelta(minutes=15)),
        )
        self._periods: dict[tuple[timedelta, datetime], dict[str, _Counts]] = {}
        self._unwritten: set[tuple[timedelta, datetime]] = set()

    def watch(self, wanted: timedelta) -> None:
        """Count also how many runs begin later than is wanted."""
        self._wanted = wanted.total_seconds()

    def begun(self, queue: str, late: timedelta, now: datetime) -> None:
        """Count a run that begins, so late, at this time of the store's."""
        seconds = late.total_seconds()
        with self._lock:
            if now >= self._until:
                self._turn(now)
            counts = self._slot.get(queue)
            if counts is None:
                counts = self._slot[queue] = _Counts()
            counts.late[bisect_left(BOUNDS_IN_SECONDS, seconds)] += 1
            if seconds > self._wanted:
                counts.late[_BUCKETS] += 1

    def ended(self, queue: str, outcome: Outcome | None) -> None:
        """Count the end of an instance, or, without one, of a run that is repeated."""
        with self._lock:
            counts = self._slot.get(queue)
            if counts is None:
                counts = self._slot[queue] = _Counts()
            if outcome is _COMPLETED:
                # By far the most: the hash of an outcome costs as much as all else.
                counts.completed += 1
            else:
                how = RETRIED if outcome is None else outcome.value
                counts.ended[how] = counts.ended.get(how, 0) + 1

    def look(self, now: datetime) -> None:
        """Go on to this time of the store's; to be called every few seconds."""
        with self._lock:
            if not self._at <= now < self._until:
                self._turn(now)

    def recent(self) -> Recent:
        """How late runs have begun lately."""
        with self._lock:
            return Recent(*(Histogram(tuple(each[:-1])) for each in self._sums()))

    def last_minute(self) -> tuple[int, int]:
        """How many runs began in the last minute, and how many later than wanted."""
        with self._lock:
            *counts, late = self._sums()[0]
        return sum(counts), late

    def take(self, *, last: bool = False) -> Sequence[QueueStats]:
        """What is to be written once a minute is over in which anything was counted.

        It takes the place of what was written of the same minutes and hours before.

        Args:
            last: Whether to take all that there is: nothing more is counted.
        """
        with self._lock:
            if last:
                self._fold()
            taken = {
                (every, at)
                for every, at in self._unwritten
                if last or every == HOUR or at + every <= self._at
            }
            if all(every == HOUR for every, _ in taken) and not last:
                return []
            self._unwritten -= taken
            return [
                counts.stats(every, at, queue)
                for every, at in sorted(taken)
                for queue, counts in self._periods[every, at].items()
            ]

    def put_back(self, taken: Sequence[QueueStats]) -> None:
        """Have what was taken taken once more: it could not be written."""
        with self._lock:
            keys = {(each.every, each.at) for each in taken}
            self._unwritten |= keys & self._periods.keys()

    def _sums(self) -> Sequence[list[int]]:
        """Those of each window, with what has been counted since."""
        since = [counts.late for counts in self._slot.values()]
        return [_sum([*each.counts, *since]) for each in self._windows]

    def _turn(self, now: datetime) -> None:
        """Let the slot end, and begin the one that this instant is in."""
        # What ended here while nothing began was counted lately.
        if self._at == _LONG_AGO:
            self._at = _floor(now, _SLOT)
        self._fold()
        self._at = _floor(now, _SLOT)
        self._until = self._at + _SLOT
        for window in self._windows:
            window.forget(now)
        for key in list(self._periods):
            every, at = key
            if key not in self._unwritten and at + every <= now:
                del self._periods[key]
        while len(self._periods) > _MOST_PERIODS:
            oldest = min(self._periods, key=lambda key: key[1])
            del self._periods[oldest]
            self._unwritten.discard(oldest)

    def _fold(self) -> None:
        """Add what was counted in the slot to all that it is part of."""
        slot, self._slot = self._slot, {}
        if not slot:
            return
        late = _sum([counts.late for counts in slot.values()])
        for window in self._windows:
            window.add(self._at, late)
        for every in _PERIODS:
            key = every, _floor(self._at, every)
            self._unwritten.add(key)
            queues = self._periods.setdefault(key, {})
            for queue, counts in slot.items():
                queues.setdefault(queue, _Counts()).add(counts)


class _Counts:
    """What was counted of a queue."""

    __slots__ = ("completed", "ended", "late")

    def __init__(self) -> None:
        self.completed = 0
        self.ended: dict[str, int] = {}
        self.late = [0] * (_BUCKETS + 1)

    def add(self, other: _Counts) -> None:
        """Count what another has counted as well."""
        self.completed += other.completed
        self.late = _sum([self.late, other.late])
        for how, count in other.ended.items():
            self.ended[how] = self.ended.get(how, 0) + count

    def stats(self, every: timedelta, at: datetime, queue: str) -> QueueStats:
        """The same, as it is kept."""
        ended: Mapping[str, int] = dict(self.ended)
        if self.completed:
            ended = {Outcome.COMPLETED.value: self.completed, **ended}
        lateness = Histogram(tuple(self.late[:-1]))
        return QueueStats(
            at=at, every=every, queue=queue, ended=ended, lateness=lateness
        )


class _Window:
    """Counts of the last while, in parts of which the oldest are forgotten."""

    def __init__(self, span: timedelta, width: timedelta) -> None:
        self._span = span
        self._width = width
        self._parts: dict[datetime, list[int]] = {}

    @property
    def counts(self) -> Sequence[list[int]]:
        """Those of all its parts."""
        return list(self._parts.values())

    def add(self, at: datetime, counts: list[int]) -> None:
        """Add what was counted at this time."""
        part = _floor(at, self._width)
        self._parts[part] = _sum([self._parts.get(part, _NOTHING), counts])

    def forget(self, now: datetime) -> None:
        """Forget the parts that lie further back, and those to come of a clock set."""
        self._parts = {
            at: counts
            for at, counts in self._parts.items()
            if now - self._span < at <= now
        }


_NOTHING = [0] * (_BUCKETS + 1)


def _sum(counts: Sequence[list[int]]) -> list[int]:
    return [sum(each) for each in zip(_NOTHING, *counts, strict=True)]


def _floor(at: datetime, width: timedelta) -> datetime:
    return at - (at - _LONG_AGO) % width
