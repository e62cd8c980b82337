"""The backlog has what nodes have given back, and will be offered again."""

from __future__ import annotations

from datetime import timedelta

from go_scheduler import (
    ExecuteOnceTrigger,
    HandlerRegistry,
    MemoryStore,
    OnDemandTrigger,
    Scheduler,
    TaskDefinition,
)
from go_scheduler.client import Client
from go_scheduler.testing import ManualClock
from go_scheduler.testing.clock import START


def test_what_was_given_back_counts_with_what_is_due() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    handlers = HandlerRegistry()
    handlers.register("known")(lambda _: None)
    with Scheduler(handlers, store, clock=clock) as node:
        node.schedule(TaskDefinition(name="typo", trigger=ExecuteOnceTrigger(START)))
        clock.advance(timedelta(seconds=5))
    client = Client(store)
    [alone] = client.backlog(50)
    assert (alone.due.count, alone.oldest) == (1, START)
    known = client.schedule(TaskDefinition(name="known", trigger=OnDemandTrigger()))
    client.run_now(known.id)
    [both] = client.backlog(50)
    assert (both.queue, both.due.count, both.oldest) == ("default", 2, START)
