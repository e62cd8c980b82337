"""What a ``MemoryStore`` keeps of a definition and of an instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from go_scheduler.json import JSON
from go_scheduler.models import (
    RUNS_KEPT,
    Outcome,
    RunEnd,
    Skipped,
    TaskDefinition,
    TaskInstance,
    TaskRun,
)
from go_scheduler.models.values import changed, trusted
from go_scheduler.policies import Overlap
from go_scheduler.stores.rules import overlap_of, overlap_of_backfilled, slot_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.stores.messages import Claimant


@dataclass(slots=True, eq=False)
class StoredDefinition:
    """A definition as stored, and its instances.

    Attributes:
        definition: The definition.
        instances: Its instances by fire time, or else by id, in the order in which they
            were made.
        open: How many of them a trigger that waits has to wait for.
        deleted: Whether it has been deleted.
        fired_until: A fire time that had begun when it was given another trigger.
    """

    definition: TaskDefinition
    instances: dict[datetime | UUID, StoredInstance] = field(default_factory=dict)
    open: int = 0
    deleted: bool = False
    fired_until: datetime | None = None


@dataclass(slots=True, eq=False)
class StoredInstance:
    """An instance as stored.

    It has the fields of ``TaskInstance``, but for the definition.

    Attributes:
        of: Its definition, as it is for all its instances.
        queue: In which it is, or has ended.
        priority: Its class.
        slot: The slot that it needs or has; None: it excludes no other.
        overlap: What decides on it when it is due and parked; None: it waits.
        behind: The instance that had its slot when it was parked.
        handed_on: The attempt whose run goes on outside of its node.
        past: The ends of its runs that did not succeed.
    """

    id: UUID
    of: StoredDefinition
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
    payload: Mapping[str, JSON] | None = None
    key: str | None = None
    backfilled: Overlap | None = None
    reopened_at: datetime | None = None
    worker: str | None = None
    result: JSON = None
    created_at: datetime | None = None
    client: JSON = None
    own_trace_context: str | None = None
    accepted_at: datetime | None = None
    start_by: datetime | None = None
    progress: JSON = None
    given_back: str | None = None
    overrides: Mapping[str, Any] | None = None
    queue: str = field(init=False)
    priority: int = field(init=False)
    slot: str | None = field(init=False)
    overlap: Overlap | None = field(init=False)
    behind: UUID | None = None
    handed_on: int | None = None
    past: tuple[TaskRun, ...] = ()

    # Only a claim answers it.
    silence: ClassVar[None] = None
    # By the same rules as those of an instance.
    state: ClassVar[Any] = vars(TaskInstance)["state"]
    stage: ClassVar[Any] = vars(TaskInstance)["stage"]

    def __post_init__(self) -> None:
        self.follow()

    @property
    def definition(self) -> TaskDefinition:
        """Its definition, with what it has of its own."""
        of = self.of.definition
        if self.overrides:
            of = changed(of, **self.overrides)
        return of if of.queue == self.queue else changed(of, queue=self.queue)

    def move(self) -> None:
        """Be in the queue and the class that are its definition's now, or its own."""
        own, of = self.overrides or {}, self.of.definition
        self.queue = own.get("queue", of.queue)
        self.priority = own.get("priority", of.priority)

    def follow(self) -> None:
        """Be where its definition says now, and exclude what that says."""
        self.move()
        of, fired, backfilled = self.definition, self.is_fired, self.backfilled
        self.slot = slot_of(of, fired=fired, backfilled=backfilled)
        if backfilled is None:
            self.overlap = overlap_of(of, fired=fired)
        else:
            self.overlap = overlap_of_backfilled(backfilled)

    @property
    def is_fired(self) -> bool:
        """Whether its definition's schedule has made it, and nobody by hand."""
        return self.fire_time is not None and self.backfilled is None

    @property
    def is_awaited(self) -> bool:
        """Whether a trigger that waits does so for its end, and it has not ended."""
        return self.completed_at is None and self.is_fired

    @property
    def is_claimed(self) -> bool:
        """Whether a node has it and has not started it."""
        return (
            self.claimed_by is not None
            and self.started_at is None
            and self.completed_at is None
        )

    @property
    def is_running(self) -> bool:
        """Whether it has started and not ended."""
        return self.started_at is not None and self.completed_at is None

    @property
    def is_waiting(self) -> bool:
        """Whether it has not ended, and its run has not begun."""
        begun = self.started_at is not None and self.start_by is None
        return self.completed_at is None and not begun

    @property
    def is_handed_on(self) -> bool:
        """Whether its run goes on outside of the node that has claimed it."""
        return self.handed_on == self.attempt

    @property
    def is_unused(self) -> bool:
        """Whether it is a fire time's, and never started."""
        return (
            self.is_awaited
            and self.started_at is None
            and not self.runs
            # One that was made to run again has failed before.
            and self.reopened_at is None
        )

    def is_kept(self, now: datetime) -> bool:
        """Whether it stays when it has succeeded, though successes are deleted."""
        asked_for = self.key is not None or self.slot is not None
        has_failed = self.attempt > 1 or self.error is not None
        return asked_for or has_failed or self.is_to_come(now)

    def is_to_come(self, now: datetime) -> bool:
        """Whether its fire time is to come: a pause or an edit has to know of it."""
        return self.fire_time is not None and self.fire_time > now

    @property
    def place(self) -> datetime | UUID:
        """Where its definition has it."""
        return self.id if self.fire_time is None else self.fire_time

    def claim(self, claimant: Claimant, now: datetime) -> None:
        """Record that a node has it."""
        if self.started_at is not None:
            # It is lost to who claims it now.
            self.keep_run(RunEnd.LOST, None, now)
            self.started_at = None
        self.claimed_by = claimant.node
        self.forget_worker()
        self.attempt += 1
        due_at = self.due_at
        self.expires_at = (due_at if due_at > now else now) + claimant.lease

    def start(self, claimant: Claimant, now: datetime) -> None:
        """Record that its handler is about to be called."""
        self.runs += 1
        due_at = self.due_at
        self.started_at = started_at = due_at if due_at > now else now
        expire_after = self.definition.expire_after or claimant.expire_after
        lease = claimant.lease
        self.expires_at = started_at + min(lease, expire_after)

    def free(self, due_at: datetime) -> None:
        """Record that no node has it, and when it is due."""
        self.claimed_by = self.expires_at = self.started_at = None
        self.forget_worker()
        self.due_at = due_at

    def reopen(self, now: datetime) -> None:
        """Be as if it were new and due now, but for what is known of its runs."""
        self.outcome = self.completed_at = self.ended_attempt = None
        self.cancel_requested = False
        self.runs = self.hangs = 0
        self.free(now)
        self.follow()
        # Somebody wants it to run: it waits for its turn, whatever runs.
        self.overlap = None

    def forget_worker(self) -> None:
        """Forget who had it outside of nodes, and why it was given back."""
        self.worker = self.accepted_at = self.start_by = None
        self.progress = self.given_back = None

    def keep_run(self, outcome: RunEnd, error: str | None, now: datetime) -> None:
        """Keep how its present run ended."""
        run = TaskRun(
            instance_id=self.id,
            attempt=self.attempt,
            node=self.claimed_by,
            started_at=self.started_at,
            ended_at=now,
            outcome=outcome,
            error=error,
            worker=self.worker,
            lost_in=self.stage if outcome is RunEnd.LOST else None,
        )
        self.past = (*self.past, run)[-RUNS_KEPT:]

    def view(self) -> TaskInstance:
        """The instance as others see it."""
        return _instance(self.id, self.definition, *_shown(self))


SHOWN = [each.name for each in fields(TaskInstance)[2:]]
"""All other fields of an instance, in their order."""
_instance: Callable[..., TaskInstance] = trusted(TaskInstance)
# Read at once, and passed by position.
_shown: Callable[[StoredInstance], tuple[Any, ...]] = attrgetter(*SHOWN)


def in_turn(row: StoredInstance) -> tuple[int, datetime, datetime, int]:
    """By what it is decided whose turn it is."""
    return row.priority, *when_due(row)


def when_due(row: StoredInstance) -> tuple[datetime, datetime, int]:
    """When it is due, first due first."""
    return row.due_at, row.execute_at, row.id.int
