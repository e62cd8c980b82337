"""Messages between the loops and a store: small frozen values."""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar
from uuid import UUID, uuid4

from go_scheduler.checks import check_at_least, check_name, check_trace_context
from go_scheduler.clock import ZERO
from go_scheduler.json import JSON, freeze_and_write
from go_scheduler.models import (
    PAYLOAD_LIMIT,
    Outcome,
    Skipped,
    Stage,
    TaskDefinition,
    TaskInstance,
    step_of,
)
from go_scheduler.models.values import changed, trusted
from go_scheduler.stores.rules import checked_overrides
from go_scheduler.triggers.base import Trigger, utc

Done = TypeVar("Done", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[Done]):
    """The answer to a batch: each row of it is done, busy, or else lost.

    Attributes:
        done: What was done.
        busy: The ids of the rows that another transaction had locked: nothing of them
            has changed, and asking again may help.
    """

    done: Done
    busy: Set[UUID] = frozenset()


MANY = 100
"""So many instances are worth to be read apart from the claim that has brought them."""


class ReadLater(Sequence[TaskInstance]):
    """Instances that are read from their rows when somebody looks at one.

    ``Store.claim_instances`` may answer so: a node lets another thread read them, while
    it sends its next claim.

    Args:
        count: How many they are.
        read: Reads them; it is called once.
    """

    def __init__(self, count: int, read: Callable[[], Sequence[TaskInstance]]) -> None:
        self._count = count
        self._read = read
        self._instances: Sequence[TaskInstance] | None = None

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[TaskInstance]:
        return iter(self[:])

    def __getitem__(self, index: Any) -> Any:
        if self._instances is None:
            self._instances = self._read()
        return self._instances[index]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired(Answer[Set[UUID]]):
    """The same to firings, and what was started, with its definitions as of now."""

    started: Sequence[TaskInstance] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """What came of a put.

    Attributes:
        definitions: The definitions as they were stored, in the order given; those that
            were started as they were before they fired.
        started: The instances that were started, with their definitions as of now.
    """

    definitions: Sequence[TaskDefinition]
    started: Sequence[TaskInstance] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """What came of going over what is parked.

    Attributes:
        unparked: The instances that may go on, as they are now.
        skipped: Those that have ended as skipped, with the reason.
        replaced: Those that were asked to stop, or were cancelled as they did not run.
        parked: Whether anything may be parked still.
        more: Whether asking again soon may help: there was more than was asked for, or
            another transaction had locked some of it.
    """

    unparked: Sequence[TaskInstance] = ()
    skipped: Sequence[TaskInstance] = ()
    replaced: Sequence[TaskInstance] = ()
    parked: bool = False
    more: bool = False


_COMPLETED = Outcome.COMPLETED


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """The shards that a node takes for its own.

    Attributes:
        shards: Their numbers, of ``Store.shards``.
        others: How far past the store's time it looks in all others.
    """

    shards: Set[int]
    others: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """A node, as far as a store needs to know it.

    Attributes:
        node: The node's id, fresh for every start.
        queues: The queues it serves, each once.
        lease: How long a claim holds unless renewed.
        expire_after: For definitions that have none of their own.
        names: The names of definitions that it can run; None: any. Only what is
            started as it is created goes by them, and no claim does.
        own: By queue, the shards from which it claims first and furthest ahead. A store
            whose ``shards`` are one is never passed it.
    """

    node: UUID
    queues: tuple[str, ...]
    lease: timedelta
    expire_after: timedelta
    names: Collection[str] | None = None
    own: Mapping[str, Own] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A node's right to an instance: what every write about a run must show.

    Attributes:
        instance_id: The instance.
        attempt: The attempt it was claimed as.
    """

    instance_id: UUID
    attempt: int

    @classmethod
    def of(cls, instance: TaskInstance) -> Claim:
        """The claim under which somebody has got an instance."""
        return _claim(instance_id=instance.id, attempt=instance.attempt)


_claim = trusted(Claim)


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """A claim that is to hold longer.

    Attributes:
        claim: The claim.
        lease: How long from the store's time it is to hold; more than zero.
        handed_on: Whether its run is handed on: from now on it is kept from outside of
            the node that called the handler.
        worker: With ``handed_on``, who has it from now on, in at most 200 characters;
            None: as it was.
        stage: With ``handed_on``, how far it has come on a bus; None: nothing is said
            of that.
        progress: What is told of how far it has come, as JSON text of at most 64 KiB;
            None: as it was.
    """

    claim: Claim
    lease: timedelta
    handed_on: bool = False
    worker: str | None = None
    stage: Stage | None = None
    progress: str | None = None

    @property
    def step(self) -> int:
        """Its stage as a number, for stores to compare: 0 for none, 1 for the first."""
        return step_of(self.stage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A claim given back without its handler having been called.

    Attributes:
        claim: The claim.
        delay: How long from the store's time nobody should claim it; zero: as it was.
        reason: Why, for a person to read; None: nobody says.
    """

    claim: Claim
    delay: timedelta = ZERO
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The end of one run, to be recorded.

    Attributes:
        claim: The claim it ran under.
        started_at: When its handler was called; None if it was not.
        outcome: The instance's end; None: it is to run again.
        retry_in: How long from the store's time it is due again; used without an
            outcome.
        hung: Whether the run was presumed hung.
        error: What the handler raised, for a person to read; or why it is skipped, if
            that is the ``outcome``: without it ``skipped`` is None.
        next_fire_time: When its definition fires next, if its trigger waits; None:
            never.
        has_slot: Whether it may have a slot. A store need not look for one of a run
            that started when its definition had neither overlap nor lock.
        result: With the outcome *completed*, what came of it, as JSON text of at most
            64 KiB; None: nothing is said of it.
        client: What whoever ran it elsewhere says of that run, as JSON text; None:
            nothing, and what has been said before stays.
        deletes: Whether a success need not be kept: the instance is deleted as it ends,
            as ``finish_instances`` says. Used if it ``may_delete``.
    """

    claim: Claim
    started_at: datetime | None = None
    outcome: Outcome | None = None
    retry_in: timedelta = ZERO
    hung: bool = False
    error: str | None = None
    next_fire_time: datetime | None = None
    has_slot: bool = True
    result: str | None = None
    client: str | None = None
    deletes: bool = False

    @property
    def is_kept(self) -> bool:
        """Whether the end of the run is kept: it was called, and did not succeed."""
        return self.started_at is not None and self.outcome is not _COMPLETED

    @property
    def may_delete(self) -> bool:
        """Whether its instance need not be kept: nobody asks what came of it."""
        says_more = self.result is not None or self.error is not None
        is_first = self.claim.attempt == 1
        succeeds = self.outcome is _COMPLETED
        return self.deletes and succeeds and is_first and not says_more


_instance = trusted(TaskInstance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """One step of a definition: the instances to create, and where it goes on.

    Attributes:
        definition: The definition as it was read; the step counts only if its
            ``next_fire_time`` and ``revision`` are still the same.
        fire_times: The fire times that become instances, earliest first.
        execute_times: When each of these is to run, no sooner; empty: at its fire time.
        skipped: The fire times before those that will not run.
        next_fire_time: The next fire time after all of these; None: there is none, or a
            run has to end first.
    """

    definition: TaskDefinition
    fire_times: tuple[datetime, ...]
    skipped: Skipped | None = None
    next_fire_time: datetime | None = None
    execute_times: tuple[datetime, ...] = ()

    def instances(self) -> Iterable[tuple[datetime, datetime]]:
        """Of each instance to create its fire time, and when it is to run."""
        return zip(self.fire_times, self.execute_times or self.fire_times, strict=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """An instance to be made that is no fire time's.

    Attributes:
        id: Its identity, by which it is made once, however often that is repeated.
        at: When it is to run; None: so long after the store's time.
        delay: How long that is, zero or more.
        payload: What it is for: a JSON object of at most 64 KiB.
        key: As long as an instance of its definition has this key, no second one is
            made; at most 200 characters.
        trace_context: In which trace it is asked for, see ``TaskDefinition``; None: in
            none. A store may leave it out.
        overrides: The fields of its definition that it has of its own, by their names,
            from ``go_scheduler.models.OVERRIDABLE``; None: it has none.
        payload_text: The payload as JSON text; made of it.

    Raises:
        ConfigurationError: A value is of the wrong type, out of range, or one that no
            store can keep.
    """

    id: UUID = field(default_factory=uuid4)
    at: datetime | None = None
    delay: timedelta = ZERO
    payload: Mapping[str, JSON] | None = field(default=None, hash=False)
    key: str | None = None
    trace_context: str | None = None
    overrides: Mapping[str, Any] | None = field(default=None, hash=False)
    payload_text: str | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if self.at is not None:
            object.__setattr__(self, "at", utc(self.at, name="at"))
        check_at_least("delay", self.delay, ZERO)
        if self.payload is not None:
            frozen, text = freeze_and_write(
                self.payload, name="payload", limit=PAYLOAD_LIMIT
            )
            object.__setattr__(self, "payload", frozen)
            object.__setattr__(self, "payload_text", text)
        if self.key is not None:
            object.__setattr__(self, "key", check_name("key", self.key))
        if (context := self.trace_context) is not None:
            object.__setattr__(self, "trace_context", check_trace_context(context))
        if self.overrides is not None:
            own = checked_overrides(self.overrides) or None
            object.__setattr__(self, "overrides", own)

    def execute_at(self, now: datetime) -> datetime:
        """When it is to run, if it is made now."""
        return now + self.delay if self.at is None else self.at

    def made(self, definition: TaskDefinition, now: datetime) -> TaskInstance:
        """The instance that was made of it at this time."""
        execute_at, own = self.execute_at(now), self.overrides
        return _instance(
            id=self.id,
            definition=changed(definition, **own) if own else definition,
            fire_time=None,
            execute_at=execute_at,
            due_at=execute_at,
            payload=self.payload,
            key=self.key,
            created_at=now,
            own_trace_context=self.trace_context,
            overrides=own,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """The memory of a definition that has ended and is gone.

    Attributes:
        id: Its id, which was passed and not made up.
        trigger: Its trigger.
        revision: Its last revision.
        completed_at: When it ended.
    """

    id: UUID
    trigger: Trigger
    revision: int
    completed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """For how long a store keeps what is over, by its time; zero or more of each.

    Attributes:
        ended: Instances since they ended, definitions since they were completed and
            have no instance left, and what is known of deleted ones.
        failed: Instances that failed.
        remembered: Ids, since their definition was completed.
    """

    ended: timedelta
    failed: timedelta
    remembered: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What a node tells of itself; None wherever nobody knows.

    Attributes:
        node: The node's id.
        host: The name of its machine.
        pid: Its process.
        version: That of this package there.
        queues: Those that it serves; empty: it runs nothing.
        names: Those for which it has a handler; None also if it takes any.
        lease: It tells of itself several times in so long.
        stopping: Whether it takes nothing more.
    """

    node: UUID
    host: str | None = None
    pid: int | None = None
    version: str | None = None
    queues: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None
    lease: timedelta | None = None
    stopping: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContact:
    """A time for which a node had unbroken contact with the store, by its clock.

    Attributes:
        announced: The node, and what it told last.
        since: From when on.
        until: Up to when.
    """

    announced: Announcement
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a page of a list ends, and the next one goes on.

    Attributes:
        at: The last one's time, if the order is one of times.
        id: Its id.
    """

    at: datetime | None
    id: UUID
