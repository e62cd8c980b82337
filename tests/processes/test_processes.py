"""Many processes on one database: nothing runs twice, is lost, or waits in vain."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING
from uuid import UUID

from sqlalchemy import make_url

from go_scheduler.client import Client
from go_scheduler.models import Extension, State, TaskDefinition
from go_scheduler.policies import CatchUp, Overlap
from go_scheduler.stores.filters import DefinitionFilter, Filter
from go_scheduler.testing.builders import SECOND, counts_by_state, definition, firing
from go_scheduler.triggers.simple import (
    ExecuteOnceTrigger,
    IntervalTrigger,
    OnDemandTrigger,
)
from tests.patience import FAILED_AFTER
from tests.processes.node import Role
from tests.processes.process import ON_SHARED_STORES, Processes, all_instances, stop_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from tests.processes.process import Process

pytestmark = ON_SHARED_STORES

LEASE = 2.0
HOUR = 3600
KEPT = timedelta(seconds=2)
"""How long the nodes keep what is handed on."""
OLD = Role(declares=("a", "b"), version=1)
NEW = Role(declares=("b", "c"), version=2)


def test_eight_processes_run_each_of_thousands_of_due_instances_once(
    store: Store, nodes: Processes
) -> None:
    due = due_instances(store, definitions=40, each=100)
    started = nodes.start_many(8, Role())
    nodes.wait_until(started, "called", len(due))
    stop_all(started)
    runs = Counter(id for node in started for id, _ in node.called())
    assert runs == Counter(str(each.id) for each in due)
    assert counts_by_state(store)[State.COMPLETED] == len(due)
    assert {each.runs for each in all_instances(store)} == {1}


def test_six_processes_create_each_second_of_hundreds_of_definitions_once(
    store: Store, nodes: Processes
) -> None:
    first = store.now().replace(microsecond=0) - 5 * SECOND
    every_second = IntervalTrigger(SECOND, anchor=first)
    # However long six processes take to start.
    all_of_it = CatchUp(mode="all")
    new = [
        replace(definition(first, trigger=every_second), catch_up=all_of_it)
        for _ in range(400)
    ]
    store.put_definitions(new)
    started = nodes.start_many(6, Role(runs=False))
    nodes.wait_until(started, "created", 10 * len(new))
    stop_all(started)
    fire_times: dict[UUID, list[datetime | None]] = {each.id: [] for each in new}
    for instance in all_instances(store):
        fire_times[instance.definition.id].append(instance.fire_time)
    for stored in store.select_definitions(limit=len(new)):
        found, end = fire_times[stored.id], stored.next_fire_time
        assert end is not None
        seconds = (end - first) // SECOND
        assert found == [first + number * SECOND for number in range(seconds)]
    # Each by one process: none was told that it had won what another had created.
    told = sum(each.told("created") for each in started)
    assert told == sum(map(len, fire_times.values()))


def test_what_a_killed_process_ran_is_run_by_another_after_the_lease(
    store: Store, nodes: Processes
) -> None:
    for _ in range(3):
        once(store, store.now())
    one = nodes.start(Role(lease=LEASE, hangs=True))
    one.wait_until("called", 3)
    # Before there is another one: a busy machine may keep it from its next renewal.
    one.kill()
    left = {each.id: each for each in all_instances(store)}
    assert {each.state for each in left.values()} == {State.RUNNING}
    two = nodes.start(Role(lease=LEASE))
    two.wait_until("called", 3)
    two.stop()
    assert sorted(one.called()) == sorted((str(id), 1) for id in left)
    assert sorted(two.called()) == sorted((str(id), 2) for id in left)
    for ended in all_instances(store):
        assert (ended.state, ended.runs) == (State.COMPLETED, 2)
        lapsed, again = left[ended.id].expires_at, ended.started_at
        assert lapsed is not None
        assert again is not None
        assert lapsed <= again < lapsed + FAILED_AFTER * SECOND


def test_a_process_that_wakes_after_its_lease_neither_starts_nor_finishes_what_it_had(
    store: Store, store_url: str, nodes: Processes
) -> None:
    role = Role(
        lease=LEASE, hangs=True, runner_window=FAILED_AFTER, queues=("default", "own")
    )
    one = nodes.start(role)
    began = store.now()
    ran = once(store, began)
    one.wait_until("called")
    # On a busy machine it takes as long again until this one is held.
    took = store.now() - began
    held = once(store, store.now() + 5 * SECOND + 5 * took)
    wait_until_held(store, held, one)
    freeze(store_url, one)
    two = nodes.start(Role(lease=LEASE))
    two.wait_until("called", 2)
    one.thaw()
    # Once it has called this one, it has passed over what was due before.
    own = once(store, store.now(), queue="own")
    one.wait_until("called", 2)
    one.go()
    one.stop()
    two.stop()
    mine = [str(only(store, each).id) for each in (ran, own)]
    theirs = [str(only(store, each).id) for each in (ran, held)]
    assert [id for id, _ in one.called()] == mine
    # Both at once, if it came up late: each on a thread of its own.
    assert sorted(two.called()) == sorted((id, 2) for id in theirs)
    for each in (ran, held):
        ended = only(store, each)
        assert (ended.state, ended.error) == (State.COMPLETED, None)


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


def test_what_another_process_puts_in_runs_before_anybody_looks_by_himself(
    store: Store, nodes: Processes
) -> None:
    client = Client(store)
    on_demand = client.schedule(TaskDefinition(trigger=OnDemandTrigger()))
    once(store, store.now())
    # Only a hint can explain what runs within the hour, but at its first look.
    node = nodes.start(Role(lease=HOUR, schedule_window=HOUR, runner_window=HOUR))
    node.wait_until("called", 1)
    for number in range(2, 8, 2):
        once(store, store.now())
        node.wait_until("called", number)
        client.run_now(on_demand.id)
        node.wait_until("called", number + 1)
    node.stop()


def declared(store: Store) -> Mapping[str | None, int | None]:
    """The names of what is stored, and how often it has been changed."""
    found = store.select_definitions()
    assert found == store.select_definitions(DefinitionFilter(owners=["app"]))
    return {each.name: each.revision for each in found}


def test_a_rolling_deploy_ends_with_what_the_new_version_declares(
    store: Store, nodes: Processes
) -> None:
    old = [nodes.start(OLD) for _ in range(2)]
    assert declared(store) == {"a": 1, "b": 1}
    first = nodes.start(NEW)
    assert declared(store) == {"b": 1, "c": 1}
    old[0].kill()
    # Somebody starts the old version once more before the last one is gone.
    again = nodes.start(OLD)
    assert declared(store) == {"b": 1, "c": 1}
    assert "was declared at version 2" not in first.errors()
    for each in (old[1], again, first, nodes.start(NEW)):
        each.stop()
    assert declared(store) == {"b": 1, "c": 1}


def due_instances(
    store: Store, *, definitions: int, each: int
) -> Sequence[TaskInstance]:
    """So many definitions with so many instances that are due."""
    at = store.now() - SECOND
    stored = store.put_definitions(
        [definition(at) for _ in range(definitions)]
    ).definitions
    times = [at + number * timedelta(microseconds=1) for number in range(each)]
    for read in stored:
        store.fire_definitions([firing(read, *times)])
    return all_instances(store)


def once(store: Store, at: datetime, *, queue: str = "default") -> TaskDefinition:
    """Schedule a one-off."""
    new = TaskDefinition(trigger=ExecuteOnceTrigger(at), queue=queue)
    return Client(store).schedule(new)


def only(store: Store, of: TaskDefinition) -> TaskInstance:
    """The only instance of a definition."""
    [instance] = store.select(Filter(definition_id=of.id))
    return instance


def wait_until_held(store: Store, of: TaskDefinition, node: Process) -> None:
    """Wait for a node to claim the only instance of a definition."""
    for looks in count(node.told("claimed") + 1):
        if store.select(Filter(definition_id=of.id, states=[State.CLAIMED])):
            return
        node.wait_until("claimed", looks)


def freeze(url: str, node: Process) -> None:
    """Freeze a process while it cannot keep SQLite's one lock: this one has it."""
    with ExitStack() as stack:
        if url.startswith("sqlite:"):
            path = make_url(url).database or ""
            file = sqlite3.connect(path, timeout=FAILED_AFTER, isolation_level=None)
            stack.enter_context(closing(file)).execute("BEGIN IMMEDIATE")
        node.freeze()
