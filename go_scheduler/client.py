"""The client: what users do to definitions and instances, without running any."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID
from warnings import warn

from go_scheduler.checks import check_note, check_type
from go_scheduler.errors import (
    ConfigurationError,
    ScheduleWarning,
    TaskDefinitionNotFoundError,
)
from go_scheduler.json import check_text, freeze
from go_scheduler.models import METADATA_LIMIT, State, TaskDefinition, TaskInstance
from go_scheduler.preparation import next_after_end, prepare
from go_scheduler.shown import shown
from go_scheduler.stores.base import Store, transactional
from go_scheduler.triggers.base import is_own

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from go_scheduler.json import JSON
    from go_scheduler.models import Cancelled

MOST_LISTED = 1000
"""The most definitions or instances that one list returns."""


class Client:
    """Schedules, reads and changes definitions; the half of a scheduler without loops.

    Args:
        store: Where definitions and instances are kept.

    Raises:
        ConfigurationError: It is no store.
    """

    def __init__(self, store: Store) -> None:
        check_type("store", store, Store)
        self._store = store
        self._initialized = False

    def schedule(
        self, definition: TaskDefinition, *, connection: object = None
    ) -> TaskDefinition:
        """Insert a definition, or replace the one with its id.

        Scheduling an equal definition again changes nothing. Another trigger starts
        anew from now: what has not started of the old one is removed. Any other change
        leaves the fire times as they are and applies to each instance that starts from
        now on.

        With a ``connection`` to the database of an SQL store this becomes part of the
        transaction that is open there: the definition is scheduled when that commits,
        together with whatever else was written in it, or not at all. The store must
        have been made ready before: by ``start()``, or by any call without one.

        ```python
        with Session(engine) as session, session.begin():
            session.add(order)
            scheduler.schedule(reminder_for(order), connection=session)
        ```

        Args:
            definition: What to run, and when. Its ``revision``, if it has one, must be
                the stored one.
            connection: A SQLAlchemy ``Session`` or ``Connection`` that is not in
                autocommit. A scheduler looks for what is due as soon as a ``Session``
                has committed, and after a ``Connection`` has at its next tick.

        Returns:
            The definition as stored, with its ``next_fire_time``; as it will be stored,
            with a ``connection``.

        Raises:
            ConfigurationError: It is no definition, or its trigger cannot be stored; or
                the connection is none, or the store takes part in no transactions.
            InvalidTriggerError: Its trigger raised, or returned what is no fire time.
            ConflictError: It has been changed since it was read.
            StoreUnavailableError: With a ``connection``: somebody else is changing the
                definition at the same moment; repeat the transaction.

        Warns:
            ScheduleWarning: The trigger is one that people often do not mean.
        """
        if connection is not None:
            # Not made ready here: on SQLite that would wait for this transaction.
            joined = transactional(self._store)
            prepared = _prepared(definition, joined.now())
            (stored,) = joined.put_definitions_in(
                connection, [prepared], committed=self._look
            )
            return stored
        store = self._ready()
        prepared = _prepared(definition, store.now())
        (stored,) = store.put_definitions([prepared])
        self._look()
        return stored

    def get_definition(self, definition_id: UUID) -> TaskDefinition:
        """Read one definition.

        Raises:
            TaskDefinitionNotFoundError: There is none with this id.
        """
        check_type("definition_id", definition_id, UUID)
        return self._ready().get_definition(definition_id)

    def list_definitions(
        self,
        *,
        ids: Collection[UUID] | None = None,
        metadata: Mapping[str, JSON] | None = None,
        name: str | None = None,
        queue: str | None = None,
        after: UUID | None = None,
        limit: int = 100,
    ) -> Sequence[TaskDefinition]:
        """Read a page of the definitions that meet every condition given.

        Args:
            ids: Their id is among these.
            metadata: Their metadata contains this: each key, with a value that contains
                the one given; an array contains those whose items it all contains.
            name: They have this name.
            queue: They have this queue.
            after: Their id is greater: the id of the last one of the page before.
            limit: The most to return, 1 to 1,000.

        Returns:
            The definitions in the order of their ids; empty if there are no more.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        _check_limit(limit)
        if name is not None:
            check_type("name", name, str)
            check_text(name, "name")
        if queue is not None:
            check_type("queue", queue, str)
            check_text(queue, "queue")
        if after is not None:
            check_type("after", after, UUID)
        return self._ready().list_definitions(
            ids=None if ids is None else _ids(ids),
            metadata=None if metadata is None else _query(metadata),
            name=name,
            queue=queue,
            after=after,
            limit=limit,
        )

    def delete_definition(self, definition_id: UUID) -> bool:
        """Delete a definition and what has not started of it.

        What runs is told that it has lost its claim, and its result is dropped. After
        this the same id may be scheduled again, as a new definition.

        Returns:
            Whether there was one.
        """
        return self.delete_definitions(ids=[definition_id]) == 1

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
        chosen = None if ids is None else _ids(ids)
        if metadata is None and chosen is not None:
            return len(store.delete_definitions(chosen))
        deleted = 0
        after = None
        while page := self.list_definitions(ids=chosen, metadata=metadata, after=after):
            after = page[-1].id
            deleted += len(store.delete_definitions([one.id for one in page]))
        return deleted

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
        paused = self._ready().pause_definitions([definition_id], note=note)
        return _only(paused, definition_id)

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
        return resumed

    def get_instance(self, instance_id: UUID) -> TaskInstance:
        """Read one instance.

        Raises:
            TaskInstanceNotFoundError: There is none with this id.
        """
        check_type("instance_id", instance_id, UUID)
        return self._ready().get_instance(instance_id)

    def list_instances(
        self,
        *,
        definition_id: UUID | None = None,
        state: State | None = None,
        after: TaskInstance | None = None,
        limit: int = 100,
    ) -> Sequence[TaskInstance]:
        """Read a page of the instances that meet every condition given.

        Args:
            definition_id: They belong to this definition; None: to any, or to one that
                has been deleted.
            state: They are in this state.
            after: They come later: the last one of the page before.
            limit: The most to return, 1 to 1,000.

        Returns:
            The instances in the order of ``execute_at`` and id; empty if there are no
            more.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        _check_limit(limit)
        if definition_id is not None:
            check_type("definition_id", definition_id, UUID)
        if state is not None:
            check_type("state", state, State)
        if after is not None:
            check_type("after", after, TaskInstance)
        return self._ready().list_instances(
            definition_id=definition_id, state=state, after=after, limit=limit
        )

    def counts(self) -> Mapping[State, int]:
        """How many instances are in each state.

        What deleted definitions have left is counted as well.
        """
        return self._ready().counts()

    def cancel(self, instance_id: UUID) -> Cancelled | None:
        """Cancel an instance that has not started, or ask its run to stop.

        A start is recorded some 20 ms before the instance is due; from then on its run
        is asked, by ``current_run().cancelled``, which it learns within a third of the
        lease.

        Returns:
            *cancelled*: it will not run; *requested*: it runs, or is about to; None: it
            had ended before.

        Raises:
            TaskInstanceNotFoundError: There is none with this id.
        """
        instance = self.get_instance(instance_id)
        store = self._ready()
        next_fire_time = next_after_end(instance.definition, store.now())
        return store.cancel_instances({instance_id: next_fire_time}).get(instance_id)

    def _ready(self) -> Store:
        if not self._initialized:
            self._store.initialize()
            self._initialized = True
        return self._store

    def _look(self) -> None:
        """Something may be due; a scheduler looks at once."""


def _prepared(definition: TaskDefinition, now: datetime) -> TaskDefinition:
    """A definition as it is put; its author is told what is odd about its trigger."""
    prepared = prepare(definition, now)
    if is_own(prepared.trigger):
        for each in prepared.trigger.warnings(now):
            # Shown where schedule() was called.
            text = f"{prepared.trigger.describe()}: {each}"
            warn(text, ScheduleWarning, stacklevel=3)
    return prepared


def _only(found: Sequence[TaskDefinition], definition_id: UUID) -> TaskDefinition:
    if not found:
        raise TaskDefinitionNotFoundError(definition_id)
    return found[0]


def _check_limit(limit: int) -> None:
    check_type("limit", limit, int)
    if not 1 <= limit <= MOST_LISTED:
        raise ConfigurationError(f"limit must be 1 to {MOST_LISTED}: {shown(limit)}")


def _ids(ids: Collection[UUID]) -> Collection[UUID]:
    check_type("ids", ids, Iterable)
    kept = tuple(ids)
    for each in kept:
        check_type("an id", each, UUID)
    return kept


def _query(metadata: Mapping[str, JSON]) -> Mapping[str, JSON]:
    return freeze(metadata, name="metadata", limit=METADATA_LIMIT)
