"""The store interface: what the loops need of whatever keeps the rows.

A store moves rows and keeps the promises about them; policy lives above it. Every
method is one transaction. Losing a race is an answer, an absence from what comes back,
and never an exception.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.checks import check_type
from go_scheduler.clock import ZERO, Clock
from go_scheduler.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence, Set
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.json import JSON
    from go_scheduler.models import (
        Cancelled,
        DefinitionState,
        State,
        TaskDefinition,
        TaskInstance,
    )
    from go_scheduler.stores.messages import (
        Answer,
        Claim,
        Claimant,
        Firing,
        NodeContact,
        Position,
        Release,
        Renewal,
        Retention,
        RunOutcome,
        Tombstone,
    )

CONTACTS_KEPT = timedelta(hours=1)
"""How long ago a node may have been seen whose contact is still kept."""


class Store(ABC):
    """Where definitions and instances are kept.

    All methods may be called by any number of threads, and, if the store is shared, by
    any number of nodes at once. ``StoreSuite`` in ``go_scheduler.testing`` tests every
    sentence written here.

    **Fire times** are unique: a live definition has at most one instance, a record of
    skipped ones included, per fire time.

    **Claims** are judged by the store's time alone. A claim is *current* if the
    instance is claimed, has not ended, and has the claim's ``attempt``. A claim that
    has lapsed stays current until another claim replaces it. ``start_instances``,
    ``renew_claims``, ``finish_instances`` and ``release_instances`` change nothing for
    a claim that is not current, but for a success: see ``finish_instances``.

    **Errors**: every method raises ``StoreUnavailableError`` if trying again may help
    and ``StoreError`` if not. After either nothing has changed, unless the connection
    was lost while the change was being confirmed; all methods may safely be repeated.

    Args:
        clock: Used wherever the store's own time would be, for tests; None: its own
            time.

    Attributes:
        settling: How long the scans, ``due_definitions``, ``claim_instances`` and
            ``delete_finished``, may leave out what has been committed; zero: not at
            all.
        most_remembered: Of more ids than these ``delete_finished`` forgets those that
            ended first, a hundredth too late at most.
    """

    settling: timedelta = ZERO
    most_remembered: int = 1_000_000

    def __init__(self, clock: Clock | None = None) -> None:
        if clock is not None:
            check_type("clock", clock, Clock)
        self.clock = clock

    @abstractmethod
    def initialize(self) -> None:
        """Make the store ready for use; harmless when it already is."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections; harmless when they already are."""

    def connect(self) -> None:  # noqa: B027 - most stores have nothing to open
        """Open the connections that the loops will need; harmless when they are open.

        A node calls it before its loops begin. Without it they are opened by what needs
        them first, which then waits.
        """

    @abstractmethod
    def now(self) -> datetime:
        """The time by which claims are judged, in UTC."""

    @abstractmethod
    def put_definitions(
        self, definitions: Sequence[TaskDefinition]
    ) -> Sequence[TaskDefinition]:
        """Insert each definition, or replace the one with its id.

        A new one is kept as it is, paused with its ``note`` if it says so, at revision
        1, or at a higher one than any deleted definition of its id had, so that none is
        taken for another. That may be forgotten by a ``delete_finished`` whose
        ``ended`` has passed since the delete, and no sooner. It is completed at
        once if its ``next_fire_time`` is None and its trigger does not wait.

        An id that was passed, and that ``delete_finished`` has left remembered, is no
        new one if the trigger is equal to the one remembered: nothing is stored, and
        the answer is the definition as given, with the ``revision`` and
        ``completed_at`` remembered and without a ``next_fire_time``. With another
        trigger it is a new one, at a higher revision, and no longer remembered.

        One that ``is_same`` as what is stored changes nothing, but that it is ``named``
        from then on if the one put is. Otherwise the revision rises by one, and what
        else happens depends on the trigger:

        * An equal trigger: the stored trigger stays, with its anchor, and so does
          ``next_fire_time``. The next start of each instance uses the new values.
        * Another trigger: its instances that have not started and never ran are
          removed, ``next_fire_time`` is as passed, and the definition is live again if
          it was completed. Instances that run or wait for a retry stay.

        Either way its open instances go to its queue, and those claimed and not started
        lose their claim if that is another one. ``paused`` and ``note`` stay as stored.

        Args:
            definitions: Each id once; anchored, and with the ``next_fire_time`` that a
                new trigger starts with. What else the store keeps is ignored, but for a
                ``revision`` that is not None, and of a new one ``paused`` and ``note``.

        Returns:
            The definitions as they are now stored, in the order given.

        Raises:
            ConflictError: A revision that was set is not the one stored or remembered.
                None was put.
            ConfigurationError: An id is there twice. None was put.
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
    def delete_definitions(self, ids: Collection[UUID]) -> Set[UUID]:
        """Delete definitions, at once and with all that is not running.

        Unstarted instances are removed. Running ones end as cancelled at once, so that
        their node finds the claim lost. What has ended stays until ``delete_finished``
        takes it, readable by its own id but listed under no definition: if the id is
        scheduled again, that is a new definition. Ids that are remembered are
        forgotten, with their revisions.

        Returns:
            The ids of those that existed, and were not only remembered.
        """

    @abstractmethod
    def list_tombstones(self, ids: Collection[UUID]) -> Sequence[Tombstone]:
        """Read what is remembered of these ids, in no order."""

    @abstractmethod
    def pause_definitions(
        self, ids: Collection[UUID], *, note: str | None = None
    ) -> Sequence[TaskDefinition]:
        """Pause definitions, so that nothing of theirs starts.

        Instances that have not started and never ran are removed, and
        ``next_fire_time`` goes back to the earliest fire time among them. Instances
        that wait for a retry, or are given back or fail meanwhile, are held: pending,
        but not claimable. Running ones go on; if their claim lapses, nobody takes it
        over until the definition is resumed. A definition that gets a
        ``next_fire_time`` back is not completed any more. The revision rises by one. A
        definition that is paused already only takes the note.

        Args:
            ids: The definitions.
            note: Why, for a person to read.

        Returns:
            Those that exist, as now stored; in no order.
        """

    @abstractmethod
    def resume_definitions(self, ids: Collection[UUID]) -> Sequence[TaskDefinition]:
        """End a pause: the note goes, what was held is claimable, the revision rises.

        A definition that is not paused stays as it is. A claim of a paused one that has
        lapsed, and that nobody might take over, lapses now.

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
        no open instance. The others change nothing. A fire time that has its instance
        already gets no second one. One without fire times only moves its definition, to
        an earlier time as well. The revision stays.

        An instance is pending, in the definition's queue, with ``execute_at`` and
        ``due_at`` at its fire time. Skipped ones become one instance with the outcome
        *skipped*, whose ``fire_time`` is their first. A definition without a
        ``next_fire_time`` is completed unless its trigger waits.

        Args:
            firings: At most one for each definition.

        Returns:
            The ids of the definitions whose firing won; of those that are busy it may
            win yet.
        """

    @abstractmethod
    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
    ) -> Sequence[TaskInstance]:
        """Hand due instances to one node, and to no other.

        An instance can be claimed if it has not ended, is not held, is in one of the
        claimant's queues, and either

        * nobody has claimed it and it is due within ``ahead`` of the store's time, or
        * ``lapsed`` is not None and its claim has lapsed, at least so long ago:
          ``expires_at`` and ``lapsed`` together are not after the store's time.

        Each gets ``claimed_by``, an ``attempt`` one higher, and a claim that holds for
        one lease past the later of the store's time and ``due_at``. One that is due
        within ``lead`` is also started, as ``start_instances`` does it. Selecting and
        marking is one atomic step: nodes calling at the same moment never receive the
        same instance.

        Args:
            claimant: The calling node.
            ahead: How far past the store's time to claim; zero or more.
            lead: How far past the store's time to start as well; zero or more.
            limit: Most instances to return; at least 1.
            lapsed: How long ago claims must have lapsed that are taken over, zero or
                more; None: none are.

        Returns:
            The claimed instances, lapsed claims first, then earliest ``due_at`` first;
            empty if none is due. Only those with ``started_at`` have been started. Of
            more than ``limit`` the store chooses, so that none waits for ever.
        """

    @abstractmethod
    def list_claimed(
        self, node: UUID, *, after: TaskInstance | None = None, limit: int = 100
    ) -> Sequence[TaskInstance]:
        """Read a page of what a node has claimed and has not ended.

        A node whose claim got no answer finds out by this what it has claimed. What is
        held may be left out.

        Args:
            node: The node.
            after: They come after this one: the last of the page before.
            limit: Most instances to return; at least 1.

        Returns:
            The instances in the order of their ids; empty if there are no more.
        """

    @abstractmethod
    def start_instances(
        self, claimant: Claimant, claims: Sequence[Claim]
    ) -> Answer[Sequence[TaskInstance]]:
        """Record that handlers are about to be called.

        Each instance whose claim is current and that has not started has one more in
        ``runs``, ``started_at`` at the later of the store's time and ``due_at``, and a
        claim that holds past ``started_at`` for one lease, or for the definition's
        ``expire_after`` if that is shorter. One that has started under this claim is
        answered alike and changed in nothing.

        Returns:
            The instances whose claim is current, with their definition as it is now, in
            no order. Those lost have been cancelled, edited, paused, deleted, claimed
            anew, or completed by an earlier run.
        """

    @abstractmethod
    def renew_claims(self, renewals: Sequence[Renewal]) -> Answer[Mapping[UUID, bool]]:
        """Let claims hold for their ``lease`` from the store's time on.

        Args:
            renewals: At most one for each instance.

        Returns:
            For each instance whose claim is current: whether its run is asked to stop.
        """

    @abstractmethod
    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        """Record what became of runs.

        An instance with an outcome ends at the store's time and keeps ``claimed_by``
        and ``attempt``; ``ended_attempt`` is the claim's. One without is pending again,
        due ``retry_in`` from the store's time, with ``started_at`` empty; it is held if
        its definition is paused. An ``error`` that is given is kept. One that ends
        keeps the ``started_at`` given: if there is none its handler was not called, and
        a run recorded as started is taken off ``runs``. A run that hung adds one to
        ``hangs``; one that did not, and has no outcome, sets it to zero.

        **The first success wins**: the outcome *completed* is also taken from a claim
        that was current once, if the instance has not ended or has *failed*. It
        ends then as above, and nobody may claim it; a run that was begun since finds
        its claim lost.

        If one that had not ended ends whose definition's trigger waits, and that
        definition has no ``next_fire_time`` and is not completed, it gets the one
        given; without one it is completed.

        Args:
            outcomes: At most one for each instance.

        Returns:
            The ids of the instances for which this was recorded.
        """

    @abstractmethod
    def release_instances(self, releases: Sequence[Release]) -> Answer[Set[UUID]]:
        """Give back what was claimed and not called.

        Each is pending again, due when it was or after ``delay``, whichever is later; a
        run that was recorded as started is taken off ``runs``. It is held if its
        definition is paused.

        Args:
            releases: At most one for each instance.

        Returns:
            The ids of the instances whose claim was current.
        """

    @abstractmethod
    def cancel_instances(
        self, cancellations: Mapping[UUID, datetime | None]
    ) -> Mapping[UUID, Cancelled]:
        """Cancel instances that have not started; ask the runs of the others to stop.

        Args:
            cancellations: The ids of the instances, and for each the ``next_fire_time``
                of its definition if its trigger waits, used as by ``finish_instances``.

        Returns:
            What it came to, for each that exists and has not ended.
        """

    @abstractmethod
    def delete_finished(self, retention: Retention, *, limit: int) -> int:
        """Delete instances that ended long ago, then completed definitions without any.

        A definition goes once it has been completed for so long and has no instance
        left; if its id was passed, that is remembered from then on. So are its trigger
        and revision, and when it was completed. What is remembered of ids that were
        completed long ago, and the contacts of nodes that were last seen more than an
        hour ago, go as well, uncounted.

        Args:
            retention: How long ago that must have been.
            limit: Most rows to delete, definitions and instances together; at least 1.
                At most so many ids are forgotten.

        Returns:
            How many rows were deleted; ``limit`` means that there may be more.
        """

    @abstractmethod
    def note_contact(
        self, node: UUID, *, unbroken: timedelta, queues: Sequence[str]
    ) -> None:
        """Record that a node has been in contact with the store up to now.

        Args:
            node: The node; what was recorded of it before is replaced.
            unbroken: For how long without a break; zero or more.
            queues: Those that it serves.
        """

    @abstractmethod
    def list_contacts(self, *, within: timedelta) -> Sequence[NodeContact]:
        """Read when nodes were in contact with the store.

        Args:
            within: Only of nodes last seen at most so long ago; at most an hour.

        Returns:
            One for each node, living or dead, in no order.
        """

    @abstractmethod
    def list_due_queues(self, *, apart_from: Collection[str]) -> Collection[str]:
        """Name queues in which something is due that nobody has claimed.

        What is held is not due. Every node asks a few times a minute, to find out which
        queues nobody serves.

        Args:
            apart_from: Queues that are left out, however much is due there.

        Returns:
            In no order, each once; of several at least one.
        """

    @abstractmethod
    def get_instance(self, instance_id: UUID) -> TaskInstance:
        """Read one instance.

        Raises:
            TaskInstanceNotFoundError: There is none with this id.
        """

    @abstractmethod
    def list_instances(
        self,
        *,
        definition_id: UUID | None = None,
        name: str | None = None,
        state: State | None = None,
        since: datetime | None = None,
        newest_first: bool = False,
        after: Position | None = None,
        limit: int = 100,
    ) -> Sequence[TaskInstance]:
        """Read a page of the instances that meet every condition given.

        Args:
            definition_id: They belong to this definition; None: to any, or to one that
                has been deleted.
            name: Their definition has this name.
            state: They are in this state.
            since: Their ``execute_at`` is not before this.
            newest_first: In the order of ``(execute_at, id)`` backwards.
            after: They come after this: where the page before ends.
            limit: Most instances to return; at least 1.

        Returns:
            The instances in the order of ``(execute_at, id)``, unless told otherwise;
            empty if there are no more.
        """

    @abstractmethod
    def counts(self) -> Mapping[State, int]:
        """How many instances are in each state; every state has a number.

        What deleted definitions have left is counted as well.
        """


class TransactionalStore(Store):
    """A store whose users may make it part of a database transaction of their own.

    What is done in the transaction is visible to others when it commits, and never if
    it does not. Losing a race with somebody else raises ``StoreUnavailableError``: the
    user's transaction is to be repeated.
    """

    @abstractmethod
    def put_definitions_in(
        self,
        connection: object,
        definitions: Sequence[TaskDefinition],
        *,
        committed: Callable[[], None] | None = None,
    ) -> Sequence[TaskDefinition]:
        """Do what ``put_definitions`` does, within a transaction of the user's.

        Args:
            connection: The user's connection or session, in a transaction.
            definitions: As for ``put_definitions``.
            committed: Called once the transaction has committed, if the store learns
                of that, and never if it does not commit.

        Raises:
            ConfigurationError: It is no connection to a database of this store's kind.
        """

    @abstractmethod
    def finish_instance_in(self, connection: object, outcome: RunOutcome) -> bool:
        """Record the end of one run within a transaction of the user's.

        Args:
            connection: As for ``put_definitions_in``.
            outcome: Its ``outcome`` is *completed*: the first success of any attempt
                counts, as for ``finish_instances``.

        Returns:
            Whether it was the first.

        Raises:
            ConfigurationError: It is no connection to a database of this store's kind.
        """


def transactional(store: Store) -> TransactionalStore:
    """The store, if it can take part in a transaction of the user's.

    Raises:
        ConfigurationError: It cannot.
    """
    if not isinstance(store, TransactionalStore):
        raise ConfigurationError(
            f"{type(store).__name__} takes part in no transaction of a connection; the"
            " SQL stores do"
        )
    return store
