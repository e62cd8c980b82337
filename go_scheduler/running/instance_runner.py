"""Loop 2, the instance runner: claims the instances that are due within its window."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.events.bounded_log import BoundedLog
from go_scheduler.running.held_run import HeldRun
from go_scheduler.stores.messages import Claim, Release
from go_scheduler.ticking.batches import write_in_halves
from go_scheduler.ticking.repeats import Repeats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.clock import StoreClock
    from go_scheduler.models import TaskInstance
    from go_scheduler.running.admission import Admission
    from go_scheduler.running.held import Held
    from go_scheduler.running.recorder import Recorder
    from go_scheduler.running.room import Room
    from go_scheduler.running.starter import Starter
    from go_scheduler.running.takeover import Takeover
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Claimant
    from go_scheduler.ticking.pace import Pace

_PAGE = 500
# For so long the store may still be at work on a claim whose answer was lost.
_UNANSWERED = timedelta(seconds=5)
_STEP = timedelta(milliseconds=100)


class InstanceRunner:
    """Claims what is due within its window, and passes it on to the starter.

    Args:
        store: Where to claim.
        clock: The store's time, as this node has it.
        claimant: This node.
        held: The node's runs.
        room: Says how much may be claimed.
        admission: Keeps out what is not to be called here.
        starter: Takes what is claimed.
        recorder: Takes what is given back.
        takeover: Says which lapsed claims may be taken over.
        pace: Says how far ahead to claim.
    """

    def __init__(
        self,
        store: Store,
        clock: StoreClock,
        claimant: Claimant,
        *,
        held: Held,
        room: Room,
        admission: Admission,
        starter: Starter,
        recorder: Recorder,
        takeover: Takeover,
        pace: Pace,
    ) -> None:
        self._store = store
        self._clock = clock
        self._claimant = claimant
        self._held = held
        self._room = room
        self._admission = admission
        self._starter = starter
        self._recorder = recorder
        self._takeover = takeover
        self._pace = pace
        self._claim_at = ZERO
        self._take_over_at = ZERO
        self._step = 1
        self._asked = False
        self._looks = True
        self._repeats = Repeats(clock, settling=store.settling)
        self._all_due_taken = False
        self._unanswered: timedelta | None = None
        self._log = BoundedLog(logging.getLogger(__name__))
        self.hungry = False

    def look(self) -> None:
        """Claim at the next tick: there may be something new, or new room."""
        self._asked = True
        self._looks = True

    def tick(self) -> timedelta | None:
        """Claim a batch, if it is time to, and answer when to do so again."""
        self._log.begin()
        self._admission.begin()
        try:
            self._clock.refresh()
            self._give_back_overdue()
            if self._asked:
                self._asked = False
                self._repeats.begin()
            repeats = self._repeats.take()
            if self._looks or repeats or self._wait() <= ZERO:
                # Before the claim: what is new after it has been read needs another.
                self._looks = False
                self._give_back_unanswered()
                self._take_over()
                self._claim()
        except BaseException:
            self._takeover.contact.broke()
            self._looks = True
            raise
        return self._next()

    def _give_back_overdue(self) -> None:
        """Give back what has waited for a worker for longer than a window."""
        before = self._clock.elapsed() - self._pace.window
        for run in self._held.due(before=before):
            if self._held.drop(run):
                self._recorder.release(run)

    def _claim(self) -> None:
        # Before the room is measured: what comes free later has to call for a look.
        self.hungry = True
        room = self._room.measure(all_due_taken=self._all_due_taken)
        self._all_due_taken = False
        pause = self._pace.window / 2
        if room.limit <= 0:
            self._claim_at = self._clock.elapsed() + pause
            return
        ahead = self._pace.ahead if room.ahead else self._starter.lead
        instances = self._claim_some(room.limit, ahead=ahead, lapsed=None)
        self.hungry = full = len(instances) == room.limit
        self._all_due_taken = full and instances[-1].started_at is None
        # By the room there was: what has started since has left some for what is new.
        if not room.ahead:
            pause /= 10
        self._claim_at = self._clock.elapsed() + (ZERO if full else pause)

    def _take_over(self) -> None:
        """Claim what has lapsed: one first, then two, then four, while there is more.

        One of them may have killed its process, and will kill this one: it must not
        take with it, again and again, whatever has lapsed along with it.
        """
        lapsed = self._takeover.lapsed
        if lapsed is None:
            self._step = 1
        elif self._clock.elapsed() >= self._take_over_at:
            room = self._room.measure(all_due_taken=False)
            limit = min(room.limit, self._step)
            full = limit > 0 and self._take_over_some(limit, lapsed)
            self._step = 2 * self._step if full else 1
            pause = _STEP if full else self._pace.window / 2
            self._take_over_at = self._clock.elapsed() + pause

    def _take_over_some(self, limit: int, lapsed: timedelta) -> bool:
        """Claim so many that have lapsed; true if there may be more."""
        instances = self._claim_some(limit, ahead=ZERO, lapsed=lapsed)
        # What nobody had claimed before comes last, if there is nothing more to take.
        return len(instances) == limit and instances[-1].attempt > 1

    def _claim_some(
        self, limit: int, *, ahead: timedelta, lapsed: timedelta | None
    ) -> Sequence[TaskInstance]:
        sent = self._clock.elapsed()
        try:
            instances = self._store.claim_instances(
                self._claimant,
                ahead=ahead,
                lead=self._starter.lead,
                limit=limit,
                lapsed=lapsed,
            )
        except BaseException:
            self._unanswered = self._clock.elapsed()
            raise
        self._takeover.contact.made()
        self._pace.took(self._clock.elapsed() - sent)
        self._admit(instances)
        return instances

    def _admit(self, instances: Sequence[TaskInstance]) -> None:
        admitted = []
        for instance in instances:
            run = HeldRun(instance, expire_after=self._claimant.expire_after)
            if self._admission.admit(run):
                admitted.append(run)
        self._held.add(admitted)
        self._starter.add(admitted)

    def _give_back_unanswered(self) -> None:
        """Give back what was claimed by a claim whose answer was lost."""
        if self._unanswered is None:
            return
        left = self._release(self._list_unknown())
        if not left and self._clock.elapsed() - self._unanswered >= _UNANSWERED:
            self._unanswered = None

    def _list_unknown(self) -> Sequence[Claim]:
        """What this node has claimed by what the store says, and knows nothing of."""
        # Before the list is read: what ends meanwhile is in both or in neither, and
        # only this thread claims.
        known = {*self._held.claims(), *self._recorder.claims()}
        unknown: list[Claim] = []
        page = self._list_claimed(None)
        while page:
            claims = [Claim(instance_id=each.id, attempt=each.attempt) for each in page]
            unknown += [each for each in claims if each not in known]
            page = self._list_claimed(page[-1])
        return unknown

    def _list_claimed(self, after: TaskInstance | None) -> Sequence[TaskInstance]:
        node = self._claimant.node
        return self._store.list_claimed(node, after=after, limit=_PAGE)

    def _release(self, claims: Sequence[Claim]) -> int:
        """Give back, and answer how many could not be."""
        failed: list[Release] = []
        answers = write_in_halves(
            [Release(claim=claim) for claim in claims],
            self._store.release_instances,
            lambda release, _: failed.append(release),
        )
        if claims:
            self._repeats.begin()
            self._log.write(
                logging.WARNING,
                "the answer to a claim was lost: %d instances are given back",
                len(claims),
                ids={"node": self._claimant.node},
            )
        return len(failed) + sum(len(answer.busy) for answer in answers)

    def _wait(self) -> timedelta:
        """How long until it is time for a claim."""
        at = self._claim_at
        if self._step > 1:
            at = min(at, self._take_over_at)
        return at - self._clock.elapsed()

    def _next(self) -> timedelta:
        """How long until the next claim, or its repeat, is due."""
        if self._looks:
            return ZERO
        repeat = self._repeats.wait
        wait = self._wait()
        return max(ZERO, wait if repeat is None else min(wait, repeat))
