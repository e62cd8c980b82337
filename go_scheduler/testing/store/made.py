"""Store suite: when instances were made."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from go_scheduler.models import Skipped
from go_scheduler.policies import Overlap
from go_scheduler.stores.messages import Addition, Firing
from go_scheduler.testing.builders import (
    HOUR,
    MINUTE,
    SECOND,
    WAITING,
    claim,
    claimant,
    definition,
    finish,
    put,
    running,
    start,
)
from go_scheduler.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing.clock import ManualClock

MADE = START + MINUTE


def made_at(given: Iterable[TaskInstance]) -> list[datetime | None]:
    """When each was made."""
    return [each.created_at for each in given]


class MadeTests:
    """``created_at`` of instances."""

    def test_what_is_fired_is_made_at_that_time(
        self, store: Store, clock: ManualClock
    ) -> None:
        read = put(store, definition(START - HOUR))
        clock.advance(MINUTE)
        skipped = Skipped(first=START - HOUR, last=START, count=2, reason="ä")
        step = Firing(definition=read, fire_times=(START + HOUR,), skipped=skipped)
        assert store.fire_definitions([step]).done == {read.id}
        assert made_at(store.list_instances()) == [MADE, MADE]

    def test_what_is_added_is_made_at_that_time(
        self, store: Store, clock: ManualClock
    ) -> None:
        of = put(store)
        clock.advance(MINUTE)
        given = [Addition(key="ä"), Addition(at=START + HOUR), Addition(delay=HOUR)]
        assert made_at(store.add_instances(of.id, given)) == [MADE] * 3
        clock.advance(SECOND)
        # What was there already was made then.
        again = store.add_instances(of.id, [given[0], Addition()])
        assert made_at(again) == [MADE, MADE + SECOND]
        found = store.list_instances(definition_id=of.id)
        assert sorted(filter(None, made_at(found))) == [MADE] * 3 + [MADE + SECOND]

    def test_what_is_backfilled_is_made_at_that_time(
        self, store: Store, clock: ManualClock
    ) -> None:
        of = put(store, definition(START + HOUR))
        clock.advance(MINUTE)
        store.backfill_instances(of, [START - HOUR], overlap=Overlap.ALLOW)
        assert made_at(store.list_instances()) == [MADE]

    def test_what_is_created_and_started_at_once_is_made_then(
        self, store: Store, clock: ManualClock
    ) -> None:
        fires, adds = put(store), put(store)
        clock.advance(MINUTE)
        new = definition(START)
        firing = Firing(definition=new, fire_times=(START,))
        _, put_in = store.put_and_start(firing, claimant())
        fired = store.fire_and_start(
            [Firing(definition=fires, fire_times=(START,))], claimant()
        )
        added = store.add_and_start(adds.id, [Addition()], claimant(), names=None)
        assert made_at([*fired.started, *added]) == [MADE] * (len(fired.started) + 1)
        assert put_in is None or put_in.created_at == MADE
        assert set(made_at(store.list_instances())) == {MADE}

    def test_the_record_of_what_an_edit_leaves_is_made_then(
        self, store: Store, clock: ManualClock
    ) -> None:
        of = put(store)
        clock.advance(MINUTE)
        put(store, replace(of, trigger=WAITING, next_fire_time=START + HOUR))
        assert made_at(store.list_instances()) == [MADE]

    def test_it_stays_whatever_becomes_of_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        instance = running(store)
        clock.advance(MINUTE)
        assert finish(store, instance, None)
        [again] = claim(store)
        assert start(store, again) == [again]
        assert made_at([instance, again]) == [START, START]
        assert finish(store, again)
        assert made_at(store.list_instances()) == [START]
