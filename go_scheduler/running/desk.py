"""The desk: claims, keeps and ends runs that are not in the hands of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.errors import StoreError
from go_scheduler.events.event import of_instance
from go_scheduler.events.instance_events import InstanceGivenBack, RunTimedOut
from go_scheduler.models import Extension
from go_scheduler.models.changed import changed
from go_scheduler.running.calling.error_text import kept_text
from go_scheduler.running.desk_claims import claimed_to_run
from go_scheduler.running.desk_ends import DeskEnds
from go_scheduler.running.desk_runs import renewal_of
from go_scheduler.running.desk_writes import (
    each_instance_once,
    locked,
    the_one,
    write_each,
)
from go_scheduler.running.elsewhere import Extending, Reporting
from go_scheduler.running.time_limits import TimedOut, kept_by
from go_scheduler.stores.messages import Release

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from go_scheduler.models import Stage, TaskInstance
    from go_scheduler.stores.messages import Claim, Claimant

_EXTENSIONS = {None: Extension.LOST, True: Extension.STOP, False: Extension.GO_ON}


class Desk(DeskEnds):
    """Does for runs elsewhere what a node does for its own, by the same rules.

    A run is named by its claim. Whoever shows one that is not current any more changes
    nothing, but by a success, if that is the first of its instance.
    """

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
        given_back = Release(claim=claim, delay=delay, reason=kept_text(reason))
        answer = self._store.release_instances([given_back])
        if claim.instance_id in answer.busy:
            raise locked(claim.instance_id)
        if claim.instance_id not in answer.done:
            return False
        ids = of_instance(changed(instance, attempt=claim.attempt))
        self._tell_event(InstanceGivenBack(**ids, reason=reason, delay=delay))
        return True
