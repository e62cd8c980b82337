"""The rows of a ``MemoryStore``, and the lists that find what is due.

Only what is due, held, parked or over is listed. All else is found by looking at every
row.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from heapq import nsmallest
from itertools import chain, islice, takewhile
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from uuid import UUID, uuid4

from sortedcontainers import SortedDict, SortedList

from go_scheduler.json import JSON
from go_scheduler.models import (
    RUNS_KEPT,
    Outcome,
    RunEnd,
    Skipped,
    TaskDefinition,
    TaskInstance,
    TaskRun,
)
from go_scheduler.models.values import changed, trusted
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Claim, Claimant, NodeContact, Tombstone
from go_scheduler.stores.rules import (
    Turns,
    next_revision,
    overlap_of,
    overlap_of_backfilled,
    slot_of,
)

if TYPE_CHECKING:
    from go_scheduler.models import QueueStats
    from go_scheduler.stores.rules import SetVersion


@dataclass(slots=True, eq=False)
class StoredDefinition:
    """A definition as stored, and its instances.

    Attributes:
        definition: The definition.
        instances: Its instances by fire time, or else by id, in the order in which they
            were made.
        keyed: Those that have a key, by that.
        open: How many of them a trigger that waits has to wait for.
        deleted: Whether it has been deleted.
        fired_until: A fire time that had begun when it was given another trigger.
    """

    definition: TaskDefinition
    instances: dict[datetime | UUID, StoredInstance] = field(default_factory=dict)
    keyed: dict[str, StoredInstance] = field(default_factory=dict)
    open: int = 0
    deleted: bool = False
    fired_until: datetime | None = None


@dataclass(slots=True, eq=False)
class StoredInstance:
    """An instance as stored.

    It has the fields of ``TaskInstance``.

    Attributes:
        of: Its definition, as it is for all its instances.
        queue: In which it is, or has ended.
        priority: Its class.
        slot: The slot that it needs or has; None: it excludes no other.
        overlap: What decides on it when it is due and parked; None: it waits.
        behind: The instance that had its slot when it was parked.
        handed_on: The attempt whose run goes on outside of its node.
        past: The ends of its runs that did not succeed.
    """

    id: UUID
    of: StoredDefinition
    fire_time: datetime | None
    execute_at: datetime
    due_at: datetime
    attempt: int = 0
    runs: int = 0
    hangs: int = 0
    claimed_by: UUID | None = None
    expires_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    outcome: Outcome | None = None
    ended_attempt: int | None = None
    error: str | None = None
    cancel_requested: bool = False
    parked: bool = False
    skipped: Skipped | None = None
    payload: Mapping[str, JSON] | None = None
    key: str | None = None
    backfilled: Overlap | None = None
    reopened_at: datetime | None = None
    worker: str | None = None
    result: JSON = None
    created_at: datetime | None = None
    client: JSON = None
    own_trace_context: str | None = None
    accepted_at: datetime | None = None
    start_by: datetime | None = None
    progress: JSON = None
    given_back: str | None = None
    overrides: Mapping[str, Any] | None = None
    queue: str = field(init=False)
    priority: int = field(init=False)
    slot: str | None = field(init=False)
    overlap: Overlap | None = field(init=False)
    behind: UUID | None = None
    handed_on: int | None = None
    past: tuple[TaskRun, ...] = ()

    # Only a claim answers it.
    silence: ClassVar[None] = None
    # By the same rules as those of an instance.
    state: ClassVar[Any] = vars(TaskInstance)["state"]
    stage: ClassVar[Any] = vars(TaskInstance)["stage"]

    def __post_init__(self) -> None:
        self.follow()

    def follow(self) -> None:
        """Be where its definition says now, and exclude what that says."""
        self.move()
        of, fired, backfilled = self.definition, self.is_fired, self.backfilled
        self.slot = slot_of(of, fired=fired, backfilled=backfilled)
        if backfilled is None:
            self.overlap = overlap_of(of, fired=fired)
        else:
            self.overlap = overlap_of_backfilled(backfilled)

    @property
    def definition(self) -> TaskDefinition:
        """Its definition, as it is now, with what it has of its own."""
        of = self.of.definition
        if self.overrides is None and self.queue == of.queue:
            return of
        return changed(of, **{**(self.overrides or {}), "queue": self.queue})

    def move(self) -> None:
        """Be in the queue and the class that are its definition's now, or its own."""
        own, of = self.overrides or {}, self.of.definition
        self.queue = own.get("queue", of.queue)
        self.priority = own.get("priority", of.priority)

    @property
    def is_fired(self) -> bool:
        """Whether its definition's schedule has made it, and nobody by hand."""
        return self.fire_time is not None and self.backfilled is None

    @property
    def is_awaited(self) -> bool:
        """Whether a trigger that waits does so for its end, and it has not ended."""
        return self.completed_at is None and self.is_fired

    @property
    def is_claimed(self) -> bool:
        """Whether a node has it and has not started it."""
        return (
            self.claimed_by is not None
            and self.started_at is None
            and self.completed_at is None
        )

    @property
    def is_running(self) -> bool:
        """Whether it has started and not ended."""
        return self.started_at is not None and self.completed_at is None

    @property
    def is_waiting(self) -> bool:
        """Whether it has not ended, and its run has not begun."""
        begun = self.started_at is not None and self.start_by is None
        return self.completed_at is None and not begun

    @property
    def is_handed_on(self) -> bool:
        """Whether its run goes on outside of the node that has claimed it."""
        return self.handed_on == self.attempt

    @property
    def is_unused(self) -> bool:
        """Whether it is a fire time's, and never started."""
        return (
            self.is_awaited
            and self.started_at is None
            and not self.runs
            # One that was made to run again has failed before.
            and self.reopened_at is None
        )

    def is_kept(self, now: datetime) -> bool:
        """Whether it stays when it has succeeded, though successes are deleted."""
        asked_for = self.key is not None or self.slot is not None
        has_failed = self.attempt > 1 or self.error is not None
        return asked_for or has_failed or self.is_to_come(now)

    def is_to_come(self, now: datetime) -> bool:
        """Whether its fire time is to come: a pause or an edit has to know of it."""
        return self.fire_time is not None and self.fire_time > now

    @property
    def place(self) -> datetime | UUID:
        """Where its definition has it."""
        return self.id if self.fire_time is None else self.fire_time

    def claim(self, claimant: Claimant, now: datetime) -> None:
        """Record that a node has it."""
        if self.started_at is not None:
            # It is lost to who claims it now.
            self.keep_run(RunEnd.LOST, None, now)
            self.started_at = None
        self.claimed_by = claimant.node
        self.forget_worker()
        self.attempt += 1
        due_at = self.due_at
        self.expires_at = (due_at if due_at > now else now) + claimant.lease

    def start(self, claimant: Claimant, now: datetime) -> None:
        """Record that its handler is about to be called."""
        self.runs += 1
        due_at = self.due_at
        self.started_at = started_at = due_at if due_at > now else now
        expire_after = self.definition.expire_after or claimant.expire_after
        lease = claimant.lease
        self.expires_at = started_at + min(lease, expire_after)

    def free(self, due_at: datetime) -> None:
        """Record that no node has it, and when it is due."""
        self.claimed_by = self.expires_at = self.started_at = None
        self.forget_worker()
        self.due_at = due_at

    def reopen(self, now: datetime) -> None:
        """Be as if it were new and due now, but for what is known of its runs."""
        self.outcome = self.completed_at = self.ended_attempt = None
        self.cancel_requested = False
        self.runs = self.hangs = 0
        self.free(now)
        self.follow()
        # Somebody wants it to run: it waits for its turn, whatever runs.
        self.overlap = None

    def forget_worker(self) -> None:
        """Forget who had it outside of nodes, and why it was given back."""
        self.worker = self.accepted_at = self.start_by = None
        self.progress = self.given_back = None

    def keep_run(self, outcome: RunEnd, error: str | None, now: datetime) -> None:
        """Keep how its present run ended."""
        run = TaskRun(
            instance_id=self.id,
            attempt=self.attempt,
            node=self.claimed_by,
            started_at=self.started_at,
            ended_at=now,
            outcome=outcome,
            error=error,
            worker=self.worker,
            lost_in=self.stage if outcome is RunEnd.LOST else None,
        )
        self.past = (*self.past, run)[-RUNS_KEPT:]

    def view(self) -> TaskInstance:
        """The instance as others see it."""
        return _instance(self.id, self.definition, *_shown(self))


SHOWN = [each.name for each in fields(TaskInstance)[2:]]
"""All other fields of an instance, in their order."""
_instance: Callable[..., TaskInstance] = trusted(TaskInstance)
# Read at once, and passed by position.
_shown: Callable[[StoredInstance], tuple[Any, ...]] = attrgetter(*SHOWN)


def in_turn(row: StoredInstance) -> tuple[int, datetime, datetime, int]:
    """By what it is decided whose turn it is."""
    return row.priority, *when_due(row)


def when_due(row: StoredInstance) -> tuple[datetime, datetime, int]:
    """When it is due, first due first."""
    return row.due_at, row.execute_at, row.id.int


Entry = tuple[datetime, int]
"""A row in a sorted list: what it is sorted by, a time and its id.

Not the row itself: the garbage collector need not walk what holds neither.
"""

_LAST_ID = 1 << 128
NEVER = datetime.max.replace(tzinfo=UTC)
"""Later than anything that is noted."""
_FAILED = Outcome.FAILED
_expires_at = attrgetter("expires_at")
_completed_at = attrgetter("completed_at")


class Pending:
    """What may be claimed: a sorted list for each class of each queue."""

    def __init__(self) -> None:
        self._lists: dict[tuple[int, str], SortedList[Entry]] = {}
        self._turns = Turns()

    def add(self, row: StoredInstance) -> None:
        """Let a row be claimed."""
        place = row.priority, row.queue
        rows = self._lists.get(place)
        if rows is None:
            rows = self._lists[place] = SortedList()
        rows.add((row.due_at, row.id.int))

    def remove(self, row: StoredInstance) -> None:
        """Keep a row from being claimed."""
        self._lists[row.priority, row.queue].remove((row.due_at, row.id.int))

    def take(self, queues: Sequence[str], until: datetime, limit: int) -> list[Entry]:
        """Take out rows due by then, the earliest first.

        Those of a class come before those of the next, as it is this claim's turn.
        """
        taken: list[Entry] = []
        for priority in self._turns.next():
            keys = ((priority, each) for each in queues)
            lists = [self._lists[each] for each in keys if each in self._lists]
            left, last = limit - len(taken), (until, _LAST_ID)
            heads = [rows[: min(left, rows.bisect_right(last))] for rows in lists]
            first = sorted(chain(*heads))[:left]
            for rows in lists if first else ():
                del rows[: rows.bisect_right(first[-1])]
            taken += first
        taken.sort(key=itemgetter(0))
        return taken

    def due_queues(self, now: datetime) -> set[str]:
        """The queues in which something is due."""
        lists = self._lists.items()
        return {queue for (_, queue), rows in lists if rows and rows[0][0] <= now}


class Slots:
    """The holders by the names of their slots, and what is parked, in its turn."""

    def __init__(self) -> None:
        self.holders: dict[str, StoredInstance] = {}
        self.parked: SortedDict[str, SortedList[StoredInstance]] = SortedDict()
        self._undecided: SortedList[StoredInstance] = SortedList(key=when_due)

    def holder(self, name: str | None) -> StoredInstance | None:
        """The row that has this slot."""
        return None if name is None else self.holders.get(name)

    def take(self, row: StoredInstance) -> bool:
        """Give a row its slot, if nobody else has it; true: it excludes nobody else."""
        return row.slot is None or self.holders.setdefault(row.slot, row) is row

    def free(self, row: StoredInstance) -> None:
        """Take back its slot from a row, if it has it."""
        if row.slot is not None and self.holders.get(row.slot) is row:
            del self.holders[row.slot]

    def park(self, row: StoredInstance) -> None:
        """Take a parked row."""
        assert row.slot is not None
        self.parked.setdefault(row.slot, SortedList(key=in_turn)).add(row)
        if row.overlap is not None:
            self._undecided.add(row)

    def unpark(self, row: StoredInstance) -> None:
        """Let go of a parked row."""
        assert row.slot is not None
        parked = self.parked[row.slot]
        parked.remove(row)
        self._undecided.discard(row)
        if not parked:
            del self.parked[row.slot]

    def accept(self, row: StoredInstance) -> None:
        """Let a parked row wait, whatever its overlap."""
        self._undecided.remove(row)
        row.overlap = None

    def next_ones(self, limit: int) -> Sequence[StoredInstance]:
        """The rows whose turn it is, of slots that nobody has."""
        free = (name for name in self.parked if name not in self.holders)
        return [self.parked[name][0] for name in islice(free, limit)]

    def undecided(self, until: datetime) -> Iterator[StoredInstance]:
        """Rows due by then that nothing has decided on."""
        return takewhile(lambda row: row.due_at <= until, self._undecided)

    def waiting(self, like: StoredInstance) -> Sequence[StoredInstance]:
        """Rows of the same definition that wait for the same slot, and may do so.

        What was backfilled, and what was not, are apart.
        """
        assert like.slot is not None
        return [
            row
            for row in self.parked[like.slot]
            if row.of is like.of
            and row.overlap is None
            and (row.backfilled is None) == (like.backfilled is None)
        ]


class StatsKey(NamedTuple):
    """Which counts: those of one node, of a queue, in a minute."""

    at: datetime
    queue: str
    node: UUID


class Tables:
    """All that a ``MemoryStore`` keeps, used under its lock.

    Each instance is in one list, by its state. A pending one is in ``pending``; in
    ``slots`` if it is parked; in no list if its definition is paused. A claimed or
    running one is in ``leases``, an ended one in ``ended``. Call ``leave`` before an
    instance changes, and ``enter`` after the change.

    Args:
        new_id: Makes the ids of instances.

    Attributes:
        now: The time of the present call.
        definitions: By the numbers of their ids.
        instances: By the numbers of their ids.
        pending: What nodes may claim.
        leases: What nodes have claimed or run. Nearly all of it ends long before its
            claim would lapse, so it is in no order.
        slots: Which instances have slots, and what is parked.
        ended: Failed instances (true) and all others that ended (false), in the order
            in which they ended.
        tombstones: What is remembered of definitions that have ended and are gone, by
            their ids.
        first_revision: The revision of a new definition: higher than any that a deleted
            one had.
        contacts: The last contact of each node.
        stats: What nodes have counted.
        sets: The last declaration of each owner of a set.
        settings: What is agreed on, by its name.
    """

    def __init__(self, new_id: Callable[[], UUID] = uuid4) -> None:
        self.new_id = new_id
        self.now = datetime.min.replace(tzinfo=UTC)
        self.definitions: dict[int, StoredDefinition] = {}
        self._due: SortedList[Entry] = SortedList()
        self.instances: dict[int, StoredInstance] = {}
        self.pending = Pending()
        self.leases: dict[int, StoredInstance] = {}
        # Before this none of them lapses, so that claims need not look at all.
        self._first_lapse = NEVER
        self.slots = Slots()
        # A dict would walk over rows that have been taken from its beginning.
        self.ended: dict[bool, OrderedDict[int, StoredInstance]] = {
            True: OrderedDict(),
            False: OrderedDict(),
        }
        self.tombstones: dict[UUID, Tombstone] = {}
        self.first_revision = 1
        self.contacts: dict[UUID, NodeContact] = {}
        self.stats: dict[StatsKey, QueueStats] = {}
        self.sets: dict[str, SetVersion] = {}
        self.settings: dict[str, str] = {}

    def find_definitions(self, ids: Collection[UUID]) -> Sequence[StoredDefinition]:
        """Those of these ids that exist, in no order."""
        found = map(self.definitions.get, {id.int for id in ids})
        return [of for of in found if of is not None]

    def due(
        self, until: datetime, after: TaskDefinition | None, limit: int
    ) -> Sequence[TaskDefinition]:
        """Definitions due by then, in the order of their next fire time and id."""
        last: Any = None
        if after is not None and after.next_fire_time is not None:
            last = (after.next_fire_time, after.id.int + 1)
        found = islice(self._due.irange(last), limit)
        due = takewhile(lambda entry: entry[0] <= until, found)
        return [self.definitions[id].definition for _, id in due]

    def idle(self, until: datetime, limit: int) -> Sequence[StoredDefinition]:
        """Definitions completed by then that have no instance."""
        empty = (of for of in self.definitions.values() if not of.instances)
        over = (of for of in empty if of.definition.completed_at is not None)
        found = (of for of in over if _completed_at(of.definition) <= until)
        return list(islice(found, limit))

    def add_definition(self, of: StoredDefinition) -> None:
        """Take a new definition."""
        self.definitions[of.definition.id.int] = of
        self._list_definition(of)

    def change(self, of: StoredDefinition, **changes: object) -> None:
        """Change fields of a definition."""
        self.replace(of, changed(of.definition, **changes))

    def replace(self, of: StoredDefinition, new: TaskDefinition) -> None:
        """Put a changed definition into the place of the old one."""
        self._unlist_definition(of)
        of.definition = new
        self._list_definition(of)

    def remove_definition(self, of: StoredDefinition) -> None:
        """Forget a definition."""
        self.first_revision = max(self.first_revision, next_revision(of.definition))
        self._unlist_definition(of)
        del self.definitions[of.definition.id.int]
        of.deleted = True

    def _list_definition(self, of: StoredDefinition) -> None:
        new = of.definition
        if new.next_fire_time is not None and not new.paused:
            self._due.add((new.next_fire_time, new.id.int))

    def _unlist_definition(self, of: StoredDefinition) -> None:
        old = of.definition
        if old.next_fire_time is not None and not old.paused:
            self._due.remove((old.next_fire_time, old.id.int))

    @contextmanager
    def relisted(self, of: StoredDefinition) -> Iterator[Sequence[StoredInstance]]:
        """Take its open instances out of their lists while a definition changes."""
        rows = [row for row in of.instances.values() if row.completed_at is None]
        for row in rows:
            self.leave(row)
        yield rows
        for row in rows:
            self.enter(row)

    def enter(self, row: StoredInstance) -> None:
        """Put an instance into the list of its state."""
        if row.completed_at is not None:
            self.ended[row.outcome is _FAILED][row.id.int] = row
        elif row.claimed_by is not None:
            self.leases[row.id.int] = row
            assert row.expires_at is not None
            self._first_lapse = min(self._first_lapse, row.expires_at)
        elif row.of.definition.paused:
            return  # What is frozen is in no list.
        elif row.parked:
            self.slots.park(row)
        else:
            self.pending.add(row)

    def leave(self, row: StoredInstance) -> None:
        """Take an instance out of its list."""
        if row.completed_at is not None:
            del self.ended[row.outcome is _FAILED][row.id.int]
        elif row.claimed_by is not None:
            del self.leases[row.id.int]
        elif row.of.definition.paused:
            return  # What is frozen is in no list.
        elif row.parked:
            self.slots.unpark(row)
        else:
            self.pending.remove(row)

    def make(
        self,
        of: StoredDefinition,
        fire_time: datetime | None,
        at: datetime,
        *,
        id: UUID | None = None,
        **others: Any,
    ) -> StoredInstance:
        """Make a new instance of a definition, which is to run at a time."""
        id = id or self.new_id()
        row = StoredInstance(id, of, fire_time, at, at, created_at=self.now, **others)
        self.add_apart(row)
        self.enter(row)
        return row

    def add_apart(self, row: StoredInstance) -> None:
        """Take a new instance, but put it into no list yet."""
        self.instances[row.id.int] = row
        row.of.instances[row.place] = row
        row.of.open += row.is_awaited
        if row.key is not None:
            row.of.keyed[row.key] = row

    def end(self, row: StoredInstance, outcome: Outcome) -> None:
        """End an instance; or let it end in another way."""
        self.leave(row)
        self.slots.free(row)
        row.of.open -= row.is_awaited
        row.parked = False
        row.outcome, row.completed_at = outcome, self.now
        self.enter(row)

    def reopen(self, row: StoredInstance) -> None:
        """Make an instance that has ended pending again, as if it were new."""
        self.leave(row)
        row.reopen(self.now)
        row.of.open += row.is_awaited
        self.enter(row)

    def remove(self, row: StoredInstance) -> None:
        """Forget an instance."""
        self.leave(row)
        self.slots.free(row)
        row.of.open -= row.is_awaited
        del self.instances[row.id.int]
        row.of.instances.pop(row.place, None)
        if row.key is not None:
            del row.of.keyed[row.key]

    def current(self, claim: Claim) -> StoredInstance | None:
        """The instance that this claim owns, unless it has been lost."""
        row = self.instances.get(claim.instance_id.int)
        if row is None or row.attempt != claim.attempt:
            return None
        return row if row.claimed_by is not None and row.completed_at is None else None

    def take_lapsed(
        self, queues: Sequence[str], until: datetime, limit: int
    ) -> list[StoredInstance]:
        """Take what has lapsed by then out of its lists, the first to lapse first."""
        if until < self._first_lapse:
            return []
        lapsed = [row for row in self.leases.values() if _expires_at(row) <= until]
        served = [row for row in lapsed if row.queue in queues]
        free = [row for row in served if not row.of.definition.paused]
        taken = nsmallest(limit, free, key=attrgetter("expires_at", "id.int"))
        for row in taken:
            self.leave(row)
        self._first_lapse = min(map(_expires_at, self.leases.values()), default=NEVER)
        return taken

    def take_pending(
        self, queues: Sequence[str], until: datetime, limit: int
    ) -> Sequence[StoredInstance]:
        """Take instances due by then out of their lists, the earliest first."""
        return [self.instances[id] for _, id in self.pending.take(queues, until, limit)]

    def remove_ended(self, until: datetime, limit: int, *, failed: bool) -> int:
        """Forget what ended by then, oldest first: what failed, or all others."""
        rows = self.ended[failed].values()
        ended = takewhile(lambda row: _completed_at(row) <= until, rows)
        old = [*islice((row for row in ended if not row.is_to_come(self.now)), limit)]
        for row in old:
            self.remove(row)
        return len(old)

    def bury(self, of: StoredDefinition) -> None:
        """Forget a definition that has ended; remember its id if that was passed."""
        old = of.definition
        assert old.completed_at is not None
        assert old.revision is not None
        self.remove_definition(of)
        if old.named:
            self.tombstones[old.id] = Tombstone(
                id=old.id,
                trigger=old.trigger,
                revision=old.revision,
                completed_at=old.completed_at,
            )

    def forget_tombstones(self, until: datetime, most: int, limit: int) -> int:
        """Forget ids that ended by then, and the oldest if there are more than so many.

        Returns:
            How many were forgotten as there were too many.
        """
        ended = self.tombstones.values()
        old = [*islice((each for each in ended if each.completed_at <= until), limit)]
        for each in old:
            del self.tombstones[each.id]
        excess = min(limit, len(self.tombstones) - most)
        oldest = nsmallest(excess, ended, key=attrgetter("completed_at", "id"))
        for each in oldest:
            del self.tombstones[each.id]
        return len(oldest)
