"""Contact with the store: a node's own, and what that of many nodes covers."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.running.keeper import Contact, cover
from go_scheduler.stores.messages import Announcement, NodeContact
from go_scheduler.testing.clock import START
from tests.conftest import seconds

if TYPE_CHECKING:
    from go_scheduler.testing import ManualClock

TICK = timedelta(microseconds=1)


def between(since: float, until: float) -> NodeContact:
    return NodeContact(
        announced=Announcement(node=uuid4()),
        since=START + seconds(since),
        until=START + seconds(until),
    )


def test_a_failure_breaks_the_contact_if_nothing_is_answered_for_a_third_of_a_lease(
    clock: ManualClock,
) -> None:
    contact = Contact(clock, lease=seconds(9))
    contact.made()
    clock.advance(seconds(3))
    contact.broke()
    assert contact.unbroken == seconds(3)
    clock.advance(TICK)
    assert contact.unbroken == ZERO
    contact.made()
    clock.advance(seconds(4))
    assert contact.unbroken == seconds(4)


def test_calls_that_are_lost_among_others_break_no_contact(clock: ManualClock) -> None:
    contact = Contact(clock, lease=seconds(9))
    for _ in range(10):
        contact.made()
        clock.advance(seconds(1))
        contact.broke()
        clock.advance(seconds(2))
    assert contact.unbroken == seconds(30)
    contact.made()
    clock.advance(seconds(9))
    assert contact.unbroken == seconds(39)


@pytest.mark.parametrize(
    ("spans", "covered"),
    [
        ([], False),
        ([(0, 20)], True),
        ([(-100, 100)], True),
        ([(6, 20)], True),
        ([(6.1, 20)], False),
        ([(0, 14)], True),
        ([(0, 13.9)], False),
        ([(0, 5), (11, 20)], True),
        ([(0, 5), (11.1, 20)], False),
        ([(0, 5), (11.1, 20), (3, 12)], True),
        ([(0, 15), (1, 2), (19, 20)], True),
        ([(3, 3), (8, 8), (13, 13), (18, 18)], True),
        ([(-10, -5), (0, 20)], True),
    ],
)
def test_contacts_cover_a_time_if_no_gap_is_too_long(
    spans: list[tuple[float, float]], *, covered: bool
) -> None:
    contacts = [between(*span) for span in spans]
    answer = cover(contacts, since=START, until=START + seconds(20), gap=seconds(6))
    assert answer is covered
