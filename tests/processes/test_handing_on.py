"""What one process has handed on, another one keeps and ends."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from go_scheduler.client import Client
from go_scheduler.models import Extension, State
from go_scheduler.testing.builders import counts_by_state, definition
from go_scheduler.triggers import ExecuteOnceTrigger
from tests.patience import FAILED_AFTER
from tests.processes.node import Role
from tests.processes.process import ON_SHARED_STORES

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from tests.processes.process import Processes

pytestmark = ON_SHARED_STORES

KEPT = timedelta(seconds=2)
"""How long the nodes keep what is handed on."""


def test_what_is_kept_outlives_its_node_and_what_is_not_runs_again(
    store: Store, nodes: Processes
) -> None:
    now = store.now()
    at_once = ExecuteOnceTrigger(now)
    store.put_definitions([definition(now, trigger=at_once) for _ in range(2)])
    one = nodes.start(Role(lease=1, runner_window=0.2, keeps=KEPT.total_seconds()))
    one.wait_until("called", 2)
    kept, left = ((UUID(id), attempt) for id, attempt in one.called())
    # Its last claim is recorded: from here on nobody but this process has them.
    one.stop()
    client = Client(store)
    longer = timedelta(seconds=10 * FAILED_AFTER)
    assert client.extend(*kept, longer) is Extension.GO_ON
    assert counts_by_state(store)[State.RUNNING] == 2
    two = nodes.start(Role(lease=1, runner_window=0.2))
    two.wait_until("called")
    assert client.complete(*kept)
    assert client.complete(*kept)
    two.stop()
    assert two.called() == [(str(left[0]), 2)]
    assert not client.complete(*left)
    assert client.extend(*left, KEPT) is Extension.LOST
    ended, again = (store.get_instance(id) for id, _ in (kept, left))
    assert (ended.ended_attempt, again.ended_attempt, again.runs) == (1, 2, 2)
    assert counts_by_state(store)[State.COMPLETED] == 2
    assert ended.started_at is not None
    assert again.started_at is not None
    assert again.started_at > ended.started_at + KEPT
