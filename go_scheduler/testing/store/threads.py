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
    OTHER_NODE,
    TICK,
    WAITING,
    at_once,
    cancel,
    claim,
    claimed,
    definition,
    fire,
    firing,
    ids,
    instances,
    put,
    running,
    times,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.additions import finished, fired, released, started

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.models import TaskDefinition
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

THREADS = 8
ROUNDS = 5


class ThreadTests:
    """Calls made at the same moment."""

    def test_two_nodes_never_claim_the_same_instance(self, store: Store) -> None:
        fire(store, put(store), *(START + number * TICK for number in range(60)))

        def claim_all(number: int) -> Sequence[UUID]:
            mine: list[UUID] = []
            while page := claim(store, UUID(int=number + 1), ahead=HOUR, limit=7):
                mine += ids(page)
            return mine

        answers = at_once(*(partial(claim_all, number) for number in range(THREADS)))
        taken = Counter(each for mine in answers for each in mine)  # type: ignore[attr-defined]
        assert set(taken.values()) == {1}
        assert len(taken) == 60
        assert {each.attempt for each in store.list_instances()} == {1}

    def test_two_nodes_never_take_over_the_same_claim(
        self, store: Store, clock: ManualClock
    ) -> None:
        fire(store, put(store), *(START - number * TICK for number in range(20)))
        claim(store)
        clock.advance(LEASE)
        nodes = (UUID(int=number + 10) for number in range(THREADS))
        answers = at_once(*(partial(claim, store, node, lapsed=True) for node in nodes))
        taken = [each.id for answer in answers for each in answer]  # type: ignore[attr-defined]
        assert len(taken) == len(set(taken)) == 20
        assert {each.attempt for each in store.list_instances()} == {2}

    def test_many_schedulers_fire_each_definition_once(self, store: Store) -> None:
        read = [put(store) for _ in range(20)]

        def fire_all(number: int) -> Sequence[UUID]:
            turned = read[number:] + read[:number]
            steps = [firing(each, next_fire_time=START + HOUR) for each in turned]
            return fired(store, steps)

        answers = at_once(*(partial(fire_all, number) for number in range(THREADS)))
        won = Counter(each for answer in answers for each in answer)  # type: ignore[attr-defined]
        assert won == Counter(ids(read))
        for each in read:
            assert times(instances(store, each)) == [START]
            assert store.get_definition(each.id).next_fire_time == START + HOUR

    def test_a_run_is_finished_once(self, store: Store) -> None:
        for _ in range(ROUNDS):
            instance = running(store)
            end = partial(finished, store, instance, Outcome.COMPLETED)
            assert sorted(map(bool, at_once(end, end))) == [False, True]

    def test_a_run_is_finished_or_given_back(self, store: Store) -> None:
        for _ in range(ROUNDS):
            instance = running(store)
            ended, given_back = at_once(
                partial(finished, store, instance, Outcome.FAILED),
                partial(released, store, instance),
            )
            assert ended != given_back
            state = store.get_instance(instance.id).state
            assert state is (State.FAILED if ended else State.PENDING)

    def test_a_run_is_finished_or_taken_over(
        self, store: Store, clock: ManualClock
    ) -> None:
        for _ in range(ROUNDS):
            instance = running(store, definition(clock.now()))
            clock.advance(LEASE)
            ended, taken = at_once(
                partial(finished, store, instance, Outcome.FAILED),
                partial(claim, store, OTHER_NODE, lapsed=True),
            )
            assert ended != bool(taken)
            assert store.get_instance(instance.id).runs == (1 if ended else 2)
            store.delete_definitions([instance.definition.id])

    def test_a_start_counts_once(self, store: Store) -> None:
        instance = claimed(store)
        answers = at_once(*[partial(started, store, instance)] * THREADS)
        assert all(ids(answer) == [instance.id] for answer in answers)  # type: ignore[arg-type]
        assert store.get_instance(instance.id).runs == 1

    def test_an_instance_is_cancelled_or_started(self, store: Store) -> None:
        for _ in range(ROUNDS):
            instance = claimed(store)
            answer, runs = at_once(
                partial(cancel, store, instance), partial(started, store, instance)
            )
            expected = Cancelled.REQUESTED if runs else Cancelled.CANCELLED
            assert answer == {instance.id: expected}

    def test_a_fire_and_a_pause_leave_no_instance_and_lose_no_fire_time(
        self, store: Store
    ) -> None:
        for _ in range(ROUNDS):
            read = put(store, definition(START + MINUTE))
            step = firing(read, next_fire_time=START + HOUR)
            at_once(
                partial(store.fire_definitions, [step]),
                partial(store.pause_definitions, [read.id]),
            )
            assert instances(store, read) == []
            assert store.get_definition(read.id).next_fire_time == START + MINUTE

    def test_a_fire_and_a_delete_leave_no_instance(self, store: Store) -> None:
        for _ in range(ROUNDS):
            read = put(store)
            _, deleted = at_once(
                partial(store.fire_definitions, [firing(read)]),
                partial(store.delete_definitions, [read.id]),
            )
            assert deleted == {read.id: set()}
            assert store.list_instances() == []

    def test_a_fire_and_another_trigger_leave_no_instance_of_the_old_one(
        self, store: Store
    ) -> None:
        for _ in range(ROUNDS):
            later = START + MINUTE
            read = put(store, definition(later))
            new = replace(read, trigger=WAITING, next_fire_time=later)
            step = firing(read, next_fire_time=START + HOUR)
            at_once(partial(store.fire_definitions, [step]), partial(put, store, new))
            assert instances(store, read) == []
            assert store.get_definition(read.id).next_fire_time == later

    def test_an_id_put_by_many_is_one_definition(self, store: Store) -> None:
        for _ in range(ROUNDS):
            new = definition()
            answers = at_once(*[partial(put, store, new)] * THREADS)
            assert all(each == new for each in answers)
            assert store.get_definition(new.id).revision == 1

    def test_of_edits_of_one_revision_one_is_kept(self, store: Store) -> None:
        read = put(store)

        def edit(name: str) -> TaskDefinition | None:
            try:
                return put(store, replace(read, name=name))
            except ConflictError:
                return None

        names = [str(number) for number in range(THREADS)]
        answers = at_once(*(partial(edit, name) for name in names))
        [kept] = [each for each in answers if each is not None]
        assert store.get_definition(read.id) == kept
        assert store.get_definition(read.id).revision == 2

    def test_batches_in_opposite_orders_do_not_block_each_other(
        self, store: Store
    ) -> None:
        new = [definition(key=key) for key in range(8)]

        def edit(number: int) -> int:
            turned = new if number % 2 else new[::-1]
            named = [replace(each, name=str(number)) for each in turned]
            return len(store.put_definitions(named))

        answers = at_once(*(partial(edit, number) for number in range(THREADS)))
        assert answers == [len(new)] * THREADS
        assert {each.revision for each in store.list_definitions()} == {THREADS}
