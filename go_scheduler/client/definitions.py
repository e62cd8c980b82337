"""What users do to definitions that are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.checks import check_definition_id, check_type
from go_scheduler.client.arguments import (
    check_limit,
    check_searched,
    checked_ids,
    checked_names,
    metadata_query,
    one_of,
)
from go_scheduler.client.awaitable import awaitable
from go_scheduler.client.pages import Order, page_of, read_cursor
from go_scheduler.client.selection import batches, conditions, only
from go_scheduler.client.store_access import StoreAccess
from go_scheduler.errors import ConfigurationError
from go_scheduler.events.definition_events import DefinitionDeleted
from go_scheduler.models import DefinitionState, Deleted, TaskDefinition
from go_scheduler.running.withdrawing import Kind
from go_scheduler.stores.messages import Position

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Set
    from uuid import UUID

    from go_scheduler.client.pages import Page
    from go_scheduler.client.selection import Conditions
    from go_scheduler.json import JSON


class Definitions(StoreAccess):
    """Reads and deletes definitions."""

    def get_definition(self, definition_id: UUID) -> TaskDefinition:
        """Read one definition.

        Raises:
            TaskDefinitionNotFoundError: There is none with this id.
        """
        check_definition_id(definition_id)
        return self._ready().get_definition(definition_id)

    aget_definition = awaitable(get_definition)
    """Await what ``get_definition`` does; see there."""

    def list_definitions(
        self,
        *,
        ids: Collection[UUID] | None = None,
        metadata: Mapping[str, JSON] | None = None,
        name: str | None = None,
        queue: str | None = None,
        owner: str | None = None,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        state: DefinitionState | str | None = None,
        soonest_first: bool = False,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[TaskDefinition]:
        """Read a page of the definitions that meet every condition given.

        Args:
            ids: Their id is among these.
            metadata: Their metadata contains this: each key, with a value that contains
                the one given; an array contains those whose items it all contains.
            name: They have this name.
            queue: They have this queue.
            owner: They are in the declared set of this owner.
            queues: Their queue is among these.
            owners: They are in the declared set of one of these owners.
            state: They are in this state, such as ``"paused"``.
            soonest_first: In the order of their ``next_fire_time``, those that have
                none at the end.
            after: They come after a page: its ``next``.
            limit: The most to return, 1 to 1,000.

        Returns:
            The definitions in the order of their ids, unless told otherwise; its
            ``next`` reads on.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        check_limit(limit)
        check_searched("name", name)
        check_searched("queue", queue)
        check_searched("owner", owner)
        check_type("soonest_first", soonest_first, bool)
        order = Order.DEFINITIONS_BY_ID
        if soonest_first:
            order = Order.DEFINITIONS_SOONEST_FIRST
        position = read_cursor(after, order)
        found = self._ready().list_definitions(
            ids=None if ids is None else checked_ids(ids),
            metadata=None if metadata is None else metadata_query(metadata),
            name=name,
            queue=queue,
            owner=owner,
            queues=checked_names("queues", queues),
            owners=checked_names("owners", owners),
            state=None if state is None else one_of(DefinitionState, state),
            soonest_first=soonest_first,
            after=position,
            limit=limit,
        )
        return page_of(found, order, limit=limit, position=Position.of_definition)

    alist_definitions = awaitable(list_definitions)
    """Await what ``list_definitions`` does; see there."""

    def delete_definition(
        self, definition_id: UUID, *, connection: object = None
    ) -> Deleted | None:
        """Delete a definition and what has not started of it.

        What runs is told that it has lost its claim, and its result is dropped. After
        this the same id may be scheduled again, as a new definition.

        Args:
            definition_id: Which.
            connection: To make it part of a transaction of yours, as for ``schedule``.

        Returns:
            How many of its instances run on; None: there was no such definition.

        Raises:
            StoreUnavailableError: With a ``connection``: somebody else is changing it
                at the same moment; repeat the transaction.
        """
        running = self._delete(only(definition_id), connection).get(definition_id)
        return None if running is None else Deleted(running=running)

    adelete_definition = awaitable(delete_definition)
    """Await what ``delete_definition`` does; see there."""

    def delete_definitions(
        self,
        *,
        ids: Collection[UUID] | None = None,
        metadata: Mapping[str, JSON] | None = None,
        name: str | None = None,
        queue: str | None = None,
        connection: object = None,
    ) -> int:
        """Delete the definitions that meet every condition given, as above.

        Args:
            ids: As for ``list_definitions``.
            metadata: As for ``list_definitions``.
            name: As for ``list_definitions``.
            queue: As for ``list_definitions``.
            connection: As for ``delete_definition``.

        Returns:
            How many there were.

        Raises:
            ConfigurationError: No condition was given, or one is wrong.
            StoreUnavailableError: As for ``delete_definition``.
        """
        which = conditions(ids=ids, metadata=metadata, name=name, queue=queue)
        if not any(each is not None for each in which.values()):
            raise ConfigurationError(
                "say which definitions to delete: ids, metadata, name or queue"
            )
        return len(self._delete(which, connection))

    adelete_definitions = awaitable(delete_definitions)
    """Await what ``delete_definitions`` does; see there."""

    def _delete(self, which: Conditions, connection: object) -> Mapping[UUID, int]:
        """Delete definitions; how many of their instances run on, by definition."""
        running: dict[UUID, int] = {}

        def committed() -> None:
            self._withdraw(Kind.DELETED, running)

        store = self._within(connection, committed)
        for batch in batches(store, which):
            found = store.delete_definitions(batch)
            withdrawn: Set[UUID] = frozenset()
            if connection is None:
                withdrawn = self._withdraw(Kind.DELETED, found)
            for each, started in found.items():
                running[each] = len(started - withdrawn)
                self._events.tell(
                    DefinitionDeleted(definition_id=each, joined=connection is not None)
                )
        return running
