"""An application on a store in memory, and clients that call it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler import MemoryStore
from go_scheduler.client import Client
from go_scheduler.http import create_app
from tests.http.serving import Calling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastapi import FastAPI

    from go_scheduler.testing import ManualClock


@pytest.fixture
def memory(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
def client(memory: MemoryStore) -> Client:
    return Client(memory)


@pytest.fixture
def app(client: Client, clock: ManualClock) -> FastAPI:
    """An application whose scheduler does not run."""
    return create_app(client, clock=clock)


@pytest.fixture
def http(app: FastAPI) -> Iterator[Calling]:
    with Calling(app) as calling:
        yield calling


@pytest.fixture
def calling(client: Client) -> Iterator[Callable[..., Calling]]:
    """Makes an application with these options, and calls it until the test ends."""
    with ExitStack() as stack:

        def call(of: Client = client, **options: Any) -> Calling:
            return stack.enter_context(Calling(create_app(of, **options)))

        yield call


@pytest.fixture(scope="module")
def shared_client() -> Client:
    return Client(MemoryStore())


@pytest.fixture(scope="module")
def shared(shared_client: Client) -> Iterator[Calling]:
    """One application for those tests of a module that do not disturb each other."""
    with Calling(create_app(shared_client)) as http:
        yield http


@pytest.fixture
def refusing(shared: Calling, shared_client: Client) -> Iterator[Calling]:
    """The shared application; a test must leave nothing new in it."""
    before = shared_client.list_definitions(), shared_client.list_instances()
    yield shared
    after = shared_client.list_definitions(), shared_client.list_instances()
    assert after == before
