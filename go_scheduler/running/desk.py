"""The desk: claims, keeps and ends runs that are not in the hands of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from go_scheduler.errors import StoreError, TaskInstanceNotFoundError
from go_scheduler.events.event import of_instance
from go_scheduler.events.instance_events import InstanceGivenBack, RunTimedOut
from go_scheduler.models import Extension, Outcome, Stage
from go_scheduler.models.changed import changed
from go_scheduler.running import outcomes
from go_scheduler.running.calling.error_text import kept_text
from go_scheduler.running.desk_claims import claimed_to_run
from go_scheduler.running.desk_reports import tell_end
from go_scheduler.running.desk_runs import (
    ended_run,
    is_others,
    known_of,
    renewal_of,
)
from go_scheduler.running.desk_writes import (
    each_instance_once,
    locked,
    the_one,
    write_each,
)
from go_scheduler.running.elsewhere import Extending, Failing, Reporting, Success
from go_scheduler.running.failure import Failure
from go_scheduler.running.outcomes import EndedRun, is_completed_by
from go_scheduler.running.time_limits import TimedOut, kept_by
from go_scheduler.stores.messages import Claim, Release

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
    from go_scheduler.stores.messages import Claimant

_EXTENSIONS = {None: Extension.LOST, True: Extension.STOP, False: Extension.GO_ON}
End = TypeVar("End", Success, Failing)


class Desk:
    """Does for runs elsewhere what a node does for its own, by the same rules.

    A run is named by its claim. Whoever shows one that is not current any more changes
    nothing, but by a success, if that is the first of its instance.

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
        return claimed_to_run(
            self._store,
            claimant,
            limit=limit,
            lapsed=lapsed,
            defaults=self._defaults,
            tell=self._tell_event,
        )

    def extend(
        self, claim: Claim, by: timedelta, *, progress: str | None = None
    ) -> Extension:
        """Let a claim hold for so long from now, unless it does for longer already.

        A run whose timeout has passed has failed by that: it is lost.

        Args:
            claim: The claim.
            by: How long.
            progress: How far its run has come, of ``progress_text``.

        Raises:
            StoreUnavailableError: Asking again may help.
        """
        extending = Extending(claim=claim, by=by, progress=progress)
        return the_one(self.extend_all([extending]))

    def report(
        self, claim: Claim, stage: Stage, *, worker: str, by: timedelta
    ) -> Extension:
        """Record how far a run on a bus has come, as ``Reporting`` says.

        Raises:
            StoreUnavailableError: Asking again may help.
        """
        reporting = Reporting(claim=claim, stage=stage, worker=worker, by=by)
        return the_one(self.extend_all([reporting]))

    def extend_all(
        self, extending: Sequence[Extending | Reporting]
    ) -> Sequence[Extension | StoreError]:
        """The same of many, by one write; of runs on a bus, how far they have come.

        Returns:
            For each, in this order, what has come of it, or why nobody knows: a
            ``StoreUnavailableError`` if asking again may help.

        Raises:
            StoreUnavailableError: The store is away.
        """
        answers: dict[int, Extension | StoreError] = {}
        for batch in each_instance_once(extending):
            kept = self._kept(batch)
            answers |= self._time_out(kept)
            renewals = {
                number: renewal_of(each, lease)
                for number, each in batch
                if not isinstance(lease := kept[number], TimedOut)
            }
            done, refused = write_each(renewals, self._store.renew_claims)
            asked = {id: stop for each in done for id, stop in each.items()}
            answers |= refused
            for number, renewal in renewals.items():
                if number not in refused:
                    stop = asked.get(renewal.claim.instance_id)
                    answers[number] = _EXTENSIONS[stop]
        return [answers[number] for number in range(len(extending))]

    def _kept(
        self, batch: Sequence[tuple[int, Extending | Reporting]]
    ) -> Mapping[int, timedelta | TimedOut]:
        read = {each.claim.instance_id for _, each in batch if self._must_read(each)}
        found = self._find_all(read)
        kept: dict[int, timedelta | TimedOut] = {}
        for number, each in batch:
            id, instance = each.claim.instance_id, each.instance
            if id in read:
                instance = found.get(id)
            timeout = None if instance is None else self._defaults.timeout_of(instance)
            kept[number] = kept_by(each, instance, timeout=timeout, now=self.now)
        return kept

    def _must_read(self, each: Extending | Reporting) -> bool:
        if each.instance is None:
            return True
        # Only the store knows whether, and when, it has begun.
        timeout = self._defaults.timeout_of(each.instance)
        return timeout is not None and isinstance(each, Reporting)

    def _time_out(
        self, kept: Mapping[int, timedelta | TimedOut]
    ) -> Mapping[int, Extension | StoreError]:
        """Record of those runs that have timed out that they have failed."""
        over = {n: each for n, each in kept.items() if isinstance(each, TimedOut)}
        answers = self.fail_all([each.failing for each in over.values()])
        found: dict[int, Extension | StoreError] = {}
        for (number, each), answer in zip(over.items(), answers, strict=True):
            if answer is True:
                ids, timeout = of_instance(each.instance), each.timeout
                self._tell_event(RunTimedOut(**ids, timeout=timeout, ended=True))
            found[number] = answer if isinstance(answer, StoreError) else Extension.LOST
        return found

    def release(self, claim: Claim, *, delay: timedelta, reason: str) -> bool:
        """Give back what is not run after all, and count no run.

        Returns:
            Whether the claim was current.

        Raises:
            StoreUnavailableError: Asking again may help.
        """
        instance = self._find(claim)
        if instance is None:
            return False
        answer = self._store.release_instances([Release(claim=claim, delay=delay)])
        if claim.instance_id in answer.busy:
            raise locked(claim.instance_id)
        if claim.instance_id not in answer.done:
            return False
        ids = of_instance(changed(instance, attempt=claim.attempt))
        self._tell_event(InstanceGivenBack(**ids, reason=reason, delay=delay))
        return True

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
