"""What is created where it can run begins at once, and is claimed by nobody else."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import (
    ExecuteOnceTrigger,
    HandlerRegistry,
    MemoryStore,
    OnDemandTrigger,
    Scheduler,
    State,
    StoreUnavailableError,
    TaskDefinition,
    TaskDefinitionNotFoundError,
)
from go_scheduler.events import (
    ClaimAnswerLost,
    DefinitionScheduled,
    InstanceAdded,
    InstanceCreated,
    InstanceFinished,
    InstanceStarted,
)
from go_scheduler.running.calling.workers import Workers
from tests.behaviour.house import (
    HOUR,
    SECOND,
    ThreadedWorld,
    World,
    every,
    meanwhile,
    once,
    seconds,
    wait_until,
    wait_until_draining,
)
from tests.behaviour.store_house import task
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from go_scheduler import TaskInstance
    from go_scheduler.handlers.registry import Handler
    from go_scheduler.stores import Fired, Put

# No look of the loops comes to help.
WIDE = {
    "schedule_window": HOUR,
    "runner_window": HOUR,
    "cleanup_window": HOUR,
    "lease": HOUR,
}
TASK = TaskDefinition(trigger=OnDemandTrigger(), name="task")


def calm(node: Scheduler) -> None:
    """Wait until a node has nothing to look for any more."""
    wait_until(
        lambda: all(e.last_good is not None for e in node.health().loops.values())
    )


def calm_node(
    threaded: ThreadedWorld, handler: Handler = lambda _: None, /, **settings: Any
) -> Scheduler:
    """One that has a task, and nothing to look for any more."""
    node = threaded.node(handler, **settings)
    node.schedule(TASK)
    calm(node)
    return node


@pytest.mark.parametrize("how", ["schedule", "run_now", "enqueue"])
def test_what_is_due_when_it_is_created_runs_at_once(
    threaded: ThreadedWorld, how: str
) -> None:
    called: list[TaskInstance] = []
    node = calm_node(threaded, called.append, **WIDE)
    if how == "schedule":
        node.schedule(threaded.now(name="task"))
    elif how == "run_now":
        node.run_now(TASK.id, payload={"order": 7})
    else:
        node.schedule(task())
        node.enqueue("send", payload={"order": 7})
    threaded.heard.wait(InstanceFinished)
    [instance] = called
    assert (instance.attempt, instance.runs) == (1, 1)
    if how != "schedule":
        assert instance.payload == {"order": 7}
    kinds = [type(each) for each in threaded.heard.events]
    made = {"schedule": InstanceCreated}.get(how, InstanceAdded)
    assert kinds.index(made) < kinds.index(InstanceStarted)
    if how == "schedule":
        last = len(kinds) - 1 - kinds[::-1].index(DefinitionScheduled)
        assert last < kinds.index(InstanceStarted)


def test_what_comes_while_others_wait_takes_no_ones_turn(
    threaded: ThreadedWorld,
) -> None:
    order: list[Any] = []

    def handler(instance: TaskInstance) -> None:
        order.append((instance.payload or {}).get("number"))
        if len(order) == 1:
            threaded.hang()

    node = threaded.node(handler, max_workers=1, **WIDE)
    node.schedule(TASK)
    for number in range(6):
        node.run_now(TASK.id, payload={"number": number})
        if number == 0:
            threaded.wait_for_hanging()
    threaded.gate.set()
    threaded.heard.wait(InstanceFinished, 6)
    assert order == [*range(6)]


@pytest.mark.parametrize(
    "options",
    [{"queue": "other"}, {"name": "other"}, {"paused": True}, {}],
    ids=["queue", "name", "paused", "later"],
)
def test_what_may_not_run_here_now_is_left_as_it_is(
    threaded: ThreadedWorld, options: dict[str, Any]
) -> None:
    handlers = HandlerRegistry()
    called: list[TaskInstance] = []
    handlers.register("task")(called.append)
    node = threaded.node(handlers, **WIDE)
    calm(node)
    # What is due later is claimed by then, and held.
    due = threaded.clock.now() + (0 if options else 1) * HOUR / 2
    trigger = ExecuteOnceTrigger(due)
    given = replace(threaded.now(name="task"), trigger=trigger, **options)
    stored = node.schedule(given)
    node.schedule(threaded.now(name="task"))
    threaded.heard.wait(InstanceFinished)
    assert node.stop()
    assert [each.definition.id == stored.id for each in called] == [False]


@pytest.mark.parametrize(
    "method", ["put_definitions and start", "add_instances and start"]
)
def test_what_is_created_and_whose_answer_is_lost_runs_once(
    threaded: ThreadedWorld, method: str
) -> None:
    node = calm_node(threaded, runner_window=seconds(0.2))
    threaded.faults.losing.add(method)
    if method == "put_definitions and start":
        node.schedule(threaded.now())
    else:
        with pytest.raises(StoreUnavailableError):
            node.run_now(TASK.id)
    threaded.faults.losing.clear()
    threaded.heard.wait(ClaimAnswerLost)
    threaded.heard.wait(InstanceFinished)
    [instance] = node.list_instances()
    assert (instance.state, instance.runs) == (State.COMPLETED, 1)


def test_what_is_created_is_not_given_back_before_its_answer_is_there(
    threaded: ThreadedWorld,
) -> None:
    node = calm_node(threaded, runner_window=seconds(0.2))
    asked = threaded.faults.asked

    def wait_for_two_claims() -> None:
        last = asked.count("claim_instances") + 2
        wait_until(lambda: asked.count("claim_instances") >= last)

    def lose_the_answer_to_a_claim() -> None:
        threaded.faults.losing.add("claim_instances")
        wait_for_two_claims()
        threaded.faults.losing.clear()
        wait_for_two_claims()

    threaded.faults.meanwhile["add_instances and start"] = lose_the_answer_to_a_claim
    node.run_now(TASK.id)
    threaded.heard.wait(InstanceFinished)
    assert "add_instances and start" in asked
    assert threaded.heard.of(ClaimAnswerLost) == []
    [instance] = node.list_instances()
    assert (instance.attempt, instance.runs) == (1, 1)


def test_what_fires_here_and_whose_answer_is_lost_runs_once(world: World) -> None:
    node = world.node(world.note)
    world.advance(10)
    world.faults.losing.add("fire_definitions and start")
    node.schedule(once(10))
    world.advance(0)
    assert world.called == []
    assert world.states() == {State.RUNNING: 1}
    world.faults.losing.clear()
    world.advance(7)
    assert len(world.called) == 1
    assert world.only().runs == 1
    assert [each.count for each in world.heard.of(ClaimAnswerLost)] == [1]


def test_an_unknown_task_is_no_lost_answer(threaded: ThreadedWorld) -> None:
    node = threaded.node(lambda _: None)
    with pytest.raises(TaskDefinitionNotFoundError):
        node.run_now(TASK.id)
    node.schedule(threaded.now())
    threaded.heard.wait(InstanceFinished)
    assert threaded.heard.of(ClaimAnswerLost) == []


def test_what_has_the_key_already_does_not_run_again(threaded: ThreadedWorld) -> None:
    node = threaded.node(lambda _: None)
    node.schedule(TASK)
    first = node.run_now(TASK.id, key="order 7")
    threaded.heard.wait(InstanceFinished)
    again = node.run_now(TASK.id, key="order 7")
    assert again.id == first.id
    node.run_now(TASK.id, key="order 8")
    threaded.heard.wait(InstanceFinished, 2)
    assert node.counts()[State.COMPLETED] == 2
    # Neither is a definition new that is stored already: it is looked for.
    stored = node.schedule(threaded.now())
    node.schedule(threaded.now(id=stored.id))
    threaded.heard.wait(InstanceFinished, 4)


@pytest.mark.parametrize("stopped", [False, True])
def test_what_is_created_while_it_stops_is_left_to_others(
    threaded: ThreadedWorld, stopped: bool
) -> None:
    node = calm_node(threaded, **WIDE)
    going_on, go = threading.Event(), threading.Event()

    def wait() -> None:
        going_on.set()
        assert go.wait(FAILED_AFTER)

    threaded.faults.meanwhile["add_instances and start"] = wait
    with meanwhile(lambda: node.run_now(TASK.id)):
        assert going_on.wait(FAILED_AFTER)
        with meanwhile(node.stop):
            if not stopped:
                wait_until_draining(node)
                go.set()
        # A stop waits for nobody who adds.
        go.set()
    [instance] = node.list_instances()
    assert (instance.state, instance.runs) == (State.PENDING, 0)
    assert threaded.heard.of(InstanceStarted) == []


class Plain(MemoryStore):
    """One that leaves all starts to the loops."""

    def put_definitions(self, definitions: Any, **_: Any) -> Put:
        return super().put_definitions(definitions)

    def fire_definitions(self, firings: Any, **_: Any) -> Fired:
        return super().fire_definitions(firings)

    def add_instances(
        self, definition_id: UUID, additions: Any, **_: Any
    ) -> Sequence[TaskInstance]:
        return super().add_instances(definition_id, additions)


def test_a_store_that_starts_nothing_by_itself_leaves_it_to_the_loops() -> None:
    world = World(Plain)
    node = world.node(world.note)
    node.schedule(every(1))
    world.advance(3)
    node.schedule(once(3))
    task = node.schedule(TASK)
    node.run_now(task.id)
    world.advance(1)
    assert world.times == [1, 2, 3, 3, 3, 4]


def test_an_answer_that_is_lost_while_room_is_asked_for_gives_nothing_back(
    threaded: ThreadedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults, here = threaded.faults, threading.current_thread()
    node = threaded.node(lambda _: None)
    calm(node)
    listed: list[bool] = []
    free = Workers.free

    def asked(workers: Workers, *given: Any) -> int:
        if calls and threading.current_thread() is here:
            calls.pop(0)()
        return free(workers, *given)

    def lose() -> None:
        faults.losing.add("claim_instances")
        faults.asked.clear()
        threaded.clock.leap(SECOND)
        wait_until(lambda: "claim_instances" in faults.asked)
        faults.losing.clear()
        lost = len(faults.asked)
        looks = {"list_claimed", "claim_instances"}
        wait_until(lambda: looks.intersection(faults.asked[lost:]))
        listed.append("list_claimed" in faults.asked)

    # The scheduler chooses a node, and that one looks again.
    calls: list[Callable[[], None]] = [lambda: None, lose]
    monkeypatch.setattr(Workers, "free", asked)
    node.schedule(threaded.now())
    # Else what is created now would be taken for what the lost claim has taken.
    assert listed == [False]
    assert "put_definitions and start" in faults.asked
    [ended] = threaded.heard.wait(InstanceFinished)
    assert ended.attempt == 1
