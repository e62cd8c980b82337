"""Takeover: a node takes lapsed claims once it knows that the store was not away."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler.clock import ZERO, StoreClock
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.running.announcing import Announcing
from go_scheduler.running.keeper import Contact
from go_scheduler.running.takeover import Takeover
from go_scheduler.running.tally import Objective, Tally
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import Announcement
from go_scheduler.testing.builders import LEASE, NODE, OTHER_NODE, TICK
from tests.conftest import SETTINGS, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from go_scheduler.stores.messages import NodeContact
    from go_scheduler.testing import ManualClock

SIXTH = LEASE / 6 + TICK
QUEUES = ("default",)
OTHER = Announcement(node=OTHER_NODE, queues=QUEUES)


class Store(MemoryStore):
    """Counts what is read, and may be away."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.reads = 0
        self.away = False

    def list_contacts(self, *, within: timedelta) -> Sequence[NodeContact]:
        self.reads += 1
        if self.away:
            raise StoreUnavailableError("away")
        return super().list_contacts(within=within)


class House:
    """A takeover, and how often it called for a look."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.looks = 0
        self.contact = Contact(clock, lease=LEASE)
        self.tally = Tally()
        of_store = StoreClock(clock, store.now)
        objective = Objective(None, self.tally, clock=of_store, node=NODE)
        self.takeover = Takeover(
            store,
            of_store,
            Announcing(NODE, print, SETTINGS, objective=objective),
            lease=LEASE,
            contact=self.contact,
            look=self._look,
        )

    def _look(self) -> None:
        self.looks += 1


@pytest.fixture
def store(clock: ManualClock) -> Store:
    return Store(clock)


@pytest.fixture
def house(store: Store, clock: ManualClock) -> House:
    return House(store, clock)


def test_alone_it_takes_over_after_a_lease_of_its_own_contact(
    house: House, store: Store, clock: ManualClock
) -> None:
    found = []
    for _ in range(7):
        assert house.takeover.tick() is None
        found.append(house.takeover.lapsed)
        clock.advance(SIXTH)
    # Of the last lease, no more than a third is without contact by then.
    assert found == [None, None, None, None, LEASE, LEASE, ZERO]
    assert house.looks == 1
    assert store.reads == 6


def test_it_notes_its_own_contact(
    house: House, store: Store, clock: ManualClock
) -> None:
    began = clock.now()
    for _ in range(3):
        house.takeover.tick()
        clock.advance(SIXTH)
    [noted] = store.list_contacts(within=LEASE)
    announced = noted.announced
    assert announced.queues == QUEUES
    assert (announced.node, noted.since, noted.until) == (
        NODE,
        began,
        began + 2 * SIXTH,
    )


def test_with_another_in_contact_it_takes_over_at_once_what_lapsed_a_lease_ago(
    house: House, store: Store
) -> None:
    assert house.takeover.lapsed is None
    store.note_contact(OTHER, unbroken=2 * LEASE)
    house.takeover.tick()
    assert house.takeover.lapsed == LEASE
    assert house.looks == 1


@pytest.mark.parametrize("pause", [0.1, 1, 5, 6])
def test_former_lives_of_a_few_seconds_show_that_the_store_was_there(
    house: House, store: Store, clock: ManualClock, pause: float
) -> None:
    for _ in range(int(20 / pause) + 1):
        store.note_contact(Announcement(node=uuid4(), queues=QUEUES), unbroken=ZERO)
        clock.advance(seconds(pause))
    house.takeover.tick()
    assert house.takeover.lapsed == LEASE


def test_a_gap_of_more_than_a_third_of_a_lease_may_have_been_an_outage(
    house: House, store: Store, clock: ManualClock
) -> None:
    store.note_contact(OTHER, unbroken=2 * LEASE)
    clock.advance(seconds(7))
    house.takeover.tick()
    assert house.takeover.lapsed is None
    assert house.looks == 0


def test_what_others_have_shown_counts_no_more_after_a_break(
    house: House, store: Store, clock: ManualClock
) -> None:
    store.note_contact(OTHER, unbroken=2 * LEASE)
    house.takeover.tick()
    house.contact.broke()
    clock.advance(LEASE / 2)
    assert house.takeover.lapsed is None
    house.contact.made()
    assert house.takeover.lapsed is None


def test_a_failure_breaks_the_contact(
    house: House, store: Store, clock: ManualClock
) -> None:
    store.note_contact(OTHER, unbroken=2 * LEASE)
    house.takeover.tick()
    clock.advance(seconds(1))
    store.away = True
    with pytest.raises(StoreUnavailableError):
        house.takeover.tick()
    clock.advance(LEASE / 2)
    assert house.contact.unbroken == ZERO
    assert house.takeover.lapsed is None


def test_it_calls_for_a_look_only_when_there_is_more_to_take_over(
    house: House, store: Store, clock: ManualClock
) -> None:
    for _ in range(4):
        store.note_contact(OTHER, unbroken=2 * LEASE)
        house.takeover.tick()
        clock.advance(SIXTH)
    assert house.looks == 1


def test_a_node_that_leaves_says_so_at_once(
    house: House, store: Store, clock: ManualClock
) -> None:
    house.takeover.ticker.start()
    clock.advance(seconds(1))
    assert not house.takeover.has_left
    house.takeover.leave()
    assert not house.takeover.has_left
    clock.advance(ZERO)
    assert house.takeover.has_left
    [noted] = store.list_contacts(within=LEASE)
    assert noted.announced.stopping


def test_a_node_that_cannot_tell_the_others_leaves_all_the_same(
    house: House, store: Store, clock: ManualClock
) -> None:
    store.away = True
    house.takeover.ticker.start()
    clock.advance(seconds(1))
    house.takeover.leave()
    assert house.takeover.has_left
