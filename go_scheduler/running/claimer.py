"""Loop 2, the claimer: claims what is due within its window, and lets in what comes."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from go_scheduler.clock import ZERO
from go_scheduler.errors import (
    ConflictError,
    QueueFullError,
    StoreError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.events import ClaimAnswerLost
from go_scheduler.running.held import HeldRun
from go_scheduler.running.start_queue import LONGEST_BACKOFF, StartQueue
from go_scheduler.running.state import NodeState, Part
from go_scheduler.stores.base import is_run_by
from go_scheduler.stores.messages import (
    Claim,
    Claimant,
    Firing,
    Own,
    ReadLater,
    Release,
)
from go_scheduler.stores.rules import uses_slot
from go_scheduler.ticking.retry_later import write_each
from go_scheduler.ticking.ticker import Pace, Repeats

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence, Set

    from go_scheduler.models import TaskInstance
    from go_scheduler.running.calling.waiters import Waiters
    from go_scheduler.running.calling.workers import Workers
    from go_scheduler.running.recovery import Presence
    from go_scheduler.running.result_writer import ResultWriter
    from go_scheduler.running.withdrawing import Watch

DirectStart: TypeAlias = (
    "tuple[Claimant | None, Callable[[Sequence[TaskInstance]], None]]"
)
"""As ``Claimer.directly`` answers it."""

_STEP = timedelta(milliseconds=100)
_BATCH = 500
_SMALL_BATCH = 100
_PAGE = 500
# For so long the store may still be at work on a claim whose answer was lost.
_MAY_STILL_COME = timedelta(seconds=5)


def longest_between_claims(pace: Pace) -> timedelta:
    """How long claims may pause: what was put by then for later is found in time."""
    return pace.window * 3 / 4


class Subscription(Part):
    """Queues from which a node claims: how much it takes, and when it claims next.

    Args:
        state: What the node's parts share.
        queues: Which queues.
        claimer: Claims; knows how many workers are free, and what has lapsed.

    Attributes:
        claimed_at: The elapsed time of its last claim.
    """

    def __init__(
        self, state: NodeState, queues: tuple[str, ...], claimer: Claimer
    ) -> None:
        super().__init__(state)
        self.queues = queues
        self._claimer = claimer
        self._workers = claimer.workers
        self._pause = state.pace.window / 2
        self._longest_pause = longest_between_claims(state.pace)
        self.claimed_at = ZERO
        self._claim_at = ZERO
        self._take_over_at = ZERO
        self._step = 1
        self._asked = False
        self._looks = True
        self._repeats = Repeats(state.clock, settling=state.store.settling)
        self._all_due_taken = False
        self._hungry = self._full = False

    @property
    def free(self) -> int:
        """How many workers are free for what nobody has to claim.

        There are none if there was more to claim than there was room for, the last
        time.
        """
        if self._full or self._workers.trouble is not None:
            return 0
        return self._workers.free(self.queues)

    def look(self) -> None:
        """Claim at the next tick: there may be something new, or new room."""
        self._asked = True
        self._looks = True

    def poll(self) -> None:
        """Claim at the next tick as if it were time to; and once only."""
        self._looks = True

    def fill(self) -> bool:
        """Claim at the next tick if there is something left to claim; true if so."""
        if self._hungry:
            self.look()
        return self._hungry

    def repeat(self) -> None:
        """Claim again a little later: a scan may have left something out."""
        self._repeats.begin()

    def is_time(self) -> bool:
        """Whether to claim now."""
        if self._asked:
            self._asked = False
            self._repeats.begin()
        repeats = self._repeats.take()
        return self._looks or repeats or self._wait() <= ZERO

    def claim(self, most: int) -> None:
        """Claim what has lapsed, or else what is due; so many at most."""
        self.claimed_at = self._clock.elapsed()
        # Before the claim: what is new after it has been read needs another.
        self._looks = False
        if not self._take_over(most):
            self._claim(most)

    def next(self) -> timedelta:
        """How long until the next claim, or its repeat, is due."""
        if self._looks:
            return ZERO
        repeat = self._repeats.wait
        wait = self._wait()
        return max(ZERO, wait if repeat is None else min(wait, repeat))

    def _claim(self, most: int) -> None:
        # Before the room is measured: what comes free later has to call for a look.
        self._hungry = True
        limit, ahead = self._room(most, all_due_taken=self._all_due_taken)
        self._all_due_taken = False
        pause = self._pause
        if limit <= 0:
            self._full = True
            self._claim_at = self._clock.elapsed() + pause
            return
        instances = self._claimer.claim(self.queues, limit, ahead=ahead)
        if ahead and not instances:
            self._rest()
            return
        self._hungry = self._full = full = len(instances) == limit
        self._all_due_taken = full and self._claimer.knows_to_come(instances)
        # By the room there was: what has started since has left some for what is new.
        if not ahead:
            pause /= 10
        self._claim_at = self._clock.elapsed() + (ZERO if full else pause)

    def _room(self, most: int, *, all_due_taken: bool) -> tuple[int, bool]:
        """How much a claim may take now, and whether also what is still to come.

        Of what is due no more than can be called within a window: the free workers, and
        as many as came free in the last one. Of what is not due yet, what may be held.

        Args:
            most: No more than so many.
            all_due_taken: Whether the claim before has left nothing that is due.
        """
        if not self._workers.ready():
            return 0, True
        since = self._clock.elapsed() - self._pace.window
        recently = self._claimer.writer.written_since(since)
        coming = self._claimer.in_flight
        due = self._workers.free(self.queues, recently) - coming
        ahead = self._workers.ahead(self.queues) - coming
        if ahead <= 0:
            return min(due, most), False
        if due > 0 and all_due_taken:
            return min(ahead, most), True
        return min(due, ahead, most), True

    def _take_over(self, most: int) -> bool:
        """Claim what has lapsed: one first, then two, then four, while there is more.

        One of them may have killed its process, and will kill this one: it must not
        take with it, again and again, whatever has lapsed along with it.

        Returns:
            Whether it was a claim of all there is, and met nothing.
        """
        lapsed = self._claimer.presence.lapsed
        if lapsed is None:
            self._step = 1
        elif self._clock.elapsed() >= self._take_over_at:
            self._hungry = True
            limit, ahead = self._room(min(most, self._step), all_due_taken=False)
            taken: Sequence[TaskInstance] = []
            if limit > 0:
                taken = self._claimer.claim(
                    self.queues, limit, ahead=ahead, lapsed=lapsed
                )
            # Those that nobody had claimed before come last: nothing more has lapsed.
            full = 0 < limit == len(taken) and taken[-1].attempt > 1
            self._step = 2 * self._step if full else 1
            pause = _STEP if full else max(self._pause, self._claimer.presence.pause)
            self._take_over_at = self._clock.elapsed() + pause
            if limit > 0 and ahead and not taken:
                self._rest()
                return True
        return False

    def _rest(self) -> None:
        """Claim no more for as long as nothing comes up that nobody tells of."""
        self._hungry = self._full = self._all_due_taken = False
        self._claim_at = self._clock.elapsed() + self._longest_pause

    def _wait(self) -> timedelta:
        """How long until it is time for a claim."""
        at = self._claim_at
        if self._step > 1:
            at = min(at, self._take_over_at)
        return at - self._clock.elapsed()


class Claimer(Part):
    """Claims what is due within its window, and passes it on to the start queue.

    What this process creates and is due starts directly: the write that creates it
    claims and starts it as well. That is so only while there are workers free for it
    and nothing else is left to be claimed; else a claim says what is next, and where.

    What the store gives is let in at once, or on a thread of its own: whoever creates
    an instance may be within a request, whose context is not the handler's. And while
    many instances are read, the next claim is sent. What a claim has taken whose answer
    was lost is not known here, and given back.

    Args:
        state: What the node's parts share.
        writer: Writes what becomes of runs.
        workers: Take what is claimed.
        start_queue: Takes what has come.
        presence: Says which lapsed claims may be taken over.

    Attributes:
        writer: As given.
        workers: As given.
        presence: As given.
        in_flight: How many instances the store may have given, or has, and are not held
            yet.
        ticker: Lets it tick.
        arriving: Lets in what comes, on a thread of its own.
    """

    def __init__(
        self,
        state: NodeState,
        *,
        writer: ResultWriter,
        workers: Workers | Waiters,
        start_queue: StartQueue,
        presence: Presence,
    ) -> None:
        super().__init__(state)
        self.writer = writer
        self.workers = workers
        self._start_queue = start_queue
        self.presence = presence
        self._longest_pause = longest_between_claims(self._pace)
        self._starts_directly = True
        # Replaced as a whole: other threads add and remove.
        self._subscriptions: tuple[Subscription, ...] = ()
        self.ticker = state.ticker(
            "instance runner",
            self.tick,
            self._longest_pause,
            longest_backoff=LONGEST_BACKOFF,
        )
        # Held by whoever looks whether there is room; a signal handler may create
        # something in the thread that has it.
        self._lock = threading.RLock()
        self.in_flight = 0
        self._lost_at: timedelta | None = None
        self._inbox: deque[tuple[Sequence[TaskInstance], Watch]] = deque()
        self._closed = False
        self.arriving = state.ticker("arrivals", self._let_in)
        state.room_made.connect(self.fill)
        state.work_found.connect(self.look)

    def subscribe(self, queues: tuple[str, ...]) -> None:
        """Claim from these queues as well, as one set."""
        subscription = Subscription(self._state, queues, self)
        self._serve((*self._subscriptions, subscription))
        self.ticker.wake()

    def unsubscribe(self, queues: tuple[str, ...]) -> None:
        """Claim from this set of queues no more."""
        self._serve(
            tuple(each for each in self._subscriptions if each.queues != queues)
        )

    def free(self, queues: Collection[str]) -> int:
        """How many more would run at once, in each of these queues.

        There are none if it is not known what has been claimed.
        """
        if self._lost_at is not None:
            return -self.in_flight
        free = min(
            sum(each.free for each in self._subscriptions if queue in each.queues)
            for queue in queues
        )
        return free - self.in_flight

    def stop_starting(self) -> None:
        """Start nothing directly any more; what is under way is not waited for."""
        self._starts_directly = False

    def look(self, queues: Set[str] | None = None) -> None:
        """Claim at once: there may be something new.

        Args:
            queues: In which queues; None: in any.
        """
        for each in self._subscriptions:
            if queues is None or not queues.isdisjoint(each.queues):
                each.look()
                self.ticker.wake()

    def poll(self) -> None:
        """Claim as if it were time to; and once only."""
        for each in self._subscriptions:
            each.poll()
        self.ticker.wake()

    def fill(self) -> None:
        """Claim at once if there is something left to claim: there is room for it."""
        filled = [each.fill() for each in self._subscriptions]
        if any(filled):
            self.ticker.wake()

    def tick(self) -> timedelta | None:
        """Claim a batch of each set, if it is time to; answer when to do so again."""
        try:
            self._clock.refresh()
            self._give_back_overdue()
            due = [each for each in self._subscriptions if each.is_time()]
            if due and self.give_back_unknown():
                for each in self._subscriptions:
                    each.repeat()
            began = self._clock.elapsed()
            # One set is not to wait until all that is due in another one is claimed.
            most = _BATCH if len(due) == 1 else _SMALL_BATCH
            # One that fails is the last the next time.
            for each in sorted(due, key=attrgetter("claimed_at")):
                each.claim(most)
            if len(self._subscriptions) > 1:
                self._pace.waited(self._clock.elapsed() - began)
        except BaseException:
            self._contact.broke()
            for each in self._subscriptions:
                each.poll()
            raise
        return min((each.next() for each in self._subscriptions), default=None)

    def claim(
        self,
        queues: tuple[str, ...],
        limit: int,
        *,
        ahead: bool,
        lapsed: timedelta | None = None,
    ) -> Sequence[TaskInstance]:
        """Claim from some queues, and pass on what has come.

        Args:
            queues: From which.
            limit: How many.
            ahead: Whether also what is still to come; else what is about to start.
            lapsed: As for ``Store.claim_instances``.
        """
        lead = self._start_queue.lead
        until = self._pace.ahead if ahead else lead
        shares, own = self._shares, None
        if shares.are_any:
            # In other nodes' shards only what they have not claimed by their last look.
            others = min(until, lead + self._longest_pause)
            until += self._longest_pause if ahead else ZERO
            own = {
                each: Own(shards=shares.of_claiming(each), others=others)
                for each in queues
            }
        with self._asking() as watch:
            sent = self._clock.elapsed()
            instances = self._store.claim_instances(
                replace(self._state.claimant, queues=queues, own=own),
                ahead=until,
                lead=lead,
                limit=limit,
                lapsed=lapsed,
                deadline=self._clock.now() + self._state.claimant.lease / 3,
            )
            self._contact.made()
            self._pace.took(self._clock.elapsed() - sent)
            # Two are in flight at most: this one, and the next that is sent meanwhile.
            if isinstance(instances, ReadLater) and not self.in_flight:
                self._add(instances, watch)
            else:
                # They may be read only here, and may not be readable.
                self._start_queue.take(instances, watch)
        return instances

    def knows_to_come(self, instances: Sequence[TaskInstance]) -> bool:
        """Whether the last is to come; not of many that are yet to be read."""
        if isinstance(instances, ReadLater):
            return False
        last = instances[-1]
        # One that has to have a slot is not started by its claim, due or not.
        return (
            last.started_at is None
            and last.due_at > self._clock.now() + self._start_queue.lead
        )

    def firing(self, firings: Sequence[Firing]) -> AbstractContextManager[DirectStart]:
        """As ``directly``, of firings; on a thread of the node's own."""
        now, claimant = self._clock.now(), self.presence.claimant
        may_start = all(_may_start(each, claimant, now) for each in firings)
        queues = {each.definition.queue for each in firings}
        return self.directly(len(firings) if may_start else 0, queues, here=True)

    @contextmanager
    def directly(
        self, count: int, queues: Collection[str], *, here: bool = False
    ) -> Iterator[DirectStart]:
        """Let a write start what it makes and is due, if there is room for it here.

        Args:
            count: How much it makes at most; zero: it is not to start anything.
            queues: In which queues.
            here: Whether what was started is taken on this thread.

        Returns:
            The claimant for the write, None if it is not to start anything; and what
            takes the instances that were started.
        """
        if not (count and self._begin(count, queues)):
            yield None, _take_nothing
            return
        try:
            with self._asking() as watch:
                take = self._start_queue.take if here else self._add
                yield self.presence.claimant, partial(take, watch=watch)
        finally:
            self._coming(-count)

    def hold_late(self) -> None:
        """Hold what has come too late to be run, as the node is about to give back."""
        if self.arriving.ended:
            self._take_in(self._hold)

    def give_back_unknown(self) -> bool:
        """Give back what was claimed by calls whose answer was lost; true if any."""
        # In this order: none comes under way once an answer is lost.
        if self._lost_at is None or self.in_flight:
            return False
        self._events.begin()
        # Before the list is asked for: what comes behind it is not in it.
        has_come = self._clock.elapsed() - self._lost_at >= _MAY_STILL_COME
        unknown = self._list_unknown()
        releases = [Release(claim=claim) for claim in unknown]
        written = write_each(releases, self._store.release_instances)
        if unknown:
            lost = ClaimAnswerLost(node=self._state.node, count=len(unknown))
            self._events.tell(lost)
        if has_come and not (written.failed or written.busy):
            self._lost_at = None
        return bool(unknown)

    def close(self) -> None:
        """Leave it to whoever adds more to give that back."""
        self._closed = True
        self._give_back()

    def _begin(self, count: int, queues: Collection[str]) -> bool:
        """Begin if so many can run at once; false: it is not to be."""
        with self._lock:
            # Noted first: whoever looks for lost answers sees it, or this sees that one
            # is lost.
            self._coming(count)
            begins = self._starts_directly and self.free(queues) >= 0
            if not begins:
                self._coming(-count)
            return begins

    def _coming(self, count: int) -> None:
        """Note that so many more may come; below zero: are held, or have not come."""
        with self._lock:
            self.in_flight += count

    @contextmanager
    def _asking(self) -> Iterator[Watch]:
        """Ask the store for instances, and let in what it gives.

        What is edited meanwhile is noted, and that an answer was lost, or not let in.
        """
        watch = self._start_queue.withdrawing.watch()
        try:
            yield watch
        except (ConflictError, QueueFullError, TaskDefinitionNotFoundError):
            raise
        except BaseException:
            self._lost_at = self._clock.elapsed()
            raise

    def _add(self, instances: Sequence[TaskInstance], watch: Watch) -> None:
        """Take what the store has given, to be let in soon.

        Args:
            instances: They may be read from their rows when they are let in.
            watch: What is edited since they were asked for.
        """
        self._coming(len(instances))
        self._inbox.append((instances, watch))
        self.arriving.wake()
        if self._closed:
            self._give_back()

    def _let_in(self) -> None:
        self._take_in(self._start_queue.take)

    def _take_in(self, take: Callable[[Sequence[TaskInstance], Watch], None]) -> None:
        while self._inbox:
            instances, watch = self._inbox.popleft()
            try:
                take(instances, watch)
            except BaseException:
                self._lost_at = self._clock.elapsed()
                raise
            finally:
                self._coming(-len(instances))

    def _hold(self, instances: Sequence[TaskInstance], watch: Watch) -> None:
        runs = [HeldRun(each, self._defaults) for each in instances]
        self._held.add(runs)
        self._start_queue.withdrawing.let_in(runs, watch)

    def _give_back(self) -> None:
        """Give back what nobody else does any more, in whatever thread has found it."""
        while self._inbox:
            # Another thread may be at it.
            with suppress(IndexError):
                instances, _ = self._inbox.popleft()
                self._coming(-len(instances))
                # Else the claims lapse.
                with suppress(StoreError):
                    self._store.release_instances(
                        [Release(claim=Claim.of(each)) for each in instances]
                    )

    def _list_unknown(self) -> Sequence[Claim]:
        # Before the list is read: what ends meanwhile is in both or in neither, and
        # only the thread that claims comes here.
        known = {*self._held.claims(), *self.writer.claims()}
        unknown: list[Claim] = []
        list_claimed = partial(self._store.list_claimed, self._state.node, limit=_PAGE)
        page = list_claimed(after=None)
        while page:
            claims = [Claim.of(each) for each in page]
            unknown += [each for each in claims if each not in known]
            page = list_claimed(after=page[-1])
        return unknown

    def _serve(self, subscriptions: tuple[Subscription, ...]) -> None:
        self._subscriptions = subscriptions
        self._state.serve(queue for each in subscriptions for queue in each.queues)

    def _give_back_overdue(self) -> None:
        """Give back what has found no worker for longer than a window."""
        for run in self._held.due(before=self._clock.elapsed() - self._pace.window):
            self.writer.give_back(run, "no worker has been free for it")


def _take_nothing(_: Sequence[TaskInstance]) -> None:
    """Nothing was started."""


def _may_start(firing: Firing, claimant: Claimant, now: datetime) -> bool:
    """Whether a firing makes one instance that is due and that the node may start."""
    of = firing.definition
    at = [execute_at for _, execute_at in firing.instances()]
    return (
        len(at) == 1
        and at[0] <= now
        and firing.skipped is None
        and not (of.trigger.waits or uses_slot(of))
        and is_run_by(of, claimant)
    )
