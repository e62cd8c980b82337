"""Store suite: what was added is an instance like any, and no fire time's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.models import DefinitionState, State
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    OTHER_NODE,
    SECOND,
    WAITING,
    YEAR,
    cancel,
    claim,
    clean_up,
    definition,
    due,
    finish,
    fire,
    firing,
    ids,
    instances,
    put,
    release,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.additions import add, task

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class AddedTests:
    """What ``add_instances`` has made, and its definition."""

    def test_a_definition_that_fires_goes_on_as_it_would(self, store: Store) -> None:
        of = put(store, definition(START + HOUR))
        added = add(store, of, at=START + HOUR)
        found = store.get_definition(of.id)
        assert found.next_fire_time == START + HOUR
        assert found.revision == of.revision
        [one, other] = fire(store, found)
        assert {one.fire_time, other.fire_time} == {None, START + HOUR}
        assert added.id in ids([one, other])

    def test_a_completed_definition_gets_one_too(
        self, store: Store, clock: ManualClock
    ) -> None:
        of = put(store)
        assert store.fire_definitions([firing(of)]).done
        [run] = claim(store)
        assert finish(store, run)
        clock.advance(HOUR)
        assert clean_up(store, older_than=2 * HOUR) == 0
        added = add(store, of)
        assert store.get_definition(of.id).state is DefinitionState.COMPLETED
        clock.advance(YEAR)
        assert clean_up(store) == 1
        assert ids(instances(store, of)) == [added.id]
        [run] = claim(store)
        assert finish(store, run)
        clock.advance(YEAR)
        assert clean_up(store) == 2

    def test_an_idle_definition_that_gets_one_is_kept(
        self, store: Store, clock: ManualClock
    ) -> None:
        of = put(store, definition(None))
        assert of.state is DefinitionState.COMPLETED
        clock.advance(YEAR)
        added = add(store, of)
        assert clean_up(store) == 0
        assert ids(claim(store)) == [added.id]

    def test_it_is_cancelled_like_any(self, store: Store) -> None:
        of = put(store, task())
        added = add(store, of)
        assert cancel(store, added)
        assert store.get_instance(added.id).state is State.CANCELLED
        assert store.get_definition(of.id).state is DefinitionState.ACTIVE
        assert claim(store) == []

    def test_it_goes_with_its_definition(self, store: Store) -> None:
        of = put(store, task())
        add(store, of, at=START + HOUR)
        store.delete_definitions([of.id])
        assert store.counts()[State.PENDING] == 0

    def test_it_follows_its_definition(self, store: Store) -> None:
        of = put(store, task())
        added = add(store, of, at=START)
        put(store, replace(of, queue="other", expire_after=SECOND))
        assert claim(store) == []
        [run] = claim(store, queues=["other"])
        assert run.id == added.id
        assert run.expires_at == START + SECOND

    def test_it_runs_for_as_long_as_its_definition_says(self, store: Store) -> None:
        add(store, put(store, task(expire_after=SECOND)))
        [run] = claim(store)
        assert run.expires_at == START + SECOND

    def test_a_pause_keeps_it(self, store: Store, clock: ManualClock) -> None:
        of = put(store, task())
        waiting = add(store, of, at=START + SECOND)
        assert ids(claim(store, ahead=SECOND)) == [waiting.id]
        [paused] = store.pause_definitions([of.id])
        assert (paused.next_fire_time, paused.completed_at) == (None, None)
        assert store.get_instance(waiting.id).state is State.PENDING
        clock.advance(LEASE)
        assert claim(store, lapsed=True) == []
        store.resume_definitions([of.id])
        assert ids(claim(store)) == [waiting.id]

    def test_what_is_added_to_a_paused_one_is_kept(
        self, store: Store, clock: ManualClock
    ) -> None:
        of = put(store, replace(task(), paused=True))
        added = add(store, of)
        assert added.state is State.PENDING
        clock.advance(HOUR)
        assert claim(store) == []
        store.resume_definitions([of.id])
        assert ids(claim(store)) == [added.id]

    def test_another_trigger_keeps_it(self, store: Store) -> None:
        of = put(store, definition(START + HOUR))
        added = add(store, of)
        fire(store, of)
        new = put(store, replace(task(), id=of.id))
        assert ids(instances(store, new)) == [added.id]

    def test_it_is_given_back_and_tried_again_like_any(
        self, store: Store, clock: ManualClock
    ) -> None:
        of = put(store, task())
        added = add(store, of)
        [run] = claim(store)
        assert release(store, run)
        [run] = claim(store)
        assert finish(store, run, None, retry_in=SECOND)
        clock.advance(SECOND)
        [run] = claim(store, OTHER_NODE)
        assert (run.id, run.attempt, run.runs) == (added.id, 3, 2)

    def test_no_trigger_waits_for_it(self, store: Store) -> None:
        of = put(store, definition(trigger=WAITING))
        add(store, of)
        [run] = claim(store)
        assert store.fire_definitions([firing(of)]).done == {of.id}
        assert finish(store, run, next_fire_time=START + YEAR)
        found = store.get_definition(of.id)
        assert (found.next_fire_time, found.completed_at) == (None, None)

    def test_no_trigger_that_an_edit_gives_waits_for_it(self, store: Store) -> None:
        of = put(store, task())
        add(store, of)
        [run] = claim(store)
        put(store, replace(definition(START + HOUR, trigger=WAITING), id=of.id))
        assert finish(store, run, next_fire_time=START + YEAR)
        [waiting] = due(store)
        assert waiting.next_fire_time == START + HOUR
        assert store.fire_definitions([firing(waiting)]).done == {of.id}
        later = add(store, of, at=START + YEAR)
        assert cancel(store, later, next_fire_time=START + YEAR)
        assert store.get_definition(of.id).next_fire_time is None
