"""What one process puts in and another runs waits for no window.

They are an hour long: only a hint can explain that it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.client import Client
from go_scheduler.models import TaskDefinition
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.on_demand import OnDemandTrigger
from tests.processes.node import Role
from tests.processes.process import ON_SHARED_STORES

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from tests.processes.process import Processes

pytestmark = ON_SHARED_STORES

HOUR = 3600


def test_what_another_process_puts_in_runs_before_anybody_looks_by_himself(
    store: Store, nodes: Processes
) -> None:
    client = Client(store)
    on_demand = client.schedule(TaskDefinition(trigger=OnDemandTrigger()))
    client.schedule(TaskDefinition(trigger=ExecuteOnceTrigger(store.now())))
    node = nodes.start(Role(lease=HOUR, schedule_window=HOUR, runner_window=HOUR))
    # What was there before, at its first look.
    node.wait_until("called", 1)
    for number in range(2, 8, 2):
        client.schedule(TaskDefinition(trigger=ExecuteOnceTrigger(store.now())))
        node.wait_until("called", number)
        client.run_now(on_demand.id)
        node.wait_until("called", number + 1)
    node.stop()
