"""The keeper: renews the claims of what runs, and gives up on what hangs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.events.bounded_log import BoundedLog
from go_scheduler.running.renewals import Renewals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from go_scheduler.clock import StoreClock
    from go_scheduler.running.contact import Contact
    from go_scheduler.running.held import Held
    from go_scheduler.running.held_run import HeldRun
    from go_scheduler.stores.base import Store


class Keeper:
    """Keeps the claims of runs: due, called, and ended but not recorded.

    Args:
        store: Where to renew.
        clock: The store's time, as this node has it.
        held: The node's runs.
        unrecorded: Answers the runs whose end the store has not taken yet.
        give_up: Takes the runs that hang.
        left: Called at each tick, to give back what never goes on.
        replace: Told of each of them afterwards, which may keep a worker for ever.
        contact: Told of every answer and every failure.
        lease: How long a claim holds; renewed every third of it.
        wake: Makes the keeper's ticker tick.
    """

    def __init__(
        self,
        store: Store,
        clock: StoreClock,
        *,
        held: Held,
        unrecorded: Callable[[], Sequence[HeldRun]],
        give_up: Callable[[HeldRun, str], None],
        left: Callable[[], None],
        replace: Callable[[HeldRun], None],
        contact: Contact,
        lease: timedelta,
        wake: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._held = held
        self._unrecorded = unrecorded
        self._give_up = give_up
        self._left = left
        self._replace = replace
        self._contact = contact
        self._lease = lease
        self._wake = wake
        self._renewals = Renewals(store, clock, lease=lease, lost=self._lose)
        self._next = ZERO
        self._renewed: timedelta | None = None
        self._log = BoundedLog(logging.getLogger(__name__))

    def watch(self, run: HeldRun) -> None:
        """Look after a called run, before it hangs or its claim lapses."""
        assert run.called is not None
        assert run.called_at is not None
        # What is left of its claim, which was made before it waited for a worker.
        lapses = run.expires_at - run.called_at - self._clock.round_trip
        if run.called + min(run.allowed, lapses) < self._next:
            self._wake()

    def stuck(self) -> int:
        """How many handlers have not returned since their run was given up."""
        return len(self._held.hung())

    def tick(self) -> timedelta | None:
        """Give up what hangs, renew, and answer how soon the next run may hang."""
        self._log.begin()
        elapsed = self._clock.elapsed()
        # Before they are looked at: what is called from now on has to wake this again.
        self._next = elapsed + self._lease / 3
        self._left()
        running = [run for run in self._held.running() if not run.settled]
        # After those that run: what ends meanwhile is in the one or the other.
        ended = self._unrecorded()
        for run in running:
            if run.left(elapsed) == ZERO:
                self._presume_hung(run)
        kept = [run for run in running if not (run.settled or run.lost)]
        # One that has joined its handler's transaction may be locked by that.
        needed = [*kept, *self._held.due(), *ended]
        self._renew([run for run in needed if not run.joined], elapsed)
        left = [run.left(elapsed) for run in kept]
        again = self._renewals.next()
        delay = min([self._lease / 3, *left, *([] if again is None else [again])])
        self._next = elapsed + delay
        return delay

    def _renew(self, runs: Sequence[HeldRun], elapsed: timedelta) -> None:
        # Ticks between are for what was left aside; the others may come a fifth early.
        every = self._renewed is None or elapsed >= self._renewed + self._lease / 4
        try:
            answered = self._renewals.renew(runs, every=every)
        except BaseException:
            self._contact.broke()
            # Some may have been renewed, and others not.
            self._renewed = None
            raise
        if answered:
            self._contact.made()
        if every:
            self._renewed = elapsed

    def _lose(self, run: HeldRun) -> None:
        # What ended while the renewal was under way has lost nothing.
        if run.settled or not self._held.has(run):
            return
        run.lost = True
        self._warn(run, "instance %s: attempt %d has lost its claim")

    def _presume_hung(self, run: HeldRun) -> None:
        if not run.settle():
            return
        self._warn(run, "instance %s: attempt %d has no result in time, presumed hung")
        self._give_up(run, f"no result within {run.allowed}: presumed hung")
        run.lost = True
        # Then: a stop waits for it until its end is on its way.
        self._held.hang(run)
        self._replace(run)

    def _warn(self, run: HeldRun, message: str) -> None:
        self._log.write(
            logging.WARNING,
            message,
            run.instance.id,
            run.claim.attempt,
            ids={
                "instance_id": run.instance.id,
                "definition_id": run.instance.definition.id,
                "attempt": run.claim.attempt,
            },
        )
