"""The base classes of events, and the listeners that are told of them."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
    Protocol,
    TypedDict,
    TypeVar,
    overload,
)
from uuid import UUID

from go_scheduler.checks import check_takes_one
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from go_scheduler.models import Counts, Skipped, TaskDefinition, TaskInstance


class Line(NamedTuple):
    """A line of the log.

    Attributes:
        level: One of the levels of ``logging``.
        text: With places for values, such as ``%(node)s``.
        values: Values besides the fields of the event, whose durations are in seconds,
            and ``of`` and ``what``, which name its definition.
        ids: The values that are attributes of the record; None: the ids of the event.
        with_traceback: Whether the traceback of the event's exception follows.
    """

    level: int
    text: str
    values: Mapping[str, object] = {}
    ids: Sequence[str] | None = None
    with_traceback: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that has happened. All times are the store's, in UTC."""

    @property
    def _line(self) -> Line | None:
        """Its line in the log; None: it has none."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionEvent(Event):
    """Something that has happened to a definition.

    Attributes:
        definition_id: Which.
        name: Its name, if it has one.
        queue: Its queue.
    """

    definition_id: UUID
    name: str | None
    queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceEvent(Event):
    """Something that has happened to an instance that a node has claimed.

    Attributes:
        instance_id: Which.
        attempt: The claim that it is about: ``(instance_id, attempt)`` is the fencing
            token.
        definition_id: Its definition.
        name: The definition's name, if it has one.
        queue: The definition's queue.
    """

    instance_id: UUID
    attempt: int
    definition_id: UUID
    name: str | None
    queue: str


class DefinitionIds(TypedDict):
    """The fields of each event of a definition."""

    definition_id: UUID
    name: str | None
    queue: str


class SkippedIds(DefinitionIds):
    """The fields of each event of skipped fire times."""

    first: datetime
    last: datetime
    count: int
    reason: str


class InstanceIds(DefinitionIds):
    """The fields of each event of an instance."""

    instance_id: UUID
    attempt: int


def of_definition(definition: TaskDefinition) -> DefinitionIds:
    """The fields that identify this definition in an event."""
    return {
        "definition_id": definition.id,
        "name": definition.name,
        "queue": definition.queue,
    }


def of_skipped(definition: TaskDefinition, skipped: Skipped) -> SkippedIds:
    """The fields of an event of fire times of this definition that were skipped."""
    return {
        **of_definition(definition),
        "first": skipped.first,
        "last": skipped.last,
        "count": skipped.count,
        "reason": skipped.reason,
    }


def of_instance(instance: TaskInstance) -> InstanceIds:
    """The fields that identify this instance in an event."""
    return {
        **of_definition(instance.definition),
        "instance_id": instance.id,
        "attempt": instance.attempt,
    }


class Listener(Protocol):
    """A callable that is told of events, one at a time; what it returns is ignored."""

    def __call__(self, event: Event, /) -> object:
        """Take an event."""


Heard = TypeVar("Heard", bound=Event)
Also = TypeVar("Also", bound=Event)


class Hears:
    """A listener that is told of some kinds of events only; made by ``hears``.

    Args:
        listener: The listener.
        kinds: The classes of the events that it is told of.
    """

    def __init__(self, listener: Listener, kinds: tuple[type[Event], ...]) -> None:
        self.listener = listener
        self.kinds = kinds

    def __call__(self, event: Event) -> object:
        """Call the listener itself, as in a test of it."""
        return self.listener(event)


@overload
def hears(kind: type[Heard], /) -> Callable[[Callable[[Heard], object]], Hears]: ...


@overload
def hears(
    kind: type[Heard], also: type[Also], /
) -> Callable[[Callable[[Heard | Also], object]], Hears]: ...


@overload
def hears(*kinds: type[Event]) -> Callable[[Listener], Hears]: ...


def hears(*kinds: type[Heard]) -> Callable[[Callable[[Heard], object]], Hears]:
    """Make a listener that is told of these kinds of events only.

    ```python
    @hears(InstanceFinished)
    def count(event: InstanceFinished) -> None:
        finished[event.outcome] += 1
    ```

    Args:
        *kinds: Classes of events; of one such as ``InstanceEvent`` all that inherit.

    Returns:
        A decorator that makes a listener from a callable.

    Raises:
        ConfigurationError: No class is given, or one is no class of events.
    """
    if not kinds:
        raise ConfigurationError("say which events it hears: @hears(InstanceFinished)")
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Event)):
            raise ConfigurationError(
                f"{shown(kind)} is no class of events: see go_scheduler.events"
            )

    def restrict(listener: Callable[[Heard], object]) -> Hears:
        return Hears(_checked(listener), kinds)

    return restrict


def checked_listeners(listeners: object) -> Sequence[Hears]:
    """The listeners that a user gave, each with what it hears.

    Raises:
        ConfigurationError: They are no sequence of listeners.
    """
    if not isinstance(listeners, list | tuple):
        raise ConfigurationError(
            f"listeners must be a sequence of callables, not {shown(listeners)}"
        )
    return [
        each if isinstance(each, Hears) else Hears(_checked(each), (Event,))
        for each in listeners
    ]


def _checked(listener: object) -> Listener:
    if not callable(listener):
        raise ConfigurationError(f"a listener must be callable: {shown(listener)}")
    called = listener if inspect.isroutine(listener) else type(listener).__call__
    if inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(called):
        raise ConfigurationError(
            f"{shown(listener)} is async, and nobody awaits what a listener returns"
        )
    check_takes_one("a listener", listener, argument="the event")
    return listener


class Counting(Protocol):
    """The counts of a node."""

    def totals(self) -> Sequence[Counts]:
        """The counts since its start."""


class Watched(Protocol):
    """A node, as an instrument sees it."""

    @property
    def stopped(self) -> bool:
        """Whether it has stopped counting."""

    @property
    def metrics(self) -> Counting:
        """Its counts."""

    def health(self) -> Any:
        """Its ``Health``."""


class Put(NamedTuple):
    """What is put into the store by one call.

    Attributes:
        operation: The call's name, such as *schedule* or *enqueue*.
        name: Of the definition; None: it has none, nobody knows, or there are several.
        size: How many are put.
        carried: The trace context that a remote caller, such as one over HTTP, has
            sent; None: there is none.
    """

    operation: str
    name: str | None
    size: int
    carried: str | None


class Instrument(Hears, ABC):
    """A listener that hears few events, and reads counts instead.

    What comes by the thousand costs too much to be told one by one: an instrument reads
    what nodes have counted when somebody asks for it. One of a scheduler's
    ``listeners`` may be one.

    Attributes:
        surrounds: Whether handlers are called within ``around``.
    """

    surrounds = True

    @abstractmethod
    def watch(self, node: Watched) -> None:
        """Look at a node from now on, until it has stopped."""

    def carry(self, put: Put) -> str | None:
        """The trace context that what is put now carries to its handlers.

        It is called once for a call, on whatever thread it is made.

        Returns:
            At most 600 characters of ASCII, which ``trace_context`` of instances then
            is; None: it carries none.
        """
        return put.carried

    @abstractmethod
    def around(self, instance: TaskInstance) -> AbstractContextManager[object]:
        """The context for the call of an instance's handler, here or in a task."""
