"""Why something happens or does not: what is read for the answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING
from uuid import UUID

from go_scheduler.checks import check_at_least, check_definition_id, check_type
from go_scheduler.client.arguments import check_most, checked_ids
from go_scheduler.client.awaitable import awaitable
from go_scheduler.client.views import Views
from go_scheduler.clock import ZERO
from go_scheduler.errors import (
    ConfigurationError,
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
)
from go_scheduler.models import OPEN, State
from go_scheduler.stores.base import count_unstarted
from go_scheduler.stores.filters import Filter
from go_scheduler.stores.messages import Position
from go_scheduler.stores.rules import slot_taken_by
from go_scheduler.triggers.base import fire_times, utc
from go_scheduler.triggers.times import FIRST_INSTANT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from go_scheduler.audit import AuditedDefinition
    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.triggers.base import Trigger
    from go_scheduler.why.answer import Why
    from go_scheduler.why.deciding import Facts

# How much of each list is read: enough to find what is most urgent, or was last.
_MOST = 100
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
_LAST_ID = UUID(int=2**128 - 1)


class Explaining(Views):
    """Says why."""

    # A client does not know the retention of the schedulers.
    _retention: timedelta | None = None

    def why(
        self, definition_id: UUID, at: datetime | None = None, *, machines: bool = True
    ) -> Why:
        """What happened to a definition at an instant, or will, and what decided it.

        ```python
        print(scheduler.why(definition.id, datetime(2026, 11, 22, 9, tzinfo=UTC)))
        ```

        It reads a few short lists, however much there is, and changes nothing.

        Args:
            definition_id: The definition; or an instance, about which it is then
                whenever that was.
            at: Any instant, past or to come; one without a fraction of a second stands
                for that second. None: how things stand now, and what was last.
            machines: Whether to say on which machine, and as which process, nodes run,
                and why they gave something back, which may name others.

        Returns:
            The answer: as text, some plain sentences.

        Raises:
            TaskDefinitionNotFoundError: There is nothing with this id, and nothing is
                remembered of it.
            ConfigurationError: An argument is wrong.
        """
        # Imported when first used: it loads triggers that not everybody uses.
        from go_scheduler.why.deciding import about, why_gone, why_now, why_then

        check_definition_id(definition_id)
        check_type("machines", machines, bool)
        asked = None if at is None else utc(at, name="at")
        store = self._ready()
        try:
            definition = store.get_definition(definition_id)
        except TaskDefinitionNotFoundError:
            for tombstone in store.list_tombstones([definition_id]):
                return why_gone(tombstone, at=asked or store.now())
            try:
                instance = store.get_instance(definition_id)
            except TaskInstanceNotFoundError:
                raise TaskDefinitionNotFoundError(definition_id) from None
            facts = self._facts(store, instance.definition, [instance], machines)
            # Without what the caller may not know.
            return about(facts, facts.instances[0])
        if asked is None:
            standing = _standing(store, definition)
            return why_now(self._facts(store, definition, standing, machines))
        around = _around(store, definition, asked)
        facts = self._facts(store, definition, around, machines)
        return why_then(replace(facts, at=asked))

    awhy = awaitable(why)
    """Await what ``why`` does; see there."""

    def audit(
        self,
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        ids: Collection[UUID] | None = None,
        retention: timedelta | None = None,
        late: timedelta = _SECOND,
        unchanged_since: datetime | None = None,
        fire_times: Callable[
            [Trigger, datetime, datetime], Iterable[datetime]
        ] = fire_times,
        limit: int | None = None,
        machines: bool = True,
    ) -> Iterator[AuditedDefinition]:
        """Say of every fire time that has passed what became of it.

        ```python
        for each in scheduler.audit():
            print(each.definition.name, each.counts, each.broken)
        ```

        Definitions come one after the other, each with all of its fire times. Each
        costs a query for every thousand of its instances, two if a fire time has none,
        and one for each instance that ran more than once. It changes nothing, and
        waits for the store whenever the next definition is asked for.

        What runs on demand, and what fires after the end of each run, has no fire
        times that anybody could name beforehand: its ``note`` says so. What has been
        deleted is left out.

        When a definition was given its trigger is not kept. So fire times before the
        first that is known to have had an instance or a record are *unknown*, and so
        are those before the last one that is none of its trigger's.

        Args:
            since: The first instant; aware. None: a day ago.
            until: The first instant after; aware. None: the store's time, which is the
                latest.
            ids: The definitions to audit; None: all.
            retention: How long the schedulers keep what has ended: what is older may
                be gone, and is *unknown*. None: a scheduler's own, or a day.
            late: What begins so much later than it was to run is late.
            unchanged_since: Since when no trigger has been given or changed; what is
                later than this is not *unknown*. None: nobody knows.
            fire_times: Computes the fire times of a trigger, from an instant on and
                before another one. One of your own finds what a trigger has wrong.
            limit: The most fire times of a definition; one with more has an ``error``.
                None: no end.
            machines: Whether reasons may name machines.

        Raises:
            ConfigurationError: An argument is wrong, or nothing of the range has
                passed.
            TaskDefinitionNotFoundError: There is no definition with one of the ids.
        """
        # Imported when first used: not everybody uses it.
        from go_scheduler.audit import Audit

        if retention is None:
            retention = _DAY if self._retention is None else self._retention
        check_at_least("retention", retention, ZERO)
        check_at_least("late", late, ZERO)
        check_most(limit)
        if ids is not None:
            ids = checked_ids(ids)
        store = self._ready()
        now = store.now()
        begin = now - _DAY if since is None else utc(since, name="since")
        end = now if until is None else min(now, utc(until, name="until"))
        if begin >= end:
            raise ConfigurationError(
                f"since must have passed, and be before until: {begin}, {end}"
            )
        if unchanged_since is not None:
            unchanged_since = utc(unchanged_since, name="unchanged_since")
        return Audit(
            store=store,
            since=begin,
            until=end,
            retention=min(retention, now - FIRST_INSTANT),
            late=late,
            unchanged_since=unchanged_since,
            fire_times=fire_times,
            limit=limit,
            machines=machines,
        ).of(ids)

    def _facts(
        self,
        store: Store,
        definition: TaskDefinition,
        instances: Sequence[TaskInstance],
        machines: bool,
    ) -> Facts:
        from go_scheduler.why.deciding import Facts

        slots = (slot_taken_by(each) for each in instances if each.parked)
        slot = next(filter(None, slots), None)
        holder = None if slot is None else store.slot_holder(slot)
        # Read after what it is compared with, so that nothing lies in the future.
        nodes = self.nodes()
        if not machines:
            nodes = [replace(each, host=None, pid=None) for each in nodes]
            # The reason of a give-back may name the host of a bus.
            instances = [replace(each, given_back=None) for each in instances]
            holder = holder and replace(holder, given_back=None)
        most = definition.max_queue
        now = store.now()
        return Facts(
            definition=definition,
            at=now,
            now=now,
            instances=instances,
            nodes=nodes,
            holder=holder,
            retention=self._retention,
            waiting=most and count_unstarted(store, definition.id, most=most),
        )


def _standing(store: Store, definition: TaskDefinition) -> Sequence[TaskInstance]:
    """The open instances of the most urgent kind, and those that ended last."""
    of = definition.id
    for state in OPEN:
        found = store.select(Filter(definition_id=of, states=[state]), limit=_MOST)
        if found:
            break
    last = store.select(
        Filter(definition_id=of),
        descending=True,
        # Only what was due by now can have ended.
        after=Position(at=store.now(), id=_LAST_ID),
        limit=_MOST,
    )
    if definition.completed_at is not None and not found and not last:
        # What was cancelled before its time.
        last = store.select(Filter(definition_id=of), limit=_MOST)
    return _once(found, last)


def _around(
    store: Store, definition: TaskDefinition, at: datetime
) -> Sequence[TaskInstance]:
    """The instances of an instant, by fire time first, and those before it."""
    of, before = definition.id, Position(at=at, id=_LAST_ID)
    return _once(
        # By a jitter an instance may run long after its fire time.
        store.select(
            Filter(definition_id=of, fired_since=at, fired_before=at + _SECOND),
            limit=_MOST,
        ),
        store.select(Filter(definition_id=of, since=at), limit=_MOST),
        store.select(
            Filter(definition_id=of, states=[State.SKIPPED]),
            descending=True,
            after=before,
            limit=_MOST,
        ),
        store.select(
            Filter(definition_id=of), descending=True, after=before, limit=_MOST
        ),
    )


def _once(*lists: Sequence[TaskInstance]) -> Sequence[TaskInstance]:
    """All instances that were read, each once, in the order of reading."""
    return list({each.id: each for each in chain(*lists)}.values())
