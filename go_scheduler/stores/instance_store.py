"""The part of the store interface that is about instances."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence, Set
    from datetime import datetime, timedelta
    from uuid import UUID

    from go_scheduler.models import Cancelled, State, TaskInstance, TaskRun
    from go_scheduler.stores.messages import (
        Answer,
        Claim,
        Claimant,
        Position,
        Release,
        Renewal,
        Reviewed,
        RunOutcome,
    )


class InstanceStore(ABC):
    """Hands instances to nodes, records what becomes of them, and lists them."""

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
        (``go_scheduler.stores.silences`` has the rule). What is claimed is on no bus.

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
            more than ``limit`` lapsed claims come first, and then those of a smaller
            ``priority``; but of eight calls at least one begins at the last class in
            which any is due, and none waits for ever.
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
        claim that holds past ``started_at`` for one lease, or for the definition's
        ``expire_after`` if that is shorter. One that has started under this claim is
        answered alike and changed in nothing.

        **Slots**: an instance whose definition has a ``lock``, or does not allow
        ``overlap``, has to have the slot of that name, which one instance has at a time
        (``go_scheduler.stores.slots`` has the names). It takes it with its first start,
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
        ``stores.slots.fate_of`` has the rule: it waits, or ends as *skipped*, with
        itself and a reason as ``skipped``. What it replaces is cancelled as by
        ``cancel_instances``; but one whose definition's trigger waits is only asked to
        stop.

        Then, of each slot that no instance has which is open, the parked instance whose
        turn it is becomes claimable, unless it is yet to be decided on. Whoever has
        ended an instance with a slot calls this soon after, and every node now and
        then.

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
        no ``start_by``, and the run counts from now: that is its ``started_at``. A
        stage sets how long the claim holds, to less as well. It never goes back: of one
        that would, only the ``lease`` counts, as of a run that is handed on. To accept
        again what has not begun lets it hold no longer than the first time. Who has
        accepted it has it: a ``worker`` of another name that says *accepted* or
        *started* has lost the claim. ``accepted_at`` and ``start_by`` go as ``worker``
        does.

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
        due ``retry_in`` from the store's time, with ``started_at`` empty; it is frozen
        if its definition is paused. An ``error`` that is given is kept; with the
        outcome *skipped* it is the reason, which stands in ``skipped``. One that ends
        keeps the ``started_at`` given: if there is none its handler was not called, and
        a run recorded as started is taken off ``runs``. A run that hung adds one to
        ``hangs``; one that did not, and has no outcome, sets it to zero. A ``result``
        is kept with the outcome *completed*.

        **The first success wins**: the outcome *completed* is also taken from a claim
        that was current once, if the instance has not ended or has *failed*. It
        ends then as above, and nobody may claim it; a run that was begun since finds
        its claim lost.

        If one that had not ended ends whose definition's trigger waits, and that
        definition has no ``next_fire_time`` and is not completed, it gets the one
        given; without one it is completed.

        **Of runs that were called and did not succeed** the end is kept in the same
        write, for ``list_runs``, of the last ``RUNS_KEPT`` of each instance: *hung* if
        it says so, else *cancelled* if that is its outcome, else *failed*; with the
        ``worker`` that the instance had. They go with their instance.

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

    @abstractmethod
    def get_instance(self, instance_id: UUID) -> TaskInstance:
        """Read one instance.

        Raises:
            TaskInstanceNotFoundError: There is none with this id.
        """

    @abstractmethod
    def slot_holder(self, slot: str) -> TaskInstance | None:
        """Read which instance has a slot.

        Args:
            slot: Its name, of ``go_scheduler.stores.slots.slot_of``.

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

    @abstractmethod
    def list_instances(
        self,
        *,
        definition_id: UUID | None = None,
        name: str | None = None,
        key: str | None = None,
        state: State | None = None,
        since: datetime | None = None,
        fired_since: datetime | None = None,
        fired_before: datetime | None = None,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        newest_first: bool = False,
        after: Position | None = None,
        limit: int = 100,
    ) -> Sequence[TaskInstance]:
        """Read a page of the instances that meet every condition given.

        Args:
            definition_id: They belong to this definition; None: to any, or to one that
                has been deleted.
            name: Their definition has this name.
            key: They have this ``key``, of those made by hand.
            state: They are in this state.
            since: Their ``execute_at`` is not before this.
            fired_since: They have a ``fire_time``, not before this.
            fired_before: They have a ``fire_time``, before this.
            queues: Their definition's queue is among these.
            owners: Their definition is in the declared set of one of these owners.
            newest_first: In the order of ``(execute_at, id)`` backwards.
            after: They come after this: where the page before ends.
            limit: Most instances to return; at least 1.

        Returns:
            The instances in the order of ``(execute_at, id)``, unless told otherwise;
            empty if there are no more.
        """

    @abstractmethod
    def counts(
        self,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
    ) -> Mapping[State, int]:
        """How many instances are in each state; every state has a number.

        What deleted definitions have left is counted as well.

        Args:
            queues: Their definition's queue is among these; None: any.
            owners: Their definition is in the declared set of one of these owners;
                None: of any, or in none.
        """
