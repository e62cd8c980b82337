"""The overdue: runs that take too long, ended at their timeout or given up."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.events.event import of_instance
from go_scheduler.events.hub import LOG_ALONE, Events
from go_scheduler.events.instance_events import RunHung, RunTimedOut

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.running.held import Held
    from go_scheduler.running.held_run import HeldRun
    from go_scheduler.running.recorder import Recorder

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
