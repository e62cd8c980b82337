"""Callers that are restricted: their pages are full, and tell nothing of others."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from starlette.responses import Response

from go_scheduler import MemoryStore
from go_scheduler.client import Client
from go_scheduler.client.views import Page
from go_scheduler.dashboard import create_dashboard
from go_scheduler.dashboard.pages import full_page
from go_scheduler.dashboard.request import page
from go_scheduler.models import Outcome
from go_scheduler.stores.messages import Addition
from go_scheduler.stores.rules import Declaration
from go_scheduler.testing.builders import (
    HOUR,
    SECOND,
    claim,
    definition,
    ended,
    finish,
    pending,
    put,
)
from go_scheduler.testing.clock import START
from tests.dashboard.house import ANN
from tests.dashboard.parsed import Parsed
from tests.dashboard.seeds import sow
from tests.http.serving import Calling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.dashboard.request import PageRequest
    from go_scheduler.http.access.caller import Caller
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock


@pytest.fixture
def memory(clock: ManualClock) -> Store:
    return MemoryStore(clock)


MINE = replace(ANN, queues=frozenset({"mine"}))


@contextmanager
def browsing(caller: Caller, store: Store, clock: ManualClock) -> Iterator[Calling]:
    """What asks for pages as a caller."""
    app = create_dashboard(Client(store), authorize=lambda _: caller, clock=clock)
    with Calling(app) as browser:
        yield browser


@pytest.mark.slow
def test_restricted_callers_see_what_is_theirs_alone(
    memory: Store, clock: ManualClock
) -> None:
    seeds = sow(memory, clock)
    mine = put(memory, definition(START, name="mine", queue="mine", key=1))
    owned = definition(START + HOUR, name="owned", key=2)
    memory.declare_definitions(Declaration(owner="me", definitions=[owned]))
    for made in (mine, owned):
        memory.add_instances(made.id, [Addition(id=uuid4(), key="order 7")])
    moved = Addition(id=uuid4(), overrides={"queue": "moved"})
    memory.add_instances(mine.id, [moved])
    reading = replace(ANN, scopes=frozenset({"jobs:read", "runs:read"}))
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"queues": frozenset({"mine"})}, "mine", "owned"),
        ({"owners": frozenset({"me"})}, "owned", "mine"),
    ]
    for limits, own, other in cases:
        paths = ["/", "/strip", "/definitions", "/search?q=order 7"]
        paths += (
            f"/instances?state={each}" for each in ("pending", "failed", "running")
        )
        with browsing(replace(reading, **limits), memory, clock) as browser:
            text = " ".join(Parsed(browser.get(each)).text for each in paths)
            for path in (f"/definitions/{mine.id}", f"/strip?of={mine.id}"):
                assert str(moved.id) not in browser.get(path).text
            for path in (
                f"/definitions/{seeds.report.id}",
                f"/instances/{seeds.failed.id}",
                f"/strip?of={seeds.report.id}",
            ):
                assert browser.get(path).status_code == 404
            assert browser.get(f"/search?q={seeds.failed.id}").status_code == 200
        assert own in text
        failed = str(seeds.failed.id)[:8]
        for foreign in ("report", "send", "idle", failed, "Nodes", other):
            assert foreign not in text


@pytest.mark.slow
def test_pages_of_a_restricted_caller_are_full_and_tell_nothing_of_others(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("go_scheduler.client.views.ENDED_LOOKED_AT", 40)
    monkeypatch.setattr("go_scheduler.dashboard.pages.LISTED", 8)
    mine = []
    for number in range(60):
        clock.advance(SECOND)
        queue = "mine" if number % 3 == 0 else "other"
        pending(store, definition(clock.now(), queue=queue))
        [started] = claim(store, queues=[queue], lead=0 * SECOND)
        finish(store, started, Outcome.FAILED)
        mine += [started] if queue == "mine" else []
    path, pages = "/instances?state=failed", []
    with browsing(MINE, store, clock) as browser:
        while path:
            shown_page = Parsed(browser.get(path))
            pages.append([row[0] for row in shown_page.rows("are failed")])
            path = shown_page.links.get("Earlier", "")
            assert not path or "after=gAAAA" in path
        wrong = browser.get("/instances?state=failed&after=1")
    assert wrong.status_code == 422
    assert [len(each) for each in pages] == [8, 8, 4]
    shown = [each for page in pages for each in page]
    assert shown == [str(each.id)[:8] for each in reversed(mine)]


def test_where_the_end_of_what_was_looked_at_is_anothers_a_list_goes_on(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("go_scheduler.client.views.ENDED_LOOKED_AT", 2)
    pending(store, definition(queue="mine"))
    [mine] = claim(store, queues=["mine"], lead=0 * SECOND)
    finish(store, mine, Outcome.FAILED)
    for _ in range(5):
        clock.advance(SECOND)
        ended(store, outcome=Outcome.FAILED)
    with browsing(MINE, store, clock) as browser:
        found = Parsed(browser.get("/instances?state=failed"))
    assert [row[0] for row in found.rows("are failed")] == [str(mine.id)[:8]]


def test_where_much_of_others_was_looked_at_a_list_may_be_gone_on_with(
    memory: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("go_scheduler.dashboard.pages._ROUNDS", 1)

    async def nothing(after: str | None, limit: int) -> Page[int]:
        assert after in (None, "what others have")
        return Page([] if after is None else [7], next="what others have")

    told = []

    async def answer(visit: PageRequest) -> Response:
        found = await full_page(visit, nothing)
        told.append(list(found))
        return Response(found.next)

    app = create_dashboard(Client(memory), authorize=lambda _: MINE, clock=clock)
    app.router.routes.append(page("/probe", answer))
    with Calling(app) as browser:
        after = browser.get("/probe").text
        assert "others" not in after
        browser.get("/probe", params={"after": after})
    assert told == [[], [7]]


def test_nodes_are_not_shown_to_restricted_callers(
    memory: Store, clock: ManualClock
) -> None:
    sow(memory, clock)
    for caller in (
        replace(ANN, queues=frozenset({"default"})),
        replace(ANN, owners=frozenset({"shop"})),
        replace(ANN, scopes=frozenset({"jobs:read", "runs:read"})),
    ):
        with browsing(caller, memory, clock) as browser:
            for path in ("/nodes", "/live/nodes"):
                assert browser.get(path).status_code == 403
            assert "/nodes" not in browser.get("/").text
