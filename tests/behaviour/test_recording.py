"""Recording: what becomes of runs is written once, and what a store does with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from go_scheduler import (
    Cancelled,
    DelayTrigger,
    Fail,
    GiveBack,
    HandlerRegistry,
    OnDemandTrigger,
    RetryAfter,
    RetryPolicy,
    RunEnd,
    State,
    StoreError,
    StoreUnavailableError,
    TaskDefinition,
    Trigger,
)
from go_scheduler.clock import ZERO
from go_scheduler.events import (
    DefinitionCompleted,
    InstanceFinished,
    InstanceGivenBack,
    InstanceLocked,
    InstanceRetried,
    InstanceUnrecorded,
    ResultDiscarded,
    RunDeferred,
    RunEnded,
    RunFailed,
    RunHung,
    TriggerFailed,
    Write,
    hears,
)
from go_scheduler.models import Outcome
from go_scheduler.stores.messages import Retention
from go_scheduler.testing.builders import check, counts_by_state
from tests.behaviour.house import (
    LEASE,
    MINUTE,
    SECOND,
    World,
    at,
    once,
    seconds,
    several,
    take,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from go_scheduler import TaskInstance


def failing(*errors: BaseException) -> Callable[[TaskInstance], None]:
    """A handler that raises these one after the other, and then succeeds."""
    left = [*errors]

    def handler(instance: TaskInstance) -> None:
        if left:
            raise left.pop(0)

    return handler


def test_by_default_what_failed_runs_again_when_expire_after_has_passed(
    world: World,
) -> None:
    def handler(instance: TaskInstance) -> None:
        world.note(instance)
        if len(world.called) == 1:
            take(world.clock, seconds(10))
            raise ValueError("no paper")

    # It is told of nothing else.
    listener = hears(InstanceRetried)(world.heard)
    world.node(handler, listeners=[listener]).schedule(once(1, expire_after=MINUTE))
    world.advance(30)
    waiting = world.only()
    check(waiting, state=State.PENDING, runs=1, due_at=at(61))
    assert "ValueError: no paper" in (waiting.error or "")
    world.advance(60)
    assert world.times == [1, 61]
    check(world.only(), state=State.COMPLETED, runs=2, started_at=at(61))
    [run] = world.store.list_runs(waiting.id)
    check(run, outcome=RunEnd.FAILED, attempt=1, started_at=at(1))


@pytest.mark.parametrize("attempts", [1, 3])
def test_after_the_last_run_that_is_allowed_it_has_failed(
    world: World, attempts: int
) -> None:
    def handler(instance: TaskInstance) -> None:
        world.note(instance)
        raise ValueError(f"run {instance.runs}")

    policy = RetryPolicy(max_attempts=attempts, delay=seconds(2))
    world.node(handler).schedule(once(retry=policy))
    world.advance(100)
    assert world.times == [0, 2, 4][:attempts]
    ended = world.only()
    assert (ended.state, ended.runs) == (State.FAILED, attempts)
    assert f"run {attempts}" in (ended.error or "")
    failed = world.heard.of(RunFailed)
    assert [each.runs for each in failed] == [*range(1, attempts + 1)]
    assert [each.retry_in for each in failed] == [SECOND * 2] * (attempts - 1) + [None]
    assert len(world.heard.of(InstanceRetried)) == attempts - 1
    [finished] = world.heard.of(InstanceFinished)
    assert finished.outcome is Outcome.FAILED
    ends = [(each.attempt, each.outcome) for each in world.store.list_runs(ended.id)]
    assert ends == [(n, RunEnd.FAILED) for n in range(1, attempts + 1)]


@pytest.mark.parametrize("returns", [True, False])
def test_a_run_that_was_asked_to_stop_is_cancelled_unless_it_succeeds(
    world: World, returns: bool
) -> None:
    node = world.begin(once())
    [called] = world.bench.calls
    assert node.cancel(called.instance.id) is Cancelled.REQUESTED
    world.advance(7)
    assert called.run.cancelled
    called.end(error=None if returns else ValueError("stopped"))
    world.advance(1)
    ended = world.only()
    assert ended.state is (State.COMPLETED if returns else State.CANCELLED)
    assert ("stopped" in (ended.error or "")) is not returns
    [finished] = world.heard.of(InstanceFinished)
    assert (finished.started_at, finished.took) == (at(0), seconds(8))


LATER = RetryAfter(MINUTE)


@pytest.mark.parametrize(
    ("error", "state", "runs", "due"),
    [
        (RetryAfter(seconds(30), "not yet"), State.PENDING, 1, 30),
        (GiveBack(seconds(20), "no printer"), State.PENDING, 0, 20),
        (Fail("no such customer"), State.FAILED, 1, 0),
        (TypeError("from within"), State.PENDING, 1, 90),
        (KeyboardInterrupt(), State.PENDING, 1, 90),
        (SystemExit(3), State.PENDING, 1, 90),
        (ExceptionGroup("", [RetryAfter(SECOND), LATER]), State.PENDING, 1, 60),
        (ExceptionGroup("", [Fail("a"), ValueError("b")]), State.PENDING, 1, 90),
        (ExceptionGroup("", [Fail("a"), Fail("b")]), State.FAILED, 1, 0),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, BaseException) else None,
)
def test_what_a_handler_raises_decides_what_follows(
    world: World, error: BaseException, state: State, runs: int, due: float
) -> None:
    retry = RetryPolicy(delay=seconds(90))
    world.node(failing(error)).schedule(once(retry=retry))
    world.advance(1)
    found = world.only()
    assert (found.state, found.runs, found.due_at) == (state, runs, at(due))
    assert len(world.heard.of(RunDeferred)) == (
        "RetryAfter" in repr(error) and "Fail" not in repr(error)
    )
    told = world.heard.of(InstanceGivenBack)
    given_back = [(each.reason, each.by_handler) for each in told]
    assert given_back == ([("no printer", True)] if runs == 0 else [])
    world.advance(91)
    assert world.only().state is (state if due == 0 else State.COMPLETED)


class SaysNothing:
    """Cannot be called with an instance, which its signature does not say."""

    @property
    def __signature__(self) -> object:
        raise ValueError("not known")

    def __call__(self) -> None:
        raise AssertionError("it is never called")


def call_wrongly(instance: TaskInstance) -> None:
    SaysNothing()(instance)  # type: ignore[call-arg]


@pytest.mark.parametrize("in_a_registry", [False, True])
@pytest.mark.parametrize(
    ("handler", "state"),
    [(SaysNothing(), State.FAILED), (call_wrongly, State.PENDING)],
    ids=["wrong", "calls another wrongly"],
)
def test_a_handler_that_cannot_be_called_so_has_failed_at_once(
    world: World, in_a_registry: bool, handler: Any, state: State
) -> None:
    if in_a_registry:
        handlers = HandlerRegistry()
        handlers.register("wrong")(handler)
        handler = handlers
    world.node(handler).schedule(once(name="wrong"))
    world.advance(1)
    assert (world.only().state, world.only().runs) == (state, 1)
    assert "TypeError" in (world.only().error or "")


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit("no text")


class Opaque(Exception):
    """Not even its traceback can be made."""

    @property
    def __cause__(self) -> BaseException:  # type: ignore[override]
        raise SystemExit("no cause")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("nul \0 here"), "nul \\x00 here"),
        (ValueError("half \ud800 pair"), "half \\ud800 pair"),
        (Mute(), "Mute: <exception str() failed>"),
        (Opaque(), "Opaque, whose text cannot be made"),
        (ValueError("a" * 100_000 + " the end"), "a the end"),
    ],
    ids=["nul", "surrogate", "mute", "opaque", "long"],
)
def test_an_error_is_kept_as_every_store_can(
    world: World, error: Exception, text: str
) -> None:
    world.node(failing(error)).schedule(once())
    world.advance(1)
    kept = world.only().error or ""
    assert kept.rstrip().endswith(text)
    assert len(kept) <= 16 * 1024


class Fickle(Trigger):
    """Waits for the end of a run, and fails when it is asked for what follows."""

    kind: ClassVar[str] = "tests.behaviour.fickle"
    waits = True
    recurring = True

    def __init__(self, error: BaseException | None = None) -> None:
        self._error = error

    def next_fire_time(self, after: datetime) -> datetime | None:
        raise self._error or ZeroDivisionError("by zero")


def test_what_waits_for_the_end_of_a_run_counts_from_it(world: World) -> None:
    def handler(instance: TaskInstance) -> None:
        world.note(instance)
        take(world.clock, seconds(5))
        if len(world.called) == 2:
            raise ValueError

    retry = RetryPolicy(delay=seconds(7))
    trigger = DelayTrigger(seconds(10))
    world.node(handler).schedule(TaskDefinition(trigger=trigger, retry=retry))
    world.advance(60)
    # 10, ends 15; 25, fails 30; again at 37, ends 42; 52.
    assert world.times == [10, 25, 37, 52]


def test_what_its_trigger_fires_no_more_after_the_end_is_told_to_be_over(
    world: World,
) -> None:
    beyond_the_end_of_time = DelayTrigger(seconds(8000 * 365 * 86_400))
    of = TaskDefinition(trigger=beyond_the_end_of_time, next_fire_time=at(1))
    world.store.put_definitions([of])
    world.node(world.note)
    world.advance(2)
    [told] = world.heard.of(DefinitionCompleted)
    assert told.definition_id == of.id


@pytest.mark.parametrize("error", [ZeroDivisionError("by zero"), SystemExit(3)])
def test_where_its_trigger_fails_at_the_end_it_fires_in_a_minute(
    world: World, error: BaseException
) -> None:
    node = world.node(world.bench.handler)
    # As of a trigger whose calendar is not registered here.
    broken = TaskDefinition(trigger=Fickle(error), next_fire_time=at(2))
    world.store.put_definitions([broken])
    world.advance(3)
    world.bench.calls[0].end()
    ended = world.clock.now()
    world.advance(1)
    assert world.only().state is State.COMPLETED
    assert node.get_definition(broken.id).next_fire_time == ended + MINUTE
    [told] = world.heard.of(TriggerFailed)
    assert told.definition_id == broken.id
    assert type(error).__name__ in told.error


def test_an_end_that_cannot_be_recorded_costs_only_itself(world: World) -> None:
    node = world.node(world.note)
    node.schedule_all(several(9, 2))
    world.advance(1.5)
    bad = world.store.select()[4].id
    world.faults.failing["finish_instances"] = StoreUnavailableError("away")
    world.advance(0.6)
    assert len(world.called) == 9
    assert node.health().unrecorded == 9
    world.faults.bad.add(bad)
    world.faults.where = {"finish_instances"}
    del world.faults.failing["finish_instances"]
    world.advance(5)
    assert world.states() == {State.COMPLETED: 8, State.RUNNING: 1}
    assert node.health().unrecorded == 1
    told = world.heard.of(InstanceUnrecorded)
    assert {(each.instance_id, each.write) for each in told} == {(bad, Write.END)}
    assert [each.retry_in for each in told][:3] == [SECOND, 2 * SECOND, 4 * SECOND]
    world.advance(120)
    # Its claim is kept as long, and nobody else runs it.
    assert len(world.called) == 9
    world.faults.bad.clear()
    world.advance(11)
    assert world.states() == {State.COMPLETED: 9}
    assert {each.attempt for each in world.store.select()} == {1}
    assert len(world.heard.of(InstanceFinished)) == 9


def test_a_locked_end_delays_no_other_and_is_written_soon(world: World) -> None:
    world.node(world.note).schedule_all(several(9, 2))
    world.advance(1.5)
    locked = world.store.select()[4].id
    world.faults.locked.add(locked)
    world.faults.where = {"finish_instances"}
    world.advance(0.9)
    assert world.states() == {State.COMPLETED: 8, State.RUNNING: 1}
    assert world.heard.of(InstanceLocked) == []
    world.advance(2)
    told = world.heard.of(InstanceLocked)
    assert [(each.instance_id, each.write) for each in told] == [(locked, Write.END)]
    world.faults.locked.clear()
    world.advance(1.01)
    assert world.states() == {State.COMPLETED: 9}


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
    check(world.only(), state=State.COMPLETED, runs=1, attempt=1)
    assert world.called == []


def test_what_is_given_back_and_cannot_be_written_costs_only_itself(
    world: World,
) -> None:
    def handler(instance: TaskInstance) -> None:
        if instance.attempt == 1:
            raise GiveBack(seconds(5))

    world.node(handler).schedule_all(several(5, 2))
    world.advance(1.9)
    world.faults.bad.add(world.store.select()[2].id)
    world.faults.where = {"release_instances"}
    world.advance(10)
    assert world.states() == {State.COMPLETED: 4, State.RUNNING: 1}
    world.faults.bad.clear()
    world.advance(20)
    assert world.states() == {State.COMPLETED: 5}


def test_ends_that_are_not_recorded_keep_a_node_from_claiming_more(
    world: World,
) -> None:
    node = world.node(world.note, max_workers=3)
    node.schedule_all(map(once, range(1, 11)))
    world.faults.failing["finish_instances"] = StoreUnavailableError("away")
    world.advance(20)
    assert len(world.called) == 3
    assert node.health().unrecorded == 3
    assert counts_by_state(world.store)[State.PENDING] == 7
    del world.faults.failing["finish_instances"]
    world.advance(10)
    assert world.states() == {State.COMPLETED: 10}


def test_a_few_that_cannot_be_recorded_cost_no_worker(world: World) -> None:
    node = world.node(world.note, max_workers=2)
    node.schedule_all(map(once, (1, 2, 3)))
    world.faults.where = {"finish_instances"}
    world.until(lambda: len(world.store.select()) == 3)
    world.faults.bad.update(each.id for each in world.store.select())
    node.schedule_all(map(once, (10, 11, 12)))
    world.advance(20)
    assert len(world.called) == 6
    assert world.states() == {State.COMPLETED: 3, State.RUNNING: 3}
    assert node.health().unrecorded == 3
    world.faults.bad.clear()
    world.advance(11)
    assert world.states() == {State.COMPLETED: 6}


def test_beyond_a_thousand_that_cannot_be_recorded_nothing_more_is_claimed(
    world: World,
) -> None:
    node = world.node(world.note, max_workers=60, max_held=2000)
    world.faults.where = {"finish_instances"}
    task = node.schedule(TaskDefinition(trigger=OnDemandTrigger()))
    for _ in range(1200):
        world.faults.locked.add(node.run_now(task.id).id)
    world.advance(20)
    assert 1000 <= len(world.called) <= 1120
    assert node.health().unrecorded == len(world.called)
    world.faults.locked.clear()
    world.advance(10)
    assert world.states() == {State.COMPLETED: 1200}


def test_more_ends_than_one_batch_are_all_recorded(world: World) -> None:
    node = world.node(world.note, max_workers=2000, max_held=2000)
    world.advance(1)
    world.faults.failing["finish_instances"] = StoreUnavailableError("away")
    node.schedule_all(several(1200, 5))
    world.advance(5)
    assert node.health().unrecorded == 1200
    del world.faults.failing["finish_instances"]
    world.advance(6)
    assert world.states() == {State.COMPLETED: 1200}


@pytest.mark.parametrize(("count", "told"), [(1, 1), (30, 10)])
def test_an_end_whose_answer_is_lost_is_told_once_and_discarded_by_nobody(
    world: World, count: int, told: int
) -> None:
    node = world.node(world.note)
    node.schedule_all(several(count, 2))
    world.advance(1.9)
    world.faults.losing.add("finish_instances")
    world.advance(3)
    assert world.states() == {State.COMPLETED: count}
    assert node.health().unrecorded == count
    assert world.heard.of(InstanceFinished) == []
    world.faults.losing.clear()
    world.advance(6)
    assert node.health().unrecorded == 0
    # The store is asked about a few of them.
    assert len(world.heard.of(InstanceFinished)) == told
    assert len(world.heard.of(RunEnded)) == told
    assert world.heard.of(ResultDiscarded) == []


def test_a_retry_whose_answer_is_lost_is_told_once(world: World) -> None:
    node = world.node(failing(ValueError("no")))
    node.schedule(once(2, retry=RetryPolicy(delay=MINUTE)))
    world.advance(1.9)
    world.faults.losing.add("finish_instances")
    world.advance(3)
    world.faults.losing.clear()
    world.advance(6)
    assert len(world.heard.of(InstanceRetried)) == 1
    assert world.heard.of(ResultDiscarded) == []
    world.advance(60)
    assert (world.only().state, world.only().runs) == (State.COMPLETED, 2)


@pytest.mark.parametrize("succeeds", [True, False])
def test_of_a_run_that_has_lost_its_claim_a_success_alone_counts(
    world: World, succeeds: bool
) -> None:
    world.begin(once(), name="one")
    [first] = world.bench.calls
    world.clock.freeze("one")
    world.node(world.bench.handler, "two")
    world.advance(60)
    [_, second] = world.bench.calls
    assert second.instance.attempt == 2
    world.clock.thaw("one")
    world.advance(10)
    assert (first.run.lost, second.run.lost) == (True, False)
    first.end(error=None if succeeds else ValueError("late"))
    world.advance(1)
    found = world.only()
    if succeeds:
        assert (found.state, found.ended_attempt) == (State.COMPLETED, 1)
        world.advance(10)
        assert second.run.lost
    else:
        assert (found.state, found.error) == (State.RUNNING, None)
        assert world.heard.of(ResultDiscarded) == []
    second.end()
    world.advance(1)
    ended = world.only()
    assert (ended.state, ended.ended_attempt) == (State.COMPLETED, 2 - succeeds)
    discarded = world.heard.of(ResultDiscarded)
    assert [each.attempt for each in discarded] == ([2] if succeeds else [])


def test_the_late_failure_of_a_run_that_knows_nothing_of_it_is_discarded(
    world: World,
) -> None:
    world.begin(once(), name="one")
    world.clock.freeze("one")
    world.node(world.note, "two")
    world.advance(60)
    assert world.only().state is State.COMPLETED
    world.bench.calls[0].end(error=ValueError("late"))
    world.clock.thaw("one")
    world.advance(1)
    ended, [discarded] = world.only(), world.heard.of(ResultDiscarded)
    check(ended, state=State.COMPLETED, ended_attempt=2, error=None)
    assert discarded.attempt == 1
    assert world.store.list_runs(ended.id)[0].outcome is RunEnd.LOST


def test_of_many_that_are_discarded_the_log_has_a_few_lines(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.begin(*several(60), name="one", max_workers=100)
    world.clock.freeze("one")
    world.node(world.note, "two")
    world.advance(60)
    for each in world.bench.calls:
        each.end(error=ValueError("late"))
    caplog.clear()
    world.clock.thaw("one")
    world.advance(1)
    assert len(world.heard.of(ResultDiscarded)) == 60
    lines = [each for each in caplog.messages if "result" in each]
    assert 1 <= len(lines) <= 10


def test_two_ends_of_one_instance_are_recorded_in_their_order(world: World) -> None:
    node = world.begin(once(expire_after=seconds(10)))
    world.advance(10)
    first, second = world.bench.calls
    world.faults.failing["finish_instances"] = StoreUnavailableError("away")
    second.end(error=ValueError("second"))
    first.end()
    world.advance(1)
    del world.faults.failing["finish_instances"]
    world.advance(6)
    ended = world.only()
    assert (ended.state, ended.ended_attempt) == (State.COMPLETED, 1)
    assert node.health().unrecorded == 0


def test_what_happens_to_a_run_is_told_in_its_order(world: World) -> None:
    node = world.node(failing(ValueError("no")))
    node.schedule(once(2, retry=RetryPolicy(delay=SECOND)))
    world.advance(10)
    told = [
        type(each).__name__
        for each in world.heard.events
        if hasattr(each, "instance_id") or isinstance(each, DefinitionCompleted)
    ]
    assert told == [
        "DefinitionCompleted",
        "InstanceClaimed",
        "InstanceStarted",
        "RunFailed",
        "RunEnded",
        "InstanceRetried",
        "InstanceClaimed",
        "InstanceStarted",
        "RunEnded",
        "InstanceFinished",
    ]
    first, second = world.heard.of(RunEnded)
    assert (first.outcome, first.retry_in) == (None, SECOND)
    assert (second.outcome, second.late) == (Outcome.COMPLETED, seconds(0))


def test_an_end_of_which_nobody_can_say_whether_it_was_recorded_is_told_as_discarded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get(_: object) -> TaskInstance:
        raise StoreError("unreadable")

    world.node(world.note).schedule(once(2))
    world.advance(1.9)
    world.faults.losing.add("finish_instances")
    world.advance(3)
    world.faults.losing.clear()
    monkeypatch.setattr(world.store, "get_instance", get)
    world.advance(6)
    assert len(world.heard.of(ResultDiscarded)) == 1


def test_that_a_lost_run_hangs_is_told_once(world: World) -> None:
    world.begin(once(expire_after=seconds(30)), name="one")
    world.clock.freeze("one")
    world.node(world.note, "two")
    world.advance(60)
    assert world.only().state is State.COMPLETED
    world.clock.thaw("one")
    world.advance(1)
    assert len(world.heard.of(RunHung)) == 1
    assert world.heard.of(ResultDiscarded) == []


def test_without_a_retention_a_success_is_deleted_as_it_ends(world: World) -> None:
    node = world.node(world.note, retention=ZERO)
    first, second = (node.schedule(once(after)) for after in (1, 2))
    world.advance(1.5)
    assert {each.definition.id for each in world.store.select()} == {second.id}
    world.advance(1)
    assert len(world.store.select()) == 0
    assert world.times == [1, 2]
    # An id that was made up is forgotten once nothing is left of it.
    world.advance(60)
    assert not {first.id, second.id} & {each.id for each in node.list_definitions()}
    finished = world.heard.of(InstanceFinished)
    assert [each.outcome for each in finished] == [Outcome.COMPLETED] * 2
    assert world.heard.of(ResultDiscarded) == []


def test_without_a_retention_all_else_is_kept_for_a_lease(world: World) -> None:
    def handler(instance: TaskInstance) -> None:
        name = instance.definition.name
        if name == "fails" or (name, instance.runs) == ("retried", 1):
            raise ValueError("no paper")

    retry = {n: RetryPolicy(max_attempts=n, delay=SECOND) for n in (1, 2)}
    node = world.node(handler, retention=ZERO)
    node.schedule(once(name="retried", retry=retry[2]))
    node.schedule(once(name="fails", retry=retry[1]))
    world.advance(19)
    found = {each.definition.name: each.state for each in world.store.select()}
    assert found == {"fails": State.FAILED, "retried": State.COMPLETED}
    world.advance(60)
    assert len(world.store.select()) == 0


def test_the_end_of_what_was_deleted_is_told_though_its_answer_was_lost(
    world: World,
) -> None:
    node = world.node(world.note, retention=ZERO)
    node.schedule(once(2))
    world.advance(1.9)
    world.faults.losing.add("finish_instances")
    world.advance(3)
    assert len(world.store.select()) == 0
    assert world.heard.of(InstanceFinished) == []
    world.faults.losing.clear()
    world.advance(6)
    assert node.health().unrecorded == 0
    assert len(world.heard.of(InstanceFinished)) == 1
    assert world.heard.of(ResultDiscarded) == []


def test_a_failure_of_what_is_gone_is_told_as_discarded(world: World) -> None:
    node = world.begin(once(), retention=ZERO)
    world.faults.failing["finish_instances"] = StoreUnavailableError("away")
    world.bench.calls[0].end(error=ValueError("no"))
    world.advance(1)
    gone = node.list_definitions()[0]
    node.delete_definition(gone.id)
    world.store.delete_finished(
        Retention(ended=ZERO, failed=ZERO, remembered=ZERO), limit=100
    )
    world.faults.failing.clear()
    world.advance(6)
    assert len(world.heard.of(ResultDiscarded)) == 1
    assert world.heard.of(InstanceFinished) == []
