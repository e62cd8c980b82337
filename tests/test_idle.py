"""What a scheduler asks of its store while there is nothing to do."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from go_scheduler.scheduler import Scheduler
from go_scheduler.stores.sql.store import SQLStore
from tests.conftest import SQL
from tests.statements import executed

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock

TEN_MINUTES = timedelta(minutes=10)
MOST_A_SECOND = 3.4


@pytest.mark.parametrize("engine", SQL)
def test_an_idle_scheduler_asks_little(store: Store, clock: ManualClock) -> None:
    assert isinstance(store, SQLStore)
    with Scheduler(lambda _: None, store, clock=clock):
        # Until it knows that nothing has lapsed.
        clock.advance(timedelta(minutes=1))
        with executed(store) as statements:
            clock.advance(TEN_MINUTES)
    assert len(statements) <= MOST_A_SECOND * TEN_MINUTES.total_seconds()
