"""Listeners are checked when they are given, and hear what they were given for."""

from __future__ import annotations

from functools import partial
from uuid import UUID

import pytest

from go_scheduler import MemoryStore, Scheduler
from go_scheduler.errors import ConfigurationError
from go_scheduler.events import (
    DefinitionDeleted,
    DefinitionEvent,
    DefinitionsMoved,
    Event,
    InstanceEvent,
    NodeStopped,
    hears,
)
from go_scheduler.events.event import checked_listeners
from go_scheduler.events.event_bus import Events
from go_scheduler.testing import ManualClock

NODE = UUID(int=1)
STOPPED = NodeStopped(node=NODE, clean=True)
MOVED = DefinitionsMoved(count=1)
GONE = DefinitionDeleted(definition_id=NODE)


async def wait(_: Event) -> None: ...


class Waiting:
    async def __call__(self, event: Event) -> None: ...


@pytest.mark.parametrize(
    ("listeners", "text"),
    [
        (print, "listeners must be a sequence of callables, not <built-in"),
        ("print", "listeners must be a sequence of callables, not 'print'"),
        ([1], "a listener must be callable: 1"),
        ([wait], "is async, and nobody awaits what a listener returns"),
        ([lambda: 1], "is called with one argument, the event, and takes none"),
        ([Waiting()], "is async, and nobody awaits what a listener returns"),
    ],
)
def test_what_is_no_listener_is_refused_at_the_call(
    listeners: object, text: str
) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Scheduler(print, listeners=listeners)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "listener", [print, [].append, partial(print, "told:"), hears(NodeStopped)(print)]
)
def test_every_callable_is_a_listener(listener: object) -> None:
    assert len(checked_listeners((listener,))) == 1


def test_a_restricted_listener_is_checked_as_well() -> None:
    with pytest.raises(ConfigurationError, match="a listener must be callable: 1"):
        hears(NodeStopped)(1)  # type: ignore[arg-type]


@pytest.mark.parametrize("kinds", [(), (1,), (NodeStopped, int), (STOPPED,)])
def test_it_hears_classes_of_events_and_at_least_one(kinds: tuple[type[Event]]) -> None:
    with pytest.raises(ConfigurationError):
        hears(*kinds)


def test_a_restricted_listener_can_be_called_itself() -> None:
    heard: list[Event] = []
    hears(NodeStopped)(heard.append)(STOPPED)
    assert heard == [STOPPED]


def test_a_listener_hears_all_or_what_it_is_restricted_to() -> None:
    everything: list[Event] = []
    some: list[Event] = []
    two: list[Event] = []
    listeners = [
        everything.append,
        hears(NodeStopped)(some.append),
        hears(DefinitionsMoved, DefinitionDeleted)(two.append),
    ]
    told = [STOPPED, MOVED, GONE]
    teller = Events(checked_listeners(listeners), ManualClock()).teller("test")
    for each in told:
        teller.tell(each)
    assert everything == told
    assert some == told[:1]
    assert two == told[1:]


def test_what_inherits_from_what_it_hears_is_heard() -> None:
    events = Events([hears(DefinitionEvent)(print)], ManualClock())
    assert events.wanted(DefinitionEvent)
    assert not events.wanted(InstanceEvent)
    assert not events.wanted(DefinitionDeleted)


def test_a_scheduler_without_listeners_says_that_none_was_dropped() -> None:
    clock = ManualClock()
    scheduler = Scheduler(print, MemoryStore(clock), clock=clock)
    assert scheduler.health().events_dropped == 0
