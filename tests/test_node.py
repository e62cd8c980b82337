"""The node: its loops start together, and stop in an order in which nothing is lost."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from go_scheduler.models import State, TaskDefinition
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.held import HeldRun
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.messages import Addition
from go_scheduler.testing.builders import SECOND
from go_scheduler.ticking.ticker import Ticker
from go_scheduler.triggers import OnDemandTrigger
from tests.behaviour.house import once
from tests.conftest import instance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.models import TaskInstance
    from go_scheduler.node import Node
    from go_scheduler.testing import ManualClock


def node_of(scheduler: Scheduler) -> Node:
    assert scheduler._node is not None
    return scheduler._node


def test_what_ends_just_as_it_stops_is_recorded(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[bool] = []
    with Scheduler(lambda _: None, clock=clock) as scheduler:
        node = node_of(scheduler)
        recorder = node.writer
        succeed = recorder.succeed

        def interrupted(run: object) -> None:
            """Between the handler's end and its record, the stop takes a step."""
            node._stop_step()
            stopped.append(node.stopped)
            succeed(run)  # type: ignore[arg-type]

        monkeypatch.setattr(recorder, "succeed", interrupted)
        scheduler.schedule(once())
        clock.advance(SECOND)
    assert stopped == [False]
    assert scheduler.counts()[State.COMPLETED] == 1


def test_what_a_loop_has_taken_as_it_ended_is_given_back(clock: ManualClock) -> None:
    with Scheduler(lambda _: None, clock=clock) as scheduler:
        node = node_of(scheduler)
        held = node.state.held
        run = HeldRun(instance(), Defaults())

        class Taking(Ticker):
            @property
            def ended(self) -> bool:
                held.add([run])
                return super().ended

        node.makers[0].__class__ = Taking
    assert not held.has(run)


@pytest.mark.parametrize("cancels", [False, True])
def test_what_comes_too_late_to_be_let_in_goes_back_or_is_cancelled(
    clock: ManualClock, cancels: bool
) -> None:
    with Scheduler(lambda _: None, clock=clock) as scheduler:
        clock.advance(SECOND)
        made = scheduler.schedule(TaskDefinition(trigger=OnDemandTrigger()))
        node = node_of(scheduler)

        def created(found: Sequence[TaskInstance]) -> None:
            [new] = found
            assert new.claimed_by == node.state.node
            if cancels:
                scheduler.cancel(new.id)

        node._claimer.arriving.stop()
        assert node.add(made.id, [Addition()], created, queue=made.queue)
    [left] = scheduler.list_instances()
    assert left.state is (State.CANCELLED if cancels else State.PENDING)


def test_a_stop_that_gets_no_thread_may_be_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with Scheduler(lambda _: None) as scheduler:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", start)
            with pytest.raises(RuntimeError, match="new thread"):
                node_of(scheduler).request_stop()
        assert scheduler.stop()
