"""What tests of pages start from: a dashboard on a store, and what calls it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from go_scheduler.client import Client
from go_scheduler.dashboard import create_dashboard
from tests.dashboard.chromium import REQUIRED, Chromium, missing_chromium
from tests.http.access.conftest import oidc, served_provider
from tests.http.serving import Calling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page
    from starlette.applications import Starlette

    from go_scheduler import Store
    from go_scheduler.testing import ManualClock


# Fixtures that the tests of callers have too.
__all__ = ["oidc", "served_provider"]


@pytest.fixture
def client(store: Store) -> Client:
    """What the dashboard shows."""
    return Client(store)


@pytest.fixture
def dashboard(client: Client, clock: ManualClock) -> Starlette:
    """A dashboard that changes nothing, on each kind of store."""
    return create_dashboard(client, clock=clock)


@pytest.fixture
def browser(dashboard: Starlette) -> Iterator[Calling]:
    """What asks for its pages from this machine, without running their scripts."""
    with Calling(dashboard) as calling:
        yield calling


def pytest_configure(config: pytest.Config) -> None:
    """Know the mark of tests that are run in a real browser."""
    config.addinivalue_line("markers", "browser: in a real browser, Chromium")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """The browser of all tests."""
    if (reason := missing_chromium()) is not None:
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    chromium = Chromium()
    yield chromium
    chromium.stop()


@pytest.fixture
def tab(chromium: Chromium, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A window of it; for tests marked ``browser``, which are run on its thread."""
    mark = request.node.get_closest_marker("browser")
    with chromium.tab(**mark.kwargs) as page:
        yield page


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object:
    """Run a test in the browser on the browser's thread."""
    if pyfuncitem.get_closest_marker("browser") is None:
        return None
    chromium = pyfuncitem.funcargs["chromium"]
    assert isinstance(chromium, Chromium)
    names = pyfuncitem._fixtureinfo.argnames
    given = {name: pyfuncitem.funcargs[name] for name in names}
    chromium.do(pyfuncitem.obj, **given)
    return True
