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
    Rig,
    StoreTests,
    at_once,
    definition,
)
from go_scheduler.testing.clock import START
from go_scheduler.testing.settling import settle

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from go_scheduler.models import TaskInstance

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
        rig.put(replace(instance.definition, queue="another", revision=None))
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
        """The queues that are named, each once."""
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
    """``note_stats`` and ``list_stats``; a store that keeps none is left alone."""

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
        """What was counted."""
        return list(rig.store.list_stats(since=since, until=until))


THREADS = 8
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
