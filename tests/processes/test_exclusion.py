"""Many processes on one database: what excludes each other never runs at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.client import Client
from go_scheduler.models import State, TaskDefinition
from go_scheduler.policies import Overlap
from go_scheduler.testing.builders import counts_by_state
from go_scheduler.triggers import IntervalTrigger
from tests.processes.node import Role
from tests.processes.process import ON_SHARED_STORES, Processes, stop_all

if TYPE_CHECKING:
    from pathlib import Path

    from go_scheduler.stores.base import Store

pytestmark = ON_SHARED_STORES


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
    assert counts_by_state(store)[State.SKIPPED] > 0
