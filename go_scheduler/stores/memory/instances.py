"""The instances of a ``MemoryStore``, and the sorted lists that find what is due."""

from __future__ import annotations

from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from sortedcontainers import SortedList

from go_scheduler.models import RUNS, Outcome, State
from go_scheduler.stores.memory.ended import EndedInstances
from go_scheduler.stores.memory.leases import Leases
from go_scheduler.stores.memory.pending import PendingRows
from go_scheduler.stores.memory.restoring import restored
from go_scheduler.stores.memory.slots import SlotTable, in_turn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.memory.span import Entry, Span
    from go_scheduler.stores.memory.stored import StoredDefinition, StoredInstance
    from go_scheduler.stores.messages import Claim, Claimant

# Python 3.11 takes longer to look up a member of an enum than to call a function.
_PENDING, _CLAIMED, _RUNNING = State.PENDING, State.CLAIMED, State.RUNNING
_CANCELLING = State.CANCELLING
_FAILED = Outcome.FAILED
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

    def walk(self, span: Span, limit: int) -> Iterator[StoredInstance]:
        """The rows of a span, ``limit`` at most."""
        return (self._rows[id] for _, id in islice(span.walk(self._by_time), limit))

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
