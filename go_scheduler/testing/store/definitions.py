"""Store suite: definitions are put, read, listed and deleted; whose they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

import pytest

from go_scheduler.errors import (
    ConfigurationError,
    ConflictError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.json import JSON
from go_scheduler.models import DefinitionState, Outcome, State
from go_scheduler.policies import CatchUp, Overlap, RetryPolicy
from go_scheduler.stores.messages import Position
from go_scheduler.testing.builders import (
    EXPIRE_AFTER,
    HOUR,
    MINUTE,
    NOBODY,
    OTHER_NODE,
    SECOND,
    WAITING,
    cancel,
    claim,
    claimed,
    clean_up,
    definition,
    due,
    ended,
    finish,
    fire,
    firing,
    ids,
    instances,
    kept_by_store,
    pending,
    put,
    renew,
    running,
    start,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.pauses import (
    AFTER_A_DELETE,
    definition_ids,
    made_in_each_state,
    state_of,
    states,
)
from go_scheduler.testing.store.sets import (
    APP,
    ONE,
    OTHER_APP,
    THREE,
    TWO,
    declare,
    owned,
)
from go_scheduler.testing.store.values import TEXTS
from go_scheduler.triggers import base
from go_scheduler.triggers.base import Trigger
from go_scheduler.triggers.interval import IntervalTrigger
from go_scheduler.triggers.stored import UnknownTrigger, dump_trigger

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

EVERY_TWO_HOURS = IntervalTrigger(2 * HOUR, anchor=START)
OTHER_VALUES: Sequence[Mapping[str, Any]] = (
    {"name": "other"},
    {"queue": "other"},
    {"priority": 3},
    {"metadata": {"a": [1]}},
    # Only Python calls this one equal to the stored metadata.
    {"metadata": {"a": True}},
    {"expire_after": MINUTE},
    {"timeout": MINUTE},
    {"max_per_node": 3},
    {"max_queue": 3},
    {"when_full": "drop"},
    {"retry": RetryPolicy(max_attempts=None)},
    {"retry": RetryPolicy(max_attempts=3)},
    {"catch_up": CatchUp(grace=HOUR)},
    {"overlap": Overlap.BUFFER_ONE},
    {"lock": "a"},
)


class PutTests:
    """``put_definitions``, where nothing has fired yet, and ``get_definition``."""

    def test_new_definitions_are_kept_in_the_order_given(self, store: Store) -> None:
        new = [definition(key=key, name=str(key), queue="b") for key in (3, 1, 2)]
        new[0] = replace(
            new[0],
            metadata={"c": 1},
            expire_after=MINUTE,
            note="of no pause",
            completed_at=START,
            retry=RetryPolicy(max_attempts=2),
            catch_up=CatchUp(grace=HOUR),
        )
        stored = store.put_definitions(new)
        assert stored == new
        for given, answered in zip(new, stored, strict=True):
            found = store.get_definition(given.id)
            assert found == given
            for each in (answered, found):
                assert kept_by_store(each) == (START, False, None, None, 1)
        assert store.put_definitions([]) == []

    @pytest.mark.parametrize("exists", [False, True])
    def test_an_id_that_is_there_twice_is_refused_and_none_is_put(
        self, store: Store, *, exists: bool
    ) -> None:
        other, one = definition(), definition(name="old")
        if exists:
            put(store, one)
        given = [other, replace(one, name="new"), replace(one, name="newer")]
        with pytest.raises(ConfigurationError, match="twice"):
            store.put_definitions(given)
        found = store.list_definitions(ids=[other.id, one.id])
        assert [each.name for each in found] == ["old"] * exists

    def test_a_definition_that_never_fires_is_completed_unless_its_trigger_waits(
        self, store: Store, clock: ManualClock
    ) -> None:
        fires = put(store)
        clock.advance(MINUTE)
        assert put(store, definition(None)).completed_at == START + MINUTE
        assert put(store, definition(None, trigger=WAITING)).completed_at is None
        edited = replace(fires, trigger=EVERY_TWO_HOURS, next_fire_time=None)
        assert put(store, edited).completed_at == START + MINUTE

    def test_an_equal_definition_changes_nothing(self, store: Store) -> None:
        stored = put(store)
        again = replace(stored, next_fire_time=START + HOUR, revision=None)
        for found in (put(store, again), store.get_definition(stored.id)):
            assert kept_by_store(found) == kept_by_store(stored)
        fire(store, stored)
        for over in (again, replace(again, name="other")):
            assert put(store, over).completed_at == START
        assert due(store) == []

    def test_a_stored_trigger_keeps_its_anchor(self, store: Store) -> None:
        first = IntervalTrigger(HOUR).anchored(START)
        stored = put(store, definition(trigger=first))
        later = replace(stored, trigger=IntervalTrigger(HOUR).anchored(START + MINUTE))
        again = put(store, later)
        edited = put(store, replace(later, name="other"))
        for found in (again, edited, store.get_definition(stored.id)):
            assert found.trigger.next_fire_time(START) == START + HOUR

    def test_another_value_raises_the_revision_and_moves_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        stored = [put(store, definition(metadata={"a": 1})) for _ in OTHER_VALUES]
        clock.advance(MINUTE)
        for read, values in zip(stored, OTHER_VALUES, strict=True):
            new = replace(read, next_fire_time=START + HOUR, **values)
            changed = put(store, new)
            found = store.get_definition(read.id)
            assert changed == new == found, values
            kept = (START, False, None, None, 2)
            assert kept_by_store(changed) == kept_by_store(found) == kept, values

    def test_another_trigger_begins_a_new_series(self, store: Store) -> None:
        later = START + 2 * HOUR
        live, completed = put(store), put(store)
        fire(store, completed)
        for read in (live, completed):
            new = replace(read, trigger=EVERY_TWO_HOURS, next_fire_time=later)
            for found in (put(store, new), store.get_definition(new.id)):
                assert found == new
                assert kept_by_store(found) == (later, False, None, None, 2)
        assert len(due(store, ahead=2 * HOUR)) == 2

    def test_another_revision_than_the_stored_one_conflicts(self, store: Store) -> None:
        read = put(store, definition(name="first"))
        changed = put(store, replace(read, name="second"))
        for name in ("third", "second", "first"):
            with pytest.raises(ConflictError) as caught:
                put(store, replace(read, name=name))
            assert caught.value.definition_id == read.id
            assert (caught.value.expected, caught.value.revision) == (1, 2)
        assert store.get_definition(read.id).name == "second"
        assert put(store, replace(changed, name="third")).revision == 3

    def test_revision_0_is_that_of_a_new_definition(self, store: Store) -> None:
        new = put(store, replace(definition(), revision=0))
        assert new.revision == 1
        with pytest.raises(ConflictError) as caught:
            put(store, replace(new, revision=0))
        assert (caught.value.expected, caught.value.revision) == (0, 1)
        store.delete_definitions([new.id])
        with pytest.raises(ConflictError) as caught:
            put(store, new)
        assert (caught.value.expected, caught.value.revision) == (1, None)
        assert put(store, replace(new, revision=0)).id == new.id

    def test_where_one_definition_conflicts_none_is_put(self, store: Store) -> None:
        old, first, last = put(store), definition(), definition()
        conflicting = replace(old, name="other", revision=7)
        with pytest.raises(ConflictError):
            store.put_definitions([first, conflicting, last])
        assert store.list_definitions() == [old]


CONTAINED: list[tuple[Mapping[str, JSON], Mapping[str, JSON], bool]] = [
    ({}, {}, True),
    ({"a": 1}, {}, True),
    ({}, {"a": None}, False),
    ({"a": None}, {"a": None}, True),
    ({"a": 1, "b": 2}, {"a": 1}, True),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
    ({"a": 1, "b": 2}, {"a": 1, "b": 3}, False),
    ({"a": 1}, {"b": 1}, False),
    ({"a": 1}, {"a": "1"}, False),
    ({"a": 1}, {"a": 1.0}, True),
    ({"a": 1}, {"a": True}, False),
    ({"a": True}, {"a": 1}, False),
    ({"a": False}, {"a": 0}, False),
    ({"a": False}, {"a": False}, True),
    ({"a": "Ab"}, {"a": "ab"}, False),
    ({"a": "ab"}, {"a": "a"}, False),
    ({"é": "ü"}, {"é": "ü"}, True),
    ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True),
    ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, False),
    ({"a": {"b": {"c": [1]}}}, {"a": {"b": {}}}, True),
    ({"a": {"b": 1}}, {"b": 1}, False),
    ({"a": {}}, {"a": []}, False),
    ({"a": []}, {"a": {}}, False),
    ({"a": [1, 2, 3]}, {"a": [3, 1]}, True),
    ({"a": [1, 2]}, {"a": [1, 1, 1]}, True),
    ({"a": [1, 2]}, {"a": [1, 4]}, False),
    ({"a": [1, 2]}, {"a": []}, True),
    ({"a": [1, 2]}, {"a": 1}, False),
    ({"a": 1}, {"a": [1]}, False),
    ({"a": [True]}, {"a": [1]}, False),
    ({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}, True),
    ({"a": [{"b": 1}, {"c": 2}]}, {"a": [{"b": 1, "c": 2}]}, False),
    ({"a": [[1, 2], [3]]}, {"a": [[2]]}, True),
    ({"a": [[1, 2], [3]]}, {"a": [2]}, False),
    ({"a'\"%_\\$": "'; --"}, {"a'\"%_\\$": "'; --"}, True),
]


LARGE = [2**127 - 1, 2**127]
ACTIVE = DefinitionState.ACTIVE
LISTS: Sequence[tuple[dict[str, Any], list[int]]] = (
    ({}, [*range(9), *LARGE]),
    ({"name": "a"}, [0, 1, 2, 3, 4, 5, 6]),
    ({"queue": "A"}, LARGE),
    ({"queues": {"a", "A"}}, [0, 1, 2, 3, 4, 5, 6, 8, *LARGE]),
    ({"state": ACTIVE}, [0, 1, 2, 3, 4, 6, 7, *LARGE]),
    ({"state": DefinitionState.PAUSED}, [5]),
    ({"state": DefinitionState.COMPLETED}, [8]),
    ({"soonest_first": True}, [2, 3, 5, 6, 7, 0, *LARGE, 1, 4, 8]),
    ({"soonest_first": True, "name": "a"}, [2, 3, 5, 6, 0, 1, 4]),
    ({"soonest_first": True, "queues": {"a"}, "state": ACTIVE}, [2, 3, 6, 0, 1, 4]),
    ({"soonest_first": True, "ids": [UUID(int=key) for key in (0, 1, 3)]}, [3, 0, 1]),
    (
        {
            "ids": [UUID(int=key) for key in (3, 4, 7, *LARGE)],
            "metadata": {"c": 1},
            "name": "a",
            "queue": "a",
        },
        [3],
    ),
)


class DefinitionListTests:
    """``list_definitions``."""

    def test_lists_of_definitions_meet_every_condition(self, store: Store) -> None:
        fire_times = [START + HOUR, None, START - HOUR, START, None, START, START]
        for key, at in enumerate(fire_times):
            new = definition(at, key=key, name="a", queue="a", trigger=WAITING)
            put(store, replace(new, metadata={"c": key % 2}))
        put(store, definition(START, key=7))
        put(store, definition(None, key=8, queue="a"))
        for key in LARGE:
            put(store, definition(START + MINUTE * 90, key=key, name="A", queue="A"))
        store.pause_definitions([UUID(int=5)])
        for conditions, expected in LISTS:
            for limit in (1, 2, 4, 11, 12):
                read: list[int] = []
                after = None
                while page := store.list_definitions(
                    after=after, limit=limit, **conditions
                ):
                    assert len(page) <= limit, f"more than the limit: {conditions}"
                    read += [each.id.int for each in page]
                    after = Position.of_definition(page[-1])
                assert read == expected, f"{conditions} in pages of {limit}"
        gone = Position(at=None, id=UUID(int=2**100))
        assert [each.id.int for each in store.list_definitions(after=gone)] == LARGE

    def test_a_page_has_100_definitions_by_default(self, store: Store) -> None:
        store.put_definitions([definition() for _ in range(101)])
        assert len(store.list_definitions()) == 100

    def test_listed_definitions_are_read_as_they_are_stored(self, store: Store) -> None:
        new = put(store, definition(name="a", metadata={"b": [1, {}]}))
        store.pause_definitions([new.id], note="why")
        [found] = store.list_definitions()
        assert found == new
        assert kept_by_store(found) == (START, True, "why", None, 2)

    def test_by_ids(self, store: Store) -> None:
        for key in range(4):
            put(store, definition(key=key))
        found = store.list_definitions(ids=[UUID(int=3), NOBODY, UUID(int=1)])
        assert [each.id.int for each in found] == [1, 3]
        assert store.list_definitions(ids=[]) == []

    def test_by_what_the_metadata_contains(self, store: Store) -> None:
        new = [put(store, definition(metadata=stored)) for stored, *_ in CONTAINED]
        for of, (stored, asked, contains) in zip(new, CONTAINED, strict=True):
            found = of.id in ids(store.list_definitions(metadata=asked))
            assert found is contains, f"{stored} contains {asked}: {contains}"


class DeleteTests:
    """``delete_definitions``."""

    def test_a_delete_answers_what_existed_and_what_ran(self, store: Store) -> None:
        held, runs, other = claimed(store), running(store), running(store)
        gone: dict[UUID, set[UUID]] = {put(store).id: set()}
        gone |= {ended(store).definition.id: set()}
        gone |= {held.definition.id: set(), runs.definition.id: {runs.id}}
        assert store.delete_definitions([*gone, NOBODY]) == gone
        assert store.delete_definitions([*gone]) == {}
        assert store.delete_definitions([]) == {}
        assert ids(store.list_definitions()) == [other.definition.id]
        assert state_of(store, other) is State.RUNNING

    def test_a_delete_removes_what_does_not_run_and_cancels_what_runs(
        self, store: Store, clock: ManualClock
    ) -> None:
        made = made_in_each_state(store, clock)
        free = pending(store)
        store.delete_definitions(definition_ids(made))
        assert states(store, made) == AFTER_A_DELETE
        for name in ("claimed, passed", "claimed, to come", "claimed for a retry"):
            assert start(store, made[name]) == [], name
            assert renew(store, made[name]) == {}, name
        runs = made["running"]
        assert renew(store, runs) == {}
        assert not finish(store, runs)
        assert cancel(store, runs) == {}
        found = store.get_instance(runs.id)
        assert (found.outcome, found.completed_at) == (Outcome.CANCELLED, store.now())
        clock.advance(HOUR)
        assert ids(claim(store, OTHER_NODE, ahead=HOUR, lapsed=True)) == [free.id]

    def test_what_is_left_can_be_read_until_the_cleanup(self, store: Store) -> None:
        over, cut_short = left = ended(store), running(store)
        store.delete_definitions([each.definition.id for each in left])
        assert store.get_instance(over.id).definition == over.definition
        assert instances(store, over.definition) == []
        assert {*ids(store.list_instances())} == {over.id, cut_short.id}
        assert ids(store.list_instances(state=State.COMPLETED)) == [over.id]
        counts = store.counts()
        assert (counts[State.COMPLETED], counts[State.CANCELLED]) == (1, 1)
        assert clean_up(store, older_than=EXPIRE_AFTER) == 0
        assert clean_up(store) == 2
        assert [state_of(store, each) for each in left] == [None, None]

    def test_a_deleted_id_may_be_put_again_and_is_new(self, store: Store) -> None:
        new = definition()
        [old] = store.pause_definitions([put(store, new).id], note="why")
        store.delete_definitions([new.id])
        assert due(store) == []
        assert store.fire_definitions([firing(old, START)]).done == set()
        with pytest.raises(TaskDefinitionNotFoundError) as caught:
            store.get_definition(new.id)
        assert caught.value.definition_id == new.id
        again = put(store, new)
        assert kept_by_store(again)[:4] == (START, False, None, None)
        assert again.revision is not None
        assert old.revision is not None
        assert again.revision > old.revision
        assert store.fire_definitions([firing(old, START)]).done == set()
        assert instances(store, new) == []
        with pytest.raises(ConflictError):
            put(store, replace(old, name="other"))

    def test_a_new_definition_has_no_runs_of_the_old_one(self, store: Store) -> None:
        new = definition(trigger=WAITING)
        history = ended(store, new)
        store.delete_definitions([new.id])
        run = running(store, new)
        assert run.id != history.id, "the fire time of the old one is taken still"
        store.delete_definitions([new.id])
        again = put(store, replace(new, next_fire_time=None))
        assert instances(store, again) == []
        assert not finish(store, run, next_fire_time=START + HOUR)
        kept = store.get_definition(new.id)
        assert (kept.next_fire_time, kept.completed_at) == (None, None)
        store.pause_definitions([new.id])
        store.delete_definitions([new.id])
        assert state_of(store, history) is State.COMPLETED
        assert state_of(store, run) is State.CANCELLED


@dataclass(frozen=True)
class PassingTrigger(Trigger):
    """A trigger whose class this process can lose; it fires once a day.

    Attributes:
        data: Anything.
    """

    kind: ClassVar[str] = "go_scheduler.testing.passing"

    data: Mapping[str, JSON]

    def next_fire_time(self, after: datetime) -> datetime | None:
        """A day later."""
        return after + timedelta(days=1)


class UnknownTriggerTests:
    """Triggers that this process cannot load."""

    def test_an_unknown_trigger_keeps_its_state_and_runs(self, store: Store) -> None:
        state: Mapping[str, JSON] = {
            "text": TEXTS[2],
            "nested": [{"a": None}],
            "big": 2**70,
            "float": 0.1,
        }
        unknown = UnknownTrigger("from.another.node", state, "not here")
        new = put(store, definition(trigger=unknown))
        edited = put(store, replace(new, name="edited", next_fire_time=None))
        assert (edited.name, edited.revision) == ("edited", 2)
        assert edited.next_fire_time == START
        known = put(store)
        assert ids(due(store)) == sorted([new.id, known.id])
        for read in store.get_definition(new.id), *due(store):
            if read.id == new.id:
                assert isinstance(read.trigger, UnknownTrigger)
                assert dump_trigger(read.trigger) == ("from.another.node", state)
                assert read.trigger.reason
        fire(store, edited)
        [instance] = claim(store)
        assert isinstance(instance.definition.trigger, UnknownTrigger)
        assert finish(store, instance)

    def test_a_trigger_is_not_lost_with_its_class(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        trigger = PassingTrigger({"a": [1, "é"]})
        passing = put(store, definition(trigger=trigger))
        other = put(store, definition(START + SECOND))
        with monkeypatch.context() as patch:
            # As in a process that never imported the class.
            patch.delitem(base._kinds, PassingTrigger.kind)
            found = store.list_definitions(ids=[passing.id, other.id])
            assert {each.id for each in found} == {passing.id, other.id}
            first, second = due(store)
            assert dump_trigger(first.trigger) == dump_trigger(trigger)
            assert second == other
            put(store, replace(first, name="edited"))
            store.pause_definitions([passing.id])
            store.resume_definitions([passing.id])
        found_again = store.get_definition(passing.id)
        assert (found_again.trigger, found_again.name) == (trigger, "edited")
        assert found_again.trigger.next_fire_time(START) == START + 24 * HOUR


class OwnerTests:
    """A definition is of one set, or of none."""

    def test_an_id_of_another_owner_is_refused_with_all(self, store: Store) -> None:
        free = put(store)
        declare(store, ONE, owner=OTHER_APP)
        declare(store, TWO, version=1)
        for adopts in (False, True):
            with pytest.raises(ConfigurationError, match="the set of 'another app'"):
                declare(store, THREE, ONE, version=2, adopts=adopts)
        assert owned(store) == [TWO.id]
        assert declare(store, TWO, version=1).outdated_by is None
        assert declare(store, version=1).deleted == {TWO.id}
        assert owned(store, OTHER_APP) == [ONE.id]
        assert {each.id for each in store.list_definitions()} == {free.id, ONE.id}

    def test_what_its_set_has_paused_another_owner_may_take(self, store: Store) -> None:
        declare(store, ONE, TWO)
        declare(store, TWO, removed="pause")
        taken = declare(store, ONE, owner=OTHER_APP)
        assert taken.resumed == [ONE]
        assert kept_by_store(taken.definitions[0]) == (START, False, None, None, 3)
        assert taken.definitions[0].owner == OTHER_APP
        assert owned(store, OTHER_APP) == [ONE.id]
        assert declare(store).deleted == {TWO.id}
        with pytest.raises(ConfigurationError, match="the set of 'another app'"):
            declare(store, ONE)

    def test_what_is_paused_by_hand_is_taken_once_deleted(self, store: Store) -> None:
        declare(store, ONE)
        store.pause_definitions([ONE.id], note="by hand")
        declare(store, removed="pause")
        with pytest.raises(ConfigurationError, match="or delete it, before 'another"):
            declare(store, ONE, owner=OTHER_APP)
        [again] = declare(store, ONE).definitions
        assert (again.paused, again.note) == (True, "by hand")
        store.delete_definitions([ONE.id])
        assert owned(store) == []
        [new] = declare(store, ONE, owner=OTHER_APP).definitions
        assert (new.paused, new.owner) == (False, OTHER_APP)
        assert new.revision is not None
        assert again.revision is not None
        assert new.revision > again.revision
        assert declare(store).deleted == set()

    def test_an_id_of_none_is_refused_unless_it_is_adopted(self, store: Store) -> None:
        for each in (ONE, TWO, THREE):
            put(store, each)
        with pytest.raises(ConfigurationError, match=r"no declared set: adopt=True"):
            declare(store, ONE, definition(key=4))
        assert owned(store) == []
        assert store.list_definitions() == [ONE, TWO, THREE]
        changed = replace(TWO, name="b"), replace(THREE, trigger=EVERY_TWO_HOURS)
        adopted = declare(store, ONE, *changed, adopts=True).definitions
        assert [each.owner for each in adopted] == [APP] * 3
        assert [each.revision for each in adopted] == [1, 2, 2]
        assert owned(store) == [ONE.id, TWO.id, THREE.id]

    def test_a_put_keeps_the_owner_and_gives_none(self, store: Store) -> None:
        declare(store, ONE)
        for each in (
            ONE,
            replace(ONE, name="b", owner=OTHER_APP),
            replace(ONE, trigger=EVERY_TWO_HOURS, owner=None),
        ):
            assert put(store, each).owner == APP
        assert put(store, replace(TWO, owner=OTHER_APP)).owner is None
        store.put_definitions([replace(THREE, owner=APP), definition(key=4)])
        assert owned(store) == [ONE.id]
        assert owned(store, OTHER_APP) == []
