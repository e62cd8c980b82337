"""Definitions, instances, and the small frozen values they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID, uuid4, uuid5

from go_scheduler.checks import (
    LEAST_EXPIRE_AFTER,
    check_at_least,
    check_id,
    check_name,
    check_note,
    check_policy,
    check_positive,
    check_priority,
    check_type,
)
from go_scheduler.instead import write_instead
from go_scheduler.json import JSON, FrozenObject, check_text, freeze, is_same
from go_scheduler.policies import CatchUp, Overlap, RetryPolicy
from go_scheduler.triggers.base import Trigger, utc

METADATA_LIMIT = 64 * 1024
"""The most bytes a definition's metadata may have, as JSON text in UTF-8."""

PAYLOAD_LIMIT = METADATA_LIMIT
"""The same for the payload of an instance."""

_IDS = UUID("7c0ee4ed-6d0c-4dbb-8f5c-0b1a6c1d8a52")


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
    COMPLETED = "completed"
    """It has ended: its handler returned."""
    FAILED = "failed"
    """It has ended: its last run failed, and its retry policy allows no more."""
    CANCELLED = "cancelled"
    """It has ended: somebody cancelled it or deleted its definition."""
    SKIPPED = "skipped"
    """It has ended: it will not run, by a policy; ``skipped`` says why."""


class DefinitionState(StrEnum):
    """Where a definition stands."""

    ACTIVE = "active"
    """It has a fire time to come, waits for a run to end, or fires on demand."""
    PAUSED = "paused"
    """Nothing of it starts until it is resumed."""
    COMPLETED = "completed"
    """Each fire time has its instance, paused or not. The last may still be to run, as
    instances are made shortly before they are due; ``list_instances`` shows it."""


@write_instead('TaskDefinition(trigger=CronTrigger("0 9 * * *"), name="report")')
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDefinition:
    """What to run, and when.

    Two definitions are equal if all that a user sets is; what the store keeps
    (``named``, ``owner``, ``next_fire_time``, ``paused``, ``note``, ``paused_at``,
    ``completed_at``, ``revision``) is not compared. A copy with another ``id`` is a new
    definition, at no revision; that of a paused one is paused, too.

    Attributes:
        trigger: Says when it fires.
        id: Its identity; scheduling the same id again replaces the definition. One that
            is passed is remembered when the definition has ended and is gone: scheduled
            again with an equal trigger, it does not run again.
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
        retry: What happens after a run that did not succeed; None: the scheduler's
            default.
        catch_up: What becomes of what is late; None: the scheduler's default.
        jitter: Run each instance later than its fire time, by up to so much: how much
            follows from id and fire time. None: at its fire time.
        overlap: What becomes of an instance that is due while another one of the same
            definition runs, on any node.
        lock: Of all definitions with the same lock one instance runs at a time, on all
            nodes together, and the others wait for it; at most 200 characters.
        named: Whether its id was passed, and not made up. Kept by the store.
        owner: Whose set it is declared in, see ``declare``; None: in no set. Kept by
            the store.
        next_fire_time: The next fire time without an instance. Kept by the store.
        paused: Whether it is paused; a new one may be from the beginning. After that
            kept by the store: ``pause`` and ``resume`` change it, ``schedule`` does
            not.
        note: Why it was paused. Kept like that.
        paused_at: Since when it has been paused. Kept by the store.
        completed_at: When its last fire time was given its instance. Kept by the store.
        revision: Rises with every change. Kept by the store; set it, or pass on a
            definition that was read, and scheduling it raises ``ConflictError`` if
            somebody else has changed it since.

    Raises:
        ConfigurationError: A value is of the wrong type, out of range, or one that no
            store can keep.
    """

    trigger: Trigger
    id: UUID = None  # type: ignore[assignment]
    name: str | None = None
    queue: str = "default"
    priority: int = 1
    metadata: Mapping[str, JSON] = field(default_factory=FrozenObject, hash=False)
    expire_after: timedelta | None = None
    timeout: timedelta | None = None
    retry: RetryPolicy | None = None
    catch_up: CatchUp | None = None
    jitter: timedelta | None = None
    overlap: Overlap = Overlap.ALLOW
    lock: str | None = None
    named: bool = field(default=None, compare=False)  # type: ignore[assignment]
    owner: str | None = field(default=None, compare=False)
    next_fire_time: datetime | None = field(default=None, compare=False)
    paused: bool = field(default=False, compare=False)
    note: str | None = field(default=None, compare=False)
    paused_at: datetime | None = field(default=None, compare=False)
    completed_at: datetime | None = field(default=None, compare=False)
    revision: int | None = field(default=None, compare=False)
    # Whose revision it is: dataclasses.replace() passes it on, with whatever new id.
    _revision_of: UUID | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_type("trigger", self.trigger, Trigger)
        self._identify()
        if self.name is not None:
            object.__setattr__(self, "name", check_name("name", self.name))
        object.__setattr__(self, "queue", check_name("queue", self.queue))
        check_priority(self.priority)
        for name in ("expire_after", "timeout"):
            if (limit := getattr(self, name)) is not None:
                check_at_least(name, limit, LEAST_EXPIRE_AFTER)
        if self.retry is not None:
            check_policy("retry", self.retry, RetryPolicy)
        if self.catch_up is not None:
            check_policy("catch_up", self.catch_up, CatchUp)
        if self.jitter is not None:
            check_positive("jitter", self.jitter)
        check_type("overlap", self.overlap, Overlap)
        if self.lock is not None:
            object.__setattr__(self, "lock", check_name("lock", self.lock))
        check_type("paused", self.paused, bool)
        if self.owner is not None:
            object.__setattr__(self, "owner", check_name("owner", self.owner))
        if self.note is not None:
            object.__setattr__(self, "note", check_note(self.note))
        frozen = freeze(self.metadata, name="metadata", limit=METADATA_LIMIT)
        object.__setattr__(self, "metadata", frozen)
        if self.revision is not None:
            check_type("revision", self.revision, int)
        for name in ("next_fire_time", "paused_at", "completed_at"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, utc(value, name=name))

    def _identify(self) -> None:
        """Settle the id, whether it was passed, and whose revision it has."""
        id: UUID | None = self.id
        named: bool | None = self.named
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

    @property
    def recurring(self) -> bool:
        """Whether its trigger can fire more than once."""
        return self.trigger.recurring

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

        Args:
            key: Any text, such as ``"nightly report"``.
        """
        check_type("key", key, str)
        check_text(key, "key")
        return uuid5(_IDS, key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """What will not run, recorded in one instance.

    Fire times for which no instance was made are one record of their own, without a
    ``fire_time``. An instance that was made and is not run after all stands for itself.

    Attributes:
        first: The first of the fire times; of one without, when it was to run.
        last: The last of them.
        count: How many there are; at least so many if the reason says so.
        reason: Why they do not run, for a person to read.
    """

    first: datetime
    last: datetime
    count: int
    reason: str

    @classmethod
    def itself(cls, at: datetime, reason: str) -> Skipped:
        """What an instance stands for that was made and is not run."""
        return cls(first=at, last=at, count=1, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInstance:
    """One firing of a definition. All times are the store's, in UTC.

    Attributes:
        id: Its identity, the same over all attempts: use it to recognise a repetition.
        definition: Its definition, as of this reading or of the start of its run.
        fire_time: The trigger's own time; None: it was made without one, or is the
            record of several.
        payload: What it was enqueued or run by hand with; read-only. None: nothing.
        key: No other instance of its definition has the same; None: it has none.
        backfilled: The overlap it was backfilled with; None: it was not.
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

    @property
    def metadata(self) -> Mapping[str, JSON]:
        """Its definition's metadata."""
        return self.definition.metadata

    @property
    def state(self) -> State:
        """Where it stands, read from its fields."""
        if self.outcome is not None:
            return State(self.outcome.value)
        if self.claimed_by is None:
            return State.PENDING
        return State.CLAIMED if self.started_at is None else State.RUNNING


class Cancelled(StrEnum):
    """What a request to cancel came to."""

    CANCELLED = "cancelled"
    """It will not run."""
    REQUESTED = "requested"
    """It runs, or is about to: its node will be told."""


class Extension(StrEnum):
    """What is said to a run that asks for more time."""

    GO_ON = "go on"
    """It has the time."""
    STOP = "stop"
    """It has the time, and somebody has asked it to stop."""
    LOST = "lost"
    """It has lost its claim: it runs elsewhere by now, or the instance is over."""
