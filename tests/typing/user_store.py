"""User code that must type-check: a store, as one begins to write it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler import MemoryStore, Scheduler, Store
from go_scheduler.stores import open_store
from go_scheduler.stores.base import TransactionalStore

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence, Set
    from datetime import datetime, timedelta
    from uuid import UUID

    from go_scheduler import Overlap, TaskDefinition, TaskInstance, TaskRun
    from go_scheduler.clock import Clock
    from go_scheduler.json import JSON
    from go_scheduler.models import Cancelled, DefinitionState, State
    from go_scheduler.stores.base import JoinedStore
    from go_scheduler.stores.messages import (
        Addition,
        Announcement,
        Answer,
        Claim,
        Claimant,
        Firing,
        NodeContact,
        Position,
        Release,
        Renewal,
        Retention,
        Reviewed,
        RunOutcome,
        Tombstone,
    )
    from go_scheduler.stores.rules import Declaration, Declared


class StubStore(Store):
    """Every method with the types of the interface."""

    def __init__(self, path: str, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self.path = path

    def initialize(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def now(self) -> datetime:
        raise NotImplementedError

    def put_definitions(
        self, definitions: Sequence[TaskDefinition]
    ) -> Sequence[TaskDefinition]:
        raise NotImplementedError

    def declare_definitions(self, declaration: Declaration) -> Declared:
        raise NotImplementedError

    def get_definition(self, definition_id: UUID) -> TaskDefinition:
        raise NotImplementedError

    def list_definitions(
        self,
        *,
        ids: Collection[UUID] | None = None,
        metadata: Mapping[str, JSON] | None = None,
        name: str | None = None,
        queue: str | None = None,
        owner: str | None = None,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
        state: DefinitionState | None = None,
        soonest_first: bool = False,
        after: Position | None = None,
        limit: int = 100,
    ) -> Sequence[TaskDefinition]:
        raise NotImplementedError

    def delete_definitions(self, ids: Collection[UUID]) -> Mapping[UUID, Set[UUID]]:
        raise NotImplementedError

    def list_tombstones(self, ids: Collection[UUID]) -> Sequence[Tombstone]:
        raise NotImplementedError

    def pause_definitions(
        self, ids: Collection[UUID], *, note: str | None = None
    ) -> Sequence[TaskDefinition]:
        raise NotImplementedError

    def resume_definitions(self, ids: Collection[UUID]) -> Sequence[TaskDefinition]:
        raise NotImplementedError

    def due_definitions(
        self, *, ahead: timedelta, after: TaskDefinition | None = None, limit: int
    ) -> Sequence[TaskDefinition]:
        raise NotImplementedError

    def fire_definitions(self, firings: Sequence[Firing]) -> Answer[Set[UUID]]:
        raise NotImplementedError

    def claim_instances(
        self,
        claimant: Claimant,
        *,
        ahead: timedelta,
        lead: timedelta,
        limit: int,
        lapsed: timedelta | None,
        deadline: datetime,
    ) -> Sequence[TaskInstance]:
        raise NotImplementedError

    def list_claimed(
        self, node: UUID, *, after: TaskInstance | None = None, limit: int = 100
    ) -> Sequence[TaskInstance]:
        raise NotImplementedError

    def start_instances(
        self, claimant: Claimant, claims: Sequence[Claim]
    ) -> Answer[Sequence[TaskInstance]]:
        raise NotImplementedError

    def renew_claims(self, renewals: Sequence[Renewal]) -> Answer[Mapping[UUID, bool]]:
        raise NotImplementedError

    def finish_instances(self, outcomes: Sequence[RunOutcome]) -> Answer[Set[UUID]]:
        raise NotImplementedError

    def release_instances(self, releases: Sequence[Release]) -> Answer[Set[UUID]]:
        raise NotImplementedError

    def add_instances(
        self, definition_id: UUID, additions: Sequence[Addition]
    ) -> Sequence[TaskInstance]:
        raise NotImplementedError

    def backfill_instances(
        self,
        definition: TaskDefinition,
        fire_times: Sequence[datetime],
        *,
        overlap: Overlap,
    ) -> Sequence[datetime]:
        raise NotImplementedError

    def cancel_instances(
        self, cancellations: Mapping[UUID, datetime | None]
    ) -> Mapping[UUID, Cancelled]:
        raise NotImplementedError

    def delete_finished(self, retention: Retention, *, limit: int) -> int:
        raise NotImplementedError

    def note_contact(self, announced: Announcement, *, unbroken: timedelta) -> None:
        raise NotImplementedError

    def list_contacts(self, *, within: timedelta) -> Sequence[NodeContact]:
        raise NotImplementedError

    def reopen_instances(self, ids: Collection[UUID]) -> Set[UUID]:
        raise NotImplementedError

    def list_runs(self, instance_id: UUID) -> Sequence[TaskRun]:
        raise NotImplementedError

    def keep_setting(self, name: str, value: str) -> str:
        raise NotImplementedError

    def list_due_queues(self, *, apart_from: Collection[str]) -> Collection[str]:
        raise NotImplementedError

    def get_instance(self, instance_id: UUID) -> TaskInstance:
        raise NotImplementedError

    def slot_holder(self, slot: str) -> TaskInstance | None:
        raise NotImplementedError

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
        raise NotImplementedError

    def counts(
        self,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
    ) -> Mapping[State, int]:
        raise NotImplementedError

    def review_parked(self, *, limit: int) -> Reviewed:
        raise NotImplementedError


class StubTransactionalStore(StubStore, TransactionalStore):
    """One that takes part in transactions of its users."""

    def join(
        self, connection: object, *, committed: Callable[[], None] | None = None
    ) -> JoinedStore:
        raise NotImplementedError

    def finish_instance_in(self, connection: object, outcome: RunOutcome) -> bool:
        raise NotImplementedError


def schedulers(clock: Clock) -> list[Scheduler]:
    return [
        Scheduler(None, StubStore("tasks", clock)),
        Scheduler(None, StubTransactionalStore("tasks", clock)),
        Scheduler(None, MemoryStore(), clock=clock),
        Scheduler(None, open_store("memory://", clock=clock)),
    ]


class HalfStore(Store):
    """Forgets nearly everything."""

    def counts(
        self,
        *,
        queues: Collection[str] | None = None,
        owners: Collection[str] | None = None,
    ) -> Mapping[State, int]:
        raise NotImplementedError


def wrong() -> None:
    HalfStore()  # type: ignore[abstract]
    Scheduler(None, "memory://")  # type: ignore[arg-type]
