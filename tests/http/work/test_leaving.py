"""Workers, servers and stores that go away, beside ``behaviour/test_http_work.py``."""

from __future__ import annotations

import asyncio
import socket
import threading
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from go_scheduler.errors import StoreUnavailableError
from go_scheduler.http.access.caller import SCOPES, Caller
from go_scheduler.http.problems import Problem
from go_scheduler.http.work.crews import Crew, Crews
from go_scheduler.models import TaskDefinition
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
    """Crews without a server, on the event loop of the test."""

    def __init__(self, store: Store) -> None:
        self.scheduler = Scheduler(None, store)
        self.crews = Crews(self.scheduler)

    def take(self) -> asyncio.Task[Sequence[Work]]:
        gone = asyncio.get_running_loop().create_future()
        taking = self.crews.take(
            ["default"], most=1, wait=MINUTE, worker=None, caller=CALLER, gone=gone
        )
        return asyncio.create_task(taking)

    def crew(self) -> Crew | None:
        served = self.crews._roster._served.get(("default",))
        return None if served is None else served._crew


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(FAILED_AFTER):
        while not done():
            await asyncio.sleep(STEP)


def running(call: Callable[[House], Any], store: Store | None = None) -> None:
    """Run a test with crews, and stop them."""

    async def run() -> None:
        house = House(store or MemoryStore())
        try:
            await call(house)
        finally:
            await house.crews.stop()

    asyncio.run(run())


def test_what_the_last_worker_left_is_handed_to_the_next() -> None:
    async def test(house: House) -> None:
        at = ExecuteOnceTrigger(house.scheduler._ready().now())
        house.scheduler.schedule(TaskDefinition(trigger=at))
        [work] = await house.take()
        house.crews._give_back_soon(work.instance)
        [again] = await house.take()
        assert (again.instance.id, again.instance.attempt) == (work.instance.id, 2)

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

    running(test, SlowStore() if is_slow else None)


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
