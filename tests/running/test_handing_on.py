"""Handing on: a handler has returned, and its run goes on, to be ended elsewhere."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import (
    ConfigurationError,
    ExecuteOnceTrigger,
    Extension,
    HandedOn,
    MemoryStore,
    RetryPolicy,
    Scheduler,
    State,
    StoreUnavailableError,
    TaskDefinition,
    current_run,
)
from go_scheduler.client import Client
from go_scheduler.events import (
    InstanceHandedOn,
    InstanceStarted,
    RunFailed,
    hears,
)
from go_scheduler.models import Cancelled
from go_scheduler.testing.builders import HOUR, MINUTE, SECOND
from go_scheduler.testing.clock import START
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    from go_scheduler import Store, TaskInstance
    from go_scheduler.events import Event
    from go_scheduler.handlers.registry import Handler
    from go_scheduler.stores.messages import Answer, Renewal
    from go_scheduler.testing import ManualClock

EXPIRE_AFTER = MINUTE
WINDOW = 10 * SECOND


class Work:
    """A handler that hands its work on, and keeps the tokens."""

    def __init__(
        self, *, expire_after: timedelta | None = None, worker: str | None = None
    ) -> None:
        self.tokens: list[tuple[UUID, int]] = []
        self._handed_on = HandedOn(expire_after=expire_after, worker=worker)

    def __call__(self, instance: TaskInstance) -> HandedOn:
        self.tokens.append(current_run().token)
        return self._handed_on


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def scheduler(work: Work, store: Store, clock: ManualClock) -> Iterator[Scheduler]:
    """A scheduler whose handler has been called for one instance."""
    with started(work, store, clock) as scheduler:
        yield scheduler


def node(handler: Handler, store: Store, clock: ManualClock) -> Scheduler:
    """A scheduler that looks seldom: each look is a way to the database."""
    return Scheduler(
        handler,
        store,
        clock=clock,
        expire_after=EXPIRE_AFTER,
        schedule_window=WINDOW,
        runner_window=WINDOW,
        cleanup_window=HOUR,
    )


def started(work: Work, store: Store, clock: ManualClock, **options: Any) -> Scheduler:
    scheduler = node(work, store, clock)
    scheduler.schedule(TaskDefinition(trigger=ExecuteOnceTrigger(START), **options))
    scheduler.start()
    clock.advance(SECOND)
    assert len(work.tokens) == 1
    return scheduler


def state(store: Store, work: Work) -> State:
    return store.get_instance(work.tokens[0][0]).state


def test_the_instance_stays_running_and_costs_its_node_nothing(
    scheduler: Scheduler, store: Store, work: Work, clock: ManualClock
) -> None:
    clock.advance(EXPIRE_AFTER - 2 * SECOND)
    assert state(store, work) is State.RUNNING
    health = scheduler.health()
    assert health.ok
    assert (health.busy, health.waiting, health.unrecorded) == (0, 0, 0)
    assert len(work.tokens) == 1


def test_who_has_it_is_shown_and_is_in_the_history_of_what_fails(
    store: Store, clock: ManualClock
) -> None:
    work = Work(worker="Gerät ä")
    with started(work, store, clock):
        clock.advance(SECOND)
        [(id, attempt)] = work.tokens
        assert store.get_instance(id).worker == "Gerät ä"
        assert Client(store).fail(id, attempt, "no paper")
        [run] = store.list_runs(id)
        assert (run.attempt, run.worker) == (attempt, "Gerät ä")


def test_what_came_of_it_is_shown(
    scheduler: Scheduler, store: Store, work: Work, clock: ManualClock
) -> None:
    clock.advance(SECOND)
    [(id, attempt)] = work.tokens
    with pytest.raises(ConfigurationError, match=r"^result\['a'\] is nan"):
        scheduler.complete(id, attempt, result={"a": float("nan")})
    assert scheduler.get_instance(id).state is State.RUNNING
    assert scheduler.complete(id, attempt, result={"größe": [1, None]})
    found = scheduler.get_instance(id)
    assert (found.state, found.result) == (State.COMPLETED, {"größe": [1, None]})


@pytest.mark.parametrize("worker", ["", "a" * 201, "\0", "\ud800", 7])
def test_a_worker_that_cannot_be_kept_is_refused(worker: str) -> None:
    with pytest.raises(ConfigurationError, match="worker"):
        HandedOn(worker=worker)


def test_it_is_ended_from_outside(
    scheduler: Scheduler, store: Store, work: Work, clock: ManualClock
) -> None:
    clock.advance(SECOND)
    assert Client(store).complete(*work.tokens[0])
    over = store.get_instance(work.tokens[0][0])
    assert (over.state, over.runs) == (State.COMPLETED, 1)
    clock.advance(2 * EXPIRE_AFTER)
    assert len(work.tokens) == 1


def test_what_nobody_keeps_or_ends_runs_again(
    scheduler: Scheduler, store: Store, work: Work, clock: ManualClock
) -> None:
    clock.advance(EXPIRE_AFTER + MINUTE)
    [first, second] = work.tokens
    assert second == (first[0], 2)
    # Its success counts all the same, if it is the first.
    assert scheduler.complete(*first)
    assert not scheduler.complete(*second)
    assert scheduler.extend(*second, MINUTE) is Extension.LOST


def test_how_long_it_is_kept_can_be_said(store: Store, clock: ManualClock) -> None:
    work = Work(expire_after=2 * EXPIRE_AFTER)
    with started(work, store, clock):
        clock.advance(2 * EXPIRE_AFTER - 2 * SECOND)
        assert len(work.tokens) == 1
        clock.advance(MINUTE)
        assert len(work.tokens) == 2


def test_what_nobody_ends_is_kept_until_its_timeout(
    store: Store, clock: ManualClock
) -> None:
    work = Work(expire_after=HOUR)
    with started(work, store, clock, timeout=EXPIRE_AFTER):
        clock.advance(EXPIRE_AFTER - 2 * SECOND)
        assert len(work.tokens) == 1
        clock.advance(MINUTE)
        assert len(work.tokens) == 2


def test_what_is_extended_past_its_timeout_has_failed(
    store: Store, clock: ManualClock
) -> None:
    work = Work(expire_after=HOUR)
    with started(work, store, clock, timeout=EXPIRE_AFTER) as scheduler:
        clock.advance(EXPIRE_AFTER)
        assert scheduler.extend(*work.tokens[0], MINUTE) is Extension.LOST
        [run] = store.list_runs(work.tokens[0][0])
        assert str(run.error).startswith("timed out after 0:01:00")
        clock.advance(EXPIRE_AFTER)
        assert len(work.tokens) == 2


def test_what_is_extended_is_kept(
    scheduler: Scheduler, work: Work, clock: ManualClock
) -> None:
    for _ in range(3):
        clock.advance(EXPIRE_AFTER - 2 * SECOND)
        assert scheduler.extend(*work.tokens[0], EXPIRE_AFTER) is Extension.GO_ON
    assert len(work.tokens) == 1


def test_what_failed_outside_runs_again_by_its_policy(
    store: Store, work: Work, clock: ManualClock
) -> None:
    with started(work, store, clock, retry=RetryPolicy(delay=MINUTE)) as scheduler:
        assert scheduler.fail(*work.tokens[0], "no answer")
        waiting = store.get_instance(work.tokens[0][0])
        assert (waiting.state, waiting.error) == (State.PENDING, "no answer")
        assert waiting.due_at == START + SECOND + MINUTE
        clock.advance(MINUTE + WINDOW)
        assert len(work.tokens) == 2


def test_what_is_given_back_is_handed_on_anew_at_once(
    scheduler: Scheduler, work: Work, clock: ManualClock
) -> None:
    assert scheduler.release(*work.tokens[0])
    clock.advance(timedelta(0))
    assert len(work.tokens) == 2


def test_a_cancel_is_told_to_whoever_extends(
    scheduler: Scheduler, store: Store, work: Work
) -> None:
    token = work.tokens[0]
    assert scheduler.cancel(token[0]) is Cancelled.REQUESTED
    assert scheduler.extend(*token, MINUTE) is Extension.STOP
    assert scheduler.fail(*token, "stopped")
    assert state(store, work) is State.CANCELLED


def test_a_stop_neither_waits_for_it_nor_ends_it(
    scheduler: Scheduler, store: Store, work: Work
) -> None:
    assert scheduler.stop()
    assert state(store, work) is State.RUNNING
    assert Client(store).complete(*work.tokens[0])


def test_another_node_leaves_it_alone_while_it_is_kept(
    scheduler: Scheduler, store: Store, work: Work, clock: ManualClock
) -> None:
    scheduler.stop()
    with node(work, store, clock):
        clock.advance(EXPIRE_AFTER - 2 * SECOND)
        assert len(work.tokens) == 1
        clock.advance(MINUTE)
        assert len(work.tokens) == 2


class LosesAnswers(MemoryStore):
    """Loses the answers to claims, or cannot be reached, as it is told to."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.loses = False
        self.away = False

    def claim_instances(self, *args: object, **options: object) -> list[TaskInstance]:
        found = super().claim_instances(*args, **options)  # type: ignore[arg-type]
        if self.loses:
            raise StoreUnavailableError("the answer is lost")
        return list(found)

    def renew_claims(self, renewals: Sequence[Renewal]) -> Answer[Mapping[UUID, bool]]:
        if self.away:
            raise StoreUnavailableError("away")
        return super().renew_claims(renewals)


def test_it_is_not_taken_for_what_a_lost_answer_had_claimed(
    work: Work, clock: ManualClock
) -> None:
    store = LosesAnswers(clock)
    with started(work, store, clock):
        store.loses = True
        clock.advance(10 * SECOND)
        store.loses = False
        clock.advance(10 * SECOND)
        assert state(store, work) is State.RUNNING
        assert len(work.tokens) == 1


def test_it_is_handed_on_as_soon_as_the_store_can_be_told(
    work: Work, clock: ManualClock
) -> None:
    store = LosesAnswers(clock)
    store.away = True
    with started(work, store, clock) as scheduler:
        assert scheduler.health().unrecorded == 1
        store.away = False
        clock.advance(10 * SECOND)
        assert scheduler.health().unrecorded == 0
        [instance] = store.list_instances()
        assert instance.expires_at is not None
        assert instance.expires_at > START + EXPIRE_AFTER


def test_it_may_be_ended_before_its_handler_has_returned(
    store: Store, clock: ManualClock
) -> None:
    def handler(instance: TaskInstance) -> HandedOn:
        assert Client(store).complete(*current_run().token)
        return HandedOn()

    with node(handler, store, clock) as scheduler:
        scheduler.schedule(TaskDefinition(trigger=ExecuteOnceTrigger(START)))
        clock.advance(SECOND)
        assert scheduler.counts()[State.COMPLETED] == 1
        assert scheduler.health().ok


def test_what_was_presumed_hung_is_not_handed_on_any_more(clock: ManualClock) -> None:
    store = MemoryStore(clock)

    def handler(instance: TaskInstance) -> HandedOn | None:
        if instance.attempt > 1:
            return None
        clock.advance(2 * MINUTE)
        return HandedOn(expire_after=HOUR)

    with node(handler, store, clock) as scheduler:
        scheduler.schedule(TaskDefinition(trigger=ExecuteOnceTrigger(START)))
        clock.advance(10 * MINUTE)
        assert scheduler.counts()[State.COMPLETED] == 1


def test_it_is_told(store: Store, work: Work, clock: ManualClock) -> None:
    heard: list[Event] = []
    told = threading.Event()

    def listener(event: Event) -> None:
        heard.append(event)
        if isinstance(event, InstanceHandedOn):
            told.set()

    listening = hears(InstanceStarted, InstanceHandedOn)(listener)
    with Scheduler(work, store, clock=clock, listeners=[listening]) as scheduler:
        scheduler.schedule(TaskDefinition(trigger=ExecuteOnceTrigger(START)))
        clock.advance(SECOND)
        assert told.wait(FAILED_AFTER)
    assert [type(each) for each in heard] == [InstanceStarted, InstanceHandedOn]


# Wherever handlers are called.


async def on_a_loop(instance: TaskInstance) -> HandedOn:
    return HandedOn(expire_after=HOUR)


def by_what_is_awaited(instance: TaskInstance) -> object:
    return on_a_loop(instance)


def at_once(instance: TaskInstance) -> HandedOn:
    return HandedOn(expire_after=HOUR)


@pytest.mark.slow
@pytest.mark.parametrize("handler", [on_a_loop, by_what_is_awaited, at_once])
@pytest.mark.parametrize("pool", [False, True])
def test_sync_and_async_handlers_hand_on_here_and_in_a_process(
    handler: Handler, pool: bool
) -> None:
    handed_on = threading.Event()
    listening = hears(InstanceHandedOn)(lambda event: handed_on.set())
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(1, mp_context=context) if pool else None
    scheduler = Scheduler(handler, executor=executor, listeners=[listening])
    with scheduler:
        now = scheduler._store.now()
        scheduler.schedule(TaskDefinition(trigger=ExecuteOnceTrigger(now)))
        assert handed_on.wait(FAILED_AFTER)
        [instance] = scheduler.list_instances()
        assert instance.state is State.RUNNING
        assert instance.expires_at is not None
        assert instance.expires_at > now + HOUR
    if executor is not None:
        executor.shutdown()


def forgets_to_call(instance: TaskInstance) -> object:
    return HandedOn


async def forgets_to_call_on_a_loop(instance: TaskInstance) -> object:
    return HandedOn


@pytest.mark.slow
@pytest.mark.parametrize("handler", [forgets_to_call, forgets_to_call_on_a_loop])
@pytest.mark.parametrize("pool", [False, True])
def test_the_class_in_place_of_a_value_is_a_failed_run(
    handler: Handler, pool: bool
) -> None:
    told: SimpleQueue[RunFailed] = SimpleQueue()
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(1, mp_context=context) if pool else None
    listening = hears(RunFailed)(told.put)
    with Scheduler(handler, executor=executor, listeners=[listening]) as scheduler:
        now = scheduler._store.now()
        scheduler.schedule(TaskDefinition(trigger=ExecuteOnceTrigger(now)))
        assert "return HandedOn()" in (told.get(timeout=FAILED_AFTER).error or "")
    if executor is not None:
        executor.shutdown()


@pytest.mark.parametrize("expire_after", [timedelta(0), 5])
def test_it_is_kept_for_some_time(expire_after: object) -> None:
    with pytest.raises(ConfigurationError, match="expire_after"):
        HandedOn(expire_after=expire_after)  # type: ignore[arg-type]
