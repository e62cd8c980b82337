"""Listeners: callables that users give to be told of events."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from logging import ERROR, WARNING
from typing import TYPE_CHECKING, Protocol, TypeVar, overload

from go_scheduler.checks import check_takes_one
from go_scheduler.errors import ConfigurationError
from go_scheduler.events.event import Event, Line
from go_scheduler.formatting import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Listener(Protocol):
    """A callable that is told of events, one at a time; what it returns is ignored."""

    def __call__(self, event: Event, /) -> object:
        """Take an event."""


Heard = TypeVar("Heard", bound=Event)
Also = TypeVar("Also", bound=Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerFailed(Event):
    """A listener raised. Only the log is told, as a listener could fail at this again.

    Attributes:
        listener: Which, as text.
        told: The name of the event's class.
        exception: What it raised.
    """

    listener: str
    told: str
    exception: BaseException

    _line = Line(
        ERROR,
        "the listener %(listener)s failed when it was told of %(told)s: %(exception)r",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsDropped(Event):
    """A listener is too slow for the events. Only the log is told.

    Attributes:
        listener: Which, as text.
        count: How many events it was not told of, since it was given.
    """

    listener: str
    count: int

    _line = Line(
        WARNING,
        "the listener %(listener)s is too slow: %(count)d events have been dropped so"
        " far",
    )


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
