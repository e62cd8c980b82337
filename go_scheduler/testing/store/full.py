"""Store suite: no more of a definition wait than its ``max_queue`` says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pytest

from go_scheduler.errors import (
    QueueFullError,
)
from go_scheduler.models import Skipped, Stage, State
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Addition
from go_scheduler.testing.builders import (
    MINUTE,
    NOBODY,
    SECOND,
    YEAR,
    at_once,
    claim,
    clean_up,
    finish,
    hand_on,
    ids,
    instances,
    put,
    release,
    start,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.additions import add, task
from go_scheduler.testing.store.stages import told

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock


class FullTests:
    """``add_instances`` of what is full, and what counts what waits."""

    def test_no_more_wait_than_may(self, store: Store) -> None:
        of = put(store, replace(task(), max_queue=3))
        first = add(store, of, key="a")
        [run] = claim(store)
        assert run.id == first.id
        # What runs does not wait; a key that is there, or comes twice, is nothing new.
        keys = ("a", "b", "b", "c", "d")
        wanted = [Addition(key=key) for key in keys]
        made = store.add_instances(of.id, wanted)
        assert len({*ids(made)}) == 4
        for again in (wanted, wanted[:1], wanted[-1:], [replace(wanted[1], key=None)]):
            assert len(store.add_instances(of.id, again)) == len(again)
        for refused in ([Addition()], [Addition(), *wanted], [Addition(key="e")]):
            with pytest.raises(QueueFullError, match="3 instances waiting") as caught:
                store.add_instances(of.id, refused)
            assert (caught.value.definition_id, caught.value.max_queue) == (of.id, 3)
        assert len(instances(store, of)) == 4
        release(store, run)
        put(store, replace(of, revision=None, max_queue=4))
        with pytest.raises(QueueFullError):
            add(store, of)
        store.cancel_instances({first.id: None})
        add(store, of)
        put(store, replace(of, revision=None, max_queue=None))
        assert len(store.add_instances(of.id, [Addition(), Addition()])) == 2

    def test_what_is_dropped_is_recorded(self, store: Store) -> None:
        of = put(store, replace(task(), max_queue=2, when_full="drop"))
        keys = ("a", "b", "b", "c", None)
        wanted = [Addition(key=key, delay=SECOND, payload={"n": 1}) for key in keys]
        *made, lost, last = found = store.add_instances(of.id, wanted)
        assert ids(found) == [wanted[each].id for each in (0, 1, 1, 3, 4)]
        assert {each.state for each in made} == {State.PENDING}
        at = START + SECOND
        reason = "2 of it wait, and no more may (max_queue)"
        for each, addition in ((lost, wanted[3]), (last, wanted[4])):
            assert each == store.get_instance(each.id)
            assert (each.state, each.completed_at) == (State.SKIPPED, START)
            assert each.skipped == Skipped(first=at, last=at, count=1, reason=reason)
            assert (each.execute_at, each.created_at) == (at, START)
            assert (each.key, each.payload) == (addition.key, {"n": 1})
            assert (each.attempt, each.runs, each.parked) == (0, 0, False)
        assert store.counts()[State.SKIPPED] == 2
        # It stays what it was, whether or not there is room by now.
        store.cancel_instances({made[0].id: None})
        assert store.add_instances(of.id, wanted[2:4]) == [made[1], lost]
        assert add(store, of, key="c", payload={"n": 2}) == lost
        assert add(store, of).state is State.PENDING
        assert len(claim(store, ahead=SECOND, limit=9)) == 2

    def test_a_key_that_was_dropped_goes_with_its_record(
        self, store: Store, clock: ManualClock
    ) -> None:
        of = put(store, replace(task(), max_queue=1, when_full="drop"))
        first = add(store, of)
        assert add(store, of, key="k").state is State.SKIPPED
        store.cancel_instances({first.id: None})
        clock.advance(YEAR)
        assert clean_up(store) == 2
        assert add(store, of, key="k").state is State.PENDING

    def test_what_is_dropped_of_one_that_excludes_others_waits_for_none(
        self, store: Store
    ) -> None:
        of = put(
            store,
            replace(task(), overlap=Overlap.BUFFER_ALL, max_queue=1, when_full="drop"),
        )
        [first, lost] = store.add_instances(of.id, [Addition(), Addition()])
        assert lost.state is State.SKIPPED
        [run] = claim(store)
        assert run.id == first.id
        start(store, run)
        store.pause_definitions([of.id])
        waits, lost = store.add_instances(of.id, [Addition(), Addition()])
        assert (waits.state, lost.state) == (State.PENDING, State.SKIPPED)
        store.resume_definitions([of.id])
        assert finish(store, run)
        store.review_parked(limit=9)
        assert ids(claim(store)) == [waits.id]

    def test_those_that_wait_are_counted_up_to_a_bound(self, store: Store) -> None:
        of = put(store, task())
        assert store.count_waiting(of.id, most=3) == 0
        for _ in range(5):
            add(store, of)
        running, *_ = claim(store, limit=2)
        assert store.count_waiting(of.id, most=9) == 3
        assert store.count_waiting(of.id, most=2) == 2
        release(store, running)
        assert store.count_waiting(of.id, most=9) == 4
        store.cancel_instances({running.id: None})
        assert store.count_waiting(of.id, most=9) == 3
        assert store.count_waiting(NOBODY, most=9) == 0

    def test_what_nobody_has_begun_on_a_bus_waits(self, store: Store) -> None:
        of = put(store, replace(task(), max_queue=4, when_full="drop"))
        for _ in range(5):
            add(store, of)
            claim(store)
        published, accepted, asked, begun, handed_on = instances(store, of)
        hand_on(store, handed_on, lease=MINUTE)
        for each in (published, accepted, asked, begun):
            told(store, each, Stage.PUBLISHED)
        told(store, accepted, Stage.ACCEPTED)
        told(store, begun, Stage.STARTED)
        store.cancel_instances({asked.id: None})
        assert store.count_waiting(of.id, most=9) == 3
        assert store.count_waiting(of.id, most=1) == 1
        states = [add(store, of).state for _ in range(2)]
        assert states == [State.PENDING, State.SKIPPED]
        # It begins; another one ends.
        told(store, accepted, Stage.STARTED)
        assert finish(store, published)
        assert store.count_waiting(of.id, most=9) == 2
        states = [add(store, of).state for _ in range(3)]
        assert states == [State.PENDING, State.PENDING, State.SKIPPED]

    @pytest.mark.parametrize("when_full", ["refuse", "drop"])
    def test_those_that_add_at_once_do_not_exceed_it_together(
        self, store: Store, when_full: Literal["refuse", "drop"]
    ) -> None:
        of = put(store, replace(task(), max_queue=3, when_full=when_full))

        def try_to() -> bool:
            try:
                return add(store, of).state is State.PENDING
            except QueueFullError:
                return False

        assert at_once(*[try_to] * 6).count(True) == 3
        found = [each.state for each in instances(store, of)]
        assert found.count(State.PENDING) == 3
        assert found.count(State.SKIPPED) == (3 if when_full == "drop" else 0)
