"""What tests of metrics and traces start from: a telemetry that they look at."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from go_scheduler.client import Client
from go_scheduler.scheduler import Scheduler
from go_scheduler.telemetry import Telemetry, figures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


OF_NODES = (
    *figures.COUNTED,
    *(figures.LATENESS, figures.DURATION),
    *figures.PRESENT,
)


class House:
    """A telemetry with providers of its own."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.registry = CollectorRegistry()
        self.prometheus = PrometheusMetricReader(
            disable_target_info=True, scope_info_enabled=False, registry=self.registry
        )
        self.meters = MeterProvider([self.reader, self.prometheus])
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.tracers.get_tracer("test")
        self.telemetry = Telemetry(
            meter_provider=self.meters, tracer_provider=self.tracers
        )

    def stop(self) -> None:
        self.meters.shutdown()
        self.tracers.shutdown()

    def points(self) -> dict[str, dict[tuple[str, ...], Any]]:
        """What is exported: by name, the points by the values of their labels."""
        data = self.reader.get_metrics_data()
        assert data is not None
        return {
            metric.name: {
                tuple(map(str, (point.attributes or {}).values())): getattr(
                    point, "value", point
                )
                for point in metric.data.data_points
            }
            for of in data.resource_metrics
            for scope in of.scope_metrics
            for metric in scope.metrics
        }

    def spans(self, name: str = "") -> list[ReadableSpan]:
        """The spans that have ended whose name begins so, in their order."""
        found = self.exporter.get_finished_spans()
        return [each for each in found if each.name.startswith(name)]

    def one(self, name: str) -> ReadableSpan:
        [span] = self.spans(name)
        return span

    def attributes(self, name: str) -> dict[str, Any]:
        """Those of the only span whose name begins so."""
        return dict(self.one(name).attributes or {})

    @contextmanager
    def order(self) -> Iterator[None]:
        """Within a span of the user's."""
        with self.tracer.start_as_current_span("order"):
            yield

    def scheduler(self, store: Store, clock: ManualClock, handler: Any) -> Scheduler:
        return Scheduler(handler, store, clock=clock, listeners=[self.telemetry])

    def client(self, store: Store) -> Client:
        return Client(store, telemetry=self.telemetry)


@pytest.fixture
def house() -> Iterator[House]:
    house = House()
    yield house
    house.stop()
