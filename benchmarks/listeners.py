"""What it costs a drain that somebody counts, measures or listens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.drain import FIGURES
from benchmarks.drain import drain as drain_heard
from benchmarks.experiment import Call, Experiment, ours
from benchmarks.names import WHERE
from go_scheduler.events import RunEnded, hears
from go_scheduler.telemetry import Telemetry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.sizes import Sizes
    from go_scheduler.events import Event, Listener


def drain(url: str, *, instances: int, heard_by: str) -> dict[str, float]:
    """Have all that is due run, while somebody listens."""
    return drain_heard(url, instances=instances, listeners=_LISTENERS[heard_by]())


@hears(RunEnded)
def _hear(event: Event) -> None:
    """Hear of it."""


def _read() -> Sequence[Listener]:
    """A telemetry whose metrics are exported often, and that nobody asks for spans."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import (
        MetricExporter,
        MetricExportResult,
        PeriodicExportingMetricReader,
    )

    class Nowhere(MetricExporter):
        def export(self, *_: object, **__: object) -> MetricExportResult:
            return MetricExportResult.SUCCESS

        def force_flush(self, timeout_millis: float = 0) -> bool:
            return True

        def shutdown(self, *_: object, **__: object) -> None:
            pass

    reader = PeriodicExportingMetricReader(Nowhere(), export_interval_millis=5000)
    return [Telemetry(meter_provider=MeterProvider([reader]))]


_LISTENERS: dict[str, Callable[[], Sequence[Listener]]] = {
    "nobody": list,
    "Telemetry that nobody reads": lambda: [Telemetry()],
    "Telemetry": _read,
    "a listener that hears of each run": lambda: [_hear],
}


def experiments(engine: str, sizes: Sizes) -> Iterator[Experiment]:
    """Those on one kind of store."""
    in_memory = engine == "memory"
    count = sizes.drained_in_memory if in_memory else sizes.drained
    some: dict[str, object] = {"instances": count}
    seeds = None if in_memory else Call("seeds:due", some)
    yield Experiment(
        title=f"drain of {count:,} one-off definitions {WHERE[engine]}, heard by",
        noun="listeners",
        figures=FIGURES,
        variants=[
            ours(
                Call("listeners:drain", some | {"heard_by": each}),
                engine,
                name=each,
                prepare=seeds,
            )
            for each in _LISTENERS
        ],
    )
