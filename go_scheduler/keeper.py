"""The keeper: renews the claims of what runs, and gives up on what hangs."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.batches import write_in_halves
from go_scheduler.bounded_log import BoundedLog
from go_scheduler.clock import ZERO
from go_scheduler.models import Renewal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from go_scheduler.clock import StoreClock
    from go_scheduler.contact import Contact
    from go_scheduler.held import Held
    from go_scheduler.run import Run
    from go_scheduler.stores.base import Store

_BATCH = 1000
_SHORTEST = timedelta(milliseconds=1)


class Keeper:
    """Keeps the claims of called and queued runs.

    Args:
        store: Where to renew.
        clock: The store's time, as this node has it.
        held: The node's runs.
        give_up: Takes the runs that hang.
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
        give_up: Callable[[Run, str], None],
        contact: Contact,
        lease: timedelta,
        wake: Callable[[], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._held = held
        self._give_up = give_up
        self._contact = contact
        self._lease = lease
        self._wake = wake
        self._next = ZERO
        self._log = BoundedLog(logging.getLogger(__name__))

    def watch(self, run: Run) -> None:
        """Look after a called run, before it hangs or its claim lapses."""
        assert run.called is not None
        assert run.called_at is not None
        # What is left of its claim, which was made before it waited for a worker.
        lapses = run.expires_at - run.called_at - self._clock.round_trip
        if run.called + min(run.allowed, lapses) < self._next:
            self._wake()

    def stuck(self) -> int:
        """How many workers are kept by runs that were given up."""
        return sum(run.hung for run in self._held.running())

    def tick(self) -> timedelta | None:
        """Renew all claims in one write; answer how soon the next run may hang."""
        self._log.begin()
        elapsed = self._clock.elapsed()
        # Before they are looked at: what is called from now on has to wake this again.
        self._next = elapsed + self._lease / 3
        running = [run for run in self._held.running() if not run.settled]
        for run in running:
            if run.left(elapsed) == ZERO:
                self._presume_hung(run)
        kept = [run for run in running if not (run.settled or run.lost)]
        # One that has joined its handler's transaction may be locked by that.
        renewed = [run for run in kept if not run.joined]
        self._renew([*renewed, *self._held.queued()])
        left = [run.left(elapsed) for run in kept]
        delay = min([self._lease / 3, *left])
        self._next = elapsed + delay
        return delay

    def _renew(self, runs: Sequence[Run]) -> None:
        for start in range(0, len(runs), _BATCH):
            self._renew_batch(runs[start : start + _BATCH])

    def _renew_batch(self, runs: Sequence[Run]) -> None:
        # Read before the write is sent: the store counts from a later time, never an
        # earlier.
        now, elapsed = self._clock.now(), self._clock.elapsed()
        renewals = [
            Renewal(claim=run.claim, lease=max(_SHORTEST, self._lease_of(run, elapsed)))
            for run in runs
        ]
        failed: dict[UUID, Exception] = {}

        def fail(renewal: Renewal, error: Exception) -> None:
            failed[renewal.claim.instance_id] = error

        try:
            answers = write_in_halves(renewals, self._store.renew_claims, fail)
        except BaseException:
            self._contact.broke()
            raise
        self._contact.made()
        owned: Mapping[UUID, bool] = {
            key: asked for answer in answers for key, asked in answer.done.items()
        }
        # The answer does not tell apart two runs of one instance: the older one, which
        # had lapsed and was claimed again here, is lost.
        newest = {run.instance.id: run for run in sorted(runs, key=_attempt)}
        for run, renewal in zip(runs, renewals, strict=True):
            # It has joined its handler's transaction meanwhile, and may be completed.
            if run.joined:
                continue
            if run.instance.id in owned and newest[run.instance.id] is run:
                run.expires_at = now + renewal.lease
                run.cancel_requested = owned[run.instance.id]
            elif run.instance.id in failed:
                self._report_failed(run, failed[run.instance.id])
            else:
                self._lose(run)

    def _report_failed(self, run: Run, error: Exception) -> None:
        self._log.write(
            logging.ERROR,
            "instance %s: its claim cannot be renewed: %r",
            run.instance.id,
            error,
            ids={"instance_id": run.instance.id},
            error=error,
        )

    def _lease_of(self, run: Run, elapsed: timedelta) -> timedelta:
        return min(self._lease, run.left(elapsed))

    def _lose(self, run: Run) -> None:
        # What ended while the renewal was under way has lost nothing.
        if run.settled or not self._held.has(run):
            return
        run.lost = True
        self._warn(run, "instance %s: attempt %d has lost its claim")

    def _presume_hung(self, run: Run) -> None:
        if not run.settle():
            return
        self._warn(run, "instance %s: attempt %d has no result in time, presumed hung")
        self._give_up(run, f"no result within {run.allowed}: presumed hung")
        run.lost = run.hung = True

    def _warn(self, run: Run, message: str) -> None:
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


def _attempt(run: Run) -> int:
    return run.claim.attempt
