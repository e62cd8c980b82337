"""Store suite: several nodes claim, note, count, agree and clean up, also at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from go_scheduler.clock import ZERO
from go_scheduler.errors import ConflictError, TaskDefinitionNotFoundError
from go_scheduler.models import (
    BOUNDS,
    Cancelled,
    Histogram,
    Outcome,
    QueueStats,
    Skipped,
    State,
    TaskDefinition,
)
from go_scheduler.stores.messages import Announcement, NodeContact
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    NOBODY,
    NODE,
    OTHER_NODE,
    SECOND,
    TICK,
    WAITING,
    YEAR,
    Rig,
    StoreTests,
    at_once,
    check,
    definition,
    firing,
    ids,
    kept_by_store,
    revision_of,
    times,
)
from go_scheduler.testing.clock import START, settle
from go_scheduler.triggers.simple import ExecuteOnceTrigger, IntervalTrigger

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from go_scheduler.models import TaskInstance
    from go_scheduler.triggers.base import Trigger


THREADS = 8
QUEUES = ("default", "mail")
OTHERS = ("Übrige \"'\\,",)


class ListClaimedTests(StoreTests):
    """``list_claimed``."""

    def test_the_claims_of_a_node_are_listed_by_id(self, rig: Rig) -> None:
        released, over = rig.running(), rig.running()
        assert rig.release(released, HOUR)
        assert rig.finish(over)
        rig.pending(definition(START + HOUR))
        mine = [rig.claimed(), *(rig.running() for _ in range(4))]
        found: list[TaskInstance] = []
        after = None
        while page := rig.store.list_claimed(NODE, after=after, limit=2):
            assert len(page) <= 2
            found += page
            after = page[-1]
        assert found == sorted(mine, key=lambda each: each.id.int)
        assert rig.store.list_claimed(NODE) == found
        assert rig.store.list_claimed(OTHER_NODE) == []

    def test_what_another_node_took_over_is_that_nodes(self, rig: Rig) -> None:
        _, second = rig.passed_on()
        assert rig.store.list_claimed(NODE) == []
        assert rig.store.list_claimed(OTHER_NODE) == [second]


class ContactTests(StoreTests):
    """``note_contact`` and ``list_contacts``."""

    def test_a_contact_is_listed_as_it_was_noted(self, rig: Rig) -> None:
        first = Announcement(node=NODE, queues=QUEUES)
        second = Announcement(
            node=OTHER_NODE,
            host="machine ä \"'\\,",
            pid=2**22,
            version="1.2.3",
            queues=OTHERS,
            names=("send", *OTHERS),
            lease=LEASE + TICK,
            stopping=True,
        )
        nothing = Announcement(node=NOBODY, queues=(), names=())
        rig.store.note_contact(nothing, unbroken=ZERO)
        rig.store.note_contact(first, unbroken=ZERO)
        rig.advance(MINUTE)
        rig.store.note_contact(second, unbroken=SECOND + TICK)
        assert self.contacts(rig) == {
            NOBODY: NodeContact(announced=nothing, since=START, until=START),
            NODE: NodeContact(announced=first, since=START, until=START),
            OTHER_NODE: NodeContact(
                announced=second,
                since=START + MINUTE - SECOND - TICK,
                until=START + MINUTE,
            ),
        }

    def test_a_contact_replaces_the_one_before(self, rig: Rig) -> None:
        first = Announcement(node=NODE, host="a", pid=1, queues=QUEUES, stopping=True)
        rig.store.note_contact(first, unbroken=MINUTE)
        rig.advance(HOUR)
        rig.store.note_contact(Announcement(node=NODE, queues=OTHERS), unbroken=SECOND)
        noted = NodeContact(
            announced=Announcement(node=NODE, queues=OTHERS),
            since=START + HOUR - SECOND,
            until=START + HOUR,
        )
        assert self.contacts(rig) == {NODE: noted}

    def test_contacts_are_kept_for_an_hour(self, rig: Rig) -> None:
        rig.store.note_contact(Announcement(node=NODE, queues=QUEUES), unbroken=ZERO)
        rig.advance(HOUR)
        rig.store.note_contact(
            Announcement(node=OTHER_NODE, queues=QUEUES), unbroken=ZERO
        )
        assert set(self.contacts(rig, within=HOUR - TICK)) == {OTHER_NODE}
        assert rig.clean_up(older_than=ZERO, limit=10) == 0
        assert set(self.contacts(rig)) == {NODE, OTHER_NODE}
        rig.advance(TICK)
        assert rig.clean_up(older_than=ZERO, limit=10) == 0
        assert set(self.contacts(rig, within=HOUR + TICK)) == {OTHER_NODE}

    @staticmethod
    def contacts(rig: Rig, *, within: timedelta = HOUR) -> dict[object, NodeContact]:
        """The contacts by node."""
        return {
            each.announced.node: each for each in rig.store.list_contacts(within=within)
        }


class DueQueuesTests(StoreTests):
    """``list_due_queues``."""

    def test_only_queues_are_named_in_which_something_is_due(self, rig: Rig) -> None:
        rig.pending(definition(START + TICK, queue="later"))
        for make in (rig.claimed, rig.running, rig.ended):
            make()
        held = rig.waiting_for_retry().definition
        rig.pause(held)
        assert list(self.named(rig)) == []
        rig.advance(TICK)
        assert list(self.named(rig)) == ["later"]

    def test_what_is_given_back_or_moves_is_due_in_its_queue(self, rig: Rig) -> None:
        instance = rig.running()
        assert list(self.named(rig)) == []
        assert rig.release(instance)
        assert list(self.named(rig)) == [instance.definition.queue]
        rig.edit(instance.definition, queue="another", revision=None)
        assert list(self.named(rig)) == ["another"]

    def test_queues_that_are_left_out_are_not_named(self, rig: Rig) -> None:
        for queue in ("a", "b", "c"):
            rig.pending(definition(queue=queue))
        assert list(self.named(rig, "a", "c", "d")) == ["b"]
        assert list(self.named(rig, "c", "b", "a")) == []

    def test_all_queues_are_named_in_the_end(self, rig: Rig) -> None:
        queues = [
            "z",
            "Z",
            "a",
            "ä",
            "Ä",
            "a b",
            "a-b",
            "A",
            "1",
            "_",
            "日",
            "\U0001f40d",
        ]
        for queue in queues:
            rig.pending(definition(queue=queue))
        # Queues that are left out hide no other queue, in whatever order a store looks.
        for known in (queues[::2], queues[1::2], []):
            found = set(known)
            while more := set(self.named(rig, *found)):
                assert not more & found
                found |= more
            assert found == set(queues)

    @staticmethod
    def named(rig: Rig, *apart_from: str) -> Collection[str]:
        """The queues that are listed; each may come once only."""
        settle(rig.store)
        found = rig.store.list_due_queues(apart_from=apart_from)
        assert len(set(found)) == len(found)
        return found


DAY = timedelta(days=1)
COUNTS = QueueStats(
    at=START,
    queue="default",
    ended={"completed": 2**40, "failed": 1, "retried": 3},
    lateness=Histogram.of([(BOUNDS[0], 1), (BOUNDS[7], 2**40), (None, 7)]),
)


class StatsTests(StoreTests):
    """``note_stats`` and ``list_stats``; a store need not keep statistics."""

    def test_what_was_counted_is_read_as_it_was_noted(self, rig: Rig) -> None:
        nothing = QueueStats(at=START, queue="ä \"'\\,{}%s:x")
        rig.store.note_stats(NODE, [COUNTS, nothing])
        assert self.listed(rig) in ([COUNTS, nothing], [])

    def test_stats_of_a_node_replace_its_earlier_ones(self, rig: Rig) -> None:
        later = replace(COUNTS, ended={"skipped": 1}, lateness=Histogram())
        others = [replace(later, queue="mail"), replace(later, at=START + MINUTE)]
        rig.store.note_stats(NODE, [COUNTS])
        rig.store.note_stats(NODE, [later, *others])
        rig.store.note_stats(OTHER_NODE, [later])
        assert self.listed(rig) in (
            [],
            [later, later, *others],
            [later, others[0], later, others[1]],
        )

    def test_only_what_begins_within_the_bounds_is_read(self, rig: Rig) -> None:
        minutes = [replace(COUNTS, at=START + n * MINUTE) for n in range(5)]
        rig.store.note_stats(NODE, minutes)
        found = self.listed(rig, START + MINUTE, START + 3 * MINUTE)
        assert found in (minutes[1:3], [])
        assert self.listed(rig, START + MINUTE, START + MINUTE) == []

    def test_minutes_are_kept_for_two_days(self, rig: Rig) -> None:
        rig.store.note_stats(NODE, [COUNTS])
        rig.advance(2 * DAY)
        assert rig.clean_up(older_than=ZERO, limit=10) == 0
        assert self.listed(rig) in ([COUNTS], [])
        rig.advance(TICK)
        assert rig.clean_up(older_than=ZERO, limit=10) == 0
        assert self.listed(rig) == []

    @staticmethod
    def listed(
        rig: Rig, since: datetime = START, until: datetime = START + HOUR
    ) -> Sequence[QueueStats]:
        """The statistics of this span."""
        return list(rig.store.list_stats(since=since, until=until))


LONG = "\U0001f511 Schlüssel \"'\\,{}%s:x\n" * 100


class SettingTests(StoreTests):
    """``keep_setting``."""

    def test_the_first_to_ask_has_set_it(self, rig: Rig) -> None:
        names = ["key", "Key", "key ", "Schlüssel", "\U0001f511", ""]
        values = ["0", LONG, "", " ", "null", "7"]
        kept = list(zip(names, values, strict=True))
        for name, value in kept:
            assert rig.store.keep_setting(name, value) == value
        for name, value in kept:
            assert rig.store.keep_setting(name, "another") == value
            assert rig.store.keep_setting(name, value) == value

    def test_all_who_ask_at_once_get_the_same(self, rig: Rig) -> None:
        for name in ("a", "b", "c", "d", "e"):
            values = [str(number) for number in range(THREADS)]
            answers = at_once(
                *(partial(rig.store.keep_setting, name, each) for each in values)
            )
            [kept] = set(answers)
            assert kept in values
            assert rig.store.keep_setting(name, "late") == kept


ROUNDS = 5


class ThreadTests(StoreTests):
    """Calls made at the same moment."""

    def test_two_nodes_never_claim_the_same_instance(self, rig: Rig) -> None:
        rig.fire(rig.put(), *(START + number * TICK for number in range(60)))

        def claim_all(number: int) -> Sequence[UUID]:
            mine: list[UUID] = []
            while page := rig.claim(UUID(int=number + 1), ahead=HOUR, limit=7):
                mine += ids(page)
            return mine

        answers = at_once(*(partial(claim_all, number) for number in range(THREADS)))
        taken = Counter(each for mine in answers for each in mine)
        assert set(taken.values()) == {1}
        assert len(taken) == 60
        assert {each.attempt for each in rig.store.select()} == {1}

    def test_two_nodes_never_take_over_the_same_claim(self, rig: Rig) -> None:
        rig.fire(rig.put(), *(START - number * TICK for number in range(20)))
        rig.claim()
        rig.advance(LEASE)
        nodes = (UUID(int=number + 10) for number in range(THREADS))
        answers = at_once(*(partial(rig.claim, node, lapsed=True) for node in nodes))
        taken = [each.id for answer in answers for each in answer]
        assert len(taken) == len(set(taken)) == 20
        assert {each.attempt for each in rig.store.select()} == {2}

    def test_many_schedulers_fire_each_definition_once(self, rig: Rig) -> None:
        read = [rig.put() for _ in range(20)]

        def fire_all(number: int) -> Sequence[UUID]:
            turned = read[number:] + read[:number]
            steps = [firing(each, next_fire_time=START + HOUR) for each in turned]
            return rig.fire_steps(*steps)

        answers = at_once(*(partial(fire_all, number) for number in range(THREADS)))
        won = Counter(each for answer in answers for each in answer)
        assert won == Counter(ids(read))
        for each in read:
            assert times(rig.instances(each)) == [START]
            assert rig.read(each).next_fire_time == START + HOUR

    def test_a_run_is_finished_once(self, rig: Rig) -> None:
        for _ in range(ROUNDS):
            instance = rig.running()
            end = partial(rig.finish, instance, Outcome.COMPLETED)
            assert sorted(map(bool, at_once(end, end))) == [False, True]

    def test_a_run_is_finished_or_given_back(self, rig: Rig) -> None:
        for _ in range(ROUNDS):
            instance = rig.running()
            finish = partial(rig.finish, instance, Outcome.FAILED)
            ended, given_back = at_once(finish, partial(rig.release, instance, HOUR))
            assert ended != given_back
            state = rig.read(instance).state
            assert state is (State.FAILED if ended else State.PENDING)

    def test_a_run_is_finished_or_taken_over(self, rig: Rig) -> None:
        for _ in range(ROUNDS):
            instance = rig.running(definition(rig.now()))
            rig.advance(LEASE)
            ended, taken = at_once(
                partial(rig.finish, instance, Outcome.FAILED), rig.take_over
            )
            assert ended != bool(taken)
            assert rig.read(instance).runs == (1 if ended else 2)
            rig.delete(instance.definition)

    def test_a_start_counts_once(self, rig: Rig) -> None:
        instance = rig.claimed()
        answers = at_once(*[partial(rig.start, instance)] * THREADS)
        assert all(ids(answer) == [instance.id] for answer in answers)
        assert rig.read(instance).runs == 1

    def test_an_instance_is_cancelled_or_started(self, rig: Rig) -> None:
        for _ in range(ROUNDS):
            instance = rig.claimed()
            answer, runs = at_once(
                partial(rig.cancel, instance), partial(rig.start, instance)
            )
            expected = Cancelled.REQUESTED if runs else Cancelled.CANCELLED
            assert answer == {instance.id: expected}

    def test_a_fire_beside_a_pause_or_an_edit_loses_nothing(self, rig: Rig) -> None:
        later = START + MINUTE
        for edits in (False, True) * ROUNDS:
            read = rig.put(definition(later))
            new = replace(read, trigger=WAITING, next_fire_time=later)
            step = firing(read, next_fire_time=START + HOUR)
            at_once(
                partial(rig.store.fire_definitions, [step]),
                partial(rig.put, new) if edits else partial(rig.pause, read),
            )
            assert rig.instances(read) == []
            assert rig.read(read).next_fire_time == later

    def test_a_fire_beside_a_delete_leaves_no_instance(self, rig: Rig) -> None:
        for _ in range(ROUNDS):
            read = rig.put()
            fire = partial(rig.store.fire_definitions, [firing(read)])
            _, deleted = at_once(fire, partial(rig.delete, read))
            assert deleted == {read.id: set()}
            assert rig.store.select() == []

    def test_an_id_put_by_many_is_one_definition(self, rig: Rig) -> None:
        for _ in range(ROUNDS):
            new = definition()
            answers = at_once(*[partial(rig.put, new)] * THREADS)
            assert all(each == new for each in answers)
            assert rig.read(new).revision == 1

    def test_of_edits_of_one_revision_one_is_kept(self, rig: Rig) -> None:
        read = rig.put()

        def edit(name: str) -> TaskDefinition | None:
            try:
                return rig.edit(read, name=name)
            except ConflictError:
                return None

        names = [str(number) for number in range(THREADS)]
        answers = at_once(*(partial(edit, name) for name in names))
        [kept] = [each for each in answers if each is not None]
        assert rig.read(read) == kept
        assert rig.read(read).revision == 2

    def test_batches_in_opposite_orders_do_not_block_each_other(self, rig: Rig) -> None:
        new = [definition(key=key) for key in range(8)]

        def edit(number: int) -> int:
            turned = new if number % 2 else new[::-1]
            named = [replace(each, name=str(number)) for each in turned]
            return len(rig.store.put_definitions(named).definitions)

        answers = at_once(*(partial(edit, number) for number in range(THREADS)))
        assert answers == [len(new)] * THREADS
        assert {each.revision for each in rig.store.select_definitions()} == {THREADS}


_ONCE = ExecuteOnceTrigger(START)
_LATER = ExecuteOnceTrigger(START + HOUR)


def _once(number: int = 1, trigger: Trigger = _ONCE) -> TaskDefinition:
    """A definition with an id that the caller chose."""
    return definition(trigger=trigger, id=TaskDefinition.id_for(f"once {number}"))


def _gone(rig: Rig, new: TaskDefinition) -> TaskDefinition:
    """Let a definition run, end and be deleted; return it as it was stored last."""
    last = rig.read(rig.ended(new).definition)
    assert rig.clean_up() == 2
    return last


class CleanupTests(StoreTests):
    """``delete_finished``, and the ids that it leaves remembered."""

    def test_instances_go_when_they_ended_long_enough_ago(self, rig: Rig) -> None:
        for outcome in Outcome:
            self.of_a_live_definition(rig, outcome)
        skipped = Skipped(first=START, last=START, count=1, reason="late")
        rig.fire(rig.put(), skipped=skipped, next_fire_time=START + YEAR)
        late = rig.running()
        rig.advance(HOUR - TICK)
        assert rig.clean_up(older_than=HOUR) == 0
        assert rig.finish(late)
        rig.advance(TICK)
        assert rig.clean_up(older_than=HOUR) == len(Outcome) + 1
        assert ids(rig.store.select()) == [late.id]
        assert len(rig.store.select_definitions()) == len(Outcome) + 2

    def test_what_failed_has_a_time_of_its_own(self, rig: Rig) -> None:
        rig.ended(outcome=Outcome.FAILED)
        other, mended = rig.ended(), rig.ended(outcome=Outcome.FAILED)
        assert rig.finish(mended, Outcome.COMPLETED)
        assert rig.clean_up(older_than=HOUR, failed_older_than=ZERO) == 1
        assert {*ids(rig.store.select())} == {other.id, mended.id}
        rig.advance(HOUR)
        failed = rig.ended(outcome=Outcome.FAILED)
        longer = HOUR + TICK
        # Two instances, and the three definitions that have none left.
        assert rig.clean_up(older_than=HOUR, failed_older_than=longer) == 5
        assert ids(rig.store.select()) == [failed.id]
        rig.advance(HOUR)
        assert rig.clean_up(older_than=HOUR, failed_older_than=longer) == 0
        rig.advance(TICK)
        assert rig.clean_up(older_than=HOUR, failed_older_than=longer) == 2

    def test_a_completed_definition_without_instances_goes(self, rig: Rig) -> None:
        live_again = rig.put(definition(None))
        rig.edit(live_again, trigger=WAITING, next_fire_time=START)
        rig.put(definition(None))
        run = rig.running()
        rig.advance(HOUR - TICK)
        assert rig.clean_up(older_than=HOUR) == 0
        rig.advance(TICK)
        assert rig.clean_up(older_than=HOUR) == 1
        left = {live_again.id, run.definition.id}
        assert {*ids(rig.store.select_definitions())} == left
        assert rig.finish(run)
        assert rig.clean_up(older_than=HOUR) == 0
        rig.advance(HOUR)
        assert rig.clean_up(older_than=HOUR) == 2
        assert ids(rig.store.select_definitions()) == [live_again.id]

    def test_at_most_limit_are_deleted_instances_first(self, rig: Rig) -> None:
        rig.put(definition(None))
        for outcome in (Outcome.FAILED, Outcome.COMPLETED, Outcome.FAILED):
            rig.ended(outcome=outcome)
        left = []
        for limit, deleted in ((1, 1), (1, 1), (3, 3), (4, 2)):
            assert rig.clean_up(limit=limit) == deleted
            left += [(len(rig.store.select()), len(rig.store.select_definitions()))]
        assert left == [(2, 4), (1, 4), (0, 2), (0, 0)]

    @staticmethod
    def of_a_live_definition(
        rig: Rig, outcome: Outcome = Outcome.COMPLETED
    ) -> TaskInstance:
        """An ended instance of a definition that is still active."""
        read = rig.put()
        rig.fire(read, next_fire_time=START + YEAR)
        [instance] = rig.run_due(outcome)
        return rig.read(instance)

    def test_what_has_ended_does_not_run_again(self, rig: Rig) -> None:
        triggers = (_ONCE, IntervalTrigger(HOUR), WAITING)

        def anchored_now(name: str) -> list[TaskDefinition]:
            anchored = enumerate(each.anchored(rig.now()) for each in triggers)
            return [replace(_once(*each), name=name) for each in anchored]

        last = [_gone(rig, each) for each in anchored_now("first")]
        rig.advance(YEAR - TICK)
        rig.clean_up()
        # As at the next start of the program: what it counts from is another moment.
        again = anchored_now("other")
        *over, new = rig.store.put_definitions([*again, _once(7)]).definitions
        assert over == again
        assert [kept_by_store(each) for each in over] == [
            kept_by_store(replace(each, next_fire_time=None)) for each in last
        ]
        assert rig.store.select_definitions() == [new]
        assert rig.claim() == []
        with pytest.raises(TaskDefinitionNotFoundError):
            rig.read(again[0])

    def test_another_trigger_is_a_new_definition(self, rig: Rig) -> None:
        last = _gone(rig, _once())
        again = rig.put(_once(trigger=_LATER))
        assert (again.next_fire_time, again.completed_at) == (START, None)
        assert revision_of(again) > revision_of(last)
        assert rig.store.select_definitions() == [again]
        # It is remembered in the place of the former one, and not before its end.
        last = _gone(rig, again)
        assert rig.put(_once(trigger=_LATER)).revision == last.revision
        live = rig.put(_once())
        assert live.completed_at is None
        rig.delete(live)
        assert rig.put(_once(trigger=_LATER)).completed_at is None

    def test_only_an_id_that_was_passed_is_remembered(self, rig: Rig) -> None:
        made_up = TaskDefinition(trigger=_ONCE, next_fire_time=START)
        passed = TaskDefinition(trigger=_ONCE, id=made_up.id, next_fire_time=START)
        _gone(rig, made_up)
        assert rig.put(passed).completed_at is None
        _gone(rig, passed)
        # Who made up the id cannot mean what is remembered.
        live = rig.put(made_up)
        assert (live.completed_at, live.named) == (None, False)
        other = rig.put(_once())
        named = {each.id: each.named for each in rig.store.select_definitions()}
        assert named == {live.id: False, other.id: True}
        assert rig.read(other).named

    def test_a_made_up_id_is_named_by_who_passes_it(self, rig: Rig) -> None:
        later = START + HOUR
        made_up = rig.put(TaskDefinition(trigger=_ONCE, next_fire_time=later))
        passed = TaskDefinition(trigger=_ONCE, id=made_up.id, next_fire_time=later)
        named = rig.put(passed)
        assert named.named
        assert kept_by_store(named) == kept_by_store(made_up)
        assert rig.put(made_up).named
        edited = rig.edit(made_up, name="other")
        assert edited.named
        again = replace(edited, trigger=_LATER, next_fire_time=START, named=False)
        assert rig.put(replace(again, overdue=True)).named
        _gone(rig, replace(passed, trigger=_LATER))
        assert rig.edit(passed, trigger=_LATER).completed_at == START

    def test_the_revision_remembered_may_be_passed(self, rig: Rig) -> None:
        last = _gone(rig, _once())
        assert rig.put(last).completed_at == START
        with pytest.raises(ConflictError) as caught:
            rig.edit(last, revision=7)
        assert (caught.value.expected, caught.value.revision) == (7, last.revision)

    def test_all_that_is_remembered_can_be_read_at_once(self, rig: Rig) -> None:
        kept = {}
        for number in (1, 2):
            last = _gone(rig, _once(number))
            kept[last.id] = last
        live, (one, _) = rig.put(_once(3)), kept
        found = rig.store.list_tombstones([*kept, live.id, NOBODY, one])
        assert sorted(each.id for each in found) == sorted(kept)
        for each in found:
            last = kept[each.id]
            check(
                each, trigger=last.trigger, revision=last.revision, completed_at=START
            )
        assert rig.store.list_tombstones([]) == []

    def test_a_delete_forgets(self, rig: Rig) -> None:
        gone, over = _once(1), _once(2)
        _gone(rig, gone)
        rig.ended(over)
        assert rig.delete(gone, over) == {over.id: set()}
        rig.clean_up()
        assert rig.store.list_tombstones([gone.id, over.id]) == []
        again = rig.store.put_definitions([gone, over]).definitions
        assert [each.completed_at for each in again] == [None, None]

    def test_no_cleanup_forgets_the_revision_of_a_delete_too_soon(
        self, rig: Rig
    ) -> None:
        old = [rig.put(), rig.ended().definition]
        rig.advance(MINUTE)
        old = [rig.edit(each, name="other", revision=None) for each in old]
        rig.delete(*old)
        rig.advance(HOUR - TICK)
        # The instance ended earlier than its definition was deleted.
        assert rig.clean_up(older_than=HOUR, failed_older_than=ZERO) == 1
        for each in old:
            again = rig.put(replace(each, revision=None))
            assert revision_of(again) > revision_of(each)

    def test_ids_are_forgotten_after_their_time(self, rig: Rig) -> None:
        rig.ended(_once())
        rig.advance(MINUTE)
        assert rig.clean_up(remember=HOUR) == 2
        rig.advance(HOUR - MINUTE - TICK)
        rig.clean_up(remember=HOUR)
        assert rig.put(_once()).completed_at == START
        rig.advance(TICK)
        rig.clean_up(remember=HOUR)
        assert rig.put(_once()).completed_at is None

    def test_at_most_limit_are_forgotten(self, rig: Rig) -> None:
        for number in (1, 2, 3):
            _gone(rig, _once(number))
            rig.advance(MINUTE)
        assert rig.clean_up(remember=ZERO, limit=2) == 0
        every = [_once(number).id for number in range(6)]
        assert [each.id for each in rig.store.list_tombstones(every)] == [_once(3).id]
        rig.store.most_remembered = 1
        for number in (4, 5):
            rig.ended(_once(number))
            rig.advance(MINUTE)
        assert rig.clean_up(limit=2) == 2
        while rig.clean_up(limit=1):
            assert len(rig.store.list_tombstones(every)) < 3
        assert self.remembered(rig, 5) == [5]

    @staticmethod
    def remembered(rig: Rig, most: int) -> Sequence[int]:
        """The numbers of the definitions that do not run again."""
        put_again = {number: rig.put(_once(number)) for number in range(1, most + 1)}
        return [
            number
            for number, each in put_again.items()
            if each.completed_at is not None and rig.instances(each) == []
        ]
