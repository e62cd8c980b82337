"""A task: a handler, and the definition by which it is enqueued or fires."""

from __future__ import annotations

import inspect
from functools import update_wrapper
from typing import (
    TYPE_CHECKING,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    overload,
)

from go_scheduler.errors import ConfigurationError
from go_scheduler.handlers.payload import Payload
from go_scheduler.models import TaskDefinition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from uuid import UUID

    from go_scheduler.models import TaskInstance

_Called = ParamSpec("_Called")
_Enqueued = ParamSpec("_Enqueued")
_Result = TypeVar("_Result", covariant=True)


class Enqueues(Protocol):
    """Enqueues tasks: a scheduler."""

    def enqueue(self, name: str, /, *, payload: Mapping[str, object]) -> TaskInstance:
        """Have a task done."""

    def aenqueue(
        self, name: str, /, *, payload: Mapping[str, object]
    ) -> Awaitable[TaskInstance]:
        """Await what ``enqueue`` does."""


class Task(Generic[_Called, _Enqueued, _Result]):
    """A handler that was decorated with ``task``; called, it is the function it was.

    ```python
    @handlers.task("send")
    def send(order: int, urgent: bool = False) -> None:
        ...

    send.enqueue(order=7)
    send(7)  # in place, as any function
    ```

    Attributes:
        name: Its name.
        definition: What is scheduled for it.
        payload: What it is enqueued with.
    """

    def __init__(
        self,
        function: Callable[_Called, _Result],
        definition: TaskDefinition,
        payload: Payload | None = None,
    ) -> None:
        assert definition.name is not None
        self.name = definition.name
        self.definition = definition
        self.payload = Payload(self.name, function) if payload is None else payload
        self._function = function
        self._scheduler: Enqueues | None = None
        update_wrapper(self, function)
        required = self.payload.required
        if required and definition.trigger.kind != "on_demand":
            raise ConfigurationError(
                f"task {self.name!r} fires by itself, and then has no payload: give"
                f" {', '.join(required)} a default"
            )

    def __call__(self, *args: _Called.args, **kwargs: _Called.kwargs) -> _Result:
        """Call the function in place."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name!r}>"

    def __reduce__(self) -> str:
        # Pickled by name, like the function that it replaces.
        return str(vars(self)["__qualname__"])

    def enqueue(
        self, *args: _Enqueued.args, **kwargs: _Enqueued.kwargs
    ) -> TaskInstance:
        """Enqueue it with these arguments, to run as soon as possible.

        For a time, a key or a transaction of yours: ``scheduler.enqueue(name, ...)``.

        Raises:
            ConfigurationError: The arguments are not what the handler takes; or no
                scheduler has been made for its registry.
        """
        payload = self.payload.arguments(*args, **kwargs)
        return self._enqueues().enqueue(self.name, payload=payload)

    async def aenqueue(
        self, *args: _Enqueued.args, **kwargs: _Enqueued.kwargs
    ) -> TaskInstance:
        """Await what ``enqueue`` does; see there."""
        payload = self.payload.arguments(*args, **kwargs)
        return await self._enqueues().aenqueue(self.name, payload=payload)

    def bind(self, scheduler: Enqueues) -> None:
        """Enqueue with this scheduler from now on."""
        self._scheduler = scheduler

    @property
    def handler(self) -> Callable[[TaskInstance], object]:
        """The handler, which is called with an instance."""
        return self._run_async if is_async_handler(self._function) else self._run

    async def _run_async(self, instance: TaskInstance) -> object:
        result = self._run(instance)
        assert inspect.isawaitable(result)
        return await result

    def _run(self, instance: TaskInstance) -> object:
        arguments = self.payload.read(instance.payload or {})
        first = (instance,) if self.payload.takes_instance else ()
        return self._function(*first, **arguments)  # type: ignore[arg-type]

    def _enqueues(self) -> Enqueues:
        if self._scheduler is None:
            raise ConfigurationError(
                f"no scheduler takes task {self.name!r}: make one with the registry"
                " that has it, Scheduler(handlers, store)"
            )
        return self._scheduler


class TaskDecorator(Protocol):
    """Makes a task from a function."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[TaskInstance, _Enqueued], _Result], /
    ) -> Task[Concatenate[TaskInstance, _Enqueued], _Enqueued, _Result]: ...

    @overload
    def __call__(
        self, function: Callable[_Enqueued, _Result], /
    ) -> Task[_Enqueued, _Enqueued, _Result]: ...


def task_id(name: str) -> UUID:
    """The id of the definition of the task with this name."""
    return TaskDefinition.id_for(f"task {name}")


def is_async_handler(handler: Callable[..., object]) -> bool:
    """Whether it is an ``async def``, or an object that is called by one."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004 - it is called, not tested
    )
