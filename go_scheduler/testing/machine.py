"""The store machine: any store behaves as ``MemoryStore`` does, whatever is called."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from go_scheduler.errors import ConflictError
from go_scheduler.models import (
    DefinitionState,
    Outcome,
    Skipped,
    State,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import (
    Claim,
    Claimant,
    Firing,
    Position,
    Release,
    Renewal,
    Retention,
    RunOutcome,
)
from go_scheduler.testing.clock import ManualClock
from go_scheduler.testing.settling import settle
from go_scheduler.triggers.delay import DelayTrigger
from go_scheduler.triggers.interval import IntervalTrigger
from go_scheduler.triggers.stored import dump_trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from go_scheduler.stores.base import Store
    from go_scheduler.triggers.base import Trigger

    # The first revision of a definition's life: the oracle's (True) and the store's.
    _Life: TypeAlias = dict[bool, int]

_T = TypeVar("_T")

_SECOND = timedelta(seconds=1)
_STEP = 10 * _SECOND
_ALL = 10_000
_QUEUES = ("default", "other")
_TRIGGERS: Sequence[Trigger] = (
    IntervalTrigger(_STEP),
    IntervalTrigger(2 * _STEP),
    DelayTrigger(_STEP),
)

_ids = st.integers(0, 3).map(lambda number: UUID(int=number))
_ALL_IDS = [UUID(int=number) for number in range(4)]
_some_ids = st.sets(_ids, min_size=1, max_size=2)
_seconds = st.sampled_from([0, 0, 1, 5, 10, 20, 60]).map(lambda each: each * _SECOND)
_offsets = st.integers(-3, 6).map(lambda each: each * _STEP)
_nodes = st.sampled_from([UUID(int=101), UUID(int=102)])


class StoreMachine(RuleBasedStateMachine):
    """Calls a store and a ``MemoryStore`` alike, and compares what can be seen of both.

    ```python
    class MyMachine(StoreMachine):
        def make_store(self, clock: ManualClock) -> Store:
            store = MyStore(clock=clock)
            store.initialize()
            return store

    TestMyMachine = MyMachine.TestCase
    ```

    ``make_store`` is called once for each example, and the store is closed after it;
    what the store keeps elsewhere must be gone by then or cleared by ``make_store``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.oracle: Store = MemoryStore(self.clock)
        self.oracle.initialize()
        self.store = self.make_store(self.clock)
        # Both stores choose their instances' ids: of the oracle's id the store's.
        self._twins: dict[UUID, UUID] = {}
        # And their definitions' revisions: they are compared from the first one on.
        self._lives: dict[UUID, _Life] = {}
        self._deleted: dict[tuple[bool, UUID], int] = {}
        self._read: list[tuple[TaskDefinition, _Life]] = []
        self._claims: list[Claim] = []

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

    @initialize()
    def begin(self) -> None:
        """Some definitions have fired, so that short examples are about claims too."""
        now = self.clock.now()
        new = [
            TaskDefinition(id=UUID(int=number), trigger=trigger, next_fire_time=now)
            for number, trigger in enumerate(_TRIGGERS)
        ]
        self._put(*new)
        for read in self.oracle.list_definitions():
            later = None if read.trigger.waits else now + 2 * _STEP
            times = (now,) if read.trigger.waits else (now, now + _STEP)
            firing = Firing(definition=read, fire_times=times, next_fire_time=later)
            self._fire(firing, self._lives[read.id])

    @rule(delta=st.one_of(_seconds, st.just(timedelta(microseconds=1))))
    def advance(self, delta: timedelta) -> None:
        """Time goes on."""
        self.clock.advance(delta)

    @rule(
        new_id=_ids,
        trigger=st.sampled_from(_TRIGGERS),
        offset=st.none() | _offsets,
        name=st.sampled_from([None, "a", "b"]),
        queue=st.sampled_from(_QUEUES),
        expire_after=st.sampled_from([None, 5 * _SECOND]),
        edits=st.none() | st.integers(0, 2),
    )
    def put(
        self,
        new_id: UUID,
        trigger: Trigger,
        offset: timedelta | None,
        name: str | None,
        queue: str,
        expire_after: timedelta | None,
        edits: int | None,
    ) -> None:
        """A definition is put, perhaps as it was after some edits, or conflicts."""
        new = TaskDefinition(
            id=new_id,
            trigger=trigger.anchored(self.clock.now()),
            name=name,
            queue=queue,
            expire_after=expire_after,
            next_fire_time=None if offset is None else self.clock.now() + offset,
        )
        self._put(new, edits=edits)

    @rule(which=_some_ids)
    def delete(self, which: set[UUID]) -> None:
        """Definitions are deleted."""

        def delete(store: Store) -> object:
            stored = store.list_definitions(ids=which)
            for each in stored:
                self._deleted[store is self.oracle, each.id] = _revision(each)
            return set(store.delete_definitions(which))

        self._alike(delete)

    @precondition(lambda self: self._deleted)
    @rule(data=st.data())
    def put_again(self, data: st.DataObject) -> None:
        """The id of a definition that was deleted begins another life."""
        gone = sorted({each for _, each in self._deleted})
        now = self.clock.now()
        new = TaskDefinition(
            id=data.draw(st.sampled_from(gone)),
            trigger=_TRIGGERS[0].anchored(now),
            next_fire_time=now,
        )
        self._put(new)

    @rule(which=_some_ids, note=st.sampled_from([None, "why"]))
    def pause(self, which: set[UUID], note: str | None) -> None:
        """Definitions are paused."""
        self._alike_by_id(lambda store: store.pause_definitions(which, note=note))

    @rule(which=_some_ids)
    def resume(self, which: set[UUID]) -> None:
        """Definitions are resumed."""
        self._alike_by_id(lambda store: store.resume_definitions(which))

    @rule(
        data=st.data(),
        ahead=_seconds,
        limit=st.sampled_from([1, 2, _ALL]),
        skips=st.booleans(),
        goes_on=st.booleans(),
    )
    def fire(
        self,
        data: st.DataObject,
        ahead: timedelta,
        limit: int,
        skips: bool,
        goes_on: bool,
    ) -> None:
        """A definition that is due is fired, as it was read now or some time ago."""

        def read_due(store: Store) -> object:
            settle(store)
            due = store.due_definitions(ahead=ahead, limit=limit)
            return [self._definition(store, each) for each in due]

        self._alike(read_due)
        due = self.oracle.due_definitions(ahead=ahead, limit=limit)
        known = [*((each, self._lives[each.id]) for each in due), *self._read[-2:]]
        if not known:
            return
        read, life = data.draw(st.sampled_from(known))
        assert read.next_fire_time is not None
        self._read.append((read, life))
        count = data.draw(st.integers(0, 1 if read.trigger.waits else 3))
        series = [read.next_fire_time + number * _STEP for number in range(count + 2)]
        skipped = None
        if skips:
            first = series.pop(0)
            skipped = Skipped(first=first, last=first, count=1, reason="late")
        firing = Firing(
            definition=read,
            fire_times=tuple(series[:count]),
            skipped=skipped,
            next_fire_time=series[-1] if goes_on else None,
        )
        self._fire(firing, life)

    @rule(
        node=_nodes,
        queues=st.sampled_from([_QUEUES, _QUEUES[:1], _QUEUES[1:]]),
        ahead=_seconds,
        lead=_seconds,
        lapsed=st.none() | _seconds,
    )
    def claim(
        self,
        node: UUID,
        queues: tuple[str, ...],
        ahead: timedelta,
        lead: timedelta,
        lapsed: timedelta | None,
    ) -> None:
        """A node claims all that it can get."""
        claimant = self._claimant(node, queues)

        def claim(store: Store) -> object:
            settle(store)
            claimed = store.claim_instances(
                claimant, ahead=ahead, lead=lead, limit=_ALL, lapsed=lapsed
            )
            if store is self.oracle:
                self._note(claimed)
            return {self._known(store, each): _instance(each) for each in claimed}

        self._alike(claim)

    @rule(node=_nodes)
    def list_claimed(self, node: UUID) -> None:
        """A node looks for what it has claimed; what is held may be left out."""

        def read(store: Store) -> object:
            found = store.list_claimed(node, limit=_ALL)
            return {
                self._known(store, each): _instance(each)
                for each in found
                if not each.definition.paused
            }

        self._alike(read)

    @rule(node=_nodes, unbroken=_seconds, within=_seconds)
    def contact(self, node: UUID, unbroken: timedelta, within: timedelta) -> None:
        """A node tells that it has been in contact, and looks which others were."""

        def tell(store: Store) -> object:
            store.note_contact(node, unbroken=unbroken, queues=[str(unbroken)])
            return {each.node: each for each in store.list_contacts(within=within)}

        self._alike(tell)

    @rule(known=st.sets(st.sampled_from(_QUEUES)))
    def due_queues(self, known: set[str]) -> None:
        """Somebody looks where something is due, but for queues that are known."""

        def look(store: Store) -> object:
            settle(store)
            found = set(known)
            while more := store.list_due_queues(apart_from=found):
                assert found.isdisjoint(more)
                found.update(more)
            return found

        self._alike(look)

    @precondition(lambda self: self._claims)
    @rule(data=st.data(), node=_nodes)
    def start(self, data: st.DataObject, node: UUID) -> None:
        """A node starts what it has claimed or lost."""
        claims = self._some(data, self._claims)

        def start(store: Store) -> object:
            mine = [self._claim(store, each) for each in claims]
            started = store.start_instances(self._claimant(node, _QUEUES), mine).done
            return {
                self._known(store, each): (
                    _instance(each),
                    self._definition(store, each.definition),
                )
                for each in started
            }

        self._alike(start)

    @precondition(lambda self: self._claims)
    @rule(data=st.data(), lease=_seconds.filter(bool))
    def renew(self, data: st.DataObject, lease: timedelta) -> None:
        """A node renews what it has claimed or lost."""
        claims = self._some(data, self._claims)

        def renew(store: Store) -> object:
            answer = store.renew_claims(
                [
                    Renewal(claim=self._claim(store, each), lease=lease)
                    for each in claims
                ]
            ).done
            return {self._oracles(store, each): asked for each, asked in answer.items()}

        self._alike(renew)

    @precondition(lambda self: self._claims)
    @rule(
        data=st.data(),
        outcome=st.none() | st.sampled_from(Outcome),
        retry_in=_seconds,
        hung=st.booleans(),
        error=st.sampled_from([None, "no"]),
        called=st.booleans(),
        next_fire_time=st.none() | _offsets,
    )
    def finish(
        self,
        data: st.DataObject,
        outcome: Outcome | None,
        retry_in: timedelta,
        hung: bool,
        error: str | None,
        called: bool,
        next_fire_time: timedelta | None,
    ) -> None:
        """A node finishes what it has claimed or lost."""
        [claim] = self._some(data, self._claims, most=1)
        now = self.clock.now()
        end = RunOutcome(
            claim=claim,
            started_at=now if called or outcome is None else None,
            outcome=outcome,
            retry_in=retry_in,
            hung=hung,
            error=error,
            next_fire_time=None if next_fire_time is None else now + next_fire_time,
        )

        def finish(store: Store) -> object:
            mine = replace(end, claim=self._claim(store, claim))
            accepted = store.finish_instances([mine]).done
            return {self._oracles(store, each) for each in accepted}

        self._alike(finish)

    @precondition(lambda self: self._claims)
    @rule(data=st.data(), delay=_seconds)
    def release(self, data: st.DataObject, delay: timedelta) -> None:
        """A node gives back what it has claimed or lost."""
        claims = self._some(data, self._claims)

        def release(store: Store) -> object:
            accepted = store.release_instances(
                [
                    Release(claim=self._claim(store, each), delay=delay)
                    for each in claims
                ]
            ).done
            return {self._oracles(store, each) for each in accepted}

        self._alike(release)

    @precondition(lambda self: self._twins)
    @rule(data=st.data(), next_fire_time=st.none() | _offsets)
    def cancel(self, data: st.DataObject, next_fire_time: timedelta | None) -> None:
        """Instances are cancelled."""
        which = self._some(data, list(self._twins))
        at = None if next_fire_time is None else self.clock.now() + next_fire_time

        def cancel(store: Store) -> object:
            mine = {self._twin(store, each): at for each in which}
            answer = store.cancel_instances(mine)
            return {self._oracles(store, each): came for each, came in answer.items()}

        self._alike(cancel)

    @rule(
        retention=st.builds(
            Retention,
            ended=_seconds,
            failed=_seconds,
            remembered=_seconds.map(lambda each: 10 * each),
        )
    )
    def clean_up(self, retention: Retention) -> None:
        """What is over is deleted, and with it what is known of earlier lives."""

        def clean_up(store: Store) -> object:
            settle(store)
            return store.delete_finished(retention, limit=_ALL)

        self._alike(clean_up)
        self._deleted.clear()
        live = {each.id: self._lives[each.id] for each in self._stored()}
        self._read = [each for each in self._read if live.get(each[0].id) is each[1]]

    @rule(
        queue=st.none() | st.sampled_from(_QUEUES),
        state=st.none() | st.sampled_from(DefinitionState),
        soonest_first=st.booleans(),
        limit=st.integers(1, 3),
    )
    def list_definitions(self, *, limit: int, **conditions: Any) -> None:
        """Somebody pages through definitions; they and their order are the same."""

        def read(store: Store) -> object:
            found: list[TaskDefinition] = []
            after = None
            while page := store.list_definitions(
                after=after, limit=limit, **conditions
            ):
                found += page
                after = Position.of_definition(page[-1])
            return [self._definition(store, each) for each in found]

        self._alike(read)

    @rule(
        definition_id=st.none() | _ids,
        state=st.none() | st.sampled_from(State),
        since=st.none() | _offsets,
        newest_first=st.booleans(),
        limit=st.integers(1, 3),
    )
    def list_instances(
        self,
        *,
        since: timedelta | None,
        newest_first: bool,
        limit: int,
        **conditions: Any,
    ) -> None:
        """Somebody pages through instances, which each store orders by its own ids."""
        conditions["since"] = None if since is None else self.clock.now() + since

        def read(store: Store) -> object:
            found: list[TaskInstance] = []
            after = None
            while page := store.list_instances(
                newest_first=newest_first, after=after, limit=limit, **conditions
            ):
                found += page
                after = Position.of_instance(page[-1])
            order = [(each.execute_at, each.id) for each in found]
            assert order == sorted(order, reverse=newest_first), f"no order: {order}"
            return sorted(str(self._known(store, each)) for each in found)

        self._alike(read)

    @invariant()
    def stores_are_alike(self) -> None:
        """All that can be read is the same in both stores."""
        self._alike_by_id(lambda store: store.list_definitions(limit=_ALL))
        self._alike(lambda store: dict(store.counts()))
        self._alike(
            lambda store: {
                each.id: (dump_trigger(each.trigger), each.completed_at)
                for each in store.list_tombstones(_ALL_IDS)
            }
        )

        def read(store: Store) -> object:
            found = store.list_instances(limit=_ALL)
            return {self._known(store, each): _instance(each) for each in found}

        self._alike(read)

    def _alike(self, call: Callable[[Store], object]) -> None:
        expected, found = call(self.oracle), call(self.store)
        assert found == expected, f"{found}\nis not what MemoryStore has:\n{expected}"

    def _alike_by_id(self, call: Callable[[Store], Sequence[TaskDefinition]]) -> None:
        self._alike(
            lambda store: {
                each.id: self._definition(store, each) for each in call(store)
            }
        )

    def _put(self, *new: TaskDefinition, edits: int | None = None) -> None:
        """Put definitions; those that are new begin a life at a higher revision."""
        stored = {each.id for each in self._stored()}
        begin = [each.id for each in new if each.id not in stored]
        for each in begin:
            self._lives.pop(each, None)

        def put(store: Store) -> object:
            mine = [self._edited(store, each, edits) for each in new]
            try:
                answer = store.put_definitions(mine)
            except ConflictError as error:
                of, first = error.definition_id, self._first(store, error.definition_id)
                revisions = (error.expected, error.revision)
                return of, [each and each - first for each in revisions]
            for each in answer:
                if each.id in begin:
                    self._begin(store, each)
            return [self._definition(store, each) for each in answer]

        self._alike(put)

    def _begin(self, store: Store, new: TaskDefinition) -> None:
        side, first = store is self.oracle, _revision(new)
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
            (given.paused, given.note),
            given.completed_at,
            _revision(given) - self._first(store, given.id),
        )

    def _stored(self) -> Sequence[TaskDefinition]:
        return self.oracle.list_definitions(limit=_ALL)

    def _fire(self, firing: Firing, life: _Life) -> None:
        """Fire, and note which new instance of the store is which of the oracle.

        Args:
            firing: Of a definition as the oracle had it.
            life: That of the definition when it was read.
        """
        definition_id = firing.definition.id
        edits = _revision(firing.definition) - life[True]

        def fire(store: Store) -> object:
            read = replace(
                firing.definition, revision=life[store is self.oracle] + edits
            )
            return set(store.fire_definitions([replace(firing, definition=read)]).done)

        self._alike(fire)

        def by_time(store: Store) -> Mapping[object, UUID]:
            made = store.list_instances(definition_id=definition_id, limit=_ALL)
            return {each.fire_time: each.id for each in made}

        ours, theirs = by_time(self.oracle), by_time(self.store)
        assert ours.keys() == theirs.keys()
        self._twins.update((ours[at], theirs[at]) for at in ours)

    def _note(self, claimed: Sequence[TaskInstance]) -> None:
        # Ids are random, and Hypothesis has to draw the same again.
        def order(instance: TaskInstance) -> tuple[UUID, datetime]:
            return instance.definition.id, instance.execute_at

        self._claims += [
            Claim(instance_id=each.id, attempt=each.attempt)
            for each in sorted(claimed, key=order)
        ]

    def _twin(self, store: Store, oracles: UUID) -> UUID:
        return oracles if store is self.oracle else self._twins[oracles]

    def _oracles(self, store: Store, its: UUID) -> UUID | None:
        if store is self.oracle:
            return its
        return next((ours for ours, twin in self._twins.items() if twin == its), None)

    def _known(self, store: Store, instance: TaskInstance) -> UUID | None:
        return self._oracles(store, instance.id)

    def _claim(self, store: Store, claim: Claim) -> Claim:
        return replace(claim, instance_id=self._twin(store, claim.instance_id))

    def _claimant(self, node: UUID, queues: tuple[str, ...]) -> Claimant:
        return Claimant(
            node=node, queues=queues, lease=2 * _STEP, expire_after=3 * _STEP
        )

    def _some(
        self, data: st.DataObject, given: Sequence[_T], *, most: int = 3
    ) -> Sequence[_T]:
        latest = st.sampled_from(given[-8:])
        return data.draw(st.lists(latest, min_size=1, max_size=most, unique=True))


def _revision(given: TaskDefinition) -> int:
    assert given.revision is not None, f"{given} is stored without a revision"
    return given.revision


def _instance(given: TaskInstance) -> object:
    """What the interface promises of an instance, its id apart."""
    owned = given.state in (State.CLAIMED, State.RUNNING)
    unstarted = given.state in (State.PENDING, State.CLAIMED)
    return (
        given.state,
        given.definition if unstarted else given.definition.id,
        (given.fire_time, given.execute_at, given.due_at),
        (given.attempt, given.runs, given.hangs, given.claimed_by),
        given.expires_at if owned else None,
        (given.started_at, given.completed_at, given.ended_attempt, given.error),
        given.cancel_requested and owned,
        given.skipped,
    )
