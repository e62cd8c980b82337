"""Loop 2, the instance runner: claims instances, and starts what is nearly due."""

from __future__ import annotations

import logging
from collections import deque
from datetime import timedelta
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from go_scheduler.batches import write_in_halves
from go_scheduler.bounded_log import BoundedLog
from go_scheduler.clock import ZERO
from go_scheduler.handlers import find_handler
from go_scheduler.models import Outcome
from go_scheduler.run import Run
from go_scheduler.triggers.base import UnknownTrigger

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from go_scheduler.clock import StoreClock
    from go_scheduler.handlers import Handler
    from go_scheduler.held import Held
    from go_scheduler.keeper import Contact
    from go_scheduler.models import Answer, Claim, Claimant, TaskInstance
    from go_scheduler.recorder import Recorder
    from go_scheduler.stores.base import Store
    from go_scheduler.timer import Timer

_BATCH = 500
_SHORTEST_LEAD = timedelta(milliseconds=20)
_PER_INSTANCE = timedelta(microseconds=30)
_SLACK = timedelta(milliseconds=20)
# Of nodes that can run an instance and nodes that cannot, any may have it next.
_FIRST_DELAY = timedelta(milliseconds=50)
_LONGEST_DELAY = timedelta(minutes=1)
_SAMPLES = 100
_MOST_REPORTED = 1000


class InstanceRunner:
    """Claims what is due within its window, and records the start of each just before.

    Args:
        store: Where to claim.
        clock: The store's time, as this node has it.
        claimant: This node.
        handler: Tells which instances this node can run.
        held: The node's runs.
        timer: Takes what has been started.
        recorder: Takes what is given back.
        contact: Says whether lapsed claims may be taken over.
        window: How far ahead to claim; longer than any tick.
        max_held: The most instances to hold before their time.
        max_workers: The most handlers that run at once.
    """

    def __init__(
        self,
        store: Store,
        clock: StoreClock,
        claimant: Claimant,
        *,
        handler: Handler,
        held: Held,
        timer: Timer,
        recorder: Recorder,
        contact: Contact,
        window: timedelta,
        max_held: int,
        max_workers: int,
    ) -> None:
        self._store = store
        self._clock = clock
        self._claimant = claimant
        self._handler = handler
        self._held = held
        self._timer = timer
        self._recorder = recorder
        self._contact = contact
        self._window = window
        self._max_held = max_held
        self._max_workers = max_workers
        self._unstarted: list[tuple[datetime, int, Run]] = []
        self._sequence = count()
        self._lead = _Lead(longest=window / 2)
        self._claim_at = ZERO
        self._looks = True
        self._all_due_taken = False
        self._reported: set[str] = set()
        self._log = BoundedLog(logging.getLogger(__name__))
        self.hungry = False

    def look(self) -> None:
        """Claim at the next tick: there may be something new, or new room."""
        self._looks = True

    def tick(self) -> timedelta | None:
        """Start what is nearly due, claim a batch, and answer when to do so again."""
        self._log.begin()
        try:
            self._clock.refresh()
            self._give_back_late()
            self._start()
            if self._looks or self._clock.elapsed() >= self._claim_at:
                # Before the claim: what is new after it has been read needs another.
                self._looks = False
                self._claim()
                self._start()
        except BaseException:
            self._contact.broke()
            self._looks = True
            raise
        return self._next()

    def _give_back_late(self) -> None:
        """Give back what has waited for a worker for longer than a window."""
        for run in self._held.queued(before=self._clock.elapsed() - self._window):
            if self._held.drop(run):
                self._recorder.release(run)

    def _start(self) -> None:
        """Record the start of what is due within the lead and a little more."""
        now = self._clock.now()
        lead = self._lead.value(len(self._unstarted))
        if not self._unstarted or self._unstarted[0][0] > now + lead:
            return
        while runs := self._take_due(now + lead + _SLACK):
            self._start_batch(runs)

    def _take_due(self, until: datetime) -> Sequence[Run]:
        runs: list[Run] = []
        while self._unstarted and len(runs) < _BATCH and self._unstarted[0][0] <= until:
            runs.append(heappop(self._unstarted)[2])
        return runs

    def _start_batch(self, runs: Sequence[Run]) -> None:
        by_token = {run.token: run for run in runs}

        def write(claims: Sequence[Claim]) -> Answer[Sequence[TaskInstance]]:
            return self._store.start_instances(self._claimant, claims)

        sent = self._clock.elapsed()
        try:
            answers = write_in_halves([run.claim for run in runs], write, self._report)
        except BaseException:
            # Whether they have been started is not known; starting again is harmless.
            for run in runs:
                self._hold(run)
            raise
        self._lead.took(self._clock.elapsed() - sent)
        started = [
            run
            for answer in answers
            for instance in answer.done
            for run in [by_token[instance.id, instance.attempt].start(instance)]
            if not self._is_refused(run)
        ]
        for run in set(runs).difference(started):
            self._held.drop(run)
        self._timer.hold(started)

    def _claim(self) -> None:
        # Before the room is measured: what comes free later has to call for a look.
        self.hungry = True
        limit, ahead = self._room()
        self._all_due_taken = False
        if limit <= 0:
            self._claim_at = self._clock.elapsed() + self._window / 2
            return
        sent = self._clock.elapsed()
        instances = self._store.claim_instances(
            self._claimant,
            ahead=ahead,
            lead=self._lead.value(len(self._unstarted)),
            limit=limit,
            lapsed=ZERO if self._contact.unbroken >= self._claimant.lease else None,
        )
        self._contact.made()
        self._lead.took(self._clock.elapsed() - sent)
        self._accept(instances)
        self.hungry = full = len(instances) == limit
        self._all_due_taken = full and instances[-1].started_at is None
        pause = self._window / 2
        if self._held.waiting >= self._max_held:
            pause /= 10
        self._claim_at = self._clock.elapsed() + (ZERO if full else pause)

    def _room(self) -> tuple[int, timedelta]:
        """How many to claim, and how far ahead.

        Of what is due no more than can be called within a window: the free workers, and
        as many as came free in the last one. Of what is not due yet, what may be held.
        """
        recently = self._recorder.written_since(self._clock.elapsed() - self._window)
        busy = self._held.busy + self._recorder.unrecorded
        due = self._max_workers + recently - busy
        ahead = self._max_held - self._held.waiting
        if ahead <= 0:
            return min(due, _BATCH), self._lead.value(len(self._unstarted))
        if due > 0 and self._all_due_taken:
            return min(ahead, _BATCH), self._window
        return min(due, ahead, _BATCH), self._window

    def _accept(self, instances: Sequence[TaskInstance]) -> None:
        accepted = []
        for instance in instances:
            run = Run(instance, expire_after=self._claimant.expire_after)
            if self._is_refused(run):
                continue
            if instance.error is None and _runs_before(instance):
                self._report_taken_over(instance)
            accepted.append(run)
        self._held.add(accepted)
        for run in accepted:
            if run.instance.started_at is None:
                self._hold(run)
        self._timer.hold(run for run in accepted if run.instance.started_at is not None)

    def _is_refused(self, run: Run) -> bool:
        """Whether an instance is not to be called at all, or not by this node."""
        instance = run.instance
        runs = _runs_before(instance)
        if instance.cancel_requested:
            self._recorder.refuse(run, Outcome.CANCELLED)
        elif not instance.definition.retry.allows(runs):
            error = instance.error or f"none of {runs} runs came to an end"
            self._recorder.refuse(run, Outcome.FAILED, error)
        elif (reason := self._cannot_run(instance)) is not None:
            self._report_given_back(instance, reason)
            delay = _FIRST_DELAY * 2 ** min(instance.attempt - 1, 11)
            self._recorder.release(run, min(delay, _LONGEST_DELAY))
        else:
            return False
        return True

    def _cannot_run(self, instance: TaskInstance) -> str | None:
        """Why other nodes may be able to run an instance, but not this one."""
        definition = instance.definition
        if isinstance(definition.trigger, UnknownTrigger):
            return definition.trigger.reason
        if find_handler(self._handler, instance) is None:
            named = (
                "without a name" if definition.name is None else repr(definition.name)
            )
            return f"no handler is registered for definitions {named} here"
        return None

    def _hold(self, run: Run) -> None:
        entry = (run.instance.due_at, next(self._sequence), run)
        heappush(self._unstarted, entry)

    def _next(self) -> timedelta:
        """How long until the next start or claim is due."""
        wait = ZERO if self._looks else self._claim_at - self._clock.elapsed()
        if self._unstarted:
            lead = self._lead.value(len(self._unstarted))
            wait = min(wait, self._unstarted[0][0] - self._clock.now() - lead)
        return max(ZERO, wait)

    def _report(self, claim: Claim, error: Exception) -> None:
        self._log.write(
            logging.ERROR,
            "instance %s: its start cannot be recorded: %r",
            claim.instance_id,
            error,
            ids={"instance_id": claim.instance_id, "attempt": claim.attempt},
            error=error,
        )

    def _report_taken_over(self, instance: TaskInstance) -> None:
        self._log.write(
            logging.WARNING,
            "instance %s of %s: its last run came to no end, it runs again",
            instance.id,
            instance.definition.name or instance.definition.id,
            ids={
                "instance_id": instance.id,
                "definition_id": instance.definition.id,
                "attempt": instance.attempt,
            },
        )

    def _report_given_back(self, instance: TaskInstance, reason: str) -> None:
        if reason in self._reported or len(self._reported) >= _MOST_REPORTED:
            return
        self._reported.add(reason)
        self._log.write(
            logging.WARNING,
            "%s; such instances are given back",
            reason,
            ids={"instance_id": instance.id, "definition_id": instance.definition.id},
        )


def _runs_before(instance: TaskInstance) -> int:
    """How many runs an instance had before the one it is claimed for."""
    return instance.runs - (instance.started_at is not None)


class _Lead:
    """How long before an instance is due its start is recorded.

    Twice the recent 99th percentile of the store's answers, and more for every instance
    that is held, so that a crowd due at one instant is started in time as well.
    """

    def __init__(self, *, longest: timedelta) -> None:
        self._longest = longest
        self._samples: deque[timedelta] = deque(maxlen=_SAMPLES)
        self._slow = ZERO

    def took(self, duration: timedelta) -> None:
        """Take note of how long an answer took."""
        self._samples.append(duration)
        ordered = sorted(self._samples)
        self._slow = ordered[len(ordered) * 99 // 100]

    def value(self, unstarted: int) -> timedelta:
        """The lead when so many instances are held and not started."""
        lead = max(_SHORTEST_LEAD, 2 * self._slow) + unstarted * _PER_INSTANCE
        return min(lead, self._longest)
