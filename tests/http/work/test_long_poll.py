"""What workers wait for and report, beside ``behaviour/test_http_work.py``."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from go_scheduler.errors import StoreUnavailableError
from go_scheduler.http.access.caller import SCOPES, Caller
from go_scheduler.http.gathered import Gathered
from go_scheduler.http.problems import Problem
from go_scheduler.http.work.long_poll import LongPoll
from go_scheduler.models import State, TaskDefinition
from go_scheduler.models.values import changed
from go_scheduler.running.remote_runs import HandedOut
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.base import Store
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import Claim
from go_scheduler.stores.sql.store import SQLStore
from go_scheduler.triggers.simple import OnDemandTrigger
from tests.conftest import SQL
from tests.http.serving import As
from tests.http.work.house import Server, server, wait_until
from tests.patience import FAILED_AFTER
from tests.statements import executed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from go_scheduler.http.work.long_poll import Work
    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.messages import Put
    from go_scheduler.testing import ManualClock


CALLER = Caller(subject="somebody", scopes=frozenset(SCOPES))
STEP = 0.001
MINUTE = timedelta(minutes=1)


class AwayStore(MemoryStore):
    """Cannot be reached while it is away."""

    away = False

    def __getattribute__(self, name: str) -> Any:
        if name in _CALLS and super().__getattribute__("away"):
            raise StoreUnavailableError("it is away")
        return super().__getattribute__(name)


class SlowStore(MemoryStore):
    """Connects slowly, as to a remote database."""

    def connect(self) -> None:
        threading.Event().wait(0.05)
        super().connect()


_CALLS = Store.__abstractmethods__ - {"close"} | {"now", "keep_setting"}


class House:
    """A long poll without a server, on the event loop of the test."""

    def __init__(self, store: Store) -> None:
        self.scheduler = Scheduler(None, store)
        self.long_poll = LongPoll(self.scheduler)

    def take(self) -> asyncio.Task[Sequence[Work]]:
        gone = asyncio.get_running_loop().create_future()
        taking = self.long_poll.take(
            ["default"], most=1, wait=MINUTE, worker=None, caller=CALLER, gone=gone
        )
        return asyncio.create_task(taking)

    @property
    def is_starting(self) -> bool:
        return self.long_poll._starting is not None


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(FAILED_AFTER):
        while not done():
            await asyncio.sleep(STEP)


def running(call: Callable[[House], Any], store: Store) -> None:
    """Run a test with a long poll, and stop it."""

    async def run() -> None:
        house = House(store)
        try:
            await call(house)
        finally:
            await house.long_poll.stop()

    asyncio.run(run())


@pytest.mark.slow
def test_one_caller_is_refused_more_sets_than_one_may_have() -> None:
    access = As()
    with server(MemoryStore(), access=access, most=5, each=2) as one:
        for queues in ("a", "b"):
            one.ask_meanwhile(queues)
        refused = one.ask("c")
        assert refused.status_code == 429
        [error] = refused.json()["errors"]
        assert error["field"] == "queues"
        assert "of this caller wait for 2 different sets" in error["detail"]
        # Other callers get places, also those of sets for which nobody waits.
        for name, queue in ("xc", "xd", "xe", "xa", "yc", "yf", "xc"):
            access.caller = replace(access.caller, subject=name)
            assert one.ask(queue, wait=0).status_code == 204
        sets = one.long_poll._queue_sets._all
        assert [(q, each.caller) for [q], each in sets.items()] == [
            ("a", "ann"),
            ("b", "ann"),
            ("e", "x"),
            ("f", "y"),
            ("c", "x"),
        ]


@pytest.mark.parametrize("steps", [0, 1, 2, 3, None])
def test_who_has_just_come_when_it_stops_is_told_so(steps: int | None) -> None:
    async def test(house: House) -> None:
        taking = house.take()
        if steps is None:
            # The store connects slowly: the node has not begun.
            await until(lambda: house.is_starting)
        for _ in range(steps or 0):
            await asyncio.sleep(0)
        house.long_poll.stop_taking()
        with pytest.raises(Problem, match="no more work"):
            await asyncio.wait_for(taking, FAILED_AFTER)

    running(test, SlowStore() if steps is None else MemoryStore())


@pytest.mark.slow
def test_while_the_store_is_away_each_of_several_successes_is_answered_so() -> None:
    store = AwayStore()
    with server(store) as one:
        one.once()
        work = one.take_one()
        store.away = True
        body = {"completed": [{each: work[each] for each in ("instance_id", "token")}]}
        [told] = one.client.post("/v1/work/complete", json=body).json()["answers"]
        assert told["problem"]["status"] == 503
        store.away = False


@pytest.mark.slow
def test_who_comes_while_the_store_is_away_is_told_so_until_it_is_back() -> None:
    store = AwayStore()
    with server(store) as one:
        one.scheduler.check()
        assert one.ask("warm", wait=0).status_code == 204
        store.away = True
        assert one.ask("another").status_code == 503
        store.away = False
        wait_until(lambda: one.ask("another", wait=0).status_code == 204)


def test_while_no_node_can_be_started_whoever_comes_is_told_so() -> None:
    store = AwayStore()

    async def test(house: House) -> None:
        # Signing reads from the store, too, and only once.
        await house.long_poll._tokens.read_key()
        house.scheduler._initialized = False
        store.away = True
        with pytest.raises(StoreUnavailableError):
            await house.take()
        store.away = False
        taking = house.take()
        task = TaskDefinition(trigger=OnDemandTrigger())
        await asyncio.to_thread(house.scheduler.schedule, task)
        await asyncio.to_thread(house.scheduler.run_now, task.id)
        assert len(await taking) == 1

    running(test, store)


class Writes:
    """Doubles numbers, many in one write; the writes wait for an event."""

    def __init__(self) -> None:
        self.batches: list[Sequence[int]] = []
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.gathered = Gathered(self._write, lambda _: 500)

    async def _write(self, asked: Sequence[int]) -> Sequence[int]:
        self.batches.append(asked)
        self.begun.set()
        await self.go_on.wait()
        return [2 * each for each in asked]

    async def ask(self, *numbers: int) -> list[asyncio.Task[int]]:
        tasks = [asyncio.create_task(self.gathered.ask(each)) for each in numbers]
        await asyncio.sleep(0)
        await self.begun.wait()
        return tasks


def test_what_comes_while_one_is_written_is_written_together_in_batches() -> None:
    """It is, too, if nobody waits for it any more."""

    async def test() -> None:
        writes = Writes()
        [first] = await writes.ask(1)
        gone, *others = await writes.ask(*range(600))
        gone.cancel()
        closing = asyncio.create_task(writes.gathered.close())
        writes.go_on.set()
        assert await first == 2
        assert await asyncio.gather(*others) == [2 * each for each in range(1, 600)]
        await closing
        assert [len(each) for each in writes.batches] == [1, 500, 100]
        await writes.gathered.close()

    asyncio.run(test())


class Noted(MemoryStore):
    """Notes whether instances start when they are created."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[bool] = []

    def add_instances(self, *args: Any, **given: Any) -> Sequence[TaskInstance]:
        found = super().add_instances(*args, **given)
        if "claimant" in given:
            self.started += [each.state is State.RUNNING for each in found]
        return found

    def put_definitions(self, *args: Any, **given: Any) -> Put:
        put = super().put_definitions(*args, **given)
        if "claimant" in given:
            self.started.append(bool(put.started))
        return put


@pytest.mark.slow
def test_it_is_started_by_the_write_that_creates_it() -> None:
    store = Noted()
    with server(store) as one:
        one.client.put("/v1/types/send", json={"queue": "mail"}).raise_for_status()
        other = one.ask_meanwhile("fax")

        def sent(**job: Any) -> None:
            waiting = one.ask_meanwhile("mail")
            # Until nothing was found to claim.
            wait_until(lambda: one.scheduler._taker("mail") is not None)
            if job:
                one.client.post("/v1/jobs", json=job).raise_for_status()
            else:
                one.once(queue="mail")
            [work] = waiting.result(FAILED_AFTER).json()["work"]
            assert one.tell(work, "complete").status_code == 200

        job = {"type": "send", "payload": {}}
        # The queue of the type is not known before the first job.
        sent(**job)
        store.started.clear()
        for _ in range(2):
            sent(**job)
        sent()
        assert store.started == [True] * 3
        one.long_poll.stop_taking()
        assert other.result(FAILED_AFTER).status_code == 503


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    with server(MemoryStore()) as found:
        yield found


@pytest.fixture
def queue() -> str:
    return f"queue {uuid4()}"


@pytest.fixture
def work(shared: Server, queue: str) -> dict[str, Any]:
    shared.once(queue=queue)
    return shared.take_one(queue)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"ended_at": "2029-01-01T00:00:00Z"}, "ended_at"),
        ({"started_at": "0001-01-01T00:00:00+01:00"}, "started_at"),
    ],
)
def test_the_times_of_one_of_several_successes_are_checked_and_answered(
    shared: Server, work: dict[str, Any], wrong: dict[str, str], field: str
) -> None:
    times = {"started_at": "2030-01-01T02:00:00+02:00"}
    item = {name: work[name] for name in ("instance_id", "token")} | times
    body = {"completed": [item | wrong, item]}
    answer = shared.client.post("/v1/work/complete", json=body)
    refused, taken = answer.json()["answers"]
    assert refused["problem"]["errors"][0]["field"] == field
    assert taken == {"problem": None}
    found = shared.client.get(f"/v1/instances/{work['instance_id']}").json()
    assert found["client"] == {"started_at": "2030-01-01T00:00:00Z"}


@pytest.mark.parametrize("timeout", [7, 31])
def test_who_sends_heartbeats_is_told_that_a_run_has_timed_out(
    shared: Server, queue: str, timeout: int
) -> None:
    shared.once(queue=queue, timeout=timedelta(seconds=timeout))
    work = shared.take_one(queue)
    assert work["lease"] == min(timeout, 30)
    assert shared.tell(work, "extend", seconds=3600).json() == {"answer": "go_on"}
    instance = shared.instance(work)
    assert instance.started_at is not None
    assert instance.expires_at is not None
    kept = instance.expires_at - instance.started_at
    # The last heartbeat within the timeout is followed by another within the lease.
    assert kept > timedelta(seconds=timeout + 10)


def test_a_heartbeat_says_how_far_a_run_has_come(
    shared: Server, work: dict[str, Any]
) -> None:
    told = shared.tell(work, "heartbeat", progress={"done": 1})
    assert told.json() == {"answer": "go_on"}
    refused = shared.tell(work, "heartbeat", progress="x" * 70_000)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "progress"
    assert shared.tell(work, "heartbeat").status_code == 200
    assert shared.instance(work).progress == {"done": 1}


def test_no_more_is_remembered_than_there_is_room_for(
    shared: Server, work: dict[str, Any]
) -> None:
    instance = changed(shared.instance(work), error="x" * 1000)
    handed_out = HandedOut(most=2)
    claims = [Claim(instance_id=instance.id, attempt=each) for each in (1, 2, 3)]
    for each in claims:
        handed_out.add(changed(instance, attempt=each.attempt))
    remembered = [handed_out.pop(each) for each in claims]
    assert [each is None for each in remembered] == [True, False, False]
    [*_, last] = remembered
    assert last is not None
    # Large fields are left out.
    assert not last.definition.metadata
    assert last.error is None


TEN_MINUTES = timedelta(minutes=10)
WORKERS = 1_000


async def all_waiting(
    long_poll: LongPoll, count: int, gone: asyncio.Future[None]
) -> list[asyncio.Task[Sequence[Work]]]:
    """So many workers, once they wait."""
    waiting = [
        asyncio.create_task(
            long_poll.take(
                ["default"],
                most=1,
                wait=timedelta(minutes=1),
                worker=None,
                caller=CALLER,
                gone=gone,
            )
        )
        for _ in range(count)
    ]
    waiters = (await long_poll._started()).waiters
    while waiters.room(("default",)) < count:
        await asyncio.sleep(0.001)
    return waiting


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("engine", SQL)
def test_a_thousand_that_wait_cost_no_more_than_an_idle_node(
    store: Store, clock: ManualClock
) -> None:
    assert isinstance(store, SQLStore)
    with Scheduler(lambda _: None, store, clock=clock):
        clock.advance(timedelta(minutes=1))
        with executed(store) as by_a_node:
            clock.advance(TEN_MINUTES)

    async def wait_and_leave() -> int:
        long_poll = LongPoll(Scheduler(None, store, clock=clock))
        gone = asyncio.get_running_loop().create_future()
        waiting = await all_waiting(long_poll, WORKERS, gone)
        await asyncio.to_thread(clock.advance, timedelta(minutes=1))
        with executed(store) as by_waiting:
            await asyncio.to_thread(clock.advance, TEN_MINUTES)
        gone.set_result(None)
        assert await asyncio.gather(*waiting) == [[]] * WORKERS
        await long_poll.stop()
        return len(by_waiting)

    # One of them may poll once more than the other within these minutes.
    assert asyncio.run(wait_and_leave()) <= len(by_a_node) * 1.01
