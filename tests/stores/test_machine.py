"""The store machine finds no fault with our stores, and finds real ones."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import invariant, run_state_machine_as_test

from go_scheduler.models import RUNS, DefinitionState, State
from go_scheduler.policies import Overlap
from go_scheduler.stores.filters import (
    ANY,
    ANY_DEFINITION,
    DefinitionFilter,
    Filter,
    Page,
)
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import Answer
from go_scheduler.stores.rules import Declaration, exclusion_of, uses_slot
from go_scheduler.testing.builders import claimant, firing, put
from go_scheduler.testing.clock import START
from go_scheduler.testing.machine import (
    ALL,
    QUEUES,
    TRIGGERS,
    Starts,
    StoreMachine,
    starts_of,
)
from go_scheduler.triggers.base import dump_trigger
from tests.conftest import SHARED
from tests.made import make_store
from tests.servers import checked_out, delete_all_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Claimant, Put
    from go_scheduler.testing.clock import ManualClock

SETTINGS = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    database=None,
    derandomize=True,
    print_blob=False,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


class MemoryMachine(StoreMachine):
    """What holds in the reference store after whatever is called."""

    def __init__(self) -> None:
        super().__init__()
        # By definition: its series of fire times, and its next one.
        self._series: dict[UUID, tuple[object, datetime | None]] = {}
        self._begun: dict[UUID, set[datetime]] = {}
        # Instances of other series that a definition has had.
        self._former: set[UUID] = set()
        # Of each definition what its instances have excluded.
        self._excluded: dict[UUID, set[object]] = {}

    def make_store(self, clock: ManualClock) -> Store:
        return MemoryStore(clock)

    @invariant()
    def nobody_runs_beside_what_it_excludes(self) -> None:
        for each in self._stored():
            waits = each.trigger.waits or not uses_slot(each)
            self._excluded.setdefault(each.id, set()).add(waits or exclusion_of(each))
        running: dict[UUID, list[TaskInstance]] = {}
        for one in self.store.select(limit=ALL):
            if one.backfilled is Overlap.ALLOW:
                self._excluded[one.definition.id].add(True)
            if one.state in RUNS:
                running.setdefault(one.definition.id, []).append(one)
        for id, found in running.items():
            may_be_more = len(self._excluded[id]) > 1 or True in self._excluded[id]
            assert len(found) == 1 or may_be_more, f"more than one runs: {found}"

    @invariant()
    def nothing_that_has_begun_is_gone_back_over(self) -> None:
        """No fire time is fired twice, however soon its instance is deleted."""
        made = self.oracle.select(limit=ALL)
        for each in self._stored():
            series = dump_trigger(each.trigger), self._lives[each.id][True]
            before, last = self._series.get(each.id, (None, None))
            self._series[each.id] = series, each.next_fire_time
            theirs = [one for one in made if one.definition.id == each.id]
            if series != before:
                self._former |= {one.id for one in theirs}
                self._begun[each.id] = set()
            begun = self._begun[each.id]
            at = each.next_fire_time
            # What waits is told its next fire time by whoever ends a run.
            if series == before and at is not None and not each.trigger.waits:
                again = {
                    one for one in begun if at <= one and not (last and last <= one)
                }
                assert not again, f"to be fired twice: {again}"
            begun |= {
                one.fire_time
                for one in theirs
                if one.fire_time is not None
                and one.id not in self._former
                and (one.runs or one.completed_at)
            }


class EarlyStore(MemoryStore):
    """Claims further ahead than it was told."""

    def claim_instances(
        self, claimant: Claimant, *, ahead: timedelta, **given: Any
    ) -> Any:
        further = ahead + timedelta(seconds=10)
        return super().claim_instances(claimant, ahead=further, **given)


class ForgetfulStore(MemoryStore):
    """Starts nothing and says it did."""

    def start_instances(self, claimant: Claimant, claims: Any) -> Any:
        return Answer(done=[self.get_instance(each.instance_id) for each in claims])


class UnrevisedStore(MemoryStore):
    """Answers and stores a pause as if it were no change."""

    def pause_definitions(self, ids: Collection[UUID], **given: Any) -> Any:
        before = self.select_definitions(DefinitionFilter(ids=ids))
        revisions = {each.id: each.revision for each in before}
        paused = super().pause_definitions(ids, **given)
        return [replace(each, revision=revisions[each.id]) for each in paused]


class FirstAgainStore(MemoryStore):
    """Begins at the first revision whatever has been deleted."""

    def put_definitions(self, *definitions: Any, **given: Any) -> Put:
        self._tables.first_revision = 1
        return super().put_definitions(*definitions, **given)


class ExclusiveStore(MemoryStore):
    """Lists what comes after a time, and not what is at that time."""

    def select(self, where: Filter = ANY, **page: Any) -> Page[TaskInstance]:
        found = super().select(where, **page)
        later = [each for each in found if each.execute_at != where.since]
        return Page(later, next=found.next)


class UnpausedStore(MemoryStore):
    """Lists what is paused among what is active."""

    def select_definitions(
        self, where: DefinitionFilter = ANY_DEFINITION, **page: Any
    ) -> Page[TaskDefinition]:
        if where.state is not DefinitionState.ACTIVE:
            return super().select_definitions(where, **page)
        found = super().select_definitions(replace(where, state=None), **page)
        unended = [each for each in found if each.completed_at is None]
        return Page(unended, next=found.next)


class UnboundedStore(MemoryStore):
    """Gives a slot to whoever asks for it."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self._tables.slots.take = lambda row: True  # type: ignore[method-assign]


@pytest.mark.exhaustive
def test_the_reference_store_is_like_itself() -> None:
    run_state_machine_as_test(MemoryMachine, settings=SETTINGS)


def test_our_stores_start_what_they_make_for_a_node(store: Store) -> None:
    assert starts_of(store) == Starts(put=True, added=True)
    fired = store.fire_definitions([firing(put(store))], claimant=claimant())
    assert len(fired.started) == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("engine", SHARED)
def test_a_store_in_a_database_is_like_the_reference_store(store_url: str) -> None:
    class Machine(StoreMachine):
        def make_store(self, clock: ManualClock) -> Store:
            delete_all_rows(store_url)
            return make_store(store_url, clock)

        def teardown(self) -> None:
            assert checked_out(self.store) == 0
            super().teardown()

    fewer = settings(SETTINGS, max_examples=20)
    run_state_machine_as_test(Machine, settings=fewer)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "broken",
    [
        EarlyStore,
        ForgetfulStore,
        UnrevisedStore,
        FirstAgainStore,
        ExclusiveStore,
        UnboundedStore,
        UnpausedStore,
    ],
)
def test_a_store_that_differs_is_found(broken: type[MemoryStore]) -> None:
    class Machine(StoreMachine):
        def make_store(self, clock: ManualClock) -> Store:
            return broken(clock)

    # What is drawn depends on all of the package's source, and one call in four of a
    # machine's usual length would not find what differs least.
    longer = settings(SETTINGS, max_examples=1500)
    # It differs in what it says or in what it knows: an assertion or an unknown id.
    with pytest.raises((AssertionError, LookupError)):
        run_state_machine_as_test(Machine, settings=longer)


def test_a_machine_without_a_store_says_what_is_missing() -> None:
    with pytest.raises(NotImplementedError, match="has no make_store"):
        StoreMachine()


class Drawn:
    """Hands out what a rule is to draw."""

    def __init__(self, *values: object) -> None:
        self._values = [*values]

    def draw(self, _: object) -> Any:
        return self._values.pop(0)


class PuttingMachine(StoreMachine):
    """Its store starts nothing by itself."""

    def make_store(self, clock: ManualClock) -> Store:
        return PuttingStore(clock)


class PuttingStore(MemoryStore):
    """Starts nothing of what it puts."""

    def put_definitions(self, definitions: Any, **_: Any) -> Put:
        return super().put_definitions(definitions)


FIRST = UUID(int=1)


def declare(machine: StoreMachine, owner: str) -> None:
    """Have it declare one definition."""
    machine.declare({FIRST: TRIGGERS[0]}, Declaration(owner=owner, definitions=()))


def test_the_machine_knows_a_set_that_is_refused() -> None:
    machine = MemoryMachine()
    declare(machine, "one")
    declare(machine, "one")
    declare(machine, "other")
    assert [each.owner for each in machine.store.select_definitions()] == ["one"]


def test_the_machine_knows_a_definition_that_is_declared_no_more() -> None:
    machine = MemoryMachine()
    declare(machine, "one")
    machine.declare({}, Declaration(owner="one", definitions=()))
    assert machine.store.select_definitions() == []
    assert machine._deleted == {(True, FIRST): 1, (False, FIRST): 1}


def test_the_machine_says_which_fields_differ() -> None:
    machine = MemoryMachine()
    declare(machine, "one")
    machine.add(FIRST, [None], None, timedelta(0), None, None)
    machine.stores_are_alike()
    [added] = machine.store.select()
    machine.store.cancel_instances({added.id: None})
    state, completed_at, definition = said_by(machine)
    assert state == (
        f"{added.id} state: {State.CANCELLED!r}, MemoryStore has {State.PENDING!r}"
    )
    assert completed_at == (
        f"{added.id} completed_at: {machine.clock.now()!r}, MemoryStore has None"
    )
    assert definition.startswith(f"{added.id} definition: None, MemoryStore has {{")
    [read] = machine.store.select_definitions()
    machine.store.put_definitions([replace(read, queue="b", revision=None)])
    assert said_by(machine) == [
        f"{FIRST} queue: 'b', MemoryStore has 'default'",
        f"{FIRST} revision: 1, MemoryStore has 0",
    ]
    machine.store.delete_definitions([FIRST])
    [gone] = said_by(machine)
    assert gone.startswith(f"{FIRST}: 'nothing', MemoryStore has {{")
    machine.store.keep_setting("a", "1")
    with pytest.raises(AssertionError, match=r"^the answer: '1', MemoryStore has '2'$"):
        machine.keep_setting("a", "2")


def said_by(machine: StoreMachine) -> Sequence[str]:
    """What a machine says whose stores differ."""
    with pytest.raises(AssertionError) as caught:
        machine.stores_are_alike()
    return str(caught.value).splitlines()


@pytest.mark.parametrize("change", ["edits", "deletes"])
def test_the_machine_knows_a_backfill_that_comes_too_late(change: str) -> None:
    machine = MemoryMachine()
    declare(machine, "one")
    [read] = machine.oracle.select_definitions()
    life = dict(machine._lives[FIRST])
    for store in (machine.oracle, machine.store):
        if change == "edits":
            store.put_definitions([replace(read, name="other", revision=None)])
        else:
            store.delete_definitions([FIRST])
    machine.backfill(Drawn((read, life), [START]), Overlap.SKIP)
    assert machine.store.select(Filter(definition_id=FIRST)) == []


def test_the_machine_knows_a_store_that_starts_nothing_by_itself() -> None:
    machine = PuttingMachine()
    machine.put_and_start(None, TRIGGERS[0], QUEUES[0], 0, False, FIRST)
    assert len(machine.store.select_definitions()) == 1
    assert machine.store.select(Filter(states=[State.RUNNING])) == []
