"""Backfilling: fire times that have passed get the instances that they never had."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from go_scheduler.argument_hints import write_instead
from go_scheduler.checks import check_definition_id
from go_scheduler.client.arguments import check_most
from go_scheduler.client.awaitable import awaitable
from go_scheduler.client.store_access import StoreAccess
from go_scheduler.errors import (
    ConfigurationError,
    ConflictError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.events.definition_events import InstancesBackfilled
from go_scheduler.events.event import of_definition
from go_scheduler.models.values import changed
from go_scheduler.policies import check_overlap
from go_scheduler.stores.filters import DefinitionFilter
from go_scheduler.triggers.base import dump_trigger, fire_times, utc
from go_scheduler.triggers.simple import OnDemandTrigger

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from go_scheduler.models import TaskDefinition
    from go_scheduler.policies import Overlap
    from go_scheduler.stores.base import JoinedStore

_BATCH = 500
_MOST_JOINED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """What a call of ``backfill`` has done.

    Attributes:
        made: How many fire times were given an instance.
        there: How many had one already.
        first: The first of those that were given one; None: there are none.
        last: The last of them.
        next: The fire time at which its ``limit`` ended it: pass it on as ``start``.
            None: it came to the end of the range.
    """

    made: int = 0
    there: int = 0
    first: datetime | None = None
    last: datetime | None = None
    next: datetime | None = None

    def and_more(
        self, wanted: Sequence[datetime], made: Sequence[datetime]
    ) -> Backfill:
        """This result with that of the next batch added."""
        return replace(
            self,
            made=self.made + len(made),
            there=self.there + len(wanted) - len(made),
            first=self.first or (made[0] if made else None),
            last=made[-1] if made else self.last,
        )


class Backfilling(StoreAccess):
    """Makes instances for the past of a schedule."""

    @write_instead("scheduler.backfill(definition.id, start, end)")
    def backfill(
        self,
        definition_id: UUID,
        start: datetime,
        end: datetime,
        *,
        overlap: Overlap | None = None,
        limit: int | None = None,
        connection: object = None,
    ) -> Backfill:
        """Run what a definition's schedule has not run, for a time that has passed.

        Each fire time of its trigger from ``start`` on and before ``end`` gets an
        instance, unless it has one. A fire time that was skipped gets one all the same,
        once. To call it twice makes nothing twice, on whichever node and beside
        whichever schedule; but what cleanup has deleted, after ``retention``, is not
        known and runs again.

        Such instances are run as soon as possible, the earliest fire time first; on
        CockroachDB, which spreads what is due, about so. They are exempt from
        ``catch_up``; neither an edit nor a pause removes them, and
        ``next_fire_time`` stays. Those of a paused definition wait until it is resumed.
        A definition that is completed is backfilled like any other.

        They are made in batches of 500, each at once in the store: a call that fails
        has made those before, and is repeated to go on. A trigger of your own is asked
        in the thread that calls this.

        Args:
            definition_id: The definition.
            start: The first instant; aware.
            end: The first instant after; aware. What has not passed yet is left to the
                schedule.
            overlap: By which they exclude each other, and what else of the definition
                does, whatever its own is: ``Overlap.BUFFER_ALL`` runs them one after
                another, and then skips none. None: the definition's, as it is now.
            limit: The most to make, the earliest; None: all.
            connection: To make it part of a transaction of yours, as for ``schedule``:
                of 10,000 fire times at most, and without batches.

        Returns:
            How many were made, which, and how many were there.

        Raises:
            TaskDefinitionNotFoundError: There is no definition with this id.
            ConfigurationError: An argument is wrong; nothing of the range has passed;
                or the trigger has no fire times of its own.
            InvalidTriggerError: The trigger raised, or returned what is no fire time.
            UnknownTriggerError: No class for its trigger is imported here.
            ConflictError: Its trigger was changed meanwhile.
            StoreUnavailableError: With a ``connection``: somebody else is changing it
                at the same moment; repeat the transaction.
        """
        check_definition_id(definition_id)
        start, end = utc(start, name="start"), utc(end, name="end")
        if start >= end:
            raise ConfigurationError(f"start must be before end: {start}, {end}")
        if overlap is not None:
            overlap = check_overlap(overlap)
        check_most(limit)
        store = self._within(connection, self._look_for_instances)
        definition = _read(store, definition_id)
        _check_trigger(definition)
        end = min(end, self._store.now())
        if start >= end:
            raise ConfigurationError(
                f"nothing from start on has passed yet: {start}; the schedule makes"
                " what is to come"
            )
        times = fire_times(definition.trigger, start, end)
        joined = connection is not None
        if joined:
            few = limit is not None and limit <= _MOST_JOINED
            if not few and next(islice(times, _MOST_JOINED, None), None) is not None:
                raise ConfigurationError(
                    f"the range has more than {_MOST_JOINED:,} fire times, too many for"
                    " one transaction: pass a limit, a shorter range, or no connection"
                )
            times = fire_times(definition.trigger, start, end)
        found = Backfill()
        context = self._trace_context("backfill", definition.name)
        definition = _within(definition, context)
        overlap = definition.overlap if overlap is None else overlap
        try:
            left = _BATCH if limit is None else limit
            while batch := list(islice(times, min(_BATCH, left))):
                definition, made = _fill(store, definition, batch, overlap)
                found = found.and_more(batch, made)
                if limit is not None:
                    left = limit - found.made
                if not joined:
                    self._look_for_instances()
        finally:
            if found.first is not None and found.last is not None:
                self._events.tell(
                    InstancesBackfilled(
                        **of_definition(definition),
                        first=found.first,
                        last=found.last,
                        count=found.made,
                        overlap=overlap,
                        joined=joined,
                    )
                )
        if limit is not None and found.made == limit:
            found = replace(found, next=next(times, None))
        return found

    abackfill = awaitable(backfill)
    """Await what ``backfill`` does; see there."""


def _read(store: JoinedStore, definition_id: UUID) -> TaskDefinition:
    where = DefinitionFilter(ids=[definition_id])
    found = store.select_definitions(where, limit=1)
    if not found:
        raise TaskDefinitionNotFoundError(definition_id)
    return found[0]


def _within(definition: TaskDefinition, context: str | None) -> TaskDefinition:
    """The definition with the trace context of this call, if there is one."""
    if context is None:
        return definition
    return changed(definition, trace_context=context)


def _check_trigger(definition: TaskDefinition) -> None:
    """Refuse a trigger whose fire times cannot be known."""
    if isinstance(definition.trigger, OnDemandTrigger):
        raise ConfigurationError(
            f"definition {definition.id} runs on demand, and has no fire times:"
            " run_now() and enqueue() make its instances"
        )
    if definition.trigger.waits:
        raise ConfigurationError(
            f"definition {definition.id} fires after the end of each run, and has no"
            " fire times but those it has had; run_now() runs it once more"
        )


def _fill(
    store: JoinedStore,
    definition: TaskDefinition,
    fire_times: Sequence[datetime],
    overlap: Overlap,
) -> tuple[TaskDefinition, Sequence[datetime]]:
    """Make a batch; return the definition it was made by, and what was made."""
    while True:
        try:
            made = store.backfill_instances(definition, fire_times, overlap=overlap)
        except ConflictError:
            stored = _read(store, definition.id)
            # Only another trigger would have other fire times.
            is_other = dump_trigger(stored.trigger) != dump_trigger(definition.trigger)
            if is_other or stored.revision == definition.revision:
                raise
            definition = _within(stored, definition.trace_context)
        else:
            return definition, made
