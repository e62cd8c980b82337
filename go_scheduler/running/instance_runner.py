"""Loop 2, the instance runner: claims the instances that are due within its window."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.events.event_bus import LOG_ALONE, Events
from go_scheduler.running.claiming import LONGEST_BACKOFF
from go_scheduler.ticking.ticker import Repeats, Ticker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.clock import StoreClock
    from go_scheduler.models import TaskInstance
    from go_scheduler.running.admission import Admission
    from go_scheduler.running.claiming import Claiming
    from go_scheduler.running.room import Allowance, Room
    from go_scheduler.running.starter import Starter
    from go_scheduler.running.takeover import Takeover

_STEP = timedelta(milliseconds=100)


class InstanceRunner:
    """Claims what is due within its window, and passes it on to the starter.

    Args:
        claiming: Claims in this node's name.
        clock: The store's time, as this node has it.
        room: Says how much may be claimed.
        admission: Keeps out what is not to be called here.
        starter: Takes what is admitted.
        takeover: Says which lapsed claims may be taken over.
        events: Told of what fails.

    Attributes:
        hungry: Whether there was no room for all that the last claim met.
        ticker: Lets it tick.
    """

    def __init__(
        self,
        claiming: Claiming,
        clock: StoreClock,
        *,
        room: Room,
        admission: Admission,
        starter: Starter,
        takeover: Takeover,
        events: Events = LOG_ALONE,
    ) -> None:
        self._claiming = claiming
        self._clock = clock
        self._room = room
        self._admission = admission
        self._starter = starter
        self._takeover = takeover
        self._pause = claiming.pace.window / 2
        # What was put by then for later is still found in time.
        self._longest_pause = claiming.pace.window * 3 / 4
        self._claim_at = ZERO
        self._take_over_at = ZERO
        self._step = 1
        self._asked = False
        self._looks = True
        self._repeats = Repeats(clock, settling=claiming.settling)
        self._all_due_taken = False
        self.hungry = self._full = False
        self.ticker = Ticker(
            "instance runner",
            self.tick,
            interval=self._longest_pause,
            clock=clock.base,
            longest_backoff=LONGEST_BACKOFF,
            events=events,
        )

    @property
    def free(self) -> int:
        """How many workers are free for what nobody has to claim.

        None if there was more to claim than there was room for, the last time, or it is
        not known what has been claimed.
        """
        if self._full or self._claiming.unanswered.any:
            return 0
        return self._room.free

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
        if self.hungry:
            self.look()

    def tick(self) -> timedelta | None:
        """Claim a batch, if it is time to, and answer when to do so again."""
        self._admission.begin()
        try:
            self._clock.refresh()
            self._room.give_back_overdue()
            if self._asked:
                self._asked = False
                self._repeats.begin()
            repeats = self._repeats.take()
            if self._looks or repeats or self._wait() <= ZERO:
                # Before the claim: what is new after it has been read needs another.
                self._looks = False
                if self._claiming.unanswered.give_back():
                    self._repeats.begin()
                if not self._take_over():
                    self._claim()
        except BaseException:
            self._claiming.contact.broke()
            self._looks = True
            raise
        return self._next()

    def _claim(self) -> None:
        # Before the room is measured: what comes free later has to call for a look.
        self.hungry = True
        room = self._room.measure(all_due_taken=self._all_due_taken)
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
        self.hungry = self._full = full = len(instances) == room.limit
        self._all_due_taken = full and self._is_to_come(instances[-1])
        # By the room there was: what has started since has left some for what is new.
        if not room.ahead:
            pause /= 10
        self._claim_at = self._clock.elapsed() + (ZERO if full else pause)

    def _is_to_come(self, instance: TaskInstance) -> bool:
        # One that has to have a slot is not started by its claim, due or not.
        return (
            instance.started_at is None
            and instance.due_at > self._clock.now() + self._starter.lead
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
            self.hungry = True
            room = self._room.measure(all_due_taken=False)
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
        self.hungry = self._full = self._all_due_taken = False
        self._claim_at = self._clock.elapsed() + self._longest_pause

    def _claim_some(
        self, room: Allowance, *, lapsed: timedelta | None
    ) -> Sequence[TaskInstance]:
        lead = self._starter.lead
        watch = self._admission.watch()
        instances = self._claiming.claim(
            ahead=self._claiming.pace.ahead if room.ahead else lead,
            lead=lead,
            limit=room.limit,
            lapsed=lapsed,
        )
        self._starter.add(self._admission.admit(instances, watch))
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
