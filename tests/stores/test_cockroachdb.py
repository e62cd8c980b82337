"""The CockroachDB store keeps every promise of the interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from go_scheduler.testing.builders import HOUR, MINUTE, SECOND, add, fire, put
from go_scheduler.testing.clock import START
from go_scheduler.testing.stores import StoreSuite
from tests.servers import delete_all_rows, libpq, opened

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


def test_a_single_row_is_read_by_statistics(cockroachdb_url: str) -> None:
    """With them the server may refuse by an internal error what it took without."""
    delete_all_rows(cockroachdb_url)
    with opened(cockroachdb_url, has_tables=True) as store:
        made = put(store)
        times = [START, START + SECOND, START + MINUTE]
        fire(store, made, *times)
        add(store, made)
        analyze(cockroachdb_url)
        for limit in range(1, 6):
            bounds: dict[str, Any] = {"since": START, "before": START + HOUR}
            found = store.list_fired(made.id, **bounds, limit=limit)
            assert [each.fire_time for each in found] == times[:limit]
            latest = store.list_fired(made.id, **bounds, newest_first=True, limit=limit)
            assert [each.fire_time for each in latest] == times[::-1][:limit]
            assert len(store.list_unscheduled(made.id, limit=limit)) == 1
            assert len(store.list_waiting(limit=limit)) == min(4, limit)
            assert len(store.list_definitions(soonest_first=True, limit=limit)) == 1


def analyze(url: str) -> None:
    """Have the server make statistics of the tables."""
    with psycopg.connect(libpq(url), autocommit=True) as connection:
        for table in ("task_contents", "task_definitions", "task_instances"):
            connection.execute(f"ANALYZE {table}".encode())
