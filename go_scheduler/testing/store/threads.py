"""Store suite: of calls made at the same moment, one wins."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from go_scheduler.errors import ConflictError
from go_scheduler.models import Cancelled, Outcome, State
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    TICK,
    WAITING,
    Rig,
    StoreTests,
    at_once,
    definition,
    firing,
    ids,
    times,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.models import TaskDefinition

THREADS = 8
ROUNDS = 5


class ThreadTests(StoreTests):
    """Calls made at the same moment."""

    def test_two_nodes_never_claim_the_same_instance(self, rig: Rig) -> None:
        rig.fire(rig.put(), *(START + number * TICK for number in range(60)))

        def claim_all(number: int) -> Sequence[UUID]:
            mine: list[UUID] = []
            while page := rig.claim(UUID(int=number + 1), ahead=HOUR, limit=7):
                mine += ids(page)
            return mine

        answers = at_once(*(partial(claim_all, number) for number in range(THREADS)))
        taken = Counter(each for mine in answers for each in mine)
        assert set(taken.values()) == {1}
        assert len(taken) == 60
        assert {each.attempt for each in rig.store.list_instances()} == {1}

    def test_two_nodes_never_take_over_the_same_claim(self, rig: Rig) -> None:
        rig.fire(rig.put(), *(START - number * TICK for number in range(20)))
        rig.claim()
        rig.advance(LEASE)
        nodes = (UUID(int=number + 10) for number in range(THREADS))
        answers = at_once(*(partial(rig.claim, node, lapsed=True) for node in nodes))
        taken = [each.id for answer in answers for each in answer]
        assert len(taken) == len(set(taken)) == 20
        assert {each.attempt for each in rig.store.list_instances()} == {2}

    def test_many_schedulers_fire_each_definition_once(self, rig: Rig) -> None:
        read = [rig.put() for _ in range(20)]

        def fire_all(number: int) -> Sequence[UUID]:
            turned = read[number:] + read[:number]
            steps = [firing(each, next_fire_time=START + HOUR) for each in turned]
            return rig.fire_steps(*steps)

        answers = at_once(*(partial(fire_all, number) for number in range(THREADS)))
        won = Counter(each for answer in answers for each in answer)
        assert won == Counter(ids(read))
        for each in read:
            assert times(rig.instances(each)) == [START]
            assert rig.read(each).next_fire_time == START + HOUR

    def test_a_run_is_finished_once(self, rig: Rig) -> None:
        for _ in range(ROUNDS):
            instance = rig.running()
            end = partial(rig.finish, instance, Outcome.COMPLETED)
            assert sorted(map(bool, at_once(end, end))) == [False, True]

    def test_a_run_is_finished_or_given_back(self, rig: Rig) -> None:
        for _ in range(ROUNDS):
            instance = rig.running()
            ended, given_back = at_once(
                partial(rig.finish, instance, Outcome.FAILED),
                partial(rig.release, instance, HOUR),
            )
            assert ended != given_back
            state = rig.read(instance).state
            assert state is (State.FAILED if ended else State.PENDING)

    def test_a_run_is_finished_or_taken_over(self, rig: Rig) -> None:
        for _ in range(ROUNDS):
            instance = rig.running(definition(rig.now()))
            rig.advance(LEASE)
            ended, taken = at_once(
                partial(rig.finish, instance, Outcome.FAILED),
                rig.take_over,
            )
            assert ended != bool(taken)
            assert rig.read(instance).runs == (1 if ended else 2)
            rig.delete(instance.definition)

    def test_a_start_counts_once(self, rig: Rig) -> None:
        instance = rig.claimed()
        answers = at_once(*[partial(rig.start, instance)] * THREADS)
        assert all(ids(answer) == [instance.id] for answer in answers)
        assert rig.read(instance).runs == 1

    def test_an_instance_is_cancelled_or_started(self, rig: Rig) -> None:
        for _ in range(ROUNDS):
            instance = rig.claimed()
            answer, runs = at_once(
                partial(rig.cancel, instance), partial(rig.start, instance)
            )
            expected = Cancelled.REQUESTED if runs else Cancelled.CANCELLED
            assert answer == {instance.id: expected}

    def test_a_fire_beside_a_pause_loses_nothing(self, rig: Rig) -> None:
        for _ in range(ROUNDS):
            read = rig.put(definition(START + MINUTE))
            step = firing(read, next_fire_time=START + HOUR)
            at_once(
                partial(rig.store.fire_definitions, [step]),
                partial(rig.store.pause_definitions, [read.id]),
            )
            assert rig.instances(read) == []
            assert rig.read(read).next_fire_time == START + MINUTE

    def test_a_fire_beside_a_delete_leaves_no_instance(self, rig: Rig) -> None:
        for _ in range(ROUNDS):
            read = rig.put()
            _, deleted = at_once(
                partial(rig.store.fire_definitions, [firing(read)]),
                partial(rig.store.delete_definitions, [read.id]),
            )
            assert deleted == {read.id: set()}
            assert rig.store.list_instances() == []

    def test_a_fire_beside_an_edit_leaves_no_old_instance(self, rig: Rig) -> None:
        for _ in range(ROUNDS):
            later = START + MINUTE
            read = rig.put(definition(later))
            new = replace(read, trigger=WAITING, next_fire_time=later)
            step = firing(read, next_fire_time=START + HOUR)
            at_once(partial(rig.store.fire_definitions, [step]), partial(rig.put, new))
            assert rig.instances(read) == []
            assert rig.read(read).next_fire_time == later

    def test_an_id_put_by_many_is_one_definition(self, rig: Rig) -> None:
        for _ in range(ROUNDS):
            new = definition()
            answers = at_once(*[partial(rig.put, new)] * THREADS)
            assert all(each == new for each in answers)
            assert rig.read(new).revision == 1

    def test_of_edits_of_one_revision_one_is_kept(self, rig: Rig) -> None:
        read = rig.put()

        def edit(name: str) -> TaskDefinition | None:
            try:
                return rig.put(replace(read, name=name))
            except ConflictError:
                return None

        names = [str(number) for number in range(THREADS)]
        answers = at_once(*(partial(edit, name) for name in names))
        [kept] = [each for each in answers if each is not None]
        assert rig.read(read) == kept
        assert rig.read(read).revision == 2

    def test_batches_in_opposite_orders_do_not_block_each_other(self, rig: Rig) -> None:
        new = [definition(key=key) for key in range(8)]

        def edit(number: int) -> int:
            turned = new if number % 2 else new[::-1]
            named = [replace(each, name=str(number)) for each in turned]
            return len(rig.store.put_definitions(named))

        answers = at_once(*(partial(edit, number) for number in range(THREADS)))
        assert answers == [len(new)] * THREADS
        assert {each.revision for each in rig.store.list_definitions()} == {THREADS}
