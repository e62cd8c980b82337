"""The CockroachDB store keeps every promise of the interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.testing.stores import StoreSuite
from tests.servers import delete_all_rows, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class TestCockroachDBStore(StoreSuite):
    """``CockroachDBStore`` against the suite."""

    @pytest.fixture
    def store(self, clock: ManualClock, cockroachdb_url: str) -> Iterator[Store]:
        """An empty, initialized store."""
        delete_all_rows(cockroachdb_url)
        with opened(cockroachdb_url, clock, has_tables=True) as store:
            yield store
