"""Many processes on one database: what excludes each other never runs at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.client import Client
from go_scheduler.models import State, TaskDefinition
from go_scheduler.policies import Overlap
from go_scheduler.testing.builders import SECOND
from go_scheduler.triggers import ExecuteOnceTrigger, IntervalTrigger
from tests.processes.node import Role
from tests.processes.process import ON_SHARED_STORES, Processes, stop_all

if TYPE_CHECKING:
    from pathlib import Path

    from go_scheduler.stores.base import Store

pytestmark = ON_SHARED_STORES

LEASE = 2.0


def test_of_eight_processes_with_handlers_slower_than_their_schedule_one_runs_each(
    store: Store, nodes: Processes, tmp_path: Path
) -> None:
    guards = tmp_path / "guards"
    guards.mkdir()
    often = TaskDefinition(trigger=IntervalTrigger(seconds=0.2))
    modes = (Overlap.SKIP, Overlap.BUFFER_ONE, Overlap.BUFFER_ALL)
    new = [
        replace(often, id=TaskDefinition.id_for(each), overlap=each) for each in modes
    ]
    new += [
        replace(often, id=TaskDefinition.id_for(f"{number}"), lock="shared")
        for number in range(3)
    ]
    Client(store).schedule_all(new)
    started = nodes.start_many(8, Role(takes=0.3, guards=str(guards)))
    nodes.wait_until(started, "called", 40)
    stop_all(started)
    assert [each.told("collided") for each in started] == [0] * len(started)
    assert store.counts()[State.SKIPPED] > 0


def test_a_killed_processs_run_is_taken_over_and_nobody_gets_its_lock_before(
    store: Store, nodes: Processes
) -> None:
    client = Client(store)

    def locked(after: int) -> TaskDefinition:
        at = store.now() + after * SECOND
        return client.schedule(
            TaskDefinition(trigger=ExecuteOnceTrigger(at), lock="shared")
        )

    first = locked(0)
    one = nodes.start(Role(lease=LEASE, hangs=True))
    one.wait_until("called")
    second = locked(0)
    two = nodes.start(Role(lease=LEASE))
    two.wait_until("claimed", 2)
    one.kill()
    two.wait_until("called", 2)
    two.stop()
    ids = [
        str(each.id)
        for of in (first, second)
        for each in store.list_instances(definition_id=of.id)
    ]
    assert [id for id, _ in two.called()] == ids
    assert store.counts()[State.COMPLETED] == 2
