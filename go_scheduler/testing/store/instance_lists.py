"""Store suite: instances are listed and counted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.errors import (
    TaskInstanceNotFoundError,
)
from go_scheduler.models import Outcome, State
from go_scheduler.stores.messages import Addition, Position
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    NOBODY,
    SECOND,
    TICK,
    claim,
    claimed,
    clean_up,
    definition,
    ended,
    finish,
    fire,
    firing,
    ids,
    instances,
    pending,
    put,
    running,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


def one_of_each_state(store: Store) -> dict[State, TaskInstance]:
    """An instance in each state, each of its own definition."""
    made = {State(each.value): ended(store, outcome=each) for each in Outcome}
    made[State.RUNNING] = running(store)
    asked = running(store)
    store.cancel_instances({asked.id: None})
    made[State.CANCELLING] = store.get_instance(asked.id)
    made[State.CLAIMED] = claimed(store)
    made[State.PENDING] = pending(store)
    return made


class InstanceListTests:
    """``list_instances``, ``get_instance`` and ``counts``."""

    def test_no_instance_is_found_under_an_unknown_id(self, store: Store) -> None:
        with pytest.raises(TaskInstanceNotFoundError) as caught:
            store.get_instance(NOBODY)
        assert caught.value.instance_id == NOBODY

    def test_of_many_instances_those_are_found_that_there_are(
        self, store: Store
    ) -> None:
        known = one_of_each_state(store).values()
        found = store.find_instances([NOBODY, *(each.id for each in known)])
        assert found == {each.id: store.get_instance(each.id) for each in known}
        assert store.find_instances([]) == {}

    def test_instances_come_in_the_order_of_their_time_and_id(
        self, store: Store
    ) -> None:
        for _ in range(3):
            fire(store, put(store), START + HOUR, START, START - TICK)
        order = [(each.execute_at, each.id) for each in store.list_instances()]
        assert len(order) == 9
        assert order == sorted(order)

    def test_a_retry_keeps_its_place(self, store: Store) -> None:
        retried = waiting_for_retry(store, retry_in=HOUR)
        later = pending(store, definition(START + SECOND))
        assert ids(store.list_instances()) == [retried.id, later.id]

    def test_pages_of_instances_follow_each_other(self, store: Store) -> None:
        for _ in range(2):
            fire(store, put(store), START, START + SECOND, START + MINUTE)
        everything = ids(store.list_instances())
        page, read = store.list_instances(limit=2), []
        while page:
            assert len(page) == 2
            read += ids(page)
            page = store.list_instances(after=Position.of_instance(page[-1]), limit=2)
        assert read == everything

    def test_pages_of_one_definition_follow_each_other(self, store: Store) -> None:
        new = put(store)
        for each in (new, put(store)):
            fire(store, each, START, START + SECOND, START + MINUTE)
        first = store.list_instances(definition_id=new.id, limit=2)
        end = Position.of_instance(first[-1])
        rest = store.list_instances(definition_id=new.id, after=end, limit=2)
        assert len(rest) == 1
        assert [*first, *rest] == instances(store, new)

    def test_the_next_page_follows_even_if_the_last_instance_is_gone(
        self, store: Store
    ) -> None:
        gone = pending(store)
        kept = pending(store, definition(START + SECOND))
        store.delete_definitions([gone.definition.id])
        end = Position.of_instance(gone)
        assert ids(store.list_instances(after=end)) == [kept.id]

    def test_a_page_has_100_instances_by_default(self, store: Store) -> None:
        fire(store, put(store), *(START + number * TICK for number in range(101)))
        assert len(store.list_instances()) == 100

    def test_listed_instances_are_read_as_they_are_stored(self, store: Store) -> None:
        instance = running(store, definition(metadata={"a": 1}))
        assert store.list_instances() == [instance]
        assert instances(store, instance.definition) == [instance]

    def test_by_definition(self, store: Store) -> None:
        mine, _ = pending(store), pending(store)
        assert store.list_instances(definition_id=mine.definition.id) == [mine]

    def test_no_instance_is_listed_under_an_unknown_definition(
        self, store: Store
    ) -> None:
        pending(store)
        assert store.list_instances(definition_id=NOBODY) == []

    @pytest.mark.parametrize("state", list(State))
    def test_by_state(self, store: Store, state: State) -> None:
        made = one_of_each_state(store)
        assert ids(store.list_instances(state=state)) == [made[state].id]

    def test_by_definition_and_state(self, store: Store) -> None:
        mine, _ = ended(store), ended(store)
        of = mine.definition.id
        found = store.list_instances(definition_id=of, state=State.COMPLETED)
        assert found == [mine]
        assert store.list_instances(definition_id=of, state=State.FAILED) == []

    def test_by_the_name_of_their_definition(self, store: Store) -> None:
        mine = pending(store, definition(name="a"))
        pending(store, definition(name="b"))
        pending(store)
        assert ids(store.list_instances(name="a")) == [mine.id]
        store.delete_definitions([mine.definition.id])
        assert store.list_instances(name="a") == []

    def test_what_is_left_of_a_deleted_definition_keeps_its_name(
        self, store: Store
    ) -> None:
        mine = ended(store, definition(name="a"))
        store.delete_definitions([mine.definition.id])
        assert ids(store.list_instances(name="a")) == [mine.id]

    def test_by_their_key(self, store: Store) -> None:
        new, other = put(store), put(store)
        for each in (new, other):
            store.add_instances(each.id, [Addition(id=uuid4(), key="a")])
            fire(store, each)
        assert len(store.list_instances(key="a")) == 2
        [found] = store.list_instances(key="a", definition_id=new.id)
        assert (found.key, found.definition.id) == ("a", new.id)
        for of, state in ((new.id, State.COMPLETED), (NOBODY, None)):
            assert store.list_instances(key="a", definition_id=of, state=state) == []
        assert store.list_instances(key="b", definition_id=new.id) == []

    def test_since_a_time(self, store: Store) -> None:
        new = put(store)
        fire(store, new, START - TICK, START, START + HOUR)
        for of in (None, new.id):
            found = store.list_instances(definition_id=of, since=START)
            assert [each.fire_time for each in found] == [START, START + HOUR]
            found = store.list_instances(
                definition_id=of, since=START, newest_first=True
            )
            assert [each.fire_time for each in found] == [START + HOUR, START]

    def test_by_the_fire_time_whenever_they_are_to_run(self, store: Store) -> None:
        new, other = put(store), put(store)
        times = (START, START + SECOND, START + HOUR)
        later = tuple(each + 2 * HOUR for each in times)
        step = replace(firing(new, *times), execute_times=later)
        assert store.fire_definitions([step]).done == {new.id}
        fire(store, other, START)
        store.add_instances(new.id, [Addition(id=NOBODY, at=START)])

        def listed(
            since: datetime | None = None, before: datetime | None = None
        ) -> Sequence[datetime | None]:
            found = store.list_instances(
                definition_id=new.id, fired_since=since, fired_before=before
            )
            return [each.fire_time for each in found]

        assert listed(START, START + SECOND) == [START]
        assert listed(START + SECOND) == [*times[1:]]
        assert listed(before=START + HOUR) == [*times[:2]]
        assert listed(START + TICK, START + SECOND) == []
        assert len(listed()) == 4

    @pytest.mark.parametrize("limit", [1, 2, 4])
    @pytest.mark.parametrize("newest_first", [False, True])
    def test_pages_since_a_time_follow_each_other(
        self, store: Store, limit: int, newest_first: bool
    ) -> None:
        new = put(store)
        for each in (new, put(store)):
            fire(store, each, START - HOUR, START, START + SECOND, START + MINUTE)
        for of in (None, new.id):
            everything = ids(
                store.list_instances(
                    definition_id=of, since=START, newest_first=newest_first
                )
            )
            after, read = None, []
            while page := store.list_instances(
                definition_id=of,
                since=START,
                newest_first=newest_first,
                after=after,
                limit=limit,
            ):
                read += ids(page)
                after = Position.of_instance(page[-1])
            assert read == everything
            assert len(read) == (3 if of else 6)

    def test_newest_first_is_the_same_backwards(self, store: Store) -> None:
        for _ in range(3):
            fire(store, put(store), START, START + SECOND)
        backwards = store.list_instances(newest_first=True)
        assert ids(backwards) == ids(store.list_instances())[::-1]

    def test_a_page_of_one_state_is_full(self, store: Store) -> None:
        fire(store, put(store), *(START + number * SECOND for number in range(4)))
        [first] = claim(store)
        assert finish(store, first)
        found = store.list_instances(state=State.PENDING, limit=2)
        assert [each.fire_time for each in found] == [
            START + SECOND,
            START + 2 * SECOND,
        ]

    def test_a_claim_that_has_lapsed_still_counts_as_claimed(
        self, store: Store, clock: ManualClock
    ) -> None:
        held, run = claimed(store), running(store)
        clock.advance(HOUR)
        assert ids(store.list_instances(state=State.CLAIMED)) == [held.id]
        assert ids(store.list_instances(state=State.RUNNING)) == [run.id]

    def test_every_state_has_a_count(self, store: Store) -> None:
        assert store.counts() == dict.fromkeys(State, 0)

    def test_each_instance_is_counted_in_its_state(self, store: Store) -> None:
        one_of_each_state(store)
        pending(store, definition(START + SECOND))
        assert store.counts() == {**dict.fromkeys(State, 1), State.PENDING: 2}

    def test_what_is_removed_is_not_counted(self, store: Store) -> None:
        for instance in one_of_each_state(store).values():
            store.delete_definitions([instance.definition.id])
        clean_up(store, older_than=ZERO, limit=100)
        assert store.counts() == dict.fromkeys(State, 0)
