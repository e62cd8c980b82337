"""The PostgreSQL store keeps every promise of the interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.testing.stores import StoreSuite
from tests.servers import delete_all_rows, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class TestPostgreSQLStore(StoreSuite):
    """``PostgreSQLStore`` against the suite."""

    @pytest.fixture
    def store(self, clock: ManualClock, postgresql_url: str) -> Iterator[Store]:
        """An empty, initialized store."""
        delete_all_rows(postgresql_url)
        with opened(postgresql_url, clock) as store:
            yield store
