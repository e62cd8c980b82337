"""All that a ``MemoryStore`` keeps, in tables, with the lists that find what is due."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from heapq import merge, nsmallest
from itertools import islice, takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

from sortedcontainers import SortedDict, SortedList

from go_scheduler.checks import PRIORITIES
from go_scheduler.models import (
    RUNS,
    RUNS_KEPT,
    Outcome,
    QueueStats,
    RunEnd,
    Skipped,
    Stage,
    State,
    TaskDefinition,
    TaskInstance,
    TaskRun,
)
from go_scheduler.models.instance import stage_of
from go_scheduler.models.values import changed, trusted
from go_scheduler.stores.base import CONTACTS_KEPT, STATS_KEPT
from go_scheduler.stores.messages import (
    NodeContact,
    Tombstone,
)
from go_scheduler.stores.rules import (
    EDITED,
    SetVersion,
    Turns,
    check_revision,
    created,
    edited,
    ended_before,
    exclusion_of,
    fired,
    goes_on,
    is_over,
    kept,
    next_revision,
    overlap_of,
    overlap_of_backfilled,
    rescheduled,
    resumed,
    silence_of,
    slot_of,
    unfired,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Set

    from go_scheduler.json import JSON
    from go_scheduler.models import Silence
    from go_scheduler.policies import Overlap
    from go_scheduler.stores.messages import (
        Claim,
        Claimant,
        Firing,
        Position,
        Retention,
    )

_instance: Callable[..., TaskInstance] = trusted(TaskInstance)
_PENDING = State.PENDING


class StoredDefinition:
    """A definition as stored, and its instances by fire time, or else by id."""

    __slots__ = ("definition", "instances", "open")

    def __init__(self, definition: TaskDefinition) -> None:
        self.definition = definition
        self.instances: dict[datetime | UUID, StoredInstance] | None = None
        # How many are open that have a fire time.
        self.open = 0

    @property
    def rows(self) -> Sequence[StoredInstance]:
        """Its instances, in the order in which they were made."""
        return () if self.instances is None else tuple(self.instances.values())

    def fired_at(self, fire_time: datetime) -> StoredInstance | None:
        """Its instance of a fire time."""
        return None if self.instances is None else self.instances.get(fire_time)


class StoredInstance:
    """An instance as stored."""

    __slots__ = (
        "accepted_at",
        "attempt",
        "backfilled",
        "behind",
        "cancel_requested",
        "claimed_by",
        "client",
        "completed_at",
        "created_at",
        "due_at",
        "ended_attempt",
        "error",
        "execute_at",
        "expires_at",
        "fire_time",
        "given_back",
        "handed_on",
        "hangs",
        "id",
        "key",
        "of",
        "outcome",
        "overlap",
        "own_trace_context",
        "parked",
        "past",
        "payload",
        "priority",
        "progress",
        "queue",
        "reopened_at",
        "result",
        "runs",
        "skipped",
        "slot",
        "start_by",
        "started_at",
        "state",
        "worker",
    )
    # Only a claim answers it.
    silence = None

    def __init__(
        self,
        id: UUID,
        of: StoredDefinition,
        execute_at: datetime,
        *,
        fire_time: datetime | None,
        created_at: datetime | None,
        backfilled: Overlap | None = None,
    ) -> None:
        self.id = id
        self.of = of
        self.queue = of.definition.queue
        self.priority = of.definition.priority
        self.fire_time = fire_time
        self.created_at = created_at
        self.backfilled = backfilled
        self.reopened_at: datetime | None = None
        self.parked = False
        self.behind: UUID | None = None
        self.follow()
        self.execute_at = execute_at
        self.due_at = execute_at
        self.attempt = 0
        self.runs = 0
        self.hangs = 0
        self.claimed_by: UUID | None = None
        self.handed_on: int | None = None
        self.forget_worker()
        self.expires_at: datetime | None = None
        self.started_at: datetime | None = None
        self.completed_at: datetime | None = None
        self.outcome: Outcome | None = None
        self.ended_attempt: int | None = None
        self.error: str | None = None
        self.result: JSON = None
        self.client: JSON = None
        self.cancel_requested = False
        self.skipped: Skipped | None = None
        self.payload: Mapping[str, JSON] | None = None
        self.key: str | None = None
        self.own_trace_context: str | None = None
        self.state = _PENDING
        self.past: tuple[TaskRun, ...] = ()

    def forget_worker(self) -> None:
        """Forget who had it outside of nodes, and why it was given back."""
        self.worker: str | None = None
        self.accepted_at: datetime | None = None
        self.start_by: datetime | None = None
        self.progress: JSON = None
        self.given_back: str | None = None

    def follow(self) -> None:
        """Exclude what its definition says now."""
        of, fired, backfilled = self.of.definition, self.is_fired, self.backfilled
        self.slot = slot_of(of, fired=fired, backfilled=backfilled)
        if backfilled is None:
            self.overlap = overlap_of(of, fired=fired)
        else:
            self.overlap = overlap_of_backfilled(backfilled)

    @property
    def is_fired(self) -> bool:
        """Whether its definition's schedule has made it, and nobody by hand."""
        return self.fire_time is not None and self.backfilled is None

    @property
    def is_accepted(self) -> bool:
        """Whether it may wait for its slot, though its overlap may end others."""
        fired = self.fire_time is not None
        decides = overlap_of(self.of.definition, fired=fired)
        return self.completed_at is None and self.overlap is not decides

    @property
    def place(self) -> datetime | UUID:
        """Where its definition has it."""
        return self.id if self.fire_time is None else self.fire_time

    @property
    def frozen(self) -> bool:
        """Whether its definition is paused."""
        return self.of.definition.paused

    @property
    def is_handed_on(self) -> bool:
        """Whether its run goes on outside of the node that has claimed it."""
        return self.handed_on == self.attempt

    @property
    def is_awaited(self) -> bool:
        """Whether a trigger that waits does so for its end, and it has not ended."""
        return self.completed_at is None and self.is_fired

    @property
    def is_unused(self) -> bool:
        """Whether it is a fire time's, and never started."""
        return (
            self.state in (State.PENDING, State.CLAIMED)
            and not self.runs
            # One that was made to run again has failed before.
            and self.reopened_at is None
            and self.is_fired
        )

    @property
    def is_waiting(self) -> bool:
        """Whether it has not ended, and its run has not begun."""
        if self.state in RUNS:
            return self.start_by is not None
        return self.completed_at is None

    @property
    def stage(self) -> Stage | None:
        """How far its run has come on a bus."""
        return stage_of(self.accepted_at, self.start_by)

    def silent(self) -> Silence | None:
        """What a claim answers that takes it over now."""
        return silence_of(
            self.started_at,
            accepted_at=self.accepted_at,
            start_by=self.start_by,
            worker=self.worker,
        )

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
        expire_after = self.of.definition.expire_after or claimant.expire_after
        lease = claimant.lease
        self.expires_at = started_at + min(lease, expire_after)

    def begin_anew(self, now: datetime) -> None:
        """Be as if it were new and due now, but for what is known of its runs."""
        self.outcome = self.completed_at = self.ended_attempt = None
        self.claimed_by = self.expires_at = self.started_at = None
        self.forget_worker()
        self.cancel_requested = False
        self.runs = self.hangs = 0
        self.due_at = now
        self.queue = self.of.definition.queue
        self.priority = self.of.definition.priority
        self.follow()
        # Somebody wants it to run: it waits for its turn, whatever runs.
        self.overlap = None

    def leave_fire_time(self) -> datetime:
        """Be no fire time's any more; answer whose it was."""
        assert self.fire_time is not None
        assert self.of.instances is not None
        left = self.fire_time
        self.of.instances[self.id] = self.of.instances.pop(left)
        self.fire_time = None
        return left

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
        return _instance(self.id, self.of.definition, *_shown(self))


# All other fields of an instance, in their order: read at once and passed by position.
_shown: Callable[[StoredInstance], tuple[Any, ...]] = attrgetter(
    *(each.name for each in fields(TaskInstance)[2:])
)


_NEVER = datetime.max.replace(tzinfo=UTC)
_expires_at = attrgetter("expires_at")
_in_order = attrgetter("expires_at", "id.int")


class Leases:
    """Rows by their ids, and a time before which none of them lapses.

    Nearly all are let go of long before they would lapse, so they are in no order: they
    are gone through only when that time has come.
    """

    def __init__(self) -> None:
        self._rows: dict[int, StoredInstance] = {}
        self._first = _NEVER

    def __iter__(self) -> Iterator[StoredInstance]:
        return iter(self._rows.values())

    def add(self, row: StoredInstance) -> None:
        """Take a claimed row."""
        assert row.expires_at is not None
        self._rows[row.id.int] = row
        if row.expires_at < self._first:
            self._first = row.expires_at

    def remove(self, row: StoredInstance) -> None:
        """Let go of a row."""
        del self._rows[row.id.int]

    def take(
        self, queues: Sequence[str], until: datetime, limit: int
    ) -> list[StoredInstance]:
        """Take out rows that have lapsed by then, the first to lapse first."""
        if until < self._first:
            return []
        lapsed = (
            row
            for row in self
            if _expires_at(row) <= until and row.queue in queues and not row.frozen
        )
        taken = nsmallest(limit, lapsed, key=_in_order)
        for row in taken:
            self.remove(row)
        self._first = min(map(_expires_at, self), default=_NEVER)
        return taken


Entry = tuple["datetime", int]
"""A row in a sorted list: what it is sorted by, a time and its id.

Not the row itself: the garbage collector need not walk what holds neither.
"""


_LAST_ID = 1 << 128


class PendingRows:
    """A sorted list for each class of each queue.

    Args:
        rows: All rows, by their ids.
    """

    def __init__(self, rows: Mapping[int, StoredInstance]) -> None:
        self._rows = rows
        # By class, and then by queue.
        self._lists: list[dict[str, SortedList[Entry]]] = [{} for _ in PRIORITIES]
        self._turns = Turns()

    def add(self, row: StoredInstance) -> None:
        """Let a row be claimed."""
        by_queue = self._lists[row.priority]
        if (rows := by_queue.get(row.queue)) is None:
            rows = by_queue[row.queue] = SortedList()
        rows.add((row.due_at, row.id.int))

    def discard(self, row: StoredInstance) -> None:
        """Keep a row from being claimed, if it may be."""
        if (rows := self._lists[row.priority].get(row.queue)) is not None:
            rows.discard((row.due_at, row.id.int))

    def take(
        self, queues: Sequence[str], until: datetime, limit: int
    ) -> list[StoredInstance]:
        """Take out rows due by then, the earliest first.

        Those of a class come before those of the next, as it is this claim's turn.
        """
        found: list[StoredInstance] = []
        for priority in self._turns.next():
            by_queue = self._lists[priority]
            lists = [by_queue[name] for name in queues if name in by_queue]
            if lists:
                taken = _taken(lists, until, limit - len(found))
                found += [self._rows[id] for _, id in taken]
        found.sort(key=attrgetter("due_at"))
        return found

    def due_queues(self, now: datetime) -> set[str]:
        """The queues in which something is due."""
        lists = (each for by_queue in self._lists for each in by_queue.items())
        return {queue for queue, rows in lists if rows and rows[0][0] <= now}


def _taken(
    lists: Sequence[SortedList[Entry]], until: datetime, limit: int
) -> Sequence[Entry]:
    """Take the earliest due by then from the heads of lists."""
    if len(lists) == 1:
        [rows] = lists
        found = rows[: min(limit, rows.bisect_right((until, _LAST_ID)))]
        del rows[: len(found)]
        return found
    found = []
    for entry in islice(merge(*lists), limit):
        if entry[0] > until:
            break
        found.append(entry)
    if found:
        for rows in lists:
            del rows[: rows.bisect_right(found[-1])]
    return found


_FAILED = Outcome.FAILED


class EndedInstances:
    """Rows in the order in which they ended: those that failed, and others."""

    def __init__(self) -> None:
        # A dict would walk over rows that have been taken from its beginning.
        self._rows: dict[bool, OrderedDict[int, StoredInstance]] = {
            True: OrderedDict(),
            False: OrderedDict(),
        }

    def __iter__(self) -> Iterator[StoredInstance]:
        for rows in self._rows.values():
            yield from rows.values()

    def add(self, row: StoredInstance) -> None:
        """Take a row that has just ended."""
        self._beside(row)[row.id.int] = row

    def remove(self, row: StoredInstance) -> None:
        """Let go of a row."""
        del self._beside(row)[row.id.int]

    def take(
        self, until: datetime, limit: int, *, failed: bool
    ) -> Sequence[StoredInstance]:
        """Take rows that ended by then, oldest first: those that failed, or not."""

        def is_old(row: StoredInstance) -> bool:
            return row.completed_at is not None and row.completed_at <= until

        rows = self._rows[failed]
        taken = list(takewhile(is_old, islice(rows.values(), limit)))
        for row in taken:
            del rows[row.id.int]
        return taken

    def _beside(self, row: StoredInstance) -> OrderedDict[int, StoredInstance]:
        return self._rows[row.outcome is _FAILED]


def in_turn(row: StoredInstance) -> tuple[int, datetime, datetime, int]:
    """By what it is decided whose turn it is."""
    return row.priority, *_when_due(row)


def _when_due(row: StoredInstance) -> tuple[datetime, datetime, int]:
    return row.due_at, row.execute_at, row.id.int


class SlotTable:
    """The holders by the names of their slots, and what is parked, in its turn."""

    def __init__(self) -> None:
        self._holders: dict[str, StoredInstance] = {}
        self._parked: SortedDict[str, SortedList[StoredInstance]] = SortedDict()
        self._undecided: SortedList[StoredInstance] = SortedList(key=_when_due)

    @property
    def holders(self) -> Mapping[str, UUID]:
        """Who has which slot."""
        return {name: row.id for name, row in self._holders.items()}

    def restore(self, name: str, row: StoredInstance) -> None:
        """Give a slot to its holder."""
        row.slot = name
        self._holders[name] = row

    def holder(self, name: str | None) -> StoredInstance | None:
        """The row that has this slot."""
        return None if name is None else self._holders.get(name)

    def holder_id(self, row: StoredInstance) -> UUID:
        """The id of the instance that has the slot of a row."""
        assert row.slot is not None
        return self._holders[row.slot].id

    def has(self, row: StoredInstance) -> bool:
        """Whether a row has its slot."""
        return self.holder(row.slot) is row

    def take(self, row: StoredInstance) -> bool:
        """Give a row its slot, if nobody else has it; true: it excludes nobody else."""
        return row.slot is None or self._holders.setdefault(row.slot, row) is row

    def free(self, row: StoredInstance) -> None:
        """Take back its slot from a row, if it has it."""
        if row.slot is not None and self._holders.get(row.slot) is row:
            del self._holders[row.slot]

    def park(self, row: StoredInstance) -> None:
        """Take a parked row."""
        assert row.slot is not None
        self._parked.setdefault(row.slot, SortedList(key=in_turn)).add(row)
        if row.overlap is not None:
            self._undecided.add(row)

    def unpark(self, row: StoredInstance) -> None:
        """Let go of a parked row; one that is frozen is not there."""
        assert row.slot is not None
        if (parked := self._parked.get(row.slot)) is not None:
            self._undecided.discard(row)
            parked.discard(row)
            if not parked:
                del self._parked[row.slot]

    def accept(self, row: StoredInstance) -> None:
        """Let a parked row wait, whatever its overlap."""
        self._undecided.remove(row)
        row.overlap = None

    def __bool__(self) -> bool:
        """Whether anything is parked."""
        return bool(self._parked)

    def next_ones(self, limit: int) -> Sequence[StoredInstance]:
        """The rows whose turn it is, of slots that nobody has."""
        free = (name for name in self._parked if name not in self._holders)
        return [self._parked[name][0] for name in islice(free, limit)]

    def undecided(self, until: datetime) -> Iterator[StoredInstance]:
        """Rows due by then that nothing has decided on."""
        return takewhile(lambda row: row.due_at <= until, self._undecided)

    def waiting(self, like: StoredInstance) -> Sequence[StoredInstance]:
        """Rows of the same definition that wait for the same slot, and may do so.

        What was backfilled, and what was not, are apart.
        """
        assert like.slot is not None
        parked: Iterable[StoredInstance] = self._parked[like.slot]
        return [
            row
            for row in parked
            if row.of is like.of
            and row.overlap is None
            and (row.backfilled is None) == (like.backfilled is None)
        ]


_RESTORED = (
    "accepted_at",
    "attempt",
    "cancel_requested",
    "claimed_by",
    "client",
    "completed_at",
    "due_at",
    "ended_attempt",
    "error",
    "expires_at",
    "given_back",
    "hangs",
    "key",
    "outcome",
    "own_trace_context",
    "parked",
    "payload",
    "progress",
    "reopened_at",
    "result",
    "runs",
    "skipped",
    "start_by",
    "started_at",
    "state",
    "worker",
)
"""What a row has that is not made with it, by the names that others see."""


def restored(instance: TaskInstance, of: StoredDefinition) -> StoredInstance:
    """The row that others saw as this instance."""
    row = StoredInstance(
        instance.id,
        of,
        instance.execute_at,
        fire_time=instance.fire_time,
        created_at=instance.created_at,
        backfilled=instance.backfilled,
    )
    for name in _RESTORED:
        setattr(row, name, getattr(instance, name))
    return row


class PutPlan(NamedTuple):
    """A put that changes nothing yet.

    Attributes:
        definition: The one to put.
        row: The row that has its id.
        over: The tombstone, if it has ended before and is not to run again.
        equal: Whether it is the same as that of the row.
        goes_on: Whether when it fires stays as it is.
    """

    definition: TaskDefinition
    row: StoredDefinition | None
    over: Tombstone | None = None
    equal: bool = False
    goes_on: bool = False

    @property
    def is_new(self) -> bool:
        """Whether it makes a new row."""
        return self.row is None and self.over is None


# Python 3.11 takes longer to look up a member of an enum than to call a function.
_CLAIMED, _RUNNING = State.CLAIMED, State.RUNNING
_CANCELLING = State.CANCELLING
_OWNED = (_CLAIMED, _RUNNING, _CANCELLING)


class InstanceTable:
    """The rows by id, and each in the one list that its state calls for.

    Pending rows stand in the list of their class and queue, or among those parked,
    unless they are frozen; claimed and running ones among the leases, ended ones in one
    of the two lists that cleanup takes from.
    """

    def __init__(self) -> None:
        self.counts = dict.fromkeys(State, 0)
        self._rows: dict[int, StoredInstance] = {}
        self._keyed: dict[tuple[StoredDefinition, str], StoredInstance] = {}
        self._by_time: SortedList[Entry] = SortedList()
        self._pending = PendingRows(self._rows)
        self._leases = Leases()
        self.slots = SlotTable()
        self._ended = EndedInstances()

    def get(self, instance_id: UUID) -> StoredInstance | None:
        """The row of this id."""
        return self._rows.get(instance_id.int)

    def keyed(self, of: StoredDefinition, key: str | None) -> StoredInstance | None:
        """The row of a definition that has this key, which is not None."""
        return None if key is None else self._keyed.get((of, key))

    def current(self, claim: Claim) -> StoredInstance | None:
        """The row that this claim owns, unless it has been lost."""
        row = self._rows.get(claim.instance_id.int)
        if row is None or row.attempt != claim.attempt:
            return None
        return row if row.state in _OWNED else None

    def unsuccessful(self, claim: Claim) -> StoredInstance | None:
        """The row that a claim once owned, if it has not ended, or has failed."""
        row = self._rows.get(claim.instance_id.int)
        if row is None or not 0 < claim.attempt <= row.attempt:
            return None
        return row if row.outcome in (None, _FAILED) else None

    def claimed_by(self, node: UUID, last: int) -> Sequence[StoredInstance]:
        """Rows that a node has claimed, with ids after this one and in their order.

        They have neither ended nor been handed on.
        """
        rows = (row for row in self._leases if row.claimed_by == node)
        found = [row for row in rows if row.id.int > last and not row.is_handed_on]
        return sorted(found, key=attrgetter("id.int"))

    def add(self, row: StoredInstance) -> None:
        """Take a new, pending row."""
        self._take(row)
        self.list_pending(row)

    def restore(
        self,
        instances: Iterable[tuple[TaskInstance, StoredDefinition]],
        *,
        handed_on: Set[UUID],
        slots: Mapping[str, UUID],
        accepted: Set[UUID],
        behind: Mapping[UUID, UUID],
    ) -> None:
        """Take instances as they were seen, each with the row of its definition."""
        names = {holder: name for name, holder in slots.items()}
        over = []
        for instance, of in instances:
            row = restored(instance, of)
            if row.id in handed_on:
                row.handed_on = row.attempt
            if row.id in names:
                self.slots.restore(names[row.id], row)
            if row.id in accepted:
                row.overlap = None
            row.behind = behind.get(row.id)
            self._take(row)
            if row.completed_at is not None:
                over.append(row)
            elif row.state is _PENDING:
                self.list_pending(row)
            else:
                self._leases.add(row)
        for row in sorted(over, key=attrgetter("completed_at")):
            self._ended.add(row)

    @property
    def orphans(self) -> Sequence[StoredInstance]:
        """Ended rows of definitions that have been deleted."""
        return [row for row in self._ended if row.of.instances is None]

    def _take(self, row: StoredInstance) -> None:
        self._rows[row.id.int] = row
        if row.of.instances is None:
            row.of.instances = {}
        row.of.instances[row.place] = row
        if row.key is not None:
            self._keyed[row.of, row.key] = row
        row.of.open += row.is_awaited
        self._by_time.add((row.execute_at, row.id.int))
        self.counts[row.state] += 1

    def remove(self, row: StoredInstance) -> None:
        """Forget a row that has not ended."""
        self._unlist(row)
        self.slots.free(row)
        row.of.open -= row.is_awaited
        self._forget(row)

    def end(self, row: StoredInstance, outcome: Outcome, now: datetime) -> None:
        """End a row for good."""
        self._unlist(row)
        self.slots.free(row)
        row.parked = False
        row.of.open -= row.is_awaited
        row.outcome = outcome
        row.completed_at = now
        self._enter(row, _STATES[outcome])
        self._ended.add(row)

    def end_again(self, row: StoredInstance, outcome: Outcome, now: datetime) -> None:
        """Let a row that has ended end in another way."""
        self._ended.remove(row)
        row.outcome = outcome
        row.completed_at = now
        self._enter(row, _STATES[outcome])
        self._ended.add(row)

    def reopen(self, row: StoredInstance, now: datetime) -> None:
        """Make a row that has ended pending again, due now, as if it were new."""
        self._ended.remove(row)
        row.begin_anew(now)
        row.of.open += row.is_awaited
        self._enter(row, _PENDING)
        self.list_pending(row)

    def free(self, row: StoredInstance, due_at: datetime) -> None:
        """Make a claimed row pending again."""
        self._unlist(row)
        self._give_back(row, due_at)

    def _give_back(self, row: StoredInstance, due_at: datetime) -> None:
        row.claimed_by = row.expires_at = row.started_at = None
        row.forget_worker()
        row.due_at = due_at
        self._enter(row, _PENDING)
        self.list_pending(row)

    def start(
        self, claims: Iterable[Claim], claimant: Claimant, now: datetime
    ) -> Sequence[StoredInstance]:
        """Start, or park, the rows that these claims own; answer these."""
        rows = [row for each in claims if (row := self.current(each))]
        for row in sorted(rows, key=in_turn):
            if row.state is _CLAIMED:
                self._start(row, claimant, now)
        return rows

    def _start(self, row: StoredInstance, claimant: Claimant, now: datetime) -> None:
        """Start a claimed row, or park it if another one has its slot."""
        self._unlist(row)
        if not self.slots.take(row):
            row.parked = True
            row.behind = self.slots.holder_id(row)
            self._give_back(row, row.due_at)
            return
        self._run(row, claimant, now)
        self._leases.add(row)

    def _run(self, row: StoredInstance, claimant: Claimant, now: datetime) -> None:
        row.start(claimant, now)
        self._enter(row, _CANCELLING if row.cancel_requested else _RUNNING)

    def ask_to_stop(self, row: StoredInstance) -> None:
        """Ask its run to stop, also one that is to come."""
        row.cancel_requested = True
        if row.state in RUNS:
            self._enter(row, _CANCELLING)

    def hold_until(self, row: StoredInstance, expires_at: datetime) -> None:
        """Let a claim hold until then."""
        self._unlist(row)
        row.expires_at = expires_at
        self._leases.add(row)

    def move(self, row: StoredInstance, queue: str, priority: int) -> None:
        """Let it wait in another place, if it has not ended."""
        if row.completed_at is not None:
            return
        # Other nodes serve it there.
        if row.state is _CLAIMED and row.queue != queue:
            self.free(row, row.due_at)
        pending = row.state is _PENDING
        if pending:
            self.unlist_pending(row)
        row.queue, row.priority = queue, priority
        if pending:
            self.list_pending(row)

    def follow(self, row: StoredInstance) -> None:
        """Let it exclude what its definition says now, unless it runs in a slot."""
        runs = row.state in RUNS and self.slots.has(row)
        if runs or row.completed_at is not None:
            return
        self.slots.free(row)
        if row.state is _PENDING:
            self.unlist_pending(row)
            row.parked = False
            row.follow()
            self.list_pending(row)
        else:
            row.follow()

    def unpark(self, row: StoredInstance) -> None:
        """Make a parked row claimable."""
        self.slots.unpark(row)
        row.parked = False
        self.list_pending(row)

    def list_pending(self, row: StoredInstance) -> None:
        """Make a pending row claimable, or park it, unless it is frozen."""
        if row.frozen:
            return
        if row.parked:
            self.slots.park(row)
        else:
            self._pending.add(row)

    def unlist_pending(self, row: StoredInstance) -> None:
        """Keep a pending row from being claimed."""
        if row.parked:
            self.slots.unpark(row)
        else:
            self._pending.discard(row)

    def claim(
        self,
        rows: Sequence[StoredInstance],
        claimant: Claimant,
        now: datetime,
        lead: datetime,
    ) -> None:
        """Mark rows as claimed; as started, if due by ``lead`` and without a slot."""
        for row in rows:
            row.claim(claimant, now)
            if row.due_at <= lead and row.slot is None:
                self._run(row, claimant, now)
            else:
                self._enter(row, _CLAIMED)
            self._leases.add(row)

    def take_lapsed(
        self, queues: Sequence[str], now: datetime, limit: int
    ) -> list[StoredInstance]:
        """Take rows whose claim has lapsed out of the leases."""
        return self._leases.take(queues, now, limit)

    def take_pending(
        self, queues: Sequence[str], until: datetime, limit: int
    ) -> list[StoredInstance]:
        """Take pending rows due by then out of their lists, the earliest first."""
        return self._pending.take(queues, until, limit)

    def due_queues(self, now: datetime) -> set[str]:
        """The queues in which something is pending that is due."""
        return self._pending.due_queues(now)

    def forget_ended(
        self, until: datetime, limit: int, *, failed: bool
    ) -> Sequence[StoredInstance]:
        """Forget rows that ended by then, oldest first: those that failed, or not."""
        forgotten = self._ended.take(until, limit, failed=failed)
        for row in forgotten:
            self._forget(row)
        return forgotten

    def walk(
        self,
        since: datetime | None,
        after: Position | None,
        descending: bool,
        limit: int,
    ) -> Iterator[StoredInstance]:
        """The first rows after a place, in the order of ``execute_at`` and id."""
        # Bounds are the beginning of an entry, which compares all the same.
        first: Any = None if since is None else (since,)
        last: Any = None
        if after is not None and descending:
            last = (after.at, after.id.int - 1)
        elif after is not None:
            begin = (after.at, after.id.int + 1)
            first = begin if first is None else max(first, begin)
        entries = self._by_time.irange(first, last, reverse=descending)
        return (self._rows[id] for _, id in islice(entries, limit))

    def _enter(self, row: StoredInstance, state: State) -> None:
        self.counts[row.state] -= 1
        self.counts[state] += 1
        row.state = state

    def _unlist(self, row: StoredInstance) -> None:
        if row.state is _PENDING:
            self.unlist_pending(row)
        else:
            self._leases.remove(row)

    def _forget(self, row: StoredInstance) -> None:
        del self._rows[row.id.int]
        self._by_time.remove((row.execute_at, row.id.int))
        self.counts[row.state] -= 1
        if row.of.instances is not None:
            row.of.instances.pop(row.place, None)
        if row.key is not None:
            del self._keyed[row.of, row.key]


_STATES = {outcome: State(outcome.value) for outcome in Outcome}


def take_back(
    row: StoredDefinition, instances: InstanceTable, now: datetime
) -> Sequence[datetime]:
    """Remove those to come, behind the last that stays; answer their fire times."""
    coming = [
        (each.fire_time, each)
        for each in row.rows
        if each.fire_time is not None and each.fire_time > now
    ]
    last = max((at for at, each in coming if not each.is_unused), default=now)
    removed = [(at, each) for at, each in coming if at > last]
    for _, each in removed:
        instances.remove(each)
    return [at for at, _ in removed]


def discard(row: StoredDefinition, instances: InstanceTable, now: datetime) -> None:
    """Remove those to come; those whose fire time has passed are skipped."""
    for each in row.rows:
        if not each.is_unused:
            continue
        assert each.fire_time is not None
        if each.fire_time > now:
            instances.remove(each)
        else:
            instances.end(each, Outcome.SKIPPED, now)
            each.claimed_by = None
            each.forget_worker()
            each.skipped = Skipped.itself(each.leave_fire_time(), EDITED)


class TombstoneTable:
    """Tombstones by id, and in the order in which their definitions ended."""

    def __init__(self) -> None:
        self._rows: dict[int, Tombstone] = {}
        self._ended: SortedList[tuple[datetime, int]] = SortedList()

    @property
    def rows(self) -> Sequence[Tombstone]:
        """All of them, in no order."""
        return tuple(self._rows.values())

    def get(self, definition_id: UUID) -> Tombstone | None:
        """The tombstone of an id."""
        return self._rows.get(definition_id.int)

    def add(self, tombstone: Tombstone) -> None:
        """Remember an id."""
        self._rows[tombstone.id.int] = tombstone
        self._ended.add((tombstone.completed_at, tombstone.id.int))

    def forget(self, definition_id: UUID) -> None:
        """Forget an id, if it is remembered."""
        if remembered := self._rows.pop(definition_id.int, None):
            self._ended.remove((remembered.completed_at, definition_id.int))

    def forget_ended(self, until: datetime, limit: int) -> None:
        """Forget ids that ended by then, oldest first."""
        for completed_at, key in tuple(islice(self._ended, limit)):
            if completed_at <= until:
                self.forget(UUID(int=key))

    def forget_most(self, most: int, limit: int) -> int:
        """Forget of more than so many ids those that ended first; say how many."""
        too_many = max(0, len(self._ended) - most)
        oldest = tuple(islice(self._ended, min(too_many, limit)))
        for _, key in oldest:
            self.forget(UUID(int=key))
        return len(oldest)


_as_read = attrgetter("next_fire_time", "revision")


class DefinitionTable:
    """The rows by id, those with a ``next_fire_time`` in its order, and the idle ones.

    Args:
        instances: Where instances are created and removed.
        tombstones: Where ids are remembered.
        new_id: Makes the ids of instances.
    """

    def __init__(
        self,
        instances: InstanceTable,
        tombstones: TombstoneTable,
        new_id: Callable[[], UUID],
    ) -> None:
        self._instances = instances
        self._tombstones = tombstones
        self._new_id = new_id
        # A new definition's revision: higher than any that a deleted one had.
        self._first = 1
        self._rows: SortedDict[int, StoredDefinition] = SortedDict()
        self._due: SortedList[Entry] = SortedList()
        self._idle: SortedList[Entry] = SortedList()

    def get(self, definition_id: UUID) -> StoredDefinition | None:
        """The row of this id."""
        return self._rows.get(definition_id.int)

    @property
    def rows(self) -> Sequence[StoredDefinition]:
        """All rows, in the order of their ids."""
        return tuple(self._rows.values())

    @property
    def first_revision(self) -> int:
        """The revision of a new definition."""
        return self._first

    def restore(self, rows: Iterable[StoredDefinition], first_revision: int) -> None:
        """Take rows as they are, with their instances."""
        for row in rows:
            self._rows[row.definition.id.int] = row
            self._list(row)
        self._first = first_revision

    def find(self, ids: Collection[UUID]) -> Sequence[StoredDefinition]:
        """The rows of those of these ids that exist, in no order."""
        keys = {id.int for id in ids}
        return [self._rows[key] for key in keys if key in self._rows]

    def walk(
        self, keys: Sequence[int] | None, last: int, limit: int
    ) -> Sequence[TaskDefinition]:
        """Definitions in the order of their ids.

        Args:
            keys: Only these ids, as sorted numbers; None: all.
            last: Only ids after this one.
            limit: The most to return.
        """
        found: Iterable[int]
        if keys is None:
            found = self._rows.irange(last, inclusive=(False, True))
        else:
            found = (key for key in keys if key > last and key in self._rows)
        return [self._rows[key].definition for key in islice(found, limit)]

    def due(
        self, until: datetime, after: TaskDefinition | None, limit: int
    ) -> Sequence[TaskDefinition]:
        """Definitions due by then, in the order of their next fire time and id."""
        found: Iterable[Entry]
        if after is None or after.next_fire_time is None:
            found = self._due.islice()
        else:
            last = (after.next_fire_time, after.id.int + 1)
            found = self._due.irange(last)
        return [
            self._rows[id].definition
            for _, id in takewhile(
                lambda entry: entry[0] <= until, islice(found, limit)
            )
        ]

    def plan_put(self, new: TaskDefinition) -> PutPlan:
        """Plan the put of a definition; changes nothing.

        Raises:
            ConflictError: The revision that is set is not the stored one.
        """
        row = self._rows.get(new.id.int)
        if row is not None:
            check_revision(new, row.definition)
            return PutPlan(
                new,
                row,
                equal=new.is_same(row.definition),
                goes_on=goes_on(row.definition, new),
            )
        remembered = self._tombstones.get(new.id) if new.named else None
        check_revision(new, remembered)
        over = remembered if is_over(new, remembered) else None
        return PutPlan(new, None, over=over)

    def put(
        self, plan: PutPlan, now: datetime, *, owner: str | None = None
    ) -> TaskDefinition:
        """Insert or replace a definition as planned; an owner declares it."""
        new, row = plan.definition, plan.row
        if row is None:
            if plan.over is not None:
                return ended_before(new, plan.over)
            if new.named:
                self._tombstones.forget(new.id)
            stored = created(new, now, revision=self._first, owner=owner)
            row = StoredDefinition(stored)
            self._rows[new.id.int] = row
            self._list(row)
        elif plan.equal:
            row.definition = kept(row.definition, new, owner=owner)
        elif plan.goes_on:
            if new.jitter != row.definition.jitter:
                self._take_back(row, now)
            self._replace(row, edited(row.definition, new, owner=owner))
        else:
            discard(row, self._instances, now)
            if (skipped := unfired(row.definition, now)) is not None:
                self._skip(row, skipped, now)
            self._replace(row, rescheduled(row.definition, new, now, owner=owner))
        return row.definition

    def _replace(self, row: StoredDefinition, new: TaskDefinition) -> None:
        old = row.definition
        self._unlist(row)
        row.definition = new
        self._list(row)
        self._follow(row, old)

    def _follow(self, row: StoredDefinition, old: TaskDefinition) -> None:
        """Give its instances what they have of their definition."""
        new = row.definition
        if (new.queue, new.priority) != (old.queue, old.priority):
            for instance in row.rows:
                self._instances.move(instance, new.queue, new.priority)
        if exclusion_of(new) != exclusion_of(old):
            for instance in row.rows:
                self._instances.follow(instance)

    def pause(self, row: StoredDefinition, note: str | None, now: datetime) -> None:
        """Pause a definition; one that is paused already only takes the note."""
        if row.definition.paused:
            row.definition = changed(row.definition, note=note)
            return
        self._take_back(row, now)
        for instance in row.rows:
            if instance.state is State.CLAIMED:
                self._instances.free(instance, instance.due_at)
            if instance.is_unused:
                self._instances.slots.free(instance)
        self.change(
            row,
            paused=True,
            note=note,
            paused_at=now,
            revision=next_revision(row.definition),
        )
        for instance in row.rows:
            if instance.state is State.PENDING:
                self._instances.unlist_pending(instance)

    def _take_back(self, row: StoredDefinition, now: datetime) -> None:
        """Let a definition fire anew what is to come and has not begun."""
        if removed := take_back(row, self._instances, now):
            times = filter(None, [*removed, row.definition.next_fire_time])
            self.change(row, next_fire_time=min(times), completed_at=None)

    def resume(self, row: StoredDefinition, now: datetime) -> None:
        """End a definition's pause, if it is paused."""
        if not row.definition.paused:
            return
        self._unlist(row)
        row.definition = resumed(row.definition, now)
        self._list(row)
        for instance in row.rows:
            if instance.state is State.PENDING:
                self._instances.list_pending(instance)
            elif instance.state in RUNS:
                assert instance.expires_at is not None
                self._instances.hold_until(instance, max(instance.expires_at, now))

    def delete(self, row: StoredDefinition, now: datetime) -> Set[UUID]:
        """Delete a definition and what has not started of it; cancel what runs.

        Returns:
            The ids of the instances that ran.
        """
        ran = set()
        for instance in row.rows:
            if instance.state in RUNS:
                self._instances.end(instance, Outcome.CANCELLED, now)
                ran.add(instance.id)
            elif instance.completed_at is None:
                self._instances.remove(instance)
        row.instances = None
        self._remove(row)
        return ran

    def idle_since(self, until: datetime, limit: int) -> Sequence[StoredDefinition]:
        """Rows completed by then that have no instance, first completed first."""
        return [
            self._rows[id]
            for completed_at, id in islice(self._idle, limit)
            if completed_at <= until
        ]

    def fire(self, firing: Firing, now: datetime) -> Sequence[StoredInstance] | None:
        """Create the instances of a firing; None: its definition is not as read."""
        read = firing.definition
        row = self._rows.get(read.id.int)
        if row is None or row.definition.paused:
            return None
        stored = row.definition
        if _as_read(stored) != _as_read(read):
            return None
        if stored.trigger.waits and row.open:
            return None
        self._unlist(row)
        if firing.skipped is not None:
            self._skip(row, firing.skipped, now)
        made = []
        for fire_time, at in firing.instances():
            if row.instances is None or fire_time not in row.instances:
                instance = StoredInstance(
                    self._new_id(), row, at, fire_time=fire_time, created_at=now
                )
                self._instances.add(instance)
                made.append(instance)
        row.definition = fired(stored, firing.next_fire_time, now)
        self._list(row)
        return made

    def _skip(self, row: StoredDefinition, skipped: Skipped, now: datetime) -> None:
        instance = StoredInstance(
            self._new_id(), row, skipped.first, fire_time=None, created_at=now
        )
        instance.skipped = skipped
        self._instances.add(instance)
        self._instances.end(instance, Outcome.SKIPPED, now)

    def go_on(
        self, ended: StoredInstance, next_fire_time: datetime | None, now: datetime
    ) -> None:
        """Move a definition on that waited for the end of this instance."""
        row = ended.of
        definition = row.definition
        if (
            definition.next_fire_time is None
            and definition.completed_at is None
            and definition.trigger.waits
            and ended.is_fired
        ):
            self._unlist(row)
            completed_at = now if next_fire_time is None else None
            row.definition = changed(
                definition, next_fire_time=next_fire_time, completed_at=completed_at
            )
            self._list(row)

    def change(self, row: StoredDefinition, **changes: object) -> None:
        """Change fields of a definition."""
        self._unlist(row)
        row.definition = changed(row.definition, **changes)
        self._list(row)

    def _list(self, row: StoredDefinition) -> None:
        definition = row.definition
        if definition.next_fire_time is not None and not definition.paused:
            self._due.add((definition.next_fire_time, definition.id.int))
        self.note_idle(row)

    def _unlist(self, row: StoredDefinition) -> None:
        definition = row.definition
        if definition.next_fire_time is not None:
            self._due.discard((definition.next_fire_time, definition.id.int))
        self.note_busy(row)

    def note_idle(self, row: StoredDefinition) -> None:
        """Offer a completed definition without instances to ``idle_since``."""
        definition = row.definition
        if definition.completed_at is not None and not row.instances:
            self._idle.add((definition.completed_at, definition.id.int))

    def note_busy(self, row: StoredDefinition) -> None:
        """Take back that offer, if it was made."""
        if (completed_at := row.definition.completed_at) is not None:
            self._idle.discard((completed_at, row.definition.id.int))

    def bury(self, row: StoredDefinition) -> None:
        """Delete the row of a definition that has ended; remember its id if given."""
        definition = row.definition
        assert definition.completed_at is not None
        assert definition.revision is not None
        self._remove(row)
        if definition.named:
            self._tombstones.add(
                Tombstone(
                    id=definition.id,
                    trigger=definition.trigger,
                    revision=definition.revision,
                    completed_at=definition.completed_at,
                )
            )

    def _remove(self, row: StoredDefinition) -> None:
        self._first = max(self._first, next_revision(row.definition))
        self._unlist(row)
        del self._rows[row.definition.id.int]


class ContactTable:
    """The last contact of each node."""

    def __init__(self) -> None:
        self._rows: dict[UUID, NodeContact] = {}

    @property
    def rows(self) -> Sequence[NodeContact]:
        """All of them, in no order."""
        return tuple(self._rows.values())

    def note(self, contact: NodeContact) -> None:
        """Keep a contact, in the place of what was known of its node."""
        self._rows[contact.announced.node] = contact

    def since(self, at: datetime) -> Sequence[NodeContact]:
        """Those of nodes that were seen no earlier than this."""
        return [each for each in self._rows.values() if each.until >= at]

    def forget(self, until: datetime) -> None:
        """Forget nodes that were last seen before this."""
        self._rows = {each.announced.node: each for each in self.since(until)}


class StatsKey(NamedTuple):
    """Which counts: those of one node, of a queue, in a minute."""

    at: datetime
    queue: str
    node: UUID


class StatsTable:
    """The counts of each minute, queue and node.

    Attributes:
        rows: All of them.
    """

    def __init__(self, rows: Mapping[StatsKey, QueueStats] | None = None) -> None:
        self.rows: dict[StatsKey, QueueStats] = dict(rows or {})

    def note(self, node: UUID, noted: Sequence[QueueStats]) -> None:
        """Keep counts, in the place of what was kept of the same."""
        for each in noted:
            self.rows[StatsKey(each.at, each.queue, node)] = each

    def within(self, since: datetime, until: datetime) -> Sequence[QueueStats]:
        """Those that begin within these bounds, in order."""
        found = sorted(key for key in self.rows if since <= key.at < until)
        return [self.rows[key] for key in found]

    def forget(self, now: datetime) -> None:
        """Forget what began long ago."""
        self.rows = {
            key: each for key, each in self.rows.items() if now - key.at <= STATS_KEPT
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that a ``MemoryStore`` keeps at one moment.

    Attributes:
        definitions: The definitions.
        instances: Their instances.
        orphans: What has ended of definitions that have been deleted.
        runs: What is kept of their runs, earliest attempt first.
        handed_on: The ids of those instances whose run is handed on.
        slots: Which instances have which slot: their ids by its name.
        accepted: The ids of those that may wait for a slot, whatever the ``overlap``.
        behind: Which instance had the slot of a parked one when it was parked.
        contacts: When nodes were in contact with the store, one for each.
        stats: What they have counted, by minute, queue and node.
        tombstones: What is remembered of definitions that have ended and are gone.
        sets: The last declaration of each owner of a set.
        settings: What is agreed on, by its name.
        first_revision: The revision of the next new definition.
    """

    definitions: Sequence[TaskDefinition] = ()
    instances: Sequence[TaskInstance] = ()
    orphans: Sequence[TaskInstance] = ()
    runs: Sequence[TaskRun] = ()
    handed_on: Sequence[UUID] = ()
    slots: Mapping[str, UUID] = field(default_factory=dict)
    accepted: Sequence[UUID] = ()
    behind: Mapping[UUID, UUID] = field(default_factory=dict)
    contacts: Sequence[NodeContact] = ()
    stats: Mapping[StatsKey, QueueStats] = field(default_factory=dict)
    tombstones: Sequence[Tombstone] = ()
    sets: Sequence[SetVersion] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    first_revision: int = 1


class Tables:
    """The tables of one store; all of them are used under its lock.

    Args:
        new_id: Makes the ids of what definitions fire.

    Attributes:
        definitions: Definitions.
        instances: Their instances.
        tombstones: What is remembered of definitions that have ended and are gone.
        contacts: When nodes were in contact.
        stats: What they have counted.
        sets: The last declaration of each owner of a set.
        settings: What is agreed on, by its name.
    """

    def __init__(self, new_id: Callable[[], UUID] = uuid4) -> None:
        self.instances = InstanceTable()
        self.tombstones = TombstoneTable()
        self.definitions = DefinitionTable(self.instances, self.tombstones, new_id)
        self.contacts = ContactTable()
        self.stats = StatsTable()
        self.sets: dict[str, SetVersion] = {}
        self.settings: dict[str, str] = {}

    def delete_finished(self, retention: Retention, now: datetime, limit: int) -> int:
        """Delete what ended long ago, as ``Store.delete_finished``."""
        self.contacts.forget(now - CONTACTS_KEPT)
        self.stats.forget(now)
        until = now - retention.ended
        over = list(self.instances.forget_ended(until, limit, failed=False))
        left, failed_until = limit - len(over), now - retention.failed
        over += self.instances.forget_ended(failed_until, left, failed=True)
        for row in {instance.of for instance in over}:
            if self.definitions.get(row.definition.id) is row:
                self.definitions.note_idle(row)
        idle = self.definitions.idle_since(until, limit - len(over))
        for row in idle:
            self.definitions.bury(row)
        self.tombstones.forget_ended(now - retention.remembered, limit)
        return len(over) + len(idle)

    def snapshot(self) -> Snapshot:
        """All that they hold."""
        rows = self.definitions.rows
        instances = [each for row in rows for each in row.rows]
        orphans = self.instances.orphans
        return Snapshot(
            definitions=[row.definition for row in rows],
            instances=[each.view() for each in instances],
            orphans=[each.view() for each in orphans],
            runs=[run for each in (*instances, *orphans) for run in each.past],
            handed_on=[each.id for each in instances if each.is_handed_on],
            slots=self.instances.slots.holders,
            accepted=[each.id for each in instances if each.is_accepted],
            behind={
                each.id: each.behind
                for each in instances
                if each.parked and each.behind is not None
            },
            contacts=self.contacts.rows,
            stats=dict(self.stats.rows),
            tombstones=self.tombstones.rows,
            sets=tuple(self.sets.values()),
            settings=dict(self.settings),
            first_revision=self.definitions.first_revision,
        )

    @classmethod
    def restored(cls, snapshot: Snapshot) -> Tables:
        """Tables that hold what a snapshot does."""
        tables = cls()
        rows = {each.id: StoredDefinition(each) for each in snapshot.definitions}
        gone = [(each, StoredDefinition(each.definition)) for each in snapshot.orphans]
        kept = [(each, rows[each.definition.id]) for each in snapshot.instances]
        tables.instances.restore(
            kept + gone,
            handed_on=set(snapshot.handed_on),
            slots=snapshot.slots,
            accepted=set(snapshot.accepted),
            behind=snapshot.behind,
        )
        for run in snapshot.runs:
            row = tables.instances.get(run.instance_id)
            assert row is not None
            row.past = (*row.past, run)
        for _, deleted in gone:
            deleted.instances = None
        tables.definitions.restore(rows.values(), snapshot.first_revision)
        for tombstone in snapshot.tombstones:
            tables.tombstones.add(tombstone)
        for contact in snapshot.contacts:
            tables.contacts.note(contact)
        tables.stats = StatsTable(snapshot.stats)
        tables.sets = {each.owner: each for each in snapshot.sets}
        tables.settings = dict(snapshot.settings)
        return tables
