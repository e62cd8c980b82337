"""Handlers: what is called with a due instance, tasks, and a registry by name."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from dataclasses import fields
from functools import update_wrapper
from typing import (
    TYPE_CHECKING,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    cast,
    overload,
)

from go_scheduler.checks import check_name, check_takes_one, check_version
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.handlers.payload import Payload
from go_scheduler.models import TaskDefinition, TaskInstance
from go_scheduler.triggers.simple import OnDemandTrigger

if TYPE_CHECKING:
    from uuid import UUID

    from go_scheduler.triggers.base import Trigger

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


Handler: TypeAlias = Callable[[TaskInstance], object]
"""Called with a due instance; to return is success, to raise is failure."""

NAMELESS = "no handler is registered for definitions without a name"

TAKEN_BY_A_TASK = (
    *(
        each.name
        for each in fields(TaskDefinition)
        if each.compare and each.name not in ("trigger", "id", "key", "name")
    ),
    "paused",
    "note",
)
"""The fields of a definition that a task may set; the store or the name sets others."""

_Handler = TypeVar("_Handler", bound=Handler)


class HandlerRegistry:
    """A handler that calls the one registered under the definition's name.

    ```python
    handlers = HandlerRegistry()

    @handlers.register("send report")
    def send_report(instance):
        ...

    scheduler = Scheduler(handlers)
    ```

    An instance whose name is not registered on this node is given back, a little later
    each time, for a node that knows it.

    Its tasks may have an ``owner`` and a ``version``: they are then declared when they
    are scheduled, as by ``declare(..., adopt=True, removed="keep")``. In a rolling
    deploy a process of an older version that starts late leaves them as they are.

    Args:
        owner: Whose set the tasks are declared in, which has nothing else; None: they
            are scheduled, in no set.
        version: Rises with each release, such as the number of the build; None: the
            owner has no versions.

    Raises:
        ConfigurationError: The owner is no name, ``declare`` does not take the version,
            or there is a version without an owner.
    """

    def __init__(self, *, owner: str | None = None, version: int | None = None) -> None:
        self.owner = None if owner is None else check_name("owner", owner)
        check_version(version)
        if version is not None and owner is None:
            raise ConfigurationError(
                "a version belongs to an owner's set: pass owner= too"
            )
        self.version = version
        self.tasks: dict[str, Task[..., ..., object]] = {}
        self._names: dict[UUID, str] = {}
        self._handlers: dict[str | None, Handler] = {}
        self._async: set[str | None] = set()
        self._scheduler: Enqueues | None = None

    def __getstate__(self) -> dict[str, object]:
        # Other processes have no use for this scheduler.
        return {**vars(self), "_scheduler": None}

    def __copy__(self) -> Self:
        # Handlers added to the copy are not added here; the tasks are shared.
        made = object.__new__(type(self))
        for name, value in self.__getstate__().items():
            kept = value.copy() if isinstance(value, (dict, set)) else value
            vars(made)[name] = kept
        return made

    def register(self, name: str) -> Callable[[_Handler], _Handler]:
        """Decorate the handler of all definitions with this name.

        Raises:
            ConfigurationError: The name is taken, or is not a text of 1 to 200
                characters; or what is decorated cannot be called with an instance.
        """
        name = _checked_name(name, "register")
        if name in self._handlers:
            first = self._handlers[name]
            if isinstance(task := getattr(first, "__self__", None), Task):
                first = task
            called = getattr(first, "__qualname__", shown(first))
            raise ConfigurationError(
                f"a handler is registered as {name!r} already: {called} of"
                f" {first.__module__}"
            )

        def add(handler: _Handler) -> _Handler:
            check_handler(handler)
            if is_async_handler(handler):
                self._async.add(name)
            self._handlers[name] = handler
            return handler

        return add

    def task(
        self, name: str, trigger: Trigger | None = None, **definition: object
    ) -> TaskDecorator:
        """Decorate the handler of a task, and have a definition scheduled for it.

        A scheduler that is made with this registry schedules the definition when it
        starts, at its ``check()``, or when the task is enqueued; not within a
        transaction of yours, before which it has to be there. Its id is that of
        ``enqueue``: ``TaskDefinition.id_for("task " + name)``.

        ```python
        @handlers.task("report", CronTrigger("0 9 * * *"))
        def report() -> None:
            ...

        @handlers.task("send", queue="mail", retry=RetryPolicy(max_attempts=5))
        def send(order: int) -> None:
            ...

        scheduler = Scheduler(handlers, store)
        scheduler.enqueue("send", order=7)
        ```

        The handler's parameters are the payload. What is enqueued is checked by their
        types: dataclasses, dates and models as well if pydantic is installed. A payload
        that does not fit when it runs fails for good. A first parameter that is
        annotated as ``TaskInstance``, or that is not annotated and called ``instance``,
        is given the instance.

        Args:
            name: The name of the task and of the handler.
            trigger: When it fires by itself; None: an ``OnDemandTrigger``.
            definition: Further fields of ``TaskDefinition``, such as ``queue``, except
                ``id`` and what the store keeps.

        Raises:
            ConfigurationError: The name is taken or none; an argument is wrong, or is
                none that a task takes; or what is decorated cannot be a task, such as
                for a parameter called ``at``, ``delay``, ``key``, ``connection`` or
                ``payload``, which ``enqueue`` takes for itself.
        """
        known = task_definition(_checked_name(name, "task"), trigger, definition)
        register = self.register(name)

        def add(function: Callable[..., object]) -> Task[..., ..., object]:
            check_callable(function)
            task: Task[..., ..., object] = Task(function, known)
            self._keep(task)
            register(task.handler)
            return task

        return cast("TaskDecorator", add)

    def _keep(self, task: Task[..., ..., object]) -> None:
        """Add a task, so that it is scheduled and can be enqueued."""
        self.tasks[task.name] = task
        self._names[task.definition.id] = task.name
        if self._scheduler is not None:
            task.bind(self._scheduler)

    def routed(self, handlers: Mapping[str, Handler]) -> Self:
        """The same tasks and names, of which some are run by other handlers.

        It is for a scheduler that hands some of its work to somebody else, who has the
        handlers of this registry. Both have the same tasks: what is enqueued by one of
        them goes to the scheduler that was made last.

        ```python
        scheduler = Scheduler(handlers.routed({"resize": dispatcher}), store)
        ```

        Args:
            handlers: The other handlers, by names that are registered here.

        Raises:
            ConfigurationError: A name is not registered, a handler cannot be called
                with an instance, or they are not by names.
        """
        if not isinstance(handlers, Mapping):
            raise ConfigurationError(
                "handlers must be by their names, such as {'resize': dispatcher}, not"
                f" {shown(handlers)}"
            )
        for name, each in handlers.items():
            if name not in self:
                raise ConfigurationError(
                    f"no handler is registered as {shown(name)}, but"
                    f" {', '.join(sorted(self.names)) or 'none'}: there is nothing to"
                    " route"
                )
            check_handler(each)
        routed = copy(self)
        routed._handlers.update(handlers)
        now_async = {name for name, each in handlers.items() if is_async_handler(each)}
        routed._async = (self._async - handlers.keys()) | now_async
        return routed

    def bind(self, scheduler: Enqueues) -> None:
        """Let a scheduler take what the tasks enqueue, present and later ones."""
        self._scheduler = scheduler
        for each in self.tasks.values():
            each.bind(scheduler)

    def name_of(self, definition_id: UUID) -> str | None:
        """The name of the task that has this definition; None if there is none."""
        return self._names.get(definition_id)

    def __contains__(self, name: str) -> bool:
        """Whether a handler is registered by this name."""
        return name in self._handlers

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are registered, in their order."""
        return tuple(sorted(each for each in self._handlers if each is not None))

    def registered(self, name: str) -> Handler:
        """The handler that is registered under a name."""
        return self._handlers[name]

    def find(self, instance: TaskInstance) -> Handler | None:
        """The handler for an instance; None if its name is not registered."""
        return self._handlers.get(instance.definition.name)

    def is_async(self, instance: TaskInstance) -> bool:
        """Whether the handler for an instance is an ``async def``."""
        return instance.definition.name in self._async

    def __call__(self, instance: TaskInstance) -> object:
        """Call the handler for an instance.

        Raises:
            ConfigurationError: Its name is not registered.
        """
        handler = self.find(instance)
        if handler is None:
            raise ConfigurationError(
                f"no handler is registered as {shown(instance.definition.name)}"
            )
        return handler(instance)


def _checked_name(name: object, decorator: str) -> str:
    if callable(name):
        raise ConfigurationError(
            f"a handler has a name: write @handlers.{decorator}({_name_of(name)!r})"
            f" above it, not @handlers.{decorator}"
        )
    return check_name("name", name)


def _name_of(function: object) -> str:
    return str(getattr(function, "__name__", "name")).replace("_", " ")


def task_definition(
    name: str, trigger: Trigger | None, more: Mapping[str, object]
) -> TaskDefinition:
    """The definition of a task, with further fields."""
    if wrong := sorted(more.keys() - TAKEN_BY_A_TASK):
        from difflib import get_close_matches

        told = f"task {name!r} takes no {', '.join(wrong)}"
        if wrong[0] in ("id", "key"):
            raise ConfigurationError(f"{told}: its id follows from its name")
        if near := get_close_matches(wrong[0], TAKEN_BY_A_TASK, n=1):
            raise ConfigurationError(f"{told}; did you mean {near[0]!r}?")
        raise ConfigurationError(f"{told}; it takes {', '.join(TAKEN_BY_A_TASK)}")
    return TaskDefinition(
        id=task_id(name),
        name=name,
        trigger=OnDemandTrigger() if trigger is None else trigger,
        **more,  # type: ignore[arg-type]
    )


def find_handler(handler: Handler, instance: TaskInstance) -> Handler | None:
    """The callable that runs an instance; None if this node has none."""
    return handler.find(instance) if isinstance(handler, HandlerRegistry) else handler


def check_handler(handler: object) -> None:
    """Refuse what cannot be called with an instance, and generator functions.

    Raises:
        ConfigurationError: It is not callable with one argument, or a generator
            function.
    """
    check_callable(handler)
    assert callable(handler)
    check_takes_one("the handler", handler, argument="the instance")


def check_callable(handler: object) -> None:
    """Refuse what cannot be called, and generator functions.

    Raises:
        ConfigurationError: It is not callable, or a generator function.
    """
    if not callable(handler):
        raise ConfigurationError(f"the handler cannot be called: {shown(handler)}")
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise ConfigurationError(
            "the handler is a generator function, and to call it runs nothing:"
            f" {shown(handler)}"
        )


def refuse_generator(result: object) -> None:
    """Refuse a generator as the result of a handler: nothing of it has run.

    Raises:
        ConfigurationError: It is a generator.
    """
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise ConfigurationError("the handler returned a generator, which nothing runs")


def async_test(handler: Handler) -> Callable[[TaskInstance], bool]:
    """A function that tells whether an instance's handler is an ``async def``."""
    if isinstance(handler, HandlerRegistry):
        return handler.is_async
    answer = is_async_handler(handler)
    return lambda instance: answer
