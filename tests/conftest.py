"""What most tests start from: a clock that stands still, a store on it, small values.

Builders that need a store are in ``go_scheduler.testing.builders``.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest

from go_scheduler.clock import StoreClock
from go_scheduler.models import TaskDefinition, TaskInstance
from go_scheduler.stores.memory import MemoryStore
from go_scheduler.testing import ManualClock
from go_scheduler.testing.builders import LEASE, NODE, definition
from go_scheduler.testing.clock import START


@pytest.fixture
def clock() -> ManualClock:
    """A clock at ``START``."""
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    """An empty store on the clock."""
    return MemoryStore(clock)


@pytest.fixture
def store_clock(clock: ManualClock, store: MemoryStore) -> StoreClock:
    """A node's copy of the store's time."""
    return StoreClock(clock, store.now)


def instance(
    of: TaskDefinition | None = None,
    *,
    due_at: datetime = START,
    attempt: int = 1,
    runs: int = 0,
    claimed_by: UUID | None = NODE,
    expires_at: datetime | None = START + LEASE,
    started_at: datetime | None = None,
    cancel_requested: bool = False,
) -> TaskInstance:
    """An instance that is in no store; claimed, not started, and due at ``START``."""
    return TaskInstance(
        id=uuid4(),
        definition=of or definition(),
        fire_time=due_at,
        execute_at=due_at,
        due_at=due_at,
        attempt=attempt,
        runs=runs,
        claimed_by=claimed_by,
        expires_at=expires_at,
        started_at=started_at,
        cancel_requested=cancel_requested,
    )


def seconds(count: float) -> timedelta:
    """So many seconds."""
    return timedelta(seconds=count)
