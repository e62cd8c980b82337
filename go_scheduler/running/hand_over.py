"""The hand-over: what this process creates and is due runs here, and at once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from go_scheduler.errors import StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from go_scheduler.clock import StoreClock
    from go_scheduler.models import TaskDefinition, TaskInstance
    from go_scheduler.running.admission import Admission
    from go_scheduler.running.announcing import Announcing
    from go_scheduler.running.claiming import Claiming
    from go_scheduler.running.instance_runner import InstanceRunner
    from go_scheduler.running.room import Room
    from go_scheduler.running.starter import Starter
    from go_scheduler.stores.messages import Addition, Firing


class HandOver:
    """Has the write that creates claim and start as well, and passes on what it has.

    Only while there are workers free for it and nothing else is left to be claimed:
    otherwise it is for the instance runner to say what is next, and where.

    Args:
        claiming: Writes in this node's name.
        clock: The store's time, as this node has it.
        announcing: Knows what this node runs.
        room: Says how many workers are free.
        runner: Knows whether there is more to claim than there was room for.
        admission: Keeps out what is not to be called here.
        starter: Takes what is admitted.
    """

    def __init__(
        self,
        claiming: Claiming,
        clock: StoreClock,
        *,
        announcing: Announcing,
        room: Room,
        runner: InstanceRunner,
        admission: Admission,
        starter: Starter,
    ) -> None:
        self._claiming = claiming
        self._clock = clock
        self._announcing = announcing
        self._room = room
        self._runner = runner
        self._admission = admission
        self._starter = starter
        self._lock = threading.Lock()
        self._under_way = 0
        self._stopped = False

    def stop(self) -> None:
        """Begin none any more."""
        self._stopped = True

    @property
    def ended(self) -> bool:
        """Whether there will be none any more."""
        return self._stopped and not self.under_way

    @property
    def under_way(self) -> bool:
        """Whether the store may have started what the node does not hold yet."""
        with self._lock:
            return self._under_way > 0

    def put(
        self,
        firing: Firing,
        created: Callable[[TaskDefinition, TaskInstance | None], None],
    ) -> TaskDefinition | None:
        """Put a definition that is due, and run it.

        Args:
            firing: As for ``Store.put_and_start``.
            created: Told of the answer of ``Store.put_and_start`` before it runs.

        Returns:
            The definition, as it was put; None: it was not, or nobody knows.
        """
        definition = firing.definition
        serves = definition.queue in self._announcing.queues
        names = self._announcing.names
        if not (serves and (names is None or definition.name in names)):
            return None
        if not self._begin(1):
            return None
        try:
            put, instance = self._claiming.put(firing)
            created(put, instance)
            if instance is not None:
                self._take([instance])
        except StoreUnavailableError:
            # Puts by themselves are tried again, and say what there is to say.
            return None
        finally:
            self._end(1)
        return put

    def add(
        self,
        definition_id: UUID,
        additions: Sequence[Addition],
        created: Callable[[Sequence[TaskInstance]], None],
    ) -> Sequence[TaskInstance] | None:
        """Add instances, and run them if they are due.

        Args:
            definition_id: Of which definition.
            additions: What to add.
            created: Told of the answer before any of it runs.

        Returns:
            As ``Store.add_instances``; None: nothing was added.

        Raises:
            TaskDefinitionNotFoundError: There is no such definition.
        """
        now = self._clock.now()
        are_due = all(each.execute_at(now) <= now for each in additions)
        if not (are_due and self._begin(len(additions))):
            return None
        try:
            added = self._claiming.add(definition_id, additions, self._announcing.names)
            created(added)
            ids = {each.id for each in additions}
            mine = [each for each in added if each.id in ids and self._has(each)]
            self._take(mine)
        finally:
            self._end(len(additions))
        if len(mine) < len(additions):
            self._runner.look()
        return added

    def _has(self, instance: TaskInstance) -> bool:
        return instance.claimed_by == self._announcing.node

    def _take(self, instances: Sequence[TaskInstance]) -> None:
        try:
            self._starter.add(self._admission.admit(instances))
        # No thread can be started, say: who calls this has done nothing wrong.
        except Exception:
            self._claiming.unanswered.note()

    def _begin(self, count: int) -> bool:
        """Begin if so many can run at once; false: it is not to be."""
        with self._lock:
            waits = self._runner.hungry or self._claiming.unanswered.any
            if self._stopped or waits or self._room.free - self._under_way < count:
                return False
            self._under_way += count
            return True

    def _end(self, count: int) -> None:
        with self._lock:
            self._under_way -= count
