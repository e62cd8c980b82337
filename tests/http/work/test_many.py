"""However many wait, they cost the store what one node does; and several servers."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event

from go_scheduler.http.work.crews import Crews
from go_scheduler.models import State, TaskDefinition
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.sql.store import SQLStore
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.on_demand import OnDemandTrigger
from tests import servers
from tests.conftest import SHARED, SQL
from tests.http.work.house import Server, server
from tests.http.work.test_leaving import CALLER
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

TEN_MINUTES = timedelta(minutes=10)
WORKERS = 1_000


@contextmanager
def executed(store: SQLStore) -> Iterator[list[str]]:
    """What the store executes meanwhile."""
    found: list[str] = []

    def note(connection: object, cursor: object, statement: str, *_: object) -> None:
        found.append(statement)

    engines = set(store._database._engines.values())
    for each in engines:
        event.listen(each, "before_cursor_execute", note)
    yield found
    for each in engines:
        event.remove(each, "before_cursor_execute", note)


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
        crews = Crews(Scheduler(None, store, clock=clock))
        gone = asyncio.get_running_loop().create_future()

        def take() -> Any:
            return crews.take(
                ["default"],
                most=1,
                wait=timedelta(minutes=1),
                worker=None,
                caller=CALLER,
                gone=gone,
            )

        waiting = [asyncio.create_task(take()) for _ in range(WORKERS)]
        while (crew := _crew(crews)) is None or crew.room < WORKERS:
            await asyncio.sleep(0.001)
        await asyncio.to_thread(clock.advance, timedelta(minutes=1))
        with executed(store) as by_a_crew:
            await asyncio.to_thread(clock.advance, TEN_MINUTES)
        gone.set_result(None)
        assert await asyncio.gather(*waiting) == [[]] * WORKERS
        await crews.stop()
        return len(by_a_crew)

    # The one may look once more than the other in these minutes.
    assert asyncio.run(wait_and_leave()) <= len(by_a_node) * 1.01


def _crew(crews: Crews) -> Any:
    served = crews._roster._served.get(("default",))
    return None if served is None else served._crew


def test_what_is_due_at_one_instant_is_handed_out_then_and_not_early(
    store: Store, clock: ManualClock
) -> None:
    """By the clock of the store, which is moved by hand."""
    main = Scheduler(None, store, clock=clock)
    at = clock.now() + timedelta(seconds=90)
    for _ in range(20):
        main.schedule(TaskDefinition(trigger=ExecuteOnceTrigger(at)))

    async def all_waiting() -> None:
        crews = Crews(main)
        gone = asyncio.get_running_loop().create_future()
        waiting = [
            asyncio.create_task(
                crews.take(
                    ["default"],
                    most=1,
                    wait=timedelta(minutes=1),
                    worker=None,
                    caller=CALLER,
                    gone=gone,
                )
            )
            for _ in range(20)
        ]
        while (crew := _crew(crews)) is None or crew.room < 20:
            await asyncio.sleep(0.001)
        await asyncio.to_thread(clock.advance, timedelta(seconds=89.999))
        assert not any(each.done() for each in waiting)
        await asyncio.to_thread(clock.advance, timedelta(seconds=0.001))
        found = await asyncio.wait_for(asyncio.gather(*waiting), FAILED_AFTER)
        assert len({work.instance.id for [work] in found}) == 20
        await crews.stop()

    asyncio.run(all_waiting())


@contextmanager
def two_servers(url: str) -> Iterator[tuple[Server, Server]]:
    with ExitStack() as stack:
        stores = [
            stack.enter_context(servers.opened(url, has_tables=True)) for _ in range(2)
        ]
        one, other = (stack.enter_context(server(each)) for each in stores)
        yield one, other


@pytest.mark.parametrize("engine", SHARED)
def test_two_servers_hand_out_each_instance_once(store_url: str) -> None:
    with two_servers(store_url) as (one, other), ThreadPoolExecutor(8) as workers:
        task = one.scheduler.schedule(TaskDefinition(trigger=OnDemandTrigger()))
        made = {str(one.scheduler.run_now(task.id).id) for _ in range(60)}

        done: list[str] = []

        def work(at: Server) -> None:
            while len(done) < len(made):
                answer = at.ask(wait=1, max=3)
                for each in answer.json()["work"] if answer.content else ():
                    assert at.tell(each, "complete").status_code == 200
                    done.append(each["instance_id"])

        found = [workers.submit(work, each) for each in (one, other) for _ in range(4)]
        for each in found:
            each.result(4 * FAILED_AFTER)
        assert sorted(done) == sorted(made)


@pytest.mark.parametrize("engine", SHARED)
def test_what_one_server_handed_out_may_be_ended_at_another(store_url: str) -> None:
    with two_servers(store_url) as (one, other):
        waiting = other.ask_meanwhile()
        one.once()
        [work] = waiting.result(FAILED_AFTER).json()["work"]
        assert one.tell(work, "heartbeat").json() == {"answer": "go_on"}
        assert one.tell(work, "complete").status_code == 200
        assert other.instance(work).state is State.COMPLETED
