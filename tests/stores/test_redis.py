"""The Redis store keeps every promise of the interface, on a server of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.stores.redis import RedisStore
from go_scheduler.testing.stores import StoreSuite
from tests.servers import delete_all_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock
    from tests.redis_servers import RedisServer


@pytest.fixture
def store(clock: ManualClock, redis_server: RedisServer) -> Iterator[RedisStore]:
    """An empty, initialized store."""
    delete_all_rows(redis_server.url)
    store = RedisStore(redis_server.url, clock=clock)
    store.initialize()
    yield store
    store.close()


class TestRedisStore(StoreSuite):
    """``RedisStore`` against the suite."""

    @pytest.fixture
    def store(self, store: RedisStore) -> Store:
        """The same as for the other tests of this module."""
        return store
