"""Store suite: what nodes have claimed and counted, and what all of them agree on."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO
from go_scheduler.models import BOUNDS, Histogram, QueueStats
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
    at_once,
    claimed,
    clean_up,
    definition,
    ended,
    finish,
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
        released, over = running(store), running(store)
        assert release(store, released, HOUR)
        assert finish(store, over)
        pending(store, definition(START + HOUR))
        mine = [claimed(store), *(running(store) for _ in range(4))]
        found: list[TaskInstance] = []
        after = None
        while page := store.list_claimed(NODE, after=after, limit=2):
            assert len(page) <= 2
            found += page
            after = page[-1]
        assert found == sorted(mine, key=lambda each: each.id.int)
        assert store.list_claimed(NODE) == found
        assert store.list_claimed(OTHER_NODE) == []

    def test_what_another_node_took_over_is_that_nodes(
        self, store: Store, clock: ManualClock
    ) -> None:
        _, second = passed_on(store, clock)
        assert store.list_claimed(NODE) == []
        assert store.list_claimed(OTHER_NODE) == [second]


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
        nothing = Announcement(node=NOBODY, queues=(), names=())
        store.note_contact(nothing, unbroken=ZERO)
        store.note_contact(first, unbroken=ZERO)
        clock.advance(MINUTE)
        store.note_contact(second, unbroken=SECOND + TICK)
        assert self.contacts(store) == {
            NOBODY: NodeContact(announced=nothing, since=START, until=START),
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

    def test_contacts_are_kept_for_an_hour_and_deleted_uncounted(
        self, store: Store, clock: ManualClock
    ) -> None:
        store.note_contact(Announcement(node=NODE, queues=QUEUES), unbroken=ZERO)
        clock.advance(HOUR)
        store.note_contact(Announcement(node=OTHER_NODE, queues=QUEUES), unbroken=ZERO)
        assert set(self.contacts(store, within=HOUR - TICK)) == {OTHER_NODE}
        assert clean_up(store, older_than=ZERO, limit=10) == 0
        assert set(self.contacts(store)) == {NODE, OTHER_NODE}
        clock.advance(TICK)
        assert clean_up(store, older_than=ZERO, limit=10) == 0
        assert set(self.contacts(store, within=HOUR + TICK)) == {OTHER_NODE}

    @staticmethod
    def contacts(
        store: Store, *, within: timedelta = HOUR
    ) -> dict[object, NodeContact]:
        """The contacts by node."""
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

    def test_what_is_given_back_or_moves_is_due_in_its_queue(
        self, store: Store
    ) -> None:
        instance = running(store)
        assert list(self.named(store)) == []
        assert release(store, instance)
        assert list(self.named(store)) == [instance.definition.queue]
        put(store, replace(instance.definition, queue="another", revision=None))
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
        # Queues that are left out hide no other queue, in whatever order a store looks.
        for known in (queues[::2], queues[1::2], []):
            found = set(known)
            while more := set(self.named(store, *found)):
                assert not more & found
                found |= more
            assert found == set(queues)

    @staticmethod
    def named(store: Store, *apart_from: str) -> Collection[str]:
        """The queues that are named, each once."""
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
        others = [replace(later, queue="mail"), replace(later, at=START + MINUTE)]
        store.note_stats(NODE, [COUNTS])
        store.note_stats(NODE, [later, *others])
        store.note_stats(OTHER_NODE, [later])
        assert self.listed(store) in (
            [],
            [later, later, *others],
            [later, others[0], later, others[1]],
        )

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
        names = ["key", "Key", "key ", "Schlüssel", "\U0001f511", ""]
        values = ["0", LONG, "", " ", "null", "7"]
        kept = list(zip(names, values, strict=True))
        for name, value in kept:
            assert store.keep_setting(name, value) == value
        for name, value in kept:
            assert store.keep_setting(name, "another") == value
            assert store.keep_setting(name, value) == value

    def test_all_who_ask_at_once_get_the_same(self, store: Store) -> None:
        for name in ("a", "b", "c", "d", "e"):
            values = [str(number) for number in range(THREADS)]
            answers = at_once(
                *(partial(store.keep_setting, name, each) for each in values)
            )
            [kept] = set(answers)
            assert kept in values
            assert store.keep_setting(name, "late") == kept
