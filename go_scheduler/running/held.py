"""What a node has in its hands: its claims, by how far each has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence, Set
    from datetime import timedelta
    from uuid import UUID

    from go_scheduler.running.held_run import HeldRun
    from go_scheduler.stores.messages import Claim


class Held:
    """The runs of a node that have not ended.

    A run *waits* for its time, is *due* and needs a worker, and *runs*. Each step
    succeeds for one caller only, so that a run that is given back is not called as
    well: taking a key out of a dictionary is atomic, and whoever gets it goes on. A run
    enters its next stage before it leaves the last, so that it is never in none. Of
    what runs some may *hang*, and of these some be set *apart*: they keep no worker.

    Those that wait also stand in an agenda, the starter's or the timer's.
    """

    def __init__(self) -> None:
        # Dictionaries for their order: the first is the one that has been there
        # longest.
        self._waiting: dict[HeldRun, object] = {}
        self._due: dict[HeldRun, object] = {}
        self._running: dict[HeldRun, object] = {}
        self._hung: dict[HeldRun, None] = {}
        self._apart: dict[HeldRun, None] = {}

    @property
    def waiting(self) -> int:
        """How many runs wait for their time."""
        return len(self._waiting)

    @property
    def due_count(self) -> int:
        """How many runs need a worker and have none."""
        return len(self._due)

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

    @property
    def hanging(self) -> int:
        """How many of them are presumed hung."""
        return len(self._hung)

    def hung(self) -> Collection[HeldRun]:
        """Those of them that are presumed hung."""
        return self._hung.copy()

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
        self._mark(run, self._hung)

    def set_apart(self, run: HeldRun) -> bool:
        """Say that a called run keeps no worker any more; false: it has come back."""
        return self._mark(run, self._apart)

    def has(self, run: HeldRun) -> bool:
        """Whether it has not ended."""
        return run in self._waiting or run in self._due or run in self._running

    def drop(self, run: HeldRun) -> bool:
        """Let go of a run that was not called; false if it was called or let go."""
        return _take(run, self._waiting) or _take(run, self._due)

    def end(self, run: HeldRun) -> None:
        """Say that a called run has come back, or never will."""
        self._running.pop(run, None)
        self._hung.pop(run, None)
        self._apart.pop(run, None)

    def _mark(self, run: HeldRun, marked: dict[HeldRun, None]) -> bool:
        # In this order: what ends meanwhile takes the mark off, or it is seen here.
        marked[run] = None
        if run in self._running:
            return True
        marked.pop(run, None)
        return False


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
