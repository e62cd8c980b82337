"""Definitions, instances, runs and nodes, and the small frozen values of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID, uuid4, uuid5

from go_scheduler.argument_hints import write_instead
from go_scheduler.checks import (
    LEAST_EXPIRE_AFTER,
    PRIORITIES,
    check_at_least,
    check_id,
    check_key,
    check_name,
    check_note,
    check_number,
    check_policy,
    check_trace_context,
    check_type,
)
from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import brief, shown, utc_text
from go_scheduler.json import JSON, NOTHING, check_text, freeze, is_same
from go_scheduler.models.counts import (
    BOUNDS,
    COUNTED,
    Backlog,
    Counted,
    Counts,
    Histogram,
    QueueStats,
)
from go_scheduler.policies import CatchUp, Overlap, RetryPolicy, check_overlap
from go_scheduler.triggers.base import Trigger, utc

__all__ = [
    "BOUNDS",
    "COUNTED",
    "METADATA_LIMIT",
    "OPEN",
    "PAYLOAD_LIMIT",
    "RESULT_LIMIT",
    "RUNS",
    "RUNS_KEPT",
    "WAITING",
    "Backlog",
    "Cancelled",
    "Counted",
    "Counts",
    "DefinitionState",
    "Deleted",
    "Extension",
    "Histogram",
    "NodeInfo",
    "Outcome",
    "Pause",
    "QueueStats",
    "RunEnd",
    "Silence",
    "Skipped",
    "Stage",
    "State",
    "TaskDefinition",
    "TaskInstance",
    "TaskRun",
]


class Outcome(StrEnum):
    """What became of an instance in the end."""

    COMPLETED = "completed"
    """Its handler returned."""
    FAILED = "failed"
    """Its last run failed, and its retry policy allows no more."""
    CANCELLED = "cancelled"
    """It will not run: somebody cancelled it or deleted its definition."""
    SKIPPED = "skipped"
    """It will not run, by a policy: ``skipped`` says why."""


class State(StrEnum):
    """Where an instance stands."""

    PENDING = "pending"
    """No node has it: it is not due yet, or waits for a node, for its next run, or for
    another instance to end."""
    CLAIMED = "claimed"
    """A node has it, and has not called its handler."""
    RUNNING = "running"
    """Its handler is about to be called, runs, or ran where its node has died."""
    CANCELLING = "cancelling"
    """Likewise, and the run has been asked to stop: somebody has cancelled it, or
    another instance takes its place."""
    COMPLETED = "completed"
    """It has ended: its handler returned."""
    FAILED = "failed"
    """It has ended: its last run failed, and its retry policy allows no more."""
    CANCELLED = "cancelled"
    """It has ended: somebody cancelled it or deleted its definition."""
    SKIPPED = "skipped"
    """It has ended: it will not run, by a policy; ``skipped`` says why."""


RUNS = (State.RUNNING, State.CANCELLING)
"""Those of an instance that runs."""
WAITING = (State.CLAIMED, State.PENDING)
"""Those of an instance that has not ended and does not run."""
OPEN = (*RUNS, *WAITING)
"""Those of an instance that has not ended, the most urgent first."""


class DefinitionState(StrEnum):
    """Where a definition stands."""

    ACTIVE = "active"
    """It has a fire time to come, waits for a run to end, or fires on demand."""
    PAUSED = "paused"
    """Nothing of it starts until it is resumed."""
    COMPLETED = "completed"
    """Each fire time has its instance, paused or not. The last may still be to run, as
    instances are made shortly before they are due; ``list_instances`` shows it."""


class Cancelled(StrEnum):
    """What a request to cancel came to."""

    CANCELLED = "cancelled"
    """It will not run."""
    REQUESTED = "requested"
    """It runs, or is about to: its node will be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """What the delete of a definition came to.

    Attributes:
        running: How many of its instances had been recorded as started. They run, or
            are about to, in this process or another; their results are dropped.
    """

    running: int


class Extension(StrEnum):
    """The answer to a run that asks for more time."""

    GO_ON = "go on"
    """It has the time."""
    STOP = "stop"
    """It has the time, and somebody has asked it to stop."""
    LOST = "lost"
    """It has lost its claim: it runs elsewhere by now, or the instance is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause that has ended.

    Attributes:
        since: When it began.
        until: When the definition was resumed.
        note: Why it was paused.
    """

    since: datetime
    until: datetime
    note: str | None = None

    def explained(self, reason: str, first: datetime, last: datetime) -> str:
        """The reason of a skip, with the pause if that was part of the reason.

        Args:
            reason: The reason.
            first: When the first of what was skipped was to run.
            last: When the last of it was, or when that was decided.
        """
        if last < self.since or first > self.until:
            return reason
        paused = (
            f"{reason}; paused from {utc_text(self.since)} to {utc_text(self.until)}"
        )
        return _with_note(paused, self.note)


def explained_by_pause(reason: str, since: datetime, note: str | None) -> str:
    """The reason of a skip, with the pause that has not ended."""
    return _with_note(f"{reason}; paused since {utc_text(since)}", note)


def _with_note(reason: str, note: str | None) -> str:
    return reason if note is None else f"{reason}: {note}"


METADATA_LIMIT = 64 * 1024
"""The most bytes a definition's metadata may have, as JSON text in UTF-8."""

POLICIES = (
    *("expire_after", "timeout", "start_timeout", "heartbeat_timeout", "retry"),
    *("catch_up", "jitter", "overlap", "lock", "max_per_node", "max_queue"),
    "when_full",
)
"""The fields that say how instances run, in the order in which they are shown."""

OVERRIDABLE = (
    *("queue", "priority", "expire_after", "timeout", "start_timeout"),
    *("heartbeat_timeout", "retry", "lock", "metadata"),
)
"""The fields that an instance may have of its own: ``TaskInstance.overrides``."""

_MOST_COUNTED = 10**9
_WHEN_FULL = ("refuse", "drop")
_LIMITS = ("expire_after", "timeout", "start_timeout", "heartbeat_timeout")
_IDS = UUID("7c0ee4ed-6d0c-4dbb-8f5c-0b1a6c1d8a52")


@write_instead('TaskDefinition(trigger=CronTrigger("0 9 * * *"), name="report")')
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDefinition:
    """What to run, and when.

    Two definitions are equal if all that a user sets is; what the store keeps
    (``named``, ``owner``, ``next_fire_time``, ``paused``, ``note``, ``paused_at``,
    ``last_pause``, ``overdue``, ``completed_at``, ``revision``) is not compared, nor is
    ``trace_context``. A copy with another ``id`` is a new definition, at no revision;
    that of a paused one is paused, too.

    Attributes:
        trigger: Says when it fires.
        id: Its identity; scheduling the same id again replaces the definition. One that
            is passed, or made of a ``key``, is remembered when the definition has ended
            and is gone: scheduled again with an equal trigger, it does not run again.
        key: What you call it: its id is made of this text, by ``id_for``, so that no
            other definition has the same key. At most 2,000 characters, and no UUID.
            None: it has none.
        name: Which handler of a ``HandlerRegistry`` runs it; at most 200 characters.
        queue: Which nodes run it: those that serve this queue; at most 200 characters.
        priority: Its class, from 0 to 3. Of what is due in a queue, what is in a
            smaller one is claimed first; but one claim in eight begins at the last.
        metadata: The user's payload: a JSON object of at most 64 KiB, read-only.
        expire_after: How long a run may take before it is presumed hung and the
            instance runs again, at least 100 milliseconds; None: the scheduler's
            default.
        timeout: How long a handler may run before it is told to end, at least 100
            milliseconds: an async one is cancelled, a process of a ``ProcessExecutor``
            ended, what runs elsewhere left behind. The run has failed, and ``retry``
            applies. None: the scheduler's default.
        start_timeout: How long a run that is published on a bus may wait until a worker
            accepts it, and after that until it begins, at least 100 milliseconds; None:
            what publishes it decides.
        heartbeat_timeout: How long a worker on a bus that has begun a run may be silent
            before that is presumed lost, at least 100 milliseconds; None: as long as
            ``expire_after``.
        retry: What happens after a run that did not succeed; None: the default of the
            scheduler that runs it.
        catch_up: What becomes of what is late; None: the scheduler's default.
        jitter: Run each instance later than its fire time, by up to so much: how much
            follows from id and fire time. None: the scheduler's default.
        overlap: What becomes of an instance that is due while another one of the same
            definition runs, on any node; its text, such as ``"skip"``, will do.
        lock: Of all definitions with the same lock one instance runs at a time, on all
            nodes together, and the others wait for it; at most 200 characters.
        max_per_node: How many of its instances one node has in its hands at once, at
            least 1: what is beyond it is left to others, or comes later. None: as many
            as there are workers.
        max_queue: How many of its instances may wait, which have not ended and do not
            run, at least 1: beyond it fire times are skipped, and ``when_full`` says
            what becomes of what is added. What was published on a message bus waits
            until a worker begins it. None: any number.
        when_full: What becomes of what is added beyond ``max_queue``: ``"refuse"``
            raises ``QueueFullError``; ``"drop"`` records each as skipped. Without a
            ``max_queue`` nothing is beyond it.
        named: Whether its id was passed, and not made up. Kept by the store.
        owner: Whose set it is declared in, see ``declare``; None: in no set. Kept by
            the store.
        next_fire_time: The next fire time without an instance. Kept by the store.
        paused: Whether it is paused; a new one may be from the beginning. After that
            kept by the store: ``pause`` and ``resume`` change it, ``schedule`` does
            not.
        note: Why it was paused. Kept like that.
        paused_at: Since when it has been paused. Kept by the store.
        last_pause: The last pause that has ended. Kept by the store.
        overdue: Whether its only fire time had passed already when it was scheduled; of
            its ``catch_up`` only ``drop_after`` applies then. It does not tell whether
            one that was scheduled in time is late now. Kept by the store.
        trace_context: The trace in which it was put or last changed, as the tracer
            wrote it, such as the traceparent of W3C, a space and the tracestate: at
            most 600 characters of ASCII.
            ``schedule`` sets it where there is a trace; a store may leave it out.
        completed_at: When its last fire time was given its instance. Kept by the store.
        revision: Rises with every change. Kept by the store; set it, or pass on a
            definition that was read, and scheduling it raises ``ConflictError`` if
            somebody else has changed it since. 0: likewise if there is one with its id,
            as it is to be a new one.

    Raises:
        ConfigurationError: A value is of the wrong type, out of range, or one that no
            store can keep.
    """

    trigger: Trigger
    id: UUID = None  # type: ignore[assignment]
    key: str | None = None
    name: str | None = None
    queue: str = "default"
    priority: int = 1
    metadata: Mapping[str, JSON] = field(default_factory=lambda: NOTHING, hash=False)
    expire_after: timedelta | None = None
    timeout: timedelta | None = None
    start_timeout: timedelta | None = None
    heartbeat_timeout: timedelta | None = None
    retry: RetryPolicy | None = None
    catch_up: CatchUp | None = None
    jitter: timedelta | None = None
    overlap: Overlap = Overlap.ALLOW
    lock: str | None = None
    max_per_node: int | None = None
    max_queue: int | None = None
    when_full: Literal["refuse", "drop"] = "refuse"
    named: bool = field(  # type: ignore[assignment]
        default=None, compare=False, repr=False
    )
    owner: str | None = field(default=None, compare=False)
    next_fire_time: datetime | None = field(default=None, compare=False)
    paused: bool = field(default=False, compare=False)
    note: str | None = field(default=None, compare=False)
    paused_at: datetime | None = field(default=None, compare=False)
    last_pause: Pause | None = field(default=None, compare=False)
    overdue: bool = field(default=False, compare=False)
    trace_context: str | None = field(default=None, compare=False)
    completed_at: datetime | None = field(default=None, compare=False)
    revision: int | None = field(default=None, compare=False)
    # The id that the revision belongs to: dataclasses.replace() may change the id.
    _revision_of: UUID | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_type("trigger", self.trigger, Trigger)
        self._identify()
        for name in ("name", "lock", "owner"):
            if (text := getattr(self, name)) is not None:
                object.__setattr__(self, name, check_name(name, text))
        object.__setattr__(self, "queue", check_name("queue", self.queue))
        check_number("priority", self.priority, PRIORITIES[0], PRIORITIES[-1])
        for name in _LIMITS:
            if (limit := getattr(self, name)) is not None:
                check_at_least(name, limit, LEAST_EXPIRE_AFTER)
        if self.retry is not None:
            check_policy("retry", self.retry, RetryPolicy)
        if self.catch_up is not None:
            check_policy("catch_up", self.catch_up, CatchUp)
        if self.jitter is not None:
            check_at_least("jitter", self.jitter, ZERO)
        object.__setattr__(self, "overlap", check_overlap(self.overlap))
        for name in ("max_per_node", "max_queue"):
            if (most := getattr(self, name)) is not None:
                check_number(name, most, 1, _MOST_COUNTED)
        if self.when_full not in _WHEN_FULL:
            raise ConfigurationError(
                f"when_full must be one of {', '.join(map(repr, _WHEN_FULL))}:"
                f" {shown(self.when_full)}"
            )
        check_type("paused", self.paused, bool)
        if self.note is not None:
            object.__setattr__(self, "note", check_note(self.note))
        if (context := self.trace_context) is not None:
            object.__setattr__(self, "trace_context", check_trace_context(context))
        frozen = freeze(self.metadata, name="metadata", limit=METADATA_LIMIT)
        object.__setattr__(self, "metadata", frozen)
        if self.revision is not None:
            check_type("revision", self.revision, int)
        for name in ("next_fire_time", "paused_at", "completed_at"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, utc(value, name=name))

    def _identify(self) -> None:
        """Set the id, note whether it was passed, and keep the revision with its id."""
        id: UUID | None = self.id
        named: bool | None = self.named
        if self.key is not None:
            object.__setattr__(self, "key", check_key(self.key))
            made = self.id_for(self.key)
            if id not in (None, made):
                raise ConfigurationError(
                    f"key {shown(self.key)} makes the id {made}: leave out the id, or"
                    " the key"
                )
            id = made
        passed = id is not None
        if id is None:
            id = uuid4()
        if named is None:
            named = passed
        check_id(id)
        check_type("named", named, bool)
        if self._revision_of not in (None, id):
            object.__setattr__(self, "revision", None)
            named = passed
        object.__setattr__(self, "id", id)
        object.__setattr__(self, "named", named)
        object.__setattr__(self, "_revision_of", id)

    def __repr__(self) -> str:
        return brief(self)

    @property
    def recurring(self) -> bool:
        """Whether its trigger can fire more than once."""
        return self.trigger.recurring

    @property
    def label(self) -> str | None:
        """Its name, and its key in parentheses; None: it has neither."""
        if self.key in (None, self.name):
            return self.name
        return f"({self.key})" if self.name is None else f"{self.name} ({self.key})"

    @property
    def state(self) -> DefinitionState:
        """Where it stands, read from what the store keeps."""
        if self.completed_at is not None:
            return DefinitionState.COMPLETED
        return DefinitionState.PAUSED if self.paused else DefinitionState.ACTIVE

    def is_same(self, other: TaskDefinition) -> bool:
        """Whether putting one over the other changes nothing.

        That is equality, but ``1`` and ``True`` in the metadata are not the same.
        """
        return self == other and is_same(self.metadata, other.metadata)

    @staticmethod
    def id_for(key: str) -> UUID:
        """The same id for the same key, everywhere and always.

        It is the UUID of version 5 of the text in UTF-8, in the namespace
        ``7c0ee4ed-6d0c-4dbb-8f5c-0b1a6c1d8a52``.

        Args:
            key: Any text but the empty one, such as ``"nightly report"``.
        """
        check_type("key", key, str)
        check_text(key, "key")
        if not key:
            raise ConfigurationError("key must not be empty")
        return uuid5(_IDS, key)


class Stage(StrEnum):
    """How far a run has come that was handed on over a bus."""

    PUBLISHED = "published"
    """It is on the bus, and no worker has accepted it."""
    ACCEPTED = "accepted"
    """A worker has it, and has not begun it."""
    STARTED = "started"
    """It runs there."""


def stage_of(accepted_at: datetime | None, start_by: datetime | None) -> Stage | None:
    """The stage of a run, from its stored fields; None: it is not on a bus."""
    if start_by is None:
        return None if accepted_at is None else Stage.STARTED
    return Stage.PUBLISHED if accepted_at is None else Stage.ACCEPTED


def step_of(stage: Stage | None) -> int:
    """A stage as a number, to be compared: 0 for none, 1 for the first."""
    return 0 if stage is None else _STEPS[stage]


_STEPS = {stage: number for number, stage in enumerate(Stage, start=1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A run on a bus that has come no further in time.

    Attributes:
        stage: How far it had come.
        worker: Who had it; None: nobody, or nobody knows.
        within: In what time it was to be accepted, or to begin; None: it had begun.
    """

    stage: Stage
    worker: str | None = None
    within: timedelta | None = None


PAYLOAD_LIMIT = METADATA_LIMIT
"""The most bytes the payload of an instance may have, as JSON text in UTF-8."""
RESULT_LIMIT = METADATA_LIMIT
"""The same of its result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """What will not run, recorded in one instance.

    Fire times for which no instance was made are one record of their own, without a
    ``fire_time``. An instance that was made and is not run after all stands for itself.

    Attributes:
        first: The first of the fire times; of one without, when it was to run.
        last: The last of them; if the reason says that there may be more, they are up
            to then.
        count: How many there are; at least so many if the reason says so.
        reason: Why they do not run, for a person to read.
    """

    first: datetime
    last: datetime
    count: int
    reason: str

    @classmethod
    def itself(cls, at: datetime, reason: str) -> Skipped:
        """The record of one instance that was made and will not run."""
        return cls(first=at, last=at, count=1, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInstance:
    """One firing of a definition. All times are the store's, in UTC.

    Attributes:
        id: Its identity, the same over all attempts: use it to recognise a repetition.
        definition: Its definition, as of this reading or of the start of its run, with
            the ``overrides`` in the place of its own values. One that has ended keeps
            its queue, whatever becomes of that of its definition.
        fire_time: The trigger's own time; None: it was made without one, or is the
            record of several.
        payload: What it was enqueued or run by hand with; read-only. None: nothing.
        key: No other instance of its definition has the same; None: it has none.
        backfilled: The overlap it was backfilled with; None: it was not.
        reopened_at: When it was last made to run again by hand; None: it was not.
        execute_at: When it is to run. A retry does not change it.
        due_at: When it may run next: ``execute_at`` at first, later for a retry.
        attempt: Rises with every claim: ``(id, attempt)`` is the fencing token.
        runs: How often its handler has been started.
        hangs: How many of its last runs in a row were presumed hung.
        claimed_by: The node that has it; None: no node.
        expires_at: Until when that claim holds unless it is renewed.
        started_at: When the present or last run began.
        completed_at: When it ended for good.
        outcome: How it ended; None: not yet.
        ended_attempt: The attempt whose run ended it; None: no run did, or not yet.
        error: The text and traceback of the last run that failed.
        cancel_requested: Whether its run has been asked to stop.
        parked: Whether it waits for another instance to end, by ``overlap`` or
            ``lock`` of its definition.
        skipped: Which fire times it stands for, and why they do not run.
        worker: Who runs it outside of that node, or did at last; None: nobody, or
            nobody knows. What a claim or a start answers is without it.
        result: What ``complete`` was told of its success, a read-only JSON value.
        created_at: When it was made; None: nobody knows.
        client: What a remote worker reported of its last run: when that began and
            ended by the worker's clock; a read-only JSON value, or None.
        own_trace_context: The trace in which it was asked for; None: that of its
            definition, or not known.
        accepted_at: When a worker on a bus accepted its present or last run; None: none
            has.
        start_by: Until when its run on a bus is to be accepted, or else to begin; None:
            it has begun, or is on none.
        progress: The last report of how far its run has come, a read-only JSON value.
        given_back: Why it was given back without having been run, until a node claims
            it again; None: it was not, or nobody has said.
        overrides: The fields of its definition that it has of its own, by their names;
            None: it has none.
        silence: What is known of the previous run, if its claim lapsed on a bus; only
            set in the answer of the claim that takes it over.
    """

    id: UUID
    definition: TaskDefinition
    fire_time: datetime | None
    execute_at: datetime
    due_at: datetime
    attempt: int = 0
    runs: int = 0
    hangs: int = 0
    claimed_by: UUID | None = None
    expires_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    outcome: Outcome | None = None
    ended_attempt: int | None = None
    error: str | None = None
    cancel_requested: bool = False
    parked: bool = False
    skipped: Skipped | None = None
    payload: Mapping[str, JSON] | None = field(default=None, hash=False)
    key: str | None = None
    backfilled: Overlap | None = None
    reopened_at: datetime | None = None
    worker: str | None = None
    result: JSON = field(default=None, hash=False)
    created_at: datetime | None = None
    client: JSON = field(default=None, hash=False)
    own_trace_context: str | None = None
    accepted_at: datetime | None = None
    start_by: datetime | None = None
    progress: JSON = field(default=None, hash=False)
    given_back: str | None = None
    overrides: Mapping[str, Any] | None = field(default=None, hash=False)
    silence: Silence | None = None

    def __repr__(self) -> str:
        return brief(self)

    @property
    def definition_id(self) -> UUID:
        """Its definition's id."""
        return self.definition.id

    @property
    def metadata(self) -> Mapping[str, JSON]:
        """Its definition's metadata."""
        return self.definition.metadata

    @property
    def trace_context(self) -> str | None:
        """The trace in which it was asked for, else that of its definition."""
        return self.own_trace_context or self.definition.trace_context

    @property
    def stage(self) -> Stage | None:
        """How far its present or last run has come on a bus; None: it is on none."""
        return stage_of(self.accepted_at, self.start_by)

    @property
    def state(self) -> State:
        """Where it stands, read from its fields."""
        if self.outcome is not None:
            return State(self.outcome.value)
        if self.claimed_by is None:
            return State.PENDING
        if self.started_at is None:
            return State.CLAIMED
        return State.CANCELLING if self.cancel_requested else State.RUNNING


RUNS_KEPT = 20
"""How many of the last runs of an instance are recorded with their end."""


class RunEnd(StrEnum):
    """How a run ended that did not end its instance well."""

    FAILED = "failed"
    """Its handler raised, or it was said to have failed."""
    HUNG = "hung"
    """It had no end in time, and is presumed to hang."""
    CANCELLED = "cancelled"
    """It did not succeed after it had been asked to stop."""
    LOST = "lost"
    """It came to no end before its claim was taken over: its node died, perhaps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """A run that did not end its instance well. All times are the store's, in UTC.

    Attributes:
        instance_id: What was run.
        attempt: As which attempt.
        node: The node that had claimed it.
        started_at: When it began.
        ended_at: When its end was recorded.
        outcome: How it ended.
        error: What it raised, with a traceback; None: nothing is known.
        worker: Who ran it outside of that node; None: nobody, or nobody knows.
        lost_in: With the outcome *lost*, the stage that it had on a bus; None: it was
            on none.
    """

    instance_id: UUID
    attempt: int
    node: UUID | None
    started_at: datetime | None
    ended_at: datetime
    outcome: RunEnd
    error: str | None
    worker: str | None = None
    lost_in: Stage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """One start of a scheduler, in any process, and what it runs.

    Attributes:
        id: Its id, fresh for every start: that of ``TaskInstance.claimed_by``.
        host: The name of its machine; None: it is not known.
        pid: Its process; None: it is not known.
        version: That of ``go_scheduler`` there; None: it is not known.
        queues: Those that it serves; empty: it runs nothing. None: they are not known.
        names: Those for which it has a handler. None: it takes any name, or they are
            more than a thousand.
        since: Since when it has reached the store without a break.
        seen_at: When it last did.
        stopping: Whether it has been told to stop, and takes nothing more.
        alive: Whether it was seen within the last ``lease`` of its own, or minute if
            that is not known.
    """

    id: UUID
    host: str | None
    pid: int | None
    version: str | None
    queues: tuple[str, ...] | None
    names: tuple[str, ...] | None
    since: datetime
    seen_at: datetime
    stopping: bool
    alive: bool

    def __str__(self) -> str:
        if self.host is None:
            return f"node {self.id}"
        return f"node {self.id} (host {self.host}, pid {self.pid})"

    @property
    def takes_on(self) -> bool:
        """Whether it lives, and takes what is due."""
        return self.alive and not self.stopping

    def serves(self, queue: str) -> bool:
        """Whether it runs what is in a queue, as far as is known."""
        return self.queues is None or queue in self.queues

    def knows(self, name: str | None) -> bool:
        """Whether it has a handler for a name, as far as is known."""
        return self.names is None or name in self.names
