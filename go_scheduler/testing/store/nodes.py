"""Store suite: what nodes have claimed and counted, and what all of them agree on."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.models import BOUNDS, Histogram, QueueStats, State
from go_scheduler.stores.messages import Announcement, NodeContact
from go_scheduler.testing.builders import (
    HOUR,
    LEASE,
    MINUTE,
    NODE,
    OTHER_NODE,
    SECOND,
    TICK,
    at_once,
    claimant,
    claimed,
    clean_up,
    definition,
    ended,
    finish,
    ids,
    passed_on,
    pending,
    put,
    release,
    running,
    waiting_for_retry,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.settling import settle

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

QUEUES = ("default", "mail")
OTHERS = ("Übrige \"'\\,",)


class ListClaimedTests:
    """``list_claimed``."""

    def test_what_a_node_has_claimed_is_listed_in_the_order_of_ids(
        self, store: Store
    ) -> None:
        mine = [claimed(store), running(store), running(store)]
        ended(store)
        pending(store)
        found = store.list_claimed(NODE)
        assert found == sorted(mine, key=lambda each: each.id.int)
        assert store.list_claimed(OTHER_NODE) == []

    def test_what_another_node_took_over_is_that_nodes(
        self, store: Store, clock: ManualClock
    ) -> None:
        _, second = passed_on(store, clock)
        assert store.list_claimed(NODE) == []
        assert store.list_claimed(OTHER_NODE) == [second]

    def test_what_was_given_back_or_ended_is_nobodys(self, store: Store) -> None:
        released, over = running(store), running(store)
        assert release(store, released)
        assert finish(store, over)
        assert store.list_claimed(NODE) == []

    def test_pages_of_what_was_claimed_miss_nothing(self, store: Store) -> None:
        for _ in range(5):
            running(store)
        found: list[TaskInstance] = []
        after = None
        while page := store.list_claimed(NODE, after=after, limit=2):
            assert len(page) <= 2
            found += page
            after = page[-1]
        assert ids(found) == ids(store.list_claimed(NODE))
        assert len(found) == 5


class LapsedForTests:
    """``claim_instances``, where claims are taken over that lapsed long ago."""

    def test_a_claim_is_taken_over_that_has_lapsed_so_long_ago(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        clock.advance(LEASE + MINUTE)
        assert self.taken_over(store, lapsed=MINUTE + TICK) == []
        [again] = self.taken_over(store, lapsed=MINUTE)
        assert (again.id, again.attempt) == (instance.id, 2)

    def test_a_claim_that_lapsed_later_is_taken_over_later(
        self, store: Store, clock: ManualClock
    ) -> None:
        early = running(store)
        clock.advance(LEASE)
        late = running(store, definition(clock.now()))
        clock.advance(LEASE)
        assert ids(self.taken_over(store, lapsed=LEASE)) == [early.id]
        clock.advance(SECOND)
        assert ids(self.taken_over(store, lapsed=SECOND)) == [late.id]

    def test_a_long_wait_hides_nothing_from_a_short_one(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        for _ in range(3):
            clock.advance(HOUR)
            assert self.taken_over(store, lapsed=timedelta(days=1)) == []
        assert ids(self.taken_over(store, lapsed=ZERO)) == [instance.id]

    def test_a_long_wait_ends(self, store: Store, clock: ManualClock) -> None:
        instance = running(store)
        clock.advance(LEASE)
        for _ in range(3):
            assert self.taken_over(store, lapsed=3 * HOUR) == []
            clock.advance(HOUR)
        assert ids(self.taken_over(store, lapsed=3 * HOUR)) == [instance.id]

    @staticmethod
    def taken_over(store: Store, *, lapsed: timedelta) -> list[TaskInstance]:
        """Claim for the other node."""
        settle(store)
        taken = store.claim_instances(
            claimant(OTHER_NODE), ahead=ZERO, lead=ZERO, limit=10, lapsed=lapsed
        )
        assert all(each.state is State.RUNNING for each in taken)
        return list(taken)


class ContactTests:
    """``note_contact`` and ``list_contacts``."""

    def test_a_contact_is_listed_as_it_was_noted(
        self, store: Store, clock: ManualClock
    ) -> None:
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
        store.note_contact(first, unbroken=ZERO)
        clock.advance(MINUTE)
        store.note_contact(second, unbroken=SECOND + TICK)
        assert self.contacts(store) == {
            NODE: NodeContact(announced=first, since=START, until=START),
            OTHER_NODE: NodeContact(
                announced=second,
                since=START + MINUTE - SECOND - TICK,
                until=START + MINUTE,
            ),
        }

    def test_a_contact_replaces_the_one_before(
        self, store: Store, clock: ManualClock
    ) -> None:
        first = Announcement(node=NODE, host="a", pid=1, queues=QUEUES, stopping=True)
        store.note_contact(first, unbroken=MINUTE)
        clock.advance(HOUR)
        store.note_contact(Announcement(node=NODE, queues=OTHERS), unbroken=SECOND)
        noted = NodeContact(
            announced=Announcement(node=NODE, queues=OTHERS),
            since=START + HOUR - SECOND,
            until=START + HOUR,
        )
        assert self.contacts(store) == {NODE: noted}

    def test_of_a_node_that_runs_nothing_that_is_known(self, store: Store) -> None:
        nothing = Announcement(node=NODE, queues=(), names=())
        store.note_contact(nothing, unbroken=ZERO)
        assert self.contacts(store)[NODE].announced == nothing

    def test_only_nodes_seen_lately_are_listed(
        self, store: Store, clock: ManualClock
    ) -> None:
        store.note_contact(Announcement(node=NODE, queues=QUEUES), unbroken=ZERO)
        clock.advance(MINUTE)
        assert set(self.contacts(store, within=MINUTE)) == {NODE}
        assert self.contacts(store, within=MINUTE - TICK) == {}

    def test_contacts_are_kept_for_an_hour_and_deleted_uncounted(
        self, store: Store, clock: ManualClock
    ) -> None:
        store.note_contact(Announcement(node=NODE, queues=QUEUES), unbroken=ZERO)
        clock.advance(HOUR)
        store.note_contact(Announcement(node=OTHER_NODE, queues=QUEUES), unbroken=ZERO)
        assert clean_up(store, older_than=ZERO, limit=10) == 0
        assert set(self.contacts(store)) == {NODE, OTHER_NODE}
        clock.advance(TICK)
        assert clean_up(store, older_than=ZERO, limit=10) == 0
        assert set(self.contacts(store, within=HOUR + TICK)) == {OTHER_NODE}

    @staticmethod
    def contacts(
        store: Store, *, within: timedelta = HOUR
    ) -> dict[object, NodeContact]:
        """The contacts of the last while, by node."""
        return {
            each.announced.node: each for each in store.list_contacts(within=within)
        }


class DueQueuesTests:
    """``list_due_queues``."""

    def test_only_queues_are_named_in_which_something_is_due(
        self, store: Store, clock: ManualClock
    ) -> None:
        pending(store, definition(START + TICK, queue="later"))
        for state in (claimed, running, ended):
            state(store)
        held = waiting_for_retry(store).definition
        store.pause_definitions([held.id])
        assert list(self.named(store)) == []
        clock.advance(TICK)
        assert list(self.named(store)) == ["later"]

    def test_what_was_given_back_is_due_again(self, store: Store) -> None:
        instance = running(store)
        assert list(self.named(store)) == []
        assert release(store, instance)
        assert list(self.named(store)) == [instance.definition.queue]

    def test_what_moves_is_due_in_its_new_queue(self, store: Store) -> None:
        of = definition()
        pending(store, of)
        put(store, replace(of, queue="another"))
        assert list(self.named(store)) == ["another"]

    def test_queues_that_are_left_out_are_not_named(self, store: Store) -> None:
        for queue in ("a", "b", "c"):
            pending(store, definition(queue=queue))
        assert list(self.named(store, "a", "c", "d")) == ["b"]
        assert list(self.named(store, "c", "b", "a")) == []

    def test_all_queues_are_named_in_the_end(self, store: Store) -> None:
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
            pending(store, definition(queue=queue))
        # However a store orders them, what is left out hides nothing.
        for known in (queues[::2], queues[1::2], []):
            found = set(known)
            while more := set(self.named(store, *found)):
                assert not more & found
                found |= more
            assert found == set(queues)

    @staticmethod
    def named(store: Store, *apart_from: str) -> Collection[str]:
        """Those that are named, each once."""
        settle(store)
        found = store.list_due_queues(apart_from=apart_from)
        assert len(set(found)) == len(found)
        return found


DAY = timedelta(days=1)
COUNTS = QueueStats(
    at=START,
    queue="default",
    ended={"completed": 2**40, "failed": 1, "retried": 3},
    lateness=Histogram.of([(BOUNDS[0], 1), (BOUNDS[7], 2**40), (None, 7)]),
)


class StatsTests:
    """``note_stats`` and ``list_stats``; a store that keeps none is left alone."""

    def test_what_was_counted_is_read_as_it_was_noted(self, store: Store) -> None:
        nothing = QueueStats(at=START, queue="ä \"'\\,{}%s:x")
        store.note_stats(NODE, [COUNTS, nothing])
        assert self.listed(store) in ([COUNTS, nothing], [])

    def test_what_a_node_notes_takes_the_place_of_what_it_has_noted(
        self, store: Store
    ) -> None:
        later = replace(COUNTS, ended={"skipped": 1}, lateness=Histogram())
        store.note_stats(NODE, [COUNTS])
        store.note_stats(NODE, [later, replace(later, queue="mail")])
        assert self.listed(store) in ([later, replace(later, queue="mail")], [])

    def test_nodes_queues_and_minutes_are_kept_apart(self, store: Store) -> None:
        next_one = replace(COUNTS, at=START + MINUTE)
        store.note_stats(OTHER_NODE, [COUNTS])
        store.note_stats(NODE, [next_one, COUNTS])
        assert self.listed(store) in ([COUNTS, COUNTS, next_one], [])

    def test_only_what_begins_within_the_bounds_is_read(self, store: Store) -> None:
        minutes = [replace(COUNTS, at=START + n * MINUTE) for n in range(5)]
        store.note_stats(NODE, minutes)
        found = self.listed(store, START + MINUTE, START + 3 * MINUTE)
        assert found in (minutes[1:3], [])
        assert self.listed(store, START + MINUTE, START + MINUTE) == []

    def test_minutes_are_kept_for_two_days(
        self, store: Store, clock: ManualClock
    ) -> None:
        store.note_stats(NODE, [COUNTS])
        clock.advance(2 * DAY)
        assert clean_up(store, older_than=ZERO, limit=10) == 0
        assert self.listed(store) in ([COUNTS], [])
        clock.advance(TICK)
        assert clean_up(store, older_than=ZERO, limit=10) == 0
        assert self.listed(store) == []

    @staticmethod
    def listed(
        store: Store, since: datetime = START, until: datetime = START + HOUR
    ) -> Sequence[QueueStats]:
        """What was counted."""
        return list(store.list_stats(since=since, until=until))


THREADS = 8
LONG = "\U0001f511 Schlüssel \"'\\,{}%s:x\n" * 100


class SettingTests:
    """``keep_setting``."""

    def test_the_first_to_ask_has_set_it(self, store: Store) -> None:
        assert store.keep_setting("key", "first") == "first"
        assert store.keep_setting("key", "second") == "first"
        assert store.keep_setting("key", "first") == "first"

    def test_settings_are_kept_apart_by_their_names(self, store: Store) -> None:
        names = ["key", "Key", "key ", "Schlüssel", "\U0001f511", ""]
        for number, name in enumerate(names):
            assert store.keep_setting(name, str(number)) == str(number)
        kept = [store.keep_setting(name, "another") for name in names]
        assert kept == ["0", "1", "2", "3", "4", "5"]

    def test_a_setting_comes_back_as_it_was_given(self, store: Store) -> None:
        for value in (LONG, "", " ", "null", "7"):
            assert store.keep_setting(f"as {value}", value) == value
            assert store.keep_setting(f"as {value}", "another") == value

    def test_all_who_ask_at_once_get_the_same(self, store: Store) -> None:
        for name in ("a", "b", "c", "d", "e"):
            values = [str(number) for number in range(THREADS)]
            answers = at_once(
                *(partial(store.keep_setting, name, each) for each in values)
            )
            [kept] = set(answers)
            assert kept in values
            assert store.keep_setting(name, "late") == kept
