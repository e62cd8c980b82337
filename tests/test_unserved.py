"""Queues that no node serves are named once, with what to do, until one serves them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.node_health import UnservedQueues
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import Announcement, NodeContact
from go_scheduler.testing.builders import (
    LEASE,
    MINUTE,
    OTHER_NODE,
    SECOND,
    claim,
    definition,
    pending,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import timedelta

    from go_scheduler.testing import ManualClock


class Store(MemoryStore):
    """Counts how often it is asked, and may not know what nodes serve."""

    asked = 0
    knows = True

    def list_contacts(self, *, within: timedelta) -> Sequence[NodeContact]:
        contacts = super().list_contacts(within=within)
        if self.knows:
            return contacts
        return [
            replace(each, announced=Announcement(node=each.announced.node))
            for each in contacts
        ]

    def list_due_queues(self, *, apart_from: Collection[str]) -> Collection[str]:
        self.asked += 1
        return super().list_due_queues(apart_from=apart_from)


@pytest.fixture
def store(clock: ManualClock) -> Store:
    return Store(clock)


@pytest.fixture
def queues(store: Store, clock: ManualClock) -> UnservedQueues:
    return UnservedQueues(store, clock, own=["default"])


def look_for(queues: UnservedQueues, clock: ManualClock, span: timedelta) -> None:
    """Look every half minute."""
    for _ in range(span // (MINUTE / 2)):
        queues.look()
        clock.advance(MINUTE / 2)
    queues.look()


def serve(store: Store, *served: str) -> None:
    store.note_contact(Announcement(node=OTHER_NODE, queues=served), unbroken=ZERO)


def test_a_queue_that_nobody_serves_is_named_once_with_what_to_do(
    queues: UnservedQueues,
    store: Store,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    serve(store, "reports")
    pending(store, definition(queue="mial"))
    look_for(queues, clock, 3 * MINUTE)
    [text] = queues.texts
    assert text == (
        "queue 'mial' is served by no node, and something is due there; served are"
        " 'default', 'reports': name it in the queues= of a scheduler, or mind its"
        " spelling"
    )
    assert [each.getMessage() for each in caplog.records] == [text]


def test_whoever_serves_it_may_be_about_to_start(
    queues: UnservedQueues, store: Store, clock: ManualClock
) -> None:
    pending(store, definition(queue="mail"))
    look_for(queues, clock, MINUTE / 2)
    assert not queues.texts
    serve(store, "mail")
    look_for(queues, clock, 3 * MINUTE)
    assert not queues.texts


def test_a_node_that_stops_serves_nothing_any_more(
    queues: UnservedQueues, store: Store, clock: ManualClock
) -> None:
    stopping = Announcement(node=OTHER_NODE, queues=("mail",), stopping=True)
    store.note_contact(stopping, unbroken=ZERO)
    pending(store, definition(queue="mail"))
    look_for(queues, clock, MINUTE)
    assert len(queues.texts) == 1


def test_it_is_not_named_any_more_once_somebody_serves_it(
    queues: UnservedQueues,
    store: Store,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pending(store, definition(queue="mail"))
    look_for(queues, clock, MINUTE)
    assert len(queues.texts) == 1
    serve(store, "mail")
    look_for(queues, clock, MINUTE)
    assert not queues.texts
    # Its only node has died.
    look_for(queues, clock, 5 * MINUTE)
    assert not queues.texts
    look_for(queues, clock, MINUTE)
    assert len(queues.texts) == 1
    assert len(caplog.records) == 2


def test_nor_once_nothing_waits_there(
    queues: UnservedQueues, store: Store, clock: ManualClock
) -> None:
    pending(store, definition(queue="mail"))
    look_for(queues, clock, MINUTE)
    assert len(queues.texts) == 1
    claim(store, queues=["mail"])
    look_for(queues, clock, MINUTE / 2)
    assert not queues.texts


def test_what_is_late_in_a_queue_that_is_served_is_no_reason(
    queues: UnservedQueues, store: Store, clock: ManualClock
) -> None:
    serve(store, "mail")
    pending(store)
    pending(store, definition(queue="mail"))
    look_for(queues, clock, 3 * MINUTE)
    assert not queues.texts


def test_where_nobody_knows_what_a_node_serves_nothing_is_said(
    queues: UnservedQueues, store: Store, clock: ManualClock
) -> None:
    store.knows = False
    serve(store, "other")
    pending(store, definition(queue="mail"))
    look_for(queues, clock, 3 * MINUTE)
    assert not queues.texts


def test_a_hundred_queues_are_enough(store: Store, clock: ManualClock) -> None:
    class OneByOne(Store):
        def list_due_queues(self, *, apart_from: Collection[str]) -> Collection[str]:
            return sorted(super().list_due_queues(apart_from=apart_from))[:1]

    store = OneByOne(clock)
    for number in range(102):
        pending(store, definition(queue=f"{number:03}"))
    queues = UnservedQueues(store, clock, own=[])
    look_for(queues, clock, MINUTE)
    assert len(queues.texts) == 100
    assert "served are none: " in queues.texts[0]
    assert store.asked == 303


def test_where_nothing_is_due_in_others_nobody_asks_who_serves_them(
    clock: ManualClock,
) -> None:
    class Asked(MemoryStore):
        def list_contacts(self, *, within: timedelta) -> Sequence[NodeContact]:
            raise AssertionError("it is not needed")

    UnservedQueues(Asked(clock), clock, own=("default",)).look()


def test_it_looks_a_few_times_a_minute(
    queues: UnservedQueues, store: Store, clock: ManualClock
) -> None:
    for _ in range(601):
        queues.look()
        clock.advance(SECOND / 10)
    assert store.asked == 4
    clock.advance(LEASE)
    queues.look()
    assert store.asked == 5
