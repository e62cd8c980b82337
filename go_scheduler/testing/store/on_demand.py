"""Store suite: definitions that fire only on demand are live, and never due."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.models import DefinitionState
from go_scheduler.testing.builders import (
    HOUR,
    WAITING,
    YEAR,
    claim,
    clean_up,
    definition,
    due,
    finish,
    fire,
    ids,
    instances,
    put,
    running,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.additions import add, task
from go_scheduler.triggers.on_demand import OnDemandTrigger

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class OnDemandTests:
    """Definitions that fire only on demand."""

    def test_one_on_demand_is_active_and_never_due(
        self, store: Store, clock: ManualClock
    ) -> None:
        new = put(store, task())
        clock.advance(YEAR)
        for found in (new, store.get_definition(new.id)):
            assert found.trigger == OnDemandTrigger()
            assert found.next_fire_time is None
            assert found.completed_at is None
            assert found.state is DefinitionState.ACTIVE
        assert due(store) == []
        assert ids(store.list_definitions(state=DefinitionState.ACTIVE)) == [new.id]

    def test_one_of_many_on_demand_is_active(self, store: Store) -> None:
        stored = store.put_definitions([task(), definition(), task()])
        assert {each.completed_at for each in stored} == {None}

    def test_one_on_demand_is_not_cleaned_up(
        self, store: Store, clock: ManualClock
    ) -> None:
        new = put(store, task())
        add(store, new)
        [run] = claim(store)
        assert finish(store, run)
        clock.advance(YEAR)
        assert clean_up(store) == 1
        assert store.get_definition(new.id) == new
        assert instances(store, new) == []

    def test_one_that_does_not_last_is_completed_and_runs_when_asked(
        self, store: Store, clock: ManualClock
    ) -> None:
        new = put(store, definition(None, trigger=OnDemandTrigger(lasting=False)))
        for found in (new, store.get_definition(new.id)):
            assert found.trigger == OnDemandTrigger(lasting=False)
            assert (found.completed_at, found.next_fire_time) == (START, None)
        added = add(store, new, at=START + YEAR)
        clock.advance(YEAR)
        assert clean_up(store) == 0
        [run] = claim(store)
        assert run.id == added.id
        assert finish(store, run)
        clock.advance(YEAR)
        assert clean_up(store) == 2
        assert store.list_definitions() == []

    def test_one_that_fired_becomes_one_on_demand(self, store: Store) -> None:
        old = put(store, definition(START + HOUR))
        fire(store, old)
        new = put(store, replace(task(), id=old.id))
        assert (new.next_fire_time, new.completed_at) == (None, None)
        assert instances(store, new) == []

    def test_one_on_demand_becomes_one_that_fires(self, store: Store) -> None:
        old = put(store, task())
        added = add(store, old)
        new = put(store, replace(definition(START), id=old.id))
        assert new.next_fire_time == START
        assert ids(due(store)) == [old.id]
        assert ids(instances(store, new)) == [added.id]

    def test_the_end_of_a_former_run_completes_no_one_on_demand(
        self, store: Store
    ) -> None:
        run = running(store, definition(trigger=WAITING))
        put(store, replace(task(), id=run.definition.id))
        assert finish(store, run, next_fire_time=START + HOUR)
        found = store.get_definition(run.definition.id)
        assert (found.next_fire_time, found.completed_at) == (None, None)
