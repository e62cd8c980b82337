"""The rows of a ``MemoryStore``, and the lists that find what is due."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import contextmanager
from datetime import UTC, datetime
from heapq import nsmallest
from itertools import chain, islice, takewhile
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

from sortedcontainers import SortedDict, SortedList

from go_scheduler.models import Outcome, TaskDefinition
from go_scheduler.models.values import changed
from go_scheduler.stores.memory.rows import StoredInstance, in_turn, when_due
from go_scheduler.stores.messages import Tombstone
from go_scheduler.stores.rules import Turns, next_revision

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from go_scheduler.models import QueueStats
    from go_scheduler.stores.memory.rows import StoredDefinition
    from go_scheduler.stores.messages import Claim, NodeContact, Position
    from go_scheduler.stores.rules import SetVersion

Entry = tuple[datetime, int]
"""A row in a sorted list: what it is sorted by, a time and its id.

Not the row itself: the garbage collector need not walk what holds neither.
"""

_LAST_ID = 1 << 128
_NEVER = datetime.max.replace(tzinfo=UTC)
_FAILED = Outcome.FAILED
_expires_at = attrgetter("expires_at")
_completed_at = attrgetter("completed_at")


class Leases:
    """Claimed rows by their ids, and a time before which none of them lapses.

    Nearly all are let go of long before they would lapse, so they are in no order: they
    are gone through only when that time has come.
    """

    def __init__(self) -> None:
        self.rows: dict[int, StoredInstance] = {}
        self._first = _NEVER

    def add(self, row: StoredInstance) -> None:
        """Take a claimed row."""
        assert row.expires_at is not None
        self.rows[row.id.int] = row
        if row.expires_at < self._first:
            self._first = row.expires_at

    def take(
        self, queues: Sequence[str], until: datetime, limit: int
    ) -> list[StoredInstance]:
        """Take out rows that have lapsed by then, the first to lapse first."""
        if until < self._first:
            return []
        lapsed = []
        for row in self.rows.values():
            frozen = row.of.definition.paused
            if _expires_at(row) <= until and row.queue in queues and not frozen:
                lapsed.append(row)
        taken = nsmallest(limit, lapsed, key=attrgetter("expires_at", "id.int"))
        for row in taken:
            del self.rows[row.id.int]
        self._first = min(map(_expires_at, self.rows.values()), default=_NEVER)
        return taken


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
        definitions: By the numbers of their ids.
        instances: By the numbers of their ids.
        keyed: Instances that have a key, by their definition and their key.
        pending: What nodes may claim.
        leases: What nodes have claimed or run.
        slots: Which instances have slots, and what is parked.
        ended: Failed instances (true) and all others that ended (false), in the order
            in which they ended.
        tombstones: What is remembered of definitions that have ended and are gone.
        first_revision: The revision of a new definition: higher than any that a deleted
            one had.
        contacts: The last contact of each node.
        stats: What nodes have counted.
        sets: The last declaration of each owner of a set.
        settings: What is agreed on, by its name.
    """

    def __init__(self, new_id: Callable[[], UUID] = uuid4) -> None:
        self.new_id = new_id
        self.definitions: SortedDict[int, StoredDefinition] = SortedDict()
        self._due: SortedList[Entry] = SortedList()
        self._idle: dict[int, StoredDefinition] = {}
        self.instances: dict[int, StoredInstance] = {}
        self.keyed: dict[tuple[StoredDefinition, str], StoredInstance] = {}
        self._by_time: SortedList[Entry] = SortedList()
        self.pending = Pending()
        self.leases = Leases()
        self.slots = Slots()
        # A dict would walk over rows that have been taken from its beginning.
        self.ended: dict[bool, OrderedDict[int, StoredInstance]] = {
            True: OrderedDict(),
            False: OrderedDict(),
        }
        self.tombstones: dict[int, Tombstone] = {}
        self._ended_ids: SortedList[Entry] = SortedList()
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
        empty = (of for of in self._idle.values() if not of.instances)
        found = (of for of in empty if _completed_at(of.definition) <= until)
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
        self._note_idle(of)

    def _unlist_definition(self, of: StoredDefinition) -> None:
        old = of.definition
        if old.next_fire_time is not None and not old.paused:
            self._due.remove((old.next_fire_time, old.id.int))
        self._idle.pop(old.id.int, None)

    def _note_idle(self, of: StoredDefinition) -> None:
        """Let cleanup find a definition that is completed and has no instance."""
        old = of.definition
        if old.completed_at is not None and not of.instances and not of.deleted:
            self._idle[old.id.int] = of

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
            self.leases.add(row)
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
            del self.leases.rows[row.id.int]
        elif row.of.definition.paused:
            return  # What is frozen is in no list.
        elif row.parked:
            self.slots.unpark(row)
        else:
            self.pending.remove(row)

    def add(self, row: StoredInstance) -> None:
        """Take a new instance."""
        self.add_apart(row)
        self.enter(row)

    def add_apart(self, row: StoredInstance) -> None:
        """Take a new instance, but put it into no list yet."""
        self.instances[row.id.int] = row
        row.of.instances[row.place] = row
        row.of.open += row.is_awaited
        if row.key is not None:
            self.keyed[row.of, row.key] = row
        self._by_time.add((row.execute_at, row.id.int))

    def end(self, row: StoredInstance, outcome: Outcome, now: datetime) -> None:
        """End an instance; or let it end in another way."""
        self.leave(row)
        self.slots.free(row)
        row.of.open -= row.is_awaited
        row.parked = False
        row.outcome, row.completed_at = outcome, now
        self.enter(row)

    def reopen(self, row: StoredInstance, now: datetime) -> None:
        """Make an instance that has ended pending again, as if it were new."""
        self.leave(row)
        row.reopen(now)
        row.of.open += row.is_awaited
        self.enter(row)

    def remove(self, row: StoredInstance) -> None:
        """Forget an instance."""
        self.leave(row)
        self.slots.free(row)
        row.of.open -= row.is_awaited
        del self.instances[row.id.int]
        row.of.instances.pop(row.place, None)
        self._note_idle(row.of)
        if row.key is not None:
            del self.keyed[row.of, row.key]
        self._by_time.remove((row.execute_at, row.id.int))

    def current(self, claim: Claim) -> StoredInstance | None:
        """The instance that this claim owns, unless it has been lost."""
        row = self.instances.get(claim.instance_id.int)
        if row is None or row.attempt != claim.attempt:
            return None
        return row if row.claimed_by is not None and row.completed_at is None else None

    def take_pending(
        self, queues: Sequence[str], until: datetime, limit: int
    ) -> Sequence[StoredInstance]:
        """Take instances due by then out of their lists, the earliest first."""
        return [self.instances[id] for _, id in self.pending.take(queues, until, limit)]

    def remove_ended(
        self, until: datetime, limit: int, now: datetime, *, failed: bool
    ) -> int:
        """Forget what ended by then, oldest first: what failed, or all others."""
        rows = self.ended[failed].values()
        ended = takewhile(lambda row: _completed_at(row) <= until, rows)
        old = [*islice((row for row in ended if not row.is_to_come(now)), limit)]
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
            self.remember(
                Tombstone(
                    id=old.id,
                    trigger=old.trigger,
                    revision=old.revision,
                    completed_at=old.completed_at,
                )
            )

    def remember(self, tombstone: Tombstone) -> None:
        """Keep a tombstone, in place of an earlier one of its id."""
        id = tombstone.id.int
        self.forget(id)
        self.tombstones[id] = tombstone
        self._ended_ids.add((tombstone.completed_at, id))

    def forget(self, id: int) -> None:
        """Keep no tombstone of an id."""
        old = self.tombstones.pop(id, None)
        if old is not None:
            self._ended_ids.remove((old.completed_at, id))

    def forget_tombstones(self, until: datetime, most: int, limit: int) -> int:
        """Forget ids that ended by then, and the oldest if there are more than so many.

        Returns:
            How many were forgotten as there were too many.
        """
        old = self._ended_ids.bisect_right((until, _LAST_ID))
        for _, id in self._ended_ids[: min(limit, old)]:
            self.forget(id)
        excess = max(0, min(limit, len(self._ended_ids) - most))
        for _, id in self._ended_ids[:excess]:
            self.forget(id)
        return excess

    def walk(
        self,
        since: datetime | None,
        after: Position | None,
        descending: bool,
    ) -> Iterator[StoredInstance]:
        """The instances after a place, in the order of ``execute_at`` and id."""
        # Bounds are the beginning of an entry, which compares all the same.
        first: Any = None if since is None else (since,)
        last: Any = None
        if after is not None and descending:
            last = (after.at, after.id.int - 1)
        elif after is not None:
            begin = (after.at, after.id.int + 1)
            first = begin if first is None else max(first, begin)
        entries = self._by_time.irange(first, last, reverse=descending)
        return (self.instances[id] for _, id in entries)
