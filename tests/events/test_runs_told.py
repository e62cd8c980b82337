"""What happens to runs is told by the loops of a scheduler, where it happens."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine

from go_scheduler import (
    DelayTrigger,
    ExecuteOnceTrigger,
    HandlerRegistry,
    RetryPolicy,
    Scheduler,
    TaskDefinition,
    current_run,
)
from go_scheduler.clock import SystemClock
from go_scheduler.errors import StoreError, StoreUnavailableError
from go_scheduler.events import (
    ClaimAnswerLost,
    CompletedRunFailed,
    DefinitionCompleted,
    DefinitionScheduled,
    Event,
    ExecutorFailed,
    ExecutorRecovered,
    InstanceClaimed,
    InstanceEvent,
    InstanceFinished,
    InstanceGivenBack,
    InstanceLapsed,
    InstanceLocked,
    InstanceLost,
    InstanceRetried,
    InstanceStarted,
    InstanceTakenOver,
    InstanceUnrecorded,
    NoticeGiven,
    ResultDiscarded,
    ResultLost,
    RunEnded,
    RunFailed,
    RunHung,
    RunLeftBehind,
    Write,
)
from go_scheduler.events.event_bus import Events
from go_scheduler.events.listening import checked_listeners
from go_scheduler.models import Outcome
from go_scheduler.running import admission, recorder
from go_scheduler.running.calling import calls
from go_scheduler.running.calling.workers import Threads
from go_scheduler.running.held import HeldRun
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import Answer
from go_scheduler.testing import InlineExecutor, ManualClock
from go_scheduler.testing.builders import LEASE, SECOND, definition, put, running
from go_scheduler.testing.clock import START
from tests.conftest import instance
from tests.events.house import House
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence, Set
    from concurrent.futures import Future
    from uuid import UUID

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import (
        Claim,
        Claimant,
        Release,
        Renewal,
        RunOutcome,
    )

TICK = timedelta(milliseconds=100)


def once(at: datetime = START + SECOND, *, runs: int = 3) -> TaskDefinition:
    return TaskDefinition(
        trigger=ExecuteOnceTrigger(at),
        name="report",
        expire_after=10 * SECOND,
        retry=RetryPolicy.after_expiry(max_attempts=runs),
    )


def sleeps(clock: ManualClock, duration: timedelta) -> Callable[[TaskInstance], None]:
    """A handler that takes so long."""

    def handler(_: TaskInstance) -> None:
        condition = threading.Condition()
        with condition:
            clock.wait(condition, clock.elapsed() + duration)

    return handler


def fails(_: TaskInstance) -> None:
    raise ConnectionError("no route")


class TestOnEachStore:
    def test_a_run_is_told_from_its_claim_to_its_end(
        self, clock: ManualClock, store: Store
    ) -> None:
        house = House(clock, store, sleeps(clock, 2 * SECOND))
        stored = house.scheduler.schedule(once())
        with house.scheduler:
            clock.advance(2 * SECOND)
        claimed, started, ended, finished = house.of(InstanceEvent)
        ids = {
            "instance_id": claimed.instance_id,
            "attempt": 1,
            "definition_id": stored.id,
            "name": "report",
            "queue": "default",
        }
        at = START + SECOND
        assert claimed == InstanceClaimed(**ids, due_at=at)  # type: ignore[arg-type]
        assert started == InstanceStarted(
            **ids,  # type: ignore[arg-type]
            fire_time=at,
            execute_at=at,
            started_at=at,
            late=timedelta(0),
        )
        assert ended == RunEnded(
            **ids,  # type: ignore[arg-type]
            late=timedelta(0),
            took=2 * SECOND,
            outcome=Outcome.COMPLETED,
            retry_in=None,
        )
        assert finished == InstanceFinished(
            **ids,  # type: ignore[arg-type]
            outcome=Outcome.COMPLETED,
            started_at=at,
            took=2 * SECOND,
            error=None,
        )

    def test_a_run_that_fails_is_told_with_what_follows(
        self, clock: ManualClock, store: Store
    ) -> None:
        house = House(clock, store, fails)
        house.scheduler.schedule(once(runs=2))
        with house.scheduler:
            clock.advance(12 * SECOND)
        again, for_good = house.of(RunFailed)
        assert (again.attempt, again.retry_in) == (1, 10 * SECOND)
        assert (for_good.attempt, for_good.retry_in) == (2, None)
        retried, finished = house.one(InstanceRetried), house.one(InstanceFinished)
        assert (retried.retry_in, retried.took) == (10 * SECOND, timedelta(0))
        assert retried.started_at == START + SECOND
        assert finished.outcome is Outcome.FAILED
        assert finished.started_at == START + 11 * SECOND
        for event in (again, for_good, retried, finished):
            assert event.error is not None
            assert "ConnectionError: no route" in event.error
        assert house.told.index(again) < house.told.index(retried)
        assert house.told.index(for_good) < house.told.index(finished)

    def test_one_whose_last_run_came_to_no_end_is_taken_over(
        self, clock: ManualClock, store: Store
    ) -> None:
        left = running(store, definition(START))
        clock.advance(2 * LEASE)
        house = House(clock, store)
        with house.scheduler:
            clock.advance(2 * LEASE)
        taken_over = house.one(InstanceTakenOver)
        assert (taken_over.instance_id, taken_over.attempt) == (left.id, 2)
        assert house.one(InstanceFinished).attempt == 2

    def test_what_has_no_handler_here_is_given_back_and_noticed_once(
        self, clock: ManualClock, store: Store
    ) -> None:
        house = House(clock, store, HandlerRegistry())
        stored = house.scheduler.schedule(once())
        with house.scheduler:
            clock.advance(2 * SECOND)
        given_back = house.of(InstanceGivenBack)
        reason = (
            "no handler is registered for definitions 'report' here; registered: none"
        )
        assert [each.reason for each in given_back] == [reason] * len(given_back)
        assert given_back[0].delay == timedelta(milliseconds=50)
        assert given_back[1].delay == timedelta(milliseconds=100)
        [scheduled, notice] = house.of(NoticeGiven)
        assert "no handler is registered as 'report' here" in scheduled.text
        assert notice.text == f"{reason}; such instances are given back"
        assert notice.definition_id == stored.id
        assert notice.instance_id == given_back[0].instance_id
        assert house.of(InstanceClaimed) == []

    def test_a_definition_that_fires_again_after_its_run_is_not_completed(
        self, clock: ManualClock, store: Store
    ) -> None:
        put(store, definition(START, trigger=DelayTrigger(timedelta(hours=1))))
        house = House(clock, store)
        with house.scheduler:
            clock.advance(SECOND)
        assert house.one(InstanceFinished).outcome is Outcome.COMPLETED
        assert house.of(DefinitionCompleted) == []

    def test_a_definition_whose_last_run_it_waited_for_is_completed(
        self, clock: ManualClock, store: Store
    ) -> None:
        beyond_the_end_of_time = DelayTrigger(timedelta(days=8000 * 365))
        stored = put(store, definition(START, trigger=beyond_the_end_of_time))
        house = House(clock, store)
        with house.scheduler:
            clock.advance(SECOND)
        assert house.one(DefinitionCompleted).definition_id == stored.id
        assert house.one(InstanceFinished).outcome is Outcome.COMPLETED

    def test_what_is_held_at_a_stop_is_given_back(
        self, clock: ManualClock, store: Store
    ) -> None:
        house = House(clock, store)
        house.scheduler.schedule(once(START + SECOND))
        with house.scheduler:
            clock.advance(SECOND / 2)
            assert len(house.of(InstanceClaimed)) == 1
        assert house.one(InstanceGivenBack).reason == "its node stops"


class TestInTransactions:
    @pytest.fixture(params=[pytest.param("sqlite", marks=pytest.mark.slow)])
    def engine(self, request: pytest.FixtureRequest) -> str:
        kind: str = request.param
        return kind

    @pytest.mark.parametrize("raises", [False, True])
    @pytest.mark.parametrize("waits", [False, True])
    def test_a_success_that_the_handler_has_committed_is_told_as_well(
        self,
        clock: ManualClock,
        store: Store,
        store_url: str,
        *,
        raises: bool,
        waits: bool,
    ) -> None:
        engine = create_engine(store_url)

        def handler(_: TaskInstance) -> None:
            with engine.begin() as connection:
                current_run().complete_in(connection)
            if raises:
                raise ZeroDivisionError("afterwards")

        trigger = DelayTrigger(timedelta(days=8000 * 365))
        put(store, definition(START, trigger=trigger) if waits else definition(START))
        house = House(clock, store, handler)
        with house.scheduler:
            clock.advance(SECOND)
        engine.dispose()
        finished = house.of(InstanceFinished)[0]
        assert (finished.outcome, finished.error) == (Outcome.COMPLETED, None)
        failed = [each.error for each in house.of(CompletedRunFailed)]
        assert len(failed) == raises
        assert all("ZeroDivisionError: afterwards" in each for each in failed)
        assert len(house.of(DefinitionCompleted)) == waits
        assert house.of(RunFailed) == []

    def test_one_that_is_rolled_back_has_failed_when_that_is_known(
        self, clock: ManualClock, store: Store, store_url: str
    ) -> None:
        engine = create_engine(store_url)

        def handler(_: TaskInstance) -> None:
            with engine.connect() as connection:
                current_run().complete_in(connection)

        house = House(clock, store, handler)
        house.scheduler.schedule(once(START))
        with house.scheduler:
            clock.advance(SECOND)
        engine.dispose()
        failed, retried = house.one(RunFailed), house.one(InstanceRetried)
        assert failed.error == retried.error
        assert failed.error is not None
        assert failed.error.startswith("the transaction of complete_in() was not")

    def test_what_is_scheduled_in_a_transaction_is_told_to_be_so(
        self, clock: ManualClock, store: Store, store_url: str
    ) -> None:
        engine = create_engine(store_url)
        house = House(clock, store)
        house.scheduler.check()
        with engine.begin() as connection:
            house.scheduler.schedule(once(), connection=connection)
        engine.dispose()
        assert house.one(DefinitionScheduled).joined


class Faulty(MemoryStore):
    """Has locked rows and bad ones, and loses answers, as it is told."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.bad: set[str] = set()
        self.locked: set[str] = set()
        self.loses_answer = False

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None = None,
    ) -> Sequence[TaskInstance]:
        claimed = super().claim_instances(
            claimant, ahead=ahead, lead=lead, limit=limit, lapsed=lapsed
        )
        if claimed and self.loses_answer:
            self.loses_answer = False
            raise StoreUnavailableError("the answer was lost")
        return claimed

    def start_instances(
        self, claimant: Claimant, claims: Sequence[Claim]
    ) -> Answer[Sequence[TaskInstance]]:
        if self._meets("start", claims):
            return Answer(done=(), busy={each.instance_id for each in claims})
        return super().start_instances(claimant, claims)

    def renew_claims(self, renewals: Sequence[Renewal]) -> Answer[dict[UUID, bool]]:
        claims = [each.claim for each in renewals]
        if self._meets("renewal", claims):
            return Answer(done={}, busy={each.instance_id for each in claims})
        answer = super().renew_claims(renewals)
        return Answer(done=dict(answer.done), busy=answer.busy)

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        claims = [each.claim for each in outcomes]
        if self._meets("end", claims):
            ids = {each.instance_id for each in claims}
            return Answer(done=frozenset(), busy=ids)
        return super().finish_instances(outcomes)

    def release_instances(self, releases: Sequence[Release]) -> Answer[Set[UUID]]:
        return super().release_instances(releases)

    def _meets(self, write: str, claims: Sequence[Claim]) -> bool:
        if claims and write in self.bad:
            raise StoreError("a bad row")
        return bool(claims) and write in self.locked


class TestFaults:
    @pytest.fixture
    def store(self, clock: ManualClock) -> Faulty:
        return Faulty(clock)

    @pytest.mark.parametrize("write", list(Write))
    def test_a_write_that_fails_is_told(
        self, clock: ManualClock, store: Faulty, write: Write
    ) -> None:
        house = House(clock, store, sleeps(clock, SECOND))
        house.scheduler.schedule(once(START + 3 * SECOND))
        store.bad.add(write.value)
        self.keep_what_has_ended(store, write)
        with house.scheduler:
            clock.advance(LEASE)
            failed = house.of(InstanceUnrecorded)[0]
            assert failed.write is write
            assert failed.error == "StoreError('a bad row')"
            assert isinstance(failed.exception, StoreError)
            assert failed.retry_in == (TICK if write is Write.START else SECOND)
            store.bad.clear()
            store.locked.clear()

    @pytest.mark.parametrize("write", list(Write))
    def test_a_write_that_has_to_wait_for_long_is_told(
        self, clock: ManualClock, store: Faulty, write: Write
    ) -> None:
        house = House(clock, store, sleeps(clock, SECOND))
        house.scheduler.schedule(once(START + 3 * SECOND))
        store.locked.add(write.value)
        self.keep_what_has_ended(store, write)
        with house.scheduler:
            clock.advance(LEASE)
            assert write in {each.write for each in house.of(InstanceLocked)}
            store.locked.clear()

    def keep_what_has_ended(self, store: Faulty, write: Write) -> None:
        """On this clock only what has ended and cannot be written yet is renewed."""
        if write is Write.RENEWAL:
            store.locked.add(Write.END.value)

    def test_a_lost_answer_to_a_claim_is_told(
        self, clock: ManualClock, store: Faulty
    ) -> None:
        house = House(clock, store)
        house.scheduler.schedule(once())
        store.loses_answer = True
        with house.scheduler:
            clock.advance(5 * SECOND)
            node = house.scheduler.health().node
        assert house.one(ClaimAnswerLost) == ClaimAnswerLost(node=node, count=1)  # type: ignore[arg-type]
        assert len(house.of(InstanceFinished)) == 1

    def test_a_claim_of_which_too_little_is_left_is_told(
        self, clock: ManualClock, store: Faulty
    ) -> None:
        def handler(_: TaskInstance) -> None:
            condition = threading.Condition()
            with condition:
                clock.wait(condition, clock.elapsed() + LEASE)

        house = House(clock, store, handler)
        for _ in range(2):
            house.scheduler.schedule(replace(once(), expire_after=2 * LEASE))
        with house.scheduler:
            clock.advance(2 * SECOND)
        lapsed = house.of(InstanceLapsed)[0]
        given_back = house.of(InstanceGivenBack)[0]
        assert given_back.instance_id == lapsed.instance_id
        assert given_back.reason == "too little is left of its claim"

    def test_an_executor_that_refuses_is_told_and_that_it_goes_on(
        self, clock: ManualClock, store: Faulty
    ) -> None:
        class Refusing(InlineExecutor):
            refuses = True

            def submit(self, *args: object, **kwargs: object) -> Future[object]:  # type: ignore[override]
                if self.refuses:
                    raise RuntimeError("shut down")
                return super().submit(*args, **kwargs)  # type: ignore[arg-type]

        executor = Refusing()
        house = House(clock, store, executor=executor)
        house.scheduler.schedule(once())
        with house.scheduler:
            clock.advance(3 * SECOND)
            assert house.one(ExecutorFailed).error == "RuntimeError('shut down')"
            assert house.of(ExecutorRecovered) == []
            executor.refuses = False
            clock.advance(3 * SECOND)
        assert house.one(ExecutorRecovered) == ExecutorRecovered()
        assert house.one(InstanceFinished).outcome is Outcome.COMPLETED
        reasons = {each.reason for each in house.of(InstanceGivenBack)}
        assert reasons == {"its executor or thread does not call it"}


class Heard:
    """A listener on another thread, and who waits for what it is told."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._events: list[Event] = []

    def __call__(self, event: Event) -> None:
        with self._condition:
            self._events.append(event)
            self._condition.notify_all()

    def wait_for(self, kind: type[Event]) -> None:
        with self._condition:
            assert self._condition.wait_for(lambda: self.has(kind), FAILED_AFTER)

    def has(self, kind: type[Event]) -> bool:
        return any(isinstance(each, kind) for each in self._events)


class TestInRealTime:
    @pytest.fixture
    def heard(self) -> Heard:
        return Heard()

    @pytest.fixture
    def goes_on(self) -> threading.Event:
        return threading.Event()

    @pytest.fixture
    def scheduler(self, heard: Heard, goes_on: threading.Event) -> Iterator[Scheduler]:
        def handler(given: TaskInstance) -> None:
            assert goes_on.wait(FAILED_AFTER)
            if given.definition.name == "report":
                raise ConnectionError("no route")

        scheduler = Scheduler(handler, lease=SECOND, listeners=[heard])
        scheduler.start()
        yield scheduler
        goes_on.set()
        scheduler.stop()

    def test_a_run_that_hangs_is_told(self, scheduler: Scheduler, heard: Heard) -> None:
        at_once = once(SystemClock().now())
        scheduler.schedule(replace(at_once, expire_after=TICK))
        heard.wait_for(RunHung)
        heard.wait_for(RunFailed)

    def test_a_run_that_has_lost_its_claim_is_told(
        self, scheduler: Scheduler, heard: Heard
    ) -> None:
        stored = scheduler.schedule(once(SystemClock().now()))
        heard.wait_for(InstanceStarted)
        scheduler.delete_definition(stored.id)
        heard.wait_for(InstanceLost)

    def test_a_result_that_is_not_taken_is_told(
        self, scheduler: Scheduler, heard: Heard, goes_on: threading.Event
    ) -> None:
        succeeds = replace(once(SystemClock().now()), name=None)
        stored = scheduler.schedule(succeeds)
        heard.wait_for(InstanceStarted)
        scheduler.delete_definition(stored.id)
        goes_on.set()
        heard.wait_for(ResultDiscarded)

    def test_a_run_that_is_left_behind_and_fails_is_told(
        self, scheduler: Scheduler, heard: Heard, goes_on: threading.Event
    ) -> None:
        scheduler.schedule(once(SystemClock().now()))
        heard.wait_for(InstanceStarted)
        assert not scheduler.stop(timeout=timedelta(0))
        goes_on.set()
        heard.wait_for(RunLeftBehind)


def test_a_call_of_which_nobody_can_tell_is_told(clock: ManualClock) -> None:
    told: list[Event] = []
    called = threading.Event()

    def call(_: HeldRun) -> None:
        called.set()
        raise ZeroDivisionError("by zero")

    events = Events(checked_listeners([told.append]), clock)
    before = set(threading.enumerate())
    threads = Threads(call, most=1, events=events)
    run = HeldRun(instance(expires_at=START + LEASE), expire_after=SECOND)
    threads.submit(run)
    assert called.wait(FAILED_AFTER)
    threads.stop()
    for thread in set(threading.enumerate()) - before:
        thread.join(FAILED_AFTER)
    [event] = told
    assert isinstance(event, ResultLost)
    assert event.error == "ZeroDivisionError('by zero')"
    assert event.instance_id == run.instance.id


def test_of_runs_that_nobody_hears_of_nothing_is_made(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise AssertionError("nobody hears this")

    for module, name in [
        (admission, "InstanceClaimed"),
        (calls, "InstanceStarted"),
        (recorder, "InstanceGivenBack"),
        (recorder, "InstanceFinished"),
        (recorder, "InstanceRetried"),
        (recorder, "DefinitionCompleted"),
    ]:
        monkeypatch.setattr(module, name, refuse)
    raised: list[Exception] = [ConnectionError("no route")]

    def handler(_: TaskInstance) -> None:
        if raised:
            raise raised.pop()

    scheduler = Scheduler(handler, MemoryStore(clock), clock=clock)
    scheduler.schedule(once())
    scheduler.schedule(once(START + 12 * SECOND))
    with scheduler:
        clock.advance(11.5 * SECOND)
        assert all(each.ok for each in scheduler.health().loops.values())
        assert scheduler.counts()["completed"] == 1  # type: ignore[index]
