"""Tasks: handlers with a definition each, of the registry that a scheduler has."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, cast

from go_scheduler.client.declaring import Declaring
from go_scheduler.client.on_demand import OnDemand
from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.registry import HandlerRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from uuid import UUID

    from go_scheduler.handlers.task import Task, TaskDecorator
    from go_scheduler.json import JSON
    from go_scheduler.models import TaskDefinition
    from go_scheduler.triggers.base import Trigger


class Tasks(Declaring, OnDemand):
    """Schedules the tasks of a registry, and checks what they are enqueued with."""

    _registry: HandlerRegistry | None
    _scheduled: set[str]

    def task(
        self, name: str, trigger: Trigger | None = None, **definition: object
    ) -> TaskDecorator:
        """Decorate the handler of a task; see ``HandlerRegistry.task``.

        One that is decorated while the scheduler runs is scheduled at once.

        ```python
        scheduler = Scheduler(HandlerRegistry(), store)

        @scheduler.task("report", CronTrigger(hour=9))
        def report() -> None:
            ...
        ```

        Args:
            name: Of the task, and of the handler.
            trigger: When it fires by itself; None: an ``OnDemandTrigger``.
            definition: What else ``TaskDefinition`` takes, such as ``queue``.

        Raises:
            ConfigurationError: As there; or this scheduler's handler is no registry.
        """
        if self._registry is None:
            raise ConfigurationError(
                "tasks are kept in a registry: Scheduler(HandlerRegistry(), store)"
            )
        decorate = self._registry.task(name, trigger, **definition)

        def add(function: Callable[..., object]) -> Task[..., ..., object]:
            task: Task[..., ..., object] = decorate(function)
            if self._runs():
                self._schedule_tasks()
            return task

        return cast("TaskDecorator", add)

    def _use_tasks_of(self, handler: object) -> None:
        """Let the tasks of a handler, if it is a registry, be enqueued here."""
        self._registry = handler if isinstance(handler, HandlerRegistry) else None
        self._scheduled = set()
        if self._registry is not None:
            self._registry.bind(self)

    def _schedule_tasks(self) -> None:
        """Schedule the tasks that have not been since the last start."""
        new = self._unscheduled()
        if not new:
            return
        assert self._registry is not None
        if (owner := self._registry.owner) is None:
            self.schedule_all(new.values())
        else:
            # Those of others may be in another program, and all have work that waits.
            self.declare(
                new.values(),
                owner=owner,
                version=self._registry.version,
                removed="keep",
                adopt=True,
            )
        self._scheduled |= new.keys()

    def _unscheduled(self) -> Mapping[str, TaskDefinition]:
        """The definitions of these tasks, by their names."""
        tasks = {} if self._registry is None else self._registry.tasks
        return {
            name: task.definition
            for name, task in tasks.items()
            if name not in self._scheduled
        }

    def _task_of(self, definition_id: UUID) -> str | None:
        return None if self._registry is None else self._registry.name_of(definition_id)

    def _known_tasks(self) -> Collection[str]:
        return () if self._registry is None else self._registry.tasks

    def _payload_of(
        self, task: str | None, payload: Mapping[str, object] | None, connection: object
    ) -> Mapping[str, JSON] | None:
        tasks = {} if self._registry is None else self._registry.tasks
        if task is None or task not in tasks:
            return super()._payload_of(task, payload, connection)
        stored = tasks[task].payload.write({} if payload is None else payload)
        # Within the user's transaction nothing else is to be written beside it.
        if connection is None and task not in self._scheduled:
            self._schedule_tasks()
        return stored or None

    @abstractmethod
    def _runs(self) -> bool:
        """Whether a node of this scheduler's runs."""
