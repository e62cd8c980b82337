"""The worlds in which the behaviour tests take place."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from go_scheduler.client import Client
from tests.behaviour.house import ThreadedWorld, World
from tests.behaviour.store_house import House, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler import Store
    from go_scheduler.testing import ManualClock


@pytest.fixture
def world() -> Iterator[World]:
    """Nodes on a store in memory, and a clock that the test moves."""
    world = World()
    yield world
    world.close()


@pytest.fixture
def threaded() -> Iterator[ThreadedWorld]:
    """The same with real threads, on a clock that can leap."""
    world = ThreadedWorld()
    yield world
    world.close()


@pytest.fixture
def client(store: Store) -> Client:
    """What schedules and reads, and runs nothing."""
    client = Client(store)
    client.check()
    return client


@pytest.fixture
def house(store: Store, clock: ManualClock) -> Iterator[House]:
    """A scheduler on the store, whose runs go on until they are ended."""
    with running(store, clock) as house:
        yield house


@pytest.fixture
def own_file(sqlite_file: Path, tmp_path: Path) -> Path:
    """Where an SQLite file of the test's own is, which has the tables."""
    return Path(shutil.copy(sqlite_file, tmp_path / "own.db"))
