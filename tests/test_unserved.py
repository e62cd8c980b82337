"""Queues that no node serves are named once, with what to do, until one serves them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import Announcement, NodeContact
from go_scheduler.testing.builders import MINUTE, OTHER_NODE, claim, definition, pending

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import timedelta

    from go_scheduler.testing import ManualClock

LONG = 3 * MINUTE


class Store(MemoryStore):
    """Need not know what nodes serve, and may name one queue at a time."""

    knows = True
    most = 100

    def list_contacts(self, *, within: timedelta) -> Sequence[NodeContact]:
        contacts = super().list_contacts(within=within)
        if self.knows:
            return contacts
        return [
            replace(each, announced=Announcement(node=each.announced.node))
            for each in contacts
        ]

    def list_due_queues(self, *, apart_from: Collection[str]) -> Collection[str]:
        return sorted(super().list_due_queues(apart_from=apart_from))[: self.most]


@pytest.fixture
def store(clock: ManualClock) -> Store:
    return Store(clock)


@pytest.fixture
def node(store: Store, clock: ManualClock) -> Iterator[Scheduler]:
    with Scheduler(print, store, clock=clock) as node:
        yield node


def serve(store: Store, *served: str, stopping: bool = False) -> None:
    announced = Announcement(node=OTHER_NODE, queues=served, stopping=stopping)
    store.note_contact(announced, unbroken=ZERO)


def test_a_queue_that_nobody_serves_is_named_once_with_what_to_do(
    node: Scheduler, store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    serve(store, "reports")
    pending(store, definition(queue="mial"))
    clock.advance(LONG)
    [text] = node.health().warnings
    assert text == (
        "queue 'mial' is served by no node, and something is due there; served are"
        " 'default', 'reports': name it in the queues= of a scheduler, or mind its"
        " spelling"
    )
    assert [each.getMessage() for each in caplog.records] == [text]


def test_it_is_named_while_nobody_serves_it_and_something_is_due(
    node: Scheduler, store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    pending(store, definition(queue="mail"))
    clock.advance(MINUTE / 2)
    # Who serves it may be about to start.
    assert not node.health().warnings
    clock.advance(LONG)
    assert len(node.health().warnings) == 1
    serve(store, "mail")
    clock.advance(LONG)
    assert not node.health().warnings
    # Its only node has died; then it says that it stops.
    clock.advance(5 * MINUTE)
    assert len(node.health().warnings) == 1
    serve(store, "mail", stopping=True)
    clock.advance(LONG)
    assert len(node.health().warnings) == 1
    claim(store, queues=["mail"])
    clock.advance(MINUTE)
    assert not node.health().warnings
    assert len(caplog.records) == 2


@pytest.mark.parametrize(("served", "knows"), [("mail", True), ("other", False)])
def test_what_is_served_or_may_be_is_no_reason(
    node: Scheduler, store: Store, clock: ManualClock, served: str, knows: bool
) -> None:
    store.knows = knows
    for queue in ("default", "mail"):
        pending(store, definition(queue=queue))
    for _ in range(3):
        serve(store, served)
        clock.advance(MINUTE)
    assert not node.health().warnings


def test_a_hundred_queues_are_enough(
    node: Scheduler, store: Store, clock: ManualClock
) -> None:
    store.most = 1
    for number in range(102):
        pending(store, definition(queue=f"{number:03}"))
    clock.advance(LONG)
    assert len(node.health().warnings) == 100
