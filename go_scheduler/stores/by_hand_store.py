"""The part of the store interface that is about instances which users make."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.policies import Overlap
    from go_scheduler.stores.messages import Addition


class ByHandStore(ABC):
    """Makes instances that no schedule does."""

    @abstractmethod
    def add_instances(
        self, definition_id: UUID, additions: Sequence[Addition]
    ) -> Sequence[TaskInstance]:
        """Make instances of a definition that are no fire times'.

        Each is pending, in the definition's queue, without a ``fire_time``, and with
        ``execute_at`` and ``due_at`` at the time given, which may have passed. It is
        frozen if the definition is paused, and counts as soon as that is resumed.
        Neither a pause nor an edit removes it, and ``next_fire_time`` stays; a trigger
        that waits does not wait for its end.

        If an instance has its ``id`` already, or the definition has an instance with
        its ``key``, ended or not, nothing is made, and that is the answer.

        If more would wait than its ``max_queue``, as ``count_waiting`` says, and its
        ``when_full`` is ``"drop"``, those of the additions for which there is no room,
        the last ones, are skipped as they are made: completed at the store's time, and
        ``skipped`` as ``FULL`` of ``go_scheduler.stores.full`` says.

        Args:
            definition_id: The definition, completed or not.
            additions: What to make, each by its own ``id``.

        Returns:
            The instances in the order given.

        Raises:
            TaskDefinitionNotFoundError: There is none with this id. Nothing was made.
            QueueFullError: More would wait than its ``max_queue``, and its
                ``when_full`` is ``"refuse"``. Nothing was made.
        """

    @abstractmethod
    def backfill_instances(
        self,
        definition: TaskDefinition,
        fire_times: Sequence[datetime],
        *,
        overlap: Overlap,
    ) -> Sequence[datetime]:
        """Make instances for fire times of a definition that have none.

        Each is pending, in the definition's queue, ``backfilled`` with the overlap, and
        due since its fire time. It is no more the schedule's than one that was added:
        frozen if the definition is paused, removed by neither a pause nor an edit, and
        not waited for by a trigger that waits; and ``next_fire_time`` stays.

        It excludes others by the overlap given, whatever that of its definition is, and
        by its definition's lock. With ``Overlap.BUFFER_ALL`` it waits, however many
        wait.

        A fire time whose instance was skipped, and not backfilled before, gets that one
        again: pending as if it were new, but with its ``execute_at``. Where there is
        any other instance nothing is made, whoever makes it at the same moment.

        Args:
            definition: The definition as it was read, completed or not; but its
                ``trace_context`` is that of the instances. A store may leave it out.
            fire_times: Each once, none later than the store's time.
            overlap: By which they are judged when they are due.

        Returns:
            The fire times that were given an instance, in the order given.

        Raises:
            TaskDefinitionNotFoundError: It is gone. Nothing was made.
            ConflictError: It has been changed since it was read. Nothing was made.
        """
