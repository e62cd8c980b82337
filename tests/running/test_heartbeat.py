"""The heartbeat: runs that change as it looks at them, and contact with the store."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.events import InstanceUnrecorded, RunHung
from go_scheduler.running.held import HeldRun
from go_scheduler.running.recovery import cover
from go_scheduler.running.state import Contact
from go_scheduler.stores.messages import Announcement, NodeContact
from go_scheduler.testing.clock import START
from tests.behaviour.house import HOUR, MICROSECOND, MINUTE, World, once, seconds

if TYPE_CHECKING:
    from datetime import timedelta

    from go_scheduler.testing import ManualClock


def test_a_run_that_ends_just_as_it_is_given_up_is_not_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def left(self: HeldRun, elapsed: timedelta) -> timedelta:
        self.settle()
        return ZERO

    world.node(world.bench.handler).schedule(once(expire_after=seconds(10)))
    world.advance(5)
    monkeypatch.setattr(HeldRun, "left", left)
    world.advance(6)
    assert world.heard.of(RunHung) == []


def test_a_run_that_joins_a_transaction_while_it_is_renewed_has_lost_nothing(
    world: World,
) -> None:
    def join() -> None:
        called.run._state.joined = True  # type: ignore[misc]

    node = world.node(world.bench.handler)
    for _ in range(2):
        node.schedule(once(expire_after=HOUR))
    world.advance(1)
    called = world.bench.calls[0]
    world.faults.bad.add(called.instance.id)
    world.faults.meanwhile["renew_claims"] = join
    world.advance(8)
    assert "renew_claims" in world.faults.asked
    assert world.heard.of(InstanceUnrecorded) == []
    assert not called.run.lost


def test_what_is_called_while_others_are_renewed_is_looked_after_in_time(
    world: World,
) -> None:
    node = world.node(world.bench.handler, max_workers=1, runner_window=MINUTE)
    node.schedule(once(1, expire_after=HOUR))
    node.schedule(once(1, expire_after=seconds(2), priority=3))
    world.advance(2)
    world.faults.meanwhile["renew_claims"] = lambda: world.bench.calls[0].end()
    world.until(lambda: len(world.bench.calls) == 2)
    [_, called] = world.bench.calls
    world.until(lambda: world.heard.of(RunHung))
    assert seconds(2) <= world.clock.now() - called.at <= seconds(2.1)


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
    clock.advance(MICROSECOND)
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
