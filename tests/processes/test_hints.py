"""What one process puts in and another runs waits for no window.

They are an hour long: only a hint can explain that it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from go_scheduler.client import Client
from go_scheduler.models import TaskDefinition
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.on_demand import OnDemandTrigger
from tests.conftest import SHARED
from tests.processes.node import Role
from tests.processes.process import processes

if TYPE_CHECKING:
    from pathlib import Path

    from go_scheduler.stores.base import Store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.chaos,
    pytest.mark.parametrize("engine", SHARED),
]

HOUR = 3600


def test_what_another_process_puts_in_runs_before_anybody_looks_by_himself(
    own_time_store: Store, store_url: str, tmp_path: Path
) -> None:
    client = Client(own_time_store)
    on_demand = client.schedule(TaskDefinition(trigger=OnDemandTrigger()))
    client.schedule(TaskDefinition(trigger=ExecuteOnceTrigger(own_time_store.now())))
    role = Role(lease=HOUR, schedule_window=HOUR, runner_window=HOUR)
    with processes(store_url, tmp_path) as started:
        node = started.start(role)
        # What was there before, at its first look.
        node.wait_until("called", 1)
        for number in range(2, 8, 2):
            now = own_time_store.now()
            client.schedule(TaskDefinition(trigger=ExecuteOnceTrigger(now)))
            node.wait_until("called", number)
            client.run_now(on_demand.id)
            node.wait_until("called", number + 1)
        node.stop()
