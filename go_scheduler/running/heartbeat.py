"""The heartbeat: renews claims of what runs, and has ended what takes too long."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.events import (
    InstanceLost,
    RunHung,
    RunTimedOut,
    Write,
)
from go_scheduler.events.event import of_instance
from go_scheduler.running.defaults import GRACE
from go_scheduler.running.state import NodeState, Part
from go_scheduler.stores.messages import Renewal
from go_scheduler.ticking.retry_later import RunsAside, write_each

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from go_scheduler.running.calling.waiters import Waiters
    from go_scheduler.running.calling.workers import Workers
    from go_scheduler.running.held import HeldRun
    from go_scheduler.running.result_writer import ResultWriter

_RENEWED_AT_ONCE = 1000
# Past the time when a run is presumed hung: until then nobody else takes it over.
_SLACK = timedelta(seconds=2)
_LONGEST_BACKOFF = timedelta(seconds=5)


class Heartbeat(Part):
    """Keeps the claims of runs: due, called, and ended but not recorded.

    It ends runs whose timeout has passed, and gives up those that hang.

    Args:
        state: What the node's parts share.
        writer: Knows what is not recorded yet, and takes what is given up.
        workers: Told to end a run, and to go on without one that hangs.

    Attributes:
        ticker: Lets it tick.
    """

    def __init__(
        self, state: NodeState, writer: ResultWriter, workers: Workers | Waiters
    ) -> None:
        super().__init__(state)
        self._writer = writer
        self._workers = workers
        third = self._lease / 3
        self.ticker = state.ticker(
            "heartbeat",
            self.tick,
            third,
            # After an outage it must have renewed before the lease is over.
            longest_backoff=min(third / 2, _LONGEST_BACKOFF),
        )
        state.beat_wanted.connect(self.ticker.wake)
        self._renewed: timedelta | None = None
        self._aside: RunsAside[HeldRun] = RunsAside(
            state.clock, self._events, Write.RENEWAL
        )

    def tick(self) -> timedelta | None:
        """End what takes too long, renew, and answer how soon that is for the next."""
        self._events.begin()
        elapsed = self._clock.elapsed()
        # Before they are looked at: what is called from now on has to wake this again.
        self._state.next_beat = elapsed + self._lease / 3
        self._workers.give_back_left()
        running = [run for run in self._held.running() if not run.settled]
        # After those that run: what ends meanwhile is in the one or the other.
        ended = self._writer.unrecorded_runs()
        for run in running:
            self._end_if_over(run, elapsed)
        kept = [run for run in running if not (run.settled or run.lost)]
        # One that has joined its handler's transaction may be locked by that.
        needed = [*kept, *self._held.due(), *ended]
        self._renew([run for run in needed if not run.joined], elapsed)
        # The store may have taken long to answer.
        elapsed = self._clock.elapsed()
        left = [run.until_over(elapsed) for run in kept]
        if (again := self._aside.next(elapsed)) is not None:
            left.append(again)
        delay = max(ZERO, min([self._state.next_beat - elapsed, *left]))
        self._state.next_beat = elapsed + delay
        return delay

    def _renew(self, runs: Sequence[HeldRun], elapsed: timedelta) -> None:
        """Renew what lapses soon, and what was left aside long enough."""
        # Ticks between are for what was left aside; the others may come a fifth early.
        every = self._renewed is None or elapsed >= self._renewed + self._lease / 4
        newest = self._newest(runs)
        self._aside.forget_unless(lambda run: newest.get(run.instance.id) is run)
        soon = self._clock.at(elapsed) + self._lease * 2 / 3
        wanted = [
            run
            for run in newest.values()
            # A settled run is about to be written, and not to be met with a lock then.
            if ((every and not run.settled) or run.expires_at < soon)
            and run not in self._aside
        ]
        busy = self._aside.take_busy(elapsed, _RENEWED_AT_ONCE)
        failed = self._aside.take_failed(elapsed, _RENEWED_AT_ONCE)
        batches = [
            wanted[start : start + _RENEWED_AT_ONCE]
            for start in range(0, len(wanted), _RENEWED_AT_ONCE)
        ]
        try:
            for batch in filter(None, [*batches, busy, failed]):
                self._write(batch)
        except BaseException:
            # Some may have been renewed, and others not.
            self._renewed = None
            self._contact.broke()
            raise
        if wanted or busy or failed:
            self._contact.made()
        if every:
            self._renewed = elapsed

    def _newest(self, runs: Sequence[HeldRun]) -> Mapping[UUID, HeldRun]:
        """Of two runs of one instance the newer: the older one has lost its claim."""
        newest: dict[UUID, HeldRun] = {}
        for run in sorted(runs, key=lambda run: -run.claim.attempt):
            if newest.setdefault(run.instance.id, run) is not run:
                self._lose(run)
        return newest

    def _write(self, runs: Sequence[HeldRun]) -> None:
        # Read before the write is sent: the store counts from a later time, never an
        # earlier.
        elapsed = self._clock.elapsed()
        now = self._clock.at(elapsed)
        leases = {run: self._lease_of(run, elapsed) for run in runs}
        renewals = [Renewal(claim=run.claim, lease=leases[run]) for run in runs]
        written = write_each(renewals, self._store.renew_claims)
        owned = {id: stop for done in written.done for id, stop in done.items()}
        # Another one has joined its handler's transaction meanwhile, and may be
        # completed.
        open_runs = [run for run in runs if not run.joined]
        for run in self._aside.leave_unwritten(open_runs, written):
            stop = owned.get(run.instance.id)
            if stop is None:
                self._lose(run)
            else:
                self._aside.forget(run)
                run.expires_at = now + leases[run]
                run.cancel_requested = stop

    def _lease_of(self, run: HeldRun, elapsed: timedelta) -> timedelta:
        # A settled run may wait for the store for longer than it might run.
        if run.settled:
            return self._lease
        return min(self._lease, run.left(elapsed) + _SLACK)

    def _lose(self, run: HeldRun) -> None:
        # A run that ended while the renewal was under way has lost nothing.
        if run.settled or not self._held.has(run):
            return
        run.lost = True
        self._events.tell(InstanceLost(**of_instance(run.instance)))

    def _end_if_over(self, run: HeldRun, elapsed: timedelta) -> None:
        """End a called run or give it up, if its time is over."""
        if run.until_timeout(elapsed) == ZERO:
            self._time_out(run)
        elif run.left(elapsed) == ZERO:
            self._presume_hung(run)

    def _time_out(self, run: HeldRun) -> None:
        assert run.timeout is not None
        run.time_out(grace=GRACE)
        ended = self._workers.end(run)
        ids = of_instance(run.instance)
        self._events.tell(RunTimedOut(**ids, timeout=run.timeout, ended=ended))
        if not ended and run.settle():
            self._give_up(run, "nothing ends a handler there: it is left behind")

    def _presume_hung(self, run: HeldRun) -> None:
        if not run.settle():
            return
        ids = of_instance(run.instance)
        self._events.tell(RunHung(**ids, allowed=run.allowed))
        self._give_up(run, f"no result within {run.allowed}: presumed hung")

    def _give_up(self, run: HeldRun, error: str) -> None:
        self._writer.give_up(run, run.because(error))
        run.lost = True
        # Then: a stop waits for it until its end is on its way.
        self._held.hang(run)
        self._workers.replace(run)
