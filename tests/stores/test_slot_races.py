"""Two nodes that start at the same moment what only one of them may run."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import psycopg
import pytest
from sqlalchemy import event

from go_scheduler.models import State
from go_scheduler.policies import Overlap
from go_scheduler.stores.postgresql.store import PostgreSQLStore
from go_scheduler.stores.sql.database import Lane
from go_scheduler.testing.builders import (
    OTHER_NODE,
    SECOND,
    at_once,
    claim,
    definition,
    finish,
    fire,
    put,
    start,
)
from go_scheduler.testing.clock import START
from tests import servers
from tests.servers import libpq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

EARLIER = START - SECOND
LOCK = "SELECT id FROM task_instances WHERE id = %s FOR UPDATE"
# Elsewhere a write that has read what is no longer true is made anew.
pytestmark = pytest.mark.parametrize("engine", ["postgresql"])


@pytest.fixture
def other(store: Store, store_url: str, clock: ManualClock) -> Iterator[Store]:
    """The same store, of another node."""
    with servers.opened(store_url, clock, has_tables=True) as other:
        yield other


def test_who_loses_a_slot_to_a_start_that_it_does_not_see_knows_who_has_it(
    store: Store, other: Store, store_url: str
) -> None:
    fire(store, put(store, replace(definition(), overlap=Overlap.SKIP)), START, EARLIER)
    [loser] = claim(store, limit=1)
    [winner] = claim(other, OTHER_NODE, limit=1)
    with psycopg.connect(libpq(store_url)) as somebody:
        # It begins before the other one takes the slot, and goes on after that.
        lock = partial(somebody.execute, LOCK, [loser.id])
        once_it_takes_slots(store, lock)

        def let_other_one_win() -> Sequence[TaskInstance]:
            wait_until_one_waits(store_url)
            started = start(other, winner)
            somebody.rollback()
            return started

        found, started = at_once(partial(start, store, loser), let_other_one_win)
    assert [each.parked for each in (*found, *started)] == [True, False]
    assert finish(other, winner)
    store.review_parked(limit=10)
    assert store.get_instance(loser.id).state is State.SKIPPED


def once_it_takes_slots(store: Store, call: Callable[[], object]) -> None:
    """Make a call before the statement that takes them, which then waits for locks."""
    assert isinstance(store, PostgreSQLStore)

    @event.listens_for(store._database._engines[Lane.BY_KEY], "before_cursor_execute")
    def take(
        connection: object,
        cursor: psycopg.Cursor[tuple[object, ...]],
        statement: str,
        *_: object,
    ) -> None:
        if "INSERT INTO task_slots" in statement:
            cursor.execute("SET lock_timeout = '30s'")
            call()


def wait_until_one_waits(url: str) -> None:
    """Wait until a transaction waits for a lock."""
    with psycopg.connect(libpq(url), autocommit=True) as connection:
        waiting = "SELECT 1 FROM pg_locks WHERE NOT granted"
        while connection.execute(waiting).fetchone() is None:
            pass
