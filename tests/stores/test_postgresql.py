"""The PostgreSQL store keeps every promise of the interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.stores.cockroachdb import CockroachDBDialect
from go_scheduler.stores.messages import Addition
from go_scheduler.stores.postgresql import added_instances
from go_scheduler.stores.postgresql.dialect import PostgreSQLDialect
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.testing.builders import definition, put
from go_scheduler.testing.store.claims import ClaimTests, LapsedTests
from go_scheduler.testing.store.cleanups import CleanupTests
from go_scheduler.testing.store.firings import DueTests
from go_scheduler.testing.store.nodes import ThreadTests
from go_scheduler.testing.stores import StoreSuite
from tests.servers import checked_out, delete_all_rows, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.clock import Clock
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class TestPostgreSQLStore(StoreSuite):
    """``PostgreSQLStore`` against the suite."""

    @pytest.fixture
    def store(self, clock: ManualClock, postgresql_url: str) -> Iterator[Store]:
        """An empty, initialized store."""
        delete_all_rows(postgresql_url)
        with opened(postgresql_url, clock, has_tables=True) as store:
            yield store

    def test_no_more_is_known_of_limits_than_there_is_room_for(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert isinstance(store, PostgreSQLStore)
        monkeypatch.setattr(added_instances, "_MOST_KNOWN", 1)
        for of in [put(store, definition()) for _ in range(2)]:
            store.add_instances(of.id, [Addition()])
        assert list(store._added_instances._limited) == [of.id]


class ShardedStore(PostgreSQLStore):
    """One with as many lines as ``CockroachDBStore`` has, where no such server is."""

    def _make_dialect(self, clock: Clock | None) -> PostgreSQLDialect:
        return ShardedDialect(clock)


class ShardedDialect(PostgreSQLDialect):
    shards = CockroachDBDialect.shards


class TestShardedStore(ClaimTests, LapsedTests, DueTests, CleanupTests, ThreadTests):
    """What goes by shard, against the suite."""

    @pytest.fixture
    def store(self, clock: ManualClock, postgresql_url: str) -> Iterator[Store]:
        """An empty, initialized store."""
        delete_all_rows(postgresql_url)
        store = ShardedStore(postgresql_url, clock=clock)
        yield store
        assert checked_out(store) == 0
        store.close()
