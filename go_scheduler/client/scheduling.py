"""Scheduling: definitions are checked, anchored and put, by themselves or as a set."""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar, get_args
from warnings import warn

from go_scheduler.argument_hints import write_instead
from go_scheduler.checks import check_name, check_type, check_version
from go_scheduler.client.store_access import (
    StoreAccess,
    await_within,
    on_thread,
    several,
)
from go_scheduler.errors import (
    ConfigurationError,
    GoSchedulerError,
    InvalidTriggerError,
    ScheduleWarning,
)
from go_scheduler.events import (
    Change,
    DeclarationOutdated,
    DefinitionDeleted,
    DefinitionScheduled,
)
from go_scheduler.events.event import of_definition
from go_scheduler.formatting import shown
from go_scheduler.json import freeze
from go_scheduler.models import TaskDefinition
from go_scheduler.models.values import changed
from go_scheduler.running.withdrawing import Kind
from go_scheduler.stores.base import Store, transactional
from go_scheduler.stores.filters import DefinitionFilter
from go_scheduler.stores.rules import Declaration, Removed, is_over
from go_scheduler.triggers.base import (
    STATE_LIMIT,
    WRITE_BOTH,
    Trigger,
    UndecidedError,
    checked_fire_time,
    dump_trigger,
    is_brief,
    is_own,
    load_trigger,
    next_fire_time_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set
    from datetime import datetime
    from uuid import UUID


_Prepared = TypeVar("_Prepared")
_REMOVED = get_args(Removed)


def prepare(
    definition: TaskDefinition, now: datetime, at_latest: datetime | None = None
) -> TaskDefinition:
    """Anchor a definition's trigger and ask for its first fire time.

    Args:
        definition: The definition.
        now: The store's time, or a little earlier.
        at_latest: The latest that the store's time may be; None: it is ``now``.

    Raises:
        ConfigurationError: It is no definition.
        InvalidTriggerError: Its trigger raised or hangs, does not survive being stored,
            or returned what is no fire time, or none that is later.
    """
    if isinstance(definition, list | tuple):
        raise ConfigurationError(
            "definition must be a TaskDefinition, and schedule_all() takes several:"
            f" {shown(definition)}"
        )
    check_type("definition", definition, TaskDefinition)
    given = definition.trigger
    try:
        trigger, first = _asked(given, now)
    except GoSchedulerError:
        raise
    except Exception as error:
        raise InvalidTriggerError(f"{shown(given)} raised {shown(error)}") from error
    # By the latest possible time: what is scheduled for now must not count as missed.
    passed = first is not None and first <= (at_latest or now)
    overdue = passed and not trigger.recurring
    return changed(definition, trigger=trigger, next_fire_time=first, overdue=overdue)


def _asked(given: Trigger, now: datetime) -> tuple[Trigger, datetime | None]:
    """The trigger that is stored, and its first fire time."""
    if is_own(given):
        return _anchored_and_asked(given, now)
    # Imported when first used: it loads what not everybody uses.
    from go_scheduler.triggers.previews import ask

    return ask(given, partial(_anchored_and_asked, given, now))


def _anchored_and_asked(
    given: Trigger, now: datetime
) -> tuple[Trigger, datetime | None]:
    trigger = given.anchored(now)
    if trigger.waits and not is_own(trigger):
        raise InvalidTriggerError(
            f"{shown(given)} waits for the end of a run, which only this package's"
            " own triggers may: they are called where nothing may hang"
        )
    first = trigger.first_fire_time(now)
    if first is not None:
        first = checked_fire_time(trigger, first)
        if not is_own(trigger):
            # Check that the next answer is later than the first. A trigger that is
            # undecided after its first fire time is accepted.
            with suppress(UndecidedError):
                next_fire_time_of(trigger, first)
    _check_storable(trigger, given)
    return trigger, first


def next_after_end(definition: TaskDefinition, now: datetime) -> datetime | None:
    """When a definition that waits for an instance's end fires, if that ends now."""
    if not definition.trigger.waits:
        return None
    return next_fire_time_of(definition.trigger, now)


def _check_storable(trigger: Trigger, given: Trigger) -> None:
    """Refuse a trigger that would be loaded as a different one."""
    if trigger is given and is_own(trigger) and is_brief(trigger):
        return
    kind, given_state = dump_trigger(trigger)
    if trigger != given:
        raise InvalidTriggerError(
            f"{shown(given)} is not equal to itself when anchored: {shown(trigger)};"
            " fields that anchored() fills in must be compare=False"
        )
    if is_own(trigger):
        return
    try:
        state = freeze(
            given_state, name=f"the state of {shown(given)}", limit=STATE_LIMIT
        )
    except ConfigurationError as error:
        raise InvalidTriggerError(str(error)) from None
    loaded = load_trigger(kind, state)
    if loaded != trigger:
        raise InvalidTriggerError(
            f"{shown(trigger)} is another trigger when stored and loaded:"
            f" {shown(loaded)}{WRITE_BOTH}"
        )


WARNS: ContextVar[bool] = ContextVar("WARNS", default=True)
"""Whether odd triggers cause a Python warning; not if the sender is told."""


def _warned(prepared: tuple[_Prepared, Sequence[str]]) -> _Prepared:
    """What was prepared, after its author was warned of what is odd about it."""
    for text in prepared[1] if WARNS.get() else ():
        # At the line where the user called, three calls above this one.
        warn(text, ScheduleWarning, stacklevel=4)
    return prepared[0]


class Scheduling(StoreAccess):
    """Schedules definitions, and declares sets of them."""

    @write_instead("scheduler.schedule(TaskDefinition(trigger=trigger))")
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
            InvalidTriggerError: Its trigger raised or hangs, or returned no fire time.
            ConflictError: It has been changed since it was read.
            StoreUnavailableError: With a ``connection``: somebody else is changing the
                definition at the same moment; repeat the transaction.

        Warns:
            ScheduleWarning: The trigger is one that people often do not mean.
        """
        joins = connection is not None
        prepared = _warned(self._prepare("schedule", [definition], joins=joins))
        return self._put(prepared, connection)[0]

    @write_instead("scheduler.schedule_all([definition])")
    def schedule_all(
        self, definitions: Iterable[TaskDefinition], *, connection: object = None
    ) -> list[TaskDefinition]:
        """Do what ``schedule`` does with many definitions, in one write.

        All of them are scheduled, or none is.

        Args:
            definitions: What to run, and when; each id once.
            connection: As for ``schedule``.

        Returns:
            The definitions as stored, or as they will be, in the order given.

        Raises:
            ConfigurationError: As for ``schedule``, or an id is there twice.
            InvalidTriggerError: As for ``schedule``.
            ConflictError: As for ``schedule``.
            StoreUnavailableError: As for ``schedule``.

        Warns:
            ScheduleWarning: The trigger of one is one that people often do not mean.
        """
        given, joins = several("definitions", definitions), connection is not None
        prepared = _warned(self._prepare("schedule_all", given, joins=joins))
        return self._put(prepared, connection)

    @write_instead("await scheduler.aschedule(TaskDefinition(trigger=trigger))")
    async def aschedule(
        self, definition: TaskDefinition, *, connection: object = None
    ) -> TaskDefinition:
        """Await what ``schedule`` does; see there.

        Args:
            definition: What to run, and when.
            connection: A SQLAlchemy ``AsyncSession`` or ``AsyncConnection`` that is not
                in autocommit.
        """
        prepare = partial(self._prepare, "schedule", [definition])
        prepared = _warned(await on_thread(prepare, joins=connection is not None))
        put = partial(self._put, prepared)
        return (await await_within(connection, put, "schedule"))[0]

    @write_instead("await scheduler.aschedule_all([definition])")
    async def aschedule_all(
        self, definitions: Iterable[TaskDefinition], *, connection: object = None
    ) -> list[TaskDefinition]:
        """Await what ``schedule_all`` does; see there.

        Args:
            definitions: What to run, and when; each id once.
            connection: As for ``aschedule``.
        """
        prepare = partial(
            self._prepare, "schedule_all", several("definitions", definitions)
        )
        prepared = _warned(await on_thread(prepare, joins=connection is not None))
        put = partial(self._put, prepared)
        return await await_within(connection, put, "schedule_all")

    def _prepare(
        self, operation: str, definitions: Sequence[TaskDefinition], *, joins: bool
    ) -> tuple[Sequence[TaskDefinition], Sequence[str]]:
        """Prepare definitions, and find what is odd about their triggers.

        Args:
            operation: What they are put by.
            definitions: The definitions.
            joins: Whether they are put within a transaction of the user's.
        """
        # Not made ready here: on SQLite that would wait for the transaction.
        store = transactional(self._store) if joins else self._ready()
        now, at_latest = store.now_between()
        prepared = [prepare(each, now, at_latest) for each in definitions]
        odd = {
            each.id: found
            for each in prepared
            if is_own(each.trigger) and (found := each.trigger.warnings(now))
        }
        # Whoever schedules at every start was warned at the first.
        told = _unchanged(store, [each for each in prepared if each.id in odd])
        texts = [
            f"{each.trigger.describe()}: {text}"
            for each in prepared
            if each.id in odd and each.id not in told
            for text in odd[each.id]
        ]
        name = prepared[0].name if len(prepared) == 1 else None
        context = self._trace_context(operation, name, len(prepared))
        if context is not None:
            prepared = [changed(each, trace_context=context) for each in prepared]
        return prepared, texts

    def _put(
        self, definitions: Sequence[TaskDefinition], connection: object
    ) -> list[TaskDefinition]:
        tell = partial(self._tell_scheduled, joined=connection is not None)
        if connection is None and len(definitions) == 1:
            # A single definition that is due runs here at once.
            taker = self._taker(definitions[0].queue)
            if taker is not None:
                taken = taker.put(definitions[0], lambda put: tell([put]))
                if taken is not None:
                    return [taken]
        write = self._write(connection)
        put = write.store.put_definitions(definitions).definitions
        for each in put:
            write.then(self._look, each)
        tell(put)
        return list(put)

    def _tell_scheduled(self, put: Sequence[TaskDefinition], *, joined: bool) -> None:
        if self._events.wanted(DefinitionScheduled):
            for each in put:
                self._events.tell(
                    DefinitionScheduled(
                        **of_definition(each),
                        next_fire_time=each.next_fire_time,
                        revision=each.revision,
                        joined=joined,
                    )
                )

    @write_instead('scheduler.declare([definition], owner="shop")')
    def declare(
        self,
        definitions: Iterable[TaskDefinition],
        *,
        owner: str,
        version: int | None = None,
        removed: Removed = "delete",
        adopt: bool = False,
        connection: object = None,
    ) -> list[TaskDefinition]:
        """Let an owner have these definitions and no others, in one write.

        Each is scheduled, as by ``schedule``. What the owner has declared before and
        declares no more is deleted, or paused. Any number of processes may call it at
        each start, at once as well: the same set again changes nothing, and of two sets
        the later one counts, as a whole. With a ``version``, one that is lower than the
        last changes nothing, so that in a rolling deploy what starts late in its old
        version does not undo the new one.

        What is declared stays in its set: ``schedule`` may change it until the next
        declaration, which changes it back, and ``delete_definition`` deletes it until
        then. What somebody has paused stays paused.

        ```python
        scheduler.declare([report, cleanup], owner="shop", version=7)
        ```

        Args:
            definitions: The set; each with a ``key``, or an id of its own.
            owner: Whose set it is: a name that each application has for itself, at most
                200 characters.
            version: Rises with each release whose set differs, such as the number of
                the build; None: the owner has no versions. Once it has had one, a
                declaration without one changes nothing.
            removed: What becomes of those that are declared no more: *delete*, and the
                id is forgotten; *pause*, until they are declared again, by this owner
                or by another one; or *keep*: nothing, they stay in the set as they are.
            adopt: Whether a definition of these ids that is in no set, as it was
                scheduled by itself, is taken into this one.
            connection: To make it part of a transaction of yours, as for ``schedule``.
                Other declarations of this owner wait for its end. If this raises, roll
                it back.

        Returns:
            The definitions as stored, in the order given; empty if a later version has
            been declared.

        Raises:
            ConfigurationError: An argument is wrong; or one of the definitions is in
                the set of another owner, or in none. Nothing has changed.
            InvalidTriggerError: As for ``schedule``.
            ConflictError: As for ``schedule``.
            StoreUnavailableError: As for ``schedule``.

        Warns:
            ScheduleWarning: The trigger of one is one that people often do not mean.
        """
        wanted = Declaration(
            owner=owner,
            definitions=several("definitions", definitions),
            version=version,
            removed=removed,
            adopts=adopt,
        )
        prepared = self._prepare_set(wanted, joins=connection is not None)
        return self._declare(_warned(prepared), connection)

    @write_instead('await scheduler.adeclare([definition], owner="shop")')
    async def adeclare(
        self,
        definitions: Iterable[TaskDefinition],
        *,
        owner: str,
        version: int | None = None,
        removed: Removed = "delete",
        adopt: bool = False,
        connection: object = None,
    ) -> list[TaskDefinition]:
        """Await what ``declare`` does; see there.

        Its ``connection`` is one as for ``aschedule``.
        """
        wanted = Declaration(
            owner=owner,
            definitions=several("definitions", definitions),
            version=version,
            removed=removed,
            adopts=adopt,
        )
        joins = connection is not None
        prepared = await on_thread(self._prepare_set, wanted, joins=joins)
        declare = partial(self._declare, _warned(prepared))
        return await await_within(connection, declare, "declare")

    def _prepare_set(
        self, wanted: Declaration, *, joins: bool
    ) -> tuple[Declaration, Sequence[str]]:
        owner = check_name("owner", wanted.owner)
        check_version(wanted.version)
        if wanted.removed not in _REMOVED:
            raise ConfigurationError(
                "removed must be 'delete', 'pause' or 'keep', not"
                f" {shown(wanted.removed)}"
            )
        check_type("adopt", wanted.adopts, bool)
        prepared, odd = self._prepare("declare", wanted.definitions, joins=joins)
        for each in prepared:
            if not each.named:
                raise ConfigurationError(
                    "what is declared needs an id of its own, the same at each start,"
                    f" as by key='nightly report': {shown(each.trigger)}"
                )
        return replace(wanted, owner=owner, definitions=prepared), odd

    def _declare(
        self, declaration: Declaration, connection: object
    ) -> list[TaskDefinition]:
        write = self._write(connection)
        declared = write.store.declare_definitions(declaration)
        if declared.outdated_by is not None:
            self._events.tell(
                DeclarationOutdated(
                    owner=declaration.owner,
                    version=declaration.version,
                    stored=declared.outdated_by,
                )
            )
            return []
        paused = [each.id for each in declared.paused]
        write.then(self._withdraw, Kind.DELETED, declared.deleted)
        write.then(self._withdraw, Kind.PAUSED, paused)
        for each in declared.definitions:
            write.then(self._look, each)
        if declared.resumed:
            # Instances without a fire time may have waited for the resume.
            write.then(self._look_for_instances)
        joined = write.joined
        self._tell_scheduled(declared.definitions, joined=joined)
        self._tell_changed(Change.RESUMED, declared.resumed, joined=joined)
        self._tell_changed(Change.PAUSED, declared.paused, joined=joined)
        for gone in declared.deleted:
            self._events.tell(DefinitionDeleted(definition_id=gone, joined=joined))
        return list(declared.definitions)


def _unchanged(store: Store, prepared: Sequence[TaskDefinition]) -> Set[UUID]:
    """The ids of definitions that are stored just like that."""
    if not prepared:
        return set()
    ids = [each.id for each in prepared]
    found = store.select_definitions(DefinitionFilter(ids=ids), limit=len(ids))
    stored = {each.id: each for each in found}
    ended = {each.id: each for each in store.list_tombstones(ids)}
    return {
        each.id
        for each in prepared
        if (
            each.is_same(stored[each.id])
            if each.id in stored
            else is_over(each, ended.get(each.id))
        )
    }
