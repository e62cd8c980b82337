"""Store suite: instances are made by hand, up to the ``max_queue`` of a definition.

Of calls that are made at the same moment any may be told that it is busy, the more so
on a busy machine; a node then asks again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pytest

from go_scheduler.errors import (
    QueueFullError,
    StoreUnavailableError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.models import (
    DefinitionState,
    Outcome,
    Skipped,
    Stage,
    State,
    TaskInstance,
)
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Addition, Release, RunOutcome
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    NOBODY,
    SECOND,
    WAITING,
    YEAR,
    at_once,
    cancel,
    claim,
    claim_of,
    claimant,
    clean_up,
    definition,
    due,
    ended,
    finish,
    fire,
    firing,
    hand_on,
    ids,
    instances,
    kept_by_store,
    put,
    release,
    start,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.remote_runs import told
from go_scheduler.testing.store.values import METADATA, TEXTS, TIMES, same
from go_scheduler.triggers.on_demand import OnDemandTrigger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Answer, Claim, Firing
    from go_scheduler.testing.clock import ManualClock


def task(**fields: Any) -> TaskDefinition:
    """A definition that fires only on demand."""
    return definition(None, trigger=OnDemandTrigger(), **fields)


def add(store: Store, to: TaskDefinition, **fields: Any) -> TaskInstance:
    """Add one instance and return it as answered."""
    [added] = store.add_instances(to.id, [Addition(**fields)])
    return added


class AddTests:
    """``add_instances``."""

    def test_one_is_made_that_is_due_at_once(self, store: Store) -> None:
        of = put(store, task(name="send", queue="mail"))
        added = add(store, of, payload={"order": 7})
        assert added.state is State.PENDING
        expected = TaskInstance(
            id=added.id,
            definition=of,
            fire_time=None,
            execute_at=START,
            due_at=START,
            payload={"order": 7},
            created_at=START,
        )
        for found in (added, store.get_instance(added.id), *instances(store, of)):
            assert found == expected
        assert ids(claim(store, queues=["mail"])) == [added.id]

    def test_many_are_made_in_their_order(self, store: Store) -> None:
        of = put(store, task())
        assert store.add_instances(of.id, []) == []
        wanted = [Addition(payload={"number": number}) for number in range(120)]
        added = store.add_instances(of.id, wanted)
        assert [each.payload for each in added] == [each.payload for each in wanted]
        assert ids(added) == ids(wanted)  # type: ignore[arg-type]
        assert len(claim(store, limit=200)) == 120

    def test_one_is_due_at_its_time_or_after_its_delay(
        self, store: Store, clock: ManualClock
    ) -> None:
        of = put(store, task())
        clock.advance(MINUTE)
        passed = add(store, of, at=START - YEAR)
        delayed = add(store, of, delay=HOUR)
        later = add(store, of, at=START + YEAR)
        for each, at in (
            (passed, START - YEAR),
            (delayed, START + MINUTE + HOUR),
            (later, START + YEAR),
        ):
            for found in (each, store.get_instance(each.id)):
                assert found.execute_at == found.due_at == at
        assert ids(claim(store, ahead=HOUR - SECOND)) == [passed.id]
        clock.advance(HOUR)
        [run] = claim(store)
        assert (run.id, run.started_at) == (delayed.id, START + MINUTE + HOUR)

    def test_times_payloads_and_keys_come_back(self, store: Store) -> None:
        of = put(store, task())
        for name, at in TIMES.items():
            added = add(store, of, at=at)
            found = store.get_instance(added.id)
            assert added.execute_at == found.execute_at == at, name
        for payload in METADATA:
            added = add(store, of, payload=payload, at=START)
            [run] = [each for each in claim(store) if each.id == added.id]
            for found in (added, run, store.get_instance(run.id)):
                assert same(found.payload, payload), payload
                with pytest.raises(TypeError):
                    found.payload["new"] = 1  # type: ignore[index]
        for key in filter(str.strip, TEXTS):
            added = add(store, of, key=key)
            assert added.key == store.get_instance(added.id).key == key
            assert add(store, of, key=key).id == added.id, f"{key!r} was added twice"

    def test_a_start_hands_over_the_payload(
        self, store: Store, clock: ManualClock
    ) -> None:
        add(store, put(store, task()), payload={"n": 1}, key="k", at=START + SECOND)
        claimed = claim(store, ahead=SECOND)
        clock.advance(SECOND)
        [run] = start(store, *claimed)
        assert (run.payload, run.key) == ({"n": 1}, "k")

    def test_a_key_is_kept_as_long_as_its_instance(
        self, store: Store, clock: ManualClock
    ) -> None:
        of = put(store, task())
        first = add(store, of, key="k", payload={"n": 1})
        clock.advance(SECOND)
        assert add(store, of, key="k", payload={"n": 2}, delay=HOUR) == first
        [run] = claim(store)
        assert finish(store, run)
        again = add(store, of, key="k")
        assert again == store.get_instance(first.id)
        assert again.outcome is Outcome.COMPLETED
        clock.advance(YEAR)
        assert clean_up(store) == 1
        new = add(store, of, key="k")
        assert new.id != first.id
        assert new.state is State.PENDING

    def test_a_key_is_its_definitions(self, store: Store) -> None:
        one, other = put(store, task()), put(store, task())
        first = add(store, one, key="k")
        assert add(store, other, key="k").id != first.id
        claim(store)
        store.delete_definitions([one.id])
        again = put(store, replace(one, revision=None))
        assert add(store, again, key="k").id != first.id, "of the deleted definition"

    def test_a_key_may_be_in_a_batch_twice(self, store: Store) -> None:
        of = put(store, task())
        first, second = store.add_instances(of.id, [Addition(key="known")] * 2)
        assert first == second
        assert instances(store, of) == [first]
        keys = ["new", "known", None, "new", None]
        added = store.add_instances(of.id, [Addition(key=each) for each in keys])
        assert [each.key for each in added] == keys
        assert added[0] == added[3]
        assert added[1] == first
        assert len({*ids(added)}) == len(instances(store, of)) == 4

    def test_an_addition_is_made_once_however_often_it_is_repeated(
        self, store: Store
    ) -> None:
        of = put(store, task())
        twice = [Addition(payload={"n": 1}), Addition(key="k")]
        first = store.add_instances(of.id, twice)
        assert store.add_instances(of.id, twice) == first
        assert len(instances(store, of)) == 2

    def test_there_must_be_a_definition(self, store: Store) -> None:
        gone = put(store, task())
        store.delete_definitions([gone.id])
        for missing in (gone.id, NOBODY):
            for additions in ([Addition(), Addition(key="k")], []):
                with pytest.raises(TaskDefinitionNotFoundError) as caught:
                    store.add_instances(missing, additions)
                assert caught.value.definition_id == missing
        assert store.counts()[State.PENDING] == 0

    def test_of_many_with_one_key_one_is_made(self, store: Store) -> None:
        of = put(store, task())
        for key in map(str, range(5)):
            answers = at_once(*[partial(add, store, of, key=key)] * 8)
            assert len({each.id for each in answers}) == 1  # type: ignore[attr-defined]
        assert len(instances(store, of)) == 5

    def test_a_key_added_beside_a_cleanup_has_an_instance(self, store: Store) -> None:
        of = put(store, task())

        def add_one() -> UUID:
            return add(store, of, key="k").id

        for _ in range(10):
            clean_up(store)
            first = add_one()
            [run] = claim(store)
            assert finish(store, run)
            *answers, _ = at_once(add_one, add_one, partial(clean_up, store))
            left = ids(instances(store, of))
            assert len(left) <= 1
            assert {first, *left}.issuperset(answers)

    def test_an_addition_beside_a_delete_leaves_nothing(self, store: Store) -> None:
        def add_one(of: TaskDefinition) -> None:
            with suppress(TaskDefinitionNotFoundError):
                add(store, of)

        for number in range(20):
            of = put(store, task(key=number + 1))
            adds = partial(add_one, of)
            at_once(adds, partial(store.delete_definitions, [of.id]), adds)
        assert store.counts()[State.PENDING] == 0
        assert claim(store) == []


class AddedTests:
    """What ``add_instances`` has made, and its definition."""

    def test_a_definition_that_fires_goes_on_as_it_would(self, store: Store) -> None:
        of = put(store, definition(START + HOUR))
        added = add(store, of, at=START + HOUR)
        found = store.get_definition(of.id)
        assert kept_by_store(found) == kept_by_store(of)
        one, other = fire(store, found)
        assert {one.fire_time, other.fire_time} == {None, START + HOUR}
        assert added.id in ids([one, other])

    def test_a_completed_definition_is_kept_with_what_is_added(
        self, store: Store, clock: ManualClock
    ) -> None:
        of, idle = ended(store).definition, put(store, definition(None))
        asked = put(store, definition(None, trigger=OnDemandTrigger(lasting=False)))
        clock.advance(HOUR)
        assert clean_up(store, older_than=2 * HOUR) == 0
        added = [add(store, each, at=START + YEAR) for each in (of, idle, asked)]
        assert store.get_definition(of.id).state is DefinitionState.COMPLETED
        clock.advance(YEAR)
        # It is the instance that had ended.
        assert clean_up(store) == 1
        runs = claim(store)
        assert {*ids(runs)} == {*ids(added)} == {*ids(store.list_instances())}
        for run in runs:
            assert finish(store, run)
        clock.advance(YEAR)
        assert clean_up(store) == 6
        assert store.list_definitions() == []

    def test_it_runs_for_as_long_as_its_definition_says(self, store: Store) -> None:
        first, edited = put(store, task(expire_after=SECOND)), put(store, task())
        for each in (first, edited):
            add(store, each)
        put(store, replace(edited, expire_after=SECOND))
        assert [each.expires_at for each in claim(store)] == [START + SECOND] * 2

    def test_a_pause_keeps_it(self, store: Store, clock: ManualClock) -> None:
        of = put(store, task())
        claimed = add(store, of, at=START + SECOND)
        assert ids(claim(store, ahead=SECOND)) == [claimed.id]
        [paused] = store.pause_definitions([of.id])
        assert (paused.next_fire_time, paused.completed_at) == (None, None)
        meanwhile = add(store, of)
        for each in (claimed, meanwhile):
            assert store.get_instance(each.id).state is State.PENDING
        clock.advance(LEASE)
        assert claim(store, lapsed=True) == []
        store.resume_definitions([of.id])
        assert {*ids(claim(store))} == {claimed.id, meanwhile.id}

    def test_no_trigger_waits_for_it(self, store: Store) -> None:
        of = put(store, definition(START + HOUR, trigger=WAITING))
        edited = put(store, task())
        for each in (of, edited):
            add(store, each)
        put(store, replace(of, id=edited.id, revision=None))
        for run in claim(store):
            assert finish(store, run, next_fire_time=START + YEAR)
        for each in due(store):
            assert each.next_fire_time == START + HOUR
            add(store, each)
            assert store.fire_definitions([firing(each)]).done == {each.id}
            later = add(store, each, at=START + YEAR)
            assert cancel(store, later, next_fire_time=START + YEAR)
            found = store.get_definition(each.id)
            assert (found.next_fire_time, found.completed_at) == (None, None)


_Row = TypeVar("_Row")
_Done = TypeVar("_Done")


def started(store: Store, *given: TaskInstance) -> Sequence[TaskInstance]:
    """Start instances under the claims they were read with."""
    return started_all(store, [claim_of(each) for each in given])


def started_all(store: Store, claims: Sequence[Claim]) -> Sequence[TaskInstance]:
    """Start instances under these claims."""
    start = partial(store.start_instances, claimant())
    return _done(start, claims, lambda each: each.instance_id)


def finished(
    store: Store, instance: TaskInstance, outcome: Outcome = Outcome.COMPLETED
) -> bool:
    """Finish one run, and tell whether it was accepted."""
    end = RunOutcome(
        claim=claim_of(instance), started_at=instance.started_at, outcome=outcome
    )
    return bool(_done(store.finish_instances, [end], _instance_of))


def released(store: Store, instance: TaskInstance) -> bool:
    """Give one instance back for an hour, and tell whether it was accepted."""
    release = Release(claim=claim_of(instance), delay=HOUR)
    return bool(_done(store.release_instances, [release], _instance_of))


def fired(store: Store, firings: Sequence[Firing]) -> Sequence[UUID]:
    """Fire definitions; those that were not fired by another."""
    return _done(store.fire_definitions, firings, lambda each: each.definition.id)


def backfilled(
    store: Store, definition: TaskDefinition, fire_times: Sequence[datetime]
) -> Sequence[datetime]:
    """Give fire times their instances; those that no other has given them."""
    made: list[Sequence[datetime]] = []
    while not made:
        with suppress(StoreUnavailableError):
            made.append(
                store.backfill_instances(definition, fire_times, overlap=Overlap.ALLOW)
            )
    return made[0]


def _done(
    call: Callable[[Sequence[_Row]], Answer[Collection[_Done]]],
    rows: Sequence[_Row],
    id_of: Callable[[_Row], UUID],
) -> Sequence[_Done]:
    """What a call has done in the end, made again for the rows that were busy."""
    done: list[_Done] = []
    while rows:
        answer = call(rows)
        done += answer.done
        rows = [each for each in rows if id_of(each) in answer.busy]
    return done


def _instance_of(row: RunOutcome | Release) -> UUID:
    return row.claim.instance_id


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

    def test_what_is_dropped_is_recorded(
        self, store: Store, clock: ManualClock
    ) -> None:
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
        assert len(claim(store, ahead=SECOND)) == 2
        # Its key goes with the record.
        clock.advance(YEAR)
        assert clean_up(store) == 3
        assert add(store, of, key="c").id not in ids(found)

    def test_what_is_dropped_waits_for_no_slot(self, store: Store) -> None:
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
