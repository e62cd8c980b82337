"""Store suite: instances are added by hand, up to ``max_queue`` of a definition."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import pytest

from go_scheduler.errors import QueueFullError, TaskDefinitionNotFoundError
from go_scheduler.models import DefinitionState, Outcome, Skipped, Stage, State
from go_scheduler.policies import Overlap
from go_scheduler.stores.base import count_unstarted
from go_scheduler.stores.messages import Addition
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    NOBODY,
    SECOND,
    WAITING,
    YEAR,
    Rig,
    StoreTests,
    at_once,
    check,
    counts_by_state,
    definition,
    firing,
    ids,
    kept_by_store,
    task,
    unclaimed,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.views import METADATA, TEXTS, TIMES, same
from go_scheduler.triggers.on_demand import OnDemandTrigger

if TYPE_CHECKING:
    from uuid import UUID

    from go_scheduler.models import TaskDefinition


class AddTests(StoreTests):
    """``add_instances`` and ``count_waiting``."""

    def test_one_is_made_that_is_due_at_once(self, rig: Rig) -> None:
        of = rig.put(task(name="send", queue="mail"))
        added = rig.add(of, payload={"order": 7})
        assert added.state is State.PENDING
        payload = {"order": 7}
        expected = unclaimed(
            of, added, fire_time=None, execute_at=START, payload=payload
        )
        for found in (added, rig.read(added), *rig.instances(of)):
            assert found == expected
        assert ids(rig.claim(queues=["mail"])) == [added.id]

    def test_many_are_made_in_their_order(self, rig: Rig) -> None:
        of = rig.put(task())
        assert rig.store.add_instances(of.id, []) == []
        wanted = [Addition(payload={"number": number}) for number in range(120)]
        added = rig.store.add_instances(of.id, wanted)
        assert [each.payload for each in added] == [each.payload for each in wanted]
        assert ids(added) == ids(wanted)  # type: ignore[arg-type]
        assert len(rig.claim(limit=200)) == 120

    def test_one_is_due_at_its_time_or_after_its_delay(self, rig: Rig) -> None:
        of = rig.put(task())
        rig.advance(MINUTE)
        passed = rig.add(of, at=START - YEAR)
        delayed = rig.add(of, delay=HOUR)
        later = rig.add(of, at=START + YEAR)
        for each, at in (
            (passed, START - YEAR),
            (delayed, START + MINUTE + HOUR),
            (later, START + YEAR),
        ):
            for found in (each, rig.read(each)):
                assert found.execute_at == found.due_at == at
        assert ids(rig.claim(ahead=HOUR - SECOND)) == [passed.id]
        rig.advance(HOUR)
        [run] = rig.claim()
        assert (run.id, run.started_at) == (delayed.id, START + MINUTE + HOUR)

    def test_times_payloads_and_keys_come_back(self, rig: Rig) -> None:
        of = rig.put(task())
        for name, at in TIMES.items():
            added = rig.add(of, at=at)
            found = rig.read(added)
            assert added.execute_at == found.execute_at == at, name
        for payload in METADATA:
            added = rig.add(of, payload=payload, at=START)
            [run] = [each for each in rig.claim() if each.id == added.id]
            for found in (added, run, rig.read(run)):
                assert same(found.payload, payload), payload
                with pytest.raises(TypeError):
                    found.payload["new"] = 1  # type: ignore[index]
        for key in filter(str.strip, TEXTS):
            added = rig.add(of, key=key)
            assert added.key == rig.read(added).key == key
            assert rig.add(of, key=key).id == added.id, f"{key!r} was added twice"

    def test_a_start_hands_over_the_payload(self, rig: Rig) -> None:
        rig.add(rig.put(task()), payload={"n": 1}, key="k", at=START + SECOND)
        claimed = rig.claim(ahead=SECOND)
        rig.advance(SECOND)
        [run] = rig.start(*claimed)
        assert (run.payload, run.key) == ({"n": 1}, "k")

    def test_a_key_is_kept_as_long_as_its_instance(self, rig: Rig) -> None:
        of = rig.put(task())
        first = rig.add(of, key="k", payload={"n": 1})
        rig.advance(SECOND)
        assert rig.add(of, key="k", payload={"n": 2}, delay=HOUR) == first
        assert len(rig.run_due()) == 1
        again = rig.add(of, key="k")
        assert again == rig.read(first)
        assert again.outcome is Outcome.COMPLETED
        rig.advance(YEAR)
        assert rig.clean_up() == 1
        new = rig.add(of, key="k")
        assert new.id != first.id
        assert new.state is State.PENDING

    def test_a_key_is_its_definitions(self, rig: Rig) -> None:
        one, other = rig.put(task()), rig.put(task())
        first = rig.add(one, key="k")
        assert rig.add(other, key="k").id != first.id
        rig.claim()
        rig.delete(one)
        again = rig.edit(one, revision=None)
        assert rig.add(again, key="k").id != first.id, "of the deleted definition"

    def test_a_key_may_be_in_a_batch_twice(self, rig: Rig) -> None:
        of = rig.put(task())
        first, second = rig.store.add_instances(of.id, [Addition(key="known")] * 2)
        assert first == second
        assert rig.instances(of) == [first]
        keys = ["new", "known", None, "new", None]
        added = rig.store.add_instances(of.id, [Addition(key=each) for each in keys])
        assert [each.key for each in added] == keys
        assert added[0] == added[3]
        assert added[1] == first
        assert len({*ids(added)}) == len(rig.instances(of)) == 4

    def test_a_repeated_addition_is_made_once(self, rig: Rig) -> None:
        of = rig.put(task())
        twice = [Addition(payload={"n": 1}), Addition(key="k")]
        first = rig.store.add_instances(of.id, twice)
        assert rig.store.add_instances(of.id, twice) == first
        assert len(rig.instances(of)) == 2

    def test_there_must_be_a_definition(self, rig: Rig) -> None:
        gone = rig.put(task())
        rig.delete(gone)
        for missing in (gone.id, NOBODY):
            for additions in ([Addition(), Addition(key="k")], []):
                with pytest.raises(TaskDefinitionNotFoundError) as caught:
                    rig.store.add_instances(missing, additions)
                assert caught.value.definition_id == missing
        assert counts_by_state(rig.store)[State.PENDING] == 0

    def test_of_many_with_one_key_one_is_made(self, rig: Rig) -> None:
        of = rig.put(task())
        for key in map(str, range(5)):
            answers = at_once(*[partial(rig.add, of, key=key)] * 8)
            assert len({each.id for each in answers}) == 1
        assert len(rig.instances(of)) == 5

    def test_a_key_added_beside_a_cleanup_has_an_instance(self, rig: Rig) -> None:
        of = rig.put(task())

        def add_one() -> UUID:
            return rig.add(of, key="k").id

        for _ in range(10):
            rig.clean_up()
            first = add_one()
            assert len(rig.run_due()) == 1
            *answers, _ = at_once(add_one, add_one, rig.clean_up)
            left = ids(rig.instances(of))
            assert len(left) <= 1
            assert {first, *left}.issuperset(answers)

    def test_an_addition_beside_a_delete_leaves_nothing(self, rig: Rig) -> None:
        def add_one(of: TaskDefinition) -> None:
            with suppress(TaskDefinitionNotFoundError):
                rig.add(of)

        for number in range(20):
            of = rig.put(task(key=number + 1))
            adds = partial(add_one, of)
            at_once(adds, partial(rig.store.delete_definitions, [of.id]), adds)
        assert counts_by_state(rig.store)[State.PENDING] == 0
        assert rig.claim() == []

    def test_a_definition_that_fires_goes_on_as_it_would(self, rig: Rig) -> None:
        of = rig.put(definition(START + HOUR))
        added = rig.add(of, at=START + HOUR)
        found = rig.read(of)
        assert kept_by_store(found) == kept_by_store(of)
        one, other = rig.fire(found)
        assert {one.fire_time, other.fire_time} == {None, START + HOUR}
        assert added.id in ids([one, other])

    def test_a_completed_definition_is_kept_with_what_is_added(self, rig: Rig) -> None:
        of, idle = rig.ended().definition, rig.put(definition(None))
        asked = rig.put(definition(None, trigger=OnDemandTrigger(lasting=False)))
        rig.advance(HOUR)
        assert rig.clean_up(older_than=2 * HOUR) == 0
        added = [rig.add(each, at=START + YEAR) for each in (of, idle, asked)]
        assert rig.read(of).state is DefinitionState.COMPLETED
        rig.advance(YEAR)
        # It is the instance that had ended.
        assert rig.clean_up() == 1
        runs = rig.claim()
        assert {*ids(runs)} == {*ids(added)} == {*ids(rig.store.select())}
        for run in runs:
            assert rig.finish(run)
        rig.advance(YEAR)
        assert rig.clean_up() == 6
        assert rig.store.select_definitions() == []

    def test_it_runs_for_as_long_as_its_definition_says(self, rig: Rig) -> None:
        first, edited = rig.put(task(expire_after=SECOND)), rig.put(task())
        for each in (first, edited):
            rig.add(each)
        rig.edit(edited, expire_after=SECOND)
        assert [each.expires_at for each in rig.claim()] == [START + SECOND] * 2

    def test_a_pause_keeps_it(self, rig: Rig) -> None:
        of = rig.put(task())
        claimed = rig.add(of, at=START + SECOND)
        assert ids(rig.claim(ahead=SECOND)) == [claimed.id]
        paused = rig.pause(of)
        assert (paused.next_fire_time, paused.completed_at) == (None, None)
        meanwhile = rig.add(of)
        for each in (claimed, meanwhile):
            assert rig.read(each).state is State.PENDING
        rig.advance(LEASE)
        assert rig.claim(lapsed=True) == []
        rig.resume(of)
        assert {*ids(rig.claim())} == {claimed.id, meanwhile.id}

    def test_no_trigger_waits_for_it(self, rig: Rig) -> None:
        of = rig.put(definition(START + HOUR, trigger=WAITING))
        edited = rig.put(task())
        for each in (of, edited):
            rig.add(each)
        rig.edit(of, id=edited.id, revision=None)
        rig.run_due(next_fire_time=START + YEAR)
        for each in rig.due():
            assert each.next_fire_time == START + HOUR
            rig.add(each)
            assert rig.fire_steps(firing(each)) == [each.id]
            later = rig.add(each, at=START + YEAR)
            assert rig.cancel(later, next_fire_time=START + YEAR)
            rig.check(each, next_fire_time=None, completed_at=None)

    def test_no_more_wait_than_may(self, rig: Rig) -> None:
        of = rig.put(task(max_queue=3))
        first = rig.add(of, key="a")
        [run] = rig.claim()
        assert run.id == first.id
        # What runs does not wait; a key that is there, or comes twice, is nothing new.
        keys = ("a", "b", "b", "c", "d")
        wanted = [Addition(key=key) for key in keys]
        made = rig.store.add_instances(of.id, wanted)
        assert len({*ids(made)}) == 4
        for again in (wanted, wanted[:1], wanted[-1:], [replace(wanted[1], key=None)]):
            assert len(rig.store.add_instances(of.id, again)) == len(again)
        for refused in ([Addition()], [Addition(), *wanted], [Addition(key="e")]):
            with pytest.raises(QueueFullError, match="3 instances waiting") as caught:
                rig.store.add_instances(of.id, refused)
            assert (caught.value.definition_id, caught.value.max_queue) == (of.id, 3)
        assert len(rig.instances(of)) == 4
        rig.release(run)
        rig.edit(of, revision=None, max_queue=4)
        with pytest.raises(QueueFullError):
            rig.add(of)
        rig.cancel(first)
        rig.add(of)
        rig.edit(of, revision=None, max_queue=None)
        assert len(rig.store.add_instances(of.id, [Addition(), Addition()])) == 2

    def test_what_is_dropped_is_recorded(self, rig: Rig) -> None:
        of = rig.put(task(max_queue=2, when_full="drop"))
        keys = ("a", "b", "b", "c", None)
        wanted = [Addition(key=key, delay=SECOND, payload={"n": 1}) for key in keys]
        *made, lost, last = found = rig.store.add_instances(of.id, wanted)
        assert ids(found) == [wanted[each].id for each in (0, 1, 1, 3, 4)]
        assert {each.state for each in made} == {State.PENDING}
        at = START + SECOND
        reason = "2 of it wait, and no more may (max_queue)"
        for each, addition in ((lost, wanted[3]), (last, wanted[4])):
            assert each == rig.read(each)
            check(each, state=State.SKIPPED, completed_at=START)
            check(each, skipped=Skipped(first=at, last=at, count=1, reason=reason))
            check(each, execute_at=at, created_at=START, key=addition.key)
            check(each, payload={"n": 1}, attempt=0, runs=0, parked=False)
        assert counts_by_state(rig.store)[State.SKIPPED] == 2
        # It stays what it was, whether or not there is room by now.
        rig.cancel(made[0])
        assert rig.store.add_instances(of.id, wanted[2:4]) == [made[1], lost]
        assert rig.add(of, key="c", payload={"n": 2}) == lost
        assert rig.add(of).state is State.PENDING
        assert len(rig.claim(ahead=SECOND)) == 2
        # Its key goes with the record.
        rig.advance(YEAR)
        assert rig.clean_up() == 3
        assert rig.add(of, key="c").id not in ids(found)

    def test_what_is_dropped_waits_for_no_slot(self, rig: Rig) -> None:
        of = rig.put(task(overlap=Overlap.BUFFER_ALL, max_queue=1, when_full="drop"))
        [first, lost] = rig.store.add_instances(of.id, [Addition(), Addition()])
        assert lost.state is State.SKIPPED
        [run] = rig.claim()
        assert run.id == first.id
        rig.start(run)
        rig.pause(of)
        waits, lost = rig.store.add_instances(of.id, [Addition(), Addition()])
        assert (waits.state, lost.state) == (State.PENDING, State.SKIPPED)
        rig.resume(of)
        assert rig.finish(run)
        rig.store.review_parked(limit=9)
        assert ids(rig.claim()) == [waits.id]

    def test_those_that_wait_are_counted_up_to_a_bound(self, rig: Rig) -> None:
        of = rig.put(task())
        assert count_unstarted(rig.store, of.id, most=3) == 0
        for _ in range(5):
            rig.add(of)
        running, *_ = rig.claim(limit=2)
        assert count_unstarted(rig.store, of.id, most=9) == 3
        assert count_unstarted(rig.store, of.id, most=2) == 2
        rig.release(running)
        assert count_unstarted(rig.store, of.id, most=9) == 4
        rig.cancel(running)
        assert count_unstarted(rig.store, of.id, most=9) == 3
        assert count_unstarted(rig.store, NOBODY, most=9) == 0

    def test_what_nobody_has_begun_on_a_bus_waits(self, rig: Rig) -> None:
        of = rig.put(task(max_queue=4, when_full="drop"))
        for _ in range(5):
            rig.add(of)
            rig.claim()
        published, accepted, asked, begun, handed_on = rig.instances(of)
        rig.hand_on(handed_on, lease=MINUTE)
        for each in (published, accepted, asked, begun):
            rig.report_stage(each, Stage.PUBLISHED)
        rig.report_stage(accepted, Stage.ACCEPTED)
        rig.report_stage(begun, Stage.STARTED)
        rig.cancel(asked)
        assert count_unstarted(rig.store, of.id, most=9) == 3
        assert count_unstarted(rig.store, of.id, most=1) == 1
        states = [rig.add(of).state for _ in range(2)]
        assert states == [State.PENDING, State.SKIPPED]
        # It begins; another one ends.
        rig.report_stage(accepted, Stage.STARTED)
        assert rig.finish(published)
        assert count_unstarted(rig.store, of.id, most=9) == 2
        states = [rig.add(of).state for _ in range(3)]
        assert states == [State.PENDING, State.PENDING, State.SKIPPED]

    @pytest.mark.parametrize("when_full", ["refuse", "drop"])
    def test_concurrent_additions_keep_the_limit(
        self, rig: Rig, when_full: Literal["refuse", "drop"]
    ) -> None:
        of = rig.put(task(max_queue=3, when_full=when_full))

        def try_to() -> bool:
            try:
                return rig.add(of).state is State.PENDING
            except QueueFullError:
                return False

        assert at_once(*[try_to] * 6).count(True) == 3
        found = [each.state for each in rig.instances(of)]
        assert found.count(State.PENDING) == 3
        assert found.count(State.SKIPPED) == (3 if when_full == "drop" else 0)
