"""Metrics in the format of Prometheus, of this process's nodes and of the store."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client import generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector, CollectorRegistry

from go_scheduler.models.counts import BOUNDS_IN_SECONDS
from go_scheduler.telemetry import figures
from go_scheduler.telemetry.figures import COUNTED, PRESENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from prometheus_client import Metric

    from go_scheduler.models import Backlog, Counted, Counts, Histogram, NodeInfo, State
    from go_scheduler.telemetry.figures import Figure, Gathered, Reading

_BUCKETS = {bound: f"{bound:g}" for bound in figures.BUCKETS}


class OfStore:
    """The metrics of a store.

    Args:
        instances: The number of instances in each state.
        backlog: The due instances that nobody has claimed.
        nodes: The nodes that the store knows.
        counts_nodes: Whether the number of nodes is shown, not only the queues that
            they serve.
        workers: How many workers wait here; None: this server hands out no work.
        now: The store's time.
    """

    def __init__(
        self,
        *,
        instances: Mapping[State, Counted],
        backlog: Sequence[Backlog],
        nodes: Sequence[NodeInfo],
        counts_nodes: bool,
        workers: int | None,
        now: datetime,
    ) -> None:
        taking = [each for each in nodes if each.takes_on]
        ages = [max(0.0, (now - each.oldest).total_seconds()) for each in backlog]
        served = [sum(node.serves(it.queue) for node in taking) for it in backlog]
        queues = [(each.queue,) for each in backlog]
        counts = [((state.value,), each.count) for state, each in instances.items()]
        self.readings: list[tuple[Figure, Iterable[Reading]]] = [
            (figures.INSTANCES, counts),
            (figures.BACKLOG, [((each.queue,), each.due.count) for each in backlog]),
            (figures.BACKLOG_AGE, [*zip(queues, ages, strict=True)]),
            (figures.SERVING, [*zip(queues, served, strict=True)]),
        ]
        if counts_nodes:
            self.readings.append(
                (figures.NODES, [((), sum(each.alive for each in nodes))])
            )
        if workers is not None:
            self.readings.append((figures.WAITING_WORKERS, [((), workers)]))


def written(of_store: OfStore, gathered: Gathered | None) -> str:
    """All metrics, in the text format 0.0.4.

    Args:
        of_store: The metrics of the store.
        gathered: The counts of this process's nodes; None: there are none.
    """
    registry = CollectorRegistry()
    registry.register(_Once(of_store, gathered))
    return generate_latest(registry).decode()


class _Once(Collector):
    """A collector of metrics that have been read already."""

    def __init__(self, of_store: OfStore, gathered: Gathered | None) -> None:
        self._of_store = of_store
        self._gathered = gathered

    def describe(self) -> Iterable[Metric]:
        """Describe nothing, or Prometheus would collect twice."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics."""
        for figure, readings in self._of_store.readings:
            yield _family(GaugeMetricFamily, figure, readings)
        if self._gathered is not None:
            yield from _of_nodes(self._gathered)


def _of_nodes(found: Gathered) -> Iterator[Metric]:
    for figure, read in COUNTED.items():
        yield _family(CounterMetricFamily, figure, read(found))
    for figure, read in PRESENT.items():
        yield _family(GaugeMetricFamily, figure, read(found))
    yield _histogram(figures.LATENESS, found, lambda it: (it.lateness, it.late))
    yield _histogram(figures.DURATION, found, lambda it: (it.durations, it.took))


def _family(
    kind: type[CounterMetricFamily | GaugeMetricFamily],
    figure: Figure,
    readings: Iterable[Reading],
) -> Metric:
    family = kind(figure.in_prometheus, figure.text, labels=figure.labels)
    for labels, value in readings:
        family.add_metric(labels, value)
    return family


def _histogram(
    figure: Figure,
    found: Gathered,
    of: Callable[[Counts], tuple[Histogram, timedelta]],
) -> Metric:
    family = HistogramMetricFamily(
        figure.in_prometheus, figure.text, labels=figure.labels
    )
    for labels, counts in found.counts.items():
        histogram, total = of(counts)
        family.add_metric(labels, _buckets(histogram), total.total_seconds())
    return family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """The cumulative count up to each bound."""
    cumulated = accumulate(histogram.counts)
    below = [
        (_BUCKETS[bound], float(count))
        for bound, count in zip(BOUNDS_IN_SECONDS, cumulated, strict=False)
        if bound in _BUCKETS
    ]
    return [*below, ("+Inf", float(histogram.total))]
