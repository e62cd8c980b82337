"""The outbox: what became of runs, on its way to the store, many in one write."""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from go_scheduler.clock import ZERO
from go_scheduler.running.freed import Freed
from go_scheduler.stores.messages import Release, Renewal, RunOutcome
from go_scheduler.ticking.aside import Aside
from go_scheduler.ticking.batches import write_in_halves

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from uuid import UUID

    from go_scheduler.clock import StoreClock
    from go_scheduler.running.entry import Entry
    from go_scheduler.running.held_run import HeldRun
    from go_scheduler.running.reports import Reports
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Answer

_GAP = timedelta(milliseconds=3)
_BATCH = 500
_MOST_ASIDE = 1000

Record = TypeVar("Record", RunOutcome, Release, Renewal)


class Outbox:
    """Writes at once after a pause, else what has gathered, every few milliseconds.

    What the store does not take is kept and written again: all of it if the store is
    away; what is locked or fails alone is left aside and costs only itself.

    Args:
        store: Where to write.
        clock: The store's time, as this node has it.
        written: Called after a write that made room.
        slot_freed: Called after one that may have let go of a slot.
        reports: Told what the store has answered.
    """

    def __init__(
        self,
        store: Store,
        clock: StoreClock,
        *,
        written: Callable[[], None],
        slot_freed: Callable[[], None] = lambda: None,
        reports: Reports,
    ) -> None:
        self._store = store
        self._clock = clock
        self._written = written
        self._slot_freed = slot_freed
        self._reports = reports
        # All of them: pending, being written, or aside.
        self._entries: dict[Entry, None] = {}
        self._pending: deque[Entry] = deque()
        self._aside: Aside[Entry] = Aside()
        self._announced = False
        self._last: timedelta | None = None
        self._freed = Freed()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def backlog(self) -> int:
        """How many keep the node from claiming more: of those aside a thousand do not.

        A few locked rows must not cost it workers, and endless ones not its memory.
        """
        return len(self._entries) - min(len(self._aside), _MOST_ASIDE)

    def runs(self) -> Sequence[HeldRun]:
        """Those of which the store has not taken what it should record."""
        return [entry.run for entry in self._entries.copy()]

    def written_since(self, elapsed: timedelta) -> int:
        """How many called runs were recorded since then; older ones are forgotten."""
        return self._freed.since(elapsed)

    def put(self, entry: Entry) -> bool:
        """Take this for one of the next ticks; true if it is the first for it."""
        self._entries[entry] = None
        self._pending.append(entry)
        # In this order, and reset before the pending are taken: no entry waits
        # unannounced.
        is_first, self._announced = not self._announced, True
        return is_first

    def tick(self) -> timedelta | None:
        """Write what has gathered, unless the last write was a moment ago."""
        elapsed = self._clock.elapsed()
        self._announced = False
        if self._last is None or elapsed >= self._last + _GAP:
            self._reports.begin()
            self._write_pending()
            # Apart from what is new, which is not to suffer from it.
            self._write_all(self._aside.take_busy(elapsed, _BATCH))
            self._write_all(self._aside.take_failed(elapsed, _BATCH))
        return self._next(self._clock.elapsed())

    def _next(self, elapsed: timedelta) -> timedelta | None:
        gap = ZERO if self._last is None else max(ZERO, self._last + _GAP - elapsed)
        if self._pending:
            return gap
        left = self._aside.next(elapsed)
        return None if left is None else max(gap, left)

    def _write_pending(self) -> None:
        size = min(len(self._pending), _BATCH)
        self._write_all([self._pending.popleft() for _ in range(size)])

    def _write_all(self, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        try:
            for batch in _each_instance_once(entries):
                self._write(batch)
        except BaseException:
            unwritten = [entry for entry in entries if entry in self._entries]
            for entry in unwritten:
                # A record that was taken before the failure is no longer taken the next
                # time.
                entry.unsure = True
                self._aside.forget(entry)
            self._pending.extendleft(reversed(unwritten))
            raise
        self._last = self._clock.elapsed()
        self._freed.note(self._last)
        self._written()

    def _write(self, batch: Sequence[Entry]) -> None:
        outcomes = [entry for entry in batch if isinstance(entry.record, RunOutcome)]
        releases = [entry for entry in batch if isinstance(entry.record, Release)]
        handed_on = [entry for entry in batch if isinstance(entry.record, Renewal)]
        self._send(
            [entry for entry in outcomes if not entry.joined],
            self._store.finish_instances,
        )
        self._send(releases, self._store.release_instances)
        self._send(handed_on, self._store.renew_claims)
        # Last: the others do not wait for a transaction that may still lock these.
        self._send(
            [entry for entry in outcomes if entry.joined], self._store.finish_instances
        )

    def _send(
        self,
        entries: Sequence[Entry],
        write: Callable[[Sequence[Record]], Answer[Collection[UUID]]],
    ) -> None:
        failed: dict[UUID, Exception] = {}

        def fail(record: Record, error: Exception) -> None:
            failed[record.claim.instance_id] = error

        records: Sequence[Record] = [entry.record for entry in entries]  # type: ignore[misc]
        answers = write_in_halves(records, write, fail)
        if len(answers) == 1 and len(answers[0].done) == len(entries):
            # Nearly always: the hashes of the ids would cost more than the rest.
            for entry in entries:
                self._take_out(entry, recorded=True)
            return
        done = {each for answer in answers for each in answer.done}
        busy = {each for answer in answers for each in answer.busy}
        for entry in entries:
            instance_id = entry.run.instance.id
            if instance_id in busy:
                self._leave_busy(entry)
            elif instance_id in failed:
                self._leave_failed(entry, failed[instance_id])
            else:
                self._take_out(entry, recorded=instance_id in done)

    def _leave_busy(self, entry: Entry) -> None:
        if self._aside.leave_busy(entry, self._clock.elapsed()):
            self._reports.locked(entry)

    def _leave_failed(self, entry: Entry, error: Exception) -> None:
        delay = self._aside.leave_failed(entry, self._clock.elapsed())
        self._reports.failed(entry, error, retry_in=delay)

    def _take_out(self, entry: Entry, *, recorded: bool) -> None:
        if entry.frees_slot:
            self._slot_freed()
        record = entry.record
        if isinstance(record, RunOutcome):
            # A run that was given back, or hangs, has freed no worker.
            self._freed.count += record.started_at is not None and not record.hung
            if recorded:
                self._reports.recorded(entry, record)
            else:
                self._reports.not_taken(entry, record)
        elif isinstance(record, Renewal):
            self._freed.count += 1
            # It may have been ended already by whoever has it now.
            if recorded:
                self._reports.handed_on(entry)
        self._aside.forget(entry)
        # Last: until then the claim is renewed, and a stop waits.
        del self._entries[entry]


def _each_instance_once(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Split what two runs of one instance have left, in its order."""
    ids = {entry.run.claim.instance_id.int for entry in entries}
    if len(ids) == len(entries):
        yield entries
        return
    batch: dict[int, Entry] = {}
    for entry in entries:
        instance_id = entry.run.claim.instance_id.int
        if instance_id in batch:
            yield list(batch.values())
            batch = {}
        batch[instance_id] = entry
    yield list(batch.values())
