"""Store suite: what is created and due may be started by the write that creates it.

A store need start nothing by it: then all of this is claimed as ever.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.errors import ConflictError, TaskDefinitionNotFoundError
from go_scheduler.models import State
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Addition
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    NOBODY,
    NODE,
    OTHER_NODE,
    SECOND,
    WAITING,
    claim,
    claimant,
    definition,
    due,
    finish,
    fire,
    firing,
    ids,
    instances,
    kept_by_store,
    put,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.settling import settle
from go_scheduler.triggers.execute_once import ExecuteOnceTrigger
from go_scheduler.triggers.on_demand import OnDemandTrigger

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

ONCE = definition(trigger=ExecuteOnceTrigger(START))
EXCLUDING = pytest.mark.parametrize(
    "excludes", [{"overlap": Overlap.SKIP}, {"lock": "one"}], ids=["overlap", "lock"]
)


def task(**fields: Any) -> TaskDefinition:
    """A definition that fires only on demand."""
    return replace(definition(None, trigger=OnDemandTrigger()), **fields)


def ids_of(additions: Sequence[Addition]) -> list[UUID]:
    """Their ids, in their order."""
    return [each.id for each in additions]


def add(
    store: Store,
    to: TaskDefinition,
    *additions: Addition,
    names: Collection[str] | None = None,
) -> Sequence[TaskInstance]:
    """Add for a node, which is to have what it may start."""
    return store.add_and_start(to.id, additions, claimant(), names=names)


def started(found: Sequence[TaskInstance]) -> Sequence[TaskInstance]:
    """Those that came back as started; all that a node needs to run them is there."""
    mine = [each for each in found if each.claimed_by is not None]
    for each in mine:
        assert (each.state, each.claimed_by) == (State.RUNNING, NODE)
        assert (each.attempt, each.runs, each.started_at) == (1, 1, START)
        assert each.expires_at == START + LEASE
    return mine


class HandOverTests:
    """Definitions and instances are created for a node that runs what is due."""

    def test_what_is_added_and_due_is_started_or_left_to_claims(
        self, store: Store
    ) -> None:
        stored = put(store, task())
        additions = [Addition(payload={"number": each}) for each in range(3)]
        found = add(store, stored, *additions)
        assert ids(found) == ids_of(additions)
        assert [each.payload for each in found] == [each.payload for each in additions]
        assert {each.definition for each in found} == {stored}
        assert found == [store.get_instance(each.id) for each in found]
        mine, others = started(found), claim(store, OTHER_NODE)
        assert sorted([*ids(mine), *ids(others)]) == sorted(ids_of(additions))
        assert all(finish(store, each) for each in mine)

    def test_what_is_not_due_yet_is_not_started(self, store: Store) -> None:
        stored = put(store, task())
        later = [Addition(at=START + SECOND), Addition(delay=SECOND)]
        assert started(add(store, stored, *later)) == []
        assert len(claim(store, OTHER_NODE, ahead=SECOND)) == 2

    def test_what_starts_expires_by_its_definition(self, store: Store) -> None:
        stored = put(store, task(expire_after=SECOND))
        [found] = add(store, stored, Addition())
        assert found.expires_at in (None, START + SECOND)

    @EXCLUDING
    def test_what_has_to_have_a_slot_is_not_started(
        self, store: Store, excludes: dict[str, Any]
    ) -> None:
        stored = put(store, task(**excludes))
        assert started(add(store, stored, Addition())) == []
        assert len(claim(store, OTHER_NODE)) == 1

    def test_nothing_of_a_paused_definition_is_started(self, store: Store) -> None:
        stored = put(store, task())
        store.pause_definitions([stored.id])
        assert started(add(store, stored, Addition())) == []
        assert claim(store) == []
        store.resume_definitions([stored.id])
        assert len(claim(store)) == 1

    def test_nothing_of_a_queue_that_the_node_does_not_serve_is_started(
        self, store: Store
    ) -> None:
        stored = put(store, task(queue="other"))
        assert started(add(store, stored, Addition())) == []
        assert len(claim(store, queues=["other"])) == 1

    def test_nothing_is_started_that_has_another_name(self, store: Store) -> None:
        for name in ("send", None):
            stored = put(store, task(name=name))
            assert started(add(store, stored, Addition(), names=["report"])) == []
            assert len(claim(store, OTHER_NODE)) == 1

    def test_what_has_one_of_the_names_is_started_or_left(self, store: Store) -> None:
        stored = put(store, task(name="send"))
        found = add(store, stored, Addition(), names=["report", "send"])
        assert len([*started(found), *claim(store, OTHER_NODE)]) == 1

    def test_what_was_there_already_is_not_started(self, store: Store) -> None:
        stored = put(store, task())
        [first] = store.add_instances(stored.id, [Addition(key="one")])
        assert list(add(store, stored, Addition(key="one"))) == [first]
        [run] = claim(store, OTHER_NODE)
        [found] = add(store, stored, Addition(key="one"))
        assert (found.id, found.claimed_by) == (run.id, OTHER_NODE)
        assert finish(store, run)

    def test_adding_the_same_again_answers_as_the_first_time(
        self, store: Store
    ) -> None:
        stored = put(store, task())
        addition = Addition()
        assert add(store, stored, addition) == add(store, stored, addition)

    def test_nothing_is_added_to_what_does_not_exist(self, store: Store) -> None:
        with pytest.raises(TaskDefinitionNotFoundError):
            store.add_and_start(NOBODY, [Addition()], claimant(), names=None)

    def test_a_new_definition_fires_and_starts_or_is_left_to_the_loops(
        self, store: Store
    ) -> None:
        found, instance = store.put_and_start(firing(ONCE), claimant())
        assert found == put(store, ONCE)
        assert (found.next_fire_time, found.completed_at) == (START, None)
        if instance is None:
            assert ids(due(store)) == [ONCE.id]
            return
        assert started([instance]) == [instance]
        assert instance == store.get_instance(instance.id)
        assert instance.definition == store.get_definition(ONCE.id)
        assert instance.definition.revision == found.revision
        assert instance.definition.completed_at == START
        assert (instance.fire_time, instance.due_at) == (START, START)
        assert due(store) == []
        assert claim(store) == []
        assert finish(store, instance)

    def test_one_that_goes_on_is_due_at_its_next_fire_time(self, store: Store) -> None:
        step = firing(definition(), next_fire_time=START + HOUR)
        found, instance = store.put_and_start(step, claimant())
        assert found.next_fire_time == START
        if instance is None:
            assert due(store) == [found]
            return
        stored = store.get_definition(found.id)
        assert (stored.next_fire_time, stored.completed_at) == (START + HOUR, None)
        assert instance.definition == stored
        assert kept_by_store(instance.definition) == kept_by_store(stored)
        assert due(store, ahead=HOUR) == [stored]

    def test_one_whose_trigger_waits_goes_on_when_its_run_ends(
        self, store: Store
    ) -> None:
        found, instance = store.put_and_start(
            firing(definition(trigger=WAITING)), claimant()
        )
        if instance is None:
            assert due(store) == [found]
            return
        assert instance.definition.completed_at is None
        assert finish(store, instance, next_fire_time=START + HOUR)
        assert store.get_definition(found.id).next_fire_time == START + HOUR

    def test_one_that_is_stored_already_is_put_and_not_started(
        self, store: Store
    ) -> None:
        stored = put(store, ONCE)
        assert store.put_and_start(firing(ONCE), claimant()) == (stored, None)
        assert ids(due(store)) == [ONCE.id]
        edited = replace(ONCE, name="another")
        found, instance = store.put_and_start(firing(edited), claimant())
        assert (found.name, instance) == ("another", None)
        assert instances(store, found) == []

    def test_one_of_another_revision_is_refused(self, store: Store) -> None:
        stored = put(store, ONCE)
        assert stored.revision is not None
        wrong = replace(ONCE, revision=stored.revision + 1)
        with pytest.raises(ConflictError):
            store.put_and_start(firing(wrong), claimant())

    def test_what_fires_is_started_or_left_to_claims(self, store: Store) -> None:
        on = definition()
        once, on = put(store, ONCE), put(store, on)
        steps = [firing(once), firing(on, next_fire_time=START + HOUR)]
        fired = store.fire_and_start(steps, claimant())
        assert (fired.done, fired.busy) == ({once.id, on.id}, set())
        assert due(store, ahead=SECOND) == []
        assert store.get_definition(once.id).completed_at == START
        assert store.get_definition(on.id).next_fire_time == START + HOUR
        mine, others = started(fired.started), claim(store, OTHER_NODE)
        found = {each.definition.id: each for each in [*mine, *others]}
        assert found.keys() == fired.done
        assert {each.fire_time for each in found.values()} == {START}
        for each in mine:
            assert each == store.get_instance(each.id)
            stored = store.get_definition(each.definition.id)
            assert each.definition == stored
            assert kept_by_store(each.definition) == kept_by_store(stored)
            assert finish(store, each)

    def test_what_fires_later_than_its_fire_time_starts_at_that(
        self, store: Store, clock: ManualClock
    ) -> None:
        stored = put(store, ONCE)
        clock.advance(HOUR)
        settle(store)
        at = START + SECOND
        step = replace(firing(stored), execute_times=(at,))
        for each in store.fire_and_start([step], claimant()).started:
            assert (each.fire_time, each.execute_at, each.due_at) == (START, at, at)
            assert each.started_at == START + HOUR
            assert each == store.get_instance(each.id)

    def test_what_has_fired_already_is_not_started(self, store: Store) -> None:
        first = put(store, definition())
        [run] = fire(store, first, next_fire_time=START + HOUR)
        fired = store.fire_and_start([firing(first)], claimant())
        assert (fired.done, list(fired.started)) == (set(), [])
        # Nor is the instance of a fire time that has one.
        [later] = due(store, ahead=HOUR)
        back = replace(firing(later, next_fire_time=START), fire_times=())
        assert store.fire_definitions([back]).done == {first.id}
        [again] = due(store)
        fired = store.fire_and_start([firing(again)], claimant())
        assert (fired.done, list(fired.started)) == ({first.id}, [])
        assert ids(instances(store, again)) == [run.id]

    def test_nothing_fires_of_what_does_not_exist(self, store: Store) -> None:
        fired = store.fire_and_start([firing(ONCE)], claimant())
        assert (fired.done, list(fired.started)) == (set(), [])

    def test_no_firings_start_nothing(self, store: Store) -> None:
        assert store.fire_and_start([], claimant()).done == set()

    def test_what_nobody_runs_after_its_start_is_taken_over(
        self, store: Store, clock: ManualClock
    ) -> None:
        stored = put(store, task())
        [added] = add(store, stored, Addition())
        clock.advance(LEASE)
        [run] = claim(store, OTHER_NODE, lapsed=True)
        assert run.id == added.id
        assert finish(store, run)
