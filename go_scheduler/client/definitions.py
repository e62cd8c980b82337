"""What users do to definitions that are there."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from go_scheduler.checks import check_note, check_type
from go_scheduler.client.awaitable import awaitable
from go_scheduler.client.pages import Order, page_of, read_cursor
from go_scheduler.errors import (
    ConfigurationError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.events.definition_events import (
    Change,
    DefinitionChanged,
    DefinitionDeleted,
)
from go_scheduler.events.event import of_definition
from go_scheduler.models import (
    DefinitionState,
    TaskDefinition,
)
from go_scheduler.stores.messages import Position

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from go_scheduler.client.pages import Page
    from go_scheduler.json import JSON
    from go_scheduler.stores.base import Store

from go_scheduler.client.arguments import (
    check_limit,
    check_searched,
    checked_ids,
    metadata_query,
    one_of,
)
from go_scheduler.client.store_access import StoreAccess


class Definitions(StoreAccess):
    """Reads, pauses, resumes and deletes definitions."""

    def get_definition(self, definition_id: UUID) -> TaskDefinition:
        """Read one definition.

        Raises:
            TaskDefinitionNotFoundError: There is none with this id.
        """
        check_type("definition_id", definition_id, UUID)
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
            state=None if state is None else one_of(DefinitionState, state),
            soonest_first=soonest_first,
            after=position,
            limit=limit,
        )
        return page_of(found, order, limit=limit, position=Position.of_definition)

    alist_definitions = awaitable(list_definitions)
    """Await what ``list_definitions`` does; see there."""

    def delete_definition(self, definition_id: UUID) -> bool:
        """Delete a definition and what has not started of it.

        What runs is told that it has lost its claim, and its result is dropped. After
        this the same id may be scheduled again, as a new definition.

        Returns:
            Whether there was one.
        """
        return self.delete_definitions(ids=[definition_id]) == 1

    adelete_definition = awaitable(delete_definition)
    """Await what ``delete_definition`` does; see there."""

    def delete_definitions(
        self,
        *,
        ids: Collection[UUID] | None = None,
        metadata: Mapping[str, JSON] | None = None,
    ) -> int:
        """Delete the definitions that meet every condition given, as above.

        Returns:
            How many there were.

        Raises:
            ConfigurationError: No condition was given, or one is wrong.
        """
        if ids is None and metadata is None:
            raise ConfigurationError("say which definitions to delete: ids or metadata")
        store = self._ready()
        chosen = None if ids is None else checked_ids(ids)
        if metadata is None and chosen is not None:
            return self._delete(store, chosen)
        deleted = 0
        page = self.list_definitions(ids=chosen, metadata=metadata)
        while page:
            deleted += self._delete(store, [one.id for one in page])
            if page.next is None:
                break
            page = self.list_definitions(ids=chosen, metadata=metadata, after=page.next)
        return deleted

    adelete_definitions = awaitable(delete_definitions)
    """Await what ``delete_definitions`` does; see there."""

    def pause(self, definition_id: UUID, note: str | None = None) -> TaskDefinition:
        """Pause a definition: nothing of it starts until it is resumed.

        Fire times that pass meanwhile are treated by ``catch_up`` when it is resumed.
        What runs goes on.

        Args:
            definition_id: Which.
            note: Why, for a person to read; at most 10,000 characters.

        Returns:
            The definition as stored.

        Raises:
            TaskDefinitionNotFoundError: There is none with this id.
            ConfigurationError: The note is no text that every store can keep.
        """
        check_type("definition_id", definition_id, UUID)
        if note is not None:
            note = check_note(note)
        found = self._ready().pause_definitions([definition_id], note=note)
        paused = _only(found, definition_id)
        self._events.tell(
            DefinitionChanged(
                **of_definition(paused), change=Change.PAUSED, note=paused.note
            )
        )
        return paused

    apause = awaitable(pause)
    """Await what ``pause`` does; see there."""

    def resume(self, definition_id: UUID) -> TaskDefinition:
        """End a definition's pause.

        Returns:
            The definition as stored.

        Raises:
            TaskDefinitionNotFoundError: There is none with this id.
        """
        check_type("definition_id", definition_id, UUID)
        resumed = _only(
            self._ready().resume_definitions([definition_id]), definition_id
        )
        self._look()
        self._events.tell(
            DefinitionChanged(
                **of_definition(resumed), change=Change.RESUMED, note=None
            )
        )
        return resumed

    aresume = awaitable(resume)
    """Await what ``resume`` does; see there."""

    def _delete(self, store: Store, ids: Collection[UUID]) -> int:
        deleted = store.delete_definitions(ids)
        for each in deleted:
            self._events.tell(DefinitionDeleted(definition_id=each))
        return len(deleted)


def _only(found: Sequence[TaskDefinition], definition_id: UUID) -> TaskDefinition:
    if not found:
        raise TaskDefinitionNotFoundError(definition_id)
    return found[0]
