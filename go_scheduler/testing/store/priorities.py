"""The suite's tests of priority: which of what is due is claimed first."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    OTHER_NODE,
    claim,
    claimed,
    definition,
    firing,
    ids,
    pending,
    put,
    running,
    start,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

_TURNS = 8


def waiting(
    store: Store, priority: int, count: int = _TURNS, *, queue: str = "default"
) -> TaskDefinition:
    """A definition of which so many are due, the earlier the greater its class."""
    new = replace(definition(START - HOUR, queue=queue), priority=priority)
    stored = put(store, new)
    first = START - (1 + priority) * MINUTE
    times = [first + number * (MINUTE / count) for number in range(count)]
    assert store.fire_definitions([firing(stored, *times)]).done
    return stored


def claimed_singly(
    store: Store, count: int = _TURNS, *, queues: Sequence[str] = ("default",)
) -> Counter[int]:
    """How many of each class come if they are claimed one by one."""
    claims = [claim(store, queues=queues, limit=1) for _ in range(count)]
    return Counter(each.definition.priority for [each] in claims)


class PriorityTests:
    """``claim_instances``, where instances are of several classes."""

    def test_of_what_is_due_a_smaller_class_comes_first_and_the_last_in_its_turn(
        self, store: Store
    ) -> None:
        waiting(store, 3)
        waiting(store, 0)
        taken = claimed_singly(store)
        assert taken[0] >= 6
        assert taken[3] >= 1

    def test_no_class_waits_for_ever(self, store: Store) -> None:
        for priority in (3, 1, 0):
            waiting(store, priority, _TURNS**2)
        assert set(claimed_singly(store, _TURNS**2)) == {0, 1, 3}

    def test_the_last_class_that_there_is_has_its_turn(self, store: Store) -> None:
        waiting(store, 1)
        waiting(store, 0)
        assert set(claimed_singly(store)) == {0, 1}

    def test_what_there_is_room_for_comes_whatever_its_class(
        self, store: Store
    ) -> None:
        given = [waiting(store, priority, 1) for priority in (1, 3, 0, 2)]
        found = claim(store)
        assert [each.definition.priority for each in found] == [3, 2, 1, 0]
        assert {each.definition.id for each in found} == {each.id for each in given}

    def test_a_smaller_class_comes_first_from_whichever_queue(
        self, store: Store
    ) -> None:
        waiting(store, 2)
        waiting(store, 0, queue="other")
        taken = claimed_singly(store, queues=["default", "other"])
        assert taken[0] >= 6

    def test_a_class_is_one_of_its_queue_alone(self, store: Store) -> None:
        waiting(store, 0, queue="other")
        given = waiting(store, 2, 1)
        [instance] = claim(store)
        assert instance.definition.id == given.id

    def test_what_has_lapsed_comes_before_all_others(
        self, store: Store, clock: ManualClock
    ) -> None:
        last = running(store, replace(definition(), priority=3))
        clock.advance(LEASE)
        waiting(store, 0, 1)
        [taken] = claim(store, OTHER_NODE, lapsed=True, limit=1)
        assert taken.id == last.id

    def test_what_is_claimed_ahead_is_of_any_class(self, store: Store) -> None:
        first, last = (
            pending(store, replace(definition(START + MINUTE), priority=priority))
            for priority in (0, 3)
        )
        assert sorted(ids(claim(store, ahead=HOUR))) == sorted([first.id, last.id])

    def test_an_edit_moves_what_is_open_into_its_new_class(self, store: Store) -> None:
        first, last = waiting(store, 0), waiting(store, 3)
        put(store, replace(first, priority=3, revision=None))
        put(store, replace(last, priority=0, revision=None))
        claims = [claim(store, limit=1) for _ in range(_TURNS)]
        taken = Counter(each.definition.id for [each] in claims)
        assert taken[last.id] >= 6

    def test_what_is_claimed_stays_so_when_its_class_changes(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = claimed(store)
        put(store, replace(instance.definition, priority=0))
        [started] = start(store, instance)
        assert started.definition.priority == 0
        clock.advance(HOUR)
        [taken] = claim(store, OTHER_NODE, lapsed=True)
        assert taken.id == instance.id

    def test_what_runs_waits_for_its_next_run_in_its_new_class(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        put(store, replace(instance.definition, priority=2))
        clock.advance(HOUR)
        [taken] = claim(store, OTHER_NODE, lapsed=True)
        assert (taken.id, taken.definition.priority) == (instance.id, 2)
