"""Every deliberately broken store fails the suite, by the test that names its fault."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import timedelta
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from xml.etree import ElementTree

import pytest

from go_scheduler.errors import ConfigurationError
from go_scheduler.models import Cancelled, State, TaskDefinition, TaskInstance
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import (
    Announcement,
    Answer,
    Claim,
    Claimant,
    Position,
    Release,
    Renewal,
    Retention,
    RunOutcome,
)
from go_scheduler.testing.builders import at_once
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.edits import ForeignTrigger
from go_scheduler.testing.store.nodes import THREADS
from go_scheduler.testing.stores import StoreSuite
from go_scheduler.triggers.on_demand import OnDemandTrigger
from go_scheduler.triggers.times import LAST_INSTANT
from tests.patience import FAILED_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence, Set
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.clock import Clock

ROOT = Path(__file__).parents[2]
ZERO = timedelta(0)


def _unchanged(store: MemoryStore, value: Any) -> Any:
    return value


def broken(
    method: str,
    *,
    asked: Callable[[MemoryStore, Any], object] = _unchanged,
    answered: Callable[[MemoryStore, Any], object] = _unchanged,
    **changed: object,
) -> type[MemoryStore]:
    """A store one of whose methods does something else than it is asked to.

    Args:
        method: Its name.
        asked: Makes its last argument another one.
        answered: Makes its answer another one.
        **changed: Keyword arguments that are others; a function makes one of all.
    """
    sound = getattr(MemoryStore, method)

    def call(self: MemoryStore, *arguments: Any, **named: Any) -> object:
        if arguments:
            arguments = (*arguments[:-1], asked(self, arguments[-1]))
        others = {
            name: value(named) if callable(value) else value
            for name, value in changed.items()
        }
        return answered(self, sound(self, *arguments, **{**named, **others}))

    return type("Broken", (MemoryStore,), {method: call})


def each(**changed: object) -> Callable[[MemoryStore, Any], object]:
    """Makes each row of a batch another one; a function makes a field of the row."""

    def change(store: MemoryStore, row: Any) -> Any:
        fields = {
            name: value(store, row) if callable(value) else value
            for name, value in changed.items()
        }
        return replace(row, **fields)

    return lambda store, rows: [change(store, row) for row in rows]


def stored(store: MemoryStore, read: TaskDefinition) -> TaskDefinition:
    """A definition as it is now, or as it was read if it is gone."""
    [*found] = store.list_definitions(ids=[read.id])
    return found[0] if found else read


def current(store: MemoryStore, claim: Claim) -> Claim:
    """The claim that is current, whatever is shown."""
    known = {each.id: each.attempt for each in store.list_instances(limit=1000)}
    return replace(claim, attempt=known.get(claim.instance_id, claim.attempt))


def current_of(store: MemoryStore, row: RunOutcome | Renewal | Release) -> Claim:
    """The same for a row of a batch."""
    return current(store, row.claim)


def first_of(store: MemoryStore, answer: Mapping[UUID, object]) -> object:
    """One of the rows that were answered."""
    return dict([*answer.items()][:1])


class SoundStore(MemoryStore):
    """Nothing is wrong with it."""


NoCompareAndSet = broken(
    "fire_definitions",
    asked=each(definition=lambda store, row: stored(store, row.definition)),
)
"""Fires whatever the definition was when it was read."""

NoRevision = broken(
    "fire_definitions",
    asked=each(
        definition=lambda store, row: replace(
            row.definition, revision=stored(store, row.definition).revision
        )
    ),
)
"""Compares the next fire time and forgets the revision."""

NeverPausedAtFirst = broken("put_definitions", asked=each(paused=False))
"""Does not keep the pause that a new definition brings."""

AllOrNone = broken(
    "fire_definitions",
    asked=lambda store, rows: (
        rows
        if all(
            stored(store, row.definition).revision == row.definition.revision
            for row in rows
        )
        else []
    ),
)
"""One firing that loses takes the whole batch with it."""

HandsOutTwice = broken(
    "claim_instances",
    answered=lambda store, new: [
        *(
            each
            for each in store.list_instances(state=State.CLAIMED)
            if each not in new
        ),
        *new,
    ],
)
"""Hands what is claimed to the next node too."""

IgnoresLead = broken("claim_instances", lead=ZERO)
"""Starts only what is due already."""

StartsWhatItClaims = broken("claim_instances", lead=itemgetter("ahead"))
"""Starts all that it claims."""

TakesLapsedUnasked = broken("claim_instances", lapsed=ZERO)
"""Takes over lapsed claims though it was told not to."""

LeavesLapsed = broken("claim_instances", lapsed=None)
"""Never takes over a lapsed claim."""

IgnoresTheDeadline = broken("claim_instances", deadline=LAST_INSTANT)
"""Takes over however late it is asked."""

IgnoresHowLongAgo = broken(
    "claim_instances", lapsed=lambda named: None if named["lapsed"] is None else ZERO
)
"""Takes over whatever has lapsed."""

IgnoresLimit = broken("claim_instances", limit=1000)
"""Claims all there is."""

AnyOrder = broken("claim_instances", answered=lambda _, claimed: claimed[::-1])
"""Hands out in whatever order it finds."""

LeavesTheRest = broken(
    "claim_instances",
    asked=lambda _, claimant: replace(claimant, queues=claimant.queues[:1]),
)
"""Finds nothing in a queue as long as another one has something."""

IgnoresQueues = broken(
    "claim_instances",
    asked=lambda store, claimant: replace(
        claimant,
        queues=tuple({each.queue for each in store.list_definitions(limit=1000)}),
    ),
)
"""Serves every queue."""

IgnoresExpireAfter = broken(
    "claim_instances",
    asked=lambda _, claimant: replace(claimant, expire_after=claimant.lease),
)
"""Lets every run hold for a whole lease, if its definition does not say less."""

AcceptsStaleCompletion = broken("finish_instances", asked=each(claim=current_of))
AcceptsStaleRenewal = broken("renew_claims", asked=each(claim=current_of))
AcceptsStaleRelease = broken("release_instances", asked=each(claim=current_of))
AcceptsStaleStart = broken(
    "start_instances",
    asked=lambda store, claims: [current(store, claim) for claim in claims],
)

AddsAgain = broken("add_instances", asked=each(id=lambda *_: uuid4()))
"""Does not know what it has added."""

ForgetsWhoANodeIs = broken(
    "note_contact",
    asked=lambda _, told: Announcement(node=told.node, queues=told.queues),
)
"""Keeps of an announcement what the loops need, and nothing else."""

NamesAllQueues = broken("list_due_queues", apart_from=())
"""Names those as well that were to be left out."""

DoesNotCount = broken(
    "start_instances",
    answered=lambda _, answer: Answer(
        done=[replace(each, runs=each.runs - 1) for each in answer.done]
    ),
)
"""Starts without one more in ``runs``."""

KeepsWhatIsHandedOn = broken("renew_claims", asked=each(handed_on=False))
"""Takes a run that is handed on for one of the node that called its handler."""

TakesTheLast = broken(
    "put_definitions",
    asked=lambda _, given: list({each.id: each for each in given}.values()),
)
"""Puts the last one of an id that is there twice."""

NeverConflicts = broken("put_definitions", asked=each(revision=None))
"""Takes no notice of the revision that was read."""

CutsMicroseconds = broken(
    "put_definitions",
    asked=each(next_fire_time=lambda _, row: _cut(row.next_fire_time)),
)
"""Keeps whole milliseconds."""

DeletesTheYoung = broken(
    "delete_finished",
    asked=lambda _, retention: replace(retention, ended=ZERO, failed=ZERO),
)
"""Deletes what has ended, however lately."""

ForgetsIds = broken(
    "delete_finished", asked=lambda _, retention: replace(retention, remembered=ZERO)
)
"""Remembers no id of what has ended and is gone."""

AlwaysCancelled = broken(
    "cancel_instances",
    answered=lambda _, answer: dict.fromkeys(answer, Cancelled.CANCELLED),
)
"""Says of a run that it will not run."""

StopsTheSeries = broken("finish_instances", asked=each(next_fire_time=None))
"""Forgets the next fire time that came with the end of a run."""

AnswersOneCancel = broken("cancel_instances", answered=first_of)
"""Cancels all and answers one."""

AnswersOneDelete = broken("delete_definitions", answered=first_of)
"""Deletes all and answers one."""

AnswersNothingRan = broken(
    "delete_definitions", answered=lambda _, answer: dict.fromkeys(answer, frozenset())
)
"""Deletes all and answers that nothing ran."""

RemembersOneAtATime = broken("list_tombstones", asked=lambda _, ids: [*ids][:1])
"""Reads what is remembered of the first id alone."""

IsBehind = broken(
    "now_between",
    answered=lambda _, between: tuple(each - timedelta(seconds=5) for each in between),
)
"""Tells of an instant before the store's time."""

CountsWhatIsThere = broken(
    "counts", answered=lambda _, found: {state: n for state, n in found.items() if n}
)
"""Leaves out the states that no instance is in."""

ListsThoseOfOthers = broken("list_instances", owners=None)
"""Looks at no owner when it lists instances."""

IsOldestFirst = broken("list_instances", newest_first=False)
"""Begins with the oldest, whatever was asked for."""


class FirstRevisionAgain(MemoryStore):
    """Begins at the first revision whatever has been deleted."""

    def put_definitions(self, definitions: Any) -> Any:
        self._definitions._first = 1
        return super().put_definitions(definitions)


def taken_of(state: State) -> type[MemoryStore]:
    """A store that says of a success that it counts, if the instance is in a state."""

    class Taken(MemoryStore):
        def finish_instances(self, outcomes: Any) -> Any:
            before = {each.id for each in self.list_instances(state=state)}
            done = super().finish_instances(outcomes).done
            again = {each.claim.instance_id for each in outcomes}
            return Answer(done={*done, *(again & before)})

    return Taken


SucceedsTwice = taken_of(State.COMPLETED)
"""Says to the second success as well that it was the first."""

RevivesTheCancelled = taken_of(State.CANCELLED)
"""Takes the success of what was cancelled."""


def recording_only(
    counts: Callable[[TaskInstance, Claim], bool],
) -> type[MemoryStore]:
    """A store that takes no other ends of runs."""

    def asked(store: MemoryStore, outcomes: Any) -> object:
        known = {each.id: each for each in store.list_instances(limit=1000)}
        shown = [each for each in outcomes if each.claim.instance_id in known]
        return [
            each for each in shown if counts(known[each.claim.instance_id], each.claim)
        ]

    return broken("finish_instances", asked=asked)


RefusesLateSuccess = recording_only(
    lambda instance, claim: (
        instance.attempt == claim.attempt
        and instance.state in (State.CLAIMED, State.RUNNING)
    )
)
"""Records only what the owner says."""

LeavesFailuresAlone = recording_only(
    lambda instance, _: instance.state is not State.FAILED
)
"""Takes no success of what has failed."""


class MovesOnTwice(MemoryStore):
    """Moves a definition on for every success."""

    def finish_instances(self, outcomes: Any) -> Any:
        answer = super().finish_instances(outcomes)
        for each in outcomes:
            if each.claim.instance_id in answer.done and each.outcome is not None:
                row = self._instances.get(each.claim.instance_id)
                assert row is not None
                self._definitions.go_on(row, each.next_fire_time, self.now())
        return answer


class AddsToNothing(MemoryStore):
    """Makes a definition where there is none."""

    def add_instances(self, definition_id: UUID, additions: Any) -> Any:
        if not self.list_definitions(ids=[definition_id]):
            trigger = OnDemandTrigger()
            self.put_definitions([TaskDefinition(trigger=trigger, id=definition_id)])
        return super().add_instances(definition_id, additions)


class KeysAreEverybodys(MemoryStore):
    """Takes a key for the same, whatever definition it is of."""

    def add_instances(self, definition_id: UUID, additions: Any) -> Any:
        known = {each.key: each for each in self.list_instances(limit=1000)}
        if additions and additions[0].key is not None and additions[0].key in known:
            return [known[additions[0].key]]
        return super().add_instances(definition_id, additions)


class CompletesAtOnce(MemoryStore):
    """Takes what has no fire time for over."""

    def put_definitions(self, definitions: Any) -> Any:
        stored = super().put_definitions(definitions)
        for each in stored:
            row = self._definitions.get(each.id)
            if row is not None and each.next_fire_time is None:
                self._definitions.change(row, completed_at=self.now())
        return [self.get_definition(each.id) for each in stored]


class AddsUpHangs(MemoryStore):
    """Counts all hangs, not those in a row."""

    def finish_instances(self, outcomes: Any) -> Any:
        before = {each.id: each.hangs for each in self.list_instances(limit=1000)}
        answer = super().finish_instances(outcomes)
        for each in outcomes:
            row = self._instances.get(each.claim.instance_id)
            if row is not None and not each.hung:
                row.hangs = before[row.id]
        return answer


class ListsEverybodysClaims(MemoryStore):
    """Forgets whose claims were asked for."""

    def list_claimed(self, node: UUID, **page: Any) -> Any:
        found: list[TaskInstance] = []
        for each in {each.claimed_by for each in self.list_instances(limit=1000)}:
            if each is not None:
                found += super().list_claimed(each, **page)
        return found


class FirstContactStays(MemoryStore):
    """Keeps what was noted first."""

    def note_contact(self, announced: Announcement, *, unbroken: timedelta) -> None:
        known = {each.announced.node for each in self._tables.contacts.rows}
        if announced.node not in known:
            super().note_contact(announced, unbroken=unbroken)


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


class StartsTwice(MemoryStore):
    """Counts a repeated start as another run."""

    def start_instances(self, claimant: Claimant, claims: Any) -> Any:
        before = {each.id for each in self.list_instances(state=State.RUNNING)}
        started = super().start_instances(claimant, claims).done
        return Answer(
            done=[
                replace(each, runs=each.runs + (each.id in before)) for each in started
            ]
        )


class KeepsTheRun(MemoryStore):
    """Gives back what was started and still counts its run."""

    def release_instances(self, releases: Any) -> Any:
        at = self.now()
        ends = [
            RunOutcome(claim=each.claim, started_at=at, retry_in=each.delay)
            for each in releases
        ]
        return self.finish_instances(ends)


class ForgetsFrozen(MemoryStore):
    """Hands out what is frozen by a pause."""

    def claim_instances(self, claimant: Claimant, **options: Any) -> Any:
        paused = [each.id for each in self.list_definitions() if each.paused]
        self.resume_definitions(paused)
        claimed = super().claim_instances(claimant, **options)
        self.pause_definitions(paused)
        return claimed


class LosesFireTimes(MemoryStore):
    """Removes instances at a pause without going back to their fire time."""

    def pause_definitions(self, ids: Any, *, note: str | None = None) -> Any:
        before = {each.id: each for each in self.list_definitions(ids=ids)}
        return [
            replace(each, next_fire_time=before[each.id].next_fire_time)
            for each in super().pause_definitions(ids, note=note)
        ]


class PutsInPart(MemoryStore):
    """Puts what comes before the definition that conflicts."""

    def put_definitions(self, definitions: Any) -> Any:
        return [MemoryStore.put_definitions(self, [each])[0] for each in definitions]


class MovesOnEdit(MemoryStore):
    """Takes the next fire time that was passed, whatever the trigger."""

    def put_definitions(self, definitions: Any) -> Any:
        pairs = zip(super().put_definitions(definitions), definitions, strict=True)
        return [replace(new, next_fire_time=x.next_fire_time) for new, x in pairs]


class FindsExactMetadata(MemoryStore):
    """Compares metadata where it should look inside."""

    def list_definitions(self, *, metadata: Any = None, **conditions: Any) -> Any:
        found = super().list_definitions(**conditions)
        return [each for each in found if metadata in (None, each.metadata)]


class ForgetsWhatNeverFires(MemoryStore):
    """Leaves out what has no fire time, where it comes at the end."""

    def list_definitions(self, *, soonest_first: Any = False, **conditions: Any) -> Any:
        found = super().list_definitions(soonest_first=soonest_first, **conditions)
        return [each for each in found if each.next_fire_time or not soonest_first]


class ConnectsOnce(MemoryStore):
    """Refuses what is open already."""

    def connect(self) -> None:
        raise ConfigurationError("it is open")


class RepeatsThePage(MemoryStore):
    """Begins a page with the last instance of the one before."""

    def list_instances(self, *, after: Position | None = None, **page: Any) -> Any:
        found = super().list_instances(after=after, **page)
        first = [] if after is None else [self.get_instance(after.id)]
        return [*first, *found][: page.get("limit", 100)]


class ListsByTheTimeOfTheRun(MemoryStore):
    """Takes when an instance is to run for its fire time."""

    def list_instances(
        self, *, fired_since: Any = None, fired_before: Any = None, **conditions: Any
    ) -> Any:
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

    def finish_instances(self, outcomes: Any) -> Any:
        self._last.update(self._instances.slots.holders)
        return super().finish_instances(outcomes)

    def slot_holder(self, slot: str) -> TaskInstance | None:
        last = self._last.get(slot)
        return super().slot_holder(slot) if last is None else self.get_instance(last)


class Racing(MemoryStore):
    """A store whose callers meet between two steps."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._met = threading.Barrier(THREADS)
        self._taken: Sequence[TaskInstance] = ()


class ChecksThenActs(Racing):
    """Compares in one step and sets in another."""

    def fire_definitions(self, firings: Any) -> Any:
        unchanged = [
            each
            for each in firings
            if self.get_definition(each.definition.id).next_fire_time
            == each.definition.next_fire_time
        ]
        self._met.wait(30)
        return super().fire_definitions(
            [replace(row, definition=stored(self, row.definition)) for row in unchanged]
        )


class SelectsThenMarks(Racing):
    """Selects in one step and marks in another: all who selected then have it."""

    def claim_instances(
        self, claimant: Claimant, *, lapsed: timedelta | None, **options: Any
    ) -> Any:
        if lapsed is None or self._met.wait(30) == 0:
            self._taken = super().claim_instances(claimant, lapsed=lapsed, **options)
        if lapsed is not None:
            self._met.wait(30)
        return self._taken


NOTICED: dict[type[MemoryStore], str] = {
    NoCompareAndSet: "test_the_same_firing_wins_once",
    NoRevision: "test_a_firing_of_another_revision_changes_nothing",
    NeverPausedAtFirst: "test_a_new_definition_may_be_paused",
    AllOrNone: "test_one_firing_that_loses_costs_only_itself",
    HandsOutTwice: "test_a_claimed_instance_is_not_claimed_again",
    IgnoresTheDeadline: "test_a_lapsed_claim_is_left_alone_after_the_deadline",
    IgnoresLead: "test_what_is_due_within_lead_is_also_started",
    StartsWhatItClaims: "test_what_is_due_after_lead_is_not_started",
    TakesLapsedUnasked: "test_a_lapsed_claim_is_left_alone_unless_asked_for",
    LeavesLapsed: "test_a_lapsed_claim_is_taken_over",
    IgnoresLimit: "test_claims_in_pages_of_limit_get_everything",
    AnyOrder: "test_the_earliest_due_come_first",
    LeavesTheRest: "test_claims_in_pages_of_limit_get_everything",
    FirstRevisionAgain: "test_a_deleted_id_may_be_put_again_and_is_new",
    IgnoresQueues: "test_a_node_gets_what_is_in_its_queues",
    IgnoresExpireAfter: "test_a_claim_that_starts_is_bounded_by_expire_after",
    AcceptsStaleCompletion: "test_no_run_fails_by_a_claim_that_is_not_current",
    RefusesLateSuccess: ("test_the_success_of_a_lost_run_ends_the_instance"),
    LeavesFailuresAlone: "test_a_success_makes_good_a_failure",
    SucceedsTwice: "test_the_first_of_several_successes_wins",
    RevivesTheCancelled: "test_a_success_counts_of_a_claim_that_was_current_once",
    MovesOnTwice: "test_the_success_of_what_failed_moves_nothing_on_again",
    AddsAgain: "test_a_repeated_addition_is_made_once",
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
    KeepsEveryContact: ("test_contacts_are_kept_for_an_hour"),
    AcceptsStaleRenewal: "test_no_claim_is_renewed_that_is_not_current",
    AcceptsStaleRelease: "test_nothing_is_released_by_a_claim_that_is_not_current",
    AcceptsStaleStart: "test_nothing_starts_under_a_claim_that_is_not_current",
    DoesNotCount: "test_a_start_ahead_of_time_begins_at_the_due_time",
    StartsTwice: "test_a_repeated_start_changes_nothing",
    KeepsTheRun: "test_a_run_that_was_recorded_is_taken_off",
    KeepsWhatIsHandedOn: "test_a_handed_on_run_is_not_listed_for_its_node",
    ForgetsFrozen: "test_a_pause_freezes_or_removes_instances",
    LosesFireTimes: "test_a_pause_goes_back_to_the_first_removed_time",
    PutsInPart: "test_where_one_definition_conflicts_none_is_put",
    TakesTheLast: "test_a_repeated_id_is_refused_with_all",
    NeverConflicts: "test_another_revision_than_the_stored_one_conflicts",
    MovesOnEdit: "test_another_value_only_raises_the_revision",
    CutsMicroseconds: "test_a_definitions_times_come_back",
    FindsExactMetadata: "test_by_what_the_metadata_contains",
    ForgetsWhatNeverFires: "test_lists_of_definitions_meet_every_condition",
    ForgetsIds: "test_what_has_ended_does_not_run_again",
    DeletesTheYoung: "test_instances_go_when_they_ended_long_enough_ago",
    AlwaysCancelled: "test_what_runs_is_asked_to_stop",
    AnswersOneCancel: "test_what_does_not_run_is_cancelled",
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
    NamesWhoHasEnded: "test_it_is_who_runs_or_waits_for_a_retry_until_the_end",
}


def name_of(broken: type[MemoryStore]) -> str:
    """Under which name a store stands in this module."""
    [name] = (name for name, value in globals().items() if value is broken)
    return name


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
    names = ["SoundStore", *(name_of(each) for each in NOTICED)]
    suite.write_text(
        "\n".join([*lines, *(THEIR_TEST.format(name=name) for name in names)])
    )
    tests = [
        f"{suite}::Test{name_of(broken)}::{name}" for broken, name in NOTICED.items()
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
    expected = {(name_of(broken), name) for broken, name in NOTICED.items()}
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
