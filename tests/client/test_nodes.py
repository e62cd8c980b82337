"""Nodes: who they are, what they run, and whether they live."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

import go_scheduler
from go_scheduler.client import Client
from go_scheduler.clock import ZERO
from go_scheduler.handlers.registry import HandlerRegistry
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.messages import Announcement
from go_scheduler.testing.builders import LEASE, MINUTE, NODE, OTHER_NODE, TICK
from tests.conftest import seconds

if TYPE_CHECKING:
    from datetime import timedelta

    from go_scheduler.handlers.registry import Handler
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock


def started(
    handler: Handler | None, store: Store, clock: ManualClock, **settings: object
) -> Scheduler:
    scheduler = Scheduler(handler, store, clock=clock, **settings)  # type: ignore[arg-type]
    scheduler.start()
    clock.advance(ZERO)
    return scheduler


def test_a_node_says_who_it_is_and_what_it_runs(
    store: Store, clock: ManualClock
) -> None:
    began = clock.now()
    scheduler = started(print, store, clock, queues=["mail", "reports"])
    clock.advance(seconds(60))
    [node] = Client(store).nodes()
    assert node.id == scheduler.health().node
    assert (node.host, node.pid) == (socket.gethostname(), os.getpid())
    assert node.version == go_scheduler.__version__
    assert node.queues == ("mail", "reports")
    assert node.names is None
    assert node.since == began
    assert clock.now() - seconds(4) <= node.seen_at <= clock.now()
    assert node.alive
    assert not node.stopping
    assert str(node) == (
        f"node {node.id} (host {socket.gethostname()}, pid {os.getpid()})"
    )


def test_a_node_with_a_registry_says_which_names_it_knows_up_to_a_thousand(
    store: Store, clock: ManualClock
) -> None:
    handlers = HandlerRegistry()
    handlers.register("send")(print)
    scheduler = started(handlers, store, clock)
    [node] = scheduler.nodes()
    assert node.names == ("send",)
    assert node.knows("send")
    assert not node.knows("report")
    assert not node.knows(None)
    handlers.register("report")(print)
    clock.advance(seconds(10))
    [node] = scheduler.nodes()
    assert node.names == ("report", "send")
    for number in range(998):
        handlers.register(str(number))(print)
    clock.advance(seconds(10))
    [node] = scheduler.nodes()
    assert len(node.names or ()) == 1000
    handlers.register("one more")(print)
    clock.advance(seconds(10))
    [node] = scheduler.nodes()
    assert node.names is None
    assert node.knows("one more")


def test_a_node_without_a_handler_says_that_it_runs_nothing(
    store: Store, clock: ManualClock
) -> None:
    started(None, store, clock)
    [node] = Client(store).nodes()
    assert (node.queues, node.names) == ((), ())
    assert not node.serves("default")
    assert not node.knows("send")
    assert node.takes_on


@pytest.mark.parametrize(("lease", "alive_for"), [(LEASE, LEASE), (None, MINUTE)])
def test_a_node_that_is_silent_for_more_than_its_lease_is_not_alive(
    store: Store, clock: ManualClock, lease: timedelta | None, alive_for: timedelta
) -> None:
    one = Announcement(node=NODE, host="b", pid=1, lease=lease)
    other = Announcement(node=OTHER_NODE, host="a", lease=lease)
    for each in (one, other):
        store.note_contact(each, unbroken=ZERO)
    clock.advance(alive_for)
    client = Client(store)
    assert all(each.alive for each in client.nodes())
    store.note_contact(one, unbroken=ZERO)
    clock.advance(TICK)
    found = [(each.host, each.alive) for each in client.nodes()]
    assert found == [("b", True), ("a", False)]


def test_a_node_of_which_nothing_is_known_may_serve_everything(store: Store) -> None:
    store.note_contact(Announcement(node=NODE), unbroken=ZERO)
    [node] = Client(store).nodes()
    assert node.serves("mail")
    assert node.knows("send")
    assert str(node) == f"node {NODE}"
