"""What a node has in its hands: its claims, by how far each has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.stores.messages import Claim

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence, Set
    from datetime import datetime, timedelta
    from uuid import UUID

    from go_scheduler.models import TaskInstance
    from go_scheduler.running.defaults import Defaults


class HeldRun:
    """One run of an instance, from its claim until its outcome is recorded.

    Attributes:
        instance: What is run.
        claim: The right to it.
        expires_at: Until when that holds, as far as this node knows.
        expire_after: How long it may take.
        allowed: The same, with what its handler has asked for.
        timeout: How long its handler may run before it is told to end; None: no limit.
        timed_out: Whether its handler has been told to end, as its timeout has passed.
        lost: Whether the claim has passed to another run, or the instance has ended:
            of what becomes of this run only a success is recorded, if it is the first.
        joined: Whether ``complete_in`` has been called: this run succeeds by that
            transaction or not at all.
        cancel_requested: Whether somebody asked it to stop.
        due_since: The elapsed time at which it was handed over to the workers.
        called: The elapsed time at which its handler was called.
        called_at: When its handler was called, by the store's time.
        begun: Whether nothing stands between this and the call of its handler.
    """

    def __init__(self, instance: TaskInstance, defaults: Defaults) -> None:
        self.claim = Claim.of(instance)
        self._defaults = defaults
        self.start(instance)
        self._handing_on = False
        self.timed_out = False
        self.lost = False
        self.joined = False
        self.cancel_requested = instance.cancel_requested
        self.due_since: timedelta | None = None
        self.called: timedelta | None = None
        self.called_at: datetime | None = None
        self.begun = False
        self._undecided = True
        self._extended: Callable[[], None] | None = None
        self._complete: Callable[[HeldRun, object], bool] | None = None

    @property
    def settled(self) -> bool:
        """Whether its outcome has been decided, by its end or because it hung."""
        return not hasattr(self, "_undecided")

    def settle(self) -> bool:
        """Decide its outcome; false if that has been done."""
        try:
            # Atomic: of two that try, one finds it.
            del self._undecided
        except AttributeError:
            return False
        return True

    def start(self, instance: TaskInstance) -> HeldRun:
        """Note what the instance is by now, as when its start has been recorded."""
        assert instance.expires_at is not None
        self.instance = instance
        self.expires_at: datetime = instance.expires_at
        self.expire_after = self._defaults.expire_after_of(instance)
        self.allowed = self.expire_after
        self.timeout = self._defaults.timeout_of(instance)
        return self

    def begin(
        self,
        elapsed: timedelta,
        now: datetime,
        extended: Callable[[], None],
        *,
        complete: Callable[[HeldRun, object], bool] | None = None,
    ) -> None:
        """Note that the handler is being called.

        Args:
            elapsed: The clock's elapsed time.
            now: The store's time.
            extended: Called when the run is allowed more time.
            complete: Records success within a transaction of the user's; false: the
                instance has ended, and not as *failed*.
        """
        self.called = elapsed
        self.called_at = max(now, self.instance.due_at)
        self._extended = extended
        self._complete = complete

    def left(self, elapsed: timedelta) -> timedelta:
        """What is left of what it may take; zero at least, all before the call."""
        if self.called is None:
            return self.allowed
        return max(ZERO, self.called + self.allowed - elapsed)

    def until_over(self, elapsed: timedelta) -> timedelta:
        """How long until its timeout or all that it may take has passed."""
        left, timeout = self.left(elapsed), self.until_timeout(elapsed)
        return left if timeout is None else min(left, timeout)

    def until_timeout(self, elapsed: timedelta) -> timedelta | None:
        """How long until its timeout; None: none counts here, or it was told to end."""
        timeout = self.timeout
        if timeout is None or self._handing_on or self.timed_out:
            return None
        assert self.called is not None
        return max(ZERO, self.called + timeout - elapsed)

    def hand_on(self) -> None:
        """Have its timeout count where it is handed on to, and not here."""
        self._handing_on = True

    def time_out(self, *, grace: timedelta) -> None:
        """Note that its timeout has passed, and what its handler has left to end."""
        assert self.timeout is not None
        self.timed_out = True
        self.allowed = self.timeout + grace

    def because(self, error: str) -> str:
        """Why it failed: this, and that it was told to end if it was."""
        return f"timed out after {self.timeout}\n\n{error}" if self.timed_out else error

    def extend(self, by: timedelta) -> bool:
        """Allow it more time; false: it is decided, has timed out or lost its claim.

        Args:
            by: How much more; above zero.
        """
        if self.lost or self.settled or self.timed_out:
            return False
        self.allowed += by
        if self._extended is not None:
            self._extended()
        return True

    def complete_in(self, connection: object) -> bool:
        """Record success within a transaction of the user's; false: it is over."""
        assert self._complete is not None, "its handler has been called"
        # Before the row is locked: the heartbeat must not wait for it.
        self.joined = True
        return self._complete(self, connection)


# So many of one definition may hang at least, and at most a share of all that may.
_LEAST_EACH = 3
_SHARE = 8


class Held:
    """The runs of a node that have not ended.

    A run *waits* for its time, is *due* and needs a worker, and *runs*. Each step
    succeeds for one caller only, so that a run that is given back is not called as
    well: taking a key out of a dictionary is atomic, and whoever gets it goes on. A run
    enters its next stage before it leaves the last, so that it is never in none. Of
    what runs some may *hang*, and of these some be set *apart*: they keep no worker.

    Those that wait also stand in an agenda of the start queue.

    Args:
        spares: The most handlers that may hang here without costing a worker.

    Attributes:
        hung_runs: What hangs; ``hung()`` answers a copy, for whoever goes over it.
    """

    def __init__(self, *, spares: int = 1) -> None:
        self._spares = spares
        # So many of one definition, and no further run of it begins here.
        self._enough = max(1, min(max(_LEAST_EACH, spares // _SHARE), spares - 1))
        # Runs that were begun by then may need more, but must leave as many to others.
        self._most_of_one = max(self._enough, spares - self._enough)
        # Dictionaries for their order: the first is the one that has been there
        # longest.
        self._waiting: dict[HeldRun, object] = {}
        self._due: dict[HeldRun, object] = {}
        self._running: dict[HeldRun, object] = {}
        self.hung_runs: dict[HeldRun, None] = {}
        self._apart: dict[HeldRun, None] = {}

    @property
    def waiting(self) -> int:
        """How many runs wait for their time."""
        return len(self._waiting)

    def waiting_in(self, queues: Collection[str]) -> int:
        """How many of them are in some queues."""
        return _count_in(queues, self._waiting)

    def due_in(self, queues: Collection[str]) -> int:
        """How many runs of some queues need a worker and have none."""
        return _count_in(queues, self._due)

    @property
    def busy(self) -> int:
        """How many runs need a worker or have one."""
        return len(self._due) + len(self._running) - len(self._apart)

    def claims(self) -> Set[Claim]:
        """The claims of all runs; of one that goes on meanwhile as well."""
        # In the order of the stages: what has left the one is in the next.
        stages = (self._waiting, self._due, self._running)
        return {run.claim for stage in stages for run in stage.copy()}

    def count_of(self, definition_id: UUID) -> int:
        """How many runs of a definition are held; those apart are left out."""
        stages = (self._waiting.copy(), self._due.copy(), self._running.copy())
        runs = {run for stage in stages for run in stage}.difference(self.apart())
        return sum(run.instance.definition.id == definition_id for run in runs)

    def running(self) -> Collection[HeldRun]:
        """The runs whose handler has been called and has not come back."""
        return self._running.copy()

    def hung(self) -> Collection[HeldRun]:
        """Those of them that are presumed hung."""
        return self.hung_runs.copy()

    def apart(self) -> Collection[HeldRun]:
        """Those that hang and keep no worker."""
        return self._apart.copy()

    def uncalled(self) -> Sequence[HeldRun]:
        """The runs that wait for their time or for a worker."""
        return [*self._waiting.copy(), *self._due.copy()]

    def due(self, *, before: timedelta | None = None) -> Sequence[HeldRun]:
        """The runs that wait for a worker, longest waiting first.

        Args:
            before: Only those that fell due before this elapsed time; None: all.
        """
        found = []
        for run in self._due.copy():
            assert run.due_since is not None
            if before is not None and run.due_since >= before:
                break
            found.append(run)
        return found

    def add(self, runs: Iterable[HeldRun]) -> None:
        """Take claimed runs, which now wait for their time."""
        self._waiting.update(dict.fromkeys(runs))

    def fall_due(
        self, runs: Iterable[HeldRun], elapsed: timedelta
    ) -> Sequence[HeldRun]:
        """Say that the time of runs has come; answer those that were still waiting."""
        fallen = []
        for run in runs:
            run.due_since = elapsed
            if _move(run, self._waiting, self._due):
                fallen.append(run)
        return fallen

    def call(self, run: HeldRun) -> bool:
        """Say that a run is being called; false if it is not due any more."""
        return _move(run, self._due, self._running)

    def hang(self, run: HeldRun) -> None:
        """Say that a called run is presumed hung."""
        self._mark(run, self.hung_runs)

    @property
    def are_spares_used_up(self) -> bool:
        """Whether no further run that hangs may be set apart."""
        return len(self._apart) >= self._spares

    def keeping(self) -> Sequence[HeldRun]:
        """Those that hang and keep a worker."""
        return [run for run in self.hung() if run not in self._apart]

    def set_apart(self, run: HeldRun) -> bool:
        """Let a run that hangs keep no worker any more.

        Returns:
            Whether another worker may take its place: there are spares, and it has not
            come back.
        """
        same = _count_of(run.instance, self.apart())
        if self.are_spares_used_up or same >= self._most_of_one:
            return False
        return self._mark(run, self._apart)

    def refusal(self, instance: TaskInstance) -> str | None:
        """Why an instance is left to other nodes, if it is."""
        # All together first: this is asked of every instance.
        if len(self.hung_runs) < self._enough:
            return None
        if _count_of(instance, self.hung()) < self._enough:
            return None
        definition = instance.definition
        return f"{self._enough} runs of {definition.name or definition.id} hang here"

    def has(self, run: HeldRun) -> bool:
        """Whether it has not ended."""
        return run in self._waiting or run in self._due or run in self._running

    def drop(self, run: HeldRun) -> bool:
        """Let go of a run that was not called; false if it was called or let go."""
        return _take(run, self._waiting) or _take(run, self._due)

    def end(self, run: HeldRun) -> None:
        """Say that a called run has come back, or never will."""
        self._running.pop(run, None)
        self.hung_runs.pop(run, None)
        self._apart.pop(run, None)

    def _mark(self, run: HeldRun, marked: dict[HeldRun, None]) -> bool:
        # In this order: what ends meanwhile takes the mark off, or it is seen here.
        marked[run] = None
        if run in self._running:
            return True
        marked.pop(run, None)
        return False


def _count_of(instance: TaskInstance, runs: Iterable[HeldRun]) -> int:
    of = instance.definition.id
    return sum(run.instance.definition.id == of for run in runs)


def _count_in(queues: Collection[str], stage: dict[HeldRun, object]) -> int:
    return sum(run.instance.definition.queue in queues for run in stage.copy())


def _move(
    run: HeldRun, source: dict[HeldRun, object], target: dict[HeldRun, object]
) -> bool:
    # The second caller must not take out what the first has entered.
    mine = object()
    if target.setdefault(run, mine) is not mine:
        return False
    if source.pop(run, _ABSENT) is not _ABSENT:
        return True
    target.pop(run, None)
    return False


def _take(run: HeldRun, stage: dict[HeldRun, object]) -> bool:
    return stage.pop(run, _ABSENT) is not _ABSENT


_ABSENT = object()
