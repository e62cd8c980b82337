"""The recorder: decides what follows from a run's end, and has it written."""

from __future__ import annotations

import logging
import traceback
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.events.bounded_log import BoundedLog
from go_scheduler.models import Outcome
from go_scheduler.running.outbox import End, Outbox
from go_scheduler.stores.base import transactional
from go_scheduler.stores.messages import Release, RunOutcome
from go_scheduler.triggers.base import next_fire_time_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime

    from go_scheduler.clock import StoreClock
    from go_scheduler.run import Run
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Claim

ERROR_LIMIT = 16 * 1024
"""The most characters of a traceback that are kept: the last ones."""

_SECOND = timedelta(seconds=1)
_FAILED_TRIGGER = timedelta(minutes=1)
_NOT_COMMITTED = "the transaction of complete_in() was not committed"


class Recorder:
    """Decides what follows from a run's end, and writes it.

    Args:
        store: Where to write.
        clock: The store's time, as this node has it.
        max_hangs: How many runs in a row may hang before their instance has *failed*;
            None: no end.
        wake: Makes the recorder's ticker tick.
        recorded: Called after a write that made room.
    """

    def __init__(
        self,
        store: Store,
        clock: StoreClock,
        *,
        max_hangs: int | None,
        wake: Callable[[], None],
        recorded: Callable[[], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._max_hangs = max_hangs
        self._left_behind = False
        self._outbox = Outbox(
            store,
            clock,
            wake=wake,
            written=recorded,
            rolled_back=self._report_rolled_back,
        )
        self._log = BoundedLog(logging.getLogger(__name__))
        self._log_begun: timedelta | None = None

    @property
    def unrecorded(self) -> int:
        """How many ends the store has not taken yet."""
        return len(self._outbox)

    @property
    def backlog(self) -> int:
        """How many of them keep the node from claiming more."""
        return self._outbox.backlog

    def unrecorded_runs(self) -> Sequence[Run]:
        """The runs that have ended and still need their claim."""
        return self._outbox.runs()

    def claims(self) -> Collection[Claim]:
        """The claims of what the store has not taken yet, of what is given back too."""
        return [run.claim for run in self._outbox.runs()]

    def written_since(self, elapsed: timedelta) -> int:
        """How many called runs were recorded since then; older ones are forgotten."""
        return self._outbox.written_since(elapsed)

    def tick(self) -> timedelta | None:
        """Write what has gathered, unless the last write was a moment ago."""
        elapsed = self._clock.elapsed()
        if self._log_begun is None or elapsed >= self._log_begun + _SECOND:
            self._log_begun = elapsed
            self._log.begin()
        return self._outbox.tick()

    def succeed(self, run: Run) -> None:
        """Record that a handler returned."""
        if run.joined:
            self._fail_unless_committed(run, None)
        else:
            self._put(run, self._end_of(run, Outcome.COMPLETED))

    def complete_in(self, run: Run, connection: object) -> bool:
        """Record success within a transaction of the user's; false: it is not ours."""
        store = transactional(self._store)
        end = self._end_of(run, Outcome.COMPLETED)
        return store.finish_instance_in(connection, end)

    def leave_behind(self) -> None:
        """Give back what fails from now on: what it needs goes with the program."""
        self._left_behind = True

    def fail(self, run: Run, error: str) -> None:
        """Record that a run did not succeed: cancelled, due again, or failed."""
        if run.joined:
            self._fail_unless_committed(run, error)
        elif self._left_behind:
            self.give_back(run, error)
        else:
            self._fail(run, error)

    def give_back(self, run: Run, error: str) -> None:
        """Count no run that was called and could not end, unless it was the last."""
        # A handler that is to be called once is not to be called again.
        if run.cancel_requested or self._due_again(run, error).outcome is not None:
            self._fail(run, error)
        else:
            self._report(run, "was left behind, has failed and is given back", error)
            self.release(run)

    def give_up(self, run: Run, error: str) -> None:
        """Record that a run is presumed hung."""
        if run.joined:
            self._fail_unless_committed(run, error, hung=True)
        else:
            self._fail(run, error, hung=True)

    def _fail_unless_committed(
        self, run: Run, error: str | None, *, hung: bool = False
    ) -> None:
        """Record that the transaction of ``complete_in`` did not commit.

        Only the store knows whether it did: if so, it refuses this.
        """
        text = "\n\n".join(filter(None, [_NOT_COMMITTED, error]))
        self._fail(run, text, raised=error, hung=hung)

    def _fail(
        self, run: Run, error: str, *, raised: str | None = None, hung: bool = False
    ) -> None:
        if run.cancel_requested:
            end = self._end_of(run, Outcome.CANCELLED, error, hung=hung)
        elif hung and self._hangs_for_good(run):
            why = f"hanging: {run.instance.hangs + 1} runs in a row had no end; {error}"
            end = self._end_of(run, Outcome.FAILED, why, hung=True)
        else:
            end = self._due_again(run, error, hung=hung)
        self._put(run, end, raised=raised)
        if not run.joined and not run.cancel_requested:
            self._report_failed(run, end)

    def _hangs_for_good(self, run: Run) -> bool:
        return self._max_hangs is not None and run.instance.hangs + 1 >= self._max_hangs

    def _due_again(self, run: Run, error: str, *, hung: bool = False) -> RunOutcome:
        assert run.called is not None
        retry_in = run.instance.definition.retry.retry_in(
            runs=run.instance.runs,
            ran_for=self._clock.elapsed() - run.called,
            expire_after=run.expire_after,
        )
        if retry_in is None:
            return self._end_of(run, Outcome.FAILED, error, hung=hung)
        return RunOutcome(
            claim=run.claim,
            started_at=run.called_at,
            retry_in=retry_in,
            hung=hung,
            error=error,
        )

    def refuse(self, run: Run, outcome: Outcome, error: str | None = None) -> None:
        """Record the end of an instance whose handler is not to be called."""
        end = self._end_of(run, outcome, error)
        self._put(run, end)
        if outcome is Outcome.FAILED:
            self._report_failed(run, end)

    def release(self, run: Run, delay: timedelta = ZERO) -> None:
        """Give back what was not called, for any node to claim after the delay."""
        self._put(run, Release(claim=run.claim, delay=delay))

    def release_late(self, run: Run) -> None:
        """Give back what was not called because its claim is about to lapse."""
        self._log.write(
            logging.WARNING,
            "instance %s: attempt %d is not called, too little is left of its claim",
            run.claim.instance_id,
            run.claim.attempt,
            ids=_ids(run),
        )
        self.release(run)

    def _put(
        self, run: Run, record: RunOutcome | Release, *, raised: str | None = None
    ) -> None:
        self._outbox.put(End(run, record, raised=raised))

    def _end_of(
        self,
        run: Run,
        outcome: Outcome,
        error: str | None = None,
        *,
        hung: bool = False,
    ) -> RunOutcome:
        return RunOutcome(
            claim=run.claim,
            started_at=run.called_at,
            outcome=outcome,
            hung=hung,
            error=error,
            next_fire_time=self._next_fire_time(run),
        )

    def _next_fire_time(self, run: Run) -> datetime | None:
        """When the definition of an ended run fires next, if it waited for that."""
        definition = run.instance.definition
        if not definition.trigger.waits:
            return None
        now = self._clock.now()
        try:
            return next_fire_time_of(definition.trigger, now)
        # Foreign code: SystemExit would end the worker that called the handler.
        except BaseException as error:
            self._log.write(
                logging.ERROR,
                "definition %s: its trigger failed, it fires again in a minute: %r",
                definition.id,
                error,
                ids={"definition_id": definition.id},
                error=error,
            )
            return now + _FAILED_TRIGGER

    def _report_failed(self, run: Run, end: RunOutcome) -> None:
        """Say why a run failed, and what becomes of its instance."""
        if end.outcome:
            self._report(run, "has failed for good", end.error, level=logging.ERROR)
        else:
            what = f"has failed and runs again in {end.retry_in}"
            self._report(run, what, end.error)

    def _report(
        self, run: Run, what: str, error: str | None, *, level: int = logging.WARNING
    ) -> None:
        definition = run.instance.definition
        self._log.write(
            level,
            "instance %s of %s: attempt %d %s: %s",
            run.claim.instance_id,
            definition.name or definition.id,
            run.claim.attempt,
            what,
            error,
            ids={**_ids(run), "definition_id": definition.id},
        )

    def _report_rolled_back(self, run: Run, end: RunOutcome) -> None:
        """Say that a run has failed, if that was found out only by its recording."""
        if end.outcome is not Outcome.CANCELLED:
            self._report_failed(run, end)


def _ids(run: Run) -> dict[str, object]:
    return {"instance_id": run.claim.instance_id, "attempt": run.claim.attempt}


def describe_error(error: BaseException) -> str:
    """An exception's traceback as text that every store can keep."""
    try:
        text = "".join(traceback.format_exception(error))
    # Its own code makes the text, and may do anything.
    except BaseException:
        text = f"{type(error).__name__}, whose text cannot be made"
    text = text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()
    return text[-ERROR_LIMIT:]
