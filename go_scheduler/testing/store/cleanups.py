"""Store suite: what is over goes, after its time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.errors import (
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
)
from go_scheduler.models import Outcome, Skipped
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    TICK,
    WAITING,
    claim,
    claimed,
    clean_up,
    definition,
    ended,
    finish,
    fire,
    firing,
    ids,
    pending,
    put,
    running,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class CleanupTests:
    """``delete_finished``."""

    def test_instances_go_when_they_ended_long_enough_ago(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = self.of_a_live_definition(store)
        clock.advance(HOUR - TICK)
        assert clean_up(store, older_than=HOUR, limit=10) == 0
        assert store.get_instance(instance.id) == instance
        clock.advance(TICK)
        assert clean_up(store, older_than=HOUR, limit=10) == 1
        assert store.list_instances() == []

    def test_what_failed_has_a_time_of_its_own(
        self, store: Store, clock: ManualClock
    ) -> None:
        failed = ended(store, outcome=Outcome.FAILED)
        other = ended(store)
        assert clean_up(store, older_than=HOUR, failed_older_than=ZERO) == 1
        assert ids(store.list_instances()) == [other.id]
        clock.advance(HOUR)
        failed = ended(store, outcome=Outcome.FAILED)
        deleted = clean_up(store, older_than=HOUR, failed_older_than=HOUR + TICK)
        assert deleted == 3
        assert ids(store.list_instances()) == [failed.id]
        clock.advance(HOUR)
        assert clean_up(store, older_than=HOUR, failed_older_than=HOUR + TICK) == 0
        clock.advance(TICK)
        assert clean_up(store, older_than=HOUR, failed_older_than=HOUR + TICK) == 2

    def test_the_limit_counts_what_failed_as_well(self, store: Store) -> None:
        for outcome in (Outcome.FAILED, Outcome.COMPLETED, Outcome.FAILED):
            ended(store, outcome=outcome)
        assert clean_up(store, limit=2) == 2
        assert len(store.list_instances()) == 1
        assert len(store.list_definitions()) == 3

    def test_what_failed_and_then_succeeded_goes_with_what_succeeded(
        self, store: Store
    ) -> None:
        instance = ended(store, outcome=Outcome.FAILED)
        assert finish(store, instance, Outcome.COMPLETED)
        assert clean_up(store, older_than=HOUR, failed_older_than=ZERO) == 0
        assert clean_up(store, older_than=ZERO, failed_older_than=HOUR) == 2

    def test_how_long_ago_counts_from_the_end(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        clock.advance(HOUR)
        assert finish(store, instance)
        assert clean_up(store, older_than=MINUTE, limit=10) == 0

    @pytest.mark.parametrize("outcome", list(Outcome))
    def test_instances_go_whatever_their_outcome(
        self, store: Store, outcome: Outcome
    ) -> None:
        instance = ended(store, outcome=outcome)
        clean_up(store, older_than=ZERO, limit=10)
        with pytest.raises(TaskInstanceNotFoundError):
            store.get_instance(instance.id)

    def test_records_of_skipped_ones_go(self, store: Store) -> None:
        skipped = Skipped(first=START, last=START, count=1, reason="late")
        step = firing(put(store), skipped=skipped, next_fire_time=START + HOUR)
        store.fire_definitions([step])
        assert clean_up(store, older_than=ZERO, limit=10) == 1
        assert store.list_instances() == []

    def test_what_has_not_ended_stays(self, store: Store, clock: ManualClock) -> None:
        kept = [waiting_for_retry(store, retry_in=MINUTE), running(store)]
        kept += [claimed(store), pending(store)]
        clock.advance(1000 * HOUR)
        assert clean_up(store, older_than=ZERO, limit=10) == 0
        assert {each.id for each in store.list_instances()} == set(ids(kept))
        assert len(store.list_definitions()) == len(kept)

    def test_a_completed_definition_goes_with_its_last_instance(
        self, store: Store
    ) -> None:
        instance = ended(store)
        assert clean_up(store, older_than=ZERO, limit=10) == 2
        with pytest.raises(TaskDefinitionNotFoundError):
            store.get_definition(instance.definition.id)

    def test_a_definition_that_is_not_completed_stays(self, store: Store) -> None:
        instance = self.of_a_live_definition(store)
        assert clean_up(store, older_than=ZERO, limit=10) == 1
        assert store.list_definitions() == [instance.definition]

    def test_a_completed_definition_without_instances_goes_when_it_is_old_enough(
        self, store: Store, clock: ManualClock
    ) -> None:
        put(store, definition(None))
        clock.advance(HOUR - TICK)
        assert clean_up(store, older_than=HOUR, limit=10) == 0
        clock.advance(TICK)
        assert clean_up(store, older_than=HOUR, limit=10) == 1
        assert store.list_definitions() == []

    def test_a_completed_definition_stays_while_an_instance_is_open(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        clock.advance(HOUR)
        assert clean_up(store, older_than=ZERO, limit=10) == 0
        assert store.list_definitions() == [instance.definition]

    def test_a_completed_definition_stays_while_an_instance_is_young(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        clock.advance(HOUR)
        assert finish(store, instance)
        assert clean_up(store, older_than=HOUR, limit=10) == 0
        clock.advance(HOUR)
        assert clean_up(store, older_than=HOUR, limit=10) == 2

    def test_a_definition_that_is_live_again_stays(self, store: Store) -> None:
        old = put(store, definition(None))
        live = put(store, replace(old, trigger=WAITING, next_fire_time=START))
        assert clean_up(store, older_than=ZERO, limit=10) == 0
        assert store.list_definitions() == [live]

    def test_at_most_limit_are_deleted(self, store: Store) -> None:
        for _ in range(3):
            self.of_a_live_definition(store)
        assert clean_up(store, older_than=ZERO, limit=2) == 2
        assert len(store.list_instances()) == 1
        assert clean_up(store, older_than=ZERO, limit=2) == 1

    def test_the_limit_counts_definitions_and_instances_together(
        self, store: Store
    ) -> None:
        for _ in range(3):
            ended(store)
        assert clean_up(store, older_than=ZERO, limit=4) == 4
        assert store.list_instances() == []
        assert len(store.list_definitions()) == 2
        assert clean_up(store, older_than=ZERO, limit=4) == 2
        assert store.list_definitions() == []

    def test_instances_go_before_definitions(self, store: Store) -> None:
        put(store, definition(None))
        instance = self.of_a_live_definition(store)
        assert clean_up(store, older_than=ZERO, limit=1) == 1
        with pytest.raises(TaskInstanceNotFoundError):
            store.get_instance(instance.id)
        assert len(store.list_definitions()) == 2

    def test_a_deleted_fire_time_of_a_live_definition_is_gone_for_good(
        self, store: Store
    ) -> None:
        instance = self.of_a_live_definition(store)
        clean_up(store, older_than=ZERO, limit=1)
        before = replace(instance.definition, next_fire_time=START)
        assert store.fire_definitions([firing(before)]).done == set()
        assert store.list_instances() == []

    @staticmethod
    def of_a_live_definition(store: Store) -> TaskInstance:
        """An instance that has ended, of a definition that goes on."""
        read = put(store)
        fire(store, read, next_fire_time=START + HOUR)
        [instance] = claim(store)
        assert finish(store, instance)
        return store.get_instance(instance.id)
