"""The store machine: compares any store with ``MemoryStore`` over random calls."""

from __future__ import annotations

from contextlib import closing
from dataclasses import fields as all_fields
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    NamedTuple,
    TypeAlias,
    TypeVar,
    get_args,
)
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from go_scheduler.errors import (
    ConfigurationError,
    ConflictError,
    QueueFullError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.models import (
    RUNS,
    DefinitionState,
    Outcome,
    Skipped,
    Stage,
    State,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.policies import Overlap, RetryPolicy
from go_scheduler.stores.filters import (
    DefinitionFilter,
    DefinitionOrder,
    Filter,
    Order,
)
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import (
    Addition,
    Claim,
    Claimant,
    Firing,
    Release,
    Renewal,
    Retention,
    RunOutcome,
)
from go_scheduler.stores.rules import LOCK, Declaration, Removed
from go_scheduler.testing.builders import all_pages, counts_by_state, revision_of
from go_scheduler.testing.clock import START, ManualClock, settle
from go_scheduler.triggers.base import Trigger, dump_trigger
from go_scheduler.triggers.simple import DelayTrigger, IntervalTrigger, OnDemandTrigger
from go_scheduler.triggers.times import LAST_INSTANT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Put

SECOND = timedelta(seconds=1)
STEP = 10 * SECOND
ALL = 10_000
QUEUES = ("default", "other")
TRIGGERS: Sequence[Trigger] = (
    IntervalTrigger(STEP),
    IntervalTrigger(2 * STEP),
    DelayTrigger(STEP),
    OnDemandTrigger(),
    OnDemandTrigger(lasting=False),
)

EXCLUSIONS: Sequence[Mapping[str, Any]] = (
    {"overlap": Overlap.SKIP},
    {"overlap": Overlap.BUFFER_ONE, "lock": "a"},
    {"overlap": Overlap.ALLOW, "lock": "b"},
    {"overlap": Overlap.REPLACE},
    {"overlap": Overlap.BUFFER_ALL},
    {"overlap": Overlap.ALLOW},
)
"""Overlap and lock by definition. None share a lock: stores order ids as they like."""


def defined(
    definition_id: UUID, trigger: Trigger, at: datetime | None, **fields: Any
) -> TaskDefinition:
    """A definition that fires first at a time, unless it fires on demand."""
    at = None if isinstance(trigger, OnDemandTrigger) else at
    return TaskDefinition(
        id=definition_id, trigger=trigger, next_fire_time=at, **fields
    )


ids = st.integers(0, 3).map(lambda number: UUID(int=number))
ALL_IDS = [UUID(int=number) for number in range(4)]
some_ids = st.sets(ids, min_size=1, max_size=2)
seconds = st.sampled_from([0, 0, 1, 5, 10, 20, 60]).map(lambda each: each * SECOND)
offsets = st.integers(-3, 6).map(lambda each: each * STEP)
FULL: Sequence[Mapping[str, Any]] = (
    *4 * [{}],
    {"max_queue": 1},
    {"max_queue": 2, "when_full": "drop"},
)
fields = st.builds(
    lambda exclusion, full, **others: {**exclusion, **full, **others},
    st.sampled_from([*3 * [{}], *EXCLUSIONS]),
    st.sampled_from(FULL),
    name=st.sampled_from([None, "a", "b"]),
    queue=st.sampled_from(QUEUES),
    priority=st.integers(0, 3),
    expire_after=st.sampled_from([None, 5 * SECOND]),
    jitter=st.sampled_from([None, None, SECOND]),
)
overrides: st.SearchStrategy[Mapping[str, Any] | None] = st.sampled_from(
    [
        *3 * [None],
        {"queue": "other"},
        {"priority": 0, "retry": RetryPolicy(max_attempts=2)},
        {"lock": "own", "expire_after": 5 * SECOND},
    ]
)
results = st.sampled_from([None, '"ä"', "[1]"])
no_claim = st.just(Claim(instance_id=UUID(int=0), attempt=0))
# Only a run that is handed on has a stage.
renewals = st.builds(
    Renewal,
    claim=no_claim,
    lease=seconds.filter(bool),
    handed_on=st.booleans(),
    worker=st.sampled_from([None, "ä", "b"]),
    stage=st.none() | st.sampled_from(Stage),
    progress=results,
).map(lambda each: each if each.handed_on else replace(each, stage=None))
releases = st.builds(
    Release, claim=no_claim, delay=seconds, reason=st.sampled_from([None, "no fuel"])
)
ends = st.builds(
    RunOutcome,
    claim=no_claim,
    outcome=st.none() | st.sampled_from(Outcome),
    retry_in=seconds,
    hung=st.booleans(),
    error=st.sampled_from([None, "no"]),
    result=results,
    deletes=st.booleans(),
)
declarations = st.builds(
    Declaration,
    owner=st.sampled_from(["one", "other"]),
    definitions=st.just(()),
    version=st.none() | st.integers(0, 2),
    removed=st.sampled_from(get_args(Removed)),
    adopts=st.booleans(),
)
nodes = st.sampled_from([UUID(int=101), UUID(int=102)])

SLOTS = (
    *map(str, ALL_IDS),
    *(LOCK + each["lock"] for each in EXCLUSIONS if "lock" in each),
)
_FIRST_ADDED = 1_000_000
_FIRST_HANDED_OVER = 1_000
# Long before anything else, as stores order what is due at one moment as they like.
_LONG_AGO = [START - (1_000_000 + number) * SECOND for number in range(4)]
# A definition on demand never fires.
_FIRING = TRIGGERS[:3]


if TYPE_CHECKING:
    # The first revision of a definition's life: the oracle's (True) and the store's.
    Life: TypeAlias = dict[bool, int]
    PutBy: TypeAlias = Callable[[Store, Sequence[TaskDefinition]], Put]

_T = TypeVar("_T")


class Starts(NamedTuple):
    """Whether a store starts what it puts for a node, and what it adds."""

    put: bool
    added: bool


def starts_of(store: Store) -> Starts:
    """Find out what a store starts that is due when it is made."""
    at, node = store.now(), claimant_of(UUID(int=1), QUEUES)
    of = TaskDefinition(trigger=IntervalTrigger(STEP).anchored(at), next_fire_time=at)
    first = Firing(definition=of, fire_times=(at,), next_fire_time=at + STEP)
    put = store.put_definitions([of], firings=[first], claimant=node)
    [added] = store.add_instances(of.id, [Addition()], claimant=node)
    return Starts(bool(put.started), added.claimed_by is not None)


def claimant_of(node: UUID, queues: tuple[str, ...]) -> Claimant:
    """A node, with what it needs to claim."""
    return Claimant(node=node, queues=queues, lease=2 * STEP, expire_after=3 * STEP)


class StorePair(RuleBasedStateMachine):
    """A store and a ``MemoryStore``; maps the ids of one to the ids of the other."""

    _starts: ClassVar[Starts]

    def __init__(self) -> None:
        super().__init__()
        # A store may start nothing; but one that does has to do it as MemoryStore does.
        if "_starts" not in vars(type(self)):
            with closing(self.make_store(ManualClock())) as store:
                type(self)._starts = starts_of(store)
        self.clock = ManualClock()
        self.oracle: Store = MemoryStore(self.clock)
        self.oracle.initialize()
        self.store = self.make_store(self.clock)
        # Stores choose the ids of instances: the store's id by the oracle's.
        self._twins: dict[UUID, UUID] = {}
        # Instances that were added have the same id in both.
        self._added: set[UUID] = set()
        # Stores choose the first revision of a definition: the rest counts from there.
        self._lives: dict[UUID, Life] = {}
        self._deleted: dict[tuple[bool, UUID], int] = {}
        self._read: list[tuple[TaskDefinition, Life]] = []
        self._claims: list[Claim] = []

    def make_store(self, clock: ManualClock) -> Store:
        """Return an empty, initialized store on a clock.

        Args:
            clock: The clock of the store.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no make_store(self, clock)"
        )

    def teardown(self) -> None:
        """Close the store."""
        self.store.close()

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
        if found != expected:
            raise AssertionError("\n".join(_differences(found, expected)))

    def _alike_by_id(self, call: Callable[[Store], Sequence[TaskDefinition]]) -> None:
        self._alike(
            lambda store: {
                each.id: self._definition(store, each) for each in call(store)
            }
        )

    def _put(
        self, *new: TaskDefinition, edits: int | None = None, by: PutBy | None = None
    ) -> None:
        """Put definitions; a new one begins at a higher revision than a deleted one."""
        stored = {each.id for each in self._stored()}
        begin = [each.id for each in new if each.id not in stored]
        for each in begin:
            self._lives.pop(each, None)

        def call(store: Store) -> object:
            mine = [self._edited(store, each, edits) for each in new]
            try:
                put = store.put_definitions(mine) if by is None else by(store, mine)
            except ConflictError as error:
                of, first = error.definition_id, self._first(store, error.definition_id)
                revisions = (error.expected, error.revision)
                return of, [each and each - first for each in revisions]
            for each in put.definitions:
                if each.id in begin:
                    self._begin(store, each)
            return [self._definition(store, each) for each in put.definitions]

        self._alike(call)
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
        """The first revision of a definition in a store."""
        return self._lives.get(definition_id, {}).get(store is self.oracle, 1)

    def _definition(self, store: Store, given: TaskDefinition) -> object:
        """The stored fields of a definition, with the anchor of its trigger."""
        return {
            **_set_by_users(given),
            **_named(given, *_KEPT_OF_DEFINITIONS),
            "trigger": dump_trigger(given.trigger),
            "revision": revision_of(given) - self._first(store, given.id),
        }

    def _stored(self) -> Sequence[TaskDefinition]:
        return self.oracle.select_definitions(limit=ALL)

    def _fire(self, firing: Firing, life: Life) -> None:
        """Fire, and map the new instances of the store to those of the oracle.

        Args:
            firing: The step of a definition that was read from the oracle.
            life: The first revisions of the definition when it was read.
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
        """Map the new instances of the store to those of the oracle."""

        def by_time(store: Store) -> Mapping[object, UUID]:
            twins = self._twins
            known = {*(twins if store is self.oracle else twins.values())}
            made = store.select(Filter(definition_id=definition_id), limit=ALL)
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

    def _seen(self, store: Store, found: Iterable[TaskInstance]) -> object:
        """The promised fields of instances, by the ids of the oracle."""
        return {self._known(store, each): seen_of(each) for each in found}

    def _some(
        self, data: st.DataObject, given: Sequence[_T], *, most: int = 3
    ) -> Sequence[_T]:
        latest = st.sampled_from(given[-8:])
        return data.draw(st.lists(latest, min_size=1, max_size=most, unique=True))


_KEPT_OF_DEFINITIONS = (
    *("next_fire_time", "paused", "note", "paused_at", "last_pause", "overdue"),
    *("owner", "completed_at"),
)
_PROMISED_OF_INSTANCES = (
    *("state", "fire_time", "execute_at", "due_at", "attempt", "runs", "hangs"),
    *("claimed_by", "started_at", "completed_at", "ended_attempt", "error", "parked"),
    *("skipped", "payload", "key", "backfilled", "reopened_at", "created_at"),
)


def _named(given: object, *names: str) -> dict[str, object]:
    return {name: getattr(given, name) for name in names}


def _set_by_users(given: TaskDefinition) -> dict[str, object]:
    """The fields by which definitions are equal."""
    return _named(given, *(each.name for each in all_fields(given) if each.compare))


def seen_of(given: TaskInstance) -> dict[str, object]:
    """The fields of an instance that the interface promises, except its id."""
    owned = given.state in (*RUNS, State.CLAIMED)
    unstarted = given.state in (State.PENDING, State.CLAIMED)
    of = given.definition
    return {
        **_named(given, *_PROMISED_OF_INSTANCES),
        "definition_id": of.id,
        "definition": _set_by_users(of) if unstarted else None,
        "expires_at": given.expires_at if owned else None,
        "cancel_requested": given.cancel_requested and owned,
    }


def _differences(found: Any, expected: Any, *place: object) -> Iterator[str]:
    """Where two answers differ: the ids and fields, and what each store has there."""
    if type(found) is type(expected) is dict:
        for key in {**expected, **found}:
            both = found.get(key, "nothing"), expected.get(key, "nothing")
            yield from _differences(*both, *place, key)
    elif type(found) is type(expected) in (list, tuple) and len(found) == len(expected):
        for number, both in enumerate(zip(found, expected, strict=True)):
            yield from _differences(*both, *place, number)
    elif found != expected:
        where = " ".join(map(str, place or ["the answer"]))
        yield f"{where}: {found!r}, MemoryStore has {expected!r}"


class StoreMachine(StorePair):
    """Makes the same calls of a store and a ``MemoryStore``, and compares the answers.

    ```python
    class MyMachine(StoreMachine):
        def make_store(self, clock: ManualClock) -> Store:
            store = MyStore(clock=clock)
            store.initialize()
            return store

    TestMyMachine = MyMachine.TestCase
    ```

    ``make_store`` is called once for each example, and once before the first. The store
    is closed after it; what it keeps elsewhere must be gone by then or cleared by
    ``make_store``.
    """

    @initialize()
    def begin(self) -> None:
        """Put and fire some definitions, so that short examples have claims too."""
        now = self.clock.now()
        self._put(
            *(
                defined(UUID(int=number), trigger, now, **EXCLUSIONS[number])
                for number, trigger in enumerate(TRIGGERS)
            )
        )
        for read in self.oracle.select_definitions():
            if read.next_fire_time is None:
                continue
            later = None if read.trigger.waits else now + 2 * STEP
            times = (now,) if read.trigger.waits else (now, now + STEP)
            firing = Firing(definition=read, fire_times=times, next_fire_time=later)
            self._fire(firing, self._lives[read.id])

    @rule(delta=st.one_of(seconds, st.just(timedelta(microseconds=1))))
    def advance(self, delta: timedelta) -> None:
        """Move the time on."""
        self.clock.advance(delta)

    @rule(
        retention=st.builds(
            Retention,
            ended=seconds,
            failed=seconds,
            remembered=seconds.map(lambda each: 10 * each),
        )
    )
    def clean_up(self, retention: Retention) -> None:
        """Delete finished instances and tombstones."""

        def clean_up(store: Store) -> object:
            settle(store)
            return store.delete_finished(retention, limit=ALL)

        self._alike(clean_up)
        self._deleted.clear()
        live = {each.id: self._lives[each.id] for each in self._stored()}
        self._read = [each for each in self._read if live.get(each[0].id) is each[1]]

    @invariant()
    def stores_are_alike(self) -> None:
        """Both stores have the same content."""
        self._alike_by_id(lambda store: store.select_definitions(limit=ALL))
        self._alike(
            lambda store: {
                each.id: (dump_trigger(each.trigger), each.completed_at)
                for each in store.list_tombstones(ALL_IDS)
            }
        )

        def read(store: Store) -> object:
            found = store.select(limit=ALL)
            return {
                self._known(store, each): {
                    **seen_of(each),
                    **_named(each, "worker", "result", "accepted_at", "start_by"),
                    "progress": each.progress,
                }
                for each in found
            }

        self._alike(read)
        self._alike(lambda store: dict(counts_by_state(store)))

    @rule(
        new_id=ids,
        trigger=st.sampled_from(TRIGGERS),
        offset=st.none() | offsets,
        fields=fields,
        edits=st.none() | st.integers(0, 2),
    )
    def put(
        self,
        new_id: UUID,
        trigger: Trigger,
        offset: timedelta | None,
        fields: Mapping[str, Any],
        edits: int | None,
    ) -> None:
        """Put a definition, perhaps with a stale revision."""
        now = self.clock.now()
        at = None if offset is None else now + offset
        fields = {**EXCLUSIONS[new_id.int], **fields}
        self._put(defined(new_id, trigger.anchored(now), at, **fields), edits=edits)

    @rule(which=some_ids)
    def delete(self, which: set[UUID]) -> None:
        """Delete definitions."""

        def delete(store: Store) -> object:
            stored = store.select_definitions(DefinitionFilter(ids=which))
            for each in stored:
                self._deleted[store is self.oracle, each.id] = revision_of(each)
            deleted = store.delete_definitions(which)
            return {id: len(ran) for id, ran in deleted.items()}

        self._alike(delete)

    @precondition(lambda self: self._deleted)
    @rule(data=st.data())
    def put_again(self, data: st.DataObject) -> None:
        """Put a definition with the id of a deleted one."""
        gone = sorted({each for _, each in self._deleted})
        now = self.clock.now()
        new_id = data.draw(st.sampled_from(gone))
        trigger = TRIGGERS[0].anchored(now)
        self._put(defined(new_id, trigger, now, **EXCLUSIONS[new_id.int]))

    @rule(which=some_ids, note=st.sampled_from([None, "why"]))
    def pause(self, which: set[UUID], note: str | None) -> None:
        """Pause definitions."""
        self._alike_by_id(lambda store: store.pause_definitions(which, note=note))

    @rule(which=some_ids)
    def resume(self, which: set[UUID]) -> None:
        """Resume definitions."""
        self._alike_by_id(lambda store: store.resume_definitions(which))

    @rule(
        data=st.data(),
        ahead=seconds,
        limit=st.sampled_from([1, 2, ALL]),
        skips=st.booleans(),
        goes_on=st.booleans(),
    )
    def fire(
        self, data: st.DataObject, *, skips: bool, goes_on: bool, **page: Any
    ) -> None:
        """Fire a definition, as it was read now or some time ago."""

        def read_due(store: Store) -> object:
            settle(store)
            due = store.due_definitions(**page)
            return [self._definition(store, each) for each in due]

        self._alike(read_due)
        due = self.oracle.due_definitions(**page)
        known = [*((each, self._lives[each.id]) for each in due), *self._read[-2:]]
        if not known:
            return
        read, life = data.draw(st.sampled_from(known))
        assert read.next_fire_time is not None
        self._read.append((read, life))
        count = data.draw(st.integers(0, 1 if read.trigger.waits else 3))
        later = data.draw(st.sampled_from([timedelta(0), STEP / 2]))
        series = [read.next_fire_time + number * STEP for number in range(count + 2)]
        skipped = None
        if skips:
            first = series.pop(0)
            skipped = Skipped(first=first, last=first, count=1, reason="late")
        firing = Firing(
            definition=read,
            fire_times=tuple(series[:count]),
            skipped=skipped,
            next_fire_time=series[-1] if goes_on else None,
            execute_times=tuple(each + later for each in series[:count]),
        )
        self._fire(firing, life)

    @rule(
        triggers=st.dictionaries(ids, st.sampled_from(TRIGGERS), max_size=3),
        declaration=declarations,
    )
    def declare(
        self, triggers: Mapping[UUID, Trigger], declaration: Declaration
    ) -> None:
        """Declare a set; it may be refused or outdated."""
        now = self.clock.now()
        new = [defined(id, each.anchored(now), now) for id, each in triggers.items()]
        declaration = replace(declaration, definitions=new)
        stored = {each.id for each in self._stored()}
        begin = triggers.keys() - stored
        for each in begin:
            self._lives.pop(each, None)

        def declare(store: Store) -> object:
            before = {each.id: each for each in store.select_definitions(limit=ALL)}
            try:
                declared = store.declare_definitions(declaration)
            except ConfigurationError:
                return "refused"
            for gone in declared.deleted:
                revision = revision_of(before[gone])
                self._deleted[store is self.oracle, gone] = revision
            for each in declared.definitions:
                if each.id in begin:
                    self._begin(store, each)
            return (
                [self._definition(store, each) for each in declared.definitions],
                {each.id for each in declared.resumed},
                {each.id for each in declared.paused},
                set(declared.deleted),
                declared.outdated_by,
            )

        self._alike(declare)
        for put_one in new:
            self._note_made(put_one.id)

    @rule(
        definition_id=ids,
        keys=st.lists(st.sampled_from([None, None, "a", "b"]), max_size=3),
        offset=st.none() | offsets,
        delay=seconds,
        own=overrides,
        node=st.none() | nodes,
    )
    def add(
        self,
        definition_id: UUID,
        keys: list[str | None],
        offset: timedelta | None,
        delay: timedelta,
        own: Mapping[str, Any] | None,
        node: UUID | None,
    ) -> None:
        """Add instances, some with a key; perhaps a node starts them at once."""
        if own is not None and "lock" in own:
            # None share a lock.
            own = {**own, "lock": f"own {definition_id}"}
        additions = [
            Addition(
                id=UUID(int=_FIRST_ADDED + len(self._added) + number),
                at=None if offset is None else self.clock.now() + offset,
                delay=delay,
                payload={"number": number} if number else None,
                key=key,
                overrides=own,
            )
            for number, key in enumerate(keys)
        ]

        # Of what may be full a store may start nothing.
        limited = {each.id for each in self._stored() if each.max_queue is not None}
        claimant = None
        of_all = own is None and definition_id not in limited
        if node and self._starts.added and of_all:
            claimant = claimant_of(node, QUEUES)

        def add(store: Store) -> object:
            try:
                found = store.add_instances(definition_id, additions, claimant=claimant)
            except (QueueFullError, TaskDefinitionNotFoundError) as error:
                return type(error), error.definition_id
            self._twins.update((each.id, each.id) for each in found)
            if store is self.oracle:
                made = {each.id for each in additions}
                self._note(
                    each for each in found if each.id in made and each.claimed_by
                )
            return [(each.id, seen_of(each)) for each in found]

        self._added.update(each.id for each in additions)
        self._alike(add)

    @precondition(lambda self: self._stored() or self._read)
    @rule(data=st.data(), overlap=st.sampled_from(Overlap))
    def backfill(self, data: st.DataObject, overlap: Overlap) -> None:
        """Backfill a definition, as it was read now or some time ago."""
        known = [(each, self._lives[each.id]) for each in self._stored()]
        read, life = data.draw(st.sampled_from([*known, *self._read[-2:]]))
        edits = revision_of(read) - life[True]
        chosen = self._some(data, self._fire_times(read.id), most=4)

        def backfill(store: Store) -> object:
            mine = replace(read, revision=life[store is self.oracle] + edits)
            try:
                return store.backfill_instances(mine, chosen, overlap=overlap)
            except TaskDefinitionNotFoundError as error:
                return error.definition_id
            except ConflictError as error:
                return error.definition_id, "conflict"

        self._alike(backfill)
        self._note_made(read.id)

    def _fire_times(self, definition_id: UUID) -> Sequence[datetime]:
        """Fire times; some have an instance already."""
        found = self.oracle.select(Filter(definition_id=definition_id), limit=ALL)
        passed = {each.fire_time for each in found if each.fire_time is not None}
        now = self.clock.now()
        return [*_LONG_AGO, *sorted(each for each in passed if each <= now)]

    @rule(
        stored=st.none() | ids,
        trigger=st.sampled_from(_FIRING),
        queue=st.sampled_from(QUEUES),
        steps_late=st.integers(0, 2),
        goes_on=st.booleans(),
        node=nodes,
    )
    def put_and_start(
        self,
        stored: UUID | None,
        trigger: Trigger,
        queue: str,
        steps_late: int,
        goes_on: bool,
        node: UUID,
    ) -> None:
        """Put a definition and start its first instance, if the store can."""
        known = {each.id for each in self._stored()}
        # One that has lived before need not be started.
        new_id = (
            stored
            if stored in known
            else UUID(int=_FIRST_HANDED_OVER + len(self._lives))
        )
        at = self.clock.now() - steps_late * STEP
        later = self.clock.now() + STEP if goes_on and not trigger.waits else None
        new = defined(new_id, trigger.anchored(self.clock.now()), at, queue=queue)
        started: list[TaskInstance] = []

        claimant = claimant_of(node, QUEUES) if self._starts.put else None

        def put(store: Store, given: Sequence[TaskDefinition]) -> Put:
            [of] = given
            first = Firing(definition=of, fire_times=(at,), next_fire_time=later)
            put = store.put_definitions(given, firings=[first], claimant=claimant)
            started.extend(put.started)
            return put

        self._put(new, by=put)
        self._note(started[:1])
        assert [seen_of(each) for each in started[1:]] == [
            seen_of(each) for each in started[:1]
        ]

    @rule(
        node=nodes,
        queues=st.sampled_from([QUEUES, QUEUES[:1], QUEUES[1:]]),
        ahead=seconds,
        lead=seconds,
        lapsed=st.none() | seconds,
    )
    def claim(self, node: UUID, queues: tuple[str, ...], **options: Any) -> None:
        """Claim for a node all that it can get."""
        claimant = claimant_of(node, queues)

        def claim(store: Store) -> object:
            settle(store)
            claimed = store.claim_instances(
                claimant, limit=ALL, deadline=LAST_INSTANT, **options
            )
            if store is self.oracle:
                self._note(claimed)
            silences = {self._known(store, each): each.silence for each in claimed}
            return self._seen(store, claimed), silences

        self._alike(claim)

    @rule(data=st.data())
    def reopen(self, data: st.DataObject) -> None:
        """Reopen some of the failed instances."""
        failed = self.oracle.select(Filter(states=[State.FAILED]), limit=ALL)
        chosen = self._some(data, failed) if failed else ()

        def reopen(store: Store) -> object:
            mine = [self._twin(store, each.id) for each in chosen]
            return {self._oracles(store, each) for each in store.reopen_instances(mine)}

        self._alike(reopen)

    @rule(node=nodes)
    def list_claimed(self, node: UUID) -> None:
        """List the claims of a node; frozen instances may be left out."""

        def read(store: Store) -> object:
            found = store.list_claimed(node, limit=ALL)
            return self._seen(
                store, (each for each in found if not each.definition.paused)
            )

        self._alike(read)

    @precondition(lambda self: self._claims)
    @rule(data=st.data(), node=nodes)
    def start(self, data: st.DataObject, node: UUID) -> None:
        """Start instances by claims that are current or lost."""
        claims = self._some(data, self._claims)

        def start(store: Store) -> object:
            mine = [self._claim(store, each) for each in claims]
            started = store.start_instances(claimant_of(node, QUEUES), mine).done
            definitions = {
                each.definition.id: self._definition(store, each.definition)
                for each in started
            }
            return self._seen(store, started), definitions

        self._alike(start)

    @precondition(lambda self: self._claims)
    @rule(data=st.data(), renewal=renewals)
    def renew(self, data: st.DataObject, renewal: Renewal) -> None:
        """Renew claims or hand them on, perhaps over a bus."""
        claims = self._some(data, self._claims)

        def renew(store: Store) -> object:
            mine = [replace(renewal, claim=self._claim(store, each)) for each in claims]
            answer = store.renew_claims(mine).done
            return {self._oracles(store, each): asked for each, asked in answer.items()}

        self._alike(renew)

    @precondition(lambda self: self._claims)
    @rule(
        data=st.data(),
        end=ends,
        called=st.booleans(),
        next_fire_time=st.none() | offsets,
    )
    def finish(
        self,
        data: st.DataObject,
        end: RunOutcome,
        called: bool,
        next_fire_time: timedelta | None,
    ) -> None:
        """Finish a run by a claim that is current or lost."""
        [claim] = self._some(data, self._claims, most=1)
        now = self.clock.now()
        # What is skipped has not been called.
        called = end.outcome is None or (called and end.outcome is not Outcome.SKIPPED)
        end = replace(
            end,
            started_at=now if called else None,
            next_fire_time=None if next_fire_time is None else now + next_fire_time,
            result=end.result if end.outcome is Outcome.COMPLETED else None,
        )

        def finish(store: Store) -> object:
            mine = replace(end, claim=self._claim(store, claim))
            accepted = store.finish_instances([mine]).done
            return {self._oracles(store, each) for each in accepted}

        self._alike(finish)

    @precondition(lambda self: self._claims)
    @rule(data=st.data(), given=releases)
    def release(self, data: st.DataObject, given: Release) -> None:
        """Release instances by claims that are current or lost."""
        claims = self._some(data, self._claims)

        def release(store: Store) -> object:
            mine = [replace(given, claim=self._claim(store, each)) for each in claims]
            accepted = store.release_instances(mine).done
            return {self._oracles(store, each) for each in accepted}

        self._alike(release)

    @precondition(lambda self: self._twins)
    @rule(data=st.data(), next_fire_time=st.none() | offsets)
    def cancel(self, data: st.DataObject, next_fire_time: timedelta | None) -> None:
        """Cancel instances."""
        which = self._some(data, list(self._twins))
        at = None if next_fire_time is None else self.clock.now() + next_fire_time

        def cancel(store: Store) -> object:
            mine = {self._twin(store, each): at for each in which}
            answer = store.cancel_instances(mine)
            return {self._oracles(store, each): came for each, came in answer.items()}

        self._alike(cancel)

    @rule()
    def review_parked(self) -> None:
        """Review the parked instances."""

        def go_over(store: Store) -> object:
            settle(store)
            found = store.review_parked(limit=ALL)
            parts = found.unparked, found.skipped, found.replaced
            return [self._seen(store, part) for part in parts]

        self._alike(go_over)

    def _claim(self, store: Store, claim: Claim) -> Claim:
        return replace(claim, instance_id=self._twin(store, claim.instance_id))

    @rule(known=st.sets(st.sampled_from(QUEUES)))
    def due_queues(self, known: set[str]) -> None:
        """List the queues where something is due, except known ones."""

        def look(store: Store) -> object:
            settle(store)
            found = set(known)
            while more := store.list_due_queues(apart_from=found):
                assert found.isdisjoint(more)
                found.update(more)
            return found

        self._alike(look)

    @rule(name=st.sampled_from("ab"), value=st.sampled_from(["", "1", "ä"]))
    def keep_setting(self, name: str, value: str) -> None:
        """Keep a setting; the first value stays."""
        self._alike(lambda store: store.keep_setting(name, value))

    @rule()
    def list_runs(self) -> None:
        """List the kept runs of all instances."""

        def read(store: Store) -> object:
            return {
                str(self._known(store, each)): [
                    replace(run, instance_id=each.definition.id)
                    for run in store.list_runs(each.id)
                ]
                for each in store.select(limit=ALL)
            }

        self._alike(read)

    @rule(
        queues=st.none() | st.sets(st.sampled_from(QUEUES)),
        state=st.none() | st.sampled_from(DefinitionState),
        order=st.sampled_from(DefinitionOrder),
        limit=st.integers(1, 3),
    )
    def select_definitions(
        self, *, order: DefinitionOrder, limit: int, **conditions: Any
    ) -> None:
        """List definitions in pages; their order is the same in both stores."""
        where = DefinitionFilter(**conditions)

        def read(store: Store) -> object:
            listed = partial(store.select_definitions, where, order=order)
            found = all_pages(listed, limit=limit)
            return [self._definition(store, each) for each in found]

        self._alike(read)

    @rule(
        definition_id=st.none() | ids,
        states=st.none() | st.sets(st.sampled_from(State)),
        since=st.none() | offsets,
        fired_since=st.none() | offsets,
        paused=st.none() | st.booleans(),
        parked=st.none() | st.booleans(),
        queues=st.none() | st.sets(st.sampled_from(QUEUES)),
        unstarted=st.booleans(),
        order=st.sampled_from(Order),
        descending=st.booleans(),
        limit=st.integers(1, 3),
    )
    def select(
        self,
        *,
        since: timedelta | None,
        fired_since: timedelta | None,
        order: Order,
        descending: bool,
        limit: int,
        **conditions: Any,
    ) -> None:
        """List instances in pages, and count them; each store has its own ids."""
        for name, offset in (("since", since), ("fired_since", fired_since)):
            if offset is not None:
                conditions[name] = self.clock.now() + offset
        where = Filter(**conditions)

        def read(store: Store) -> object:
            listed = partial(store.select, where, order=order, descending=descending)
            found = all_pages(listed, limit=limit)
            assert all(map(where.matches, found)), f"{where} is not met: {found}"
            places = [_place(order, each) for each in found]
            assert places == sorted(places, reverse=descending), f"no order: {places}"
            known = sorted(str(self._known(store, each)) for each in found)
            return known, store.count([where])

        self._alike(read)

    @rule(slot=st.sampled_from(SLOTS))
    def slot_holder(self, slot: str) -> None:
        """Look up who holds a slot."""

        def read(store: Store) -> object:
            found = store.slot_holder(slot)
            return None if found is None else self._known(store, found)

        self._alike(read)


def _place(order: Order, instance: TaskInstance) -> tuple[object, UUID]:
    position = order.position(instance)
    assert position is not None, f"has no {order.value}: {instance}"
    return position.at or 0, instance.id
