"""Pages in a real browser: everybody can use them, and they do what they say."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from tests.dashboard.house import HOSTILE, SECRET, as_ann, probing
from tests.dashboard.seeds import Seeds, sow
from tests.dashboard.shop import open_shop
from tests.dashboard.test_live import Leaves
from tests.dashboard.test_signing_in import NEW, at_issuer, with_keys
from tests.http.access.provider import Provider
from tests.http.serving import served
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page
    from starlette.applications import Starlette
    from starlette.types import Receive, Scope, Send

    from tests.dashboard.chromium import Chromium

pytestmark = [pytest.mark.slow, pytest.mark.browser]
DOCS = Path(__file__).parents[2] / "docs"
PATHS = {
    "dashboard-overview": "/",
    "dashboard-overview-dark": "/",
    "dashboard-strip": "/strip?zoom=6-hours",
    "dashboard-definition": "/definitions/{prices}",
    "dashboard-instance": "/instances/{failed}",
    "dashboard-phone": "/",
}


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


@contextmanager
def shown(**options: Any) -> Iterator[str]:
    """Serve a dashboard; its URL."""
    with served(probing(**options)) as (_, port):
        # Not by its address, where the issuer is: to browsers that is another site.
        yield f"http://localhost:{port}"


def test_the_shell_can_be_used_by_everybody(tab: Page) -> None:
    with shown(authorize=as_ann) as url:
        tab.goto(f"{url}/probe/buttons")
        check_page(tab)
        tab.goto(url)
        tab.keyboard.press("Tab")
        tab.locator("a:focus", has_text="Skip to content").wait_for()
        tab.keyboard.press("Enter")
        tab.locator("#content:focus").wait_for()
        # Else the server would wait for the stream of events to end.
        tab.goto("about:blank")


def test_people_sign_in_by_a_key_and_out(tab: Page) -> None:
    with shown(access=with_keys()) as url:
        tab.goto(f"{url}/probe/buttons")
        check_page(tab)
        tab.get_by_label("API key").fill(NEW.key)
        tab.get_by_role("button", name="Sign in").click()
        tab.wait_for_url(f"{url}/probe/buttons")
        assert tab.evaluate("document.cookie") == ""
        [cookie] = tab.context.cookies()
        check_page(tab)
        tab.get_by_role("button", name="Sign out").click()
        tab.wait_for_url(f"{url}/login")
        assert tab.context.cookies()[0]["value"] != cookie["value"]


def test_people_sign_in_at_an_issuer_on_another_site(tab: Page, oidc: Provider) -> None:
    oidc.claims = {"scope": "jobs:read runs:read", "queues": "*"}
    with shown(access=at_issuer(oidc)) as url:
        tab.goto(f"{url}/probe?a=1")
        tab.get_by_role("link", name="Sign in with your account").click()
        tab.wait_for_url(f"{url}/probe?a=1")
        tab.get_by_text(f"{SECRET}, ann, False").wait_for()
        # Who comes back from elsewhere is known, though no strict cookie is sent.
        tab.goto(f"{oidc.issuer}/device?user_code=a")
        tab.evaluate(f"window.location = '{url}/probe?a=2'")
        tab.wait_for_url(f"{url}/probe?a=2")
        tab.get_by_text(f"{SECRET}, ann, False").wait_for()


def test_a_button_is_opened_before_it_changes_anything(tab: Page) -> None:
    with shown(authorize=as_ann) as url:
        tab.goto(f"{url}/probe/buttons")
        tab.get_by_role("button", name="Press by htmx").click()
        tab.get_by_text("pressed: htmx").wait_for()
        button = tab.get_by_role("button", name="Press", exact=True)
        assert not button.is_visible()
        tab.locator("summary", has_text="Press").click()
        button.click()
        tab.wait_for_url(f"{url}/probe/press")
        assert tab.locator("body").inner_text() == "pressed: " + "".join(HOSTILE[:2])


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


def test_each_picture_can_be_made(
    tab: Page, root: str, store: MemoryStore, clock: ManualClock, tmp_path: Path
) -> None:
    """With ``GO_SCHEDULER_PICTURES=1`` those in the documentation are made anew."""
    shop = open_shop(store, clock)
    is_anew = os.environ.get("GO_SCHEDULER_PICTURES") == "1"
    for name, path in PATHS.items():
        phone, dark = name.endswith("phone"), name.endswith("dark")
        tab.emulate_media(color_scheme="dark" if dark else "light")
        tab.set_viewport_size({"width": 360 if phone else 1100, "height": 700})
        made = path.format(prices=shop.prices.id, failed=shop.failed.id)
        tab.goto(root + made)
        to = DOCS / "images" if is_anew else tmp_path
        tab.screenshot(path=to / f"{name}.png")
