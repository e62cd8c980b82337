"""What tests of pages start from: a dashboard on a store, and what calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.client import Client
from go_scheduler.dashboard import create_dashboard
from tests.http.serving import Calling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.applications import Starlette

    from go_scheduler import Store
    from go_scheduler.testing import ManualClock


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
