"""What of a store may be done within a transaction of the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence, Set
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.json import JSON
    from go_scheduler.models import Cancelled, TaskDefinition, TaskInstance
    from go_scheduler.policies import Overlap
    from go_scheduler.stores.declared import Declaration, Declared
    from go_scheduler.stores.messages import Addition, Position


class JoinedStore(Protocol):
    """A store within a transaction; each method does what that of ``Store`` does.

    A whole ``Store`` is one, too, whose methods are transactions of their own.
    """

    def put_definitions(
        self, definitions: Sequence[TaskDefinition]
    ) -> Sequence[TaskDefinition]:
        """Insert each definition, or replace the one with its id."""

    def declare_definitions(self, declaration: Declaration) -> Declared:
        """Let an owner have exactly the definitions of a declaration."""

    def list_definitions(
        self,
        *,
        ids: Collection[UUID] | None = None,
        metadata: Mapping[str, JSON] | None = None,
        name: str | None = None,
        queue: str | None = None,
        after: Position | None = None,
        limit: int = 100,
    ) -> Sequence[TaskDefinition]:
        """Read a page of the definitions that meet every condition given."""

    def delete_definitions(self, ids: Collection[UUID]) -> Mapping[UUID, Set[UUID]]:
        """Delete definitions, at once and with all that is not running."""

    def pause_definitions(
        self, ids: Collection[UUID], *, note: str | None = None
    ) -> Sequence[TaskDefinition]:
        """Pause definitions, so that nothing of theirs starts."""

    def resume_definitions(self, ids: Collection[UUID]) -> Sequence[TaskDefinition]:
        """End a pause."""

    def add_instances(
        self, definition_id: UUID, additions: Sequence[Addition]
    ) -> Sequence[TaskInstance]:
        """Make instances of a definition that are no fire times'."""

    def backfill_instances(
        self,
        definition: TaskDefinition,
        fire_times: Sequence[datetime],
        *,
        overlap: Overlap,
    ) -> Sequence[datetime]:
        """Make instances for fire times of a definition that have none."""

    def get_instance(self, instance_id: UUID) -> TaskInstance:
        """Read one instance."""

    def cancel_instances(
        self, cancellations: Mapping[UUID, datetime | None]
    ) -> Mapping[UUID, Cancelled]:
        """Cancel what has not started; ask what runs to stop."""
