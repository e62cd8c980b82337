"""Store suite: definitions are put, read, listed and deleted; whose they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar
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
    Rig,
    StoreTests,
    definition,
    firing,
    ids,
    kept_by_store,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.pauses import (
    AFTER_A_DELETE,
    definition_ids,
    made_in_each_state,
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


class PutTests(StoreTests):
    """``put_definitions``, where nothing has fired yet, and ``get_definition``."""

    def test_new_definitions_are_kept_in_the_order_given(self, rig: Rig) -> None:
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
        stored = rig.store.put_definitions(new)
        assert stored == new
        for given, answered in zip(new, stored, strict=True):
            found = rig.read(given)
            assert found == given
            for each in (answered, found):
                assert kept_by_store(each) == (START, False, None, None, 1)
        assert rig.store.put_definitions([]) == []

    @pytest.mark.parametrize("exists", [False, True])
    def test_a_repeated_id_is_refused_with_all(self, rig: Rig, *, exists: bool) -> None:
        other, one = definition(), definition(name="old")
        if exists:
            rig.put(one)
        given = [other, replace(one, name="new"), replace(one, name="newer")]
        with pytest.raises(ConfigurationError, match="twice"):
            rig.store.put_definitions(given)
        found = rig.store.list_definitions(ids=[other.id, one.id])
        assert [each.name for each in found] == ["old"] * exists

    def test_a_definition_that_never_fires_is_completed(self, rig: Rig) -> None:
        fires = rig.put()
        rig.advance(MINUTE)
        assert rig.put(definition(None)).completed_at == START + MINUTE
        assert rig.put(definition(None, trigger=WAITING)).completed_at is None
        edited = replace(fires, trigger=EVERY_TWO_HOURS, next_fire_time=None)
        assert rig.put(edited).completed_at == START + MINUTE

    def test_an_equal_definition_changes_nothing(self, rig: Rig) -> None:
        stored = rig.put()
        again = replace(stored, next_fire_time=START + HOUR, revision=None)
        for found in (rig.put(again), rig.read(stored)):
            assert kept_by_store(found) == kept_by_store(stored)
        rig.fire(stored)
        for over in (again, replace(again, name="other")):
            assert rig.put(over).completed_at == START
        assert rig.due() == []

    def test_a_stored_trigger_keeps_its_anchor(self, rig: Rig) -> None:
        first = IntervalTrigger(HOUR).anchored(START)
        stored = rig.put(definition(trigger=first))
        later = replace(stored, trigger=IntervalTrigger(HOUR).anchored(START + MINUTE))
        again = rig.put(later)
        edited = rig.put(replace(later, name="other"))
        for found in (again, edited, rig.read(stored)):
            assert found.trigger.next_fire_time(START) == START + HOUR

    def test_another_value_only_raises_the_revision(self, rig: Rig) -> None:
        stored = [rig.put(definition(metadata={"a": 1})) for _ in OTHER_VALUES]
        rig.advance(MINUTE)
        for read, values in zip(stored, OTHER_VALUES, strict=True):
            new = replace(read, next_fire_time=START + HOUR, **values)
            changed = rig.put(new)
            found = rig.read(read)
            assert changed == new == found, values
            kept = (START, False, None, None, 2)
            assert kept_by_store(changed) == kept_by_store(found) == kept, values

    def test_another_trigger_begins_a_new_series(self, rig: Rig) -> None:
        later = START + 2 * HOUR
        live, completed = rig.put(), rig.put()
        rig.fire(completed)
        for read in (live, completed):
            new = replace(read, trigger=EVERY_TWO_HOURS, next_fire_time=later)
            for found in (rig.put(new), rig.read(new)):
                assert found == new
                assert kept_by_store(found) == (later, False, None, None, 2)
        assert len(rig.due(ahead=2 * HOUR)) == 2

    def test_another_revision_than_the_stored_one_conflicts(self, rig: Rig) -> None:
        read = rig.put(definition(name="first"))
        changed = rig.put(replace(read, name="second"))
        for name in ("third", "second", "first"):
            with pytest.raises(ConflictError) as caught:
                rig.put(replace(read, name=name))
            assert caught.value.definition_id == read.id
            assert (caught.value.expected, caught.value.revision) == (1, 2)
        assert rig.read(read).name == "second"
        assert rig.put(replace(changed, name="third")).revision == 3

    def test_revision_0_is_that_of_a_new_definition(self, rig: Rig) -> None:
        new = rig.put(definition(revision=0))
        assert new.revision == 1
        with pytest.raises(ConflictError) as caught:
            rig.put(replace(new, revision=0))
        assert (caught.value.expected, caught.value.revision) == (0, 1)
        rig.delete(new)
        with pytest.raises(ConflictError) as caught:
            rig.put(new)
        assert (caught.value.expected, caught.value.revision) == (1, None)
        assert rig.put(replace(new, revision=0)).id == new.id

    def test_where_one_definition_conflicts_none_is_put(self, rig: Rig) -> None:
        old, first, last = rig.put(), definition(), definition()
        conflicting = replace(old, name="other", revision=7)
        with pytest.raises(ConflictError):
            rig.store.put_definitions([first, conflicting, last])
        assert rig.store.list_definitions() == [old]


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


class DefinitionListTests(StoreTests):
    """``list_definitions``."""

    def test_lists_of_definitions_meet_every_condition(self, rig: Rig) -> None:
        fire_times = [START + HOUR, None, START - HOUR, START, None, START, START]
        for key, at in enumerate(fire_times):
            new = definition(at, key=key, name="a", queue="a", trigger=WAITING)
            rig.put(replace(new, metadata={"c": key % 2}))
        rig.put(definition(START, key=7))
        rig.put(definition(None, key=8, queue="a"))
        for key in LARGE:
            rig.put(definition(START + MINUTE * 90, key=key, name="A", queue="A"))
        rig.store.pause_definitions([UUID(int=5)])
        for conditions, expected in LISTS:
            for limit in (1, 2, 4, 11, 12):
                read: list[int] = []
                after = None
                while page := rig.store.list_definitions(
                    after=after, limit=limit, **conditions
                ):
                    assert len(page) <= limit, f"more than the limit: {conditions}"
                    read += [each.id.int for each in page]
                    after = Position.of_definition(page[-1])
                assert read == expected, f"{conditions} in pages of {limit}"
        gone = Position(at=None, id=UUID(int=2**100))
        assert [each.id.int for each in rig.store.list_definitions(after=gone)] == LARGE

    def test_a_page_has_100_definitions_by_default(self, rig: Rig) -> None:
        rig.store.put_definitions([definition() for _ in range(101)])
        assert len(rig.store.list_definitions()) == 100

    def test_listed_definitions_are_read_as_they_are_stored(self, rig: Rig) -> None:
        new = rig.put(definition(name="a", metadata={"b": [1, {}]}))
        rig.pause(new, note="why")
        [found] = rig.store.list_definitions()
        assert found == new
        assert kept_by_store(found) == (START, True, "why", None, 2)

    def test_by_ids(self, rig: Rig) -> None:
        for key in range(4):
            rig.put(definition(key=key))
        found = rig.store.list_definitions(ids=[UUID(int=3), NOBODY, UUID(int=1)])
        assert [each.id.int for each in found] == [1, 3]
        assert rig.store.list_definitions(ids=[]) == []

    def test_by_what_the_metadata_contains(self, rig: Rig) -> None:
        new = [rig.put(definition(metadata=stored)) for stored, *_ in CONTAINED]
        for of, (stored, asked, contains) in zip(new, CONTAINED, strict=True):
            found = of.id in ids(rig.store.list_definitions(metadata=asked))
            assert found is contains, f"{stored} contains {asked}: {contains}"


class DeleteTests(StoreTests):
    """``delete_definitions``."""

    def test_a_delete_answers_what_existed_and_what_ran(self, rig: Rig) -> None:
        held, runs, other = rig.claimed(), rig.running(), rig.running()
        gone: dict[UUID, set[UUID]] = {rig.put().id: set()}
        gone |= {rig.ended().definition.id: set()}
        gone |= {held.definition.id: set(), runs.definition.id: {runs.id}}
        assert rig.store.delete_definitions([*gone, NOBODY]) == gone
        assert rig.store.delete_definitions([*gone]) == {}
        assert rig.store.delete_definitions([]) == {}
        assert ids(rig.store.list_definitions()) == [other.definition.id]
        assert rig.state_of(other) is State.RUNNING

    def test_a_delete_removes_instances_and_cancels_runs(self, rig: Rig) -> None:
        made = made_in_each_state(rig)
        free = rig.pending()
        rig.store.delete_definitions(definition_ids(made))
        assert states(rig, made) == AFTER_A_DELETE
        for name in ("claimed, passed", "claimed, to come", "claimed for a retry"):
            assert rig.start(made[name]) == [], name
            assert rig.renew(made[name]) == {}, name
        runs = made["running"]
        assert rig.renew(runs) == {}
        assert not rig.finish(runs)
        assert rig.cancel(runs) == {}
        found = rig.read(runs)
        assert (found.outcome, found.completed_at) == (Outcome.CANCELLED, rig.now())
        rig.advance(HOUR)
        assert ids(rig.claim(OTHER_NODE, ahead=HOUR, lapsed=True)) == [free.id]

    def test_what_is_left_can_be_read_until_the_cleanup(self, rig: Rig) -> None:
        over, cut_short = left = rig.ended(), rig.running()
        rig.store.delete_definitions([each.definition.id for each in left])
        assert rig.read(over).definition == over.definition
        assert rig.instances(over.definition) == []
        assert {*ids(rig.store.list_instances())} == {over.id, cut_short.id}
        assert ids(rig.store.list_instances(state=State.COMPLETED)) == [over.id]
        counts = rig.store.counts()
        assert (counts[State.COMPLETED], counts[State.CANCELLED]) == (1, 1)
        assert rig.clean_up(older_than=EXPIRE_AFTER) == 0
        assert rig.clean_up() == 2
        assert [rig.state_of(each) for each in left] == [None, None]

    def test_a_deleted_id_may_be_put_again_and_is_new(self, rig: Rig) -> None:
        new = definition()
        old = rig.pause(rig.put(new), note="why")
        rig.delete(new)
        assert rig.due() == []
        assert rig.fire_steps(firing(old, START)) == []
        with pytest.raises(TaskDefinitionNotFoundError) as caught:
            rig.read(new)
        assert caught.value.definition_id == new.id
        again = rig.put(new)
        assert kept_by_store(again)[:4] == (START, False, None, None)
        assert again.revision is not None
        assert old.revision is not None
        assert again.revision > old.revision
        assert rig.fire_steps(firing(old, START)) == []
        assert rig.instances(new) == []
        with pytest.raises(ConflictError):
            rig.put(replace(old, name="other"))

    def test_a_new_definition_has_no_runs_of_the_old_one(self, rig: Rig) -> None:
        new = definition(trigger=WAITING)
        history = rig.ended(new)
        rig.delete(new)
        run = rig.running(new)
        assert run.id != history.id, "the fire time of the old one is taken still"
        rig.delete(new)
        again = rig.put(replace(new, next_fire_time=None))
        assert rig.instances(again) == []
        assert not rig.finish(run, next_fire_time=START + HOUR)
        kept = rig.read(new)
        assert (kept.next_fire_time, kept.completed_at) == (None, None)
        rig.pause(new)
        rig.delete(new)
        assert rig.state_of(history) is State.COMPLETED
        assert rig.state_of(run) is State.CANCELLED


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


class UnknownTriggerTests(StoreTests):
    """Triggers that this process cannot load."""

    def test_an_unknown_trigger_keeps_its_state_and_runs(self, rig: Rig) -> None:
        state: Mapping[str, JSON] = {
            "text": TEXTS[2],
            "nested": [{"a": None}],
            "big": 2**70,
            "float": 0.1,
        }
        unknown = UnknownTrigger("from.another.node", state, "not here")
        new = rig.put(definition(trigger=unknown))
        edited = rig.put(replace(new, name="edited", next_fire_time=None))
        assert (edited.name, edited.revision) == ("edited", 2)
        assert edited.next_fire_time == START
        known = rig.put()
        assert ids(rig.due()) == sorted([new.id, known.id])
        for read in rig.read(new), *rig.due():
            if read.id == new.id:
                assert isinstance(read.trigger, UnknownTrigger)
                assert dump_trigger(read.trigger) == ("from.another.node", state)
                assert read.trigger.reason
        rig.fire(edited)
        [instance] = rig.claim()
        assert isinstance(instance.definition.trigger, UnknownTrigger)
        assert rig.finish(instance)

    def test_a_trigger_outlives_its_class(
        self, rig: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        trigger = PassingTrigger({"a": [1, "é"]})
        passing = rig.put(definition(trigger=trigger))
        other = rig.put(definition(START + SECOND))
        with monkeypatch.context() as patch:
            # As in a process that never imported the class.
            patch.delitem(base._kinds, PassingTrigger.kind)
            found = rig.store.list_definitions(ids=[passing.id, other.id])
            assert {each.id for each in found} == {passing.id, other.id}
            first, second = rig.due()
            assert dump_trigger(first.trigger) == dump_trigger(trigger)
            assert second == other
            rig.put(replace(first, name="edited"))
            rig.pause(passing)
            rig.resume(passing)
        found_again = rig.read(passing)
        assert (found_again.trigger, found_again.name) == (trigger, "edited")
        assert found_again.trigger.next_fire_time(START) == START + 24 * HOUR


class OwnerTests(StoreTests):
    """A definition is of one set, or of none."""

    def test_an_id_of_another_owner_is_refused_with_all(self, rig: Rig) -> None:
        free = rig.put()
        declare(rig, ONE, owner=OTHER_APP)
        declare(rig, TWO, version=1)
        for adopts in (False, True):
            with pytest.raises(ConfigurationError, match="the set of 'another app'"):
                declare(rig, THREE, ONE, version=2, adopts=adopts)
        assert owned(rig) == [TWO.id]
        assert declare(rig, TWO, version=1).outdated_by is None
        assert declare(rig, version=1).deleted == {TWO.id}
        assert owned(rig, OTHER_APP) == [ONE.id]
        assert {each.id for each in rig.store.list_definitions()} == {free.id, ONE.id}

    def test_what_its_set_has_paused_another_owner_may_take(self, rig: Rig) -> None:
        declare(rig, ONE, TWO)
        declare(rig, TWO, removed="pause")
        taken = declare(rig, ONE, owner=OTHER_APP)
        assert taken.resumed == [ONE]
        assert kept_by_store(taken.definitions[0]) == (START, False, None, None, 3)
        assert taken.definitions[0].owner == OTHER_APP
        assert owned(rig, OTHER_APP) == [ONE.id]
        assert declare(rig).deleted == {TWO.id}
        with pytest.raises(ConfigurationError, match="the set of 'another app'"):
            declare(rig, ONE)

    def test_what_is_paused_by_hand_is_taken_once_deleted(self, rig: Rig) -> None:
        declare(rig, ONE)
        rig.pause(ONE, note="by hand")
        declare(rig, removed="pause")
        with pytest.raises(ConfigurationError, match="or delete it, before 'another"):
            declare(rig, ONE, owner=OTHER_APP)
        [again] = declare(rig, ONE).definitions
        assert (again.paused, again.note) == (True, "by hand")
        rig.delete(ONE)
        assert owned(rig) == []
        [new] = declare(rig, ONE, owner=OTHER_APP).definitions
        assert (new.paused, new.owner) == (False, OTHER_APP)
        assert new.revision is not None
        assert again.revision is not None
        assert new.revision > again.revision
        assert declare(rig).deleted == set()

    def test_an_id_of_none_is_refused_unless_it_is_adopted(self, rig: Rig) -> None:
        for each in (ONE, TWO, THREE):
            rig.put(each)
        with pytest.raises(ConfigurationError, match=r"no declared set: adopt=True"):
            declare(rig, ONE, definition(key=4))
        assert owned(rig) == []
        assert rig.store.list_definitions() == [ONE, TWO, THREE]
        changed = replace(TWO, name="b"), replace(THREE, trigger=EVERY_TWO_HOURS)
        adopted = declare(rig, ONE, *changed, adopts=True).definitions
        assert [each.owner for each in adopted] == [APP] * 3
        assert [each.revision for each in adopted] == [1, 2, 2]
        assert owned(rig) == [ONE.id, TWO.id, THREE.id]

    def test_a_put_keeps_the_owner_and_gives_none(self, rig: Rig) -> None:
        declare(rig, ONE)
        for each in (
            ONE,
            replace(ONE, name="b", owner=OTHER_APP),
            replace(ONE, trigger=EVERY_TWO_HOURS, owner=None),
        ):
            assert rig.put(each).owner == APP
        assert rig.put(replace(TWO, owner=OTHER_APP)).owner is None
        rig.store.put_definitions([replace(THREE, owner=APP), definition(key=4)])
        assert owned(rig) == [ONE.id]
        assert owned(rig, OTHER_APP) == []
