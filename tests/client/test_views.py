"""What people look at is read in parts, and arguments are checked as elsewhere."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler.client import Client
from go_scheduler.errors import ConfigurationError
from go_scheduler.models import Counted, Outcome, State
from go_scheduler.stores.memory import MemoryStore
from go_scheduler.stores.messages import Addition
from go_scheduler.stores.sql import views
from go_scheduler.stores.sql.store import SQLStore
from go_scheduler.testing.builders import (
    HOUR,
    SECOND,
    definition,
    ended,
    fire,
    ids,
    pending,
    put,
    running,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock


def test_what_ended_is_read_a_page_at_a_time(store: Store, clock: ManualClock) -> None:
    client = Client(store)
    made = []
    for _ in range(3):
        made.append(ended(store, outcome=Outcome.FAILED))
        clock.advance(SECOND)
    page = client.list_ended("failed", limit=2)
    assert ids(page) == [made[2].id, made[1].id]
    rest = client.list_ended("failed", after=page.next, limit=2)
    assert ids(rest) == [made[0].id]
    assert rest.next is None


def test_rare_ends_are_found_where_the_list_goes_on(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "STRETCH", 3)
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


def test_figures_come_from_the_store(store: Store) -> None:
    ran = running(store)
    made = pending(store)
    client = Client(store)
    counts = client.counts_up_to()
    assert counts[State.RUNNING] == counts[State.PENDING] == Counted(count=1)
    assert [each.queue for each in client.backlog()] == ["default"]
    assert ids(client.list_claims()) == [ran.id]
    found = client.list_fired(made.definition.id, since=START, before=START + HOUR)
    assert ids(found) == [made.id]


def test_what_has_no_fire_time_is_found(store: Store) -> None:
    task = put(store, replace(definition(), name="send"))
    [added] = store.add_instances(task.id, [Addition(id=uuid4(), key="order 7")])
    client = Client(store)
    assert ids(client.list_unscheduled(task.id)) == [added.id]
    assert ids(client.search_key("order 7")) == [added.id]
    assert ids(client.search_names("se")) == [task.id]


def test_only_so_many_queues_are_looked_at(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "_QUEUES", 1)
    for queue in ("a", "b"):
        pending(store, definition(queue=queue))
    found = [each.queue for each in store.list_backlog(1)]
    waiting = sorted(each.definition.queue for each in store.list_waiting(limit=5))
    expected = ["a"] if isinstance(store, SQLStore) else ["a", "b"]
    assert found == waiting == expected


def test_it_can_be_awaited(store: Store) -> None:
    made = ended(store)
    found = asyncio.run(Client(store).alist_ended("completed"))
    assert ids(found) == [made.id]


def test_a_number_is_shown_as_people_read_it() -> None:
    assert str(Counted(count=1234)) == "1,234"
    assert str(Counted.up_to(10_000, 10_001)) == "10,000+"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda client: client.counts_up_to(0),
        lambda client: client.counts_up_to(True),
        lambda client: client.backlog("many"),
        lambda client: client.list_ended("lost"),
        lambda client: client.list_ended("failed", after="?"),
        lambda client: client.list_claims(limit=0),
        lambda client: client.list_fired("x", since=START, before=START),
        lambda client: client.list_fired(uuid4(), since=1, before=START),
        lambda client: client.list_unscheduled(uuid4(), limit=1001),
        lambda client: client.count_fired(uuid4(), [START]),
        lambda client: client.count_fired(uuid4(), [START] * 102),
        lambda client: client.count_fired(uuid4(), [1, 2]),
        lambda client: client.search_names(7),
        lambda client: client.search_names("\0"),
        lambda client: client.search_key(None),
    ],
)
def test_wrong_arguments_are_refused(wrong: Callable[[Client], object]) -> None:
    with pytest.raises(ConfigurationError):
        wrong(Client(MemoryStore()))


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
    assert ids(store.search_names("last", limit=1)) == [last.id]
    assert len(store.search_names("x", limit=5)) == 5
    assert len(store.list_unscheduled(last.id, limit=2000)) == 1000
