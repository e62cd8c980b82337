"""The shell of pages in a real browser: what it shows, and what nobody makes it do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from tests.dashboard.chromium import Chromium, check_page
from tests.dashboard.house import HOSTILE, SECRET, as_ann, probing
from tests.dashboard.test_signing_in import NEW, at_issuer, with_keys
from tests.http.access.provider import Provider, provider
from tests.http.serving import served

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served_provider() -> Iterator[Provider]:
    with provider() as served:
        yield served


@contextmanager
def shown(**options: Any) -> Iterator[str]:
    """Serve a dashboard; its URL."""
    with served(probing(**options)) as (_, port):
        # Not by its address, where the issuer is: to browsers that is another site.
        yield f"http://localhost:{port}"


def sign_in_by_key(tab: Page) -> None:
    tab.get_by_label("API key").fill(NEW.key)
    tab.get_by_role("button", name="Sign in").click()


@pytest.mark.browser
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


@pytest.mark.browser
def test_people_sign_in_by_a_key_and_out(tab: Page) -> None:
    with shown(access=with_keys()) as url:
        tab.goto(f"{url}/probe/buttons")
        check_page(tab)
        sign_in_by_key(tab)
        tab.wait_for_url(f"{url}/probe/buttons")
        assert tab.evaluate("document.cookie") == ""
        [cookie] = tab.context.cookies()
        assert cookie["httpOnly"]
        assert cookie["sameSite"] == "Strict"
        check_page(tab)
        tab.get_by_role("button", name="Sign out").click()
        tab.wait_for_url(f"{url}/login")
        assert tab.context.cookies()[0]["value"] != cookie["value"]


@pytest.mark.browser
def test_people_sign_in_at_an_issuer_on_another_site(
    tab: Page, served_provider: Provider
) -> None:
    served_provider.forget()
    served_provider.claims = {"scope": "jobs:read runs:read", "queues": "*"}
    with shown(access=at_issuer(served_provider)) as url:
        tab.goto(f"{url}/probe?a=1")
        tab.get_by_role("link", name="Sign in with your account").click()
        tab.wait_for_url(f"{url}/probe?a=1")
        tab.get_by_text(f"{SECRET}, ann, False").wait_for()
        # Who comes back from elsewhere is known, though no strict cookie is sent.
        tab.goto(f"{served_provider.issuer}/device?user_code=a")
        tab.evaluate(f"window.location = '{url}/probe?a=2'")
        tab.wait_for_url(f"{url}/probe?a=2")
        tab.get_by_text(f"{SECRET}, ann, False").wait_for()


@pytest.mark.browser
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


@pytest.mark.browser
def test_what_others_have_written_does_nothing(tab: Page) -> None:
    asked: list[object] = []
    tab.on("dialog", lambda dialog: asked.append(dialog))
    with shown(authorize=as_ann) as url:
        for text in HOSTILE:
            tab.goto(f"{url}/probe/hostile?{urlencode({'text': text})}")
            assert tab.locator("h1").inner_text() == text
            assert tab.evaluate("document.documentElement.scrollWidth") <= 1280
    assert asked == []


def test_what_a_browser_complains_of_fails_a_test(chromium: Chromium) -> None:
    def complain(tab: Page) -> None:
        tab.goto(url)
        tab.evaluate("document.body.setAttribute('style', 'color: red')")

    with (
        shown() as url,
        pytest.raises(AssertionError, match="style-src"),
        chromium.tab() as tab,
    ):
        chromium.do(complain, tab)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("<h1>A</h1><img src='data:,'>", "image-alt"),
        ("<h1>A</h1><p style='width: 400px'>wide</p>", "in a window of 360"),
    ],
)
def test_a_page_that_not_everybody_can_use_fails_a_test(
    chromium: Chromium, content: str, complaint: str
) -> None:
    html = f"<!doctype html><html lang=en><title>A</title><main>{content}</main>"
    with chromium.tab() as tab:
        chromium.do(tab.set_content, html)
        with pytest.raises(AssertionError, match=complaint):
            chromium.do(check_page, tab)
