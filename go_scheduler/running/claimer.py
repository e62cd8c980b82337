"""Loop 2, the claimer: claims the instances that are due within its window."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.running.start_queue import LONGEST_BACKOFF
from go_scheduler.stores.messages import ReadLater
from go_scheduler.ticking.ticker import Repeats, Ticker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.models import TaskInstance
    from go_scheduler.running.admission import Admission
    from go_scheduler.running.arrivals import Arrivals
    from go_scheduler.running.capacity import Allowance, Capacity
    from go_scheduler.running.recovery import Takeover, Unanswered
    from go_scheduler.running.start_queue import StartQueue
    from go_scheduler.running.state import NodeState

_STEP = timedelta(milliseconds=100)


class Claimer:
    """Claims what is due within its window, and passes it on to the start queue.

    Args:
        state: What the node's parts share.
        capacity: Says how much may be claimed.
        admission: Keeps out what is not to be called here.
        start_queue: Takes what is admitted.
        arrivals: Let in many, while the next claim is sent.
        takeover: Says which lapsed claims may be taken over.
        unanswered: Looks after what a claim has taken whose answer was lost.

    Attributes:
        ticker: Lets it tick.
    """

    def __init__(
        self,
        state: NodeState,
        *,
        capacity: Capacity,
        admission: Admission,
        start_queue: StartQueue,
        arrivals: Arrivals,
        takeover: Takeover,
        unanswered: Unanswered,
    ) -> None:
        self._state = state
        self._store = state.store
        self._clock = state.clock
        self._pace = state.pace
        self._capacity = capacity
        self._admission = admission
        self._start_queue = start_queue
        self._arrivals = arrivals
        self._takeover = takeover
        self._unanswered = unanswered
        self._pause = self._pace.window / 2
        # What was put by then for later is still found in time.
        self._longest_pause = self._pace.window * 3 / 4
        self._claim_at = ZERO
        self._take_over_at = ZERO
        self._step = 1
        self._asked = False
        self._looks = True
        self._repeats = Repeats(self._clock, settling=self._store.settling)
        self._all_due_taken = False
        self._hungry = self._full = False
        self.ticker = Ticker(
            "instance runner",
            self.tick,
            interval=self._longest_pause,
            clock=self._clock.base,
            longest_backoff=LONGEST_BACKOFF,
            events=state.events,
        )
        state.room_made.connect(self.fill)
        state.work_found.connect(self.look)

    @property
    def free(self) -> int:
        """How many workers are free for what nobody has to claim.

        There are none if there was more to claim than there was room for, the last
        time, or if it is not known what has been claimed.
        """
        if self._full or self._unanswered.any:
            return 0
        return self._capacity.free

    def look(self) -> None:
        """Claim at once: there may be something new, or new room."""
        self._asked = True
        self._looks = True
        self.ticker.wake()

    def poll(self) -> None:
        """Claim as if it were time to; and once only."""
        self._looks = True
        self.ticker.wake()

    def fill(self) -> None:
        """Claim at once if there is something left to claim: there is room for it."""
        if self._hungry:
            self.look()

    def tick(self) -> timedelta | None:
        """Claim a batch, if it is time to, and answer when to do so again."""
        self._admission.begin()
        try:
            self._clock.refresh()
            self._capacity.give_back_overdue()
            if self._asked:
                self._asked = False
                self._repeats.begin()
            repeats = self._repeats.take()
            if self._looks or repeats or self._wait() <= ZERO:
                # Before the claim: what is new after it has been read needs another.
                self._looks = False
                if self._unanswered.give_back():
                    self._repeats.begin()
                if not self._take_over():
                    self._claim()
        except BaseException:
            self._state.contact.broke()
            self._looks = True
            raise
        return self._next()

    def _claim(self) -> None:
        # Before the room is measured: what comes free later has to call for a look.
        self._hungry = True
        room = self._capacity.measure(all_due_taken=self._all_due_taken)
        self._all_due_taken = False
        pause = self._pause
        if room.limit <= 0:
            self._full = True
            self._claim_at = self._clock.elapsed() + pause
            return
        instances = self._claim_some(room, lapsed=None)
        if room.ahead and not instances:
            self._rest()
            return
        self._hungry = self._full = full = len(instances) == room.limit
        self._all_due_taken = full and self._knows_to_come(instances)
        # By the room there was: what has started since has left some for what is new.
        if not room.ahead:
            pause /= 10
        self._claim_at = self._clock.elapsed() + (ZERO if full else pause)

    def _knows_to_come(self, instances: Sequence[TaskInstance]) -> bool:
        """Whether the last is to come; not of many that are yet to be read."""
        return not isinstance(instances, ReadLater) and self._is_to_come(instances[-1])

    def _is_to_come(self, instance: TaskInstance) -> bool:
        # One that has to have a slot is not started by its claim, due or not.
        return (
            instance.started_at is None
            and instance.due_at > self._clock.now() + self._start_queue.lead
        )

    def _take_over(self) -> bool:
        """Claim what has lapsed: one first, then two, then four, while there is more.

        One of them may have killed its process, and will kill this one: it must not
        take with it, again and again, whatever has lapsed along with it.

        Returns:
            Whether it was a claim of all there is, and met nothing.
        """
        lapsed = self._takeover.lapsed
        if lapsed is None:
            self._step = 1
        elif self._clock.elapsed() >= self._take_over_at:
            self._hungry = True
            room = self._capacity.measure(all_due_taken=False)
            room = room._replace(limit=min(room.limit, self._step))
            taken = self._claim_some(room, lapsed=lapsed) if room.limit > 0 else []
            # Those that nobody had claimed before come last: nothing more has lapsed.
            full = 0 < room.limit == len(taken) and taken[-1].attempt > 1
            self._step = 2 * self._step if full else 1
            pause = _STEP if full else max(self._pause, self._takeover.pause)
            self._take_over_at = self._clock.elapsed() + pause
            if room.limit > 0 and room.ahead and not taken:
                self._rest()
                return True
        return False

    def _rest(self) -> None:
        """Claim no more for as long as nothing comes up that nobody tells of."""
        self._hungry = self._full = self._all_due_taken = False
        self._claim_at = self._clock.elapsed() + self._longest_pause

    def _claim_some(
        self, room: Allowance, *, lapsed: timedelta | None
    ) -> Sequence[TaskInstance]:
        lead = self._start_queue.lead
        watch = self._admission.watch()
        instances = self._send(
            ahead=self._pace.ahead if room.ahead else lead,
            lead=lead,
            limit=room.limit,
            lapsed=lapsed,
        )
        # Two are in flight at most: this one, and the next that is sent meanwhile.
        if isinstance(instances, ReadLater) and not self._state.in_flight.count:
            self._arrivals.add(instances, watch)
        else:
            # They may be read only here, and may not be readable.
            with self._unanswered.noting():
                self._start_queue.add(self._admission.admit(instances, watch))
        return instances

    def _send(
        self,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
    ) -> Sequence[TaskInstance]:
        """Claim as ``Store.claim_instances`` does."""
        sent, claimant = self._clock.elapsed(), self._state.claimant
        with self._unanswered.noting():
            instances = self._store.claim_instances(
                claimant,
                ahead=ahead,
                lead=lead,
                limit=limit,
                lapsed=lapsed,
                deadline=self._clock.now() + claimant.lease / 3,
            )
        self._state.contact.made()
        self._pace.took(self._clock.elapsed() - sent)
        return instances

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
