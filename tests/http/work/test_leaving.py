"""Workers, servers and stores that go away, beside ``behaviour/test_http_work.py``."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from go_scheduler.errors import StoreUnavailableError
from go_scheduler.events import NodeStopped, hears
from go_scheduler.http.access.caller import SCOPES, Caller
from go_scheduler.http.problems import Problem
from go_scheduler.http.work.crews import Crew, Crews, Waiter
from go_scheduler.models import TaskDefinition
from go_scheduler.run import HandedOn
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.base import Store
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from tests.http.serving import As
from tests.http.work.house import server, wait_until
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    """Connects slowly, as to a remote database."""

    def connect(self) -> None:
        threading.Event().wait(0.05)
        super().connect()


_CALLS = Store.__abstractmethods__ - {"close"} | {"now", "keep_setting"}


class House:
    """Crews without a server, on the event loop of the test."""

    def __init__(self, store: Store, **options: Any) -> None:
        self.stopped = threading.Event()
        hear = hears(NodeStopped)(lambda _: self.stopped.set())
        self.scheduler = Scheduler(None, store, listeners=[hear])
        self.crews = Crews(self.scheduler, **options)

    def once(self) -> TaskDefinition:
        at = self.scheduler._ready().now()
        return self.scheduler.schedule(TaskDefinition(trigger=ExecuteOnceTrigger(at)))

    def take(self, wait: timedelta = MINUTE) -> asyncio.Task[Sequence[Work]]:
        gone = asyncio.get_running_loop().create_future()
        taking = self.crews.take(
            ["default"], most=1, wait=wait, worker=None, caller=CALLER, gone=gone
        )
        return asyncio.create_task(taking)

    def crew(self) -> Crew | None:
        served = self.crews._roster._served.get(("default",))
        return None if served is None else served._crew


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(FAILED_AFTER):
        while not done():
            await asyncio.sleep(STEP)


def running(call: Callable[[House], Any], **options: Any) -> None:
    """Run a test with crews, and stop them."""

    async def run() -> None:
        house = House(options.pop("store", None) or MemoryStore(), **options)
        try:
            await call(house)
        finally:
            await house.crews.stop()

    asyncio.run(run())


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
            wait_until(lambda: bool(waiter.found))
            hung_up.close()
        finally:
            goes_on.set()
        assert one.take_one()["attempt"] == 2


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


def test_once_nobody_waits_at_all_nothing_is_left() -> None:
    async def test(house: House) -> None:
        await house.take(timedelta(0))
        assert await asyncio.to_thread(house.stopped.wait, FAILED_AFTER)
        assert house.crews._roster._sweep is None

    running(test, idle=timedelta(seconds=0.01))


@pytest.mark.slow
def test_while_nobody_waits_nobody_looks_whether_the_store_is_away() -> None:
    async def test(house: House) -> None:
        await house.take(timedelta(0))
        [served] = house.crews._roster._served.values()
        assert served._looking is not None
        await until(lambda: served._looking is None)

    running(test)


@pytest.mark.slow
def test_one_caller_is_refused_more_crews_than_one_may_have() -> None:
    access = As()
    with server(MemoryStore(), access=access, most=5, each=2) as one:
        for queues in ("a", "b"):
            one.ask_meanwhile(queues)
        refused = one.ask("c")
        assert refused.status_code == 429
        [error] = refused.json()["errors"]
        assert error["field"] == "queues"
        assert "of this caller wait for 2 different sets" in error["detail"]
        # Other callers get places, also those of crews for which nobody waits.
        for name, queue in ("xc", "xd", "xe", "xa", "yc", "yf", "xc"):
            access.caller = replace(access.caller, subject=name)
            assert one.ask(queue, wait=0).status_code == 204
        served = one.crews._roster._served
        assert [(q, each.caller) for [q], each in served.items()] == [
            ("a", "ann"),
            ("b", "ann"),
            ("e", "x"),
            ("c", "x"),
            ("f", "y"),
        ]


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


@pytest.mark.parametrize("is_slow", [False, True])
def test_who_waits_when_all_is_stopped_is_told_so(is_slow: bool) -> None:
    async def test(house: House) -> None:
        taking = house.take()
        if is_slow:
            # Its crew has not begun.
            await until(lambda: house.crew() is not None)
            house.crews.stop_taking()
        else:
            await until(lambda: (crew := house.crew()) is not None and crew.room > 0)
            await house.crews.stop()
        with pytest.raises(Problem, match="no more work"):
            await asyncio.wait_for(taking, FAILED_AFTER)

    running(test, store=SlowStore() if is_slow else None)


def test_crews_that_nobody_has_waited_in_are_stopped_as_well() -> None:
    async def nothing(house: House) -> None:
        house.crews.stop_taking()

    running(nothing)


def test_a_worker_that_vanishes_is_not_there_any_more() -> None:
    with server(MemoryStore()) as one:
        url = urlsplit(one.url)
        with socket.create_connection((url.hostname, url.port)) as vanishing:
            asked = "GET /v1/work?queues=default HTTP/1.1\r\nHost: localhost\r\n\r\n"
            vanishing.sendall(asked.encode())
            one.wait_for_waiting("default", 1)
        wait_until(lambda: one.waiting() == 0)
        one.once()
        assert one.take_one()["attempt"] == 1


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
        one.crews._roster._scheduler._initialized = False
        assert one.ask("another").status_code == 503
        store.away = False
        assert one.ask("another", wait=0).status_code == 204
