"""The suite for stores notices a broken store, by the test that names its fault."""

from __future__ import annotations

import threading
from dataclasses import fields, replace
from datetime import timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.models import Cancelled, State
from go_scheduler.stores.filters import (
    ANY,
    ANY_DEFINITION,
    DefinitionFilter,
    Filter,
    Order,
    Page,
)
from go_scheduler.stores.memory.store import MemoryStore
from go_scheduler.stores.messages import (
    Announcement,
    Answer,
    Claim,
    Firing,
    Position,
    Put,
)
from go_scheduler.testing import ManualClock, StoreSuite
from go_scheduler.testing.builders import Rig, at_once
from go_scheduler.testing.clock import START
from go_scheduler.testing.store.edits import ForeignTrigger
from go_scheduler.testing.store.nodes import THREADS
from go_scheduler.triggers.times import LAST_INSTANT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.clock import Clock
    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.memory.store import Snapshot
    from go_scheduler.stores.messages import Claimant


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


def each(**changed: object) -> Callable[[MemoryStore, Any], Any]:
    """Makes each row of a batch another one; a function makes a field of the row."""

    def change(store: MemoryStore, row: Any) -> Any:
        fields = {
            name: value(store, row) if callable(value) else value
            for name, value in changed.items()
        }
        return replace(row, **fields)

    return lambda store, rows: [change(store, row) for row in rows]


def without(condition: str) -> Callable[[MemoryStore, Any], object]:
    """Makes a filter one that lacks a condition."""

    def change(_: MemoryStore, where: Any) -> Any:
        [default] = [e.default for e in fields(where) if e.name == condition]
        return replace(where, **{condition: default})

    return change


def stored(store: MemoryStore, read: TaskDefinition) -> TaskDefinition:
    """A definition as it is now, or as it was read if it is gone."""
    [*found] = store.select_definitions(DefinitionFilter(ids=[read.id]))
    return found[0] if found else read


def current(store: MemoryStore, claim: Claim) -> Claim:
    """The claim that is current, whatever is shown."""
    known = {each.id: each.attempt for each in store.select(limit=1000)}
    return replace(claim, attempt=known.get(claim.instance_id, claim.attempt))


def current_of(store: MemoryStore, row: Any) -> Claim:
    """The same for a row of a batch."""
    return current(store, row.claim)


def as_stored(store: MemoryStore, row: Firing) -> TaskDefinition:
    """The definition of a firing as it is now."""
    return stored(store, row.definition)


def of_any_revision(store: MemoryStore, row: Firing) -> TaskDefinition:
    """The definition of a firing as if it had been read just now."""
    return replace(row.definition, revision=as_stored(store, row).revision)


def none_if_one_is_stale(store: MemoryStore, rows: Any) -> Any:
    return (
        []
        if any(as_stored(store, e).revision != e.definition.revision for e in rows)
        else rows
    )


def all_claimed(store: MemoryStore, _: object) -> object:
    return store.select(Filter(states=[State.CLAIMED]))


def for_all_queues(store: MemoryStore, claimant: Claimant) -> Claimant:
    queues = {each.queue for each in store.select_definitions(limit=1000)}
    return replace(claimant, queues=tuple(queues))


def with_one_run_less(_: MemoryStore, answer: Any) -> object:
    return Answer(done=[replace(each, runs=each.runs - 1) for each in answer.done])


def of_owners(store: MemoryStore, ends: Any) -> object:
    return [end for end in ends if current_of(store, end) == end.claim]


def in_whole_seconds(_: MemoryStore, row: Any) -> datetime:
    at: datetime = row.next_fire_time
    return at.replace(microsecond=0)


def told_in_short(_: MemoryStore, told: Announcement) -> Announcement:
    return Announcement(node=told.node, queues=told.queues)


def all_cancelled(_: MemoryStore, answer: Any) -> object:
    return dict.fromkeys(answer, Cancelled.CANCELLED)


def five_seconds_ago(_: MemoryStore, between: Any) -> object:
    return tuple(each - timedelta(seconds=5) for each in between)


def without_zeros(_: MemoryStore, found: Any) -> object:
    return [
        {state: each for state, each in counts.items() if each.count}
        for counts in found
    ]


def first_of(store: MemoryStore, answer: Mapping[UUID, object]) -> object:
    """One of the rows that were answered."""
    return dict([*answer.items()][:1])


def forgets(
    **kept: Callable[[Snapshot], object],
) -> Callable[[MemoryStore, Any], object]:
    """Makes a store keep less than it had; a function says what of it is kept."""

    def forget(store: MemoryStore, value: Any) -> Any:
        had = store.snapshot()
        less: dict[str, Any] = {name: each(had) for name, each in kept.items()}
        store.restore(replace(had, **less))
        return value

    return forget


def unended(had: Snapshot) -> Sequence[TaskInstance]:
    """The instances that have not ended."""
    return [each for each in had.instances if each.completed_at is None]


def unless_ended_when_due(had: Snapshot) -> Mapping[UUID, UUID]:
    """Behind which instance one was parked, unless that ended when this one is due."""
    found = {each.id: each for each in had.instances}
    return {
        id: holder
        for id, holder in had.behind.items()
        if found[holder].completed_at != found[id].due_at
    }


class SucceedsTwice(MemoryStore):
    """Says to the second success as well that it was the first."""

    def finish_instances(self, outcomes: Any) -> Any:
        before = {each.id for each in self.select(Filter(states=[State.COMPLETED]))}
        again = {each.claim.instance_id for each in outcomes}
        return Answer(done={*super().finish_instances(outcomes).done, *again & before})


class ForgetsFrozen(MemoryStore):
    """Hands out what is frozen by a pause."""

    def claim_instances(self, claimant: Claimant, **options: Any) -> Any:
        paused = [each.id for each in self.select_definitions() if each.paused]
        self.resume_definitions(paused)
        claimed = super().claim_instances(claimant, **options)
        self.pause_definitions(paused)
        return claimed


class PutsInPart(MemoryStore):
    """Puts what comes before the definition that conflicts."""

    def put_definitions(self, definitions: Any, **_: Any) -> Any:
        put = [MemoryStore.put_definitions(self, [each]) for each in definitions]
        return Put(definitions=[each for one in put for each in one.definitions])


class FindsExactMetadata(MemoryStore):
    """Compares metadata where it should look inside."""

    def select_definitions(
        self, where: DefinitionFilter = ANY_DEFINITION, **page: Any
    ) -> Any:
        found = super().select_definitions(where, **page)
        exact = [each for each in found if where.metadata in (None, each.metadata)]
        return Page(exact, next=found.next)


class RepeatsThePage(MemoryStore):
    """Begins a page with the last instance of the one before."""

    def select(
        self, where: Filter = ANY, *, after: Position | None = None, **page: Any
    ) -> Any:
        found = super().select(where, after=after, **page)
        first = [] if after is None else [self.get_instance(after.id)]
        return Page([*first, *found][: page.get("limit", 100)], next=found.next)


class PausesByRows(MemoryStore):
    """Takes back what comes behind the last end that is kept, whatever the time is."""

    def pause_definitions(self, ids: Any, **options: Any) -> Any:
        ends = [each.execute_at for each in self.select() if each.completed_at]
        now = self._time
        self._time = lambda: max(ends)
        paused = super().pause_definitions(ids, **options)
        self._time = now
        return paused


class TakesTurnsAsGiven(MemoryStore):
    """Lets those take a slot in the order given that are due together."""

    def start_instances(self, claimant: Claimant, claims: Any) -> Any:
        due = {each.id: each.due_at for each in self.select()}
        in_turn = sorted(claims, key=lambda each: due[each.instance_id])
        start = super().start_instances
        answers = [start(claimant, [each]) for each in in_turn]
        return Answer(done=[row for each in answers for row in each.done])


class Racing(MemoryStore):
    """A store whose callers meet between two steps."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._met = threading.Barrier(THREADS)
        self._taken: Sequence[TaskInstance] = ()


class ChecksThenActs(Racing):
    """Compares in one step and sets in another."""

    def fire_definitions(self, firings: Any, **_: Any) -> Any:
        unchanged = [
            row
            for row in firings
            if as_stored(self, row).next_fire_time == row.definition.next_fire_time
        ]
        self._met.wait(30)
        return super().fire_definitions(each(definition=as_stored)(self, unchanged))


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


KINDS: dict[str, type[MemoryStore]] = {
    "many_schedulers_fire_each_definition_once": ChecksThenActs,
    "two_nodes_never_take_over_the_same_claim": SelectsThenMarks,
    "the_first_of_several_successes_wins": SucceedsTwice,
    "a_run_that_stops_during_a_pause_is_frozen": ForgetsFrozen,
    "where_one_definition_conflicts_none_is_put": PutsInPart,
    "by_what_the_metadata_contains": FindsExactMetadata,
    "a_page_has_what_meets_every_condition": RepeatsThePage,
    "no_fire_time_that_has_passed_fires_again": PausesByRows,
    "of_those_due_together_the_turn_is_by_execute_at": TakesTurnsAsGiven,
}
"""Of each test of the suite a store that it is to notice."""

WAYS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "fire_definitions": [
        # It fires whatever the definition was when it was read.
        ("the_same_firing_wins_once", {"asked": each(definition=as_stored)}),
        # It compares the next fire time and forgets the revision.
        (
            "a_firing_of_another_revision_changes_nothing",
            {"asked": each(definition=of_any_revision)},
        ),
        # One firing that loses takes the whole batch with it.
        ("one_firing_that_loses_costs_only_itself", {"asked": none_if_one_is_stale}),
    ],
    "claim_instances": [
        # It hands what is claimed to the next node too.
        ("a_claimed_instance_is_not_claimed_again", {"answered": all_claimed}),
        # It starts only what is due already, or all that it claims.
        ("what_is_due_within_lead_is_also_started", {"lead": ZERO}),
        ("what_is_due_after_lead_is_not_started", {"lead": itemgetter("ahead")}),
        # It takes over lapsed claims unasked, or none, or however late it is asked.
        ("a_lapsed_claim_is_left_alone_unless_asked_for", {"lapsed": ZERO}),
        ("a_lapsed_claim_is_taken_over", {"lapsed": None}),
        (
            "a_lapsed_claim_is_left_alone_after_the_deadline",
            {"deadline": LAST_INSTANT},
        ),
        # It claims all there is, in whatever order it finds, and from all queues.
        ("claims_in_pages_of_limit_get_everything", {"limit": 1000}),
        ("the_earliest_due_come_first", {"answered": lambda _, found: found[::-1]}),
        ("a_node_gets_what_is_in_its_queues", {"asked": for_all_queues}),
    ],
    "start_instances": [
        (
            "nothing_starts_under_a_claim_that_is_not_current",
            {"asked": lambda store, claims: [current(store, row) for row in claims]},
        ),
        # It starts without one more in ``runs``.
        (
            "a_start_ahead_of_time_begins_at_the_due_time",
            {"answered": with_one_run_less},
        ),
    ],
    "renew_claims": [
        (
            "no_claim_is_renewed_that_is_not_current",
            {"asked": each(claim=current_of)},
        ),
        # It takes a run that is handed on for one of the node that called its handler.
        (
            "a_handed_on_run_is_not_listed_for_its_node",
            {"asked": each(handed_on=False)},
        ),
    ],
    "release_instances": [
        (
            "nothing_is_released_by_a_claim_that_is_not_current",
            {"asked": each(claim=current_of)},
        ),
    ],
    "finish_instances": [
        (
            "no_run_fails_by_a_claim_that_is_not_current",
            {"asked": each(claim=current_of)},
        ),
        # It records only what the owner says.
        ("the_success_of_a_lost_run_ends_the_instance", {"asked": of_owners}),
        # It keeps what need not be kept, or deletes the success of a later attempt.
        (
            "a_success_that_need_not_be_kept_is_deleted",
            {"asked": each(deletes=False)},
        ),
        ("what_was_claimed_before_stays", {"answered": forgets(instances=unended)}),
        # It judges nothing by a run that ended at the moment when it was due.
        (
            "a_run_that_ended_in_time_skips_nothing",
            {"answered": forgets(behind=unless_ended_when_due)},
        ),
        # It forgets the next fire time that came with the end of a run.
        (
            "a_definition_that_waits_fires_after_the_end",
            {"asked": each(next_fire_time=None)},
        ),
    ],
    "delete_finished": [
        # It forgets the revisions of deleted definitions at any cleanup.
        (
            "no_cleanup_forgets_the_revision_of_a_delete_too_soon",
            {"answered": forgets(first_revision=lambda _: 1)},
        ),
        # It deletes what has ended before its fire time.
        (
            "a_pause_goes_back_over_nothing_that_began",
            {"answered": forgets(instances=unended)},
        ),
        # It deletes what has ended, however lately, and remembers no id of it.
        (
            "instances_go_when_they_ended_long_enough_ago",
            {"asked": lambda _, kept: replace(kept, ended=ZERO, failed=ZERO)},
        ),
        (
            "what_has_ended_does_not_run_again",
            {"asked": lambda _, kept: replace(kept, remembered=ZERO)},
        ),
    ],
    "put_definitions": [
        # It knows at an edit what has begun by the instances that are there still.
        (
            "another_trigger_repeats_no_fire_time_that_has_begun",
            {"asked": forgets(fired_until=lambda _: {})},
        ),
        # It takes no notice of the revision that was read.
        (
            "another_revision_than_the_stored_one_conflicts",
            {"asked": each(revision=None)},
        ),
        # It does not keep the pause that a new definition brings, nor microseconds.
        ("a_new_definition_may_be_paused", {"asked": each(paused=False)}),
        (
            "a_definitions_times_come_back",
            {"asked": each(next_fire_time=in_whole_seconds)},
        ),
    ],
    # It does not know what it has added.
    "add_instances": [
        ("a_repeated_addition_is_made_once", {"asked": each(id=lambda *_: uuid4())}),
    ],
    # It keeps of an announcement what the loops need, and nothing else.
    "note_contact": [
        ("a_contact_is_listed_as_it_was_noted", {"asked": told_in_short}),
    ],
    # It names those queues as well that were to be left out.
    "list_due_queues": [
        ("queues_that_are_left_out_are_not_named", {"apart_from": ()}),
    ],
    # It says of a run that it will not run, or does all and answers one.
    "cancel_instances": [
        ("what_runs_is_asked_to_stop", {"answered": all_cancelled}),
        ("what_does_not_run_is_cancelled", {"answered": first_of}),
    ],
    "delete_definitions": [
        ("a_delete_answers_what_existed_and_what_ran", {"answered": first_of}),
    ],
    # It tells of an instant before the store's time.
    "now_between": [
        ("the_store_goes_by_the_clock_it_was_given", {"answered": five_seconds_ago}),
    ],
    # It leaves out the states that no instance is in.
    "count": [("every_state_has_a_count", {"answered": without_zeros})],
    "select": [
        # It does not look at one of the conditions of a filter.
        *(
            ("a_page_has_what_meets_every_condition", {"asked": without(row.name)})
            for row in fields(Filter)
            if row.name != "ids"
        ),
        ("instances_are_read_by_their_ids", {"asked": without("ids")}),
        # It begins with the oldest, or knows one order only.
        ("a_page_has_what_meets_every_condition", {"descending": False}),
        *(
            ("instances_meet_each_pair_of_conditions_in_order", {"order": of})
            for of in Order
        ),
    ],
    "select_definitions": [
        (
            "definitions_meet_each_pair_of_conditions_in_order",
            {"asked": without(row.name)},
        )
        for row in fields(DefinitionFilter)
    ],
}
"""Of each method ways to break it, each with the test that is to notice."""

NOTICED = [
    *KINDS.items(),
    *((name, broken(method, **how)) for method in WAYS for name, how in WAYS[method]),
]


@pytest.mark.parametrize(("name", "kind"), NOTICED)
def test_the_suite_notices_a_broken_store_and_no_sound_one(
    name: str, kind: type[MemoryStore]
) -> None:
    test = getattr(StoreSuite(), f"test_{name}")
    for store in (MemoryStore, kind):
        clock = ManualClock()
        rig = Rig(store(clock), clock)
        if store is MemoryStore:
            test(rig)
            continue
        with pytest.raises((Exception, pytest.fail.Exception)) as caught:
            test(rig)
        # It failed for what the store does, not for how it was broken.
        assert not isinstance(caught.value, AttributeError | NameError | TypeError)


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


def test_a_store_that_asks_a_trigger_of_somebody_elses_is_noticed() -> None:
    with pytest.raises(AssertionError, match="a store asked"):
        ForeignTrigger().next_fire_time(START)
