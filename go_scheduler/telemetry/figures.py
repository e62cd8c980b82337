"""Metrics: the name of each, and how its value is read from the counts of nodes."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from go_scheduler.events import Event, InstanceDropped, InstanceSkipped
from go_scheduler.events.event import Instrument, Watched
from go_scheduler.models import BOUNDS, Counts, TaskInstance, counts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from go_scheduler.health import Health

# Each is a bound of the counted lateness, so that no count has to be divided.
BUCKETS = tuple(
    each.total_seconds()
    for each in BOUNDS
    if each.total_seconds()
    in (
        *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
        *(1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 500.0, 1000.0, 5000.0, 43200.0),
    )
)
"""The upper bounds of the buckets of histograms, in seconds."""


class Kind(StrEnum):
    """The kind of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Figure(NamedTuple):
    """A metric.

    Attributes:
        name: Its name in OpenTelemetry.
        kind: Its kind.
        unit: Its unit, in braces; *s*: seconds.
        text: Its description.
        labels: The names of its labels.
    """

    name: str
    kind: Kind
    unit: str
    text: str
    labels: tuple[str, ...] = ()

    @property
    def in_prometheus(self) -> str:
        """Its name in Prometheus, without the suffixes of the parts of a histogram."""
        name = self.name.replace(".", "_")
        unit = "_seconds" if self.unit == "s" else ""
        return f"{name}{unit}{'_total' if self.kind is Kind.COUNTER else ''}"


_OF = ("queue", "name")


def _counter(name: str, unit: str, text: str, *labels: str) -> Figure:
    return Figure(f"go_scheduler.{name}", Kind.COUNTER, unit, text, labels or _OF)


def _gauge(name: str, unit: str, text: str, *labels: str) -> Figure:
    return Figure(f"go_scheduler.{name}", Kind.GAUGE, unit, text, labels)


def _histogram(name: str, text: str) -> Figure:
    return Figure(f"go_scheduler.{name}", Kind.HISTOGRAM, "s", text, _OF)


FIRED = _counter("fired", "{instance}", "Instances made of fire times.")
STARTED = _counter("started", "{run}", "Runs that began.")
ENDED = _counter(
    "ended", "{instance}", "Instances that ended.", "queue", "name", "outcome"
)
RETRIED = _counter(
    "retried", "{run}", "Runs that ended and are followed by another of their instance."
)
SKIPPED = _counter("skipped", "{fire_time}", "Fire times that do not run.")
MISFIRES = _counter("misfires", "{fire_time}", "Those of them that were missed.")
LATENESS = _histogram("lateness", "How long after they were due runs began.")
DURATION = _histogram("duration", "How long runs took.")
HELD = _gauge("held", "{instance}", "Instances held here until they are due.")
BUSY = _gauge("busy", "{instance}", "Instances that need a worker here, or have one.")
STUCK = _gauge("stuck_workers", "{run}", "Handlers that outlived what they may take.")
UNRECORDED = _gauge("unrecorded", "{run}", "Ends that the store has not taken yet.")
HEALTHY = _gauge("healthy", "1", "Whether all schedulers of this process are well.")
INSTANCES = _gauge(
    "instances", "{instance}", "Instances in the store, 10,000 at most.", "state"
)
BACKLOG = _gauge(
    "backlog",
    "{instance}",
    "Instances that are due and no node has taken, or that nodes have given back,"
    " 10,000 at most.",
    "queue",
)
BACKLOG_AGE = _gauge(
    "backlog_age", "s", "For how long the first of them has been due.", "queue"
)
NODES = _gauge("nodes", "{node}", "Nodes that are alive.")
SERVING = _gauge(
    "serving_nodes",
    "{node}",
    "Nodes that take on what is due in a queue with a backlog.",
    "queue",
)
WAITING_WORKERS = _gauge(
    "waiting_workers", "{worker}", "Workers that wait for work here."
)
OF_STORE = (INSTANCES, BACKLOG, BACKLOG_AGE, NODES, SERVING, WAITING_WORKERS)
"""The metrics of a store, which a server has."""


Labels: TypeAlias = tuple[str, str]
"""Queue and name."""

_MOST_LABELS = 200
_OTHERS = ("other", "other")
_UNNAMED = "unnamed"
_NOTHING: AbstractContextManager[object] = nullcontext()


class Gathered(NamedTuple):
    """The counts of all nodes of this process.

    Attributes:
        counts: By queue and name.
        skipped: Number of fire times that do not run, and of those that were missed.
        health: The health of each node that has not stopped.
    """

    counts: dict[Labels, Counts]
    skipped: dict[Labels, tuple[int, int]]
    health: Sequence[Health]


class Gathering(Instrument):
    """Collects the counts of the nodes of all schedulers that have it as a listener.

    At most 200 pairs of queue and name are told apart; further pairs count as *other*.
    """

    surrounds = False

    def __init__(self) -> None:
        super().__init__(self._hear, (InstanceSkipped, InstanceDropped))
        self._lock = threading.Lock()
        self._nodes: list[Watched] = []
        self._stopped: dict[Labels, Counts] = {}
        self._skipped: Counter[Labels] = Counter()
        self._missed: Counter[Labels] = Counter()

    def watch(self, node: Watched) -> None:
        """Collect from a node until it has stopped."""
        with self._lock:
            self._nodes.append(node)

    def around(self, instance: TaskInstance) -> AbstractContextManager[object]:
        """Nothing."""
        return _NOTHING

    def gathered(self) -> Gathered:
        """The counts up to now. None of them ever falls."""
        with self._lock:
            # Stopped nodes first: what a node counts while it stops is not lost.
            over = [each for each in self._nodes if each.stopped]
            self._nodes = [each for each in self._nodes if each not in over]
            _add(self._stopped, _counts_of(over))
            counts = dict(self._stopped)
            _add(counts, _counts_of(self._nodes))
            skipped = {
                labels: (count, self._missed[labels])
                for labels, count in self._skipped.items()
            }
        return Gathered(counts, skipped, [each.health() for each in self._nodes])

    def _hear(self, event: Event) -> None:
        assert isinstance(event, InstanceSkipped | InstanceDropped)
        count, late = 1, True
        if isinstance(event, InstanceSkipped):
            count, late = event.count, event.late
        with self._lock:
            labels = _bounded(_labels(event.queue, event.name), self._skipped)
            self._skipped[labels] += count
            self._missed[labels] += count if late else 0


def _counts_of(nodes: Iterable[Watched]) -> Iterable[Counts]:
    return (each for node in nodes for each in node.metrics.totals())


def _add(to: dict[Labels, Counts], counts: Iterable[Counts]) -> None:
    for each in counts:
        labels = _bounded(_labels(each.queue, each.name), to)
        to[labels] = to[labels] + each if labels in to else each


def _labels(queue: str, name: str | None) -> Labels:
    return queue, _UNNAMED if name is None else name


def _bounded(labels: Labels, known: Mapping[Labels, object]) -> Labels:
    return labels if labels in known or len(known) < _MOST_LABELS else _OTHERS


Reading: TypeAlias = tuple[tuple[str, ...], float]
"""The values of the labels, and the value."""

Read: TypeAlias = "Callable[[Gathered], Iterable[Reading]]"
"""Reads all values of a metric."""


def _counted(count: Callable[[Counts], int]) -> Read:
    return lambda found: ((of, count(each)) for of, each in found.counts.items())


def _ended(found: Gathered) -> Iterable[Reading]:
    for of, each in found.counts.items():
        for how, count in each.ended.items():
            if how != counts.RETRIED:
                yield (*of, how), count


def _skipped(number: int) -> Read:
    return lambda found: ((of, each[number]) for of, each in found.skipped.items())


def _sum(count: Callable[[Health], int]) -> Read:
    return lambda found: [((), sum(map(count, found.health)))]


COUNTED: Mapping[Figure, Read] = {
    FIRED: _counted(lambda each: each.fired),
    STARTED: _counted(lambda each: each.lateness.total),
    ENDED: _ended,
    RETRIED: _counted(lambda each: each.ended.get(counts.RETRIED, 0)),
    SKIPPED: _skipped(0),
    MISFIRES: _skipped(1),
}
"""The counters."""

PRESENT: Mapping[Figure, Read] = {
    HELD: _sum(lambda each: each.waiting),
    BUSY: _sum(lambda each: each.busy),
    STUCK: _sum(lambda each: each.stuck_workers),
    UNRECORDED: _sum(lambda each: each.unrecorded),
    HEALTHY: lambda found: [((), min((e.ok for e in found.health), default=1))],
}
"""The gauges."""
