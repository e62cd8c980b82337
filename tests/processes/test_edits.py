"""Many processes run what another one edits: as it was edited last, and each once."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, count
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from go_scheduler.client import Client
from go_scheduler.errors import StoreUnavailableError
from go_scheduler.models import Cancelled, Outcome, State, TaskDefinition
from go_scheduler.policies import CatchUp
from go_scheduler.stores.filters import Filter
from go_scheduler.testing.builders import all_pages
from go_scheduler.triggers import IntervalTrigger
from tests.processes.node import Role
from tests.processes.process import (
    ON_SHARED_STORES,
    Processes,
    all_instances,
    processes,
    stop_all,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence, Set
    from pathlib import Path

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store

pytestmark = ON_SHARED_STORES


@pytest.fixture
def nodes(store: Store, store_url: str, tmp_path: Path) -> Iterator[Processes]:
    """Starts processes; an audit does not know when a trigger was changed."""
    with processes(store_url, tmp_path) as started:
        yield started


EVERY = timedelta(milliseconds=250)
TICK = timedelta(microseconds=1)
DEFINITIONS, EDITS = 25, 180
# On a CockroachDB of one machine so many edits and ticks would take minutes.
FEWER_DEFINITIONS, FEWER_EDITS = 6, 25
TRIES = 10
RUNS_EACH = 2
"""How many runs there are between two edits, at least."""
UNSTARTED = (State.PENDING, State.CLAIMED)


class PatientClient(Client):
    """Asks again, as users do, where what it changes is locked for too long."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in ("schedule", "pause", "resume", "delete_definition", "cancel"):
            return found

        def call(*args: object, **more: object) -> object:
            for _ in range(TRIES):
                with suppress(StoreUnavailableError):
                    return found(*args, **more)
            return found(*args, **more)

        return call


class Editor:
    """Edits definitions at random, and knows what has to be true of each since.

    Each trigger has a number, by which its fire times are told from all others.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._client = PatientClient(store)
        self._random = Random(7)
        self._numbers = count(1)
        self._last: dict[UUID, TaskDefinition] = {}
        self._first: dict[UUID, datetime] = {}
        # What of a paused one had begun by then.
        self._begun_before: dict[UUID, Set[UUID]] = {}
        # What had begun when an edit took the place of a trigger, by its number.
        self._kept: dict[int, Set[UUID]] = {}
        self._deleted_at: dict[int, datetime] = {}
        self._asked: dict[UUID, list[UUID]] = defaultdict(list)
        self._cancelled: set[UUID] = set()

    def create(self) -> None:
        catch_up = CatchUp(mode="all")
        self._put(TaskDefinition(trigger=self._trigger(), catch_up=catch_up))

    def edit(self) -> None:
        """Do something to one of the definitions."""
        definition = self._random.choice(list(self._last.values()))
        self._check(definition)
        pauses = [self._resume] * 3 if definition.paused else [self._pause]
        edits = (self._move, self._change, self._replace, self._run, self._cancel)
        self._random.choice([*edits, *pauses])(definition)

    def resume_all(self) -> None:
        for each in list(self._last.values()):
            if each.paused:
                self._resume(each)

    def are_past(self, until: datetime) -> bool:
        """Whether all has ended that was to run until then."""
        ends = [self._check(each) for each in self._last.values()]
        return min(ends) > until and all(
            each.outcome is not None or each.execute_at > until
            for each in all_instances(self.store)
        )

    def check_runs(self, called: Collection[UUID], until: datetime) -> None:
        """What was run is all that was to run, until then, and nothing else."""
        stored = {each.id: each for each in all_instances(self.store)}
        assert stored.keys() >= set(called), "what an edit had removed was run"
        assert self._cancelled.isdisjoint(called)
        for asked in chain.from_iterable(self._asked.values()):
            completed = stored[asked].outcome is Outcome.COMPLETED
            assert completed or asked in self._cancelled
        for each in stored.values():
            number = number_of(each.fire_time)
            assert number not in self._kept or each.id in self._kept[number]
            if number in self._deleted_at:
                assert each.completed_at is not None
                assert each.completed_at <= self._deleted_at[number]
            if each.outcome is Outcome.COMPLETED:
                assert each.id in called
            elif each.outcome is Outcome.CANCELLED:
                # What runs when its definition is deleted ends as cancelled as well.
                assert each.id in self._cancelled or each.started_at is not None
            elif each.outcome is Outcome.SKIPPED:
                # It had passed when another trigger took the place of its own.
                assert each.skipped is not None
                assert number_of(each.skipped.first) in self._kept
                assert each.id not in called
            else:
                assert each.execute_at > until

    def _check(self, given: TaskDefinition) -> datetime:
        """Nothing has undone the last edit, and each fire time has its instance.

        Returns:
            Its next fire time.
        """
        stored = self._client.get_definition(given.id)
        assert stored == given
        assert (stored.paused, stored.revision) == (given.paused, given.revision)
        assert stored.next_fire_time is not None
        made = Counter(each.fire_time for each in self._of(stored))
        due = self._first[stored.id]
        while due < stored.next_fire_time:
            assert made[due] == 1
            due += EVERY
        if stored.paused:
            assert self._begun(stored) == self._begun_before[stored.id]
        return stored.next_fire_time

    def _move(self, definition: TaskDefinition) -> None:
        """Give it another trigger: of the old one only what had begun is left."""
        number = number_of(self._first[definition.id])
        self._put(replace(definition, trigger=self._trigger()))
        left = [
            each for each in self._of(definition) if number_of(each.fire_time) == number
        ]
        assert {each.state for each in left}.isdisjoint(UNSTARTED)
        self._kept[number] = {each.id for each in left}

    def _change(self, definition: TaskDefinition) -> None:
        metadata = {"edit": next(self._numbers)}
        changed = replace(definition, metadata=metadata)
        self._last[definition.id] = self._client.schedule(changed)

    def _pause(self, definition: TaskDefinition) -> None:
        paused = self._client.pause(definition.id, note="by a test")
        self._last[definition.id] = paused
        self._begun_before[definition.id] = self._begun(paused)

    def _resume(self, definition: TaskDefinition) -> None:
        self._last[definition.id] = self._client.resume(definition.id)

    def _replace(self, definition: TaskDefinition) -> None:
        """Delete it, by which all of it has ended, and make another one of its id."""
        assert self._client.delete_definition(definition.id)
        self._deleted_at[number_of(self._first[definition.id])] = self.store.now()
        self._asked.pop(definition.id, None)
        self._put(replace(definition, trigger=self._trigger(), revision=None))

    def _run(self, definition: TaskDefinition) -> None:
        made = self._client.run_now(definition.id)
        self._asked[definition.id].append(made.id)

    def _cancel(self, definition: TaskDefinition) -> None:
        made = [each for each in self._of(definition) if each.outcome is None]
        if made:
            chosen = self._random.choice(made).id
            if self._client.cancel(chosen) is Cancelled.CANCELLED:
                self._cancelled.add(chosen)

    def _put(self, definition: TaskDefinition) -> None:
        put = self._client.schedule(definition)
        assert put.next_fire_time is not None
        self._last[put.id] = put
        self._first[put.id] = put.next_fire_time
        self._begun_before[put.id] = self._begun(put)

    def _trigger(self) -> IntervalTrigger:
        first = datetime(2026, 1, 1, tzinfo=UTC)
        return IntervalTrigger(EVERY, first + next(self._numbers) * TICK)

    def _of(self, definition: TaskDefinition) -> Sequence[TaskInstance]:
        its = partial(self.store.select, Filter(definition_id=definition.id))
        return all_pages(its, limit=1000)

    def _begun(self, definition: TaskDefinition) -> Set[UUID]:
        return {each.id for each in self._of(definition) if each.started_at is not None}


def number_of(fire_time: datetime | None) -> int:
    """The number of the trigger that a fire time is of; 0 for one that has none."""
    return 0 if fire_time is None else fire_time.microsecond % (EVERY // TICK)


def test_what_one_process_edits_while_others_fire_and_run_it_is_as_it_was_edited_last(
    store: Store, nodes: Processes, engine: str
) -> None:
    fewer = engine == "cockroachdb"
    editor = Editor(store)
    for _ in range(FEWER_DEFINITIONS if fewer else DEFINITIONS):
        editor.create()
    started = nodes.start_many(3, Role())
    for number in range(FEWER_EDITS if fewer else EDITS):
        nodes.wait_until(started, "called", number * RUNS_EACH)
        editor.edit()
    editor.resume_all()
    until = store.now()
    while not editor.are_past(until):
        told = sum(each.told("called") for each in started)
        nodes.wait_until(started, "called", told + 1)
    stop_all(started)
    called = Counter(UUID(id) for node in started for id, _ in node.called())
    assert set(called.values()) == {1}
    editor.check_runs(called, until)
