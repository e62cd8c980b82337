"""Store suite: definitions that wait for the end of an instance."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    OTHER_NODE,
    SECOND,
    WAITING,
    cancel,
    claim,
    definition,
    finish,
    fire,
    firing,
    instances,
    put,
    running,
    times,
)
from go_scheduler.testing.clock import START
from go_scheduler.triggers.delay import DelayTrigger

if TYPE_CHECKING:
    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class WaitingTests:
    """``fire_definitions``, where the trigger waits for the end of the last run."""

    def test_it_does_not_fire_while_an_instance_is_pending(self, store: Store) -> None:
        read = put(store, definition(trigger=WAITING))
        fire(store, read, next_fire_time=START + HOUR)
        self.assert_it_does_not_fire(store, store.get_definition(read.id))

    def test_it_does_not_fire_while_an_instance_is_claimed(self, store: Store) -> None:
        read = put(store, definition(START + SECOND, trigger=WAITING))
        fire(store, read, next_fire_time=START + HOUR)
        claim(store, ahead=MINUTE)
        self.assert_it_does_not_fire(store, store.get_definition(read.id))

    def test_it_does_not_fire_while_an_instance_runs(self, store: Store) -> None:
        self.assert_it_does_not_fire(store, self.edited_while_running(store))

    def test_it_does_not_fire_while_an_instance_waits_for_a_retry(
        self, store: Store
    ) -> None:
        read = self.edited_while_running(store)
        [instance] = instances(store, read)
        assert finish(store, instance, None, retry_in=HOUR)
        self.assert_it_does_not_fire(store, read)

    def test_it_does_not_fire_while_an_instance_has_lapsed(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = self.edited_while_running(store)
        clock.advance(HOUR)
        self.assert_it_does_not_fire(store, read)
        claim(store, OTHER_NODE, lapsed=True)
        self.assert_it_does_not_fire(store, read)

    def test_it_fires_when_the_instance_has_ended(self, store: Store) -> None:
        read = self.edited_while_running(store)
        [instance] = instances(store, read)
        assert finish(store, instance)
        assert times(fire(store, read)) == [START, START + HOUR]

    def test_it_fires_when_the_instance_has_been_cancelled(self, store: Store) -> None:
        read = put(store, definition(trigger=WAITING))
        [instance] = fire(store, read, next_fire_time=START + HOUR)
        cancel(store, instance)
        moved = store.get_definition(read.id)
        assert times(fire(store, moved)) == [START, START + HOUR]

    @staticmethod
    def edited_while_running(store: Store) -> TaskDefinition:
        """A definition that waits and has a fire time although its instance runs."""
        instance = running(store, definition(trigger=WAITING))
        other = DelayTrigger(2 * HOUR)
        new = replace(instance.definition, trigger=other, next_fire_time=START + HOUR)
        return put(store, new)

    @staticmethod
    def assert_it_does_not_fire(store: Store, read: TaskDefinition) -> None:
        """A firing of it loses and changes nothing."""
        before = instances(store, read)
        assert store.fire_definitions([firing(read)]).done == set()
        assert instances(store, read) == before
        assert store.get_definition(read.id).next_fire_time == read.next_fire_time
