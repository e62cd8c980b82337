"""Renewals: claims made to hold longer, and those that cannot be, one by one."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.events.event import of_instance
from go_scheduler.events.hub import LOG_ALONE, Events
from go_scheduler.events.instance_events import (
    InstanceLocked,
    InstanceUnrecorded,
    Write,
)
from go_scheduler.shown import shown
from go_scheduler.stores.messages import Renewal
from go_scheduler.ticking.aside import Aside
from go_scheduler.ticking.batches import write_in_halves

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from go_scheduler.clock import StoreClock
    from go_scheduler.running.contact import Contact
    from go_scheduler.running.held_run import HeldRun
    from go_scheduler.stores.base import Store

_BATCH = 1000
# Past the time when a run is presumed hung: until then nobody else takes it over.
_SLACK = timedelta(seconds=2)


class Renewals:
    """Renews claims in one write, and apart from it those that it could not renew.

    Args:
        store: Where to renew.
        clock: The store's time, as this node has it.
        lease: How long a claim holds.
        contact: Told of every answer and every failure.
        events: Told of claims that cannot be renewed.
    """

    def __init__(
        self,
        store: Store,
        clock: StoreClock,
        *,
        lease: timedelta,
        contact: Contact,
        events: Events = LOG_ALONE,
    ) -> None:
        self._store = store
        self._clock = clock
        self.lease = lease
        self._contact = contact
        self._aside: Aside[HeldRun] = Aside()
        self._events = events.teller("running", bounded=True)

    def renew(
        self, runs: Sequence[HeldRun], *, every: bool, lost: Callable[[HeldRun], None]
    ) -> None:
        """Renew what lapses soon, and what was left aside long enough.

        Args:
            runs: All that need their claim.
            every: Renew what lapses later as well.
            lost: Takes the runs whose claim is not theirs any more.
        """
        self._events.begin()
        try:
            answered = self._renew(runs, every=every, lost=lost)
        except BaseException:
            self._contact.broke()
            raise
        if answered:
            self._contact.made()

    def _renew(
        self, runs: Sequence[HeldRun], *, every: bool, lost: Callable[[HeldRun], None]
    ) -> bool:
        """Answer whether the store was asked."""
        elapsed = self._clock.elapsed()
        newest = _newest(runs, lost)
        self._aside.forget_unless(lambda run: newest.get(run.instance.id) is run)
        soon = self._clock.at(elapsed) + self.lease * 2 / 3
        wanted = [
            run
            for run in newest.values()
            # A settled run is about to be written, and not to be met with a lock then.
            if ((every and not run.settled) or run.expires_at < soon)
            and run not in self._aside
        ]
        busy = self._aside.take_busy(elapsed, _BATCH)
        failed = self._aside.take_failed(elapsed, _BATCH)
        for start in range(0, len(wanted), _BATCH):
            self._write(wanted[start : start + _BATCH], lost)
        self._write(busy, lost)
        self._write(failed, lost)
        return bool(wanted or busy or failed)

    def next(self) -> timedelta | None:
        """How long until one that was left aside is tried again; None: none was."""
        return self._aside.next(self._clock.elapsed())

    def _write(self, runs: Sequence[HeldRun], lost: Callable[[HeldRun], None]) -> None:
        # Read before the write is sent: the store counts from a later time, never an
        # earlier.
        elapsed = self._clock.elapsed()
        now = self._clock.at(elapsed)
        renewals = [
            Renewal(claim=run.claim, lease=self._lease_of(run, elapsed)) for run in runs
        ]
        failed: dict[UUID, Exception] = {}

        def fail(renewal: Renewal, error: Exception) -> None:
            failed[renewal.claim.instance_id] = error

        answers = write_in_halves(renewals, self._store.renew_claims, fail)
        owned: dict[UUID, bool] = {}
        busy: set[UUID] = set()
        for answer in answers:
            owned.update(answer.done)
            busy.update(answer.busy)
        for run, renewal in zip(runs, renewals, strict=True):
            instance_id = run.instance.id
            # It has joined its handler's transaction meanwhile, and may be completed.
            if run.joined:
                continue
            if instance_id in busy:
                self._leave_busy(run)
            elif instance_id in failed:
                self._leave_failed(run, failed[instance_id])
            elif instance_id in owned:
                self._aside.forget(run)
                run.expires_at = now + renewal.lease
                run.cancel_requested = owned[instance_id]
            else:
                lost(run)

    def _lease_of(self, run: HeldRun, elapsed: timedelta) -> timedelta:
        # A settled run may wait for the store for longer than it might run.
        if run.settled:
            return self.lease
        return min(self.lease, run.left(elapsed) + _SLACK)

    def _leave_busy(self, run: HeldRun) -> None:
        if self._aside.leave_busy(run, self._clock.elapsed()):
            self._events.tell(
                InstanceLocked(**of_instance(run.instance), write=Write.RENEWAL)
            )

    def _leave_failed(self, run: HeldRun, error: Exception) -> None:
        delay = self._aside.leave_failed(run, self._clock.elapsed())
        self._events.tell(
            InstanceUnrecorded(
                **of_instance(run.instance),
                write=Write.RENEWAL,
                retry_in=delay,
                error=shown(error),
                exception=error,
            )
        )


def _newest(
    runs: Sequence[HeldRun], lost: Callable[[HeldRun], None]
) -> dict[UUID, HeldRun]:
    """Of two runs of one instance the newer: the older one has lost its claim."""
    newest: dict[UUID, HeldRun] = {}
    for run in sorted(runs, key=lambda run: -run.claim.attempt):
        if newest.setdefault(run.instance.id, run) is not run:
            lost(run)
    return newest
