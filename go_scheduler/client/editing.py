"""What users change: definitions and instances that are there, and runs elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from go_scheduler.argument_hints import write_instead
from go_scheduler.checks import (
    check_at_least,
    check_name,
    check_note,
    check_number,
    check_positive,
    check_type,
)
from go_scheduler.client.scheduling import next_after_end
from go_scheduler.client.store_access import StoreAccess, awaitable
from go_scheduler.client.views import Views, batches, conditions, only
from go_scheduler.clock import ZERO
from go_scheduler.errors import (
    ConfigurationError,
    TaskDefinitionNotFoundError,
    TaskInstanceNotFoundError,
    TaskInstanceStateError,
)
from go_scheduler.events import (
    Change,
    DefinitionDeleted,
    InstanceCancelRequested,
    InstanceFinished,
    InstanceReopened,
)
from go_scheduler.events.event import of_instance
from go_scheduler.models import (
    Cancelled,
    Deleted,
    Extension,
    Outcome,
    Stage,
    State,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.running.defaults import Defaults
from go_scheduler.running.remote_runs import (
    Extending,
    Failing,
    RemoteRuns,
    Success,
    progress_text,
    result_text,
)
from go_scheduler.running.withdrawing import Kind
from go_scheduler.stores.filters import ANY_DEFINITION, DefinitionFilter, Filter
from go_scheduler.stores.messages import Claim

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime, timedelta

    from go_scheduler.json import JSON


_REOPENED_AT_ONCE = 500
# Higher than any attempt, and low enough for every store to compare.
_MOST_ATTEMPTS = 10**18
_NOT_RUN = "it is not run where it was handed on to"


class Edits(Views):
    """Deletes, pauses and resumes definitions; cancels instances, or has them rerun."""

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
        write = self._write(connection)
        for batch in batches(write.store, which):
            found = write.store.delete_definitions(batch)
            withdrawn = write.then(self._withdraw, Kind.DELETED, found) or frozenset()
            for each, started in found.items():
                running[each] = len(started - withdrawn)
                self._events.tell(
                    DefinitionDeleted(definition_id=each, joined=write.joined)
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
        write = self._write(connection)
        paused: list[TaskDefinition] = []
        for batch in batches(write.store, which):
            found = write.store.pause_definitions(batch, note=note)
            write.then(self._withdraw, Kind.PAUSED, [each.id for each in found])
            self._tell_changed(Change.PAUSED, found, joined=write.joined)
            paused += found
        return paused

    def _resume(
        self, which: DefinitionFilter, connection: object
    ) -> Sequence[TaskDefinition]:
        write = self._write(connection)
        resumed: list[TaskDefinition] = []
        for batch in batches(write.store, which):
            found = write.store.resume_definitions(batch)
            self._tell_changed(Change.RESUMED, found, joined=write.joined)
            resumed += found
        write.then(self._look_at_all)
        return resumed

    def cancel(
        self, instance_id: UUID, *, connection: object = None
    ) -> Cancelled | None:
        """Cancel an instance that has not started, or ask its run to stop.

        A start is recorded some 20 ms before the instance is due; from then on its run
        is asked, by ``current_run().cancelled``, which it learns within a third of the
        lease. One that a scheduler of this process on this store has started and not
        called is cancelled.

        Args:
            instance_id: Which.
            connection: To make it part of a transaction of yours, as for ``schedule``.

        Returns:
            *cancelled*: it will not run; *requested*: it runs, or is about to; None: it
            had ended before.

        Raises:
            TaskInstanceNotFoundError: There is none with this id.
            StoreUnavailableError: With a ``connection``: somebody else is changing it
                at the same moment; repeat the transaction.
        """
        check_type("instance_id", instance_id, UUID)
        write = self._write(connection)
        found = write.store.select(Filter(ids=[instance_id]), limit=1)
        if not found:
            raise TaskInstanceNotFoundError(instance_id)
        [instance] = found
        next_fire_time = next_after_end(instance.definition, self._store.now())
        answered = write.store.cancel_instances({instance_id: next_fire_time})
        answer = answered.get(instance_id)
        if answer is Cancelled.CANCELLED:
            event = InstanceFinished(
                **of_instance(instance),
                outcome=Outcome.CANCELLED,
                started_at=None,
                took=None,
                error=None,
            )
            write.then(self._events.tell, event)
        elif answer is Cancelled.REQUESTED:
            if write.then(self._withdraw, Kind.CANCELLED, [instance_id]):
                # Its node records the end and tells the event.
                return Cancelled.CANCELLED
            ids, worker = of_instance(instance), instance.worker
            write.then(self._events.tell, InstanceCancelRequested(**ids, worker=worker))
        return answer

    acancel = awaitable(cancel)
    """Await what ``cancel`` does; see there."""

    def retry(self, instance_id: UUID) -> TaskInstance:
        """Run an instance again that has failed, as soon as a node can.

        It begins anew: all that its ``retry`` allows is before it, and however late it
        is, no ``drop_after`` holds for it. Its ``id`` and its
        fire time stay, and so does what ``list_runs`` has of it. It runs as its
        definition says now; one that is paused keeps it until it is resumed.

        Returns:
            The instance, pending.

        Raises:
            TaskInstanceNotFoundError: There is none with this id.
            TaskInstanceStateError: It has not failed; or its definition waits for the
                end of each run, and has another that has not ended.
            TaskDefinitionNotFoundError: Its definition has been deleted.
        """
        reopened = self._reopen([self.get_instance(instance_id)])
        instance = self.get_instance(instance_id)
        if reopened:
            return instance
        problem = "its definition waits for the end of another instance"
        if instance.state is not State.FAILED:
            problem = "only what has failed is run again"
        else:
            definition = self._ready().get_definition(instance.definition.id)
            if not definition.trigger.waits:
                # The instance belongs to an earlier definition with that id.
                raise TaskDefinitionNotFoundError(definition.id)
        raise TaskInstanceStateError(instance_id, instance.state.value, problem)

    aretry = awaitable(retry)
    """Await what ``retry`` does; see there."""

    @write_instead('scheduler.retry_failed(name="send")')
    def retry_failed(
        self,
        *,
        definition_id: UUID | None = None,
        name: str | None = None,
        since: datetime | None = None,
        limit: int | None = None,
    ) -> int:
        """Run again all instances that have failed and meet every condition given.

        What cannot be run again, as ``retry`` says, is left out.

        Args:
            definition_id: They belong to this definition.
            name: Their definition has this name.
            since: Their ``execute_at`` is not before this.
            limit: The most to run again, those with the earliest ``execute_at``; None:
                all.

        Returns:
            How many run again.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        if limit is not None:
            check_number("limit", limit, 1)
        reopened, after = 0, None
        while limit is None or reopened < limit:
            page = self.list_instances(
                definition_id=definition_id,
                name=name,
                state=State.FAILED,
                since=since,
                after=after,
                limit=_REOPENED_AT_ONCE
                if limit is None
                else min(_REOPENED_AT_ONCE, limit - reopened),
            )
            reopened += self._reopen(page)
            # What fails again meanwhile lies before this cursor, and is not read again.
            after = page.next
            if after is None:
                break
        return reopened

    aretry_failed = awaitable(retry_failed)
    """Await what ``retry_failed`` does; see there."""

    def _reopen(self, instances: Collection[TaskInstance]) -> int:
        """Make instances run again; return how many do."""
        if not instances:
            return 0
        reopened = self._ready().reopen_instances([each.id for each in instances])
        self._look()
        if self._events.wanted(InstanceReopened):
            for each in instances:
                if each.id in reopened:
                    self._events.tell(InstanceReopened(**of_instance(each)))
        return len(reopened)


def _found(found: Sequence[TaskDefinition], definition_id: UUID) -> TaskDefinition:
    if not found:
        raise TaskDefinitionNotFoundError(definition_id)
    return found[0]


class Runs(StoreAccess):
    """Keeps and ends runs that were handed on, each by its token.

    The token is that of ``Run.token``: the id of the instance, and the attempt.
    """

    # The defaults of a scheduler.
    _defaults = Defaults()

    def accept(
        self, instance_id: UUID, attempt: int, *, worker: str, by: timedelta
    ) -> Extension:
        """Take a run that was handed on with a ``start_timeout``; ``begin`` it after.

        Whoever is first has it, and has that time: calling it again, for the same
        worker, changes nothing.

        Args:
            instance_id: The instance.
            attempt: The attempt that was handed on.
            worker: Who takes it, for others to be told apart and a person to read: it
                is the ``worker`` of the instance. At most 200 characters.
            by: Within what time from now it is to begin; above zero. If it does not, it
                has failed, and ``retry`` applies.

        Returns:
            Whether it is to go on, to stop because somebody has cancelled it, or is
            lost: another worker has it, or it is not needed any more.

        Raises:
            ConfigurationError: An argument is wrong.
            StoreUnavailableError: Calling it again may help.
        """
        return self._come_to(
            Stage.ACCEPTED, _claim(instance_id, attempt), worker=worker, by=by
        )

    aaccept = awaitable(accept)
    """Await what ``accept`` does; see there."""

    def begin(
        self, instance_id: UUID, attempt: int, *, worker: str, by: timedelta
    ) -> Extension:
        """Say that a run that was handed on with a ``start_timeout`` begins now.

        Its ``timeout`` counts from now. It may be called without ``accept`` before, and
        again: then it does what ``extend`` does.

        Args:
            instance_id: The instance.
            attempt: The attempt that was handed on.
            worker: Who runs it, as for ``accept``.
            by: For how long from now it may be silent; above zero. If it is silent for
                longer, it has failed, and ``retry`` applies.

        Returns:
            As ``accept``.

        Raises:
            ConfigurationError: An argument is wrong.
            StoreUnavailableError: Calling it again may help.
        """
        return self._come_to(
            Stage.STARTED, _claim(instance_id, attempt), worker=worker, by=by
        )

    abegin = awaitable(begin)
    """Await what ``begin`` does; see there."""

    def _come_to(
        self, stage: Stage, claim: Claim, *, worker: str, by: timedelta
    ) -> Extension:
        worker = check_name("worker", worker)
        check_positive("by", by)
        come = Extending(claim=claim, by=by, stage=stage, worker=worker)
        answer = self._remote_runs().extend(come)
        self._went_on(answer is Extension.LOST)
        return answer

    def extend(
        self, instance_id: UUID, attempt: int, by: timedelta, *, progress: JSON = None
    ) -> Extension:
        """Keep a run that was handed on: it is not presumed lost for so long from now.

        Args:
            instance_id: The instance.
            attempt: The attempt that was handed on.
            by: How long it is kept, unless it is kept for longer already; above zero.
            progress: How far it has come, a JSON value of at most 64 KiB as text: it is
                the ``progress`` of the instance, to be looked at; None: as it was.

        Returns:
            Whether it is to go on, to stop because somebody has cancelled it, or has
            lost its claim and is not needed any more. If its ``timeout`` has passed,
            that is recorded: its run has failed, and it is lost.

        Raises:
            ConfigurationError: An argument is wrong.
            StoreUnavailableError: Calling it again may help.
        """
        claim = _claim(instance_id, attempt)
        check_positive("by", by)
        text = progress_text(progress)
        extending = Extending(claim=claim, by=by, progress=text)
        answer = self._remote_runs().extend(extending)
        self._went_on(answer is Extension.LOST)
        return answer

    aextend = awaitable(extend)
    """Await what ``extend`` does; see there."""

    def complete(self, instance_id: UUID, attempt: int, *, result: JSON = None) -> bool:
        """Record that a run has succeeded that was handed on.

        The first success of an instance wins, of whichever attempt: also one that comes
        after its claim has lapsed, or after the instance has *failed*. It may be called
        again.

        Args:
            instance_id: The instance.
            attempt: The attempt that was handed on.
            result: What came of it, a JSON value of at most 64 KiB as text: it is the
                ``result`` of the instance, to be looked at; nothing is done with it.

        Returns:
            Whether this attempt has completed the instance, now or before. If not,
            another one has, or it was cancelled, or is gone: nothing has changed.

        Raises:
            ConfigurationError: An argument is wrong.
            StoreUnavailableError: Calling it again may help.
        """
        claim = _claim(instance_id, attempt)
        text = result_text(result)
        return self._went_on(self._remote_runs().end(Success(claim=claim, result=text)))

    acomplete = awaitable(complete)
    """Await what ``complete`` does; see there."""

    def fail(
        self,
        instance_id: UUID,
        attempt: int,
        error: str,
        *,
        retry: bool = True,
        retry_in: timedelta | None = None,
    ) -> bool:
        """Record that a run has failed that was handed on; its ``retry`` applies.

        If its definition does not say how long a run may take, or what follows it, the
        ``expire_after`` and ``retry`` of this scheduler count: call it on one that is
        told the same as the others.

        Args:
            instance_id: The instance.
            attempt: The attempt that was handed on.
            error: What went wrong, for a person to read.
            retry: Whether it may be tried again; False is what ``Fail`` is to a
                handler.
            retry_in: After how long it runs again, as ``RetryAfter`` for a handler;
                None: that is the policy's.

        Returns:
            Whether that was recorded. If not, its claim was lost, or this has been
            called before: nothing has changed.

        Raises:
            ConfigurationError: An argument is wrong.
            StoreUnavailableError: Calling it again may help.
        """
        claim = _claim(instance_id, attempt)
        check_type("error", error, str)
        check_type("retry", retry, bool)
        if retry_in is not None:
            check_at_least("retry_in", retry_in, ZERO)
            if not retry:
                raise ConfigurationError("retry_in is of no use with retry=False")
        failing = Failing(claim=claim, error=error, retry=retry, retry_in=retry_in)
        return self._went_on(self._remote_runs().end(failing))

    afail = awaitable(fail)
    """Await what ``fail`` does; see there."""

    def release(
        self,
        instance_id: UUID,
        attempt: int,
        *,
        delay: timedelta = ZERO,
        reason: str | None = None,
    ) -> bool:
        """Give back what was handed on and will not be run: it runs anew, elsewhere.

        It counts as no run.

        Args:
            instance_id: The instance.
            attempt: The attempt that was handed on.
            delay: After so long it runs again.
            reason: Why, for people to read; it is told by ``InstanceGivenBack``.

        Returns:
            Whether it was given back. If not, its claim was lost before.

        Raises:
            ConfigurationError: An argument is wrong.
            StoreUnavailableError: Calling it again may help.
        """
        claim = _claim(instance_id, attempt)
        check_at_least("delay", delay, ZERO)
        reason = reason or _NOT_RUN
        return self._went_on(
            self._remote_runs().release(claim, delay=delay, reason=reason)
        )

    arelease = awaitable(release)
    """Await what ``release`` does; see there."""

    def _remote_runs(self, now: Callable[[], datetime] | None = None) -> RemoteRuns:
        return RemoteRuns(
            self._ready(),
            defaults=self._defaults,
            tell=self._events.tell,
            count=self._count_end,
            now=now,
        )

    def _went_on(self, recorded: bool) -> bool:
        # It may run again at once, or its definition may fire next.
        if recorded:
            self._look()
        return recorded


def _claim(instance_id: UUID, attempt: int) -> Claim:
    check_type("instance_id", instance_id, UUID)
    check_number("attempt", attempt, 1, _MOST_ATTEMPTS)
    return Claim(instance_id=instance_id, attempt=attempt)
