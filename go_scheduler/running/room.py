"""How much a node may claim at a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from go_scheduler.clock import StoreClock
    from go_scheduler.running.calling.calls import Calls
    from go_scheduler.running.calling.workers import Workers
    from go_scheduler.running.held import Held
    from go_scheduler.running.recorder import Recorder
    from go_scheduler.settings import Settings

_BATCH = 500
# So many instances are held before they are due for each that an executor takes whose
# room changes: others may have room for more by then.
_HELD_FOR_EACH = 16


class Allowance(NamedTuple):
    """What a claim may take.

    Attributes:
        limit: How many instances; none if it is not above zero.
        ahead: Whether instances whose time is still to come are among them; else only
            what is about to start.
    """

    limit: int
    ahead: bool


class Room:
    """What a node has room for: workers for what is due, places for what is held.

    Args:
        clock: Measures elapsed time.
        settings: The most to hold, and the runner's window.
        held: The node's runs.
        recorder: Tells how many ends are not recorded, and how many were lately.
        workers: Tells how many there are, and whether they can be given anything.
        calls: Gives back what has not been called.
    """

    def __init__(
        self,
        clock: StoreClock,
        settings: Settings,
        *,
        held: Held,
        recorder: Recorder,
        workers: Workers,
        calls: Calls,
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._held = held
        self._recorder = recorder
        self._workers = workers
        self._calls = calls

    @property
    def free(self) -> int:
        """How many workers there are for what is handed over at this moment."""
        if self._workers.trouble is not None:
            return 0
        return self._free()

    def _free(self, recently: int = 0) -> int:
        backlog, room = self._recorder.backlog, self._workers.room
        if room is None:
            return self._workers.size + recently - self._held.busy - backlog
        # It does not count itself what it was handed and has no room for.
        return min(room - self._held.due_count, self._settings.max_held - backlog)

    @property
    def _most_held(self) -> int:
        most, room = self._settings.max_held, self._workers.room
        return most if room is None else min(most, _HELD_FOR_EACH * room)

    def measure(self, *, all_due_taken: bool) -> Allowance:
        """How much there is now.

        Of what is due no more than can be called within a window: the free workers, and
        as many as came free in the last one. Of what is not due yet, what may be held.

        Args:
            all_due_taken: Whether the claim before has left nothing that is due.
        """
        if not self._workers.ready():
            return Allowance(0, ahead=True)
        since = self._clock.elapsed() - self._settings.runner_window
        recently = self._recorder.written_since(since)
        due = self._free(recently)
        ahead = self._most_held - self._held.waiting
        if ahead <= 0:
            return Allowance(min(due, _BATCH), ahead=False)
        if due > 0 and all_due_taken:
            return Allowance(min(ahead, _BATCH), ahead=True)
        return Allowance(min(due, ahead, _BATCH), ahead=True)

    def give_back_overdue(self) -> None:
        """Give back what has found no worker for longer than a window."""
        window = self._settings.runner_window
        self._calls.give_back_overdue(before=self._clock.elapsed() - window)
