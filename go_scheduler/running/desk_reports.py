"""What the desk tells of the ends of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.events.definition_events import DefinitionCompleted, TriggerFailed
from go_scheduler.events.event import of_definition, of_instance
from go_scheduler.events.instance_events import (
    InstanceFinished,
    InstanceRetried,
    RunEnded,
)
from go_scheduler.models import Outcome
from go_scheduler.running.reports import failure_event
from go_scheduler.shown import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.events.event import Event
    from go_scheduler.running.outcomes import Decision, EndedRun
    from go_scheduler.stores.messages import RunOutcome


def tell_end(tell: Callable[[Event], None], run: EndedRun, decision: Decision) -> None:
    """Tell of a run whose end has been recorded, and of what follows."""
    record, definition = decision.record, run.instance.definition
    if decision.trigger_error is not None:
        error = decision.trigger_error
        ids = of_definition(definition)
        tell(TriggerFailed(**ids, error=shown(error), exception=error))
    if record.outcome is None or record.outcome is Outcome.FAILED:
        tell(failure_event(run.instance, decision))
    tell(
        RunEnded(
            **of_instance(run.instance),
            late=run.started_at - run.instance.due_at,
            took=run.ran_for,
            outcome=record.outcome,
            retry_in=None if record.outcome else record.retry_in,
            worker=run.instance.worker,
        )
    )
    tell(_end_of(run, record))
    if definition.trigger.waits and record.outcome and not record.next_fire_time:
        tell(DefinitionCompleted(**of_definition(definition)))


def _end_of(run: EndedRun, record: RunOutcome) -> InstanceRetried | InstanceFinished:
    ids = of_instance(run.instance)
    if record.outcome is None:
        return InstanceRetried(
            **ids,
            retry_in=record.retry_in,
            started_at=run.started_at,
            took=run.ran_for,
            error=record.error,
        )
    return InstanceFinished(
        **ids,
        outcome=record.outcome,
        started_at=run.started_at,
        took=run.ran_for,
        error=record.error,
    )
