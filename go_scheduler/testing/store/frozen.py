"""Store suite: what a pause freezes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from go_scheduler.errors import TaskInstanceNotFoundError
from go_scheduler.models import Cancelled, State
from go_scheduler.testing.builders import (
    HOUR,
    HOURLY,
    LEASE,
    MINUTE,
    OTHER_NODE,
    SECOND,
    WAITING,
    cancel,
    claim,
    claimed,
    clean_up,
    definition,
    finish,
    firing,
    ids,
    instances,
    pending,
    put,
    release,
    renew,
    running,
    start,
    times,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.pauses import pause

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock
    from go_scheduler.triggers.base import Trigger


class FrozenTests:
    """What has passed, and has not ended, is frozen by a pause."""

    @pytest.mark.parametrize("trigger", [HOURLY, WAITING])
    def test_what_has_passed_and_not_started_is_frozen(
        self, store: Store, trigger: Trigger
    ) -> None:
        instance = pending(store, definition(trigger=trigger))
        paused = pause(store, instance.definition)
        assert paused.next_fire_time is None
        assert paused.completed_at == instance.definition.completed_at
        assert claim(store, ahead=HOUR) == []
        assert store.get_instance(instance.id).state is State.PENDING

    def test_what_has_passed_and_is_claimed_is_frozen(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = claimed(store, definition(START + SECOND))
        clock.advance(SECOND)
        pause(store, instance.definition)
        assert start(store, instance) == []
        assert renew(store, instance) == {}
        assert claim(store, ahead=HOUR) == []
        assert store.get_instance(instance.id).state is State.PENDING

    def test_no_fire_time_that_has_passed_fires_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store)
        # The first one is to run after the second one, as by a jitter.
        later = firing(read, START, START + SECOND, next_fire_time=START + HOUR)
        execute_times = (START + MINUTE, START + SECOND)
        store.fire_definitions([replace(later, execute_times=execute_times)])
        clock.advance(SECOND)
        [second] = claim(store)
        assert finish(store, second)
        assert clean_up(store) == 1
        assert pause(store, read).next_fire_time == START + HOUR
        assert times(instances(store, read)) == [START]

    def test_what_waits_for_a_retry_is_frozen(self, store: Store) -> None:
        instance = waiting_for_retry(store)
        pause(store, instance.definition)
        assert claim(store, ahead=HOUR) == []
        assert store.get_instance(instance.id).state is State.PENDING

    def test_a_claimed_retry_does_not_start(self, store: Store) -> None:
        waiting_for_retry(store, retry_in=SECOND)
        [instance] = claim(store, ahead=SECOND)
        pause(store, instance.definition)
        assert start(store, instance) == []
        assert claim(store, ahead=HOUR) == []
        assert store.get_instance(instance.id).state is State.PENDING

    def test_what_is_given_back_meanwhile_is_frozen(self, store: Store) -> None:
        instance = running(store)
        pause(store, instance.definition)
        assert release(store, instance)
        assert claim(store, ahead=HOUR) == []
        found = store.get_instance(instance.id)
        assert (found.state, found.runs) == (State.PENDING, 0)

    def test_what_fails_meanwhile_is_frozen(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        pause(store, instance.definition)
        assert finish(store, instance, None, retry_in=SECOND)
        clock.advance(HOUR)
        assert claim(store, lapsed=True) == []
        assert store.get_instance(instance.id).state is State.PENDING

    def test_a_run_that_lapses_meanwhile_does_not_start_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        pause(store, instance.definition)
        clock.advance(LEASE)
        assert claim(store, OTHER_NODE, lapsed=True) == []
        assert finish(store, instance)

    def test_what_is_frozen_can_be_cancelled(self, store: Store) -> None:
        instance = waiting_for_retry(store)
        pause(store, instance.definition)
        answer = cancel(store, instance)
        assert answer == {instance.id: Cancelled.CANCELLED}
        store.resume_definitions([instance.definition.id])
        assert claim(store) == []

    def test_what_is_frozen_goes_with_its_definition(self, store: Store) -> None:
        instance = waiting_for_retry(store)
        pause(store, instance.definition)
        store.delete_definitions([instance.definition.id])
        with pytest.raises(TaskInstanceNotFoundError):
            store.get_instance(instance.id)

    def test_what_is_frozen_stays_frozen_when_the_definition_is_edited(
        self, store: Store
    ) -> None:
        instance = waiting_for_retry(store)
        paused = pause(store, instance.definition)
        put(store, replace(paused, queue="other"))
        assert claim(store, queues=["default", "other"], ahead=HOUR) == []

    def test_what_is_frozen_goes_to_the_new_queue(self, store: Store) -> None:
        instance = waiting_for_retry(store)
        paused = pause(store, instance.definition)
        put(store, replace(paused, queue="other"))
        store.resume_definitions([paused.id])
        assert claim(store) == []
        assert ids(claim(store, queues=["other"])) == [instance.id]
