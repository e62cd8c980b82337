"""What a scheduler asks of its store while there is nothing to do."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import event

from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.sql.store import SQLStore
from tests.conftest import SQL

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock

TEN_MINUTES = timedelta(minutes=10)
MOST_A_SECOND = 3.4


@pytest.mark.parametrize("engine", SQL)
def test_an_idle_scheduler_asks_little(store: Store, clock: ManualClock) -> None:
    assert isinstance(store, SQLStore)
    executed: list[str] = []

    def note(connection: object, cursor: object, statement: str, *_: object) -> None:
        executed.append(statement)

    engines = set(store._database._engines.values())
    with Scheduler(lambda _: None, store, clock=clock):
        # Until it knows that nothing has lapsed.
        clock.advance(timedelta(minutes=1))
        for each in engines:
            event.listen(each, "before_cursor_execute", note)
        clock.advance(TEN_MINUTES)
        for each in engines:
            event.remove(each, "before_cursor_execute", note)
    assert len(executed) <= MOST_A_SECOND * TEN_MINUTES.total_seconds()
