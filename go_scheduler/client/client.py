"""The client: what users do to definitions and instances, without running any."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID
from warnings import warn

from go_scheduler.checks import check_note, check_type
from go_scheduler.client.awaitable import awaitable
from go_scheduler.client.pages import Order, page_of, read_cursor
from go_scheduler.client.preparation import next_after_end, prepare
from go_scheduler.errors import (
    ConfigurationError,
    ScheduleWarning,
    TaskDefinitionNotFoundError,
)
from go_scheduler.json import check_text, freeze
from go_scheduler.models import (
    METADATA_LIMIT,
    DefinitionState,
    State,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.shown import shown
from go_scheduler.stores.base import Store, transactional
from go_scheduler.stores.messages import Position
from go_scheduler.stores.remembered import is_over
from go_scheduler.triggers.base import is_own, utc

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
    from datetime import datetime

    from go_scheduler.client.pages import Page
    from go_scheduler.json import JSON
    from go_scheduler.models import Cancelled
    from go_scheduler.triggers.base import Trigger

_Word = TypeVar("_Word", bound=StrEnum)

_NOBODYS = UUID(int=0)

MOST_LISTED = 1000
"""The most definitions or instances that one list returns."""


class Client:
    """Schedules, reads and changes definitions; the half of a scheduler without loops.

    Each call waits for the store. Its form that begins with an ``a``, such as
    ``await scheduler.aschedule(definition)``, waits on a thread and keeps no event loop
    from going on. One whose await is cancelled may take effect all the same.

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
        have been made ready before: by ``start()``, ``check()``, or a call without one.

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
        prepared, odd = self._prepare(definition, joins=connection is not None)
        _warn(odd)
        return self._put(prepared, connection)

    async def aschedule(
        self, definition: TaskDefinition, *, connection: object = None
    ) -> TaskDefinition:
        """Await what ``schedule`` does; see there.

        Args:
            definition: What to run, and when.
            connection: A SQLAlchemy ``AsyncSession`` or ``AsyncConnection`` that is not
                in autocommit.
        """
        run_sync = None if connection is None else _run_sync_of(connection)
        prepared, odd = await asyncio.to_thread(
            self._prepare, definition, joins=run_sync is not None
        )
        _warn(odd)
        put = partial(self._put, prepared)
        if run_sync is None:
            return await asyncio.to_thread(put, None)
        return await run_sync(put)

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
        _check_limit(limit)
        _check_searched("name", name)
        _check_searched("queue", queue)
        check_type("soonest_first", soonest_first, bool)
        order = Order.DEFINITIONS_BY_ID
        if soonest_first:
            order = Order.DEFINITIONS_SOONEST_FIRST
        position = read_cursor(after, order)
        found = self._ready().list_definitions(
            ids=None if ids is None else _ids(ids),
            metadata=None if metadata is None else _query(metadata),
            name=name,
            queue=queue,
            state=None if state is None else _one_of(DefinitionState, state),
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
        chosen = None if ids is None else _ids(ids)
        if metadata is None and chosen is not None:
            return len(store.delete_definitions(chosen))
        deleted = 0
        page = self.list_definitions(ids=chosen, metadata=metadata)
        while page:
            deleted += len(store.delete_definitions([one.id for one in page]))
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
        paused = self._ready().pause_definitions([definition_id], note=note)
        return _only(paused, definition_id)

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
        return resumed

    aresume = awaitable(resume)
    """Await what ``resume`` does; see there."""

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
        state: State | str | None = None,
        since: datetime | None = None,
        newest_first: bool = False,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[TaskInstance]:
        """Read a page of the instances that meet every condition given.

        Args:
            definition_id: They belong to this definition; None: to any, or to one that
                has been deleted.
            name: Their definition has this name.
            state: They are in this state, such as ``"failed"``.
            since: Their ``execute_at`` is not before this.
            newest_first: Those with the latest ``execute_at`` come first.
            after: They come after a page: its ``next``.
            limit: The most to return, 1 to 1,000.

        Returns:
            The instances in the order of ``execute_at`` and id, unless told otherwise;
            its ``next`` reads on.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        _check_limit(limit)
        if definition_id is not None:
            check_type("definition_id", definition_id, UUID)
        _check_searched("name", name)
        check_type("newest_first", newest_first, bool)
        order = Order.INSTANCES_OLDEST_FIRST
        if newest_first:
            order = Order.INSTANCES_NEWEST_FIRST
        position = read_cursor(after, order)
        found = self._ready().list_instances(
            definition_id=definition_id,
            name=name,
            state=None if state is None else _one_of(State, state),
            since=None if since is None else utc(since, name="since"),
            newest_first=newest_first,
            after=position,
            limit=limit,
        )
        return page_of(found, order, limit=limit, position=Position.of_instance)

    alist_instances = awaitable(list_instances)
    """Await what ``list_instances`` does; see there."""

    def counts(self) -> Mapping[State, int]:
        """How many instances are in each state.

        What deleted definitions have left is counted as well.
        """
        return self._ready().counts()

    acounts = awaitable(counts)
    """Await what ``counts`` does; see there."""

    def check(self) -> None:
        """Ask the store for a sign of life, and make it ready if no call has yet.

        It takes no start, and costs one small query. A program that only schedules
        calls it once at its beginning, so that the tables are there for its first
        ``connection``, and whenever it is asked whether it is well.

        Raises:
            StoreUnavailableError: The store cannot be reached.
            StoreError: It cannot be used.
        """
        # Of an id that nobody has: no row of somebody's open transaction is in the way.
        self._ready().list_definitions(ids=[_NOBODYS], limit=1)

    acheck = awaitable(check)
    """Await what ``check`` does; see there."""

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

    acancel = awaitable(cancel)
    """Await what ``cancel`` does; see there."""

    def _prepare(
        self, definition: TaskDefinition, *, joins: bool
    ) -> tuple[TaskDefinition, Sequence[str]]:
        """A definition as it is put, and what is odd about its trigger.

        Args:
            definition: The definition.
            joins: Whether it is put within a transaction of the user's.
        """
        # Not made ready for that: on SQLite it would wait for the transaction.
        store = transactional(self._store) if joins else self._ready()
        now = store.now()
        prepared = prepare(definition, now)
        odd = _warnings(prepared.trigger, now)
        # Whoever schedules at every start has been told at the first one.
        if odd and _changes_nothing(store, prepared):
            odd = []
        return prepared, odd

    def _put(self, definition: TaskDefinition, connection: object) -> TaskDefinition:
        if connection is not None:
            (stored,) = transactional(self._store).put_definitions_in(
                connection, [definition], committed=self._look
            )
            return stored
        (stored,) = self._ready().put_definitions([definition])
        self._look(stored)
        return stored

    def _ready(self) -> Store:
        if not self._initialized:
            self._store.initialize()
            self._initialized = True
        return self._store

    def _look(self, stored: TaskDefinition | None = None) -> None:
        """Something may be due, what was just stored perhaps: a scheduler looks."""


def _changes_nothing(store: Store, prepared: TaskDefinition) -> bool:
    for stored in store.list_definitions(ids=[prepared.id], limit=1):
        return prepared.is_same(stored)
    return any(is_over(prepared, each) for each in store.list_tombstones([prepared.id]))


def _warnings(trigger: Trigger, now: datetime) -> Sequence[str]:
    if not is_own(trigger):
        return []
    return [f"{trigger.describe()}: {each}" for each in trigger.warnings(now)]


def _warn(odd: Sequence[str]) -> None:
    """Tell the author, as of where ``schedule`` or ``aschedule`` was called."""
    for text in odd:
        warn(text, ScheduleWarning, stacklevel=3)


def _run_sync_of(
    connection: object,
) -> Callable[[Callable[[object], TaskDefinition]], Awaitable[TaskDefinition]]:
    found = getattr(connection, "run_sync", None)
    if found is None:
        raise ConfigurationError(
            "connection must be a SQLAlchemy AsyncConnection or AsyncSession, not of"
            f" type {type(connection).__name__}: with that one, call schedule()"
        )
    run_sync: Callable[
        [Callable[[object], TaskDefinition]], Awaitable[TaskDefinition]
    ] = found
    return run_sync


def _only(found: Sequence[TaskDefinition], definition_id: UUID) -> TaskDefinition:
    if not found:
        raise TaskDefinitionNotFoundError(definition_id)
    return found[0]


def _check_limit(limit: int) -> None:
    check_type("limit", limit, int)
    if not 1 <= limit <= MOST_LISTED:
        raise ConfigurationError(f"limit must be 1 to {MOST_LISTED}: {shown(limit)}")


def _check_searched(what: str, text: str | None) -> None:
    """Refuse what no name or queue can be."""
    if text is not None:
        check_type(what, text, str)
        check_text(text, what)


def _ids(ids: Collection[UUID]) -> Collection[UUID]:
    check_type("ids", ids, Iterable)
    kept = tuple(ids)
    for each in kept:
        check_type("an id", each, UUID)
    return kept


def _one_of(kind: type[_Word], word: _Word | str) -> _Word:
    """A word of an enumeration, given as one or as its text."""
    check_type("state", word, str)
    if word not in tuple(kind):
        raise ConfigurationError(
            f"state must be one of {', '.join(kind)}: {shown(word)}"
        )
    return kind(word)


def _query(metadata: Mapping[str, JSON]) -> Mapping[str, JSON]:
    return freeze(metadata, name="metadata", limit=METADATA_LIMIT)
