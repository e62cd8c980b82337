"""The reference store keeps every promise of the interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.stores.memory import MemoryStore
from go_scheduler.testing.stores import StoreSuite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class TestMemoryStore(StoreSuite):
    """``MemoryStore`` against the suite."""

    @pytest.fixture
    def store(self, clock: ManualClock) -> Iterator[Store]:
        """An empty, initialized store."""
        store = MemoryStore(clock)
        store.initialize()
        yield store
        store.close()
