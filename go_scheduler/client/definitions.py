"""What users do to definitions that are there: edit, delete, pause and resume."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.checks import check_definition_id, check_note, check_type
from go_scheduler.client.arguments import (
    ListOrder,
    batches,
    check_limit,
    check_searched,
    checked_ids,
    conditions,
    in_both,
    metadata_query,
    one_of,
    only,
    page_of,
    read_cursor,
    whose,
)
from go_scheduler.client.store_access import StoreAccess, awaitable
from go_scheduler.errors import ConfigurationError, TaskDefinitionNotFoundError
from go_scheduler.events import Change, DefinitionDeleted
from go_scheduler.models import DefinitionState, Deleted, TaskDefinition
from go_scheduler.running.withdrawing import Kind
from go_scheduler.stores.filters import (
    ANY_DEFINITION,
    DefinitionFilter,
    DefinitionOrder,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence, Set
    from uuid import UUID

    from go_scheduler.client.arguments import Page
    from go_scheduler.json import JSON


class Definitions(StoreAccess):
    """Reads, deletes, pauses and resumes definitions."""

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
        order = ListOrder.DEFINITIONS_BY_ID
        if soonest_first:
            order = ListOrder.DEFINITIONS_SOONEST_FIRST
        by = whose(queues, owners)
        where = DefinitionFilter(
            ids=None if ids is None else checked_ids(ids),
            metadata=None if metadata is None else metadata_query(metadata),
            name=name,
            queues=in_both(queue, by["queues"]),
            owners=in_both(owner, by["owners"]),
            state=None if state is None else one_of(DefinitionState, state),
        )
        found = self._ready().select_definitions(
            where,
            order=(
                DefinitionOrder.NEXT_FIRE_TIME if soonest_first else DefinitionOrder.ID
            ),
            after=read_cursor(after, order),
            limit=limit,
        )
        return page_of(found, order)

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
        if which == ANY_DEFINITION:
            raise ConfigurationError(
                "say which definitions to delete: ids, metadata, name or queue"
            )
        return len(self._delete(which, connection))

    adelete_definitions = awaitable(delete_definitions)
    """Await what ``delete_definitions`` does; see there."""

    def _delete(
        self, which: DefinitionFilter, connection: object
    ) -> Mapping[UUID, int]:
        """Delete definitions; return how many instances of each run on."""
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

    def pause(
        self, definition_id: UUID, note: str | None = None, *, connection: object = None
    ) -> TaskDefinition:
        """Pause a definition: nothing of it starts until it is resumed.

        Fire times that pass meanwhile are treated by ``catch_up`` when it is resumed.
        What runs goes on; ``list_instances(definition_id=..., state="running")`` has
        it.

        Args:
            definition_id: Which.
            note: Why, for a person to read; at most 10,000 characters.
            connection: To make it part of a transaction of yours, as for ``schedule``.

        Returns:
            The definition as stored.

        Raises:
            TaskDefinitionNotFoundError: There is none with this id.
            ConfigurationError: The note is no text that every store can keep.
            StoreUnavailableError: With a ``connection``: somebody else is changing it
                at the same moment; repeat the transaction.
        """
        which = only(definition_id)
        return _found(self._pause(which, note, connection), definition_id)

    apause = awaitable(pause)
    """Await what ``pause`` does; see there."""

    def resume(
        self, definition_id: UUID, *, connection: object = None
    ) -> TaskDefinition:
        """End a definition's pause.

        Args:
            definition_id: Which.
            connection: As for ``pause``.

        Returns:
            The definition as stored.

        Raises:
            TaskDefinitionNotFoundError: There is none with this id.
            StoreUnavailableError: As for ``pause``.
        """
        which = only(definition_id)
        return _found(self._resume(which, connection), definition_id)

    aresume = awaitable(resume)
    """Await what ``resume`` does; see there."""

    def pause_definitions(
        self,
        note: str | None = None,
        *,
        ids: Collection[UUID] | None = None,
        metadata: Mapping[str, JSON] | None = None,
        name: str | None = None,
        queue: str | None = None,
        connection: object = None,
    ) -> int:
        """Pause the definitions that meet every condition given; without one, all.

        Those that are paused already take the note.

        Args:
            note: As for ``pause``.
            ids: As for ``list_definitions``.
            metadata: As for ``list_definitions``.
            name: As for ``list_definitions``.
            queue: As for ``list_definitions``.
            connection: As for ``pause``.

        Returns:
            How many there were.

        Raises:
            ConfigurationError: An argument is wrong.
            StoreUnavailableError: As for ``pause``.
        """
        which = conditions(ids=ids, metadata=metadata, name=name, queue=queue)
        return len(self._pause(which, note, connection))

    apause_definitions = awaitable(pause_definitions)
    """Await what ``pause_definitions`` does; see there."""

    def resume_definitions(
        self,
        *,
        ids: Collection[UUID] | None = None,
        metadata: Mapping[str, JSON] | None = None,
        name: str | None = None,
        queue: str | None = None,
        connection: object = None,
    ) -> int:
        """End the pause of those that meet every condition given; without one, of all.

        Args:
            ids: As for ``list_definitions``.
            metadata: As for ``list_definitions``.
            name: As for ``list_definitions``.
            queue: As for ``list_definitions``.
            connection: As for ``pause``.

        Returns:
            How many definitions met them, paused or not.

        Raises:
            ConfigurationError: An argument is wrong.
            StoreUnavailableError: As for ``pause``.
        """
        which = conditions(ids=ids, metadata=metadata, name=name, queue=queue)
        return len(self._resume(which, connection))

    aresume_definitions = awaitable(resume_definitions)
    """Await what ``resume_definitions`` does; see there."""

    def _pause(
        self, which: DefinitionFilter, note: str | None, connection: object
    ) -> Sequence[TaskDefinition]:
        if note is not None:
            note = check_note(note)
        ids: list[UUID] = []

        def committed() -> None:
            self._withdraw(Kind.PAUSED, ids)

        store = self._within(connection, committed)
        paused: list[TaskDefinition] = []
        for batch in batches(store, which):
            found = store.pause_definitions(batch, note=note)
            ids += [each.id for each in found]
            if connection is None:
                self._withdraw(Kind.PAUSED, [each.id for each in found])
            self._tell_changed(Change.PAUSED, found, joined=connection is not None)
            paused += found
        return paused

    def _resume(
        self, which: DefinitionFilter, connection: object
    ) -> Sequence[TaskDefinition]:
        store = self._within(connection, self._look_at_all)
        resumed: list[TaskDefinition] = []
        for batch in batches(store, which):
            found = store.resume_definitions(batch)
            self._tell_changed(Change.RESUMED, found, joined=connection is not None)
            resumed += found
        if connection is None:
            self._look_at_all()
        return resumed


def _found(found: Sequence[TaskDefinition], definition_id: UUID) -> TaskDefinition:
    if not found:
        raise TaskDefinitionNotFoundError(definition_id)
    return found[0]
