"""What people look at is read in parts, and arguments are checked as elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from go_scheduler import (
    ExecuteOnceTrigger,
    HandlerRegistry,
    OnDemandTrigger,
    Scheduler,
    TaskDefinition,
)
from go_scheduler.client import Client
from go_scheduler.models import Counted, Outcome
from go_scheduler.stores.base import LOOKED_AT
from go_scheduler.stores.filters import CLAIMABLE, DefinitionFilter, Filter, Order
from go_scheduler.stores.memory import MemoryStore
from go_scheduler.stores.messages import Addition
from go_scheduler.stores.sql import views
from go_scheduler.stores.sql.store import SQLStore
from go_scheduler.testing.builders import (
    SECOND,
    definition,
    ended,
    fire,
    ids,
    pending,
    put,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    import pytest

    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock


def test_rare_ends_are_found_where_the_list_goes_on(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("go_scheduler.client.views.ENDED_LOOKED_AT", 3)
    rare = ended(store)
    for _ in range(5):
        clock.advance(SECOND)
        ended(store, outcome=Outcome.CANCELLED)
    client = Client(store)
    page, pages = client.list_ended("completed", limit=2), 1
    while not page:
        assert page.next is not None
        page, pages = (
            client.list_ended("completed", after=page.next, limit=2),
            pages + 1,
        )
    assert ids(page) == [rare.id]
    # SQL stores look at so many of all that have ended.
    assert pages == (2 if isinstance(store, SQLStore) else 1)


def test_only_so_many_queues_are_looked_at(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "_QUEUES", 1)
    for queue in ("a", "b"):
        pending(store, definition(queue=queue))
    found = [each.queue for each in store.list_backlog(1)]
    waiting = sorted(
        each.definition.queue
        for each in store.select(
            CLAIMABLE, order=Order.DUE, limit=5, scan_limit=LOOKED_AT
        )
    )
    expected = ["a"] if isinstance(store, SQLStore) else ["a", "b"]
    assert found == waiting == expected


def test_a_number_is_shown_as_people_read_it() -> None:
    assert str(Counted(count=1234)) == "1,234"
    assert str(Counted.up_to(10_000, 10_001)) == "10,000+"


def test_a_store_without_views_of_its_own_is_read_page_by_page(
    clock: ManualClock,
) -> None:
    store = MemoryStore(clock)
    store.initialize()
    many = [replace(definition(), id=uuid4(), name="x") for _ in range(1000)]
    store.put_definitions(many)
    last = put(store, definition(key=2**128 - 2, name="last"))
    fire(store, last, START)
    store.add_instances(last.id, [Addition(id=uuid4()) for _ in range(1000)])
    named = DefinitionFilter(name_prefix="last")
    assert ids(store.select_definitions(named, limit=1)) == [last.id]
    named = DefinitionFilter(name_prefix="x")
    assert len(store.select_definitions(named, limit=5)) == 5
    unfired = Filter(definition_id=last.id, fired=False)
    assert len(store.select(unfired, descending=True, limit=2000)) == 1000


def test_what_was_given_back_counts_with_what_is_due(clock: ManualClock) -> None:
    store = MemoryStore(clock)
    handlers = HandlerRegistry()
    handlers.register("known")(lambda _: None)
    with Scheduler(handlers, store, clock=clock) as node:
        node.schedule(TaskDefinition(name="typo", trigger=ExecuteOnceTrigger(START)))
        clock.advance(5 * SECOND)
    client = Client(store)
    [alone] = client.backlog(50)
    assert (alone.due.count, alone.oldest) == (1, START)
    known = client.schedule(TaskDefinition(name="known", trigger=OnDemandTrigger()))
    client.run_now(known.id)
    [both] = client.backlog(50)
    assert (both.queue, both.due.count, both.oldest) == ("default", 2, START)
