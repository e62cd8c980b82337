"""What raises as spans are made harms no run."""

from __future__ import annotations

import queue
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from opentelemetry.metrics import Histogram
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from go_scheduler.client import Client
from go_scheduler.events import InstanceFinished, hears
from go_scheduler.models import State, TaskDefinition
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.telemetry import Telemetry, figures
from go_scheduler.testing.clock import START, ManualClock
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from tests.conftest import seconds
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from go_scheduler.models import TaskInstance


class Broken(Histogram):
    """Raises whenever anything is recorded."""

    def __init__(self) -> None:
        """Be called nothing."""

    def record(self, *_: object) -> None:
        raise ZeroDivisionError


class CannotBegin(SpanProcessor):
    """Raises as a span begins."""

    def on_start(self, *_: object) -> None:
        raise ZeroDivisionError


class CannotEnd(SpanProcessor):
    """Raises as one ends."""

    def on_end(self, *_: object) -> None:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("processor", "told"), [(CannotBegin(), "begun"), (CannotEnd(), "ended")]
)
def test_a_span_that_cannot_be_made_harms_no_run(
    processor: SpanProcessor,
    told: str,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tracers = TracerProvider()
    tracers.add_span_processor(processor)
    ran: list[str] = []

    def handler(instance: TaskInstance) -> None:
        ran.append(str(instance.definition.name))
        if instance.definition.name == "bad":
            raise ValueError("its own")

    store = MemoryStore(clock)
    telemetry = Telemetry(tracer_provider=tracers)
    with Scheduler(handler, store, clock=clock, listeners=[telemetry]):
        for name in ("bad", *"abcdef"):
            trigger = ExecuteOnceTrigger(START)
            Client(store).schedule(TaskDefinition(trigger=trigger, name=name))
        clock.advance(seconds(1))
    counts = store.counts()
    assert sorted(ran) == [*"ab", "bad", *"cdef"]
    assert counts[State.COMPLETED] == 6
    [bad] = [each for each in store.list_instances() if each.outcome is None]
    assert "its own" in (bad.error or "")
    lines = [each for each in caplog.messages if "a span could not be" in each]
    assert lines == [f"a span could not be {told}"] * 5
    tracers.shutdown()


class Hangs(SpanProcessor):
    """Does not come back from the end of the first span until it is let go."""

    def __init__(self) -> None:
        self.hanging, self.let_go = threading.Event(), threading.Event()

    def on_end(self, *_: object) -> None:
        if not self.hanging.is_set():
            self.hanging.set()
            self.let_go.wait(FAILED_AFTER)


@pytest.mark.slow
def test_a_processor_that_hangs_keeps_its_own_run_alone() -> None:
    processor, tracers, store = Hangs(), TracerProvider(), MemoryStore()
    tracers.add_span_processor(processor)
    ended: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    listeners = [
        Telemetry(tracer_provider=tracers),
        hears(InstanceFinished)(lambda each: ended.put(each.name)),
    ]
    now = ExecuteOnceTrigger(datetime(2020, 1, 1, tzinfo=UTC))
    with Scheduler(lambda instance: None, store, listeners=listeners) as scheduler:
        Client(store).schedule(TaskDefinition(trigger=now, name="held"))
        assert processor.hanging.wait(FAILED_AFTER)
        scheduler.schedule(TaskDefinition(trigger=now, name="free"))
        assert ended.get(timeout=FAILED_AFTER) == "free"
        processor.let_go.set()
        assert ended.get(timeout=FAILED_AFTER) == "held"
    tracers.shutdown()


def test_an_instrument_that_raises_keeps_no_other_from_being_read(
    clock: ManualClock,
) -> None:
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader])
    telemetry = Telemetry(meter_provider=meters)
    telemetry._histograms = dict.fromkeys(telemetry._histograms, Broken())
    store = MemoryStore(clock)
    with Scheduler(lambda _: None, store, clock=clock, listeners=[telemetry]) as one:
        one.schedule(TaskDefinition(trigger=ExecuteOnceTrigger(START)))
        clock.advance(seconds(1))
        read = reader.get_metrics_data()
    assert store.counts()[State.COMPLETED] == 1
    assert read is not None
    names = {
        metric.name
        for resource in read.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert {figures.STARTED.name, figures.HEALTHY.name} <= names
    meters.shutdown()
