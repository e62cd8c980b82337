"""Types of jobs: tasks whose payloads have a JSON schema, for whoever submits them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from go_scheduler.checks import check_type
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.handlers.payload import Payload
from go_scheduler.handlers.registry import (
    Handler,
    HandlerRegistry,
    Task,
    check_handler,
    task_definition,
)
from go_scheduler.handlers.schema import DIALECT, Schema
from go_scheduler.json import JSON, freeze
from go_scheduler.models import PAYLOAD_LIMIT, TaskDefinition, TaskInstance
from go_scheduler.run import Fail

MARK = "go_scheduler.type"
"""Keys in the metadata of a declared type: its description and its schema."""


def unmarked(metadata: Mapping[str, JSON]) -> dict[str, JSON]:
    """Metadata as handlers see it: without what describes the type."""
    return {name: value for name, value in metadata.items() if name != MARK}


ENTRY_POINTS = "go_scheduler.job_types"


class Executor(Protocol):
    """A handler that says what it is to be enqueued with: a webhook, say."""

    @property
    def description(self) -> str:
        """What it does, for a person to read."""

    @property
    def payload(self) -> Payload:
        """What checks its payloads."""

    def __call__(self, instance: TaskInstance, /) -> object:
        """Do it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobType:
    """What whoever submits jobs may know of a type.

    Attributes:
        name: Its name.
        description: What it does, for a person to read; empty if nobody said.
        schema: The JSON schema (2020-12) of its payload.
        definition: The definition of its task, with queue, retry policy and so on.
        over_bus: Whether its runs are published on a message bus, for workers there.
    """

    name: str
    description: str
    schema: Mapping[str, JSON]
    definition: TaskDefinition
    over_bus: bool = False


class JobTypes(HandlerRegistry):
    """A registry of handlers whose payloads are checked when they are submitted.

    A type is a task: enqueued by its name, with the queue and the policies that it was
    given. Executors are added, functions decorated:

    ```python
    types = JobTypes()
    types.add("webhook", Webhook(), retry=RetryPolicy(max_attempts=10))

    @types.task("resize")  # its parameters are the payload
    def resize(picture: str, width: int = 640) -> None:
        ...

    @types.job_type("import", schema={"required": ["file"]}, queue="slow")
    def import_file(instance: TaskInstance) -> None:
        ...

    scheduler = Scheduler(types, store)
    scheduler.enqueue("resize", picture="cat.png")
    ```

    Args:
        owner: As for ``HandlerRegistry``.
        version: As for ``HandlerRegistry``.
    """

    def __init__(self, *, owner: str | None = None, version: int | None = None) -> None:
        super().__init__(owner=owner, version=version)
        self._types: dict[str, JobType] = {}

    def add(self, name: str, executor: Executor, **definition: object) -> None:
        """Add an executor as a type.

        Args:
            name: Of the type.
            executor: Such as a ``Webhook``.
            definition: Further fields of the task's definition, such as ``queue``,
                ``retry``, ``timeout`` or ``expire_after``.

        Raises:
            ConfigurationError: The name is taken or none, or an argument is wrong.
        """
        if not isinstance(getattr(executor, "payload", None), Payload):
            raise ConfigurationError(
                f"{shown(executor)} is no executor: decorate a function by"
                f" @types.task({name!r}) or @types.job_type({name!r}, schema=...)"
            )
        known = task_definition(name, None, definition)
        register = self.register(name)
        self._keep(Task(executor.__call__, known, executor.payload))
        register(executor)
        self._describe(name, executor.description)

    def job_type(
        self,
        name: str,
        *,
        schema: Mapping[str, object],
        description: str | None = None,
        **definition: object,
    ) -> Callable[[Handler], Task[..., ..., object]]:
        """Decorate the handler of a type that has a schema of its own.

        The handler is called with the instance, and finds ``instance.payload``.

        Args:
            name: Of the type.
            schema: The JSON schema (2020-12) of the payload, which is an object.
            description: What it does; None: the first line of its docstring.
            definition: As for ``add``.

        Raises:
            ConfigurationError: The name is taken or no name, an argument is wrong, or
                the schema is no schema; see ``Schema``.
        """
        payload = SchemaPayload(name, Schema(schema))
        known = task_definition(name, None, definition)
        register = self.register(name)

        def decorate(handler: Handler) -> Task[..., ..., object]:
            check_handler(handler)
            task: Task[..., ..., object] = Task(handler, known, payload)
            self._keep(task)
            register(task.handler)
            self._types[name] = replace(
                self._types[name], over_bus=getattr(handler, "over_bus", False)
            )
            if description is not None:
                self._describe(name, description)
            return task

        return decorate

    def load_announced(self) -> None:
        """Add the types that installed packages announce.

        Each is an entry point in the group ``go_scheduler.job_types``: a callable that
        is called with this registry and adds its types.

        Raises:
            ConfigurationError: One could not be imported, or its types not be added.
        """
        from importlib.metadata import entry_points

        for announced in entry_points(group=ENTRY_POINTS):
            try:
                announced.load()(self)
            except Exception as error:
                raise ConfigurationError(
                    f"the job types announced as {shown(announced.name)} cannot be"
                    f" added: {shown(error)}"
                ) from error

    def check(self, name: str, payload: Mapping[str, object]) -> Mapping[str, JSON]:
        """Check what a job of a type is to be submitted with.

        Returns:
            The payload as it is stored.

        Raises:
            ConfigurationError: There is no such type; or the payload does not fit: the
                text has the path of what is wrong, and what was expected there.
        """
        self.described(name)
        stored = self.tasks[name].payload.write(payload)
        return freeze(stored, name="payload", limit=PAYLOAD_LIMIT)

    def described(self, name: str) -> JobType:
        """What may be known of a type.

        Raises:
            ConfigurationError: There is no such type.
        """
        if name in self._types:
            return self._types[name]
        known = ", ".join(sorted(self._types)) or "none"
        raise ConfigurationError(
            f"there is no job type {shown(name)}; known: {known:.500}"
        )

    @property
    def types(self) -> Sequence[JobType]:
        """What may be known of each type, in the order of their names."""
        return [self._types[name] for name in sorted(self._types)]

    def _keep(self, task: Task[..., ..., object]) -> None:
        described = JobType(
            name=task.name,
            description=(inspect.getdoc(task) or "").partition("\n")[0],
            schema={"$schema": DIALECT} | task.payload.schema(),
            definition=task.definition,
        )
        super()._keep(task)
        self._types[task.name] = described

    def _describe(self, name: str, description: str) -> None:
        check_type("description", description, str)
        self._types[name] = replace(self._types[name], description=description)


class SchemaPayload(Payload):
    """A payload that is checked by a schema of its own.

    Args:
        task: The type's name.
        schema: The schema.
    """

    def __init__(self, task: str, schema: Schema) -> None:
        super().__init__(task, _anything)
        self._schema = schema

    def schema(self) -> dict[str, JSON]:
        """The schema it was made with."""
        return dict(self._schema.value)

    def write(self, given: Mapping[str, object]) -> dict[str, JSON]:
        """A payload as it is stored.

        Raises:
            ConfigurationError: It does not fit.
        """
        stored = super().write(given)
        self._schema.check(stored)
        return stored

    def read(self, stored: Mapping[str, JSON]) -> dict[str, object]:
        """Return nothing: the handler takes the payload from its instance.

        Raises:
            Fail: It does not fit any more; no further run would change that.
        """
        try:
            self._schema.check(stored)
        except ConfigurationError as error:
            raise Fail(str(error)) from None
        return {}


def _anything(instance: TaskInstance, **payload: object) -> None:
    """Stands for a handler whose payload a schema describes, not its parameters."""
