"""What it costs a drain that somebody counts, measures or listens."""

from __future__ import annotations

import gc
import time
from contextlib import closing
from typing import TYPE_CHECKING

from benchmarks.experiment import RATE, Call, Experiment, Figure, ours
from benchmarks.names import IN_WORDS
from benchmarks.seeds import put_due
from benchmarks.spread import Countdown
from go_scheduler import Scheduler
from go_scheduler.events import RunEnded, hears
from go_scheduler.stores import open_store
from go_scheduler.telemetry import Telemetry
from go_scheduler.telemetry.gathering import Gathering

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.sizes import Sizes
    from go_scheduler.events import Event
    from go_scheduler.events.listening import Listener

_FIGURES = (RATE, Figure(name="cpu", text="CPU of the process for each", unit="µs"))


def drain(url: str, *, instances: int, heard_by: str) -> dict[str, float]:
    """Have all that is due run, while somebody listens."""
    with closing(open_store(url)) as store:
        store.initialize()
        if url == "memory://":
            put_due(store, instances=instances)
        calls = Countdown(instances)
        scheduler = Scheduler(calls, store, listeners=_LISTENERS[heard_by]())
        gc.collect()
        gc.freeze()
        began, cpu = time.perf_counter(), time.process_time()
        with scheduler:
            calls.wait()
        gc.unfreeze()
    return calls.rate_since(began) | {"cpu": (calls.cpu - cpu) / instances * 1e6}


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
    "/metrics": lambda: [Gathering()],
    "Telemetry": _read,
    "a listener that hears of each run": lambda: [_hear],
}


def experiments(engine: str, sizes: Sizes) -> Iterator[Experiment]:
    """Those on one kind of store."""
    in_memory = engine == "memory"
    count = sizes.drained_in_memory if in_memory else sizes.drained
    some: dict[str, object] = {"instances": count}
    seeds = None if in_memory else Call("seeds:due", some | {"per_definition": 1})
    yield Experiment(
        title=f"drain of {count:,} one-off definitions on {IN_WORDS[engine]}, heard by",
        noun="listeners",
        figures=_FIGURES,
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
