"""Reports: what the store has made of what became of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.errors import StoreError, TaskInstanceNotFoundError
from go_scheduler.events.definition_events import DefinitionCompleted
from go_scheduler.events.event import of_definition, of_instance
from go_scheduler.events.hub import LOG_ALONE, Events
from go_scheduler.events.instance_events import (
    CompletedRunFailed,
    InstanceFinished,
    InstanceHandedOn,
    InstanceLocked,
    InstanceRetried,
    InstanceUnrecorded,
    ResultDiscarded,
    RunDeferred,
    RunEnded,
    RunFailed,
    Write,
)
from go_scheduler.models import Outcome
from go_scheduler.running.outcomes import is_completed_by, runs_before
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.running.entry import Entry
    from go_scheduler.running.held_run import HeldRun
    from go_scheduler.running.outcomes import Decision
    from go_scheduler.running.tally import Count
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import RunOutcome

# So many say enough, and each costs a way to the store while others wait.
_MOST_ASKED = 10


class Reports:
    """Tells of entries of the outbox what the store has answered.

    Args:
        store: Asked for an instance if the answer does not tell what became of it.
        rolled_back: Told of failures that are known only now: ``complete_in`` had been
            called, and its transaction has not committed.
        count: Told of each end, as ``Tally.ended``.
        events: Told of all else.
    """

    def __init__(
        self,
        store: Store,
        *,
        rolled_back: Callable[[HeldRun, RunOutcome], None],
        count: Count,
        events: Events = LOG_ALONE,
    ) -> None:
        self._store = store
        self._rolled_back = rolled_back
        self._count = count
        self._events = events.teller("running", bounded=True)
        self._asked = 0
        self._tells_ended = self._events.wanted(RunEnded)
        self._tells_finished = self._events.wanted(InstanceFinished)
        kinds = (RunEnded, InstanceRetried, InstanceFinished, DefinitionCompleted)
        self._tells_any = any(map(self._events.wanted, kinds))

    def begin(self) -> None:
        """Begin a tick of the outbox."""
        self._events.begin()
        self._asked = 0

    def locked(self, entry: Entry) -> None:
        """Tell that an entry has to wait for somebody else's transaction."""
        ids = of_instance(entry.run.instance)
        self._events.tell(InstanceLocked(**ids, write=Write.END))

    def failed(self, entry: Entry, error: Exception, *, retry_in: timedelta) -> None:
        """Tell that an entry cannot be written by itself."""
        self._events.tell(
            InstanceUnrecorded(
                **of_instance(entry.run.instance),
                write=Write.END,
                retry_in=retry_in,
                error=shown(error),
                exception=error,
            )
        )

    def recorded(self, entry: Entry, outcome: RunOutcome) -> None:
        """Tell of an outcome that the store has taken."""
        definition = entry.run.instance.definition
        self._count(definition, outcome.outcome, entry.took)
        if entry.joined:
            self._rolled_back(entry.run, outcome)
        if not self._tells_any:
            return
        self._tell_ended(entry, outcome.outcome, retry_in=outcome.retry_in)
        if outcome.outcome is None:
            self._tell_retried(entry, outcome)
            return
        self._tell_finished(entry, outcome.outcome, outcome.error)
        if outcome.next_fire_time is None:
            self._tell_completed(definition)

    def handed_on(self, entry: Entry) -> None:
        """Tell that a run goes on elsewhere."""
        if self._events.wanted(InstanceHandedOn):
            self._events.tell(InstanceHandedOn(**of_instance(entry.run.instance)))

    def not_taken(self, entry: Entry, outcome: RunOutcome) -> None:
        """Tell that a result was discarded, unless it had been recorded before.

        That was by the transaction in which the run called ``complete_in``, or by an
        earlier write whose answer was lost.
        """
        found = None
        if entry.joined or entry.unsure:
            if self._asked == _MOST_ASKED:
                return
            self._asked += 1
            found = self._find(entry)
        if (
            found is not None
            and entry.joined
            and is_completed_by(found, entry.run.claim)
        ):
            self._tell_committed(entry, found)
        elif found is not None and entry.unsure and _is_recorded(found, outcome):
            self.recorded(entry, outcome)
        # That it hangs was a presumption, and has been told.
        elif not outcome.hung:
            self._events.tell(ResultDiscarded(**of_instance(entry.run.instance)))

    def _tell_committed(self, entry: Entry, found: TaskInstance) -> None:
        """Tell of a success, and of what the handler raised after its commit."""
        self._count(entry.run.instance.definition, Outcome.COMPLETED, entry.took)
        self._tell_ended(entry, Outcome.COMPLETED)
        self._tell_finished(entry, Outcome.COMPLETED, None)
        if found.definition.completed_at is not None:
            self._tell_completed(found.definition)
        if entry.raised is not None:
            ids = of_instance(entry.run.instance)
            self._events.tell(CompletedRunFailed(**ids, error=entry.raised))

    def _tell_ended(
        self, entry: Entry, outcome: Outcome | None, *, retry_in: timedelta = ZERO
    ) -> None:
        """Tell of a run that was called, and of none that was not."""
        started_at, took = entry.run.called_at, entry.took
        if self._tells_ended and started_at and took is not None:
            instance = entry.run.instance
            self._events.tell(
                RunEnded(
                    **of_instance(instance),
                    late=started_at - instance.due_at,
                    took=took,
                    outcome=outcome,
                    retry_in=None if outcome else retry_in,
                )
            )

    def _tell_retried(self, entry: Entry, outcome: RunOutcome) -> None:
        if self._events.wanted(InstanceRetried):
            self._events.tell(
                InstanceRetried(
                    **of_instance(entry.run.instance),
                    retry_in=outcome.retry_in,
                    started_at=outcome.started_at,
                    took=entry.took,
                    error=outcome.error,
                )
            )

    def _tell_finished(self, entry: Entry, outcome: Outcome, error: str | None) -> None:
        if self._tells_finished:
            self._events.tell(
                InstanceFinished(
                    **of_instance(entry.run.instance),
                    outcome=outcome,
                    started_at=entry.run.called_at,
                    took=entry.took,
                    error=error,
                )
            )

    def _tell_completed(self, definition: TaskDefinition) -> None:
        """Tell that a definition fires no more, if it waited for this end."""
        if definition.trigger.waits and self._events.wanted(DefinitionCompleted):
            self._events.tell(DefinitionCompleted(**of_definition(definition)))

    def _find(self, entry: Entry) -> TaskInstance | None:
        try:
            return self._store.get_instance(entry.run.instance.id)
        # Gone, or unreadable: it is only about what is told.
        except (StoreError, TaskInstanceNotFoundError):
            return None


def failure_event(
    instance: TaskInstance, decision: Decision
) -> RunFailed | RunDeferred:
    """What is told of a run that did not succeed, and of what follows."""
    ids, record = of_instance(instance), decision.record
    runs = instance.runs if record.started_at else runs_before(instance)
    if decision.asked_for:
        assert record.error is not None
        return RunDeferred(
            **ids,
            runs=runs,
            retry_in=record.retry_in,
            error=record.error,
            worker=instance.worker,
        )
    retry_in = None if record.outcome else record.retry_in
    error, worker = record.error, instance.worker
    return RunFailed(**ids, runs=runs, retry_in=retry_in, error=error, worker=worker)


def _is_recorded(instance: TaskInstance, outcome: RunOutcome) -> bool:
    ends = outcome.outcome is not None
    attempt = instance.ended_attempt if ends else instance.attempt
    return attempt == outcome.claim.attempt
