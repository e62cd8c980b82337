"""Instances that users ask for: of tasks, of any definition, and for its past."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, cast
from uuid import UUID, uuid4

from go_scheduler.argument_hints import write_instead
from go_scheduler.checks import check_definition_id, check_id, check_name, check_number
from go_scheduler.client.scheduling import Scheduling
from go_scheduler.client.store_access import StoreAccess, awaitable, several
from go_scheduler.clock import ZERO
from go_scheduler.errors import (
    ConfigurationError,
    ConflictError,
    TaskDefinitionNotFoundError,
)
from go_scheduler.events import InstanceAdded, InstancesBackfilled, InstanceSkipped
from go_scheduler.events.event import of_definition
from go_scheduler.formatting import shown
from go_scheduler.handlers.registry import HandlerRegistry, Task, TaskDecorator, task_id
from go_scheduler.models.values import changed
from go_scheduler.policies import Overlap, check_overlap
from go_scheduler.stores.filters import DefinitionFilter
from go_scheduler.stores.messages import Addition
from go_scheduler.triggers.base import Trigger, dump_trigger, fire_times, utc
from go_scheduler.triggers.simple import OnDemandTrigger

if TYPE_CHECKING:
    from go_scheduler.json import JSON
    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.base import JoinedStore


_BATCH = 500
_MOST_REMEMBERED = 10_000
_MOST_JOINED = 10_000


@write_instead('Job(payload={"order": 7}, key="order 7")')
@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One of many for ``enqueue_all``, with a time or a key of its own.

    Attributes:
        payload: The payload, as for ``enqueue``.
        at: When it runs; None: as soon as possible.
        delay: How long after the store's time it runs, instead of ``at``; zero or more.
        key: As for ``enqueue``.
        id: The id of the instance, if one is made. The answer has another id if an
            instance with the ``key`` exists already.
        overrides: Fields of the definition that the instance has of its own, by their
            names: ``queue``, ``priority``, ``expire_after``, ``timeout``,
            ``start_timeout``, ``heartbeat_timeout``, ``retry``, ``lock``, ``metadata``.
    """

    payload: Mapping[str, object] | None = field(default=None, hash=False)
    at: datetime | None = None
    delay: timedelta | None = None
    key: str | None = None
    id: UUID = field(default_factory=uuid4)
    overrides: Mapping[str, object] | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """What a call of ``backfill`` has done.

    Attributes:
        made: How many fire times were given an instance.
        there: How many had one already.
        first: The first of those that were given one; None: there are none.
        last: The last of them.
        next: The fire time at which its ``limit`` ended it: pass it on as ``start``.
            None: it came to the end of the range.
    """

    made: int = 0
    there: int = 0
    first: datetime | None = None
    last: datetime | None = None
    next: datetime | None = None

    def and_more(
        self, wanted: Sequence[datetime], made: Sequence[datetime]
    ) -> Backfill:
        """This result with that of the next batch added."""
        return replace(
            self,
            made=self.made + len(made),
            there=self.there + len(wanted) - len(made),
            first=self.first or (made[0] if made else None),
            last=made[-1] if made else self.last,
        )


class OnDemand(StoreAccess):
    """Runs definitions by hand, enqueues work for them, and makes up for their past."""

    # Set by a scheduler; a client has none.
    _registry: HandlerRegistry | None = None
    _scheduled: set[str]

    @write_instead('scheduler.run_now(definition.id, payload={"order": 7})')
    def run_now(
        self,
        definition_id: UUID,
        *,
        payload: Mapping[str, object] | None = None,
        at: datetime | None = None,
        delay: timedelta | None = None,
        key: str | None = None,
        id: UUID | None = None,
        connection: object = None,
    ) -> TaskInstance:
        """Run a definition once more, now or at a time.

        It makes no difference to when the definition fires by itself: the instance has
        no ``fire_time``. One of a paused definition waits until that is resumed. What
        cannot be made twice has a ``key``; see ``enqueue``.

        Args:
            definition_id: Any definition, completed or not.
            payload: What the handler finds as ``instance.payload``: a JSON object of at
                most 64 KiB. For a task of this scheduler's own registry it is checked
                as by ``enqueue``.
            at: When; None: as soon as possible.
            delay: So long after the store's time, instead of ``at``; zero or more.
            key: While an instance of the definition has this key, ended or not, a
                second one is not made; at most 200 characters.
            id: Of the instance; None: one is made up. One that there is already is not
                made twice. The answer has another id if there was one with the key.
            connection: To make it part of a transaction of yours, as for ``schedule``.

        Returns:
            The instance, or the one that has the key already. It is skipped, and will
            not run, if as many wait as its ``max_queue`` says, and its ``when_full`` is
            ``"drop"``.

        Raises:
            TaskDefinitionNotFoundError: There is no definition with this id.
            QueueFullError: As many of it wait, and its ``when_full`` is ``"refuse"``.
            ConfigurationError: An argument is wrong, or the store takes part in no
                transactions.
            StoreUnavailableError: With a ``connection``: somebody else adds the same
                key at the same moment; repeat the transaction.
        """
        check_definition_id(definition_id)
        registry = self._registry
        task = None if registry is None else registry.name_of(definition_id)
        job = Job(payload=payload, at=at, delay=delay, key=key)
        if id is not None:
            job = replace(job, id=id)
        additions = self._additions("run_now", task, [job], connection)
        return self._add(definition_id, additions, connection)[0]

    arun_now = awaitable(run_now)
    """Await what ``run_now`` does; see there."""

    @write_instead('scheduler.enqueue("send", order=7)')
    def enqueue(
        self,
        name: str,
        /,
        *,
        at: datetime | None = None,
        delay: timedelta | None = None,
        key: str | None = None,
        connection: object = None,
        payload: Mapping[str, object] | None = None,
        **arguments: object,
    ) -> TaskInstance:
        """Have a task done, now or later: one row, written by one statement.

        A task is the definition with the id ``TaskDefinition.id_for("task " + name)``,
        commonly with an ``OnDemandTrigger``. How it is tried again, in which queue it
        runs and whatever else applies to it says the definition, once for all.

        ```python
        scheduler.enqueue("send", order=7)
        scheduler.enqueue("send", order=8, delay=timedelta(minutes=5), key="order 8")
        ```

        Args:
            name: Of the task.
            at: When; None: as soon as possible.
            delay: So long after the store's time, instead of ``at``; zero or more.
            key: While an instance of the task has this key, ended or not, a second one
                is not made; at most 200 characters. It goes when that instance does,
                after ``retention``.
            connection: To make it part of a transaction of yours, as for ``schedule``.
            payload: What the handler finds as ``instance.payload``, at most 64 KiB of
                JSON; instead of ``arguments``.
            arguments: The payload, by keyword.

        Returns:
            The instance, as for ``run_now``, or the one that has the key already.

        Raises:
            TaskDefinitionNotFoundError: There is no such task; the text says how to
                make it.
            QueueFullError: As for ``run_now``.
            ConfigurationError: As for ``run_now``.
            StoreUnavailableError: As for ``run_now``.
        """
        task = _checked_name(name)
        if payload is not None and arguments:
            raise ConfigurationError(
                "give what it is to be done with as payload or by keyword, not both"
            )
        job = Job(payload=arguments or payload, at=at, delay=delay, key=key)
        additions = self._additions("enqueue", task, [job], connection)
        return self._enqueue(task, additions, connection)[0]

    aenqueue = awaitable(enqueue)
    """Await what ``enqueue`` does; see there."""

    @write_instead('scheduler.enqueue_all("send", [{"order": 7}, {"order": 8}])')
    def enqueue_all(
        self,
        name: str,
        payloads: Iterable[Mapping[str, object] | Job | None],
        /,
        *,
        connection: object = None,
    ) -> list[TaskInstance]:
        """Have a task done many times.

        They are written in batches of 500: when a batch fails, those before it stay,
        but with a ``connection``.

        ```python
        scheduler.enqueue_all("send", [{"order": 7}, {"order": 8}])
        scheduler.enqueue_all("send", [Job(payload={"order": 9}, key="order 9")])
        ```

        Args:
            name: Of the task.
            payloads: What each time is done with, as soon as possible; or a ``Job``, in
                which a time and a key may be said as well.
            connection: As for ``enqueue``.

        Returns:
            The instances, in the order given; for the key of one that there is
            already, that one. Where there is room for some of them alone, and what is
            beyond that is dropped, these are the first.

        Raises:
            TaskDefinitionNotFoundError: As for ``enqueue``.
            QueueFullError: As for ``run_now``, of a whole batch.
            ConfigurationError: As for ``run_now``. Nothing was enqueued.
            StoreUnavailableError: As for ``run_now``.
        """
        task = _checked_name(name)
        given = several("payloads", payloads, such_as="[{'order': 7}]")
        jobs = [each if isinstance(each, Job) else Job(payload=each) for each in given]
        additions = self._additions("enqueue_all", task, jobs, connection)
        rest = iter(additions)
        enqueued: list[TaskInstance] = []
        while batch := list(islice(rest, _BATCH)):
            enqueued += self._enqueue(task, batch, connection)
        return enqueued

    aenqueue_all = awaitable(enqueue_all)
    """Await what ``enqueue_all`` does; see there."""

    def _additions(
        self, operation: str, task: str | None, jobs: Sequence[Job], connection: object
    ) -> Sequence[Addition]:
        """The additions for jobs, all with the trace context of this call."""
        additions: list[Addition] = []
        for job in jobs:
            if job.at is not None and job.delay is not None:
                raise ConfigurationError("say when by at or by delay, and not by both")
            check_id(job.id)
            additions.append(
                Addition(
                    id=job.id,
                    at=job.at,
                    delay=ZERO if job.delay is None else job.delay,
                    payload=self._payload_of(task, job.payload, connection),
                    key=job.key,
                    overrides=job.overrides,
                )
            )
        context = self._trace_context(operation, task, len(jobs))
        if context is not None:
            additions = [replace(each, trace_context=context) for each in additions]
        return additions

    def _payload_of(
        self, task: str | None, payload: Mapping[str, object] | None, connection: object
    ) -> Mapping[str, JSON] | None:
        """The payload as it is stored; checked if this scheduler has the task."""
        if task is None or task not in self._tasks:
            return cast("Mapping[str, JSON] | None", payload)
        stored = self._tasks[task].payload.write({} if payload is None else payload)
        # Within the user's transaction nothing is written outside it.
        if connection is None and task not in self._scheduled:
            self._schedule_tasks()
        return stored or None

    @property
    def _tasks(self) -> Mapping[str, Task[..., ..., object]]:
        return {} if self._registry is None else self._registry.tasks

    def _enqueue(
        self, task: str, additions: Sequence[Addition], connection: object
    ) -> Sequence[TaskInstance]:
        try:
            return self._add(task_id(task), additions, connection)
        except TaskDefinitionNotFoundError as error:
            id = error.definition_id
            raise TaskDefinitionNotFoundError(id, task, self._tasks) from None

    def _add(
        self, definition_id: UUID, additions: Sequence[Addition], connection: object
    ) -> Sequence[TaskInstance]:
        def tell(found: Sequence[TaskInstance]) -> None:
            ids, joined = {each.id for each in additions}, connection is not None
            made = [each for each in found if each.id in ids]
            if self._events.wanted(InstanceAdded):
                for each in made:
                    if each.skipped is None:
                        event = InstanceAdded(
                            **of_definition(each.definition),
                            instance_id=each.id,
                            execute_at=each.execute_at,
                            key=each.key,
                            joined=joined,
                        )
                        self._events.tell(event)
            self._tell_dropped(made, joined=joined)

        if connection is not None:
            write = self._write(connection)
            found = write.store.add_instances(definition_id, additions)
            write.then(self._look_for_instances)
            tell(found)
            return found
        queue = self._queues.get(definition_id)
        has_own = any(each.overrides for each in additions)
        taker = None if has_own else self._taker(queue)
        taken = taker and taker.add(definition_id, additions, tell, queue=queue)
        found = taken or self._ready().add_instances(definition_id, additions)
        queues = {each.definition.queue for each in found if not each.claimed_by}
        if queues:
            self._look_for_instances(queues)
        if not taken:
            tell(found)
        if found and not found[0].overrides:
            if len(self._queues) >= _MOST_REMEMBERED:
                self._queues.clear()
            self._queues[definition_id] = found[0].definition.queue
        return found

    def _tell_dropped(self, made: Sequence[TaskInstance], *, joined: bool) -> None:
        """Tell one event of all that a batch dropped; they are of one definition."""
        every = [each.skipped for each in made if each.skipped is not None]
        if every:
            self._events.tell(
                InstanceSkipped(
                    **of_definition(made[0].definition),
                    first=min(each.first for each in every),
                    last=max(each.last for each in every),
                    count=len(every),
                    reason=every[0].reason,
                    late=False,
                    added=True,
                    joined=joined,
                )
            )

    @write_instead("scheduler.backfill(definition.id, start, end)")
    def backfill(
        self,
        definition_id: UUID,
        start: datetime,
        end: datetime,
        *,
        overlap: Overlap | None = None,
        limit: int | None = None,
        connection: object = None,
    ) -> Backfill:
        """Run what a definition's schedule has not run, for a time that has passed.

        Each fire time of its trigger from ``start`` on and before ``end`` gets an
        instance, unless it has one. A fire time that was skipped gets one all the same,
        once. To call it twice makes nothing twice, on whichever node and beside
        whichever schedule; but what cleanup has deleted, after ``retention``, is not
        known and runs again.

        Such instances are run as soon as possible, the earliest fire time first; on
        CockroachDB, which spreads what is due, about so. They are exempt from
        ``catch_up``; neither an edit nor a pause removes them, and
        ``next_fire_time`` stays. Those of a paused definition wait until it is resumed.
        A definition that is completed is backfilled like any other.

        They are made in batches of 500, each at once in the store: a call that fails
        has made those before, and is repeated to go on. A trigger of your own is asked
        in the thread that calls this.

        Args:
            definition_id: The definition.
            start: The first instant; aware.
            end: The first instant after; aware. What has not passed yet is left to the
                schedule.
            overlap: By which they exclude each other, and what else of the definition
                does, whatever its own is: ``Overlap.BUFFER_ALL`` runs them one after
                another, and then skips none. None: the definition's, as it is now.
            limit: The most to make, the earliest; None: all.
            connection: To make it part of a transaction of yours, as for ``schedule``:
                of 10,000 fire times at most, and without batches.

        Returns:
            How many were made, which, and how many were there.

        Raises:
            TaskDefinitionNotFoundError: There is no definition with this id.
            ConfigurationError: An argument is wrong; nothing of the range has passed;
                or the trigger has no fire times of its own.
            InvalidTriggerError: The trigger raised, or returned what is no fire time.
            UnknownTriggerError: No class for its trigger is imported here.
            ConflictError: Its trigger was changed meanwhile.
            StoreUnavailableError: With a ``connection``: somebody else is changing it
                at the same moment; repeat the transaction.
        """
        check_definition_id(definition_id)
        start, end = utc(start, name="start"), utc(end, name="end")
        if start >= end:
            raise ConfigurationError(f"start must be before end: {start}, {end}")
        if overlap is not None:
            overlap = check_overlap(overlap)
        if limit is not None:
            check_number("limit", limit, 1)
        write = self._write(connection)
        store, joined = write.store, write.joined
        definition = _read(store, definition_id)
        _check_trigger(definition)
        end = min(end, self._store.now())
        if start >= end:
            raise ConfigurationError(
                f"nothing from start on has passed yet: {start}; the schedule makes"
                " what is to come"
            )
        times = fire_times(definition.trigger, start, end)
        if joined:
            few = limit is not None and limit <= _MOST_JOINED
            if not few and next(islice(times, _MOST_JOINED, None), None) is not None:
                raise ConfigurationError(
                    f"the range has more than {_MOST_JOINED:,} fire times, too many for"
                    " one transaction: pass a limit, a shorter range, or no connection"
                )
            times = fire_times(definition.trigger, start, end)
        found = Backfill()
        context = self._trace_context("backfill", definition.name)
        definition = _within(definition, context)
        overlap = definition.overlap if overlap is None else overlap
        try:
            left = _BATCH if limit is None else limit
            while batch := list(islice(times, min(_BATCH, left))):
                definition, made = _fill(store, definition, batch, overlap)
                found = found.and_more(batch, made)
                if limit is not None:
                    left = limit - found.made
                write.then(self._look_for_instances)
        finally:
            if found.first is not None and found.last is not None:
                self._events.tell(
                    InstancesBackfilled(
                        **of_definition(definition),
                        first=found.first,
                        last=found.last,
                        count=found.made,
                        overlap=overlap,
                        joined=joined,
                    )
                )
        if limit is not None and found.made == limit:
            found = replace(found, next=next(times, None))
        return found

    abackfill = awaitable(backfill)
    """Await what ``backfill`` does; see there."""


def _checked_name(task: object) -> str:
    if isinstance(task, Task):
        raise ConfigurationError(
            f"a task is enqueued by its name, {task.name!r}, or by its own enqueue():"
            f" not by {shown(task)}"
        )
    return check_name("name", task)


class Tasks(Scheduling, OnDemand):
    """Schedules the tasks of a registry, and checks what they are enqueued with."""

    def task(
        self, name: str, trigger: Trigger | None = None, **definition: object
    ) -> TaskDecorator:
        """Decorate the handler of a task; see ``HandlerRegistry.task``.

        One that is decorated while the scheduler runs is scheduled at once.

        ```python
        scheduler = Scheduler(HandlerRegistry(), store)

        @scheduler.task("report", CronTrigger(hour=9))
        def report() -> None:
            ...
        ```

        Args:
            name: Of the task, and of the handler.
            trigger: When it fires by itself; None: an ``OnDemandTrigger``.
            definition: What else ``TaskDefinition`` takes, such as ``queue``.

        Raises:
            ConfigurationError: As there; or this scheduler's handler is no registry.
        """
        if self._registry is None:
            raise ConfigurationError(
                "tasks are kept in a registry: Scheduler(HandlerRegistry(), store)"
            )
        decorate = self._registry.task(name, trigger, **definition)

        def add(function: Callable[..., object]) -> Task[..., ..., object]:
            task: Task[..., ..., object] = decorate(function)
            if self._runs():
                self._schedule_tasks()
            return task

        return cast("TaskDecorator", add)

    def _use_tasks_of(self, handler: object) -> None:
        """Let the tasks of a handler, if it is a registry, be enqueued here."""
        self._registry = handler if isinstance(handler, HandlerRegistry) else None
        self._scheduled = set()
        if self._registry is not None:
            self._registry.bind(self)

    def _schedule_tasks(self) -> None:
        """Schedule the tasks that have not been since the last start."""
        new = self._unscheduled()
        if not new:
            return
        assert self._registry is not None
        if (owner := self._registry.owner) is None:
            self.schedule_all(new.values())
        else:
            # What is left out may belong to another program, or have work that waits.
            self.declare(
                new.values(),
                owner=owner,
                version=self._registry.version,
                removed="keep",
                adopt=True,
            )
        self._scheduled |= new.keys()

    def _unscheduled(self) -> Mapping[str, TaskDefinition]:
        """The definitions of these tasks, by their names."""
        return {
            name: task.definition
            for name, task in self._tasks.items()
            if name not in self._scheduled
        }

    @abstractmethod
    def _runs(self) -> bool:
        """Whether this scheduler runs."""


def _read(store: JoinedStore, definition_id: UUID) -> TaskDefinition:
    where = DefinitionFilter(ids=[definition_id])
    found = store.select_definitions(where, limit=1)
    if not found:
        raise TaskDefinitionNotFoundError(definition_id)
    return found[0]


def _within(definition: TaskDefinition, context: str | None) -> TaskDefinition:
    """The definition with the trace context of this call, if there is one."""
    if context is None:
        return definition
    return changed(definition, trace_context=context)


def _check_trigger(definition: TaskDefinition) -> None:
    """Refuse a trigger whose fire times cannot be known."""
    if isinstance(definition.trigger, OnDemandTrigger):
        raise ConfigurationError(
            f"definition {definition.id} runs on demand, and has no fire times:"
            " run_now() and enqueue() make its instances"
        )
    if definition.trigger.waits:
        raise ConfigurationError(
            f"definition {definition.id} fires after the end of each run, and has no"
            " fire times but those it has had; run_now() runs it once more"
        )


def _fill(
    store: JoinedStore,
    definition: TaskDefinition,
    fire_times: Sequence[datetime],
    overlap: Overlap,
) -> tuple[TaskDefinition, Sequence[datetime]]:
    """Make a batch; return the definition it was made by, and what was made."""
    while True:
        try:
            made = store.backfill_instances(definition, fire_times, overlap=overlap)
        except ConflictError:
            stored = _read(store, definition.id)
            # Only another trigger would have other fire times.
            is_other = dump_trigger(stored.trigger) != dump_trigger(definition.trigger)
            if is_other or stored.revision == definition.revision:
                raise
            definition = _within(stored, definition.trace_context)
        else:
            return definition, made
