"""The store interface: what the loops need of whatever keeps the rows.

A store moves rows and keeps the promises about them; policy lives above it. Every
method is one transaction. Losing a race is an answer, an absence from what comes back,
and never an exception.

A store may leave the methods of ``ReadStore`` that are not abstract as they stand here:
they say the same of any store, and take as long as there is much in it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from go_scheduler.checks import check_type
from go_scheduler.clock import ZERO, Clock
from go_scheduler.errors import (
    ConfigurationError,
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
)
from go_scheduler.models import State, TaskInstance
from go_scheduler.models.counts import Backlog, Counted
from go_scheduler.stores.filters import (
    ANY,
    ANY_DEFINITION,
    CLAIMABLE,
    DefinitionFilter,
    DefinitionOrder,
    Filter,
    Order,
)
from go_scheduler.stores.rules import Declaration, Declared, slot_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
    from uuid import UUID

    from go_scheduler.models import Cancelled, QueueStats, TaskDefinition, TaskRun
    from go_scheduler.policies import Overlap
    from go_scheduler.stores.filters import Page
    from go_scheduler.stores.findings import Finding
    from go_scheduler.stores.hints import Hints
    from go_scheduler.stores.messages import (
        Addition,
        Announcement,
        Answer,
        Claim,
        Claimant,
        Fired,
        Firing,
        NodeContact,
        Own,
        Position,
        Put,
        Release,
        Renewal,
        Retention,
        Reviewed,
        RunOutcome,
        Tombstone,
    )


class ByHandStore(ABC):
    """Makes instances that no schedule does."""

    @abstractmethod
    def add_instances(
        self,
        definition_id: UUID,
        additions: Sequence[Addition],
        *,
        claimant: Claimant | None = None,
    ) -> Sequence[TaskInstance]:
        """Make instances of a definition that are no fire times'.

        Each is pending, in the definition's queue, without a ``fire_time``, and with
        ``execute_at`` and ``due_at`` at the time given, which may have passed. It is
        frozen if the definition is paused, and counts as soon as that is resumed.
        Neither a pause nor an edit removes it, and ``next_fire_time`` stays; a trigger
        that waits does not wait for its end.

        Where an addition has ``overrides``, they are kept, and take the place of its
        definition's own values in all that is done with the instance: in which queue
        and class it is claimed, when its claim lapses, by which lock it excludes
        others, and in the ``definition`` of whatever comes back. An edit of the
        definition changes the other values alone.

        If an instance has its ``id`` already, or the definition has an instance with
        its ``key``, ended or not, nothing is made, and that is the answer.

        If more would be ``unstarted`` than its ``max_queue``, and its
        ``when_full`` is ``"drop"``, those of the additions for which there is no room,
        the last ones, are skipped as they are made: completed at the store's time, and
        ``skipped`` for the reason ``FULL % max_queue``. ``FULL`` is in
        ``go_scheduler.stores.rules``.

        With a ``claimant``, what is made and due by the store's time is claimed and
        started in the same step, as by ``claim_instances``, if it is not frozen, has to
        have no slot, and ``is_run_by`` the claimant: ``may_start`` of
        ``go_scheduler.stores.base`` says so. A store may start none of it.

        Args:
            definition_id: The definition, completed or not.
            additions: What to make, each by its own ``id``. With a claimant none has
                ``overrides``.
            claimant: The node that is to have what is due; None: nothing is started.

        Returns:
            The instances in the order given; those that were started have the claimant
            as ``claimed_by``, and one that was there already comes back as it is.

        Raises:
            TaskDefinitionNotFoundError: There is none with this id. Nothing was made.
            QueueFullError: More would wait than its ``max_queue``, and its
                ``when_full`` is ``"refuse"``. Nothing was made.
        """

    @abstractmethod
    def backfill_instances(
        self,
        definition: TaskDefinition,
        fire_times: Sequence[datetime],
        *,
        overlap: Overlap,
    ) -> Sequence[datetime]:
        """Make instances for fire times of a definition that have none.

        Each is pending, in the definition's queue, ``backfilled`` with the overlap, and
        due since its fire time. It is no more the schedule's than one that was added:
        frozen if the definition is paused, removed by neither a pause nor an edit, and
        not waited for by a trigger that waits; and ``next_fire_time`` stays.

        It excludes others by the overlap given, whatever that of its definition is, and
        by its definition's lock. With ``Overlap.BUFFER_ALL`` it waits, however many
        wait.

        A fire time whose instance was skipped, and not backfilled before, gets that one
        again: pending as if it were new, but with its ``execute_at``, which is also its
        ``due_at``. Where there is any other instance nothing is made, whoever makes it
        at the same moment.

        Args:
            definition: The definition as it was read, completed or not; but its
                ``trace_context`` is that of the instances. A store may leave it out.
            fire_times: Each once, none later than the store's time.
            overlap: By which they are judged when they are due.

        Returns:
            The fire times that were given an instance, in the order given.

        Raises:
            TaskDefinitionNotFoundError: It is gone. Nothing was made.
            ConflictError: It has been changed since it was read. Nothing was made.
        """


class DefinitionStore(ABC):
    """Puts, pauses and deletes definitions, and fires those that are due."""

    @abstractmethod
    def put_definitions(
        self,
        definitions: Sequence[TaskDefinition],
        *,
        firings: Sequence[Firing] = (),
        claimant: Claimant | None = None,
    ) -> Put:
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
          stay, and so do those without a ``fire_time``. Nothing fires twice, though its
          instance may be gone: ``rescheduled`` leaves out the first fire times that
          have passed and been fired; and the latest one that has begun ahead of its
          time gets no second instance. What is ``overdue`` goes back on purpose: both
          end with it.

        Either way its open instances go to its queue, and those claimed and not started
        lose their claim if that is another one. With another ``overlap`` or ``lock``,
        those that run in a slot keep it until they have ended. All others go by the new
        one at their next start: what waits for a retry lets go of its slot, and what is
        parked is claimable again. ``paused``, ``note``, ``paused_at`` and
        ``last_pause`` stay as stored.

        With a ``claimant``, a new one that has a firing fires in the same step, as by
        ``fire_definitions``, and its instance is claimed and started, as by
        ``claim_instances``. A store may fire and start none.

        Args:
            definitions: Each id once; anchored, and with the ``next_fire_time`` that a
                new trigger starts with, and whether it is ``overdue``. What else the
                store keeps is ignored, but for a ``revision`` that is not None, and of
                a new one ``paused`` and ``note``.
            firings: The first firings of some of them, used with a claimant. Each has
                one fire time, the ``next_fire_time`` of its definition, which is due;
                it skips none. Its definition is not paused, excludes nothing, and
                ``is_run_by`` the claimant.
            claimant: The node that is to have the instances; None: nothing fires.

        Returns:
            The definitions as they are now stored, and what was started.

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
        self,
        *,
        ahead: timedelta,
        after: TaskDefinition | None = None,
        limit: int,
        own: Own | None = None,
    ) -> Sequence[TaskDefinition]:
        """Read a page of the definitions that fire soon.

        A definition is due if it is not paused and its ``next_fire_time`` is within
        ``ahead`` of the store's time.

        Args:
            ahead: How far past the store's time to look; zero or more.
            after: Skip this one and all before it: the last of the page before.
            limit: Most definitions to return; at least 1.
            own: The shards of which ``ahead`` is meant, and how far to look in the
                others. A store whose ``shards`` are one is never passed it.

        Returns:
            The definitions in the order of ``(next_fire_time, id)``. One that this
            process cannot read has an ``UnknownTrigger`` that says why.
        """

    @abstractmethod
    def fire_definitions(
        self, firings: Sequence[Firing], *, claimant: Claimant | None = None
    ) -> Fired:
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

        With a ``claimant`` the instances that are made are claimed and started in the
        same step, as by ``claim_instances``. A store may start none of them.

        Args:
            firings: At most one for each definition. With a claimant each has one fire
                time that is due, and none that is skipped; its definition excludes
                nothing, ``is_run_by`` the claimant, and has a trigger that does not
                wait.
            claimant: The node that is to have the instances; None: nothing is started.

        Returns:
            The ids of the definitions whose firing won, and what was started; of those
            that are busy the firing may win yet.
        """


class InstanceStore(ABC):
    """Hands instances to nodes, and records what becomes of them."""

    @abstractmethod
    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
        deadline: datetime,
    ) -> Sequence[TaskInstance]:
        """Hand due instances to one node, and to no other.

        An instance can be claimed if it has not ended, is not frozen, is in one of the
        claimant's queues, and either

        * nobody has claimed it and it is due within ``ahead`` of the store's time, or
        * ``lapsed`` is not None and its claim has lapsed, at least so long ago:
          ``expires_at`` and ``lapsed`` together are not after the store's time.

        Each gets ``claimed_by``, an ``attempt`` one higher, and a claim that holds for
        one lease past the later of the store's time and ``due_at``. One that is due
        within ``lead`` is also started, as ``start_instances`` does it, unless it has
        to have a slot: that is for ``start_instances`` to find out. Selecting and
        marking is one atomic step: nodes calling at the same moment never receive the
        same instance. Of a run that had come to no end when its claim was taken over
        that is kept as *lost*, as by ``finish_instances``; with the stage in which it
        was on a bus, which the claim answers as ``silence``
        (``go_scheduler.stores.rules`` has the rule). What is claimed is on no bus.

        Args:
            claimant: The calling node.
            ahead: How far past the store's time to claim; zero or more.
            lead: How far past the store's time to start as well; zero or more.
            limit: Most instances to return; at least 1.
            lapsed: How long ago claims must have lapsed that are taken over, zero or
                more; None: none are.
            deadline: If the store's time is later than this, no claim is taken over. A
                call that was held up while the store was away must not take over what
                other nodes could not renew meanwhile.

        Returns:
            The claimed instances, lapsed claims first, then earliest ``due_at`` first;
            empty if none is due. Only those with ``started_at`` have been started. Of
            more than ``limit`` lapsed claims come first, and then those of a smaller
            ``priority``; but of eight calls at least one begins at the last class in
            which any is due, and none waits for ever. Many may be a ``ReadLater``.
        """

    @abstractmethod
    def list_claimed(
        self, node: UUID, *, after: TaskInstance | None = None, limit: int = 100
    ) -> Sequence[TaskInstance]:
        """Read a page of what a node has claimed and has not ended.

        A node whose claim got no answer finds out by this what it has claimed. What has
        been handed on under that claim is left out, and what is frozen may be.

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
        claim that holds past ``started_at`` for one lease, or for ``expire_after`` if
        that is shorter: that of its definition, or else the claimant's. One that has
        started under this claim is answered alike and changed in nothing.

        **Slots**: an instance whose definition has a ``lock``, or does not allow
        ``overlap``, has to have the slot of that name, which one instance has at a time
        (``go_scheduler.stores.rules`` has the names). It takes it with its first start,
        and has it until it ends or is removed: while it waits for a retry, too, and
        when its claim has lapsed. What is given back and has never been called lets go
        of it. Of several in one batch the one
        takes it whose turn it is: by priority, ``due_at`` and ``execute_at``. One whose
        slot another instance has is parked instead: pending, but not claimable, with
        neither a claim nor one more in ``runs``.

        Returns:
            The instances whose claim is current, with their definition as it is now, in
            no order, and those that were parked. Those lost have been cancelled,
            edited, paused, deleted, claimed anew, or completed by an earlier run.
        """

    @abstractmethod
    def review_parked(self, *, limit: int) -> Reviewed:
        """Go over what is parked, and let go on or end what can.

        The ``overlap`` of its definition decides on what is parked, due and not
        decided on yet, if its slot is taken; of one slot in the order of ``due_at``.
        How soon anybody calls this decides nothing: if the slot was taken by another
        instance of its definition when it was parked, and that has ended at its
        ``due_at`` or later, it is judged as if that still ran.
        ``stores.rules.fate_of`` has the rule: it waits, or ends as *skipped*, with
        itself and a reason as ``skipped``. What it replaces is cancelled as by
        ``cancel_instances``; but one whose definition's trigger waits is only asked to
        stop.

        Then, of each slot that no open instance has, the parked instance whose turn it
        is becomes claimable, also before it is due. It is left to the next call only if
        it is due, is judged as if that other one still ran, and was not decided on for
        want of ``limit``. Whoever has ended an instance with a slot calls this soon
        after, and every node now and then.

        Instances that are frozen are left alone. What another transaction has locked is
        left for later, and keeps nothing else from its turn: if there is more than
        ``limit``, the next call goes on behind. Where nothing is parked this costs one
        statement.

        Args:
            limit: Of how many slots and of how many instances at most; at least 1.

        Returns:
            What came of it.
        """

    @abstractmethod
    def renew_claims(self, renewals: Sequence[Renewal]) -> Answer[Mapping[UUID, bool]]:
        """Let claims hold for their ``lease`` from the store's time on.

        A run may be handed on with that. From then on nothing lets its claim lapse
        sooner than it would: neither this renewal nor a later one under that claim. A
        ``worker`` that is given with that is kept with the instance until it is pending
        or claimed again; so is a ``progress``.

        **A stage** says how far a run has come on a bus. *Published*: ``start_by`` is
        when its claim lapses. *Accepted*: the same, and ``accepted_at`` is the store's
        time, unless it is known already. *Started*: ``accepted_at`` likewise, there is
        no ``start_by``, and the run counts from now: that is its ``started_at``, if it
        had started. A stage sets how long the claim holds, to less as well. It never
        goes back: of one that would, only the ``lease`` counts, as of a run that is
        handed on. To accept again what has not begun lets it hold no longer than the
        first time. Who has accepted it has it: a ``worker`` of another name that says
        *accepted* or *started* has lost the claim. ``accepted_at`` and ``start_by`` go
        as ``worker`` does.

        Args:
            renewals: At most one for each instance.

        Returns:
            For each instance whose claim is current: whether its run is asked to stop.
        """

    @abstractmethod
    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        """Record what became of runs.

        An instance with an outcome ends at the store's time and keeps ``claimed_by``,
        ``expires_at`` and ``attempt``; ``ended_attempt`` is the claim's. One without is
        pending again, due ``retry_in`` from the store's time, with ``started_at``
        empty; it is frozen if its definition is paused. An ``error`` that is given is
        kept; with the outcome *skipped* it is the reason, which stands in ``skipped``.
        One that ends keeps the ``started_at`` given: if there is none its handler was
        not called, and a run recorded as started is taken off ``runs``. A run that hung
        adds one to ``hangs``; one that did not, and has no outcome, sets it to zero. A
        ``result`` is kept with the outcome *completed*.

        **The first success wins**: the outcome *completed* is also taken from a claim
        that was current once, if the instance has not ended or has *failed*. It
        ends then as above, and nobody may claim it; a run that was begun since finds
        its claim lost.

        If one that had not ended ends whose definition's trigger waits, and that
        definition has no ``next_fire_time`` and is not completed, it gets the one
        given; without one it is completed.

        **A success that need not be kept** deletes its instance in the same write, if
        the outcome ``may_delete`` and the claim is current. It stays, and is completed,
        if it was claimed before, or has an ``error``, a ``key`` or a slot: a later
        call may ask for it, and what is parked behind it is judged by when it ended. It
        also stays if its ``fire_time`` is after the store's time, so that a pause or an
        edit knows of it.

        **Of runs that were called and did not succeed** the end is kept in the same
        write, for ``list_runs``, of the last ``RUNS_KEPT`` of each instance, a number
        in ``go_scheduler.models``: *hung* if it says so, else *cancelled* if that is
        its outcome, else *failed*; with the ``worker`` that the instance had. They go
        with their instance.

        Args:
            outcomes: At most one for each instance.

        Returns:
            The ids of the instances for which this was recorded.
        """

    @abstractmethod
    def release_instances(self, releases: Sequence[Release]) -> Answer[Set[UUID]]:
        """Give back what was claimed and not called.

        Each is pending again, due when it was or after ``delay``, whichever is later; a
        run that was recorded as started is taken off ``runs``. One that is left with
        none lets go of its slot. It is frozen if its definition is paused.

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
    def reopen_instances(self, ids: Collection[UUID]) -> Set[UUID]:
        """Make instances run again that have failed.

        Each is pending, due at the store's time, which is its ``reopened_at``, and has
        no outcome and no end; its ``runs`` and ``hangs`` are zero. ``attempt``,
        ``execute_at``, ``error`` and what ``list_runs`` has stay. It is in its
        definition's queue, frozen if that is paused, and waits for its slot, whatever
        the ``overlap``. As it has an ``error``, its fire time is not served anew by an
        edit or a pause.

        Left out is what has not failed, what has no definition any more, and what would
        be the second open instance with a fire time of a definition whose trigger
        waits. Of several such the latest is reopened. The definition then has no
        ``next_fire_time`` and is not completed until that ends.

        Returns:
            The ids of the instances that run again.
        """


LOOKED_AT = 5_000
"""The ``scan_limit`` of lists that people look at."""
ENDED_LOOKED_AT = 1_000
"""The same of lists of what has ended, which go on behind them."""
KEYS_LOOKED_AT = 1_000
"""In so many definitions a key is looked for."""

_PAGE = 1_000


class ReadStore(ABC):
    """Reads definitions and instances.

    Two methods have to be written, ``select`` and ``select_definitions``. The others
    are made of them. A store that has an index for what they ask may do better.
    """

    @abstractmethod
    def now(self) -> datetime:
        """The store's time."""

    @abstractmethod
    def select(
        self,
        where: Filter = ANY,
        *,
        order: Order = Order.EXECUTION,
        descending: bool = False,
        after: Position | None = None,
        limit: int = 100,
        scan_limit: int | None = None,
    ) -> Page[TaskInstance]:
        """Read a page of the instances that meet a filter.

        Instances whose definition has been deleted are among them, unless the filter
        names a definition. With ``ids`` they are read as they are at this moment. Other
        reads may be a few seconds old.

        Args:
            where: What they have to meet.
            order: Their order. Those that do not have its time are left out.
            descending: Whether the order is backwards.
            after: They come after this: the ``next`` of the page before. It may have
                gone since.
            limit: Most instances to return; at least 1.
            scan_limit: So many rows are looked at, about, so that the read takes no
                longer where there are many. It may then leave out some that are hard
                to find, and return fewer than there are, with a ``next``. None: all
                are looked at that have to be. A store may always do so.

        Returns:
            The page. Its ``next`` is None if there are no more.
        """

    @abstractmethod
    def select_definitions(
        self,
        where: DefinitionFilter = ANY_DEFINITION,
        *,
        order: DefinitionOrder = DefinitionOrder.ID,
        after: Position | None = None,
        limit: int = 100,
        scan_limit: int | None = None,
    ) -> Page[TaskDefinition]:
        """Read a page of the definitions that meet a filter.

        With ``ids`` they are read as they are at this moment. Other reads may be a few
        seconds old.

        Args:
            where: What they have to meet.
            order: Their order.
            after: They come after this: the ``next`` of the page before. It may have
                gone since.
            limit: Most definitions to return; at least 1.
            scan_limit: As for ``select``.

        Returns:
            The page. Its ``next`` is None if there are no more.
        """

    def count(
        self, filters: Sequence[Filter], *, most: int | None = None
    ) -> Sequence[Mapping[State, Counted]]:
        """How many instances meet each of some filters, by their state.

        Args:
            filters: Some hundred at most.
            most: So many are counted of each state. A state that has more says
                ``more``. So may one whose instances are among more than so many
                others, with fewer counted than there are. None: all are counted.

        Returns:
            For each filter the numbers of all states.
        """
        return [self._count(each, most) for each in filters]

    def _count(self, where: Filter, most: int | None) -> Mapping[State, Counted]:
        if most is None:
            found = Counter(each.state for each in self._walk(where))
            return {state: Counted(count=found[state]) for state in State}
        if where.definition_id is not None:
            order = Order.EXECUTION if where.fired_since is None else Order.FIRE_TIME
            page = self.select(where, order=order, limit=most + 1)
            found = Counter(each.state for each in page)
            more = len(page) > most
            return {
                state: Counted(count=min(found[state], most), more=more)
                for state in State
            }
        # Of some queues or owners, so many of all are looked at.
        scan_limit = None if where.conditions <= {"states"} else most + 1
        counts = dict.fromkeys(State, Counted(count=0))
        for state in State if where.states is None else where.states:
            page = self.select(
                replace(where, states=(state,)),
                descending=True,
                limit=most + 1,
                scan_limit=scan_limit,
            )
            more = len(page) > most or page.next is not None
            counts[state] = Counted(count=min(len(page), most), more=more)
        return counts

    def _walk(
        self, where: Filter, order: Order = Order.EXECUTION
    ) -> Iterator[TaskInstance]:
        """All instances that meet a filter, a page at a time."""
        page = self.select(where, order=order, limit=_PAGE)
        yield from page
        while page.next is not None:
            page = self.select(where, order=order, after=page.next, limit=_PAGE)
            yield from page

    def list_backlog(
        self, most: int, *, queues: Collection[str] | None = None
    ) -> Sequence[Backlog]:
        """What is due and has not been claimed, by queue.

        What is frozen or parked is not due.

        Args:
            most: So many are counted of a queue.
            queues: Of these alone; None: of all.

        Returns:
            At most a hundred queues in which anything is due, by their names.
        """
        now = self.now()
        due: dict[str, list[datetime]] = {}
        for each in self._walk(replace(CLAIMABLE, queues=queues), Order.DUE):
            if each.due_at > now:
                break
            due.setdefault(each.definition.queue, []).append(each.due_at)
        return [
            Backlog(queue=queue, due=Counted.up_to(most, len(times)), oldest=min(times))
            for queue, times in sorted(due.items())[:100]
        ]

    def get_instance(self, instance_id: UUID) -> TaskInstance:
        """Read one instance.

        Raises:
            TaskInstanceNotFoundError: There is none with this id.
        """
        for found in self.select(Filter(ids=(instance_id,)), limit=1):
            return found
        raise TaskInstanceNotFoundError(instance_id)

    def get_definition(self, definition_id: UUID) -> TaskDefinition:
        """Read one definition.

        Raises:
            TaskDefinitionNotFoundError: There is none with this id.
        """
        where = DefinitionFilter(ids=(definition_id,))
        for found in self.select_definitions(where, limit=1):
            return found
        raise TaskDefinitionNotFoundError(definition_id)

    @abstractmethod
    def slot_holder(self, slot: str) -> TaskInstance | None:
        """Read which instance has a slot.

        Args:
            slot: Its name, of ``go_scheduler.stores.rules.slot_of``.

        Returns:
            The instance, which is open; None: no instance has it.
        """

    @abstractmethod
    def list_runs(self, instance_id: UUID) -> Sequence[TaskRun]:
        """Read what is kept of the runs of an instance.

        Returns:
            The runs, earliest attempt first; empty if there are none, or is no such
            instance.
        """


class NodeStore(ABC):
    """Records what nodes tell of themselves, and finds queues that none serves.

    It also keeps what all of them are to agree on.
    """

    @abstractmethod
    def note_contact(self, announced: Announcement, *, unbroken: timedelta) -> None:
        """Record that a node has been in contact with the store up to now.

        Args:
            announced: What it tells of itself; what was recorded of it before is
                replaced.
            unbroken: For how long without a break; zero or more.
        """

    @abstractmethod
    def list_contacts(self, *, within: timedelta) -> Sequence[NodeContact]:
        """Read when nodes were in contact with the store.

        Args:
            within: Only of nodes last seen at most so long ago; at most an hour.

        Returns:
            One for each node, living or dead, in no order.
        """

    # A store may keep nothing.
    def note_stats(  # noqa: B027
        self, node: UUID, stats: Sequence[QueueStats]
    ) -> None:
        """Keep what a node has counted, at most once a minute.

        As it stands here nothing is kept, which a store may leave so.

        Args:
            node: The node.
            stats: One for each minute and queue. It replaces what the node has had
                kept for the same minute and queue.
        """

    def list_stats(self, *, since: datetime, until: datetime) -> Sequence[QueueStats]:
        """Read what was counted.

        Args:
            since: Only minutes that begin no earlier.
            until: Only minutes that begin before this.

        Returns:
            One for each minute, queue and node, in the order of minutes, and then by
            queue in any order; empty if the store keeps none.
        """
        return ()

    @abstractmethod
    def list_due_queues(self, *, apart_from: Collection[str]) -> Collection[str]:
        """Name queues in which something is due that nobody has claimed.

        What is frozen is not due. Every node asks a few times a minute, to find out
        which queues nobody serves.

        Args:
            apart_from: Queues that are left out, however much is due there.

        Returns:
            In no order, each once; of several at least one.
        """

    @abstractmethod
    def keep_setting(self, name: str, value: str) -> str:
        """Agree on a setting with all who use the store: the first to ask has set it.

        Args:
            name: Which setting.
            value: What it is to be, unless it has been set.

        Returns:
            What is kept: whoever asks for this name gets the same, from now on.
        """


def count_unstarted(store: ReadStore, definition_id: UUID, *, most: int) -> int:
    """How many instances of a definition have not begun, counted up to ``most``."""
    where = Filter(definition_id=definition_id, unstarted=True)
    [counts] = store.count([where], most=most)
    return min(most, sum(each.count for each in counts.values()))


def may_start(instance: TaskInstance, claimant: Claimant) -> bool:
    """Whether a node may start an instance that has just been made and is due."""
    definition = instance.definition
    return (
        instance.state is State.PENDING
        and instance.attempt == 0
        and not definition.paused
        and slot_of(definition, fired=False) is None
        and is_run_by(definition, claimant)
    )


def is_run_by(definition: TaskDefinition, claimant: Claimant) -> bool:
    """Whether a node serves the queue of a definition, and can run its name."""
    names = claimant.names
    return definition.queue in claimant.queues and (
        names is None or definition.name in names
    )


class JoinedStore(Protocol):
    """A store within a transaction; each method does what that of ``Store`` does.

    A whole ``Store`` is one, too, whose methods are transactions of their own.
    """

    def put_definitions(self, definitions: Sequence[TaskDefinition]) -> Put:
        """Insert each definition, or replace the one with its id."""

    def declare_definitions(self, declaration: Declaration) -> Declared:
        """Let an owner have exactly the definitions of a declaration."""

    def select_definitions(
        self,
        where: DefinitionFilter = ANY_DEFINITION,
        *,
        order: DefinitionOrder = DefinitionOrder.ID,
        after: Position | None = None,
        limit: int = 100,
        scan_limit: int | None = None,
    ) -> Page[TaskDefinition]:
        """Read a page of the definitions that meet a filter."""

    def delete_definitions(self, ids: Collection[UUID]) -> Mapping[UUID, Set[UUID]]:
        """Delete definitions, at once and with all that is not running."""

    def pause_definitions(
        self, ids: Collection[UUID], *, note: str | None = None
    ) -> Sequence[TaskDefinition]:
        """Pause definitions, so that nothing of theirs starts."""

    def resume_definitions(self, ids: Collection[UUID]) -> Sequence[TaskDefinition]:
        """End a pause."""

    def add_instances(
        self, definition_id: UUID, additions: Sequence[Addition]
    ) -> Sequence[TaskInstance]:
        """Make instances of a definition that are no fire times'."""

    def backfill_instances(
        self,
        definition: TaskDefinition,
        fire_times: Sequence[datetime],
        *,
        overlap: Overlap,
    ) -> Sequence[datetime]:
        """Make instances for fire times of a definition that have none."""

    def select(
        self,
        where: Filter = ANY,
        *,
        order: Order = Order.EXECUTION,
        descending: bool = False,
        after: Position | None = None,
        limit: int = 100,
        scan_limit: int | None = None,
    ) -> Page[TaskInstance]:
        """Read a page of the instances that meet a filter."""

    def cancel_instances(
        self, cancellations: Mapping[UUID, datetime | None]
    ) -> Mapping[UUID, Cancelled]:
        """Cancel what has not started; ask what runs to stop."""


CONTACTS_KEPT = timedelta(hours=1)
"""How long ago a node may have been seen whose contact is still kept."""

STATS_KEPT = timedelta(days=2)
"""How long ago a minute may have begun whose counts are still kept."""


class Store(NodeStore, ByHandStore, InstanceStore, DefinitionStore, ReadStore):
    """Where definitions and instances are kept.

    All methods may be called by any number of threads, and, if the store is shared, by
    any number of nodes at once. ``StoreSuite`` in ``go_scheduler.testing`` tests most
    of what these docstrings say, and ``StoreMachine`` more of it: a store is done when
    it passes both.

    **Fire times** are unique: a live definition has at most one instance per fire time.
    A record of skipped ones has none of its own.

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
        shards: Over how many parts definitions and instances are spread, so that nodes
            share the work. Each node reads its own parts further ahead than the others;
            what is due it reads everywhere.
        most_remembered: Of more ids than these ``delete_finished`` forgets those that
            ended first, a hundredth too late at most.
    """

    settling: timedelta = ZERO
    shards: int = 1
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

    def connect(self) -> None:
        """Open the connections that the loops will need; harmless when they are open.

        A node calls it before its loops begin. Without it they are opened by what needs
        them first, which then waits.
        """

    def hints(self) -> Hints | None:
        """What tells a node of what other processes put in; None: nothing does.

        A node that runs handlers calls it once and closes what it gets. As the loops
        look by themselves, a store need have none.
        """
        return None

    def examine(self) -> Sequence[Finding]:
        """What is wrong with the database itself, such as its schema.

        It writes nothing, needs no ``initialize``, and answers within seconds: what
        cannot be read, or takes too long, is a finding as well. A store of which there
        is nothing to be said answers nothing.

        Returns:
            What was seen, in the order in which it was asked.

        Raises:
            StoreUnavailableError: The database cannot be reached.
        """
        return ()

    @abstractmethod
    def now(self) -> datetime:
        """The time by which claims are judged, in UTC."""

    def now_between(self) -> tuple[datetime, datetime]:
        """Two instants between which this time is; it need not be asked for anew."""
        now = self.now()
        return now, now

    @abstractmethod
    def delete_finished(self, retention: Retention, *, limit: int) -> int:
        """Delete instances that ended long ago, then completed definitions without any.

        An instance whose ``fire_time`` is after the store's time stays until then.
        A definition goes once it has been completed for so long and has no instance
        left; if its id was passed, that is remembered from then on. So are its trigger
        and revision, and when it was completed. What is remembered of ids that were
        completed long ago, the contacts of nodes that were last seen more than an hour
        ago, and the counts of minutes that began more than two days ago, go as well,
        uncounted.

        Args:
            retention: How long ago that must have been.
            limit: Most rows to delete, definitions and instances together; at least 1.
                At most so many ids are forgotten.

        Returns:
            How many rows were deleted. If they are many of ``limit``, there may be
            more: rows that somebody else has locked are left out.
        """


class TransactionalStore(Store):
    """A store whose users may make it part of a database transaction of their own.

    What is done in the transaction is visible to others when it commits, and never if
    it does not. Losing a race with somebody else raises ``StoreUnavailableError``: the
    user's transaction is to be repeated.
    """

    @abstractmethod
    def join(
        self, connection: object, *, committed: Callable[[], None] | None = None
    ) -> JoinedStore:
        """Take part in a transaction of the user's.

        Args:
            connection: The user's connection or session, in a transaction.
            committed: Called once the transaction has committed, if the store learns
                of that, and never if it does not commit.

        Returns:
            What does there what the methods of the same names do; none of them commits.

        Raises:
            ConfigurationError: It is no connection to a database of this store's kind.
        """

    @abstractmethod
    def finish_instance_in(self, connection: object, outcome: RunOutcome) -> bool:
        """Record the end of one run within a transaction of the user's.

        Args:
            connection: As for ``join``.
            outcome: Its ``outcome`` is *completed*: the first success of any attempt
                counts, as for ``finish_instances``. Its instance is never deleted.

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
