"""How the desk ends runs: completed or failed, many by one write."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from go_scheduler.errors import StoreError, TaskInstanceNotFoundError
from go_scheduler.models import Outcome
from go_scheduler.running import outcomes
from go_scheduler.running.calling.error_text import kept_text
from go_scheduler.running.desk_reports import tell_end
from go_scheduler.running.desk_runs import ended_run, is_others, known_of
from go_scheduler.running.desk_writes import each_instance_once, the_one, write_each
from go_scheduler.running.elsewhere import Failing, Success
from go_scheduler.running.failure import Failure
from go_scheduler.running.outcomes import EndedRun, is_completed_by

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from go_scheduler.events.event import Event
    from go_scheduler.models import TaskInstance
    from go_scheduler.running.defaults import Defaults
    from go_scheduler.running.outcomes import Decision
    from go_scheduler.running.tally import Count
    from go_scheduler.stores.base import Store
    from go_scheduler.stores.messages import Claim

End = TypeVar("End", Success, Failing)


class DeskEnds:
    """Records the ends of runs elsewhere, as ``outcomes`` decides.

    Args:
        store: Where instances are kept.
        defaults: What holds for definitions that do not say.
        tell: Told of what becomes of runs.
        count: Told of each end, as ``Tally.ended``.
        now: The store's time, as the caller knows it; None: the store is asked.

    Attributes:
        now: Tells the store's time.
    """

    def __init__(
        self,
        store: Store,
        *,
        defaults: Defaults,
        tell: Callable[[Event], None],
        count: Count = lambda *ended: None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._store = store
        self._defaults = defaults
        self._tell_event = tell
        self._count = count
        self.now = now or store.now

    def complete(self, claim: Claim, *, result: str | None = None) -> bool:
        """Record that a run has succeeded.

        Args:
            claim: Its claim.
            result: What came of it, of ``result_text``.

        Returns:
            Whether it is the one that has completed the instance, now or before.

        Raises:
            StoreUnavailableError: Asking again may help.
        """
        return the_one(self.complete_all([Success(claim=claim, result=result)]))

    def complete_all(self, ended: Sequence[Success]) -> Sequence[bool | StoreError]:
        """The same of many, by one write; nothing is read of what comes with its row.

        Returns:
            As ``extend_all``.

        Raises:
            StoreUnavailableError: The store is away; some may have been recorded.
        """

        def decide(run: EndedRun, each: Success) -> Decision | bool:
            if run.instance.outcome is Outcome.COMPLETED:
                return is_completed_by(run.instance, each.claim)
            return outcomes.completed(run, result=each.result)

        return self._end_all(ended, decide, lost=self._has_completed)

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
        failing = Failing(claim=claim, error=error, retry=retry, retry_in=retry_in)
        return the_one(self.fail_all([failing]))

    def fail_all(self, ended: Sequence[Failing]) -> Sequence[bool | StoreError]:
        """The same of many, as ``complete_all``."""

        def decide(run: EndedRun, each: Failing) -> Decision | bool:
            if is_others(run.instance, each):
                return False
            error = kept_text(each.error)
            failure = Failure(error, is_final=not each.retry, retry_in=each.retry_in)
            return outcomes.raised(run, failure)

        return self._end_all(ended, decide, lost=lambda claim: False)

    def _end_all(
        self,
        ended: Sequence[End],
        decide: Callable[[EndedRun, End], Decision | bool],
        *,
        lost: Callable[[Claim], bool],
    ) -> Sequence[bool | StoreError]:
        """Record ends, each as it is decided.

        Args:
            ended: The ends.
            decide: What follows from one, or the answer if nothing is to be written.
            lost: The answer to one that was not recorded.
        """
        answers: dict[int, bool | StoreError] = {}
        for batch in each_instance_once(ended):
            now = self.now()
            known = {each.claim.instance_id: known_of(each) for _, each in batch}
            unknown = [id for id, instance in known.items() if instance is None]
            known.update(self._find_all(unknown))
            decided: dict[int, tuple[EndedRun, Decision]] = {}
            for number, each in batch:
                instance = known[each.claim.instance_id]
                run = ended_run(each.claim, instance, defaults=self._defaults, now=now)
                decision = run is not None and decide(
                    run._replace(client=each.client), each
                )
                if run is None or isinstance(decision, bool):
                    answers[number] = bool(decision)
                else:
                    decided[number] = run, decision
            records = {number: each.record for number, (_, each) in decided.items()}
            done, refused = write_each(records, self._store.finish_instances)
            recorded = {id for each in done for id in each}
            answers |= refused
            for number, (run, decision) in decided.items():
                if run.claim.instance_id in recorded:
                    definition = run.instance.definition
                    self._count(definition, decision.record.outcome, run.ran_for)
                    tell_end(self._tell_event, run, decision)
                    answers[number] = True
                elif number not in refused:
                    answers[number] = lost(run.claim)
        return [answers[number] for number in range(len(ended))]

    def _find(self, claim: Claim) -> TaskInstance | None:
        try:
            return self._store.get_instance(claim.instance_id)
        except TaskInstanceNotFoundError:
            return None

    def _find_all(self, ids: Collection[UUID]) -> Mapping[UUID, TaskInstance]:
        return self._store.find_instances(ids) if ids else {}

    def _has_completed(self, claim: Claim) -> bool:
        """Whether its run has completed the instance, as somebody else has said."""
        found = self._find(claim)
        return found is not None and is_completed_by(found, claim)
