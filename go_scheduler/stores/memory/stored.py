"""A definition, and an instance, as a ``MemoryStore`` keeps them."""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from go_scheduler.models import (
    RUNS,
    RUNS_KEPT,
    RunEnd,
    Stage,
    State,
    TaskInstance,
    TaskRun,
)
from go_scheduler.models.stage import stage_of
from go_scheduler.models.trusted import trusted
from go_scheduler.stores.silences import silence_of
from go_scheduler.stores.slots import overlap_of, overlap_of_backfilled, slot_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.json import JSON
    from go_scheduler.models import Outcome, Silence, Skipped, TaskDefinition
    from go_scheduler.policies import Overlap
    from go_scheduler.stores.messages import Claimant


_instance: Callable[..., TaskInstance] = trusted(TaskInstance)
_PENDING = State.PENDING


class StoredDefinition:
    """A definition as stored, and its instances by fire time, or else by id."""

    __slots__ = ("definition", "instances", "open")

    def __init__(self, definition: TaskDefinition) -> None:
        self.definition = definition
        self.instances: dict[datetime | UUID, StoredInstance] | None = None
        # How many are open that have a fire time.
        self.open = 0

    @property
    def rows(self) -> Sequence[StoredInstance]:
        """Its instances, in the order in which they were made."""
        return () if self.instances is None else tuple(self.instances.values())

    def fired_at(self, fire_time: datetime) -> StoredInstance | None:
        """Its instance of a fire time."""
        return None if self.instances is None else self.instances.get(fire_time)


class StoredInstance:
    """An instance as stored."""

    __slots__ = (
        "accepted_at",
        "attempt",
        "backfilled",
        "behind",
        "cancel_requested",
        "claimed_by",
        "client",
        "completed_at",
        "created_at",
        "due_at",
        "ended_attempt",
        "error",
        "execute_at",
        "expires_at",
        "fire_time",
        "given_back",
        "handed_on",
        "hangs",
        "id",
        "key",
        "of",
        "outcome",
        "overlap",
        "own_trace_context",
        "parked",
        "past",
        "payload",
        "priority",
        "progress",
        "queue",
        "reopened_at",
        "result",
        "runs",
        "skipped",
        "slot",
        "start_by",
        "started_at",
        "state",
        "worker",
    )
    # Only a claim answers it.
    silence = None

    def __init__(
        self,
        id: UUID,
        of: StoredDefinition,
        execute_at: datetime,
        *,
        fire_time: datetime | None,
        created_at: datetime | None,
        backfilled: Overlap | None = None,
    ) -> None:
        self.id = id
        self.of = of
        self.queue = of.definition.queue
        self.priority = of.definition.priority
        self.fire_time = fire_time
        self.created_at = created_at
        self.backfilled = backfilled
        self.reopened_at: datetime | None = None
        self.parked = False
        self.behind: UUID | None = None
        self.follow()
        self.execute_at = execute_at
        self.due_at = execute_at
        self.attempt = 0
        self.runs = 0
        self.hangs = 0
        self.claimed_by: UUID | None = None
        self.handed_on: int | None = None
        self.forget_worker()
        self.expires_at: datetime | None = None
        self.started_at: datetime | None = None
        self.completed_at: datetime | None = None
        self.outcome: Outcome | None = None
        self.ended_attempt: int | None = None
        self.error: str | None = None
        self.result: JSON = None
        self.client: JSON = None
        self.cancel_requested = False
        self.skipped: Skipped | None = None
        self.payload: Mapping[str, JSON] | None = None
        self.key: str | None = None
        self.own_trace_context: str | None = None
        self.state = _PENDING
        self.past: tuple[TaskRun, ...] = ()

    def forget_worker(self) -> None:
        """Forget who had it outside of nodes, and why it was given back."""
        self.worker: str | None = None
        self.accepted_at: datetime | None = None
        self.start_by: datetime | None = None
        self.progress: JSON = None
        self.given_back: str | None = None

    def follow(self) -> None:
        """Exclude what its definition says now."""
        of, fired, backfilled = self.of.definition, self.is_fired, self.backfilled
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
    def is_accepted(self) -> bool:
        """Whether it may wait for its slot, though its overlap may end others."""
        fired = self.fire_time is not None
        decides = overlap_of(self.of.definition, fired=fired)
        return self.completed_at is None and self.overlap is not decides

    @property
    def place(self) -> datetime | UUID:
        """Where its definition has it."""
        return self.id if self.fire_time is None else self.fire_time

    @property
    def frozen(self) -> bool:
        """Whether its definition is paused."""
        return self.of.definition.paused

    @property
    def is_handed_on(self) -> bool:
        """Whether its run goes on outside of the node that has claimed it."""
        return self.handed_on == self.attempt

    @property
    def is_awaited(self) -> bool:
        """Whether a trigger that waits does so for its end, and it has not ended."""
        return self.completed_at is None and self.is_fired

    @property
    def is_unused(self) -> bool:
        """Whether it is a fire time's, and never started."""
        return (
            self.state in (State.PENDING, State.CLAIMED)
            and not self.runs
            # One that was made to run again has failed before.
            and self.reopened_at is None
            and self.is_fired
        )

    @property
    def is_waiting(self) -> bool:
        """Whether it has not ended, and its run has not begun."""
        if self.state in RUNS:
            return self.start_by is not None
        return self.completed_at is None

    @property
    def stage(self) -> Stage | None:
        """How far its run has come on a bus."""
        return stage_of(self.accepted_at, self.start_by)

    def silent(self) -> Silence | None:
        """What a claim answers that takes it over now."""
        return silence_of(
            self.started_at,
            accepted_at=self.accepted_at,
            start_by=self.start_by,
            worker=self.worker,
        )

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
        expire_after = self.of.definition.expire_after or claimant.expire_after
        lease = claimant.lease
        self.expires_at = started_at + min(lease, expire_after)

    def begin_anew(self, now: datetime) -> None:
        """Be as if it were new and due now, but for what is known of its runs."""
        self.outcome = self.completed_at = self.ended_attempt = None
        self.claimed_by = self.expires_at = self.started_at = None
        self.forget_worker()
        self.cancel_requested = False
        self.runs = self.hangs = 0
        self.due_at = now
        self.queue = self.of.definition.queue
        self.priority = self.of.definition.priority
        self.follow()
        # Somebody wants it to run: it waits for its turn, whatever runs.
        self.overlap = None

    def leave_fire_time(self) -> datetime:
        """Be no fire time's any more; answer whose it was."""
        assert self.fire_time is not None
        assert self.of.instances is not None
        left = self.fire_time
        self.of.instances[self.id] = self.of.instances.pop(left)
        self.fire_time = None
        return left

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
        return _instance(self.id, self.of.definition, *_shown(self))


# All other fields of an instance, in their order: read at once and passed by position.
_shown: Callable[[StoredInstance], tuple[Any, ...]] = attrgetter(
    *(each.name for each in fields(TaskInstance)[2:])
)
