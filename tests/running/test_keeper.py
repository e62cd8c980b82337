"""The keeper: what ends or joins a transaction at the moment that it is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.events import InstanceUnrecorded, RunHung
from go_scheduler.running.held import HeldRun
from tests.behaviour.house import HOUR, MINUTE, World, once, seconds

if TYPE_CHECKING:
    from datetime import timedelta

    import pytest


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
