"""What users pause, and resume: one definition, some, or all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.checks import check_note
from go_scheduler.client.awaitable import awaitable
from go_scheduler.client.selection import batches, conditions, only
from go_scheduler.client.store_access import StoreAccess
from go_scheduler.errors import TaskDefinitionNotFoundError
from go_scheduler.events.definition_events import Change, DefinitionChanged
from go_scheduler.events.event import of_definition
from go_scheduler.running.withdrawing import Kind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from uuid import UUID

    from go_scheduler.client.selection import Conditions
    from go_scheduler.json import JSON
    from go_scheduler.models import TaskDefinition


class Pauses(StoreAccess):
    """Pauses and resumes definitions."""

    def pause(
        self,
        definition_id: UUID,
        note: str | None = None,
        *,
        connection: object = None,
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
        self, which: Conditions, note: str | None, connection: object
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
            self._tell(Change.PAUSED, found, connection)
            paused += found
        return paused

    def _resume(
        self, which: Conditions, connection: object
    ) -> Sequence[TaskDefinition]:
        store = self._within(connection, self._look_at_all)
        resumed: list[TaskDefinition] = []
        for batch in batches(store, which):
            found = store.resume_definitions(batch)
            self._tell(Change.RESUMED, found, connection)
            resumed += found
        if connection is None:
            self._look_at_all()
        return resumed

    def _tell(
        self, change: Change, changed: Sequence[TaskDefinition], connection: object
    ) -> None:
        for each in changed:
            self._events.tell(
                DefinitionChanged(
                    **of_definition(each),
                    change=change,
                    note=each.note,
                    joined=connection is not None,
                )
            )


def _found(found: Sequence[TaskDefinition], definition_id: UUID) -> TaskDefinition:
    if not found:
        raise TaskDefinitionNotFoundError(definition_id)
    return found[0]
