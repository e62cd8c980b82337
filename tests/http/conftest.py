"""What tests of routes start from: an application on a store, and what calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.client import Client
from go_scheduler.http import create_app
from tests.http.serving import Calling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi import FastAPI

    from go_scheduler import Store
    from go_scheduler.testing import ManualClock


@pytest.fixture
def client(store: Store) -> Client:
    """What the application offers."""
    return Client(store)


@pytest.fixture
def app(client: Client, clock: ManualClock) -> FastAPI:
    """An application without loops, on each kind of store."""
    return create_app(client, clock=clock)


@pytest.fixture
def http(app: FastAPI) -> Iterator[Calling]:
    """What calls it from this machine."""
    with Calling(app) as calling:
        yield calling
