"""A real browser: one for all tests, on a thread of its own; what it complains of."""

from __future__ import annotations

import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import (
        Browser,
        BrowserContext,
        ConsoleMessage,
        Page,
        Playwright,
    )

REQUIRED = "GO_SCHEDULER_REQUIRE_CHROMIUM"
PATIENCE = 300_000
"""For how many milliseconds a page waits that fails."""

_LOOKS: list[tuple[Literal["light", "dark"], int, int]] = [
    ("light", 1280, 800),
    ("dark", 360, 740),
]

_AXE = Path(__file__).with_name("axe.min.js")
_FOUND = """async () => (await axe.run()).violations.flatMap(
    each => each.nodes.map(node => `${each.id}: ${node.html}: ${node.failureSummary}`)
)"""
_SEES_VIOLATIONS = """document.addEventListener("securitypolicyviolation", event =>
    console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`)
)"""


def missing_chromium() -> str | None:
    """Why there is no browser; None: there is one."""
    if shutil.which("chromium"):
        return None
    return "no Chromium: install Debian's package chromium"


class Chromium:
    """A browser; whatever is done with it is done on its thread.

    Playwright keeps an event loop running on the thread that it is used on, where no
    test could run another.
    """

    def __init__(self) -> None:
        # Imported here: it takes long, and few tests need it.
        from playwright.sync_api import sync_playwright

        self._thread = ThreadPoolExecutor(1, "chromium")
        self._playwright: Playwright = self.do(sync_playwright().start)
        self._browser: Browser = self.do(self._launch)

    def do(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Do something on its thread."""
        return self._thread.submit(call, *args, **kwargs).result()

    def stop(self) -> None:
        """End it."""
        self.do(self._browser.close)
        self.do(self._playwright.stop)
        self._thread.shutdown()

    def _launch(self) -> Browser:
        # Within a container it cannot make another.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        return self._playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=arguments, timeout=PATIENCE
        )

    @contextmanager
    def tab(self, bears: str = "(?!)") -> Iterator[Page]:
        """A page in a window of its own, about which nothing may be complained.

        Args:
            bears: But for complaints in which this pattern is found.
        """
        complaints: list[str] = []
        window: BrowserContext = self.do(self._window)
        try:
            yield self.do(self._page, window, complaints)
        finally:
            self.do(self._close, window)
        left = [each for each in complaints if not re.search(bears, each)]
        assert not left, left

    def _window(self) -> BrowserContext:
        window = self._browser.new_context()
        window.set_default_timeout(PATIENCE)
        window.add_init_script(_SEES_VIOLATIONS)
        return window

    def _close(self, window: BrowserContext) -> None:
        for page in window.pages:
            # What is still to be complained of is told before this returns.
            page.evaluate("new Promise(done => setTimeout(done))")
        window.close()

    def _page(self, window: BrowserContext, complaints: list[str]) -> Page:
        def note(message: ConsoleMessage) -> None:
            # Asked for by itself where no page says that there is another.
            is_icon = message.location["url"].endswith("/favicon.ico")
            if message.type in ("error", "warning") and not is_icon:
                complaints.append(message.text)

        page = window.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", note)
        return page


@cache
def _axe() -> str:
    return _AXE.read_text()


def check_page(tab: Page) -> None:
    """Look at the page that is shown: light on a desk, and dark on a phone.

    axe finds nothing that people could not see, hear or reach, and nothing is wider
    than the window.
    """
    for scheme, width, height in _LOOKS:
        tab.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        tab.set_viewport_size({"width": width, "height": height})
        tab.evaluate(_axe())
        found = tab.evaluate(_FOUND)
        assert not found, f"{scheme}, {width} wide: {found}"
        wide = tab.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{wide} wide, in a window of {width}"
