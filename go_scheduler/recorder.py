"""The recorder: writes what became of runs, all that has gathered in one write."""

from __future__ import annotations

import logging
import threading
import traceback
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.batches import write_in_halves
from go_scheduler.bounded_log import BoundedLog
from go_scheduler.clock import ZERO
from go_scheduler.errors import StoreError, TaskInstanceNotFoundError
from go_scheduler.models import Outcome, Release, RunOutcome
from go_scheduler.stores.base import transactional
from go_scheduler.triggers.base import next_fire_time_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime

    from go_scheduler.clock import StoreClock
    from go_scheduler.models import Claim, TaskDefinition, TaskInstance
    from go_scheduler.run import Run
    from go_scheduler.stores.base import Store

ERROR_LIMIT = 16 * 1024
"""The most characters of a traceback that are kept: the last ones."""

_GAP = timedelta(milliseconds=3)
_BATCH = 500
_ASIDE = timedelta(seconds=10)
_SECOND = timedelta(seconds=1)
_FAILED_TRIGGER = timedelta(minutes=1)
_NOT_COMMITTED = "the transaction of complete_in() was not committed"


class Recorder:
    """Decides what follows from a run's end, and writes it.

    It writes at once after a pause, else what has gathered, every few milliseconds.
    What the store does not take is kept and written again.

    Args:
        store: Where to write.
        clock: The store's time, as this node has it.
        wake: Makes the recorder's ticker tick.
        recorded: Called after a write that made room.
    """

    def __init__(
        self,
        store: Store,
        clock: StoreClock,
        *,
        wake: Callable[[], None],
        recorded: Callable[[], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._wake = wake
        self._recorded = recorded
        self._lock = threading.Lock()
        self._pending: deque[RunOutcome | Release] = deque()
        self._writing = 0
        # In none of the queues for a moment, on the way from one to the next.
        self._unrecorded: dict[Claim, None] = {}
        self._announced = False
        self._unsure: set[Claim] = set()
        # Of runs that called complete_in, and have ended.
        self._joined: dict[Claim, _Joined] = {}
        self._log = BoundedLog(logging.getLogger(__name__))
        self._failures = BoundedLog(logging.getLogger(__name__))
        self._failures_begun: timedelta | None = None
        self._aside: deque[tuple[timedelta, RunOutcome | Release]] = deque()
        self._written: deque[tuple[timedelta, int]] = deque()
        self._lately = 0
        self._last: timedelta | None = None

    @property
    def unrecorded(self) -> int:
        """How many ends the store has not taken yet."""
        return len(self._pending) + self._writing + len(self._aside)

    def claims(self) -> Collection[Claim]:
        """The claims of what the store has not taken yet, of what is given back too."""
        return self._unrecorded.copy()

    def written_since(self, elapsed: timedelta) -> int:
        """How many called runs were recorded since then; older ones are forgotten."""
        with self._lock:
            while self._written and self._written[0][0] < elapsed:
                self._lately -= self._written.popleft()[1]
            return self._lately

    def succeed(self, run: Run) -> None:
        """Record that a handler returned."""
        if run.joined:
            self._fail_unless_committed(run, None)
        else:
            self._finish(run, Outcome.COMPLETED)

    def complete_in(self, run: Run, connection: object) -> bool:
        """Record success within a transaction of the user's; false: it is not ours."""
        store = transactional(self._store)
        end = self._end_of(run, Outcome.COMPLETED)
        return store.finish_instance_in(connection, end)

    def fail(self, run: Run, error: str) -> None:
        """Record that a run did not succeed: cancelled, due again, or failed."""
        if run.joined:
            self._fail_unless_committed(run, error)
        else:
            self._fail(run, error)

    def _fail_unless_committed(self, run: Run, error: str | None) -> None:
        """Record that the transaction of ``complete_in`` did not commit.

        Only the store knows whether it did: if so, it refuses this.
        """
        self._joined[run.claim] = _Joined(run.instance.definition, error)
        self._fail(run, "\n\n".join(filter(None, [_NOT_COMMITTED, error])))

    def _fail(self, run: Run, error: str) -> None:
        if run.cancel_requested:
            self._finish(run, Outcome.CANCELLED, error)
            return
        assert run.called is not None
        retry_in = run.instance.definition.retry.retry_in(
            runs=run.instance.runs,
            ran_for=self._clock.elapsed() - run.called,
            expire_after=run.expire_after,
        )
        if retry_in is None:
            end = self._end_of(run, Outcome.FAILED, error)
        else:
            end = RunOutcome(
                claim=run.claim,
                started_at=run.called_at,
                retry_in=retry_in,
                error=error,
            )
        self._put(end)
        if not run.joined:
            self._report_failed(end, run.instance.definition)

    def refuse(self, run: Run, outcome: Outcome, error: str | None = None) -> None:
        """Record the end of an instance whose handler is not to be called."""
        end = self._end_of(run, outcome, error)
        self._put(end)
        if outcome is Outcome.FAILED:
            self._report_failed(end, run.instance.definition)

    def release(self, run: Run, delay: timedelta = ZERO) -> None:
        """Give back what was not called, for any node to claim after the delay."""
        self._put(Release(claim=run.claim, delay=delay))

    def release_late(self, run: Run) -> None:
        """Give back what was not called because its claim is about to lapse."""
        self._log.write(
            logging.WARNING,
            "instance %s: attempt %d is not called, too little is left of its claim",
            run.claim.instance_id,
            run.claim.attempt,
            ids=_ids(run.claim),
        )
        self.release(run)

    def tick(self) -> timedelta | None:
        """Write what has gathered, unless the last write was a moment ago."""
        elapsed = self._clock.elapsed()
        self._take_back(elapsed)
        self._announced = False
        if self._failures_begun is None or elapsed >= self._failures_begun + _SECOND:
            self._failures_begun = elapsed
            self._failures.begin()
        if self._last is not None and (wait := self._last + _GAP - elapsed) > ZERO:
            return wait if self._pending else self._next_aside(elapsed)
        self._log.begin()
        self._writing = min(len(self._pending), _BATCH)
        batch = [self._pending.popleft() for _ in range(self._writing)]
        if not batch:
            return self._next_aside(elapsed)
        try:
            self._write(batch)
        except BaseException:
            # What had been taken before the failure is answered as lost the next time.
            self._unsure.update(end.claim for end in batch)
            self._pending.extendleft(reversed(batch))
            raise
        finally:
            self._writing = 0
        aside = {end.claim for _, end in self._aside}
        for end in batch:
            if end.claim not in aside:
                del self._unrecorded[end.claim]
        self._last = self._clock.elapsed()
        # What was given back has freed no worker.
        freed = sum(
            isinstance(end, RunOutcome) and end.started_at is not None for end in batch
        )
        with self._lock:
            self._written.append((self._last, freed))
            self._lately += freed
        self._recorded()
        return _GAP if self._pending else self._next_aside(elapsed)

    def _finish(self, run: Run, outcome: Outcome, error: str | None = None) -> None:
        self._put(self._end_of(run, outcome, error))

    def _end_of(
        self, run: Run, outcome: Outcome, error: str | None = None
    ) -> RunOutcome:
        return RunOutcome(
            claim=run.claim,
            started_at=run.called_at,
            outcome=outcome,
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

    def _put(self, end: RunOutcome | Release) -> None:
        self._unrecorded[end.claim] = None
        self._pending.append(end)
        # In this order, and reset before the pending are taken: no end waits
        # unannounced.
        if not self._announced:
            self._announced = True
            self._wake()

    def _write(self, batch: Sequence[RunOutcome | Release]) -> None:
        outcomes = [end for end in batch if isinstance(end, RunOutcome)]
        releases = [end for end in batch if isinstance(end, Release)]
        joined = [end for end in outcomes if end.claim in self._joined]
        self._write_outcomes([end for end in outcomes if end.claim not in self._joined])
        write_in_halves(releases, self._store.release_instances, self._set_aside)
        # Last: the others do not wait for a transaction that may still lock these.
        self._write_outcomes(joined)
        if self._unsure:
            self._unsure.difference_update(end.claim for end in batch)

    def _write_outcomes(self, outcomes: Sequence[RunOutcome]) -> None:
        accepted = write_in_halves(
            outcomes, self._store.finish_instances, self._set_aside
        )
        owned = set().union(*(answer.done for answer in accepted))
        aside = {end.claim for _, end in self._aside}
        for end in outcomes:
            # Those set aside have been reported, and are written again.
            if end.claim not in aside:
                joined = self._joined.pop(end.claim, None)
                if end.claim.instance_id in owned:
                    self._report_rolled_back(end, joined)
                else:
                    self._report_not_taken(end, joined)

    def _report_failed(self, end: RunOutcome, definition: TaskDefinition) -> None:
        """Say why a run failed, and what becomes of its instance."""
        follows = "for good" if end.outcome else f"and runs again in {end.retry_in}"
        self._failures.write(
            logging.ERROR if end.outcome else logging.WARNING,
            "instance %s of %s: attempt %d has failed %s: %s",
            end.claim.instance_id,
            definition.name or definition.id,
            end.claim.attempt,
            follows,
            end.error,
            ids={**_ids(end.claim), "definition_id": definition.id},
        )

    def _report_rolled_back(self, end: RunOutcome, joined: _Joined | None) -> None:
        """Say that a run has failed, if that was found out only by its recording."""
        if joined is not None and end.outcome is not Outcome.CANCELLED:
            self._report_failed(end, joined.definition)

    def _report_not_taken(self, end: RunOutcome, joined: _Joined | None) -> None:
        """Say that a result was discarded, unless it has been recorded before.

        That was by the transaction in which the run called ``complete_in``, or by an
        earlier write whose answer was lost.
        """
        claim, unsure = end.claim, end.claim in self._unsure
        found = None
        if joined is not None or unsure:
            found = self._owned_by(claim)
        completed = found is not None and found.outcome is Outcome.COMPLETED
        if joined is not None and completed:
            self._report_raised(claim, joined.error)
        elif unsure and found is not None:
            self._report_rolled_back(end, joined)
        else:
            self._log.write(
                logging.WARNING,
                "instance %s: the result of attempt %d is discarded, its claim is lost",
                claim.instance_id,
                claim.attempt,
                ids=_ids(claim),
            )

    def _report_raised(self, claim: Claim, error: str | None) -> None:
        """Say what a handler raised after its transaction had committed."""
        if error is not None:
            self._log.write(
                logging.ERROR,
                "instance %s: attempt %d is completed, but failed afterwards: %s",
                claim.instance_id,
                claim.attempt,
                error,
                ids=_ids(claim),
            )

    def _owned_by(self, claim: Claim) -> TaskInstance | None:
        """The instance, if nobody has claimed it since."""
        try:
            found = self._store.get_instance(claim.instance_id)
        # Gone, or unreadable: it is only about a line in the log.
        except (StoreError, TaskInstanceNotFoundError):
            return None
        return found if found.attempt == claim.attempt else None

    def _set_aside(self, end: RunOutcome | Release, error: Exception) -> None:
        self._aside.append((self._clock.elapsed() + _ASIDE, end))
        self._log.write(
            logging.ERROR,
            "instance %s: its end cannot be recorded, next try in 10 s: %r",
            end.claim.instance_id,
            error,
            ids=_ids(end.claim),
            error=error,
        )

    def _take_back(self, elapsed: timedelta) -> None:
        while self._aside and self._aside[0][0] <= elapsed:
            self._pending.append(self._aside.popleft()[1])

    def _next_aside(self, elapsed: timedelta) -> timedelta | None:
        return self._aside[0][0] - elapsed if self._aside else None


class _Joined(NamedTuple):
    """Of a run that called ``complete_in``: its definition, and what was raised."""

    definition: TaskDefinition
    error: str | None


def _ids(claim: Claim) -> dict[str, object]:
    return {"instance_id": claim.instance_id, "attempt": claim.attempt}


def describe_error(error: BaseException) -> str:
    """An exception's traceback as text that every store can keep."""
    try:
        text = "".join(traceback.format_exception(error))
    # Its own code makes the text, and may do anything.
    except BaseException:
        text = f"{type(error).__name__}, whose text cannot be made"
    text = text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()
    return text[-ERROR_LIMIT:]
