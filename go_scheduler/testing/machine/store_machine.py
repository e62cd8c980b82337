"""The store machine: any store behaves as ``MemoryStore`` does, whatever is called."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from go_scheduler.models import TaskDefinition
from go_scheduler.stores.messages import Firing, Retention
from go_scheduler.testing.machine.rules import (
    ALL,
    ALL_IDS,
    EXCLUSIONS,
    STEP,
    TRIGGERS,
    AdditionRules,
    BackfillRules,
    DeclarationRules,
    DefinitionRules,
    HandOverRules,
    InstanceRules,
    ReadingRules,
    fires_first,
    seconds,
    seen_of,
)
from go_scheduler.testing.settling import settle
from go_scheduler.triggers.stored import dump_trigger

if TYPE_CHECKING:
    from go_scheduler.stores.base import Store


class StoreMachine(
    DefinitionRules,
    DeclarationRules,
    AdditionRules,
    BackfillRules,
    HandOverRules,
    InstanceRules,
    ReadingRules,
):
    """Makes the same calls of a store and a ``MemoryStore``, and compares the answers.

    ```python
    class MyMachine(StoreMachine):
        def make_store(self, clock: ManualClock) -> Store:
            store = MyStore(clock=clock)
            store.initialize()
            return store

    TestMyMachine = MyMachine.TestCase
    ```

    ``make_store`` is called once for each example, and the store is closed after it;
    what the store keeps elsewhere must be gone by then or cleared by ``make_store``.
    """

    @initialize()
    def begin(self) -> None:
        """Some definitions have fired, so that short examples are about claims too."""
        now = self.clock.now()
        new = [
            TaskDefinition(
                id=UUID(int=number),
                trigger=trigger,
                next_fire_time=fires_first(trigger, now),
                overlap=EXCLUSIONS[number][0],
                lock=EXCLUSIONS[number][1],
            )
            for number, trigger in enumerate(TRIGGERS)
        ]
        self._put(*new)
        for read in self.oracle.list_definitions():
            if read.next_fire_time is None:
                continue
            later = None if read.trigger.waits else now + 2 * STEP
            times = (now,) if read.trigger.waits else (now, now + STEP)
            firing = Firing(definition=read, fire_times=times, next_fire_time=later)
            self._fire(firing, self._lives[read.id])

    @rule(delta=st.one_of(seconds, st.just(timedelta(microseconds=1))))
    def advance(self, delta: timedelta) -> None:
        """Time goes on."""
        self.clock.advance(delta)

    @rule(
        retention=st.builds(
            Retention,
            ended=seconds,
            failed=seconds,
            remembered=seconds.map(lambda each: 10 * each),
        )
    )
    def clean_up(self, retention: Retention) -> None:
        """Finished instances and tombstones are deleted."""

        def clean_up(store: Store) -> object:
            settle(store)
            return store.delete_finished(retention, limit=ALL)

        self._alike(clean_up)
        self._deleted.clear()
        live = {each.id: self._lives[each.id] for each in self._stored()}
        self._read = [each for each in self._read if live.get(each[0].id) is each[1]]

    @invariant()
    def stores_are_alike(self) -> None:
        """All that can be read is the same in both stores."""
        self._alike_by_id(lambda store: store.list_definitions(limit=ALL))
        self._alike(lambda store: dict(store.counts()))
        self._alike(
            lambda store: {
                each.id: (dump_trigger(each.trigger), each.completed_at)
                for each in store.list_tombstones(ALL_IDS)
            }
        )

        def read(store: Store) -> object:
            found = store.list_instances(limit=ALL)
            return {
                self._known(store, each): (
                    seen_of(each),
                    (each.worker, each.result),
                    (each.accepted_at, each.start_by, each.progress),
                )
                for each in found
            }

        self._alike(read)
