"""The part of the store interface that a store may leave as it is: the hand-over.

And what many instances are, which any store can say by what it reads.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from go_scheduler.errors import TaskInstanceNotFoundError
from go_scheduler.models import State
from go_scheduler.stores.by_hand_store import ByHandStore
from go_scheduler.stores.definition_store import DefinitionStore
from go_scheduler.stores.instance_store import InstanceStore
from go_scheduler.stores.messages import Fired
from go_scheduler.stores.slots import slot_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from uuid import UUID

    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.stores.messages import Addition, Claimant, Firing


class HandOverStore(ByHandStore, InstanceStore, DefinitionStore):
    """Lets a node have what it creates and is due: by the write that creates it.

    As these methods stand here they create and start nothing of it, which is never
    wrong: the loops find what has been created.
    """

    def put_and_start(
        self, firing: Firing, claimant: Claimant
    ) -> tuple[TaskDefinition, TaskInstance | None]:
        """Put one definition, and have it fire and start, in one step.

        It is put as by ``put_definitions``. If it is new, it fires then as by
        ``fire_definitions``, and its instance is claimed and started as by
        ``claim_instances``.

        Args:
            firing: Its definition is as for ``put_definitions``, is not paused, is in a
                queue of the claimant's and excludes nothing. Its one fire time is the
                ``next_fire_time`` of that, and it skips none.
            claimant: The node that is to have the instance.

        Returns:
            The definition as it was put, before it fired; and the instance, with the
            definition as it is now; None: nothing was started.

        Raises:
            ConflictError: As for ``put_definitions``.
        """
        [put] = self.put_definitions([firing.definition])
        return put, None

    def fire_and_start(self, firings: Sequence[Firing], claimant: Claimant) -> Fired:
        """Fire definitions, and start what they make, in one step.

        They fire as by ``fire_definitions``. The instances of those that win are
        claimed and started as by ``claim_instances``.

        Args:
            firings: As for ``fire_definitions``, each of one fire time that is due, and
                none that is skipped; their definitions are in queues of the claimant's,
                exclude nothing, and have triggers that do not wait.
            claimant: The node that is to have the instances.

        Returns:
            As ``fire_definitions``, and what was started.
        """
        answer = self.fire_definitions(firings)
        return Fired(done=answer.done, busy=answer.busy)

    def add_and_start(
        self,
        definition_id: UUID,
        additions: Sequence[Addition],
        claimant: Claimant,
        *,
        names: Collection[str] | None,
    ) -> Sequence[TaskInstance]:
        """Make instances as ``add_instances`` does, and start those due, in one step.

        What is made, and due by the store's time, is claimed and started as by
        ``claim_instances``, if it is not frozen, has to have no slot, is in a queue of
        the claimant's, and its definition has one of the names.

        Args:
            definition_id: The definition, completed or not.
            additions: What to make, each by its own ``id``.
            claimant: The node that is to have the instances.
            names: Those that the node can run; None: all.

        Returns:
            The instances in the order given, those that were started with the
            claimant as ``claimed_by``. One that was there already comes back as it is.

        Raises:
            TaskDefinitionNotFoundError: As for ``add_instances``.
        """
        return self.add_instances(definition_id, additions)

    def find_instances(self, ids: Collection[UUID]) -> Mapping[UUID, TaskInstance]:
        """Read many instances, which are said to go on or to have ended elsewhere.

        As it stands here it reads one after the other.

        Args:
            ids: Of which; some thousand at most.

        Returns:
            Those that there are, by their ids.
        """
        found: dict[UUID, TaskInstance] = {}
        for id in ids:
            with suppress(TaskInstanceNotFoundError):
                found[id] = self.get_instance(id)
        return found


def may_start(
    instance: TaskInstance, claimant: Claimant, names: Collection[str] | None
) -> bool:
    """Whether a node may start an instance that has just been made and is due."""
    definition = instance.definition
    return (
        instance.state is State.PENDING
        and instance.attempt == 0
        and not definition.paused
        and slot_of(definition, fired=False) is None
        and is_run_by(definition, claimant.queues, names)
    )


def is_run_by(
    definition: TaskDefinition, queues: Collection[str], names: Collection[str] | None
) -> bool:
    """Whether a node serves the queue of a definition, and can run its name.

    Args:
        definition: The definition.
        queues: Those that the node serves.
        names: Those that it can run; None: all.
    """
    return definition.queue in queues and (names is None or definition.name in names)
