"""Every deliberately broken store fails the suite, by the test that names its fault."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from xml.etree import ElementTree

import pytest

from go_scheduler.errors import ConfigurationError
from go_scheduler.models import Cancelled, State, TaskDefinition, TaskInstance
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import (
    Addition,
    Announcement,
    Answer,
    Claim,
    Claimant,
    Firing,
    Position,
    Release,
    Renewal,
    Retention,
    RunOutcome,
    Tombstone,
)
from go_scheduler.testing.builders import at_once
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.edits import ForeignTrigger
from go_scheduler.testing.store.threads import THREADS
from go_scheduler.testing.stores import StoreSuite
from go_scheduler.triggers.on_demand import OnDemandTrigger
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence, Set
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.clock import Clock
    from go_scheduler.json import JSON

ROOT = Path(__file__).parents[2]
ZERO = timedelta(0)


class SoundStore(MemoryStore):
    """Nothing is wrong with it."""


class NoCompareAndSet(MemoryStore):
    """Fires whatever the definition was when it was read."""

    def fire_definitions(self, firings: Sequence[Firing]) -> Answer[Set[UUID]]:
        stored = {each.id: each for each in self.list_definitions(limit=1000)}
        return super().fire_definitions(
            [
                replace(
                    each, definition=stored.get(each.definition.id, each.definition)
                )
                for each in firings
            ]
        )


class NoRevision(MemoryStore):
    """Compares the next fire time and forgets the revision."""

    def fire_definitions(self, firings: Sequence[Firing]) -> Answer[Set[UUID]]:
        stored = {each.id: each for each in self.list_definitions(limit=1000)}
        loose = []
        for each in firings:
            read = each.definition
            revision = stored.get(read.id, read).revision
            loose.append(replace(each, definition=replace(read, revision=revision)))
        return super().fire_definitions(loose)


class NeverPausedAtFirst(MemoryStore):
    """Does not keep the pause that a new definition brings."""

    def put_definitions(
        self, definitions: Sequence[TaskDefinition]
    ) -> Sequence[TaskDefinition]:
        return super().put_definitions(
            [replace(each, paused=False) for each in definitions]
        )


class AllOrNone(MemoryStore):
    """One firing that loses takes the whole batch with it."""

    def fire_definitions(self, firings: Sequence[Firing]) -> Answer[Set[UUID]]:
        for each in firings:
            [*stored] = self.list_definitions(ids=[each.definition.id])
            if not stored or stored[0].revision != each.definition.revision:
                return Answer(done=set())
        return super().fire_definitions(firings)


class HandsOutTwice(MemoryStore):
    """Hands what is claimed to the next node too."""

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
    ) -> Sequence[TaskInstance]:
        old = self.list_instances(state=State.CLAIMED)
        new = super().claim_instances(
            claimant, ahead=ahead, lead=lead, limit=limit, lapsed=lapsed
        )
        return [*old, *new]


class WithClaimOptions(MemoryStore):
    """Changes what a claim was asked for."""

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
    ) -> Sequence[TaskInstance]:
        return super().claim_instances(
            self.claimant(claimant),
            ahead=ahead,
            lead=self.lead(lead, ahead),
            limit=self.limit(limit),
            lapsed=self.lapsed(lapsed),
        )

    def claimant(self, claimant: Claimant) -> Claimant:
        return claimant

    def lead(self, lead: timedelta, ahead: timedelta) -> timedelta:
        return lead

    def limit(self, limit: int) -> int:
        return limit

    def lapsed(self, asked: timedelta | None) -> timedelta | None:
        return asked


class IgnoresLead(WithClaimOptions):
    """Starts only what is due already."""

    def lead(self, lead: timedelta, ahead: timedelta) -> timedelta:
        return ZERO


class StartsWhatItClaims(WithClaimOptions):
    """Starts all that it claims."""

    def lead(self, lead: timedelta, ahead: timedelta) -> timedelta:
        return ahead


class TakesLapsedUnasked(WithClaimOptions):
    """Takes over lapsed claims though it was told not to."""

    def lapsed(self, asked: timedelta | None) -> timedelta | None:
        return ZERO


class LeavesLapsed(WithClaimOptions):
    """Never takes over a lapsed claim."""

    def lapsed(self, asked: timedelta | None) -> timedelta | None:
        return None


class IgnoresLimit(WithClaimOptions):
    """Claims all there is."""

    def limit(self, limit: int) -> int:
        return 1000


class AnyOrder(MemoryStore):
    """Hands out in whatever order it finds."""

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
    ) -> Sequence[TaskInstance]:
        claimed = super().claim_instances(
            claimant, ahead=ahead, lead=lead, limit=limit, lapsed=lapsed
        )
        return claimed[::-1]


class LeavesTheRest(WithClaimOptions):
    """Finds nothing in a queue as long as another one has something."""

    def claimant(self, claimant: Claimant) -> Claimant:
        return replace(claimant, queues=claimant.queues[:1])


class FirstRevisionAgain(MemoryStore):
    """Begins at the first revision whatever has been deleted."""

    def put_definitions(
        self, definitions: Sequence[TaskDefinition]
    ) -> Sequence[TaskDefinition]:
        self._definitions._first = 1
        return super().put_definitions(definitions)


class IgnoresQueues(WithClaimOptions):
    """Serves every queue."""

    def claimant(self, claimant: Claimant) -> Claimant:
        served = {each.queue for each in self.list_definitions(limit=1000)}
        return replace(claimant, queues=tuple(served))


class IgnoresExpireAfter(WithClaimOptions):
    """Lets every run hold for a whole lease, if its definition does not say less."""

    def claimant(self, claimant: Claimant) -> Claimant:
        return replace(claimant, expire_after=claimant.lease)


class NoFence(MemoryStore):
    """Takes every claim for the present one."""

    def current(self, claim: Claim) -> Claim:
        known = {each.id: each.attempt for each in self.list_instances(limit=1000)}
        return replace(claim, attempt=known.get(claim.instance_id, claim.attempt))


class AcceptsStaleCompletion(NoFence):
    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        fresh = [replace(each, claim=self.current(each.claim)) for each in outcomes]
        return super().finish_instances(fresh)


class RefusesLateSuccess(MemoryStore):
    """Records only what the owner says."""

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        known = {each.id: each for each in self.list_instances(limit=1000)}
        return super().finish_instances(
            [each for each in outcomes if self.owns(each.claim, known)]
        )

    def owns(self, claim: Claim, known: Mapping[UUID, TaskInstance]) -> bool:
        instance = known.get(claim.instance_id)
        return (
            instance is not None
            and instance.attempt == claim.attempt
            and instance.state in (State.CLAIMED, State.RUNNING)
        )


class LeavesFailuresAlone(RefusesLateSuccess):
    """Takes no success of what has failed."""

    def owns(self, claim: Claim, known: Mapping[UUID, TaskInstance]) -> bool:
        instance = known.get(claim.instance_id)
        return instance is not None and instance.state is not State.FAILED


class SucceedsTwice(MemoryStore):
    """Says to the second success as well that it was the first."""

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        completed = {each.id for each in self.list_instances(state=State.COMPLETED)}
        done = super().finish_instances(outcomes).done
        again = {each.claim.instance_id for each in outcomes}
        return Answer(done={*done, *(again & completed)})


class RevivesTheCancelled(MemoryStore):
    """Takes the success of what was cancelled."""

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        ended = {each.id for each in self.list_instances(state=State.CANCELLED)}
        done = super().finish_instances(outcomes).done
        return Answer(
            done={*done, *(ended & {each.claim.instance_id for each in outcomes})}
        )


class MovesOnTwice(MemoryStore):
    """Moves a definition on for every success."""

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        answer = super().finish_instances(outcomes)
        for each in outcomes:
            if each.claim.instance_id in answer.done and each.outcome is not None:
                row = self._instances.get(each.claim.instance_id)
                assert row is not None
                self._definitions.go_on(row, each.next_fire_time, self.now())
        return answer


class AddsAgain(MemoryStore):
    """Does not know what it has added."""

    def add_instances(
        self, definition_id: UUID, additions: Sequence[Addition]
    ) -> Sequence[TaskInstance]:
        unnamed = [replace(each, id=uuid4()) for each in additions]
        return super().add_instances(definition_id, unnamed)


class AddsToNothing(MemoryStore):
    """Makes a definition where there is none."""

    def add_instances(
        self, definition_id: UUID, additions: Sequence[Addition]
    ) -> Sequence[TaskInstance]:
        if not self.list_definitions(ids=[definition_id]):
            trigger = OnDemandTrigger()
            self.put_definitions([TaskDefinition(trigger=trigger, id=definition_id)])
        return super().add_instances(definition_id, additions)


class KeysAreEverybodys(MemoryStore):
    """Takes a key for the same, whatever definition it is of."""

    def add_instances(
        self, definition_id: UUID, additions: Sequence[Addition]
    ) -> Sequence[TaskInstance]:
        known = {each.key: each for each in self.list_instances(limit=1000)}
        [first, *_] = [*additions, Addition()]
        if first.key is not None and first.key in known:
            return [known[first.key]]
        return super().add_instances(definition_id, additions)


class CompletesAtOnce(MemoryStore):
    """Takes what has no fire time for over."""

    def put_definitions(
        self, definitions: Sequence[TaskDefinition]
    ) -> Sequence[TaskDefinition]:
        stored = super().put_definitions(definitions)
        for each in stored:
            row = self._definitions.get(each.id)
            if row is not None and each.next_fire_time is None:
                self._definitions.change(row, completed_at=self.now())
        return [self.get_definition(each.id) for each in stored]


class AddsUpHangs(MemoryStore):
    """Counts all hangs, not those in a row."""

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        before = {each.id: each.hangs for each in self.list_instances(limit=1000)}
        answer = super().finish_instances(outcomes)
        for each in outcomes:
            row = self._instances.get(each.claim.instance_id)
            if row is not None and not each.hung:
                row.hangs = before[row.id]
        return answer


class IgnoresHowLongAgo(WithClaimOptions):
    """Takes over whatever has lapsed."""

    def lapsed(self, asked: timedelta | None) -> timedelta | None:
        return None if asked is None else ZERO


class ListsEverybodysClaims(MemoryStore):
    """Forgets whose claims were asked for."""

    def list_claimed(
        self, node: UUID, *, after: TaskInstance | None = None, limit: int = 100
    ) -> Sequence[TaskInstance]:
        nodes = {each.claimed_by for each in self.list_instances(limit=1000)}
        listed = (
            super(ListsEverybodysClaims, self).list_claimed(
                each, after=after, limit=limit
            )
            for each in nodes
            if each is not None
        )
        return [instance for page in listed for instance in page]


class FirstContactStays(MemoryStore):
    """Keeps what was noted first."""

    def note_contact(self, announced: Announcement, *, unbroken: timedelta) -> None:
        known = {each.announced.node for each in self._tables.contacts.rows}
        if announced.node not in known:
            super().note_contact(announced, unbroken=unbroken)


class ForgetsWhoANodeIs(MemoryStore):
    """Keeps of an announcement what the loops need, and nothing else."""

    def note_contact(self, announced: Announcement, *, unbroken: timedelta) -> None:
        kept = Announcement(node=announced.node, queues=announced.queues)
        super().note_contact(kept, unbroken=unbroken)


class NamesAllQueues(MemoryStore):
    """Names those as well that were to be left out."""

    def list_due_queues(self, *, apart_from: Collection[str]) -> Collection[str]:
        del apart_from
        return super().list_due_queues(apart_from=())


class HidesQueues(MemoryStore):
    """Names none if one of them is known."""

    def list_due_queues(self, *, apart_from: Collection[str]) -> Collection[str]:
        due = super().list_due_queues(apart_from=())
        return () if set(due) & set(apart_from) else due


class KeepsEveryContact(MemoryStore):
    """Never forgets a node."""

    def delete_finished(self, retention: Retention, *, limit: int) -> int:
        contacts = self._tables.contacts.rows
        deleted = super().delete_finished(retention, limit=limit)
        for each in contacts:
            self._tables.contacts.note(each)
        return deleted


class AcceptsStaleRenewal(NoFence):
    def renew_claims(self, renewals: Sequence[Renewal]) -> Answer[Mapping[UUID, bool]]:
        fresh = [replace(each, claim=self.current(each.claim)) for each in renewals]
        return super().renew_claims(fresh)


class AcceptsStaleRelease(NoFence):
    def release_instances(self, releases: Sequence[Release]) -> Answer[Set[UUID]]:
        fresh = [replace(each, claim=self.current(each.claim)) for each in releases]
        return super().release_instances(fresh)


class AcceptsStaleStart(NoFence):
    def start_instances(
        self, claimant: Claimant, claims: Sequence[Claim]
    ) -> Answer[Sequence[TaskInstance]]:
        return super().start_instances(
            claimant, [self.current(each) for each in claims]
        )


class DoesNotCount(MemoryStore):
    """Starts without one more in ``runs``."""

    def start_instances(
        self, claimant: Claimant, claims: Sequence[Claim]
    ) -> Answer[Sequence[TaskInstance]]:
        started = super().start_instances(claimant, claims).done
        return Answer(done=[replace(each, runs=each.runs - 1) for each in started])


class StartsTwice(MemoryStore):
    """Counts a repeated start as another run."""

    def start_instances(
        self, claimant: Claimant, claims: Sequence[Claim]
    ) -> Answer[Sequence[TaskInstance]]:
        before = {each.id for each in self.list_instances(state=State.RUNNING)}
        started = super().start_instances(claimant, claims).done
        return Answer(
            done=[
                replace(each, runs=each.runs + (each.id in before)) for each in started
            ]
        )


class KeepsTheRun(MemoryStore):
    """Gives back what was started and still counts its run."""

    def release_instances(self, releases: Sequence[Release]) -> Answer[Set[UUID]]:
        called_at = self.now()
        return super().finish_instances(
            [
                RunOutcome(claim=each.claim, started_at=called_at, retry_in=each.delay)
                for each in releases
            ]
        )


class KeepsWhatIsHandedOn(MemoryStore):
    """Takes a run that is handed on for one of the node that called its handler."""

    def renew_claims(self, renewals: Sequence[Renewal]) -> Answer[Mapping[UUID, bool]]:
        return super().renew_claims(
            [replace(each, handed_on=False) for each in renewals]
        )


class ForgetsFrozen(MemoryStore):
    """Hands out what is frozen by a pause."""

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
    ) -> Sequence[TaskInstance]:
        paused = [each.id for each in self.list_definitions() if each.paused]
        self.resume_definitions(paused)
        claimed = super().claim_instances(
            claimant, ahead=ahead, lead=lead, limit=limit, lapsed=lapsed
        )
        self.pause_definitions(paused)
        return claimed


class LosesFireTimes(MemoryStore):
    """Removes instances at a pause without going back to their fire time."""

    def pause_definitions(
        self, ids: Collection[UUID], *, note: str | None = None
    ) -> Sequence[TaskDefinition]:
        before = {each.id: each for each in self.list_definitions(ids=ids)}
        return [
            replace(each, next_fire_time=before[each.id].next_fire_time)
            for each in super().pause_definitions(ids, note=note)
        ]


class PutsInPart(MemoryStore):
    """Puts what comes before the definition that conflicts."""

    def put_definitions(
        self, definitions: Sequence[TaskDefinition]
    ) -> Sequence[TaskDefinition]:
        return [
            super(PutsInPart, self).put_definitions([each])[0] for each in definitions
        ]


class TakesTheLast(MemoryStore):
    """Puts the last one of an id that is there twice."""

    def put_definitions(
        self, definitions: Sequence[TaskDefinition]
    ) -> Sequence[TaskDefinition]:
        last = {each.id: each for each in definitions}
        return super().put_definitions(list(last.values()))


class NeverConflicts(MemoryStore):
    """Takes no notice of the revision that was read."""

    def put_definitions(
        self, definitions: Sequence[TaskDefinition]
    ) -> Sequence[TaskDefinition]:
        loose = [replace(each, revision=None) for each in definitions]
        return super().put_definitions(loose)


class MovesOnEdit(MemoryStore):
    """Takes the next fire time that was passed, whatever the trigger."""

    def put_definitions(
        self, definitions: Sequence[TaskDefinition]
    ) -> Sequence[TaskDefinition]:
        return [
            replace(stored, next_fire_time=each.next_fire_time)
            for stored, each in zip(
                super().put_definitions(definitions), definitions, strict=True
            )
        ]


class CutsMicroseconds(MemoryStore):
    """Keeps whole milliseconds."""

    def put_definitions(
        self, definitions: Sequence[TaskDefinition]
    ) -> Sequence[TaskDefinition]:
        cut = [
            replace(each, next_fire_time=_cut(each.next_fire_time))
            for each in definitions
        ]
        return super().put_definitions(cut)


class FindsExactMetadata(MemoryStore):
    """Compares metadata where it should look inside."""

    def list_definitions(
        self, *, metadata: Mapping[str, JSON] | None = None, **conditions: Any
    ) -> Sequence[TaskDefinition]:
        found = super().list_definitions(**conditions)
        return [each for each in found if metadata in (None, each.metadata)]


class ForgetsWhatNeverFires(MemoryStore):
    """Leaves out what has no fire time, where it comes at the end."""

    def list_definitions(
        self, *, soonest_first: bool = False, **conditions: Any
    ) -> Sequence[TaskDefinition]:
        found = super().list_definitions(soonest_first=soonest_first, **conditions)
        return [each for each in found if each.next_fire_time or not soonest_first]


class DeletesTheYoung(MemoryStore):
    """Deletes what has ended, however lately."""

    def delete_finished(self, retention: Retention, *, limit: int) -> int:
        none = replace(retention, ended=ZERO, failed=ZERO)
        return super().delete_finished(none, limit=limit)


class ForgetsIds(MemoryStore):
    """Remembers no id of what has ended and is gone."""

    def delete_finished(self, retention: Retention, *, limit: int) -> int:
        return super().delete_finished(replace(retention, remembered=ZERO), limit=limit)


class AlwaysCancelled(MemoryStore):
    """Says of a run that it will not run."""

    def cancel_instances(
        self, cancellations: Mapping[UUID, datetime | None]
    ) -> Mapping[UUID, Cancelled]:
        answer = super().cancel_instances(cancellations)
        return dict.fromkeys(answer, Cancelled.CANCELLED)


class StopsTheSeries(MemoryStore):
    """Forgets the next fire time that came with the end of a run."""

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        return super().finish_instances(
            [replace(each, next_fire_time=None) for each in outcomes]
        )


class AnswersOneCancel(MemoryStore):
    """Cancels all and answers one."""

    def cancel_instances(
        self, cancellations: Mapping[UUID, datetime | None]
    ) -> Mapping[UUID, Cancelled]:
        return dict([*super().cancel_instances(cancellations).items()][:1])


class AnswersOneDelete(MemoryStore):
    """Deletes all and answers one."""

    def delete_definitions(self, ids: Collection[UUID]) -> Mapping[UUID, Set[UUID]]:
        return dict([*super().delete_definitions(ids).items()][:1])


class AnswersNothingRan(MemoryStore):
    """Deletes all and answers that nothing ran."""

    def delete_definitions(self, ids: Collection[UUID]) -> Mapping[UUID, Set[UUID]]:
        return dict.fromkeys(super().delete_definitions(ids), frozenset())


class RemembersOneAtATime(MemoryStore):
    """Reads what is remembered of the first id alone."""

    def list_tombstones(self, ids: Collection[UUID]) -> Sequence[Tombstone]:
        return super().list_tombstones([*ids][:1])


class IsBehind(MemoryStore):
    """Tells of an instant before the store's time."""

    def now_between(self) -> tuple[datetime, datetime]:
        now = self.now() - timedelta(seconds=5)
        return now, now


class ConnectsOnce(MemoryStore):
    """Refuses what is open already."""

    def connect(self) -> None:
        raise ConfigurationError("it is open")


class CountsWhatIsThere(MemoryStore):
    """Leaves out the states that no instance is in."""

    def counts(self, **conditions: Any) -> Mapping[State, int]:
        found = super().counts(**conditions)
        return {state: count for state, count in found.items() if count}


class ListsThoseOfOthers(MemoryStore):
    """Looks at no owner when it lists instances."""

    def list_instances(
        self, *, owners: Collection[str] | None = None, **conditions: Any
    ) -> Sequence[TaskInstance]:
        del owners
        return super().list_instances(**conditions)


class RepeatsThePage(MemoryStore):
    """Begins a page with the last instance of the one before."""

    def list_instances(
        self, *, after: Position | None = None, limit: int = 100, **conditions: Any
    ) -> Sequence[TaskInstance]:
        found = super().list_instances(after=after, limit=limit, **conditions)
        if after is None:
            return found
        return [self.get_instance(after.id), *found][:limit]


class IsOldestFirst(MemoryStore):
    """Begins with the oldest, whatever was asked for."""

    def list_instances(
        self, *, newest_first: bool = False, **conditions: Any
    ) -> Sequence[TaskInstance]:
        del newest_first
        return super().list_instances(**conditions)


class ListsByTheTimeOfTheRun(MemoryStore):
    """Takes when an instance is to run for its fire time."""

    def list_instances(
        self,
        *,
        fired_since: datetime | None = None,
        fired_before: datetime | None = None,
        **conditions: Any,
    ) -> Sequence[TaskInstance]:
        return [
            each
            for each in super().list_instances(**conditions)
            if (fired_since is None or each.execute_at >= fired_since)
            and (fired_before is None or each.execute_at < fired_before)
        ]


class NamesWhoHasEnded(MemoryStore):
    """Says who had a slot last."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._last: dict[str, UUID] = {}

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        self._last.update(self._instances.slots.holders)
        return super().finish_instances(outcomes)

    def slot_holder(self, slot: str) -> TaskInstance | None:
        last = self._last.get(slot)
        return super().slot_holder(slot) if last is None else self.get_instance(last)


class ChecksThenActs(NoCompareAndSet):
    """Compares in one step and sets in another."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._met = threading.Barrier(THREADS)

    def fire_definitions(self, firings: Sequence[Firing]) -> Answer[Set[UUID]]:
        unchanged = [
            each
            for each in firings
            if self.get_definition(each.definition.id).next_fire_time
            == each.definition.next_fire_time
        ]
        self._met.wait(30)
        return super().fire_definitions(unchanged)


class SelectsThenMarks(MemoryStore):
    """Selects in one step and marks in another: all who selected then have it."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._met = threading.Barrier(THREADS)
        self._taken: Sequence[TaskInstance] = ()

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
    ) -> Sequence[TaskInstance]:
        if lapsed is None or self._met.wait(30) == 0:
            self._taken = super().claim_instances(
                claimant, ahead=ahead, lead=lead, limit=limit, lapsed=lapsed
            )
        if lapsed is not None:
            self._met.wait(30)
        return self._taken


NOTICED: dict[type[MemoryStore], str] = {
    NoCompareAndSet: "test_the_same_firing_wins_once",
    NoRevision: "test_a_firing_of_another_revision_changes_nothing",
    NeverPausedAtFirst: "test_a_new_definition_may_be_paused",
    AllOrNone: "test_one_firing_that_loses_costs_only_itself",
    HandsOutTwice: "test_a_claimed_instance_is_not_claimed_again",
    IgnoresLead: "test_what_is_due_within_lead_is_also_started",
    StartsWhatItClaims: "test_what_is_due_after_lead_is_not_started",
    TakesLapsedUnasked: "test_a_lapsed_claim_is_left_alone_unless_asked_for",
    LeavesLapsed: "test_a_lapsed_claim_is_taken_over",
    IgnoresLimit: "test_at_most_limit_are_claimed_at_a_time_and_all_in_the_end",
    AnyOrder: "test_what_is_claimed_of_more_is_in_order",
    LeavesTheRest: "test_the_limit_spans_all_queues",
    FirstRevisionAgain: "test_a_deleted_id_may_be_put_again_and_is_new",
    IgnoresQueues: "test_a_node_gets_what_is_in_its_queues",
    IgnoresExpireAfter: (
        "test_a_start_with_the_claim_takes_the_nodes_expire_after_by_default"
    ),
    AcceptsStaleCompletion: "test_the_owner_before_cannot_fail",
    RefusesLateSuccess: (
        "test_the_success_of_a_run_that_was_taken_over_ends_the_instance"
    ),
    LeavesFailuresAlone: "test_a_success_makes_good_a_failure",
    SucceedsTwice: "test_the_first_of_several_successes_wins",
    RevivesTheCancelled: "test_what_was_cancelled_while_it_waited_takes_no_success",
    MovesOnTwice: "test_the_success_of_what_failed_moves_nothing_on_again",
    AddsAgain: "test_an_addition_is_made_once_however_often_it_is_repeated",
    AddsToNothing: "test_there_must_be_a_definition",
    KeysAreEverybodys: "test_a_key_is_its_definitions",
    CompletesAtOnce: "test_one_on_demand_is_active_and_never_due",
    AddsUpHangs: "test_hangs_are_counted_in_a_row",
    IgnoresHowLongAgo: "test_a_claim_is_taken_over_that_has_lapsed_so_long_ago",
    ListsEverybodysClaims: "test_what_another_node_took_over_is_that_nodes",
    FirstContactStays: "test_a_contact_replaces_the_one_before",
    ForgetsWhoANodeIs: "test_a_contact_is_listed_as_it_was_noted",
    NamesAllQueues: "test_queues_that_are_left_out_are_not_named",
    HidesQueues: "test_all_queues_are_named_in_the_end",
    KeepsEveryContact: ("test_contacts_are_kept_for_an_hour_and_deleted_uncounted"),
    AcceptsStaleRenewal: "test_the_owner_before_cannot_renew",
    AcceptsStaleRelease: "test_the_owner_before_cannot_release",
    AcceptsStaleStart: "test_the_owner_before_cannot_start",
    DoesNotCount: "test_a_start_ahead_of_time_begins_at_the_due_time",
    StartsTwice: "test_a_second_start_is_answered_alike_and_changes_nothing",
    KeepsTheRun: "test_a_run_that_was_recorded_is_taken_off",
    KeepsWhatIsHandedOn: "test_what_is_handed_on_is_not_listed_for_its_node_any_more",
    ForgetsFrozen: "test_a_pause_freezes_or_removes_what_does_not_run",
    LosesFireTimes: "test_a_pause_goes_back_to_the_first_removed_time",
    PutsInPart: "test_where_one_definition_conflicts_none_is_put",
    TakesTheLast: "test_an_id_that_is_there_twice_is_refused_and_none_is_put",
    NeverConflicts: "test_another_revision_than_the_stored_one_conflicts",
    MovesOnEdit: "test_another_value_raises_the_revision_and_moves_nothing",
    CutsMicroseconds: "test_a_definitions_times_come_back",
    FindsExactMetadata: "test_by_what_the_metadata_contains",
    ForgetsWhatNeverFires: "test_lists_of_definitions_meet_every_condition",
    ForgetsIds: "test_what_has_ended_does_not_run_again",
    DeletesTheYoung: "test_instances_go_when_they_ended_long_enough_ago",
    AlwaysCancelled: "test_what_runs_is_asked_to_stop",
    AnswersOneCancel: "test_all_that_are_cancelled_together_are_answered",
    AnswersOneDelete: "test_a_delete_answers_what_existed_and_what_ran",
    AnswersNothingRan: "test_a_delete_answers_what_existed_and_what_ran",
    RemembersOneAtATime: "test_all_that_is_remembered_can_be_read_at_once",
    IsBehind: "test_the_store_goes_by_the_clock_it_was_given",
    ConnectsOnce: "test_connecting_again_is_harmless",
    StopsTheSeries: "test_a_definition_that_waits_fires_after_the_end",
    ListsThoseOfOthers: "test_lists_and_counts_by_some_owners_and_queues",
    CountsWhatIsThere: "test_every_state_has_a_count",
    ChecksThenActs: "test_many_schedulers_fire_each_definition_once",
    SelectsThenMarks: "test_two_nodes_never_take_over_the_same_claim",
    RepeatsThePage: "test_lists_of_instances_meet_every_condition",
    IsOldestFirst: "test_lists_of_instances_meet_every_condition",
    ListsByTheTimeOfTheRun: "test_lists_of_instances_meet_every_condition",
    NamesWhoHasEnded: "test_nobody_has_it_after_the_end",
}
THEIR_TEST = """
class Test{name}(StoreSuite):
    @pytest.fixture
    def store(self, clock):
        return stores.{name}(clock)
"""


def failed(folder: Path) -> Set[tuple[str, str]]:
    """Which tests fail for which store, in one run for all of them."""
    suite, report = folder / "test_broken.py", folder / "report.xml"
    lines = ["import pytest", "from go_scheduler.testing import StoreSuite"]
    lines += ["from tests.testing import test_suite_notices as stores"]
    names = ["SoundStore", *(each.__name__ for each in NOTICED)]
    suite.write_text(
        "\n".join([*lines, *(THEIR_TEST.format(name=name) for name in names)])
    )
    tests = [
        f"{suite}::Test{broken.__name__}::{name}" for broken, name in NOTICED.items()
    ]
    tests += [f"{suite}::TestSoundStore::{name}" for name in set(NOTICED.values())]
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "--strict-markers"]
    command += ["-p", "go_scheduler.testing.plugin", "-p", "no:cacheprovider"]
    command += ["-o", "markers=exhaustive"]
    done = subprocess.run(
        [*command, f"--rootdir={folder}", f"--junit-xml={report}", *tests],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=FAILED_AFTER,
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    assert len(cases) >= len(tests)
    assert not list(ElementTree.parse(report).getroot().iter("error"))
    failures = [(case, case.find("failure")) for case in cases]
    return {
        (_after(case.attrib["classname"], ".Test"), case.attrib["name"].split("[")[0])
        for case, failure in failures
        if failure is not None and _is_noticed(failure.attrib["message"])
    }


# One test for all: of several, each process of pytest-xdist would make that run.
@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_suite_notices_each_broken_store_and_no_sound_one(tmp_path: Path) -> None:
    noticed = failed(tmp_path)
    expected = {(broken.__name__, name) for broken, name in NOTICED.items()}
    assert expected - noticed == set()
    assert "SoundStore" not in {store for store, _ in noticed}


def test_no_test_of_the_suite_hides_another() -> None:
    names = [
        name
        for part in StoreSuite.__bases__
        for name in vars(part)
        if name.startswith("test_")
    ]
    assert len(names) == len(set(names))


def test_an_error_in_one_of_the_suites_threads_fails_the_test() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        at_once(lambda: int("1"), lambda: int("x"))


def _cut(at: datetime | None) -> datetime | None:
    return None if at is None else at.replace(microsecond=at.microsecond // 1000 * 1000)


def _after(text: str, mark: str) -> str:
    return text.rpartition(mark)[2]


def _is_noticed(message: str) -> bool:
    """Whether a test failed for what the store does, not for how it was broken."""
    return not message.startswith(("AttributeError", "NameError", "TypeError"))


def test_a_store_that_asks_a_trigger_of_somebody_elses_is_noticed() -> None:
    with pytest.raises(AssertionError, match="a store asked"):
        ForeignTrigger().next_fire_time(START)
