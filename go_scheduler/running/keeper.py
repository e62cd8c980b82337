"""The keeper: renews the claims of what runs, and has ended what takes too long."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.events.event import of_instance
from go_scheduler.events.hub import LOG_ALONE, Events
from go_scheduler.events.instance_events import InstanceLost
from go_scheduler.ticking.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from go_scheduler.clock import StoreClock
    from go_scheduler.running.held import Held
    from go_scheduler.running.held_run import HeldRun
    from go_scheduler.running.overdue import Overdue
    from go_scheduler.running.recorder import Recorder
    from go_scheduler.running.renewals import Renewals

_LONGEST_BACKOFF = timedelta(seconds=5)


class Keeper:
    """Keeps the claims of runs: due, called, and ended but not recorded.

    Args:
        renewals: Renews the claims.
        clock: The store's time, as this node has it.
        held: The node's runs.
        recorder: Knows what is not recorded yet.
        overdue: Sees to the runs that take too long.
        left: Called at each tick, to give back what never goes on.
        events: Told of runs that have lost their claim.

    Attributes:
        lease: How long a claim holds.
        ticker: Lets it tick.
    """

    def __init__(
        self,
        renewals: Renewals,
        clock: StoreClock,
        *,
        held: Held,
        recorder: Recorder,
        overdue: Overdue,
        left: Callable[[], None],
        events: Events = LOG_ALONE,
    ) -> None:
        self._renewals = renewals
        self._clock = clock
        self._held = held
        self._recorder = recorder
        self._overdue = overdue
        self._left = left
        self.lease = renewals.lease
        third = renewals.lease / 3
        self.ticker = Ticker(
            "keeper",
            self.tick,
            interval=third,
            clock=clock.base,
            # After an outage it must have renewed before the lease is over.
            longest_backoff=min(third / 2, _LONGEST_BACKOFF),
            events=events,
        )
        self._next = ZERO
        self._renewed: timedelta | None = None
        self._events = events.teller("running", bounded=True)

    def watch(self, run: HeldRun) -> None:
        """Look after a called run, before its time is over or its claim lapses."""
        assert run.called is not None
        assert run.called_at is not None
        # Its claim was made before it waited for a worker: so much is left of it.
        lapses = run.expires_at - run.called_at - self._clock.round_trip
        soon = self._next - run.called
        if lapses < soon or run.limit < soon:
            self.look()

    def look(self) -> None:
        """Look after all of them at once."""
        self.ticker.wake()

    def stuck(self) -> int:
        """How many handlers have not returned since their run was given up."""
        return len(self._held.hung())

    def tick(self) -> timedelta | None:
        """End what takes too long, renew, and answer how soon that is for the next."""
        self._events.begin()
        self._overdue.begin()
        elapsed = self._clock.elapsed()
        # Before they are looked at: what is called from now on has to wake this again.
        self._next = elapsed + self.lease / 3
        self._left()
        running = [run for run in self._held.running() if not run.settled]
        # After those that run: what ends meanwhile is in the one or the other.
        ended = self._recorder.unrecorded_runs()
        for run in running:
            self._overdue.end_if_over(run, elapsed)
        kept = [run for run in running if not (run.settled or run.lost)]
        # One that has joined its handler's transaction may be locked by that.
        needed = [*kept, *self._held.due(), *ended]
        self._renew([run for run in needed if not run.joined], elapsed)
        # The store may have taken long to answer.
        elapsed = self._clock.elapsed()
        left = [run.until_over(elapsed) for run in kept]
        if (again := self._renewals.next()) is not None:
            left.append(again)
        delay = max(ZERO, min([self._next - elapsed, *left]))
        self._next = elapsed + delay
        return delay

    def _renew(self, runs: Sequence[HeldRun], elapsed: timedelta) -> None:
        # Ticks between are for what was left aside; the others may come a fifth early.
        every = self._renewed is None or elapsed >= self._renewed + self.lease / 4
        try:
            self._renewals.renew(runs, every=every, lost=self._lose)
        except BaseException:
            # Some may have been renewed, and others not.
            self._renewed = None
            raise
        if every:
            self._renewed = elapsed

    def _lose(self, run: HeldRun) -> None:
        # A run that ended while the renewal was under way has lost nothing.
        if run.settled or not self._held.has(run):
            return
        run.lost = True
        self._events.tell(InstanceLost(**of_instance(run.instance)))
