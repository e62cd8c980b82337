"""A definition: what to run, and when; and the pause that it has been in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal
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
from go_scheduler.models.states import DefinitionState
from go_scheduler.policies import CatchUp, Overlap, RetryPolicy
from go_scheduler.policies.overlap import check_overlap
from go_scheduler.triggers.base import Trigger, utc


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
            key: Any text, such as ``"nightly report"``.
        """
        check_type("key", key, str)
        check_text(key, "key")
        return uuid5(_IDS, key)
