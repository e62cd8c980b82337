"""Store suite: definitions are put, read and listed, alone or as declared sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import combinations
from typing import Any, ClassVar
from uuid import UUID

import pytest

from go_scheduler.errors import ConfigurationError, ConflictError
from go_scheduler.json import JSON
from go_scheduler.models import DefinitionState, State, TaskDefinition
from go_scheduler.policies import CatchUp, Overlap, RetryPolicy
from go_scheduler.stores.filters import DefinitionFilter, DefinitionOrder, Filter, Order
from go_scheduler.stores.messages import Position
from go_scheduler.stores.rules import Declaration, Declared, removal_note
from go_scheduler.testing.builders import (
    EVERY_TWO_HOURS,
    HOUR,
    MINUTE,
    NOBODY,
    SECOND,
    WAITING,
    YEAR,
    Rig,
    StoreTests,
    all_pages,
    at_once,
    check,
    counts_by_state,
    definition,
    ids,
    kept_by_store,
    revision_of,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.views import TEXTS
from go_scheduler.triggers import base
from go_scheduler.triggers.base import Trigger, UnknownTrigger, dump_trigger
from go_scheduler.triggers.simple import ExecuteOnceTrigger, IntervalTrigger

THREADS = 6
APP, OTHER_APP = "app", "another app"
ONE, TWO, THREE = (definition(key=number) for number in (1, 2, 3))


def declare(
    rig: Rig, *definitions: TaskDefinition, owner: str = APP, **fields: Any
) -> Declared:
    """Declare a set; return lists and a set, whatever types the store returns."""
    wanted = Declaration(owner=owner, definitions=definitions, **fields)
    declared = rig.store.declare_definitions(wanted)
    return replace(
        declared,
        definitions=[*declared.definitions],
        resumed=[*declared.resumed],
        deleted={*declared.deleted},
        paused=[*declared.paused],
    )


def _try(rig: Rig, wanted: TaskDefinition, owner: str, adopts: bool) -> str | None:
    """Declare a definition; return its owner, or None if the store refuses."""
    try:
        [declared] = declare(rig, wanted, owner=owner, adopts=adopts).definitions
    except ConfigurationError:
        return None
    return declared.owner


def owned(rig: Rig, owner: str = APP) -> list[UUID]:
    """The ids of the definitions in a set."""
    return [
        each.id
        for each in rig.store.select_definitions(DefinitionFilter(owners=[owner]))
    ]


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
        new[0] = replace(new[0], metadata={"c": 1}, expire_after=MINUTE, note="why")
        retry, catch_up = RetryPolicy(max_attempts=2), CatchUp(grace=HOUR)
        new[0] = replace(new[0], completed_at=START, retry=retry, catch_up=catch_up)
        stored = rig.store.put_definitions(new).definitions
        assert stored == new
        for given, answered in zip(new, stored, strict=True):
            found = rig.read(given)
            assert found == given
            for each in (answered, found):
                assert kept_by_store(each) == (START, False, None, None, 1)
        assert rig.store.put_definitions([]).definitions == []

    def test_a_key_is_kept_until_another_put_has_none(self, rig: Rig) -> None:
        new = definition(key="ä", lock="a")
        assert [each.definition for each in rig.fired(new, START)] == [new]
        edits: Sequence[Mapping[str, Any]] = ({"name": "b"}, {"jitter": MINUTE})
        for edit in edits:
            new = replace(new, **edit)
            assert rig.put(new) == rig.read(new) == new
        rig.pause(new)
        rig.resume(new)
        assert rig.read(new) == new
        new = replace(new, key=None)
        assert rig.put(new) == rig.read(new) == new

    @pytest.mark.parametrize("exists", [False, True])
    def test_a_repeated_id_is_refused_with_all(self, rig: Rig, *, exists: bool) -> None:
        other, one = definition(), definition(name="old")
        if exists:
            rig.put(one)
        given = [other, replace(one, name="new"), replace(one, name="newer")]
        with pytest.raises(ConfigurationError, match="twice"):
            rig.store.put_definitions(given)
        found = rig.store.select_definitions(DefinitionFilter(ids=[other.id, one.id]))
        assert [each.name for each in found] == ["old"] * exists

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
        edited = rig.edit(later, name="other")
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
        changed = rig.edit(read, name="second")
        for name in ("third", "second", "first"):
            with pytest.raises(ConflictError) as caught:
                rig.edit(read, name=name)
            assert caught.value.definition_id == read.id
            assert (caught.value.expected, caught.value.revision) == (1, 2)
        assert rig.read(read).name == "second"
        assert rig.edit(changed, name="third").revision == 3

    def test_revision_0_is_that_of_a_new_definition(self, rig: Rig) -> None:
        new = rig.put(definition(revision=0))
        assert new.revision == 1
        with pytest.raises(ConflictError) as caught:
            rig.edit(new, revision=0)
        assert (caught.value.expected, caught.value.revision) == (0, 1)
        rig.delete(new)
        with pytest.raises(ConflictError) as caught:
            rig.put(new)
        assert (caught.value.expected, caught.value.revision) == (1, None)
        assert rig.edit(new, revision=0).id == new.id

    def test_where_one_definition_conflicts_none_is_put(self, rig: Rig) -> None:
        old, first, last = rig.put(), definition(), definition()
        conflicting = replace(old, name="other", revision=7)
        with pytest.raises(ConflictError):
            rig.store.put_definitions([first, conflicting, last])
        assert rig.store.select_definitions() == [old]


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
    ({"queues": ["A"]}, LARGE),
    ({"queues": {"a", "A"}}, [0, 1, 2, 3, 4, 5, 6, 8, *LARGE]),
    ({"state": ACTIVE}, [0, 1, 2, 3, 4, 6, 7, *LARGE]),
    ({"state": DefinitionState.PAUSED}, [5]),
    ({"state": DefinitionState.COMPLETED}, [8]),
    ({"queues": []}, []),
    ({"owners": []}, []),
)
CONDITIONS: Sequence[dict[str, Any]] = (
    {"ids": [UUID(int=key) for key in (3, 4, 5, 8, *LARGE)]},
    {"metadata": {"c": 1}},
    {"name": "a"},
    {"name_prefix": "A"},
    {"queues": ["a"]},
    {"owners": [APP]},
    {"owners": [APP, OTHER_APP]},
    *({"state": state} for state in DefinitionState),
    {},
)


class DefinitionListTests(StoreTests):
    """``select_definitions``."""

    def _fill(self, rig: Rig) -> None:
        fire_times = [START + HOUR, None, START - HOUR, START, None, START, START]
        for key, at in enumerate(fire_times):
            new = definition(at, key=key, name="a", queue="a", trigger=WAITING)
            rig.edit(new, metadata={"c": key % 2})
        rig.put(definition(START, key=7))
        rig.put(definition(None, key=8, queue="a"))
        for key in LARGE:
            rig.put(definition(START + MINUTE * 90, key=key, name="A", queue="A"))
        rig.store.pause_definitions([UUID(int=5)])

    def test_lists_of_definitions_meet_every_condition(self, rig: Rig) -> None:
        self._fill(rig)
        for conditions, expected in LISTS:
            where = DefinitionFilter(**conditions)
            for limit in (1, 2, 4, 11, 12):
                page = partial(rig.store.select_definitions, where)
                found = [each.id.int for each in all_pages(page, limit=limit)]
                assert found == expected, f"{conditions} in pages of {limit}"
        gone = Position(at=None, id=UUID(int=2**100))
        behind = rig.store.select_definitions(after=gone)
        assert [each.id.int for each in behind] == LARGE

    def test_definitions_meet_each_pair_of_conditions_in_order(self, rig: Rig) -> None:
        self._fill(rig)
        declare(rig, *(definition(key=key, name="A") for key in (9, 10)))
        declare(rig, definition(key=11, queue="a"), owner=OTHER_APP)
        every = rig.store.select_definitions()
        assert len(every) == 14
        for one, other in combinations(CONDITIONS, 2):
            where = DefinitionFilter(**{**one, **other})
            expected = [each for each in every if where.matches(each)]
            soonest = sorted(expected, key=_fires_at)
            by_order = zip(DefinitionOrder, (expected, soonest), strict=True)
            for order, in_order in by_order:
                page = partial(rig.store.select_definitions, where, order=order)
                found = all_pages(page, limit=2)
                assert ids(found) == ids(in_order), (where, order)

    def test_a_page_has_100_definitions_by_default(self, rig: Rig) -> None:
        rig.store.put_definitions([definition() for _ in range(101)])
        assert len(rig.store.select_definitions()) == 100

    def test_listed_definitions_are_read_as_they_are_stored(self, rig: Rig) -> None:
        new = rig.put(definition(name="a", metadata={"b": [1, {}]}))
        rig.pause(new, note="why")
        [found] = rig.store.select_definitions()
        assert found == new
        assert kept_by_store(found) == (START, True, "why", None, 2)

    def test_by_ids(self, rig: Rig) -> None:
        for key in range(4):
            rig.put(definition(key=key))
        found = rig.store.select_definitions(
            DefinitionFilter(ids=[UUID(int=3), NOBODY, UUID(int=1)])
        )
        assert [each.id.int for each in found] == [1, 3]
        assert rig.store.select_definitions(DefinitionFilter(ids=[])) == []

    def test_by_what_the_metadata_contains(self, rig: Rig) -> None:
        new = [rig.put(definition(metadata=stored)) for stored, *_ in CONTAINED]
        for of, (stored, asked, contains) in zip(new, CONTAINED, strict=True):
            found = of.id in ids(
                rig.store.select_definitions(DefinitionFilter(metadata=asked))
            )
            assert found is contains, f"{stored} contains {asked}: {contains}"


def _fires_at(each: TaskDefinition) -> tuple[bool, datetime, UUID]:
    at = each.next_fire_time
    return at is None, at or START, each.id


@dataclass(frozen=True)
class PassingTrigger(Trigger):
    """A trigger that fires once a day; a test removes its class.

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
        state: Mapping[str, JSON] = {"text": TEXTS[2], "nested": [{"a": None}]}
        state = {**state, "big": 2**70, "float": 0.1}
        unknown = UnknownTrigger("from.another.node", state, "not here")
        new = rig.put(definition(trigger=unknown))
        edited = rig.edit(new, name="edited", next_fire_time=None)
        check(edited, name="edited", revision=2, next_fire_time=START)
        known = rig.put()
        assert ids(rig.due()) == sorted([new.id, known.id])
        for read in rig.read(new), *rig.due():
            if read.id == new.id:
                assert isinstance(read.trigger, UnknownTrigger)
                assert dump_trigger(read.trigger) == ("from.another.node", state)
                assert read.trigger.reason
        rig.fire(edited)
        [instance] = rig.run_due()
        assert isinstance(instance.definition.trigger, UnknownTrigger)

    def test_a_trigger_outlives_its_class(
        self, rig: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        trigger = PassingTrigger({"a": [1, "é"]})
        passing = rig.put(definition(trigger=trigger))
        other = rig.put(definition(START + SECOND))
        with monkeypatch.context() as patch:
            # As in a process that never imported the class.
            patch.delitem(base._kinds, PassingTrigger.kind)
            found = rig.store.select_definitions(
                DefinitionFilter(ids=[passing.id, other.id])
            )
            assert {each.id for each in found} == {passing.id, other.id}
            first, second = rig.due()
            assert dump_trigger(first.trigger) == dump_trigger(trigger)
            assert second == other
            rig.edit(first, name="edited")
            rig.pause(passing)
            rig.resume(passing)
        found_again = rig.read(passing)
        assert (found_again.trigger, found_again.name) == (trigger, "edited")
        assert found_again.trigger.next_fire_time(START) == START + 24 * HOUR


class SetTests(StoreTests):
    """``declare_definitions``: a definition is of one set, or of none."""

    def test_what_is_declared_is_put_and_has_its_owner(self, rig: Rig) -> None:
        declared = declare(rig, TWO, ONE)
        assert (declared.definitions, declared.outdated_by) == ([TWO, ONE], None)
        assert [declared.resumed, declared.deleted, declared.paused] == [[], set(), []]
        assert [each.owner for each in declared.definitions] == [APP, APP]
        assert [each.revision for each in declared.definitions] == [1, 1]
        rig.check(ONE, owner=APP, next_fire_time=START)
        assert ids(rig.due()) == [ONE.id, TWO.id]
        [instance] = rig.fire(rig.read(ONE))
        assert instance.definition.owner == APP
        assert rig.claim()[0].definition.owner == APP

    def test_what_is_left_of_a_definition_has_its_name_owner_and_queue(
        self, rig: Rig
    ) -> None:
        declare(rig, replace(ONE, name="a"))
        left = rig.running(rig.read(ONE))
        declare(rig)
        conditions: Sequence[tuple[dict[str, Any], int]] = (
            ({"queues": {ONE.queue}, "owners": {APP}}, 1),
            ({"queues": {"x"}}, 0),
            ({"name": "a"}, 1),
            ({"definition_id": ONE.id}, 0),
        )
        for where, count in conditions:
            for order in (Order.EXECUTION, Order.FIRE_TIME):
                found = rig.store.select(Filter(**where), order=order)
                assert ids(found) == [left.id] * count, where
            assert counts_by_state(rig.store, **where)[State.CANCELLED] == count

    def test_the_same_again_changes_nothing(self, rig: Rig) -> None:
        first = declare(rig, ONE, TWO)
        again = declare(rig, ONE, TWO)
        assert again == first
        for one, other in zip(again.definitions, first.definitions, strict=True):
            assert kept_by_store(one) == kept_by_store(other)

    def test_what_is_no_longer_declared_is_deleted(self, rig: Rig) -> None:
        declare(rig, ONE, TWO, THREE)
        run = rig.running(TWO)
        declared = declare(rig, ONE)
        check(declared, deleted={TWO.id, THREE.id}, paused=[], resumed=[])
        assert owned(rig) == ids(rig.store.select_definitions()) == [ONE.id]
        assert rig.read(run).state is State.CANCELLED

    def test_what_is_declared_no_more_may_be_paused(self, rig: Rig) -> None:
        declare(rig, ONE, TWO)
        later = START + HOUR
        rig.fire(rig.read(TWO), later)
        declared = declare(rig, ONE, removed="pause")
        check(declared, deleted=set(), paused=[TWO])
        [paused] = declared.paused
        assert kept_by_store(paused) == (later, True, removal_note(APP), None, 2)
        assert kept_by_store(rig.read(TWO)) == kept_by_store(paused)
        assert owned(rig) == [ONE.id, TWO.id]
        assert rig.store.select() == []
        assert declare(rig, ONE, removed="pause").paused == []

    def test_what_is_declared_no_more_may_be_kept(self, rig: Rig) -> None:
        declare(rig, ONE, TWO)
        kept = declare(rig, TWO, removed="keep")
        assert (kept.deleted, kept.paused) == (set(), [])
        assert declare(rig, THREE, version=3, removed="keep").definitions == [THREE]
        assert owned(rig) == [ONE.id, TWO.id, THREE.id]
        assert kept_by_store(rig.read(ONE))[-1] == 1
        outdated = declare(rig, ONE, version=2, removed="keep")
        assert (outdated.outdated_by, outdated.definitions) == (3, [])
        assert declare(rig, ONE, version=3).deleted == {TWO.id, THREE.id}

    def test_a_removed_definition_resumes_if_declared_again(self, rig: Rig) -> None:
        declare(rig, ONE, TWO, THREE)
        declare(rig, ONE, removed="pause")
        declared = declare(rig, ONE, TWO)
        check(declared, deleted={THREE.id}, resumed=[TWO])
        assert [each.paused for each in declared.definitions] == [False, False]
        assert kept_by_store(declared.definitions[1]) == (START, False, None, None, 3)
        assert kept_by_store(rig.read(TWO)) == kept_by_store(declared.resumed[0])

    def test_what_is_paused_by_hand_stays_so(self, rig: Rig) -> None:
        declare(rig, ONE, TWO)
        rig.store.pause_definitions([ONE.id, TWO.id], note="by hand")
        assert declare(rig, ONE, removed="pause").paused == []
        declared = declare(rig, ONE, TWO)
        assert declared.resumed == []
        assert {each.note for each in declared.definitions} == {"by hand"}
        assert all(each.paused for each in rig.store.select_definitions())

    def test_what_is_declared_otherwise_is_edited(self, rig: Rig) -> None:
        declare(rig, ONE, TWO, THREE)
        other = replace(ONE, trigger=EVERY_TWO_HOURS)
        declared = declare(rig, other, replace(TWO, name="b"), THREE)
        assert [each.revision for each in declared.definitions] == [2, 2, 1]
        assert rig.read(ONE).trigger == other.trigger
        assert rig.read(TWO).name == "b"
        assert owned(rig) == [ONE.id, TWO.id, THREE.id]

    def test_what_has_ended_before_does_not_run_again(self, rig: Rig) -> None:
        once = replace(ONE, trigger=ExecuteOnceTrigger(START))
        declare(rig, once)
        rig.ended(once)
        rig.clean_up()
        [over] = declare(rig, once).definitions
        assert over.completed_at is not None
        assert over.owner is None
        assert rig.store.select_definitions() == []

    def test_a_lower_version_changes_nothing(self, rig: Rig) -> None:
        assert declare(rig, ONE, version=2).outdated_by is None
        for version in (1, 0, None):
            outdated = declare(rig, TWO, version=version)
            assert (outdated.outdated_by, outdated.definitions) == (2, [])
        # An outdated declaration is not checked for other reasons to refuse it.
        rig.put(THREE)
        assert declare(rig, THREE, version=1).outdated_by == 2
        assert owned(rig) == [ONE.id]

    def test_the_same_version_and_a_higher_one_count(self, rig: Rig) -> None:
        declare(rig, ONE)
        assert declare(rig, TWO, version=0).deleted == {ONE.id}
        assert declare(rig, ONE, version=0).deleted == {TWO.id}
        assert declare(rig, TWO, version=2**63 - 1).deleted == {ONE.id}
        assert declare(rig, ONE, version=7).outdated_by == 2**63 - 1

    def test_an_empty_set_keeps_its_version(self, rig: Rig) -> None:
        declare(rig, ONE, version=7)
        assert declare(rig, TWO, version=1, owner=OTHER_APP).definitions == [TWO]
        declare(rig, version=7)
        rig.advance(YEAR)
        rig.clean_up()
        assert declare(rig, ONE, version=6).outdated_by == 7

    def test_an_id_that_is_there_twice_is_refused(self, rig: Rig) -> None:
        with pytest.raises(ConfigurationError, match="is there twice"):
            declare(rig, ONE, replace(ONE, name="b"))
        assert rig.store.select_definitions() == []

    def test_what_is_not_at_its_revision_is_a_conflict_of_all(self, rig: Rig) -> None:
        declare(rig, ONE, TWO, version=1)
        stale = replace(ONE, name="b", revision=5)
        with pytest.raises(ConflictError):
            declare(rig, stale, THREE, version=2)
        assert owned(rig) == [ONE.id, TWO.id]
        assert declare(rig, ONE, TWO, version=1).outdated_by is None

    def test_of_concurrent_sets_one_is_there_as_a_whole(self, rig: Rig) -> None:
        keys = range(1, THREADS + 1)
        sets = [[definition(key=n), definition(key=n + 1, name=str(n))] for n in keys]
        at_once(*(partial(declare, rig, *each) for each in sets))
        found = rig.store.select_definitions(DefinitionFilter(owners=[APP]))
        assert found in sets
        assert rig.store.select_definitions() == found

    def test_of_versions_declared_at_once_the_highest_is_there(self, rig: Rig) -> None:
        def declare_it(number: int) -> None:
            declare(rig, definition(key=number), ONE, version=number)

        at_once(*(partial(declare_it, number) for number in range(2, THREADS + 2)))
        assert owned(rig) == [ONE.id, UUID(int=THREADS + 1)]

    def test_what_several_owners_declare_at_once_one_has(self, rig: Rig) -> None:
        for key, adopts in ((1, True), (2, True), (3, False), (4, False)):
            wanted = definition(key=key)
            if adopts:
                rig.put(wanted)
            owners = [f"app {number}" for number in range(THREADS)]
            tries = [partial(_try, rig, wanted, each, adopts) for each in owners]
            [owner] = [each for each in at_once(*tries) if each is not None]
            assert rig.read(wanted).owner == owner

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
        assert {each.id for each in rig.store.select_definitions()} == {free.id, ONE.id}

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
        assert revision_of(new) > revision_of(again)
        assert declare(rig).deleted == set()

    def test_an_id_of_none_is_refused_unless_it_is_adopted(self, rig: Rig) -> None:
        for each in (ONE, TWO, THREE):
            rig.put(each)
        with pytest.raises(ConfigurationError, match=r"no declared set: adopt=True"):
            declare(rig, ONE, definition(key=4))
        assert owned(rig) == []
        assert rig.store.select_definitions() == [ONE, TWO, THREE]
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
        assert rig.edit(TWO, owner=OTHER_APP).owner is None
        rig.store.put_definitions([replace(THREE, owner=APP), definition(key=4)])
        assert owned(rig) == [ONE.id]
        assert owned(rig, OTHER_APP) == []
