"""The PostgreSQL store keeps every promise of the interface."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine, text

from go_scheduler.stores.postgresql import PostgreSQLStore
from go_scheduler.testing.stores import StoreSuite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

URL = os.environ["PGURL"]


class TestPostgreSQLStore(StoreSuite):
    @pytest.fixture
    def store(self, clock: ManualClock) -> Iterator[Store]:
        """An empty, initialized store."""
        store = PostgreSQLStore(URL, clock=clock)
        store.initialize()
        engine = store._database._engines
        from go_scheduler.stores.sql.database import Lane
        with engine[Lane.USERS].connect() as c:
            for t in ("task_instances", "task_definitions", "task_contents"):
                c.execute(text(f"DELETE FROM {t}"))
        yield store
        store.close()
