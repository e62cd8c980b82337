"""The pictures of pages in the documentation, made of real ones.

With ``GO_SCHEDULER_PICTURES=1`` they are made anew.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from go_scheduler import MemoryStore
from go_scheduler.client import Client
from go_scheduler.dashboard import create_dashboard
from go_scheduler.testing import ManualClock
from tests.dashboard.house import as_ann
from tests.dashboard.shop import open_shop
from tests.http.serving import served

if TYPE_CHECKING:
    from playwright.sync_api import Page

DOCS = Path(__file__).parents[2] / "docs"
PICTURES = sorted(
    {
        picture
        for page in DOCS.glob("*.md")
        for picture in re.findall(r"\(images/(dashboard-.+?)\.png\)", page.read_text())
    }
)
ANEW = os.environ.get("GO_SCHEDULER_PICTURES") == "1"
PATHS = {
    "dashboard-overview": "/",
    "dashboard-overview-dark": "/",
    "dashboard-strip": "/strip?zoom=6-hours",
    "dashboard-definition": "/definitions/{prices}",
    "dashboard-instance": "/instances/{failed}",
    "dashboard-phone": "/",
}


def test_each_picture_is_there_and_shown() -> None:
    assert {*PICTURES} == {*PATHS}
    for each in PICTURES:
        assert 0 < (DOCS / f"images/{each}.png").stat().st_size < 200_000


@pytest.mark.slow
@pytest.mark.browser
def test_each_picture_can_be_made(tab: Page, tmp_path: Path) -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    store.initialize()
    shop = open_shop(store, clock)
    app = create_dashboard(Client(store), authorize=as_ann, clock=clock)
    with served(app) as (host, port):
        for name, path in PATHS.items():
            phone, dark = name.endswith("phone"), name.endswith("dark")
            tab.emulate_media(color_scheme="dark" if dark else "light")
            tab.set_viewport_size({"width": 360 if phone else 1100, "height": 700})
            made = path.format(prices=shop.prices.id, failed=shop.failed.id)
            tab.goto(f"http://{host}:{port}{made}")
            to = DOCS / "images" if ANEW else tmp_path
            tab.screenshot(path=to / f"{name}.png")
        tab.goto("about:blank")
