"""A process pool of the user's that breaks is made again, if it can be, each second."""

from __future__ import annotations

import pickle
from concurrent.futures import Future, ProcessPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.events import InstanceGivenBack, InstanceLapsed, RunFailed
from go_scheduler.models import State
from go_scheduler.running.calling.calls import Calls
from tests.behaviour.house import LEASE, World, once
from tests.behaviour.in_processes import handler

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.running.held import HeldRun


class Own(ProcessPoolExecutor):
    """One that nobody else knows how to make."""


class Keeping(ProcessPoolExecutor):
    """Keeps what it is handed, and runs nothing."""

    def __init__(self, max_workers: int) -> None:
        super().__init__(max_workers)
        self.futures: list[Future[Any]] = []
        self.calls: list[Callable[[], object]] = []

    def submit(self, fn: Any, /, *args: Any, **named: Any) -> Future[Any]:
        self.futures.append(Future())
        self.calls.append(lambda: fn(*args, **named))
        return self.futures[-1]


def broken(executor: ProcessPoolExecutor) -> ProcessPoolExecutor:
    """A process pool, as it is once one of its processes has died."""
    executor._broken = "it died"  # type: ignore[assignment]
    return executor


def opaque(name: str) -> ProcessPoolExecutor:
    executor = broken(ProcessPoolExecutor(1))
    delattr(executor, f"_{name}")
    return executor


def shut_down() -> ProcessPoolExecutor:
    executor = ProcessPoolExecutor(1)
    executor.shutdown()
    return executor


@pytest.mark.parametrize(
    ("make", "trouble"),
    [
        (lambda: broken(Own(1)), "BrokenProcessPool"),
        (shut_down, "after shutdown"),
        *(
            (lambda n=n: opaque(n), "BrokenProcessPool")
            for n in ("mp_context", "initargs")
        ),
    ],
    ids=["another kind", "shut down", "no context", "no arguments"],
)
def test_one_that_cannot_be_made_again_takes_nothing_and_costs_no_run(
    world: World, make: Callable[[], ProcessPoolExecutor], trouble: str
) -> None:
    node = world.node(handler, executor=make())
    node.schedule(once(1))
    world.advance(3)
    assert trouble in (node.health().trouble or "")
    assert (node.health().waiting, node.health().busy) == (0, 0)
    assert (world.only().state, world.only().runs) == (State.PENDING, 0)


def test_one_that_breaks_again_and_again_is_made_once_a_second(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    make = ProcessPoolExecutor.__init__

    def note(self: ProcessPoolExecutor, *args: Any, **named: Any) -> None:
        make(self, *args, **named)
        broken(self)
        made.append(self)

    monkeypatch.setattr(ProcessPoolExecutor, "__init__", note)
    node = world.node(handler, executor=ProcessPoolExecutor(1))
    node.schedule(once(1))
    world.advance(10.5)
    assert 8 <= len(made) <= 12
    assert world.only().runs == 0
    monkeypatch.undo()
    node.stop()


def test_what_was_given_up_as_it_was_handed_over_is_not_given_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[HeldRun] = []

    def begin(calls: Calls, run: HeldRun) -> bool:
        begun.append(run)
        return really_begin(calls, run)

    def give_up(*_: object) -> None:
        assert begun[0].settle()
        raise ZeroDivisionError

    really_begin = Calls.begin
    monkeypatch.setattr(Calls, "begin", begin)
    monkeypatch.setattr(Own, "submit", give_up)
    node = world.node(handler, executor=Own(1))
    node.schedule(once(1))
    world.advance(2)
    assert world.only().state is State.RUNNING
    assert (node.health().waiting, node.health().busy) == (0, 0)
    assert world.heard.of(InstanceGivenBack) == []


def test_one_is_given_no_run_without_enough_of_its_lease(world: World) -> None:
    executor = Keeping(1)
    node = world.node(handler, executor=executor)
    for _ in range(2):
        node.schedule(once(1))
    world.advance(1)
    world.clock.freeze("node")
    world.clock.advance(LEASE)
    executor.futures[0].set_result(None)
    assert len(executor.futures) == 1
    assert len(world.heard.of(InstanceLapsed)) == 1


@pytest.mark.parametrize(
    ("do", "state", "error"),
    [
        ("async", State.COMPLETED, ""),
        ("raise", State.PENDING, "ValueError: in another process"),
    ],
)
def test_what_a_handler_returns_there_is_awaited_and_what_it_raises_described(
    world: World, do: str, state: State, error: str
) -> None:
    executor = Keeping(1)
    world.node(handler, executor=executor).schedule(once(1, name=do))
    world.advance(1)
    # As in the process: what comes of it can be pickled.
    executor.futures[0].set_result(pickle.loads(pickle.dumps(executor.calls[0]())))
    world.advance(1)
    assert world.only().state is state
    assert error in (world.only().error or "")


@pytest.mark.parametrize("workers", [1, 9])
def test_one_is_handed_no_more_than_it_has_processes(
    world: World, workers: int
) -> None:
    executor = Keeping(2)
    node = world.node(handler, executor=executor, max_workers=workers)
    node.schedule_all([once(1) for _ in range(5)])
    world.advance(1)
    assert len(executor.futures) == min(workers, 2)
    # What the pool cancels has failed, as it may have been called.
    assert executor.futures[0].cancel()
    world.advance(1)
    [failed] = world.heard.of(RunFailed)
    assert "CancelledError" in (failed.error or "")
