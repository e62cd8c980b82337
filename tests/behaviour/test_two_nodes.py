"""Several nodes on one store: what has ended on one runs on no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.models import State
from tests.behaviour.house import LEASE, once, seconds

if TYPE_CHECKING:
    from tests.behaviour.house import World


@pytest.mark.parametrize("expire_after", [1, 5, 300])
@pytest.mark.parametrize("duration", [0.01, 0.9])
def test_what_has_ended_is_run_by_nobody_else_while_its_end_cannot_be_recorded(
    world: World, expire_after: float, duration: float
) -> None:
    one = world.node(world.bench.handler, "one")
    world.node(world.note, "two")
    world.clock.freeze("two")
    one.schedule(once(expire_after=seconds(expire_after)))
    world.advance(0.01)
    world.clock.thaw("two")
    world.advance(duration)
    world.faults.where = {"finish_instances"}
    world.faults.locked.add(world.only().id)
    world.bench.end_all()
    world.clock.advance(3 * LEASE)
    assert world.only().state is State.RUNNING
    world.faults.locked.clear()
    world.advance(1.01)
    done = world.only()
    assert (done.state, done.runs, done.attempt) == (State.COMPLETED, 1, 1)
    assert world.called == []
