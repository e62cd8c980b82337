"""Contact with the store: a node's own, and what that of many nodes covers."""

from __future__ import annotations

from uuid import uuid4

import pytest

from go_scheduler.running.keeper import cover
from go_scheduler.stores.messages import Announcement, NodeContact
from go_scheduler.testing.clock import START
from tests.conftest import seconds


def between(since: float, until: float) -> NodeContact:
    return NodeContact(
        announced=Announcement(node=uuid4()),
        since=START + seconds(since),
        until=START + seconds(until),
    )


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
