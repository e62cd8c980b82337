"""A thousand waiting workers cost the store as much as one node."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import event

from go_scheduler.http.work.crews import Crews
from go_scheduler.models import TaskDefinition
from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.sql.store import SQLStore
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from tests.conftest import SQL
from tests.http.work.test_leaving import CALLER
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from go_scheduler.http.work.crews import Work
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

TEN_MINUTES = timedelta(minutes=10)
WORKERS = 1_000


@contextmanager
def executed(store: SQLStore) -> Iterator[list[str]]:
    """The statements that the store executes within the context."""
    found: list[str] = []

    def note(connection: object, cursor: object, statement: str, *_: object) -> None:
        found.append(statement)

    engines = set(store._database._engines.values())
    for each in engines:
        event.listen(each, "before_cursor_execute", note)
    yield found
    for each in engines:
        event.remove(each, "before_cursor_execute", note)


async def all_waiting(
    crews: Crews, count: int, gone: asyncio.Future[None]
) -> list[asyncio.Task[Sequence[Work]]]:
    """So many workers, once they wait."""
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
        for _ in range(count)
    ]
    of_crew = crews._roster._served
    while not of_crew or of_crew["default",]._crew.room < count:
        await asyncio.sleep(0.001)
    return waiting


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
        waiting = await all_waiting(crews, WORKERS, gone)
        await asyncio.to_thread(clock.advance, timedelta(minutes=1))
        with executed(store) as by_a_crew:
            await asyncio.to_thread(clock.advance, TEN_MINUTES)
        gone.set_result(None)
        assert await asyncio.gather(*waiting) == [[]] * WORKERS
        await crews.stop()
        return len(by_a_crew)

    # One of them may poll once more than the other within these minutes.
    assert asyncio.run(wait_and_leave()) <= len(by_a_node) * 1.01


def test_what_is_due_at_one_instant_is_handed_out_then_and_not_early(
    store: Store, clock: ManualClock
) -> None:
    """By the manual clock of the store."""
    main = Scheduler(None, store, clock=clock)
    at = clock.now() + timedelta(seconds=90)
    for _ in range(20):
        main.schedule(TaskDefinition(trigger=ExecuteOnceTrigger(at)))

    async def wait() -> None:
        crews = Crews(main)
        gone = asyncio.get_running_loop().create_future()
        waiting = await all_waiting(crews, 20, gone)
        await asyncio.to_thread(clock.advance, timedelta(seconds=89.999))
        assert not any(each.done() for each in waiting)
        await asyncio.to_thread(clock.advance, timedelta(seconds=0.001))
        found = await asyncio.wait_for(asyncio.gather(*waiting), FAILED_AFTER)
        assert len({work.instance.id for [work] in found}) == 20
        await crews.stop()

    asyncio.run(wait())
