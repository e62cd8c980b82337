"""Store suite: an end says when a definition that waits for it fires."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.models import Outcome
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    SECOND,
    WAITING,
    cancel,
    claim,
    definition,
    due,
    finish,
    fire,
    pending,
    put,
    running,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from datetime import datetime

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class NextFireTimeTests:
    """``finish_instances`` and ``cancel_instances``, where the trigger waits."""

    def test_a_definition_that_waits_fires_after_the_end(self, store: Store) -> None:
        instance = running(store, definition(trigger=WAITING))
        assert finish(store, instance, next_fire_time=START + HOUR)
        found = self.definition_of(store, instance, START + HOUR)
        assert (found.completed_at, found.revision) == (None, 1)
        assert due(store, ahead=HOUR, limit=10) == [found]
        assert len(fire(store, found)) == 2

    def test_a_definition_that_waits_is_completed_if_it_fires_no_more(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store, definition(trigger=WAITING))
        clock.advance(SECOND)
        assert finish(store, instance)
        found = self.definition_of(store, instance, None)
        assert found.completed_at == START + SECOND

    def test_an_edit_during_the_run_does_not_stop_the_series(
        self, store: Store
    ) -> None:
        instance = running(store, definition(trigger=WAITING))
        put(store, replace(instance.definition, name="edited"))
        assert finish(store, instance, next_fire_time=START + HOUR)
        self.definition_of(store, instance, START + HOUR)

    def test_a_pause_during_the_run_does_not_stop_the_series(
        self, store: Store
    ) -> None:
        instance = running(store, definition(trigger=WAITING))
        store.pause_definitions([instance.definition.id])
        assert finish(store, instance, next_fire_time=START + HOUR)
        self.definition_of(store, instance, START + HOUR)
        assert due(store, ahead=HOUR, limit=10) == []
        [resumed] = store.resume_definitions([instance.definition.id])
        assert due(store, ahead=HOUR, limit=10) == [resumed]

    def test_a_next_fire_time_that_is_known_stays(self, store: Store) -> None:
        read = put(store, definition(trigger=WAITING))
        fire(store, read, next_fire_time=START + MINUTE)
        [instance] = claim(store)
        assert finish(store, instance, next_fire_time=START + HOUR)
        self.definition_of(store, instance, START + MINUTE)

    def test_a_definition_that_does_not_wait_takes_no_next_fire_time(
        self, store: Store
    ) -> None:
        instance = running(store)
        assert finish(store, instance, next_fire_time=START + HOUR)
        found = self.definition_of(store, instance, None)
        assert found.completed_at == START

    def test_an_end_does_not_complete_a_definition_that_does_not_wait(
        self, store: Store
    ) -> None:
        read = put(store)
        fire(store, read, next_fire_time=START + HOUR)
        [instance] = claim(store)
        assert finish(store, instance)
        found = self.definition_of(store, instance, START + HOUR)
        assert found.completed_at is None

    def test_a_retry_sets_no_next_fire_time(self, store: Store) -> None:
        instance = running(store, definition(trigger=WAITING))
        assert finish(store, instance, None, next_fire_time=START + HOUR)
        self.definition_of(store, instance, None)

    def test_a_lost_claim_sets_no_next_fire_time(self, store: Store) -> None:
        waiting_for_retry(store, definition(trigger=WAITING))
        [second] = claim(store)
        stale = replace(second, attempt=1)
        assert not finish(store, stale, Outcome.FAILED, next_fire_time=START + HOUR)
        found = self.definition_of(store, second, None)
        assert found.completed_at is None

    def test_a_definition_that_waits_fires_after_a_cancelled_one(
        self, store: Store
    ) -> None:
        instance = pending(store, definition(trigger=WAITING))
        cancel(store, instance, next_fire_time=START + HOUR)
        found = self.definition_of(store, instance, START + HOUR)
        assert due(store, ahead=HOUR, limit=10) == [found]

    def test_a_definition_that_waits_is_completed_by_a_cancel_if_it_fires_no_more(
        self, store: Store
    ) -> None:
        instance = pending(store, definition(trigger=WAITING))
        cancel(store, instance)
        assert self.definition_of(store, instance, None).completed_at == START

    def test_a_request_to_stop_sets_no_next_fire_time(self, store: Store) -> None:
        instance = running(store, definition(trigger=WAITING))
        cancel(store, instance, next_fire_time=START + HOUR)
        found = self.definition_of(store, instance, None)
        assert found.completed_at is None

    @staticmethod
    def definition_of(
        store: Store, instance: TaskInstance, next_fire_time: datetime | None
    ) -> TaskDefinition:
        """An instance's definition as stored, which fires then."""
        found = store.get_definition(instance.definition.id)
        assert found.next_fire_time == next_fire_time
        return found
