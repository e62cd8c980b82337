"""Pages in a real browser: everybody can use them, they are live, and keys suffice."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import TimeoutError
from starlette.responses import Response

from go_scheduler import MemoryStore
from go_scheduler.client import Client
from go_scheduler.dashboard import create_dashboard
from go_scheduler.models import Outcome
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import definition, ended
from go_scheduler.testing.clock import START
from tests.dashboard.chromium import check_page
from tests.dashboard.house import as_ann
from tests.dashboard.seeds import Seeds, sow
from tests.dashboard.test_live import Leaves
from tests.http.serving import served
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page
    from starlette.applications import Starlette
    from starlette.types import Receive, Scope, Send

    from tests.dashboard.chromium import Chromium

pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
def seeds(store: MemoryStore, clock: ManualClock) -> Seeds:
    return sow(store, clock)


@pytest.fixture
def root(
    chromium: Chromium, tab: Page, store: MemoryStore, clock: ManualClock
) -> Iterator[str]:
    app = create_dashboard(Client(store), authorize=as_ann, clock=clock)
    app.state.context.live._every = 0.1
    with served(app) as (host, port):
        yield f"http://{host}:{port}"
        # The server stops when nobody listens any more.
        chromium.do(tab.goto, "about:blank")


def test_each_page_can_be_used_by_everybody(tab: Page, root: str, seeds: Seeds) -> None:
    for path in (
        "/",
        "/strip?zoom=6-hours",
        "/definitions",
        f"/definitions/{seeds.report.id}",
        "/instances?state=failed",
        f"/instances/{seeds.failed.id}",
        "/search?q=send",
        "/nodes",
    ):
        tab.goto(root + path)
        for each in tab.locator("summary").all():
            each.click()
        check_page(tab)


def test_an_overview_shows_what_fails_without_being_loaded_anew(
    tab: Page, root: str, store: MemoryStore
) -> None:
    tab.goto(root)
    tab.evaluate("window.same = true")
    shown = tab.get_by_role("link", name="broken").first
    for _ in range(FAILED_AFTER):
        # What was there at the first look is no change.
        ended(store, definition(START, name="broken"), Outcome.FAILED)
        with suppress(TimeoutError):
            shown.wait_for(timeout=1000)
            break
    assert shown.is_visible()
    assert tab.evaluate("window.same")


@pytest.mark.browser(bears="Failed to load resource|Error Code 503|htmx:")
def test_a_page_goes_on_by_itself_once_the_server_and_the_store_are_back(
    tab: Page, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("go_scheduler.dashboard.live._BEGIN", "retry: 100\n\n")
    store = Leaves(clock)
    asked = threading.Event()

    def dashboard() -> Starlette:
        app = create_dashboard(Client(store), authorize=as_ann, clock=clock)
        # Streams end soon, for the server to stop.
        app.state.context.live._every = app.state.context.live._lasts = 0.1
        return app

    async def away(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await Response(status_code=503)(scope, receive, send)
            asked.set()

    def shows(name: str) -> None:
        ended(store, definition(START, name=name), Outcome.FAILED)
        tab.get_by_role("link", name=name).first.wait_for(timeout=1000 * FAILED_AFTER)

    with served(dashboard()) as (host, port):
        tab.goto(f"http://{host}:{port}")
        tab.evaluate("window.same = true")
        shows("before")
        store.away = True
        looks = store.looks + 2
        for _ in range(100 * FAILED_AFTER):
            tab.wait_for_timeout(10)
            if store.looks >= looks:
                break
        store.away = False
        shows("store-was-away")
    with served(away, port=port):
        # As a proxy answers whose server is away: for a stream that is the end.
        assert asked.wait(FAILED_AFTER)
    with served(dashboard(), port=port):
        shows("server-was-away")
        assert tab.evaluate("window.same")
        tab.goto("about:blank")


def test_keys_suffice_to_pause_and_to_move_along_a_strip(
    tab: Page, root: str, store: MemoryStore, seeds: Seeds
) -> None:
    tab.goto(f"{root}/definitions/{seeds.report.id}")
    tab.locator("summary", has_text="Pause").focus()
    tab.keyboard.press("Enter")
    tab.keyboard.press("Tab")
    tab.keyboard.type("by keys")
    tab.keyboard.press("Enter")
    tab.get_by_text("It has been paused.").wait_for()
    assert store.get_definition(seeds.report.id).note == "by keys"
    tab.get_by_role("link", name="Wider").focus()
    tab.keyboard.press("Enter")
    tab.wait_for_url("**zoom=6-hours**")
