"""Store suite: instances are made that are no fire times'."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from go_scheduler.errors import (
    ConfigurationError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.models import PAYLOAD_LIMIT, Outcome, State
from go_scheduler.stores.messages import Addition
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    NOBODY,
    SECOND,
    YEAR,
    at_once,
    claim,
    clean_up,
    definition,
    finish,
    ids,
    instances,
    put,
    start,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.values import METADATA, TEXTS, TIMES, same
from go_scheduler.triggers.on_demand import OnDemandTrigger

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.json import JSON
    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store
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
        for found in (added, store.get_instance(added.id), *instances(store, of)):
            assert found.definition == of
            assert found.state is State.PENDING
            assert (found.fire_time, found.execute_at, found.due_at) == (
                None,
                START,
                START,
            )
            assert found.payload == {"order": 7}
            assert (found.key, found.attempt, found.runs) == (None, 0, 0)
        assert ids(claim(store, queues=["mail"])) == [added.id]

    def test_many_are_made_in_their_order(self, store: Store) -> None:
        of = put(store, task())
        wanted = [Addition(payload={"number": number}) for number in range(120)]
        added = store.add_instances(of.id, wanted)
        assert [each.payload for each in added] == [each.payload for each in wanted]
        assert ids(added) == ids(wanted)  # type: ignore[arg-type]
        assert len(claim(store, limit=200)) == 120

    def test_nothing_is_made_of_nothing(self, store: Store) -> None:
        of = put(store, task())
        assert store.add_instances(of.id, []) == []
        assert instances(store, of) == []

    def test_one_is_made_for_later(self, store: Store, clock: ManualClock) -> None:
        of = put(store, task())
        added = add(store, of, at=START + HOUR)
        assert (added.execute_at, added.due_at) == (START + HOUR, START + HOUR)
        assert claim(store, ahead=HOUR - SECOND) == []
        clock.advance(HOUR)
        [run] = claim(store)
        assert run.id == added.id
        assert run.started_at == START + HOUR

    def test_a_delay_counts_from_the_stores_time(
        self, store: Store, clock: ManualClock
    ) -> None:
        of = put(store, task())
        clock.advance(MINUTE)
        assert add(store, of, delay=SECOND).execute_at == START + MINUTE + SECOND

    def test_a_time_may_have_passed(self, store: Store) -> None:
        of = put(store, task())
        added = add(store, of, at=START - YEAR)
        assert added.execute_at == START - YEAR
        [run] = claim(store)
        assert run.id == added.id

    @pytest.mark.parametrize("at", TIMES)
    def test_a_time_comes_back(self, store: Store, at: datetime) -> None:
        added = add(store, put(store, task()), at=at)
        assert added.execute_at == store.get_instance(added.id).execute_at == at

    @pytest.mark.parametrize("payload", METADATA)
    def test_a_payload_comes_back(
        self, store: Store, payload: Mapping[str, JSON]
    ) -> None:
        of = put(store, task())
        added = add(store, of, payload=payload)
        [run] = claim(store)
        for found in (added, run, store.get_instance(run.id)):
            assert same(found.payload, payload)
            with pytest.raises(TypeError):
                found.payload["new"] = 1  # type: ignore[index]

    def test_a_start_hands_over_the_payload(
        self, store: Store, clock: ManualClock
    ) -> None:
        add(store, put(store, task()), payload={"n": 1}, key="k", at=START + SECOND)
        claimed = claim(store, ahead=SECOND)
        clock.advance(SECOND)
        [run] = start(store, *claimed)
        assert (run.payload, run.key) == ({"n": 1}, "k")

    @pytest.mark.parametrize(
        "payload", [{"a": float("nan")}, {"a": "\0"}, [1], {"a": "x" * PAYLOAD_LIMIT}]
    )
    def test_what_no_store_keeps_is_no_payload(self, payload: object) -> None:
        with pytest.raises(ConfigurationError, match="payload"):
            Addition(payload=payload)  # type: ignore[arg-type]

    @pytest.mark.parametrize("text", [each for each in TEXTS if each.strip()])
    def test_any_text_is_a_key(self, store: Store, text: str) -> None:
        of = put(store, task())
        added = add(store, of, key=text)
        assert added.key == store.get_instance(added.id).key == text
        assert add(store, of, key=text).id == added.id

    def test_a_second_one_with_a_key_is_the_first(
        self, store: Store, clock: ManualClock
    ) -> None:
        of = put(store, task())
        first = add(store, of, key="order 7", payload={"n": 1})
        clock.advance(SECOND)
        second = add(store, of, key="order 7", payload={"n": 2}, delay=HOUR)
        assert second == first
        assert ids(instances(store, of)) == [first.id]

    def test_a_key_is_kept_as_long_as_its_instance(
        self, store: Store, clock: ManualClock
    ) -> None:
        of = put(store, task())
        first = add(store, of, key="k")
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
        assert add(store, one, key="k").id != add(store, other, key="k").id

    def test_a_definition_that_was_deleted_leaves_no_key(self, store: Store) -> None:
        of = put(store, task())
        first = add(store, of, key="k")
        claim(store)
        store.delete_definitions([of.id])
        again = put(store, replace(of, revision=None))
        assert add(store, again, key="k").id != first.id

    def test_a_key_may_be_in_a_batch_twice(self, store: Store) -> None:
        of = put(store, task())
        known = add(store, of, key="known")
        keys = ["new", "known", None, "new", None]
        added = store.add_instances(of.id, [Addition(key=each) for each in keys])
        assert [each.key for each in added] == keys
        assert added[0] == added[3]
        assert added[1] == known
        assert len({*ids(added)}) == 4
        assert len(instances(store, of)) == 4

    def test_a_key_may_be_twice_in_a_batch_of_which_none_is_known(
        self, store: Store
    ) -> None:
        of = put(store, task())
        given = [Addition(key="new"), Addition(key="new")]
        first, second = store.add_instances(of.id, given)
        assert first == second
        assert instances(store, of) == [first]

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
            with pytest.raises(TaskDefinitionNotFoundError) as caught:
                store.add_instances(missing, [Addition(), Addition(key="k")])
            assert caught.value.definition_id == missing
            with pytest.raises(TaskDefinitionNotFoundError):
                store.add_instances(missing, [])
        assert store.counts()[State.PENDING] == 0

    def test_of_many_with_one_key_one_is_made(self, store: Store) -> None:
        of = put(store, task())
        for key in map(str, range(5)):
            answers = at_once(*[lambda key=key: add(store, of, key=key)] * 8)
            assert len({each.id for each in answers}) == 1  # type: ignore[attr-defined]
        assert len(instances(store, of)) == 5

    def test_a_key_that_is_added_while_its_instance_is_cleaned_up_has_one(
        self, store: Store
    ) -> None:
        of = put(store, task())

        def add_one() -> UUID:
            return add(store, of, key="k").id

        for _ in range(10):
            clean_up(store)
            first = add_one()
            [run] = claim(store)
            assert finish(store, run)
            *answers, _ = at_once(add_one, add_one, lambda: clean_up(store))
            left = ids(instances(store, of))
            assert len(left) <= 1
            assert {first, *left}.issuperset(answers)

    def test_what_is_added_beside_a_delete_is_gone_or_refused(
        self, store: Store
    ) -> None:
        for number in range(20):
            of = put(store, task(key=number + 1))

            def add_one(of: TaskDefinition = of) -> UUID | None:
                try:
                    return add(store, of).id
                except TaskDefinitionNotFoundError:
                    return None

            def delete(of: TaskDefinition = of) -> object:
                return store.delete_definitions([of.id])

            at_once(add_one, delete, add_one)
        assert store.counts()[State.PENDING] == 0
        assert claim(store) == []
