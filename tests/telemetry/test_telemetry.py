"""Telemetry: metrics and spans of what nodes do, as OpenTelemetry has them."""

from __future__ import annotations

import asyncio
import queue
import re
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.propagate import inject
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from prometheus_client import generate_latest

from go_scheduler import Fail, RetryAfter
from go_scheduler.client import Client
from go_scheduler.events import (
    InstanceDropped,
    InstanceFinished,
    InstanceSkipped,
    hears,
)
from go_scheduler.http.routes.system import of_store, written
from go_scheduler.models import State, TaskDefinition, TaskInstance
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.telemetry import Telemetry, figures
from go_scheduler.telemetry import telemetry as module
from go_scheduler.testing.builders import counts_by_state
from go_scheduler.testing.clock import START, ManualClock
from go_scheduler.triggers.simple import ExecuteOnceTrigger, IntervalTrigger
from tests.conftest import instance, seconds
from tests.patience import FAILED_AFTER
from tests.telemetry.conftest import OF_NODES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.telemetry.conftest import House


def run(
    house: House,
    handler: Callable[[TaskInstance], object],
    *definitions: TaskDefinition,
    clock: ManualClock,
) -> None:
    with house.scheduler(MemoryStore(clock), clock, handler) as scheduler:
        for each in definitions:
            scheduler.schedule(each)
        clock.advance(timedelta(minutes=1))


def once(name: str | None = None, at: float = 0) -> TaskDefinition:
    return TaskDefinition(trigger=ExecuteOnceTrigger(START + seconds(at)), name=name)


def test_what_runs_is_counted_by_queue_and_name(
    house: House, clock: ManualClock
) -> None:
    def handler(instance: TaskInstance) -> None:
        if instance.definition.name == "again" and instance.runs == 1:
            raise RetryAfter(seconds(1))
        if instance.definition.name == "bad":
            raise Fail("no")

    run(house, handler, once(), once("again"), once("bad"), once("bad"), clock=clock)
    points = house.points()
    nobody, again, bad = (("default", name) for name in ("unnamed", "again", "bad"))
    assert points["go_scheduler.fired"] == {nobody: 1, again: 1, bad: 2}
    assert points["go_scheduler.started"] == {nobody: 1, again: 2, bad: 2}
    assert points["go_scheduler.ended"] == {
        (*nobody, "completed"): 1,
        (*again, "completed"): 1,
        (*bad, "failed"): 2,
    }
    assert points["go_scheduler.retried"] == {nobody: 0, again: 1, bad: 0}
    assert points["go_scheduler.lateness"][again].count == 2
    assert points["go_scheduler.duration"][bad].count == 2
    # Read once more, nothing has been added.
    assert house.points()["go_scheduler.lateness"][again].count == 2


def test_what_does_not_run_is_counted(house: House, clock: ManualClock) -> None:
    store = MemoryStore(clock)
    with house.scheduler(store, clock, print) as one:
        often = IntervalTrigger(seconds(60), anchor=START)
        one.schedule(TaskDefinition(trigger=often, name="often"))
        clock.advance(seconds(61))
    clock.advance(timedelta(minutes=10))
    with house.scheduler(store, clock, print):
        clock.advance(seconds(1))
        points = house.points()
    assert points["go_scheduler.skipped"] == points["go_scheduler.misfires"]
    assert points["go_scheduler.skipped"]["default", "often"] == 9
    # The first node has stopped, and counts all the same.
    assert points["go_scheduler.started"]["default", "often"] == 2


def test_gauges_are_those_of_nodes_that_run(house: House, clock: ManualClock) -> None:
    def read() -> list[int]:
        points = house.points()
        return [points[each.name][()] for each in figures.PRESENT]

    assert read() == [0, 0, 0, 0, 1]
    scheduler = house.scheduler(MemoryStore(clock), clock, print)
    scheduler.start()
    scheduler.schedule(once(at=1.4))
    clock.advance(seconds(1))
    assert read() == [1, 0, 0, 0, 1]
    scheduler.stop()
    assert read() == [0, 0, 0, 0, 1]


def test_labels_have_no_more_than_so_many_values(
    house: House, clock: ManualClock
) -> None:
    run(house, print, *(once(f"{n:03}") for n in range(250)), clock=clock)
    started = house.points()["go_scheduler.started"]
    assert len(started) == 201
    assert started["other", "other"] == 50


def test_skips_of_more_names_stand_together_and_what_is_too_late_is_a_misfire(
    house: House,
) -> None:
    of: dict[str, Any] = {"definition_id": once().id, "queue": "default"}
    skip = {"first": START, "last": START, "count": 2, "late": False}
    for number in range(300):
        name = str(number)
        house.telemetry(InstanceSkipped(**of | skip, name=name, reason="overlap"))
    points = house.points()
    assert len(points["go_scheduler.skipped"]) == 201
    assert points["go_scheduler.skipped"]["other", "other"] == 200
    assert points["go_scheduler.misfires"]["other", "other"] == 0
    drop = {"instance_id": once().id, "attempt": 1, "late": seconds(90)}
    drop |= {"fire_time": START, "execute_at": START}
    house.telemetry(InstanceDropped(**of | drop, name="7", reason="too late"))
    points = house.points()
    assert points["go_scheduler.skipped"]["default", "7"] == 3
    assert points["go_scheduler.misfires"]["default", "7"] == 1


def test_both_exporters_have_the_names_and_buckets_of_the_table(
    house: House, clock: ManualClock
) -> None:
    run(house, print, once("a"), clock=clock)
    house.points()

    def heads(text: str) -> set[str]:
        lines = [each for each in text.splitlines() if not each.startswith("# HELP")]
        names = {re.split(r"[{ ]", each)[0] for each in lines}
        types = {each for each in lines if each.startswith("# TYPE")}
        bounds = set(re.findall(r'le="([\d.]+)"', text))
        numbers = {f"le {float(each)}" for each in bounds}
        return {each for each in names | types | numbers if "_created" not in each}

    nothing: Any = {"instances": {}, "backlog": [], "nodes": [], "workers": None}
    stored = of_store(**nothing, counts_nodes=True, now=START)
    ours = heads(written(stored, house.telemetry.gathered()))
    otel = heads(generate_latest(house.registry).decode())
    alone = {f"# TYPE {each.in_prometheus} gauge" for each in figures.OF_STORE}
    alone.add(figures.NODES.in_prometheus)
    # Ours has a head also for what has no point yet.
    for each in (figures.SKIPPED, figures.MISFIRES):
        alone.add(f"# TYPE {each.in_prometheus} counter")
    assert ours - alone == otel


def test_more_values_than_can_be_recorded_at_once_are_left_out(
    house: House, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_VALUES", 5)
    run(house, print, *(once("a") for _ in range(9)), clock=clock)
    points = house.points()
    assert points["go_scheduler.started"]["default", "a"] == 9
    names = points.keys() & {"go_scheduler.lateness", "go_scheduler.duration"}
    assert sum(points[name]["default", "a"].count for name in names) == 5


def test_each_run_is_a_span(house: House, clock: ManualClock) -> None:
    inside: list[trace.Span] = []

    def handler(instance: TaskInstance) -> None:
        inside.append(trace.get_current_span())
        if instance.runs == 1:
            raise RuntimeError("no")

    definition = once("send")
    with house.scheduler(MemoryStore(clock), clock, handler) as scheduler:
        scheduler.schedule(definition)
        clock.advance(timedelta(minutes=10))
    bad, good = house.spans("process")
    assert [each.get_span_context() for each in inside] == [bad.context, good.context]
    assert bad.name == good.name == "process send"
    assert bad.kind is trace.SpanKind.CONSUMER
    assert bad.status.status_code is trace.StatusCode.ERROR
    assert [each.name for each in bad.events] == ["exception"]
    assert good.status.is_ok
    attributes = dict(good.attributes or {})
    assert attributes["messaging.system"] == "go_scheduler"
    assert attributes["messaging.destination.name"] == "default"
    assert attributes["go_scheduler.definition.id"] == str(definition.id)
    assert attributes["go_scheduler.attempt"] == 2
    assert not trace.get_current_span().is_recording()


def test_a_run_does_not_fail_by_what_its_program_handles(house: House) -> None:
    telemetry = Telemetry(tracer_provider=house.tracers)
    try:
        raise KeyError  # As in a worker that is a program's second try.
    except KeyError:
        with telemetry.around(instance()):
            pass
    assert house.one("process").status.is_ok


def test_a_run_is_linked_to_the_span_that_its_payload_or_metadata_names(
    house: House, clock: ManualClock
) -> None:
    carrier: dict[str, str] = {}
    with house.tracer.start_as_current_span("order") as span:
        inject(carrier)
    with house.scheduler(MemoryStore(clock), clock, print) as scheduler:
        linked = scheduler.schedule(replace(once(), metadata=carrier))
        scheduler.run_now(scheduler.schedule(once(at=900)).id, payload={**carrier})
        scheduler.schedule(replace(once(), metadata={"traceparent": "odd"}))
        clock.advance(seconds(1))
    assert linked.metadata == carrier
    found = [
        [each.context.span_id for each in run.links] for run in house.spans("process")
    ]
    ours = [span.get_span_context().span_id]
    assert found.count(ours) == 2
    # What is none counts as if it were not there.
    assert sorted(map(len, found)) == [1, 1, 1]


def test_the_span_is_current_in_async_handlers_and_in_threads(house: House) -> None:
    inside: list[trace.Span] = []

    async def handler(instance: TaskInstance) -> None:
        await asyncio.sleep(0)
        in_a_thread(instance)

    def in_a_thread(instance: TaskInstance) -> None:
        inside.append(trace.get_current_span())
        ended.put(None)

    ended: queue.SimpleQueue[None] = queue.SimpleQueue()
    for each in (handler, in_a_thread):
        with Scheduler(each, MemoryStore(), listeners=[house.telemetry]) as scheduler:
            task = TaskDefinition(trigger=IntervalTrigger(timedelta(days=1)))
            scheduler.run_now(scheduler.schedule(task).id)
            ended.get(timeout=FAILED_AFTER)
    ours = {each.context.span_id for each in house.spans("process") if each.context}
    assert {each.get_span_context().span_id for each in inside} == ours
    assert len(inside) == 2


def test_without_arguments_the_global_providers_are_used_once_they_are_set(
    monkeypatch: pytest.MonkeyPatch, house: House
) -> None:
    telemetry = Telemetry()
    of = once("a")
    given = TaskInstance(
        id=of.id, definition=of, fire_time=START, execute_at=START, due_at=START
    )
    with telemetry.around(given):
        assert trace.get_current_span() is trace.INVALID_SPAN
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", house.tracers)
    with telemetry.around(given):
        assert trace.get_current_span().is_recording()
    assert [each.name for each in house.spans("process")] == ["process a"]


@pytest.mark.parametrize("figure", [*OF_NODES, *figures.OF_STORE])
def test_each_figure_is_on_its_page(figure: figures.Figure) -> None:
    page = (Path(__file__).parents[2] / "docs/telemetry.md").read_text()
    labels = ", ".join(f"`{each}`" for each in figure.labels)
    row = f"| `{figure.name}` | `{figure.in_prometheus}` | {figure.kind} | {labels} |"
    assert row in page
    assert figure.text in page


class Broken(metrics.Histogram):
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
        Client(store).schedule_all(map(once, ("bad", *"abcdef")))
        clock.advance(seconds(1))
    assert sorted(ran) == [*"ab", "bad", *"cdef"]
    assert counts_by_state(store)[State.COMPLETED] == 6
    [bad] = [each for each in store.select() if each.outcome is None]
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
        one.schedule(once())
        clock.advance(seconds(1))
        read = reader.get_metrics_data()
    assert counts_by_state(store)[State.COMPLETED] == 1
    assert read is not None
    [scope] = read.resource_metrics[0].scope_metrics
    names = {each.name for each in scope.metrics}
    assert {figures.STARTED.name, figures.HEALTHY.name} <= names
    meters.shutdown()
