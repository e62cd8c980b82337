"""The desk: claims, keeps and ends runs that are not in the hands of a node."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.errors import StoreUnavailableError, TaskInstanceNotFoundError
from go_scheduler.events.definition_events import DefinitionCompleted, TriggerFailed
from go_scheduler.events.event import of_definition, of_instance
from go_scheduler.events.instance_events import (
    InstanceFinished,
    InstanceGivenBack,
    InstanceRetried,
    RunEnded,
)
from go_scheduler.models import Extension, Outcome
from go_scheduler.running import outcomes
from go_scheduler.running.calling.error_text import kept_text
from go_scheduler.running.failure import Failure
from go_scheduler.running.intake import Accepted, GivenBack, Refused, judge
from go_scheduler.running.outcomes import EndedRun, is_completed_by
from go_scheduler.running.reports import failure_event
from go_scheduler.shown import shown
from go_scheduler.stores.messages import Claim, Release, Renewal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime, timedelta

    from go_scheduler.events.event import Event
    from go_scheduler.models import TaskInstance
    from go_scheduler.running.defaults import Defaults
    from go_scheduler.running.intake import Verdict
    from go_scheduler.running.outcomes import Decision
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Answer, Claimant, RunOutcome

_NOT_RUN = "it is not run where it was handed on to"


class Desk:
    """Does for runs elsewhere what a node does for its own, by the same rules.

    A run is named by its claim. Whoever shows one that is not current any more changes
    nothing, but by a success, if that is the first of its instance.

    Args:
        store: Where instances are kept.
        defaults: What holds for definitions that do not say.
        tell: Told of what becomes of runs.
    """

    def __init__(
        self, store: Store, *, defaults: Defaults, tell: Callable[[Event], None]
    ) -> None:
        self._store = store
        self._defaults = defaults
        self._tell_event = tell

    def claim(
        self, claimant: Claimant, *, limit: int, lapsed: timedelta | None = None
    ) -> Sequence[TaskInstance]:
        """Claim and start what is due, for somebody else to run.

        Args:
            claimant: Who runs it.
            limit: The most instances; at least 1.
            lapsed: As for ``Store.claim_instances``.

        Returns:
            Those that are to be run, each started; empty if none is due. What else was
            claimed has been ended or given back.
        """
        claimed = self._store.claim_instances(
            claimant, ahead=ZERO, lead=ZERO, limit=limit, lapsed=lapsed
        )
        if not claimed:
            return []
        claimed = self._in_slots(claimant, claimed)
        now = self._store.now()
        judged = [(each, self._judge(each, now)) for each in claimed]
        # Whatever another transaction has locked lapses, and is judged anew.
        self._store.finish_instances(
            [each.decision.record for _, each in judged if isinstance(each, Refused)]
        )
        self._store.release_instances(
            [
                Release(claim=Claim.of(instance), delay=each.delay)
                for instance, each in judged
                if isinstance(each, GivenBack)
            ]
        )
        return [instance for instance, each in judged if isinstance(each, Accepted)]

    def _in_slots(
        self, claimant: Claimant, claimed: Sequence[TaskInstance]
    ) -> Sequence[TaskInstance]:
        """Those that have started, with those that do now; the others are parked."""
        started = [each for each in claimed if each.started_at is not None]
        if len(started) == len(claimed):
            return claimed
        claims = [Claim.of(each) for each in claimed if each.started_at is None]
        found = self._store.start_instances(claimant, claims).done
        return [*started, *(each for each in found if not each.parked)]

    def extend(self, claim: Claim, by: timedelta) -> Extension:
        """Let a claim hold for so long from now, unless it does for longer already.

        Raises:
            StoreUnavailableError: Asking again may help.
        """
        # As one that is handed on, though its handler may not have returned yet: nobody
        # outside of its node is to shorten what that keeps.
        renewal = Renewal(claim=claim, lease=by, handed_on=True)
        answer = self._store.renew_claims([renewal])
        _check_free(claim, answer)
        cancel_requested = answer.done.get(claim.instance_id)
        if cancel_requested is None:
            return Extension.LOST
        return Extension.STOP if cancel_requested else Extension.GO_ON

    def release(self, claim: Claim, *, delay: timedelta) -> bool:
        """Give back what is not run after all, and count no run.

        Returns:
            Whether the claim was current.

        Raises:
            StoreUnavailableError: Asking again may help.
        """
        run = self._run_of(claim)
        if run is None:
            return False
        answer = self._store.release_instances([Release(claim=claim, delay=delay)])
        _check_free(claim, answer)
        if claim.instance_id not in answer.done:
            return False
        ids = of_instance(run.instance)
        self._tell_event(InstanceGivenBack(**ids, reason=_NOT_RUN, delay=delay))
        return True

    def complete(self, claim: Claim) -> bool:
        """Record that a run has succeeded.

        Returns:
            Whether it is the one that has completed the instance, now or before.

        Raises:
            StoreUnavailableError: Asking again may help.
        """
        run = self._run_of(claim)
        if run is None:
            return False
        if run.instance.outcome is Outcome.COMPLETED:
            return is_completed_by(run.instance, claim)
        if self._record(claim, run, outcomes.completed(run)):
            return True
        # Somebody else may have said so since it was read.
        found = self._run_of(claim)
        return found is not None and is_completed_by(found.instance, claim)

    def fail(
        self,
        claim: Claim,
        error: str,
        *,
        retry: bool = True,
        retry_in: timedelta | None = None,
    ) -> bool:
        """Record that a run has not succeeded; what follows is the policy's.

        Args:
            claim: Its claim.
            error: Why, for a person to read.
            retry: Whether another run may follow; if not, the instance has failed.
            retry_in: After how long one is to follow; None: that is the policy's.

        Returns:
            Whether the claim was current.

        Raises:
            StoreUnavailableError: Asking again may help.
        """
        run = self._run_of(claim)
        if run is None:
            return False
        failure = Failure(kept_text(error), is_final=not retry, retry_in=retry_in)
        return self._record(claim, run, outcomes.raised(run, failure))

    def _judge(self, instance: TaskInstance, now: datetime) -> Verdict:
        return judge(instance, None, defaults=self._defaults, refusal=None, now=now)

    def _run_of(self, claim: Claim) -> EndedRun | None:
        """What is known of a run that is over now; None: its instance is gone."""
        try:
            instance = self._store.get_instance(claim.instance_id)
        except TaskInstanceNotFoundError:
            return None
        now = self._store.now()
        # When an earlier run began nobody knows any more.
        started_at = min(now, instance.started_at or now)
        return EndedRun(
            claim=claim,
            instance=replace(instance, attempt=claim.attempt),
            started_at=started_at,
            ran_for=now - started_at,
            expire_after=self._defaults.expire_after_of(instance),
            retry=self._defaults.retry_of(instance),
            now=now,
            cancel_requested=instance.cancel_requested,
        )

    def _record(self, claim: Claim, run: EndedRun, decision: Decision) -> bool:
        answer = self._store.finish_instances([decision.record])
        _check_free(claim, answer)
        if claim.instance_id not in answer.done:
            return False
        self._tell(run, decision)
        return True

    def _tell(self, run: EndedRun, decision: Decision) -> None:
        record, definition = decision.record, run.instance.definition
        if decision.trigger_error is not None:
            error = decision.trigger_error
            ids = of_definition(definition)
            self._tell_event(TriggerFailed(**ids, error=shown(error), exception=error))
        if record.outcome is None or record.outcome is Outcome.FAILED:
            self._tell_event(failure_event(run.instance, decision))
        self._tell_event(
            RunEnded(
                **of_instance(run.instance),
                late=run.started_at - run.instance.due_at,
                took=run.ran_for,
                outcome=record.outcome,
                retry_in=None if record.outcome else record.retry_in,
            )
        )
        self._tell_event(_end_of(run, record))
        if definition.trigger.waits and record.outcome and not record.next_fire_time:
            self._tell_event(DefinitionCompleted(**of_definition(definition)))


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


def _check_free(claim: Claim, answer: Answer[object]) -> None:
    """Refuse to go on while another transaction has locked the instance."""
    if claim.instance_id in answer.busy:
        raise StoreUnavailableError(
            f"instance {claim.instance_id}: another transaction has locked it; asking"
            " again may help"
        )
