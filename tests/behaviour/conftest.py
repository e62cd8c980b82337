"""The worlds in which the behaviour tests take place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.behaviour.house import ThreadedWorld, World

if TYPE_CHECKING:
    from collections.abc import Iterator


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
