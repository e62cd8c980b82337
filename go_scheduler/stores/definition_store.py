"""The part of the store interface that is about definitions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence, Set
    from datetime import timedelta
    from uuid import UUID

    from go_scheduler.json import JSON
    from go_scheduler.models import DefinitionState, TaskDefinition
    from go_scheduler.stores.declared import Declaration, Declared
    from go_scheduler.stores.messages import (
        Answer,
        Firing,
        Position,
        Tombstone,
    )


class DefinitionStore(ABC):
    """Puts, lists, pauses and deletes definitions, and fires those that are due."""

    @abstractmethod
    def put_definitions(
        self, definitions: Sequence[TaskDefinition]
    ) -> Sequence[TaskDefinition]:
        """Insert each definition, or replace the one with its id.

        A new one is kept as it is, paused with its ``note`` if it says so, at revision
        1, or at a higher one than any deleted definition of its id had, so that none is
        taken for another. ``delete_finished`` may forget such revisions when its
        ``ended`` has passed since the delete, and no sooner. A new one is completed at
        once if its ``next_fire_time`` is None and its trigger neither waits nor is an
        ``OnDemandTrigger``.

        An id that was passed, and that ``delete_finished`` has left remembered, is no
        new one if the trigger is equal to the one remembered: nothing is stored, and
        the answer is the definition as given, with the ``revision`` and
        ``completed_at`` remembered and without a ``next_fire_time``. With another
        trigger it is a new one, at a higher revision, and no longer remembered.

        One that ``is_same`` as what is stored changes nothing, but that it is ``named``
        from then on if the one put is. Otherwise the revision rises by one, and what
        else happens depends on trigger and jitter:

        * Both equal: the stored trigger stays, with its anchor, and so do
          ``next_fire_time`` and ``overdue``. The next start of each instance uses the
          new values.
        * Another jitter alone: the same, but what is still to come is taken back, as by
          ``pause_definitions``. What has passed stays as it was made.
        * Another trigger: of its instances that have a ``fire_time``, have not started
          and never ran, those still to come are removed, and those whose ``fire_time``
          has passed are *skipped* by ``Skipped.itself(fire_time, EDITED)`` and leave
          their ``fire_time`` free. What had passed and was not fired, from the old
          ``next_fire_time`` on, becomes one instance as of a firing's ``skipped``, by
          ``unfired``: so each fire time has its instance or is in one record, whoever
          fires at the same moment. ``next_fire_time`` is as passed, and the definition
          is live again if it was completed. Instances that run or wait for a retry
          stay, and so do those without a ``fire_time``.

        Either way its open instances go to its queue, and those claimed and not started
        lose their claim if that is another one. With another ``overlap`` or ``lock``,
        those that run in a slot keep it until they have ended. All others go by the new
        one at their next start: what waits for a retry lets go of its slot, and what is
        parked is claimable again. ``paused``, ``note``, ``paused_at`` and
        ``last_pause`` stay as stored.

        Args:
            definitions: Each id once; anchored, and with the ``next_fire_time`` that a
                new trigger starts with, and whether it is ``overdue``. What else the
                store keeps is ignored, but for a ``revision`` that is not None, and of
                a new one ``paused`` and ``note``.

        Returns:
            The definitions as they are now stored, in the order given.

        Raises:
            ConflictError: A revision that was set is not the one stored or remembered.
                None was put.
            ConfigurationError: An id is there twice. None was put.
        """

    @abstractmethod
    def declare_definitions(self, declaration: Declaration) -> Declared:
        """Let an owner have exactly the definitions of a declaration, in one step.

        Each is put as by ``put_definitions``, and has the ``owner`` from then on, which
        alone does not raise a revision. One that the owner has and that is not among
        them is deleted as by ``delete_definitions``; or paused as by
        ``pause_definitions`` with ``removal_note(owner)``, unless it is paused already;
        or stays as it is, as ``removed`` says.
        It stays in the set; but once it ``was_removed`` so, any owner may declare it,
        which resumes it.

        The version and the time are kept for the owner, for good. A declaration
        ``is_outdated`` if one of a higher version has been made, or one of any version
        and this one has none: it changes nothing. Of two that are made at once, the
        later one takes effect as a whole; of two owners that declare one definition at
        once, one is refused.

        Nothing else changes an ``owner``: ``put_definitions`` ignores what is passed,
        keeps what is stored, and gives a new definition none.

        Args:
            declaration: Its definitions are as for ``put_definitions``.

        Returns:
            What it came to.

        Raises:
            ConfigurationError: ``check_owners`` refuses it, or an id is there twice.
                Nothing has changed.
            ConflictError: As for ``put_definitions``. Nothing has changed.
        """

    @abstractmethod
    def get_definition(self, definition_id: UUID) -> TaskDefinition:
        """Read one definition.

        Raises:
            TaskDefinitionNotFoundError: There is none with this id.
        """

    @abstractmethod
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
        state: DefinitionState | None = None,
        soonest_first: bool = False,
        after: Position | None = None,
        limit: int = 100,
    ) -> Sequence[TaskDefinition]:
        """Read a page of the definitions that meet every condition given.

        Args:
            ids: Their id is among these.
            metadata: Their metadata contains this: each key with a value that contains
                the one given; an array contains those whose items it all contains.
            name: They have this name.
            queue: They have this queue.
            owner: They are in the declared set of this owner.
            queues: Their queue is among these.
            owners: They are in the declared set of one of these owners.
            state: They are in this state.
            soonest_first: In the order of ``(next_fire_time, id)``, those that have no
                ``next_fire_time`` at the end.
            after: They come after this: where the page before ends.
            limit: Most definitions to return; at least 1.

        Returns:
            The definitions in the order of their ids, unless told otherwise; empty if
            there are no more.
        """

    @abstractmethod
    def delete_definitions(self, ids: Collection[UUID]) -> Mapping[UUID, Set[UUID]]:
        """Delete definitions, at once and with all that is not running.

        Unstarted instances are removed. Running ones end as cancelled at once, so that
        their node finds the claim lost. What has ended stays until ``delete_finished``
        takes it, readable by its own id but listed under no definition: if the id is
        scheduled again, that is a new definition. Ids that are remembered are
        forgotten, with their revisions.

        Returns:
            By the id of each that existed, and was not only remembered: the ids of its
            instances that were running.
        """

    @abstractmethod
    def list_tombstones(self, ids: Collection[UUID]) -> Sequence[Tombstone]:
        """Read what is remembered of these ids, in no order."""

    @abstractmethod
    def pause_definitions(
        self, ids: Collection[UUID], *, note: str | None = None
    ) -> Sequence[TaskDefinition]:
        """Pause definitions, so that nothing of theirs starts.

        What is still to come is taken back: instances that have not started and never
        ran are removed if their ``fire_time`` is after the store's time, and after that
        of any instance that has started or ended; ``next_fire_time`` goes back to the
        earliest of theirs, and a definition that gets one back is not completed any
        more. So nothing is fired twice, however soon what has ended is deleted, and in
        whichever order a jitter lets fire times run.

        All other instances that are not running are frozen: pending, but not claimable,
        and without a slot if they never ran; so are those that wait for a retry, or are
        given back or fail meanwhile. Running ones go on; if their claim lapses, nobody
        takes it over until the definition is resumed. The revision
        rises by one, and ``paused_at`` is the store's time. A definition that is paused
        already only takes the note: since when it is stays.

        Args:
            ids: The definitions.
            note: Why, for a person to read.

        Returns:
            Those that exist, as now stored; in no order.
        """

    @abstractmethod
    def resume_definitions(self, ids: Collection[UUID]) -> Sequence[TaskDefinition]:
        """End a pause: what was frozen is claimable, the revision rises.

        Its ``note`` and ``paused_at`` are None again, and ``last_pause`` has them,
        unless its trigger cannot be read. A definition that is not paused stays as it
        is. A claim of a paused one that has lapsed, and that nobody might take over,
        lapses now.

        Returns:
            Those that exist, as now stored; in no order.
        """

    @abstractmethod
    def due_definitions(
        self, *, ahead: timedelta, after: TaskDefinition | None = None, limit: int
    ) -> Sequence[TaskDefinition]:
        """Read a page of the definitions that fire soon.

        A definition is due if it is not paused and its ``next_fire_time`` is within
        ``ahead`` of the store's time.

        Args:
            ahead: How far past the store's time to look; zero or more.
            after: Skip this one and all before it: the last of the page before.
            limit: Most definitions to return; at least 1.

        Returns:
            The definitions in the order of ``(next_fire_time, id)``. One that this
            process cannot read has an ``UnknownTrigger`` that says why.
        """

    @abstractmethod
    def fire_definitions(self, firings: Sequence[Firing]) -> Answer[Set[UUID]]:
        """Create the instances of each firing and move its definition on, in one step.

        A firing wins if the definition exists, is not paused, and has the
        ``next_fire_time`` and ``revision`` that were read; and, if its trigger waits,
        no open instance with a ``fire_time``. The others change nothing. A fire time
        that has its instance already gets no second one. One without fire times only
        moves its definition, to an earlier time as well. The revision stays.

        An instance is pending, in the definition's queue, with ``execute_at`` and
        ``due_at`` as the firing says, at its fire time if that says nothing. Skipped
        ones become one instance with the outcome *skipped*, whose ``execute_at`` is
        their first; it has no ``fire_time``, and takes none. A definition without a
        ``next_fire_time`` is completed unless its trigger waits.

        Args:
            firings: At most one for each definition.

        Returns:
            The ids of the definitions whose firing won; of those that are busy it may
            win yet.
        """
