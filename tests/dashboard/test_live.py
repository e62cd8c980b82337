"""Pages are told of changes, by streams that are few, bounded and come to their end."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from go_scheduler import MemoryStore, StoreUnavailableError, TaskDefinition
from go_scheduler.client import Client
from go_scheduler.dashboard import create_dashboard
from go_scheduler.dashboard.live import CHANGED, Live, Restriction, of_instances
from go_scheduler.http import create_app
from go_scheduler.http.problems import Problem
from go_scheduler.stores.messages import Announcement
from go_scheduler.testing.builders import MINUTE, OTHER_NODE, definition, pending
from go_scheduler.triggers.simple import IntervalTrigger
from tests.dashboard.house import ANN, as_ann
from tests.http.serving import Calling, called, in_a_loop, served
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from go_scheduler.models import Counted, State

QUICK = 0.001


class Leaves(MemoryStore):
    """A store that can be away for a while."""

    away = False
    looks = 0

    def count(self, *filters: Any, **most: Any) -> Sequence[Mapping[State, Counted]]:
        self.looks += 1
        if self.away:
            raise StoreUnavailableError("it is away")
        return super().count(*filters, **most)

    async def look(self, times: int) -> None:
        """Wait until so many more looks have begun."""
        before = self.looks
        async with asyncio.timeout(FAILED_AFTER):
            while self.looks < before + times:
                await asyncio.sleep(QUICK)


async def changed(stream: AsyncIterator[str], change: Callable[[], object]) -> str:
    """The first event that is told while something is changed again and again."""

    async def first() -> str:
        while not (event := await anext(stream)).startswith("event: changed"):
            pass
        return event

    async with asyncio.timeout(FAILED_AFTER):
        waiting = asyncio.create_task(first())
        while not waiting.done():
            change()
            await asyncio.wait([waiting], timeout=QUICK)
        return await waiting


@in_a_loop
async def test_a_node_that_comes_is_told() -> None:
    store = MemoryStore()
    live = Live(Client(store), every=QUICK)
    flips = cycle((True, False))

    def flip() -> None:
        told = Announcement(node=OTHER_NODE, stopping=next(flips))
        store.note_contact(told, unbroken=MINUTE)

    async with aclosing(live.stream("nodes")) as stream:
        await changed(stream, flip)


@in_a_loop
async def test_who_is_restricted_is_told_of_what_is_theirs_alone() -> None:
    store = MemoryStore()
    client = Client(store)
    caller = replace(ANN, queues={"mine"}, owners={"shop"})
    mine, all = Restriction.of(caller), Restriction.of(ANN)
    before = {each: of_instances(client, each) for each in (mine, all)}
    pending(store, definition(queue="other"))
    assert of_instances(client, mine) == before[mine]
    assert of_instances(client, all) != before[all]
    theirs = TaskDefinition(
        id=uuid4(), trigger=IntervalTrigger(MINUTE), queue="mine", named=True
    )
    client.declare([theirs], owner="shop")
    client.run_now(theirs.id)
    assert of_instances(client, mine) != before[mine]
    live = Live(client, every=QUICK)
    async with (
        aclosing(live.stream("instances", mine)) as one,
        aclosing(live.stream("instances", mine._replace(owners=None))) as other,
    ):
        await anext(one)
        await anext(other)
        assert live._pause() == 2 * QUICK
        await changed(one, lambda: client.run_now(theirs.id))
    assert live._pause() == QUICK


@in_a_loop
async def test_viewers_share_a_reader_and_are_bounded() -> None:
    live = Live(Client(MemoryStore()), most=2)
    first, second = live.stream("instances"), live.stream("instances")
    for each in (first, second):
        assert (await anext(each)).startswith("retry:")
    assert live.viewers == 2
    assert len(live._readers) == 1
    with pytest.raises(Problem, match="reload the page") as caught:
        live.stream("nodes")
    assert caught.value.status == 503
    await first.aclose()
    assert len(live._readers) == 1
    await second.aclose()
    assert live._readers == {}


@in_a_loop
async def test_all_viewers_are_told_what_changed_while_the_store_was_away() -> None:
    store = Leaves()
    live = Live(Client(store), every=QUICK)
    async with AsyncExitStack() as stack:
        streams = [live.stream("instances") for _ in range(50)]
        for each in streams:
            await stack.enter_async_context(aclosing(each))
            await anext(each)
        assert (live.viewers, len(live._readers)) == (50, 1)
        told = [asyncio.create_task(anext(each)) for each in streams]
        await store.look(2)
        store.away = True
        # One that began before may still read, and has ended once another begins.
        await store.look(1)
        pending(store)
        await store.look(2)
        assert not any(each.done() for each in told)
        store.away = False
        async with asyncio.timeout(FAILED_AFTER):
            assert {await each for each in told} == {CHANGED.format(1)}


@pytest.mark.slow
@in_a_loop
async def test_many_read_figures_and_pages_at_once_and_while_the_store_is_away() -> (
    None
):
    store = Leaves()
    pages = create_dashboard(Client(store), authorize=as_ann)
    async with called(create_app(Client(store))) as api, called(pages) as browser:
        for store.away, status in ((False, 200), (True, 503), (False, 200)):
            calls = [api.get("/metrics") for _ in range(25)]
            calls += [browser.get("/") for _ in range(25)]
            answers = await asyncio.gather(*calls)
            assert {each.status_code for each in answers} == {status}


@in_a_loop
async def test_a_stream_ends_after_a_while_or_when_the_server_stops() -> None:
    short = Live(Client(MemoryStore()), lasts=QUICK)
    live = Live(Client(MemoryStore()), lasts=2 * FAILED_AFTER)
    async with asyncio.timeout(FAILED_AFTER):
        events = [each async for each in short.stream("nodes")]
        assert [each.split(":")[0] for each in events] == ["retry", ""]
        one, other = live.stream("nodes"), live.stream("nodes")
        for each in (one, other):
            await anext(each)
        waiting = asyncio.create_task(anext(one))
        await asyncio.sleep(0)
        live.stop()
        assert [await waiting, await anext(other)] == [": still here\n\n"] * 2
    with pytest.raises(Problem):
        live.stream("nodes")


def test_what_nothing_is_told_of_is_not_found() -> None:
    with Calling(create_dashboard(Client(MemoryStore()))) as browser:
        assert browser.get("/live/else").status_code == 404


@pytest.mark.slow
def test_a_stream_is_sent_as_it_goes() -> None:
    import httpx

    app = create_dashboard(Client(MemoryStore()), authorize=as_ann)
    with (
        served(app) as (host, port),
        httpx.stream(
            "GET", f"http://{host}:{port}/live/nodes", timeout=FAILED_AFTER
        ) as answer,
    ):
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        assert answer.headers["Cache-Control"] == "no-store"
        assert next(answer.iter_text()).startswith("retry:")
