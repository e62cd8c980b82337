"""User code that must type-check: a store, as one begins to write it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler import MemoryStore, Scheduler, Store
from go_scheduler.stores import open_store
from go_scheduler.stores.base import TransactionalStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta
    from uuid import UUID

    from go_scheduler import TaskDefinition
    from go_scheduler.clock import Clock
    from go_scheduler.stores.base import JoinedStore
    from go_scheduler.stores.messages import Own, RunOutcome


class OwnStore(MemoryStore):
    """A method has the types of the interface."""

    def __init__(self, path: str, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self.path = path

    def due_definitions(
        self,
        *,
        ahead: timedelta,
        after: TaskDefinition | None = None,
        limit: int,
        own: Own | None = None,
    ) -> Sequence[TaskDefinition]:
        return super().due_definitions(ahead=ahead, after=after, limit=limit)


class OwnTransactionalStore(OwnStore, TransactionalStore):
    """One that takes part in transactions of its users."""

    def join(
        self, connection: object, *, committed: Callable[[], None] | None = None
    ) -> JoinedStore:
        raise NotImplementedError

    def finish_instance_in(self, connection: object, outcome: RunOutcome) -> bool:
        raise NotImplementedError


def schedulers(clock: Clock) -> list[Scheduler]:
    return [
        Scheduler(None, OwnStore("tasks", clock)),
        Scheduler(None, OwnTransactionalStore("tasks", clock)),
        Scheduler(None, MemoryStore(), clock=clock),
        Scheduler(None, open_store("memory://", clock=clock)),
    ]


class HalfStore(Store):
    """Forgets nearly everything."""

    def get_definition(self, definition_id: UUID) -> TaskDefinition:
        raise NotImplementedError


def wrong() -> None:
    HalfStore()  # type: ignore[abstract]
    Scheduler(None, "memory://")  # type: ignore[arg-type]
