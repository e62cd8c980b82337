"""The keeper: renews the claims of what runs, and has ended what takes too long."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.events.event import of_instance
from go_scheduler.events.event_bus import LOG_ALONE, Events
from go_scheduler.events.instance_events import (
    InstanceLocked,
    InstanceLost,
    InstanceUnrecorded,
    RunHung,
    RunTimedOut,
    Write,
)
from go_scheduler.formatting import shown
from go_scheduler.stores.messages import Renewal
from go_scheduler.ticking.retry_later import RetryLater, write_in_halves
from go_scheduler.ticking.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.clock import Clock, StoreClock
    from go_scheduler.running.held import Held, HeldRun
    from go_scheduler.running.recorder import Recorder
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import NodeContact


class Contact:
    """How long a node's contact with its store has been unbroken.

    After an outage every node must have had the time to renew what it runs before any
    node takes over claims that have lapsed meanwhile.

    A call that fails is no outage, for one of many may be lost at any time: it is one
    if nothing is answered for longer than nodes let pass between two renewals.

    Args:
        clock: Measures elapsed time.
        lease: It is broken by a third of this with failures alone, or by all of it
            without any call.
    """

    def __init__(self, clock: Clock, *, lease: timedelta) -> None:
        self._clock = clock
        self._lease = lease
        self._since: timedelta | None = None
        self._last = ZERO
        self._fails = False

    @property
    def unbroken(self) -> timedelta:
        """For how long it has been; zero before the first."""
        now = self._clock.elapsed()
        # After a long freeze nothing has been noted yet, and it is broken all the same.
        if self._since is None or self._is_silent(now):
            return ZERO
        return now - self._since

    def broken_since(self, elapsed: timedelta) -> bool:
        """Whether it has been broken since then."""
        is_silent = self._is_silent(self._clock.elapsed())
        return self._since is None or is_silent or self._since > elapsed

    def made(self) -> None:
        """The store has answered."""
        now = self._clock.elapsed()
        if self._since is None or self._is_silent(now):
            self._since = now
        self._last = now
        self._fails = False

    def broke(self) -> None:
        """The store has not answered, or not well."""
        self._fails = True

    def _is_silent(self, now: timedelta) -> bool:
        most = self._lease / 3 if self._fails else self._lease
        return now - self._last > most


def cover(
    contacts: Iterable[NodeContact],
    *,
    since: datetime,
    until: datetime,
    gap: timedelta,
) -> bool:
    """Whether some node was in contact with the store all of that time.

    Args:
        contacts: When nodes were.
        since: From when on.
        until: Up to when.
        gap: For so long none need have been, at a time.
    """
    covered = since
    for contact in sorted(contacts, key=lambda each: each.since):
        if contact.since - covered > gap:
            return False
        covered = max(covered, contact.until)
    return until - covered <= gap


_RENEWED_AT_ONCE = 1000
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
        self._aside: RetryLater[HeldRun] = RetryLater()
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
        busy = self._aside.take_busy(elapsed, _RENEWED_AT_ONCE)
        failed = self._aside.take_failed(elapsed, _RENEWED_AT_ONCE)
        for start in range(0, len(wanted), _RENEWED_AT_ONCE):
            self._write(wanted[start : start + _RENEWED_AT_ONCE], lost)
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


GRACE = timedelta(seconds=5)
"""So long a handler has to clean up once it has been told to end."""


class Overdue:
    """Ends runs whose timeout has passed, and gives up those that hang.

    Args:
        held: The node's runs.
        recorder: Takes the runs that are given up.
        end: Tells the handler of a run to end; false: where it runs that is not to be.
        replace: Told of each run that is given up, which may keep a worker for ever.
        events: Told of both.
    """

    def __init__(
        self,
        held: Held,
        recorder: Recorder,
        *,
        end: Callable[[HeldRun], bool],
        replace: Callable[[HeldRun], None],
        events: Events = LOG_ALONE,
    ) -> None:
        self._held = held
        self._recorder = recorder
        self._end = end
        self._replace = replace
        self._events = events.teller("running", bounded=True)

    def begin(self) -> None:
        """Begin to tell anew, as at each tick of the keeper."""
        self._events.begin()

    def end_if_over(self, run: HeldRun, elapsed: timedelta) -> None:
        """End a called run or give it up, if its time is over."""
        if run.until_timeout(elapsed) == ZERO:
            self._time_out(run)
        elif run.left(elapsed) == ZERO:
            self._presume_hung(run)

    def _time_out(self, run: HeldRun) -> None:
        assert run.timeout is not None
        run.time_out(grace=GRACE)
        ended = self._end(run)
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
        self._recorder.give_up(run, run.because(error))
        run.lost = True
        # Then: a stop waits for it until its end is on its way.
        self._held.hang(run)
        self._replace(run)


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
