"""The shell of pages in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.dashboard.chromium import check_page
from tests.dashboard.house import as_ann, probing
from tests.http.serving import served

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.dashboard.chromium import Chromium

pytestmark = pytest.mark.slow


@pytest.mark.browser
def test_the_shell_can_be_used_by_everybody(tab: Page) -> None:
    with served(probing(authorize=as_ann)) as (host, port):
        tab.goto(f"http://{host}:{port}/")
        check_page(tab)


def test_what_a_browser_complains_of_fails_a_test(chromium: Chromium) -> None:
    def complain(tab: Page) -> None:
        tab.goto(f"http://{host}:{port}/")
        tab.evaluate("document.body.setAttribute('style', 'color: red')")

    with (
        served(probing()) as (host, port),
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
