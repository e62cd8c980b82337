"""A client asks any store alike: one in memory and one in SQL tell what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.client import Client
from tests.behaviour.conftest import world as world
from tests.client.house import House
from tests.conftest import SHARED

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock


@pytest.fixture(params=["memory", SHARED[0]])
def engine(request: pytest.FixtureRequest) -> str:
    """The kind of store that the test runs on."""
    kind: str = request.param
    return kind


@pytest.fixture
def client(store: Store) -> Client:
    return Client(store)


@pytest.fixture
def house(store: Store, clock: ManualClock) -> House:
    """A scheduler that is asked about one definition."""
    return House(store, clock)
