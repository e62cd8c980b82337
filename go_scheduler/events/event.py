"""The events, each told once, and the listeners that are told of them."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from logging import DEBUG, ERROR, INFO, WARNING
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
    Protocol,
    TypedDict,
    TypeVar,
    dataclass_transform,
    overload,
)
from uuid import UUID

from go_scheduler.checks import check_takes_one
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.models import Counts, Outcome, Skipped, TaskDefinition, TaskInstance
from go_scheduler.policies import Overlap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager


__all__ = [
    "BusAway",
    "BusBack",
    "Change",
    "ClaimAnswerLost",
    "CompletedRunFailed",
    "DeclarationOutdated",
    "DefinitionChanged",
    "DefinitionCompleted",
    "DefinitionDeleted",
    "DefinitionEvent",
    "DefinitionLocked",
    "DefinitionScheduled",
    "DefinitionSetAside",
    "DefinitionsMoved",
    "Event",
    "ExecutorFailed",
    "ExecutorRecovered",
    "InstanceAdded",
    "InstanceCancelRequested",
    "InstanceClaimed",
    "InstanceCreated",
    "InstanceDropped",
    "InstanceEvent",
    "InstanceFinished",
    "InstanceGivenBack",
    "InstanceHandedOn",
    "InstanceLapsed",
    "InstanceLocked",
    "InstanceLost",
    "InstanceParked",
    "InstanceReopened",
    "InstanceReplaced",
    "InstanceRetried",
    "InstanceSkipped",
    "InstanceStarted",
    "InstanceTakenOver",
    "InstanceUnparked",
    "InstanceUnrecorded",
    "InstancesBackfilled",
    "Listener",
    "LoopFailed",
    "LoopRecovered",
    "NodeStarted",
    "NodeStopped",
    "NoticeGiven",
    "ObjectiveBroken",
    "ObjectiveMet",
    "QueueUnserved",
    "RequestAllowed",
    "RequestEvent",
    "RequestRefused",
    "ResultDiscarded",
    "ResultLost",
    "RunDeferred",
    "RunEnded",
    "RunFailed",
    "RunHung",
    "RunLeftBehind",
    "RunTimedOut",
    "StatusRefused",
    "StoreAway",
    "StoreBack",
    "TriggerFailed",
    "Write",
    "hears",
]


class Line(NamedTuple):
    """A line of the log.

    Attributes:
        level: One of the levels of ``logging``.
        text: With places for values, such as ``%(node)s``.
        values: Values besides the fields of the event, whose durations are in seconds,
            and ``of`` and ``what``, which name its definition.
        ids: The values that are attributes of the record; None: the ids of the event.
        with_traceback: Whether the traceback of the event's exception follows.
    """

    level: int
    text: str
    values: Mapping[str, object] = {}
    ids: Sequence[str] | None = None
    with_traceback: bool = True


@dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(field,)
)
@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that has happened. All times are the store's, in UTC."""

    def __init_subclass__(cls) -> None:
        # Each kind of event is a value.
        dataclass(frozen=True, kw_only=True)(cls)

    @property
    def _line(self) -> Line | None:
        """Its line in the log; None: it has none."""
        return None


class DefinitionEvent(Event):
    """Something that has happened to a definition.

    Attributes:
        definition_id: Which.
        name: Its name, if it has one.
        queue: Its queue.
    """

    definition_id: UUID
    name: str | None
    queue: str


class InstanceEvent(Event):
    """Something that has happened to an instance that a node has claimed.

    Attributes:
        instance_id: Which.
        attempt: The claim that it is about: ``(instance_id, attempt)`` is the fencing
            token.
        definition_id: Its definition.
        name: The definition's name, if it has one.
        queue: The definition's queue.
    """

    instance_id: UUID
    attempt: int
    definition_id: UUID
    name: str | None
    queue: str


class DefinitionIds(TypedDict):
    """The fields of each event of a definition."""

    definition_id: UUID
    name: str | None
    queue: str


class SkippedIds(DefinitionIds):
    """The fields of each event of skipped fire times."""

    first: datetime
    last: datetime
    count: int
    reason: str


class InstanceIds(DefinitionIds):
    """The fields of each event of an instance."""

    instance_id: UUID
    attempt: int


def of_definition(definition: TaskDefinition) -> DefinitionIds:
    """The fields that identify this definition in an event."""
    return {
        "definition_id": definition.id,
        "name": definition.name,
        "queue": definition.queue,
    }


def of_skipped(definition: TaskDefinition, skipped: Skipped) -> SkippedIds:
    """The fields of an event of fire times of this definition that were skipped."""
    return {
        **of_definition(definition),
        "first": skipped.first,
        "last": skipped.last,
        "count": skipped.count,
        "reason": skipped.reason,
    }


def of_instance(instance: TaskInstance) -> InstanceIds:
    """The fields that identify this instance in an event."""
    return {
        **of_definition(instance.definition),
        "instance_id": instance.id,
        "attempt": instance.attempt,
    }


class Listener(Protocol):
    """A callable that is told of events, one at a time; what it returns is ignored."""

    def __call__(self, event: Event, /) -> object:
        """Take an event."""


Heard = TypeVar("Heard", bound=Event)
Also = TypeVar("Also", bound=Event)


class Hears:
    """A listener that is told of some kinds of events only; made by ``hears``.

    Args:
        listener: The listener.
        kinds: The classes of the events that it is told of.
    """

    def __init__(self, listener: Listener, kinds: tuple[type[Event], ...]) -> None:
        self.listener = listener
        self.kinds = kinds

    def __call__(self, event: Event) -> object:
        """Call the listener itself, as in a test of it."""
        return self.listener(event)


@overload
def hears(kind: type[Heard], /) -> Callable[[Callable[[Heard], object]], Hears]: ...


@overload
def hears(
    kind: type[Heard], also: type[Also], /
) -> Callable[[Callable[[Heard | Also], object]], Hears]: ...


@overload
def hears(*kinds: type[Event]) -> Callable[[Listener], Hears]: ...


def hears(*kinds: type[Heard]) -> Callable[[Callable[[Heard], object]], Hears]:
    """Make a listener that is told of these kinds of events only.

    ```python
    @hears(InstanceFinished)
    def count(event: InstanceFinished) -> None:
        finished[event.outcome] += 1
    ```

    Args:
        *kinds: Classes of events; of one such as ``InstanceEvent`` all that inherit.

    Returns:
        A decorator that makes a listener from a callable.

    Raises:
        ConfigurationError: No class is given, or one is no class of events.
    """
    if not kinds:
        raise ConfigurationError("say which events it hears: @hears(InstanceFinished)")
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Event)):
            raise ConfigurationError(
                f"{shown(kind)} is no class of events: see go_scheduler.events"
            )

    def restrict(listener: Callable[[Heard], object]) -> Hears:
        return Hears(_checked(listener), kinds)

    return restrict


def checked_listeners(listeners: object) -> Sequence[Hears]:
    """The listeners that a user gave, each with what it hears.

    Raises:
        ConfigurationError: They are no sequence of listeners.
    """
    if not isinstance(listeners, list | tuple):
        raise ConfigurationError(
            f"listeners must be a sequence of callables, not {shown(listeners)}"
        )
    return [
        each if isinstance(each, Hears) else Hears(_checked(each), (Event,))
        for each in listeners
    ]


def _checked(listener: object) -> Listener:
    if not callable(listener):
        raise ConfigurationError(f"a listener must be callable: {shown(listener)}")
    called = listener if inspect.isroutine(listener) else type(listener).__call__
    if inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(called):
        raise ConfigurationError(
            f"{shown(listener)} is async, and nobody awaits what a listener returns"
        )
    check_takes_one("a listener", listener, argument="the event")
    return listener


class Counting(Protocol):
    """The counts of a node."""

    def totals(self) -> Sequence[Counts]:
        """The counts since its start."""


class Watched(Protocol):
    """A node, as an instrument sees it."""

    @property
    def stopped(self) -> bool:
        """Whether it has stopped counting."""

    @property
    def metrics(self) -> Counting:
        """Its counts."""

    def health(self) -> Any:
        """Its ``Health``."""


class Put(NamedTuple):
    """What is put into the store by one call.

    Attributes:
        operation: The call's name, such as *schedule* or *enqueue*.
        name: Of the definition; None: it has none, nobody knows, or there are several.
        size: How many are put.
        carried: The trace context that a remote caller, such as one over HTTP, has
            sent; None: there is none.
    """

    operation: str
    name: str | None
    size: int
    carried: str | None


class Instrument(Hears, ABC):
    """A listener that hears few events, and reads counts instead.

    What comes by the thousand costs too much to be told one by one: an instrument reads
    what nodes have counted when somebody asks for it. One of a scheduler's
    ``listeners`` may be one.

    Attributes:
        surrounds: Whether handlers are called within ``around``.
    """

    surrounds = True

    @abstractmethod
    def watch(self, node: Watched) -> None:
        """Look at a node from now on, until it has stopped."""

    def carry(self, put: Put) -> str | None:
        """The trace context that what is put now carries to its handlers.

        It is called once for a call, on whatever thread it is made.

        Returns:
            At most 600 characters of ASCII, which ``trace_context`` of instances then
            is; None: it carries none.
        """
        return put.carried

    @abstractmethod
    def around(self, instance: TaskInstance) -> AbstractContextManager[object]:
        """The context for the call of an instance's handler, here or in a task."""


class Change(StrEnum):
    """How a definition was changed by hand."""

    PAUSED = "paused"
    """Nothing of it starts until it is resumed."""
    RESUMED = "resumed"
    """Its pause has ended."""


class DefinitionScheduled(DefinitionEvent):
    """``schedule()`` or ``declare()`` has stored it, or has found it stored as it is.

    Attributes:
        next_fire_time: When it fires next; None: no more.
        revision: Its revision by now; rises with every change.
        joined: Whether it is part of a transaction of the caller's, which may be rolled
            back yet.
    """

    next_fire_time: datetime | None
    revision: int | None
    joined: bool


class DefinitionChanged(DefinitionEvent):
    """It was paused or resumed.

    Attributes:
        change: Which of the two.
        note: Why it is paused, if somebody has said so.
        joined: Whether it is part of a transaction of the caller's, which may be rolled
            back yet.
    """

    change: Change
    note: str | None
    joined: bool = False


class DefinitionDeleted(Event):
    """It was deleted, and what had not started of it.

    Attributes:
        definition_id: Which.
        joined: As for ``DefinitionChanged``.
    """

    definition_id: UUID
    joined: bool = False


class DeclarationOutdated(Event):
    """A set was declared that has been declared at a later version: nothing changed.

    Attributes:
        owner: Whose set it is.
        version: The version that came too late; None: it had none.
        stored: The later one.
    """

    owner: str
    version: int | None
    stored: int

    @property
    def _line(self) -> Line:
        is_one = self.version is not None
        return Line(
            # With versions this is normal in a rolling deploy.
            INFO if is_one else WARNING,
            "the set of %(owner)s was declared at version %(stored)d: what is declared"
            f" {'at %(version)d' if is_one else 'without one'} changes nothing",
        )


class DefinitionCompleted(DefinitionEvent):
    """It will not fire again: its last fire time has its instance."""


class DefinitionLocked(DefinitionEvent):
    """Its firing has to wait: another transaction has locked it for about a second."""

    _line = Line(
        WARNING,
        "definition %(definition_id)s: another transaction has locked it, its firing"
        " has to wait",
    )


class DefinitionSetAside(DefinitionEvent):
    """It cannot fire: its trigger failed or hangs, or its firing cannot be written.

    It is tried again, a little later each time; told when that begins.

    Attributes:
        retry_in: After how long it is tried again.
        error: Why, as text.
        exception: The same, as it was raised.
    """

    retry_in: timedelta
    error: str
    exception: BaseException = field(repr=False, compare=False)

    _line = Line(
        ERROR,
        "definition %(definition_id)s cannot fire and is left alone for"
        " %(retry_in)d s: %(exception)r",
    )


class TriggerFailed(DefinitionEvent):
    """Its trigger failed when it was asked at the end of a run that it waited for.

    It fires all the same, a minute later.

    Attributes:
        error: Why, as text.
        exception: The same, as it was raised.
    """

    error: str
    exception: BaseException = field(repr=False, compare=False)

    _line = Line(
        ERROR,
        "definition %(definition_id)s: its trigger failed, it fires again in a minute:"
        " %(exception)r",
    )


class InstanceCreated(DefinitionEvent):
    """One of its fire times was given an instance.

    Attributes:
        fire_time: The fire time, at which the instance is due.
    """

    fire_time: datetime


class InstanceAdded(DefinitionEvent):
    """It was given an instance by hand, or by being enqueued.

    Attributes:
        instance_id: Which.
        execute_at: When it is to run.
        key: Its key, if it has one.
        joined: Whether it is part of a transaction of the caller's, which may be rolled
            back yet.
    """

    instance_id: UUID
    execute_at: datetime
    key: str | None
    joined: bool


class InstancesBackfilled(DefinitionEvent):
    """Fire times of it that have passed were given instances, by hand.

    Attributes:
        first: The first of them.
        last: The last of them.
        count: How many there are.
        overlap: By which the instances exclude each other.
        joined: Whether they are part of a transaction of the caller's, which may be
            rolled back yet.
    """

    first: datetime
    last: datetime
    count: int
    overlap: Overlap
    joined: bool

    _line = Line(
        INFO,
        "%(what)s: %(count)d of its fire times from %(first)s to %(last)s are run after"
        " all, by hand",
    )


class InstanceSkipped(DefinitionEvent):
    """Fire times that will not run were recorded in one instance.

    Or what was added by hand was, each in its own, as too many wait.

    Attributes:
        first: The first of them.
        last: The last of them.
        count: How many there are; at least so many if the reason says so.
        reason: Why they do not run.
        late: Whether that is because they were missed; else an ``overlap`` says so, or
            for what was added ``when_full``.
        added: Whether they are no fire times, and were added by hand.
        joined: Whether that is part of a transaction of the caller's, which may be
            rolled back yet.
    """

    first: datetime
    last: datetime
    count: int
    reason: str
    late: bool = True
    added: bool = False
    joined: bool = False

    @property
    def _line(self) -> Line:
        times = "that were added for" if self.added else "of its fire times from"
        return Line(
            # Skipping by an overlap or a full queue is what the user asked for.
            WARNING if self.late else INFO,
            f"%(what)s: not run, %(count)d {times} %(first)s to %(last)s: %(reason)s",
        )


class DefinitionsMoved(Event):
    """Definitions fire at other instants, by the present data of their time zones.

    Attributes:
        count: How many.
    """

    count: int

    _line = Line(
        INFO,
        "%(count)d definitions fire at other instants, by the present data of their"
        " time zones",
    )


_ATTEMPT = "instance %(instance_id)s: attempt %(attempt)d"
_INSTANCE = "instance %(instance_id)s of %(of)s"
_RUN = f"{_INSTANCE}: attempt %(attempt)d %(run)s: %(error)s"
_LOCKED = "another transaction has locked it"
_EVERY_SECOND = f"{_LOCKED}; it is tried again every second"
_REQUEST = "%(who)s from %(where)s: %(method)s %(path)s was"
ANSWERED = f"{_REQUEST} answered by %(status)d"


class Write(StrEnum):
    """What a write about an instance records."""

    START = "start"
    """That its run starts."""
    RENEWAL = "renewal"
    """That its claim holds longer."""
    END = "end"
    """How its run ended."""


class InstanceClaimed(InstanceEvent):
    """A node has claimed it, and will call its handler when it is due.

    Attributes:
        due_at: When that is.
    """

    due_at: datetime


class InstanceTakenOver(InstanceEvent):
    """It was claimed to run again, as its last run came to no end.

    Its node died, or nobody has ended or extended in time what was handed on.
    """

    _line = Line(WARNING, f"{_INSTANCE}: its last run came to no end, it runs again")


class InstanceStarted(InstanceEvent):
    """Its handler is called.

    Attributes:
        fire_time: The trigger's own time; None: it was made without one.
        execute_at: When it was to run; a retry does not change it.
        started_at: When it is called.
        late: How long after it was due that is.
    """

    fire_time: datetime | None
    execute_at: datetime
    started_at: datetime
    late: timedelta


class InstanceParked(InstanceEvent):
    """It is about to be due, and waits for another instance that runs.

    That is by the ``overlap`` or ``lock`` of its definition.
    """


class InstanceUnparked(InstanceEvent):
    """It need not wait any more: any node may claim it."""


class InstanceCancelRequested(InstanceEvent):
    """It runs, or is about to, and somebody has asked it to stop by ``cancel``.

    Attributes:
        worker: Who runs it outside of its node; None: nobody, or nobody knows.
    """

    worker: str | None


class InstanceReplaced(InstanceEvent):
    """It is to end for a later instance of its definition, by ``Overlap.REPLACE``.

    Its run was asked to stop, or, if it only waited to run again, it was cancelled.
    """

    _line = Line(INFO, f"{_INSTANCE} is to stop: a later one takes its place")


class InstanceDropped(InstanceEvent):
    """It comes too late and is not run, by its ``catch_up``: it ends as skipped.

    Attributes:
        fire_time: Its fire time; None: it was made without one.
        execute_at: When it was to run.
        late: How long ago that was.
        reason: Why that is too late.
    """

    fire_time: datetime | None
    execute_at: datetime
    late: timedelta
    reason: str

    _line = Line(WARNING, f"{_INSTANCE} is not run: %(reason)s")


class InstanceGivenBack(InstanceEvent):
    """It is given back without having been run, for any node to claim.

    Attributes:
        reason: Why.
        delay: For so long nobody should claim it.
        by_handler: Whether its handler was called, and has raised ``GiveBack``.
        again: Whether within the last minute one of its definition has done so for the
            same reason; the log has a line of the first alone.
    """

    reason: str
    delay: timedelta
    by_handler: bool = False
    again: bool = False

    @property
    def _line(self) -> Line | None:
        if not self.by_handler or self.again:
            return None
        what = "has not begun anything, counts as no run and is given back for"
        values = {"run": f"{what} {self.delay}", "error": self.reason}
        return Line(INFO, _RUN, values)


class InstanceLapsed(InstanceEvent):
    """It was not called when its time had come: too little is left of its claim."""

    _line = Line(WARNING, f"{_ATTEMPT} is not called, too little is left of its claim")


class InstanceFinished(InstanceEvent):
    """It has ended for good, and its end is recorded.

    Attributes:
        outcome: How it ended.
        started_at: When its last run began; None: it was not called.
        took: How long that run took; None: it was not called.
        error: Why it failed, with a traceback; None: it did not.
    """

    outcome: Outcome
    started_at: datetime | None
    took: timedelta | None
    error: str | None


class InstanceReopened(InstanceEvent):
    """It had failed, and somebody has asked for it to run again."""


class InstanceHandedOn(InstanceEvent):
    """Its handler has handed its work on, and the run goes on elsewhere."""


class InstanceRetried(InstanceEvent):
    """It did not succeed and runs again, which is recorded.

    Attributes:
        retry_in: After how long it runs again.
        started_at: When the run began that did not succeed.
        took: How long that run took.
        error: Why it failed, with a traceback.
    """

    retry_in: timedelta
    started_at: datetime | None
    took: timedelta | None
    error: str | None


class RunFailed(InstanceEvent):
    """A run of it did not succeed; what follows from that is yet to be recorded.

    Attributes:
        runs: How many runs it has had, with this one; ``attempt`` counts claims.
        retry_in: After how long it is to run again; None: it has failed for good.
        error: Why it failed, with a traceback.
        worker: Who ran it outside of its node; None: nobody, or nobody knows.
    """

    runs: int
    retry_in: timedelta | None
    error: str | None
    worker: str | None = None

    @property
    def _line(self) -> Line:
        level, what = ERROR, "has failed for good"
        if self.retry_in is not None:
            level, what = WARNING, f"has failed and runs again in {self.retry_in}"
        return Line(level, _RUN, {"run": _of_run(self, what)})


class RunEnded(InstanceEvent):
    """A run of it has ended, well or not, and that is recorded.

    Attributes:
        late: How long after it was due it began.
        took: How long it took.
        outcome: How its instance has ended by that; None: it runs again.
        retry_in: After how long; None: it does not.
        worker: Who ran it outside of its node; None: nobody, or nobody knows.
    """

    late: timedelta
    took: timedelta
    outcome: Outcome | None
    retry_in: timedelta | None
    worker: str | None = None


class RunDeferred(InstanceEvent):
    """A run of it has asked to be followed by another; that is yet to be recorded.

    Its handler has raised ``RetryAfter``, or whoever had the work has called ``fail``
    with ``retry_in``.

    Attributes:
        runs: How many runs it has had, with this one; ``attempt`` counts claims.
        retry_in: After how long it is to run again.
        error: Why, with a traceback.
        worker: Who ran it outside of its node; None: nobody, or nobody knows.
    """

    runs: int
    retry_in: timedelta
    error: str
    worker: str | None = None

    @property
    def _line(self) -> Line:
        run = _of_run(self, f"asks to be run again in {self.retry_in}")
        # A RetryAfter is no failure, so its traceback is left out. In an exception
        # group the last line is followed by a rule.
        why = self.error.rstrip(" +-\n").rpartition("\n")[2].lstrip(" |")
        return Line(INFO, _RUN, {"run": run, "error": why})


def _of_run(event: RunFailed | RunDeferred, what: str) -> str:
    """How a run ended, with its number and its worker."""
    on = "" if event.worker is None else f"on worker {event.worker} "
    # After a give-back or a takeover the attempt is higher than the number of runs.
    number = f"(run {event.runs}) " if event.runs not in (0, event.attempt) else ""
    return f"{number}{on}{what}"


class RunHung(InstanceEvent):
    """A run of it had no result in time and is presumed hung.

    Attributes:
        allowed: How long it might take.
    """

    allowed: timedelta

    _line = Line(WARNING, f"{_ATTEMPT} has no result in time, presumed hung")


class RunTimedOut(InstanceEvent):
    """A run of it has had no result when its timeout had passed.

    Attributes:
        timeout: How long it might run.
        ended: Whether it could be told to end: its task is cancelled, its process
            ended, or who runs it elsewhere told. Otherwise it is left behind, and
            counts as hung.
    """

    timeout: timedelta
    ended: bool

    @property
    def _line(self) -> Line:
        then = (
            "it is told to end" if self.ended else "it cannot be ended, presumed hung"
        )
        text = f"{_ATTEMPT} has no result after its timeout, {self.timeout}: {then}"
        return Line(WARNING, text)


class RunLeftBehind(InstanceEvent):
    """A run of it has failed after its scheduler has stopped, and is not counted.

    Attributes:
        error: Why it failed, with a traceback.
    """

    error: str

    _line = Line(
        WARNING, _RUN, {"run": "was left behind, has failed and is given back"}
    )


class CompletedRunFailed(InstanceEvent):
    """A run of it raised after the transaction of its ``complete_in()`` had committed.

    Attributes:
        error: What it raised, with a traceback.
    """

    error: str

    _line = Line(ERROR, f"{_ATTEMPT} is completed, but failed afterwards: %(error)s")


class InstanceLost(InstanceEvent):
    """Its claim was lost while it ran: another node may have it, or it is gone."""

    _line = Line(WARNING, f"{_ATTEMPT} has lost its claim")


class ResultDiscarded(InstanceEvent):
    """The result of a run of it was not taken: its claim had been lost."""

    _line = Line(
        WARNING,
        "instance %(instance_id)s: the result of attempt %(attempt)d is discarded, its"
        " claim is lost",
    )


class InstanceLocked(InstanceEvent):
    """A write about it has to wait: another transaction has locked it for a second.

    Attributes:
        write: Which.
    """

    write: Write

    @property
    def _line(self) -> Line:
        waits = {
            Write.START: f"{_LOCKED}, its start has to wait",
            Write.RENEWAL: f"its claim is not renewed yet, {_EVERY_SECOND}",
            Write.END: f"its end is not recorded yet, {_EVERY_SECOND}",
        }
        return Line(WARNING, f"instance %(instance_id)s: {waits[self.write]}")


class InstanceUnrecorded(InstanceEvent):
    """A write about it failed, and is tried again.

    Attributes:
        write: Which.
        retry_in: After how long.
        error: Why, as text.
        exception: The same, as it was raised.
    """

    write: Write
    retry_in: timedelta
    error: str
    exception: BaseException = field(repr=False, compare=False)

    @property
    def _line(self) -> Line:
        fails = {
            Write.START: "its start cannot be recorded, it is tried again",
            Write.RENEWAL: "its claim cannot be renewed, next try in %(retry_in)g s",
            Write.END: "its end cannot be recorded, next try in %(retry_in)g s",
        }
        text = f"instance %(instance_id)s: {fails[self.write]}: %(exception)r"
        return Line(ERROR, text)


class ResultLost(InstanceEvent):
    """What became of a run of it cannot be told: it runs again when its claim lapses.

    Attributes:
        error: Why, as text.
        exception: The same, as it was raised.
    """

    error: str
    exception: BaseException = field(repr=False, compare=False)

    _line = Line(ERROR, "instance %(instance_id)s: its outcome cannot be told")


class ClaimAnswerLost(Event):
    """The answer to a claim was lost; what was claimed by it is given back.

    Attributes:
        node: The node.
        count: How many instances that are.
    """

    node: UUID
    count: int

    _line = Line(
        WARNING, "the answer to a claim was lost: %(count)d instances are given back"
    )


class BusAway(Event):
    """The bus cannot be reached: what is to run over it waits."""

    _line = Line(WARNING, "the bus cannot be reached: what is to run over it waits")


class BusBack(Event):
    """The bus answers again.

    Attributes:
        away: How long it did not.
    """

    away: timedelta

    _line = Line(INFO, "the bus answers again, after %(away).0f s")


class StatusRefused(Event):
    """What a worker said over the bus is not recorded, and never will be.

    Attributes:
        instance_id: Of which instance it was; None: it could not be read.
        attempt: Of which attempt; None likewise.
        worker: Who said it; None likewise.
        reason: Why it is not recorded.
    """

    instance_id: UUID | None
    attempt: int | None
    worker: str | None
    reason: str

    @property
    def _line(self) -> Line:
        if self.instance_id is None:
            return Line(WARNING, "a status is not recorded: %(reason)s", ids=())
        return Line(
            WARNING,
            "a status of worker %(worker)s of instance %(instance_id)s, attempt"
            " %(attempt)s, is not recorded: %(reason)s",
            ids=("instance_id", "attempt", "worker"),
        )


class RequestEvent(Event):
    """A request, of which no token and no body is told.

    Attributes:
        subject: Who sent it: of a token or key, or *anybody*; None: that is not known.
        address: From where, as far as that is known.
        method: Its method.
        path: Its path as it was sent, without a query, of 200 characters at most.
        scopes: What the caller had to be allowed to.
        status: That of the answer.
    """

    subject: str | None
    address: str | None
    method: str
    path: str
    scopes: tuple[str, ...]
    status: int

    def _line_of(self, text: str) -> Line:
        who = "somebody" if self.subject is None else self.subject
        return Line(
            INFO,
            text,
            {"who": who, "where": self.address or "nowhere"},
            ids=("subject", "address", "status"),
        )


class RequestAllowed(RequestEvent):
    """A request was let in; its answer may still say that it is wrong."""

    @property
    def _line(self) -> Line | None:
        # Requests of workers are told by the events of their runs.
        is_read = self.method in ("GET", "HEAD", "OPTIONS")
        if is_read or self.scopes == ("workers",):
            return None
        return self._line_of(ANSWERED)


class RequestRefused(RequestEvent):
    """A request was refused to its caller, or as there were too many.

    Attributes:
        reason: Why.
    """

    reason: str

    @property
    def _line(self) -> Line:
        return self._line_of(f"{_REQUEST} refused by %(status)d: %(reason)s")


class NodeStarted(Event):
    """A scheduler was started, as this node.

    Attributes:
        node: The node.
        queues: The queues that it serves; empty: it has no handler.
        max_workers: The most handlers that run at once.
    """

    node: UUID
    queues: tuple[str, ...]
    max_workers: int

    _line = Line(INFO, "node %(node)s starts")


class NodeStopped(Event):
    """It has stopped.

    Attributes:
        node: The node.
        clean: Whether everything came back and was recorded.
    """

    node: UUID
    clean: bool

    @property
    def _line(self) -> Line:
        left = "" if self.clean else " and left work behind"
        return Line(INFO, f"node %(node)s has stopped{left}")


class LoopFailed(Event):
    """A tick of a loop failed; it will be tried again.

    Attributes:
        loop: The loop, by the name that it has in ``health().loops``.
        failures: How many of its ticks have failed in a row.
        error: Why, as text.
        exception: The same, as it was raised.
    """

    loop: str
    failures: int
    error: str
    exception: BaseException = field(repr=False, compare=False)

    @property
    def _line(self) -> Line:
        return Line(
            WARNING if self.failures == 1 else DEBUG,
            "the %(loop)s failed and will try again: %(exception)r",
            {"ticker": self.loop},
            ids=("ticker", "failures"),
        )


class LoopRecovered(Event):
    """A loop goes on.

    Attributes:
        loop: The loop, by the name that it has in ``health().loops``.
        failures: How many of its ticks had failed in a row.
    """

    loop: str
    failures: int

    _line = Line(INFO, "the %(loop)s goes on after %(failures)d failures")


class StoreAway(Event):
    """A loop failed for want of the store, the first to do so.

    Attributes:
        loop: The loop.
        error: Why, as text.
    """

    loop: str
    error: str


class StoreBack(Event):
    """No loop fails for want of the store any more.

    Attributes:
        away: For how long that had been so.
    """

    away: timedelta


class ExecutorFailed(Event):
    """The executor takes no more handlers.

    Attributes:
        error: Why, as text.
        exception: The same, as it was raised.
    """

    error: str
    exception: BaseException = field(repr=False, compare=False)

    _line = Line(
        ERROR,
        "the executor takes no more handlers: %(exception)r",
        # It is not our code.
        with_traceback=False,
    )


class ExecutorRecovered(Event):
    """The executor takes handlers again."""

    _line = Line(WARNING, "the executor takes handlers again")


class ObjectiveBroken(Event):
    """More than one run in a hundred began too late here in the last minute.

    Attributes:
        node: The node.
        objective: Its ``lateness_objective``.
        runs: How many runs began.
        late: How many of them were too late.
    """

    node: UUID
    objective: timedelta
    runs: int
    late: int

    _line = Line(
        WARNING,
        "%(late)d of the last minute's %(runs)d runs are more than %(objective)g s"
        " late",
    )


class ObjectiveMet(Event):
    """The last minute's runs began in time again, but for one in a hundred at most.

    Attributes:
        node: The node.
        objective: Its ``lateness_objective``.
        after: After how long.
    """

    node: UUID
    objective: timedelta
    after: timedelta

    _line = Line(
        INFO, "runs are at most %(objective)g s late again, after %(after).0f s"
    )


class QueueUnserved(Event):
    """Something is due in a queue that no node serves, and has not for a minute.

    Attributes:
        queue: The queue.
        text: The same for a person to read, with the queues that are served.
    """

    queue: str
    text: str

    _line = Line(WARNING, "%(text)s")


class NoticeGiven(Event):
    """Something is as nobody may have meant it; each is told once.

    Attributes:
        text: What, for a person to read.
        is_warning: Whether somebody should look into it; if it lasts, it is among the
            warnings of ``health()``.
        definition_id: The definition with which it was noticed, if it was one.
        instance_id: And the instance.
    """

    text: str
    is_warning: bool = True
    definition_id: UUID | None = None
    instance_id: UUID | None = None

    @property
    def _line(self) -> Line:
        return Line(WARNING if self.is_warning else INFO, "%(text)s")
