"""What users do to instances."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn
from uuid import UUID

from go_scheduler.checks import check_definition_id, check_type
from go_scheduler.client.arguments import (
    check_limit,
    check_most,
    check_searched,
    checked_names,
    one_of,
)
from go_scheduler.client.awaitable import awaitable
from go_scheduler.client.pages import Order, page_of, read_cursor
from go_scheduler.client.preparation import next_after_end
from go_scheduler.client.store_access import StoreAccess
from go_scheduler.errors import (
    TaskDefinitionNotFoundError,
    TaskInstanceStateError,
)
from go_scheduler.events.event import of_instance
from go_scheduler.events.instance_events import (
    InstanceCancelRequested,
    InstanceFinished,
    InstanceReopened,
)
from go_scheduler.instead import write_instead
from go_scheduler.models import (
    Cancelled,
    Outcome,
    State,
    TaskInstance,
)
from go_scheduler.running.withdrawing import Kind
from go_scheduler.stores.messages import Position
from go_scheduler.triggers.base import utc

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from go_scheduler.client.pages import Page
    from go_scheduler.events.event import Event
    from go_scheduler.models import TaskRun

_BATCH = 500


class Instances(StoreAccess):
    """Reads, counts and cancels instances."""

    def get_instance(self, instance_id: UUID) -> TaskInstance:
        """Read one instance.

        Raises:
            TaskInstanceNotFoundError: There is none with this id.
        """
        check_type("instance_id", instance_id, UUID)
        return self._ready().get_instance(instance_id)

    aget_instance = awaitable(get_instance)
    """Await what ``get_instance`` does; see there."""

    def list_instances(
        self,
        *,
        definition_id: UUID | None = None,
        name: str | None = None,
        key: str | None = None,
        state: State | str | None = None,
        since: datetime | None = None,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        newest_first: bool = False,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[TaskInstance]:
        """Read a page of the instances that meet every condition given.

        Args:
            definition_id: They belong to this definition; None: to any, or to one that
                has been deleted.
            name: Their definition has this name.
            key: They have this ``key``, of those made by hand.
            state: They are in this state, such as ``"failed"``.
            since: Their ``execute_at`` is not before this.
            queues: Their definition's queue is among these.
            owners: Their definition is in the declared set of one of these owners.
            newest_first: Those with the latest ``execute_at`` come first.
            after: They come after a page: its ``next``.
            limit: The most to return, 1 to 1,000.

        Returns:
            The instances in the order of ``execute_at`` and id, unless told otherwise;
            its ``next`` reads on.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        check_limit(limit)
        if definition_id is not None:
            check_definition_id(definition_id)
        check_searched("name", name)
        check_searched("key", key)
        check_type("newest_first", newest_first, bool)
        order = Order.INSTANCES_OLDEST_FIRST
        if newest_first:
            order = Order.INSTANCES_NEWEST_FIRST
        position = read_cursor(after, order)
        found = self._ready().list_instances(
            definition_id=definition_id,
            name=name,
            key=key,
            state=None if state is None else one_of(State, state),
            since=None if since is None else utc(since, name="since"),
            queues=checked_names("queues", queues),
            owners=checked_names("owners", owners),
            newest_first=newest_first,
            after=position,
            limit=limit,
        )
        return page_of(found, order, limit=limit, position=Position.of_instance)

    alist_instances = awaitable(list_instances)
    """Await what ``list_instances`` does; see there."""

    def list_runs(self, instance_id: UUID) -> Sequence[TaskRun]:
        """Read how the runs of an instance ended that did not end it well.

        Returns:
            The last twenty of them, earliest first; empty if there are none, or is no
            such instance.
        """
        check_type("instance_id", instance_id, UUID)
        return self._ready().list_runs(instance_id)

    alist_runs = awaitable(list_runs)
    """Await what ``list_runs`` does; see there."""

    def counts(
        self,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
    ) -> Mapping[State, int]:
        """How many instances are in each state.

        What deleted definitions have left is counted as well.

        Args:
            queues: Their definition's queue is among these; None: any.
            owners: Their definition is in the declared set of one of these owners;
                None: of any, or in none.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        return self._ready().counts(
            queues=checked_names("queues", queues),
            owners=checked_names("owners", owners),
        )

    acounts = awaitable(counts)
    """Await what ``counts`` does; see there."""

    def cancel(
        self, instance_id: UUID, *, connection: object = None
    ) -> Cancelled | None:
        """Cancel an instance that has not started, or ask its run to stop.

        A start is recorded some 20 ms before the instance is due; from then on its run
        is asked, by ``current_run().cancelled``, which it learns within a third of the
        lease. One that a scheduler of this process on this store has started and not
        called is cancelled.

        Args:
            instance_id: Which.
            connection: To make it part of a transaction of yours, as for ``schedule``.

        Returns:
            *cancelled*: it will not run; *requested*: it runs, or is about to; None: it
            had ended before.

        Raises:
            TaskInstanceNotFoundError: There is none with this id.
            StoreUnavailableError: With a ``connection``: somebody else is changing it
                at the same moment; repeat the transaction.
        """
        check_type("instance_id", instance_id, UUID)
        happened: list[Event] = []
        requested: list[UUID] = []

        def committed() -> None:
            if requested:
                self._withdraw(Kind.CANCELLED, requested)
            self._tell_all(happened)

        store = self._within(connection, committed)
        instance = store.get_instance(instance_id)
        next_fire_time = next_after_end(instance.definition, self._store.now())
        answer = store.cancel_instances({instance_id: next_fire_time}).get(instance_id)
        if answer is Cancelled.CANCELLED:
            happened.append(_cancelled(instance))
        elif answer is Cancelled.REQUESTED:
            if connection is None and self._withdraw(Kind.CANCELLED, [instance_id]):
                # The node records its end, and tells of it.
                return Cancelled.CANCELLED
            requested.append(instance_id)
            ids, worker = of_instance(instance), instance.worker
            happened.append(InstanceCancelRequested(**ids, worker=worker))
        if connection is None:
            self._tell_all(happened)
        return answer

    acancel = awaitable(cancel)
    """Await what ``cancel`` does; see there."""

    def _tell_all(self, happened: Sequence[Event]) -> None:
        for each in happened:
            self._events.tell(each)

    def retry(self, instance_id: UUID) -> TaskInstance:
        """Run an instance again that has failed, as soon as a node can.

        It begins anew: all that its ``retry`` allows is before it, and however late it
        is, no ``drop_after`` holds for it. Its ``id`` and its
        fire time stay, and so does what ``list_runs`` has of it. It runs as its
        definition says now; one that is paused keeps it until it is resumed.

        Returns:
            The instance, pending.

        Raises:
            TaskInstanceNotFoundError: There is none with this id.
            TaskInstanceStateError: It has not failed; or its definition waits for the
                end of each run, and has another that has not ended.
            TaskDefinitionNotFoundError: Its definition has been deleted.
        """
        instance = self.get_instance(instance_id)
        if not self._reopen([instance]):
            self._refuse_retry(instance_id)
        return self.get_instance(instance_id)

    aretry = awaitable(retry)
    """Await what ``retry`` does; see there."""

    @write_instead('scheduler.retry_failed(name="send")')
    def retry_failed(
        self,
        *,
        definition_id: UUID | None = None,
        name: str | None = None,
        since: datetime | None = None,
        limit: int | None = None,
    ) -> int:
        """Run again all instances that have failed and meet every condition given.

        What cannot be run again, as ``retry`` says, is left out.

        Args:
            definition_id: They belong to this definition.
            name: Their definition has this name.
            since: Their ``execute_at`` is not before this.
            limit: The most to run again, those with the earliest ``execute_at``; None:
                all.

        Returns:
            How many run again.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        check_most(limit)
        reopened, after = 0, None
        while limit is None or reopened < limit:
            page = self.list_instances(
                definition_id=definition_id,
                name=name,
                state=State.FAILED,
                since=since,
                after=after,
                limit=_BATCH if limit is None else min(_BATCH, limit - reopened),
            )
            reopened += self._reopen(page)
            # What fails once more meanwhile is behind this, and not met again.
            after = page.next
            if after is None:
                break
        return reopened

    aretry_failed = awaitable(retry_failed)
    """Await what ``retry_failed`` does; see there."""

    def _reopen(self, instances: Collection[TaskInstance]) -> int:
        """Make instances run again; how many do."""
        if not instances:
            return 0
        reopened = self._ready().reopen_instances([each.id for each in instances])
        self._look()
        if self._events.wanted(InstanceReopened):
            for each in instances:
                if each.id in reopened:
                    self._events.tell(InstanceReopened(**of_instance(each)))
        return len(reopened)

    def _refuse_retry(self, instance_id: UUID) -> NoReturn:
        """Say why an instance cannot be run again."""
        instance = self.get_instance(instance_id)
        if instance.state is not State.FAILED:
            problem = "only what has failed is run again"
            raise TaskInstanceStateError(instance_id, instance.state.value, problem)
        definition_id = instance.definition.id
        if not self._ready().get_definition(definition_id).trigger.waits:
            # It belongs to a former definition of that id.
            raise TaskDefinitionNotFoundError(definition_id)
        problem = "its definition waits for the end of another instance"
        raise TaskInstanceStateError(instance_id, instance.state.value, problem)


def _cancelled(instance: TaskInstance) -> InstanceFinished:
    return InstanceFinished(
        **of_instance(instance),
        outcome=Outcome.CANCELLED,
        started_at=None,
        took=None,
        error=None,
    )
