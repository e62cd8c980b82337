"""What raises as spans are made harms no run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from go_scheduler.client import Client
from go_scheduler.models import State, TaskDefinition
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.telemetry import Telemetry
from go_scheduler.testing.clock import START, ManualClock
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from tests.conftest import seconds

if TYPE_CHECKING:
    from go_scheduler.models import TaskInstance


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
