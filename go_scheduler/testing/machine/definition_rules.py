"""The rules of the store machine that drive definitions."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from go_scheduler.models import Skipped, TaskDefinition
from go_scheduler.stores.messages import Firing
from go_scheduler.testing.machine.drawn import (
    ALL,
    EXCLUSIONS,
    QUEUES,
    SECOND,
    STEP,
    TRIGGERS,
    exclusions,
    fires_first,
    full,
    ids,
    offsets,
    seconds,
    some_ids,
)
from go_scheduler.testing.machine.pair import StorePair, revision_of
from go_scheduler.testing.settling import settle

if TYPE_CHECKING:
    from uuid import UUID

    from go_scheduler.policies import Overlap
    from go_scheduler.stores.base import Store
    from go_scheduler.triggers.base import Trigger


class DefinitionRules(StorePair):
    """Definitions are put, deleted, paused, and fired."""

    @rule(
        new_id=ids,
        trigger=st.sampled_from(TRIGGERS),
        offset=st.none() | offsets,
        name=st.sampled_from([None, "a", "b"]),
        queue=st.sampled_from(QUEUES),
        priority=st.integers(0, 3),
        expire_after=st.sampled_from([None, 5 * SECOND]),
        jitter=st.sampled_from([None, None, SECOND]),
        exclusion=exclusions,
        full=full,
        edits=st.none() | st.integers(0, 2),
    )
    def put(
        self,
        new_id: UUID,
        trigger: Trigger,
        offset: timedelta | None,
        name: str | None,
        queue: str,
        priority: int,
        expire_after: timedelta | None,
        jitter: timedelta | None,
        exclusion: tuple[Overlap, str | None] | None,
        full: tuple[int | None, Literal["refuse", "drop"]],
        edits: int | None,
    ) -> None:
        """A definition is put, perhaps as it was after some edits, or conflicts."""
        at = None if offset is None else self.clock.now() + offset
        if exclusion is None:
            exclusion = EXCLUSIONS[new_id.int]
        else:
            self._loosened.add(new_id)
        overlap, lock = exclusion
        new = TaskDefinition(
            id=new_id,
            trigger=trigger.anchored(self.clock.now()),
            overlap=overlap,
            lock=lock,
            name=name,
            queue=queue,
            priority=priority,
            expire_after=expire_after,
            jitter=jitter,
            max_queue=full[0],
            when_full=full[1],
            next_fire_time=fires_first(trigger, at),
        )
        self._put(new, edits=edits)

    @rule(which=some_ids)
    def delete(self, which: set[UUID]) -> None:
        """Definitions are deleted."""

        def delete(store: Store) -> object:
            stored = store.list_definitions(ids=which)
            for each in stored:
                self._deleted[store is self.oracle, each.id] = revision_of(each)
            deleted = store.delete_definitions(which)
            return {id: len(ran) for id, ran in deleted.items()}

        self._alike(delete)

    @precondition(lambda self: self._deleted)
    @rule(data=st.data())
    def put_again(self, data: st.DataObject) -> None:
        """The id of a definition that was deleted begins another life."""
        gone = sorted({each for _, each in self._deleted})
        now = self.clock.now()
        new_id = data.draw(st.sampled_from(gone))
        overlap, lock = EXCLUSIONS[new_id.int]
        new = TaskDefinition(
            id=new_id,
            trigger=TRIGGERS[0].anchored(now),
            overlap=overlap,
            lock=lock,
            next_fire_time=now,
        )
        self._put(new)

    @rule(which=some_ids, note=st.sampled_from([None, "why"]))
    def pause(self, which: set[UUID], note: str | None) -> None:
        """Definitions are paused."""
        self._alike_by_id(lambda store: store.pause_definitions(which, note=note))

    @rule(which=some_ids)
    def resume(self, which: set[UUID]) -> None:
        """Definitions are resumed."""
        self._alike_by_id(lambda store: store.resume_definitions(which))

    @rule(
        data=st.data(),
        ahead=seconds,
        limit=st.sampled_from([1, 2, ALL]),
        skips=st.booleans(),
        goes_on=st.booleans(),
    )
    def fire(
        self,
        data: st.DataObject,
        ahead: timedelta,
        limit: int,
        skips: bool,
        goes_on: bool,
    ) -> None:
        """A definition that is due is fired, as it was read now or some time ago."""

        def read_due(store: Store) -> object:
            settle(store)
            due = store.due_definitions(ahead=ahead, limit=limit)
            return [self._definition(store, each) for each in due]

        self._alike(read_due)
        due = self.oracle.due_definitions(ahead=ahead, limit=limit)
        known = [*((each, self._lives[each.id]) for each in due), *self._read[-2:]]
        if not known:
            return
        read, life = data.draw(st.sampled_from(known))
        assert read.next_fire_time is not None
        self._read.append((read, life))
        count = data.draw(st.integers(0, 1 if read.trigger.waits else 3))
        later = data.draw(st.sampled_from([timedelta(0), STEP / 2]))
        series = [read.next_fire_time + number * STEP for number in range(count + 2)]
        skipped = None
        if skips:
            first = series.pop(0)
            skipped = Skipped(first=first, last=first, count=1, reason="late")
        firing = Firing(
            definition=read,
            fire_times=tuple(series[:count]),
            skipped=skipped,
            next_fire_time=series[-1] if goes_on else None,
            execute_times=tuple(each + later for each in series[:count]),
        )
        self._fire(firing, life)
