"""The figures: what each is called, what it is about, and in which unit."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from go_scheduler.models import BOUNDS

# Of those in which lateness is counted, so that no count has to be divided.
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
    """What kind of figure one is."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Figure(NamedTuple):
    """A figure.

    Attributes:
        name: As OpenTelemetry has it.
        kind: Its kind.
        unit: What it counts, in braces; *s*: seconds.
        text: What it is.
        labels: By what it is divided.
    """

    name: str
    kind: Kind
    unit: str
    text: str
    labels: tuple[str, ...] = ()

    @property
    def in_prometheus(self) -> str:
        """As Prometheus has it, but for what it adds to the parts of a histogram."""
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
OF_NODES = (
    FIRED,
    STARTED,
    ENDED,
    RETRIED,
    SKIPPED,
    MISFIRES,
    LATENESS,
    DURATION,
    HELD,
    BUSY,
    STUCK,
    UNRECORDED,
    HEALTHY,
)
"""Those that each process has of its own nodes."""

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
"""Those of a store, which a server has."""
