"""Workers, servers and stores that go away."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from go_scheduler.errors import ConfigurationError, StoreUnavailableError
from go_scheduler.events import InstanceGivenBack, NodeStarted, NodeStopped
from go_scheduler.http import create_app
from go_scheduler.http.access.caller import SCOPES, Caller
from go_scheduler.http.access.rate_limits import Waiting
from go_scheduler.http.problems import Problem
from go_scheduler.http.work.crews import Crew, Crews, Waiter
from go_scheduler.models import State, TaskDefinition
from go_scheduler.run import HandedOn
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.base import Store
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from tests.http.serving import called
from tests.http.work.callers import Believing
from tests.http.work.house import server
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import httpx

    from go_scheduler.events.event import Event
    from go_scheduler.http.work.crews import Work
    from go_scheduler.models import TaskInstance

CALLER = Caller(subject="somebody", scopes=frozenset(SCOPES))
STEP = 0.001
ASKS = b"GET /v1/work?queues=default&wait=20 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
MINUTE = timedelta(minutes=1)


class AwayStore(MemoryStore):
    """Cannot be reached while it is away."""

    away = False

    def __getattribute__(self, name: str) -> Any:
        if name in _CALLS and super().__getattribute__("away"):
            raise StoreUnavailableError("it is away")
        return super().__getattribute__(name)


class SlowStore(MemoryStore):
    """Connects as slowly as a database that is elsewhere."""

    def connect(self) -> None:
        threading.Event().wait(0.05)
        super().connect()


_CALLS = Store.__abstractmethods__ - {"close"} | {"now", "keep_setting"}


class House:
    """Crews without a server, on the event loop of the test."""

    def __init__(self, store: Store, **options: Any) -> None:
        self.given_back = threading.Event()
        self.started = threading.Semaphore(0)
        self.stopped = threading.Semaphore(0)
        self.scheduler = Scheduler(None, store, listeners=[self._hear])
        self.crews = Crews(self.scheduler, **options)

    def _hear(self, event: Event) -> None:
        if isinstance(event, InstanceGivenBack):
            self.given_back.set()
        elif isinstance(event, NodeStarted):
            self.started.release()
        elif isinstance(event, NodeStopped):
            self.stopped.release()

    def once(self) -> TaskDefinition:
        at = self.scheduler._ready().now()
        return self.scheduler.schedule(TaskDefinition(trigger=ExecuteOnceTrigger(at)))

    def take(
        self,
        queues: Sequence[str] = ("default",),
        *,
        most: int = 1,
        wait: timedelta = MINUTE,
        gone: asyncio.Future[None] | None = None,
    ) -> asyncio.Task[Sequence[Work]]:
        gone = gone or asyncio.get_running_loop().create_future()
        return asyncio.create_task(
            self.crews.take(
                queues, most=most, wait=wait, worker=None, caller=CALLER, gone=gone
            )
        )

    def crew(self, queues: Sequence[str] = ("default",)) -> Crew | None:
        served = self.crews._roster._served.get(tuple(queues))
        return None if served is None else served._crew

    async def until_waiting(self, queues: Sequence[str] = ("default",)) -> None:
        async def waiting() -> bool:
            crew = self.crew(queues)
            return crew is not None and crew.room > 0

        await until(waiting)

    def hand_over_meanwhile(self) -> None:
        """Have a run handed to a worker while the event loop does nothing else."""
        crew = self.crew()
        assert crew is not None
        [waiter] = crew._waiters
        self.once()
        found = threading.Event()
        while not waiter.found:
            assert not found.wait(STEP)

    def instance(self) -> TaskInstance:
        [instance] = self.scheduler.list_instances()
        return instance


async def until(done: Callable[[], Any]) -> None:
    async with asyncio.timeout(FAILED_AFTER):
        while not await done():
            await asyncio.sleep(STEP)


def running(call: Callable[[House], Any], **options: Any) -> None:
    """Run a test with crews, and stop these."""

    async def run() -> None:
        house = House(options.pop("store", None) or MemoryStore(), **options)
        try:
            await call(house)
        finally:
            await house.crews.stop()

    asyncio.run(run())


def test_a_worker_that_hangs_up_while_it_waits_is_handed_nothing() -> None:
    async def test(house: House) -> None:
        gone = asyncio.get_running_loop().create_future()
        taking = house.take(gone=gone)
        await house.until_waiting()
        gone.set_result(None)
        assert await taking == []
        house.once()
        [work] = await house.take()
        assert work.instance.attempt == 1

    running(test)


@pytest.mark.parametrize("cancelled", [False, True])
def test_what_a_worker_was_handed_that_hung_up_is_given_back(cancelled: bool) -> None:
    async def test(house: House) -> None:
        gone = asyncio.get_running_loop().create_future()
        taking = house.take(gone=gone)
        await house.until_waiting()
        house.hand_over_meanwhile()
        if cancelled:
            taking.cancel()
        else:
            gone.set_result(None)
        await asyncio.wait([taking])
        assert taking.cancelled() or taking.result() == []
        [work] = await house.take()
        # It was handed out twice, and has run once.
        assert work.instance.attempt == 2
        assert work.instance.runs == 1
        assert house.given_back.wait(FAILED_AFTER)

    running(test)


def test_who_has_hung_up_as_it_is_handed_over_is_not_taken_to_be_there() -> None:
    with server(MemoryStore()) as one, ExitStack() as stack:
        host, port = urlsplit(one.url).netloc.split(":")
        hung_up = stack.enter_context(socket.create_connection((host, int(port))))
        hung_up.sendall(ASKS)
        one.wait_for_waiting("default", 1)
        loop, goes_on = one.crews._loop, threading.Event()
        assert loop is not None
        loop.call_soon_threadsafe(goes_on.wait, FAILED_AFTER)
        try:
            [served] = one.crews._roster._served.values()
            [waiter] = served._crew._waiters
            one.once()
            one.wait_until(lambda: bool(waiter.found))
            hung_up.close()
        finally:
            goes_on.set()
        assert one.take_one()["attempt"] == 2


def test_what_is_being_given_back_is_by_the_time_all_has_stopped() -> None:
    async def test(house: House) -> None:
        gone = asyncio.get_running_loop().create_future()
        taking = house.take(gone=gone)
        await house.until_waiting()
        house.hand_over_meanwhile()
        gone.set_result(None)
        assert await taking == []
        await house.crews.stop()
        assert house.instance().state is State.PENDING

    running(test)


def test_what_is_handed_over_as_the_last_worker_leaves_is_given_back() -> None:
    async def test() -> None:
        left: list[TaskInstance] = []
        crew = Crew(left.append)
        waiter = Waiter(HandedOn(), 2)
        crew.join(waiter)
        assert (crew.room, crew.places) == (2, 2)
        assert crew.leave(waiter) == []
        assert (crew.room, crew.places) == (0, 0)
        instance: Any = object()
        crew.handle(instance)
        assert left == [instance]

    asyncio.run(test())


def test_what_the_last_worker_left_is_handed_to_the_next() -> None:
    async def test(house: House) -> None:
        house.once()
        [work] = await house.take()
        house.crews._give_back_soon(work.instance)
        [again] = await house.take()
        assert (again.instance.id, again.instance.attempt) == (work.instance.id, 2)

    running(test)


def test_who_has_got_something_is_claimed_for_no_more_and_may_get_more() -> None:
    async def test() -> None:
        crew = Crew(lambda _: None)
        first, second = Waiter(HandedOn(), 3), Waiter(HandedOn(), 1)
        crew.join(first)
        crew.join(second)
        instance: Any = object()
        crew.handle(instance)
        assert (crew.room, crew.places) == (1, 3)
        crew.handle(instance)
        crew.handle(instance)
        assert (crew.room, crew.places) == (0, 1)
        assert (len(first.found), len(second.found)) == (2, 1)
        assert len(crew.leave(first)) == 2
        assert (crew.room, crew.places) == (0, 0)

    asyncio.run(test())


def test_a_waiter_of_a_loop_that_is_closed_is_left_alone() -> None:
    async def made() -> Waiter:
        return Waiter(HandedOn(), 1)

    asyncio.run(made()).wake_soon()


@pytest.mark.slow
def test_a_crew_for_which_nobody_waits_is_dissolved() -> None:
    async def test(house: House) -> None:
        await house.take(wait=timedelta(0))
        taking = house.take(["other"])
        await house.until_waiting(["other"])
        assert await asyncio.to_thread(house.stopped.acquire, timeout=FAILED_AFTER)
        assert house.crew() is None
        assert house.crew(["other"]) is not None
        taking.cancel()
        await asyncio.wait([taking])

    running(test, idle=timedelta(seconds=0.3))


def test_once_nobody_waits_at_all_nothing_is_left() -> None:
    async def test(house: House) -> None:
        await house.take(wait=timedelta(0))
        assert await asyncio.to_thread(house.stopped.acquire, timeout=FAILED_AFTER)
        assert house.crews._roster._sweep is None

    running(test, idle=timedelta(seconds=0.01))


@pytest.mark.slow
def test_while_nobody_waits_nobody_looks_whether_the_store_is_away() -> None:
    async def test(house: House) -> None:
        await house.take(wait=timedelta(0))
        [served] = house.crews._roster._served.values()

        async def rests() -> bool:
            return served._looking is None

        assert not await rests()
        await until(rests)

    running(test)


def test_a_crew_for_which_nobody_waits_makes_place_for_another() -> None:
    async def test(house: House) -> None:
        await house.take(["a"], wait=timedelta(0))
        await house.take(["b"], wait=timedelta(0))
        await house.take(["c"], wait=timedelta(0))
        assert await asyncio.to_thread(house.stopped.acquire, timeout=FAILED_AFTER)
        assert [house.crew([each]) is None for each in "abc"] == [True, False, False]

    running(test, most=2, each=2)


def test_more_crews_than_there_may_be_are_refused() -> None:
    with server(MemoryStore(), most=1) as one:
        waiting = one.ask_meanwhile("a")
        answer = one.ask("b")
        assert answer.status_code == 429
        assert "different sets of queues" in answer.json()["detail"]
        assert int(answer.headers["retry-after"]) >= 1
        one.crews.stop_taking()
        assert waiting.result(FAILED_AFTER).status_code == 503


@pytest.mark.slow
def test_one_caller_is_refused_more_crews_than_one_may_have() -> None:
    with server(MemoryStore(), access=Believing(), most=5, each=2) as one:

        def asked(name: str, queues: str) -> httpx.Response:
            path = f"/v1/work?queues={queues}&wait=0"
            return one.client.get(path, headers={"X-Name": name})

        for queues in ("a", "b"):
            one.ask_meanwhile(queues)
        refused = one.ask("c")
        assert refused.status_code == 429
        [error] = refused.json()["errors"]
        assert error["field"] == "queues"
        assert "of this caller wait for 2 different sets" in error["detail"]
        # There is room for others, and instead of those for which nobody waits.
        for each in ("xc", "xd", "xe", "xa", "yc", "yf", "xc"):
            assert asked(*each).status_code == 204
        served = one.crews._roster._served
        assert [(q, each.caller) for [q], each in served.items()] == [
            ("a", "somebody"),
            ("b", "somebody"),
            ("e", "x"),
            ("c", "x"),
            ("f", "y"),
        ]


def test_more_workers_than_may_wait_are_refused() -> None:
    with server(MemoryStore(), waiting=Waiting(each=1)) as one:
        one.ask_meanwhile()
        assert one.ask().status_code == 429


@pytest.mark.slow
def test_a_server_that_stops_tells_those_who_wait_and_lets_work_be_ended() -> None:
    with server(MemoryStore()) as one:
        one.once()
        work = one.take_one()
        asked = [one.ask_meanwhile() for _ in range(3)]
        one.crews.stop_taking()
        for each in asked:
            answer = each.result(FAILED_AFTER)
            assert answer.status_code == 503
            assert "retry-after" in answer.headers
            assert answer.json()["type"] == "urn:go_scheduler:stopping"
        assert one.ask().status_code == 503
        assert one.tell(work, "complete").status_code == 200


def test_who_waits_is_told_when_all_is_stopped() -> None:
    async def test(house: House) -> None:
        taking = house.take()
        await house.until_waiting()
        await house.crews.stop()
        with pytest.raises(Problem, match="no more work"):
            await asyncio.wait_for(taking, FAILED_AFTER)

    running(test)


@pytest.mark.parametrize("steps", range(4))
def test_who_has_just_come_when_it_stops_is_told_so(steps: int) -> None:
    async def test(house: House) -> None:
        taking = house.take()
        for _ in range(steps):
            await asyncio.sleep(0)
        house.crews.stop_taking()
        with pytest.raises(Problem, match="no more work"):
            await asyncio.wait_for(taking, FAILED_AFTER)

    running(test)


def test_who_waits_for_a_crew_to_begin_when_it_stops_is_told_so() -> None:
    async def test(house: House) -> None:
        taking = house.take()

        async def begins() -> bool:
            return house.crew() is not None

        await until(begins)
        house.crews.stop_taking()
        with pytest.raises(Problem, match="no more work"):
            await asyncio.wait_for(taking, FAILED_AFTER)

    store = SlowStore()
    running(test, store=store)


def test_crews_that_nobody_has_waited_in_are_stopped_as_well() -> None:
    async def nothing(house: House) -> None:
        house.crews.stop_taking()

    running(nothing)


def test_a_server_that_hands_out_no_work_says_so() -> None:
    async def test() -> None:
        app = create_app(Scheduler(None, MemoryStore()))
        async with called(app) as client:
            answer = await client.get("/v1/work", params={"queues": "default"})
        assert answer.status_code == 404
        assert answer.json()["type"] == "urn:go_scheduler:no-work"

    asyncio.run(test())


def test_a_worker_that_vanishes_is_not_there_any_more() -> None:
    with server(MemoryStore()) as one:
        url = urlsplit(one.url)
        with socket.create_connection((url.hostname, url.port)) as vanishing:
            asked = "GET /v1/work?queues=default HTTP/1.1\r\nHost: localhost\r\n\r\n"
            vanishing.sendall(asked.encode())
            one.wait_for_waiting("default", 1)
        one.wait_until(lambda: one.waiting() == 0)
        one.once()
        assert one.take_one()["attempt"] == 1


@pytest.mark.slow
def test_what_a_vanished_worker_had_runs_again_after_its_lease() -> None:
    second = timedelta(seconds=1)
    with server(MemoryStore(), lease=second, crew_lease=second) as one:
        one.once()
        work = one.take_one()
        again = one.take_one()
        assert (again["instance_id"], again["attempt"]) == (work["instance_id"], 2)
        # A success counts, however late, and whoever has it by now.
        assert one.tell(work, "complete").status_code == 200
        assert one.instance(work).state is State.COMPLETED
        assert one.tell(again, "heartbeat").status_code == 409


@pytest.mark.slow
def test_while_the_store_is_away_nobody_waits_and_forged_tokens_are_known() -> None:
    store = AwayStore()
    with server(store) as one:
        one.once()
        work = one.take_one()
        asked = one.ask_meanwhile(wait=60)
        store.away = True
        answer = asked.result(FAILED_AFTER)
        assert answer.status_code == 503
        assert "retry-after" in answer.headers
        assert answer.json()["type"] == "urn:go_scheduler:store-unavailable"
        assert one.ask().status_code == 503
        for what in ("heartbeat", "complete"):
            assert one.tell(work, what).status_code == 503
            forged = {**work, "token": "A" * 80}
            assert one.tell(forged, what).status_code == 403
        body = {"completed": [{each: work[each] for each in ("instance_id", "token")}]}
        [told] = one.client.post("/v1/work/complete", json=body).json()["answers"]
        assert told["problem"]["status"] == 503
        store.away = False
        one.wait_until(lambda: one.tell(work, "complete").status_code == 200)
        one.wait_until(lambda: one.ask(wait=0).status_code == 204)
        one.once()
        assert len(one.take()) == 1


@pytest.mark.slow
def test_who_comes_while_the_store_is_away_is_told_so_until_it_is_back() -> None:
    store = AwayStore()
    with server(store) as one:
        one.scheduler.check()
        assert one.ask("warm", wait=0).status_code == 204
        store.away = True
        one.crews._roster._scheduler._initialized = False
        assert one.ask("another").status_code == 503
        store.away = False
        assert one.ask("another", wait=0).status_code == 204


@pytest.mark.slow
def test_the_token_of_before_holds_after_a_restart() -> None:
    store = MemoryStore()
    with server(store) as before:
        before.once()
        work = before.take_one()
    with server(store) as after:
        assert after.tell(work, "heartbeat").json() == {"answer": "go_on"}
        assert after.tell(work, "complete").status_code == 200
        assert after.instance(work).state is State.COMPLETED


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"lease": timedelta(0)}, "lease"),
        ({"lease": 5}, "lease"),
        ({"most": 0}, "most"),
        ({"most": "x"}, "most"),
        ({"each": 0}, "each"),
        ({"idle": timedelta(0)}, "idle"),
    ],
)
def test_what_crews_cannot_be_is_refused(options: Any, field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        Crews(Scheduler(None, MemoryStore()), **options)
