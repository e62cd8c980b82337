"""The two stores of the store machine: called alike, and compared."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from go_scheduler.errors import ConflictError
from go_scheduler.models import RUNS, State, TaskDefinition, TaskInstance
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import Claim, Claimant, Firing
from go_scheduler.testing.clock import ManualClock
from go_scheduler.testing.machine.drawn import ALL, STEP
from go_scheduler.triggers.stored import dump_trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Firing

    # The first revision of a definition's life: the oracle's (True) and the store's.
    Life: TypeAlias = dict[bool, int]
    Put: TypeAlias = Callable[
        [Store, Sequence[TaskDefinition]], Sequence[TaskDefinition]
    ]

_T = TypeVar("_T")


class StorePair(RuleBasedStateMachine):
    """A store and a ``MemoryStore``, and which id of one is which of the other."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.oracle: Store = MemoryStore(self.clock)
        self.oracle.initialize()
        self.store = self.make_store(self.clock)
        # Both stores choose their instances' ids: of the oracle's id the store's.
        self._twins: dict[UUID, UUID] = {}
        # But for those that were added: these have the same id in both.
        self._added: set[UUID] = set()
        # And their definitions' revisions: they are compared from the first one on.
        self._lives: dict[UUID, Life] = {}
        self._deleted: dict[tuple[bool, UUID], int] = {}
        self._read: list[tuple[TaskDefinition, Life]] = []
        self._claims: list[Claim] = []
        # What once excluded something else: an instance may run beside another since.
        self._loosened: set[UUID] = set()

    def make_store(self, clock: ManualClock) -> Store:
        """An empty, initialized store on a clock.

        Args:
            clock: What the store goes by.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no make_store(self, clock)"
        )

    def teardown(self) -> None:
        """Close the store."""
        self.store.close()

    def _claimant(self, node: UUID, queues: tuple[str, ...]) -> Claimant:
        return Claimant(node=node, queues=queues, lease=2 * STEP, expire_after=3 * STEP)

    def _note(self, claimed: Iterable[TaskInstance]) -> None:
        # Ids are random, and Hypothesis has to draw the same again.
        def order(instance: TaskInstance) -> tuple[UUID, datetime]:
            return instance.definition.id, instance.execute_at

        self._claims += [
            Claim(instance_id=each.id, attempt=each.attempt)
            for each in sorted(claimed, key=order)
        ]

    def _alike(self, call: Callable[[Store], object]) -> None:
        expected, found = call(self.oracle), call(self.store)
        assert found == expected, f"{found}\nis not what MemoryStore has:\n{expected}"

    def _alike_by_id(self, call: Callable[[Store], Sequence[TaskDefinition]]) -> None:
        self._alike(
            lambda store: {
                each.id: self._definition(store, each) for each in call(store)
            }
        )

    def _put(
        self, *new: TaskDefinition, edits: int | None = None, by: Put | None = None
    ) -> None:
        """Put definitions; those that are new begin a life at a higher revision."""
        self._loosened |= {each.id for each in new if each.trigger.waits}
        stored = {each.id for each in self._stored()}
        begin = [each.id for each in new if each.id not in stored]
        for each in begin:
            self._lives.pop(each, None)

        def put(store: Store) -> object:
            mine = [self._edited(store, each, edits) for each in new]
            try:
                answer = store.put_definitions(mine) if by is None else by(store, mine)
            except ConflictError as error:
                of, first = error.definition_id, self._first(store, error.definition_id)
                revisions = (error.expected, error.revision)
                return of, [each and each - first for each in revisions]
            for each in answer:
                if each.id in begin:
                    self._begin(store, each)
            return [self._definition(store, each) for each in answer]

        self._alike(put)
        for put_one in new:
            self._note_made(put_one.id)

    def _begin(self, store: Store, new: TaskDefinition) -> None:
        side, first = store is self.oracle, revision_of(new)
        gone = self._deleted.get((side, new.id), 0)
        assert first > gone, f"revision {first} is not after {gone}, of one deleted"
        self._lives.setdefault(new.id, {})[side] = first

    def _edited(
        self, store: Store, new: TaskDefinition, edits: int | None
    ) -> TaskDefinition:
        if edits is None:
            return new
        return replace(new, revision=self._first(store, new.id) + edits)

    def _first(self, store: Store, definition_id: UUID) -> int:
        """The revision at which a definition's life began in a store."""
        return self._lives.get(definition_id, {}).get(store is self.oracle, 1)

    def _definition(self, store: Store, given: TaskDefinition) -> object:
        """All that a store keeps of a definition, its trigger's anchor too."""
        return (
            given,
            dump_trigger(given.trigger),
            given.next_fire_time,
            (given.paused, given.note, given.paused_at, given.last_pause),
            (given.overdue, given.owner),
            given.completed_at,
            revision_of(given) - self._first(store, given.id),
        )

    def _stored(self) -> Sequence[TaskDefinition]:
        return self.oracle.list_definitions(limit=ALL)

    def _fire(self, firing: Firing, life: Life) -> None:
        """Fire, and note which new instance of the store is which of the oracle.

        Args:
            firing: Of a definition as the oracle had it.
            life: That of the definition when it was read.
        """
        definition_id = firing.definition.id
        edits = revision_of(firing.definition) - life[True]

        def fire(store: Store) -> object:
            read = replace(
                firing.definition, revision=life[store is self.oracle] + edits
            )
            return set(store.fire_definitions([replace(firing, definition=read)]).done)

        self._alike(fire)
        self._note_made(definition_id)

    def _note_made(self, definition_id: UUID) -> None:
        """Note which new instance of the store is which of the oracle."""

        def by_time(store: Store) -> Mapping[object, UUID]:
            twins = self._twins
            known = {*(twins if store is self.oracle else twins.values())}
            made = store.list_instances(definition_id=definition_id, limit=ALL)
            # A record of skipped ones has no time, and each step has one at most.
            known |= self._added
            return {each.fire_time: each.id for each in made if each.id not in known}

        ours, theirs = by_time(self.oracle), by_time(self.store)
        assert ours.keys() == theirs.keys()
        self._twins.update((ours[at], theirs[at]) for at in ours)

    def _twin(self, store: Store, oracles: UUID) -> UUID:
        return oracles if store is self.oracle else self._twins[oracles]

    def _oracles(self, store: Store, its: UUID) -> UUID | None:
        if store is self.oracle:
            return its
        return next((ours for ours, twin in self._twins.items() if twin == its), None)

    def _known(self, store: Store, instance: TaskInstance) -> UUID | None:
        return self._oracles(store, instance.id)

    def _some(
        self, data: st.DataObject, given: Sequence[_T], *, most: int = 3
    ) -> Sequence[_T]:
        latest = st.sampled_from(given[-8:])
        return data.draw(st.lists(latest, min_size=1, max_size=most, unique=True))


def revision_of(given: TaskDefinition) -> int:
    """The revision of a definition that a store has returned."""
    assert given.revision is not None, f"{given} is stored without a revision"
    return given.revision


def seen_of(given: TaskInstance) -> object:
    """All that the interface promises of an instance, its id apart."""
    owned = given.state in (*RUNS, State.CLAIMED)
    unstarted = given.state in (State.PENDING, State.CLAIMED)
    return (
        given.state,
        given.definition if unstarted else given.definition.id,
        (given.fire_time, given.execute_at, given.due_at),
        (given.attempt, given.runs, given.hangs, given.claimed_by),
        given.expires_at if owned else None,
        (given.started_at, given.completed_at, given.ended_attempt, given.error),
        given.cancel_requested and owned,
        given.parked,
        given.skipped,
        (given.payload, given.key, given.backfilled, given.reopened_at),
        given.created_at,
    )
