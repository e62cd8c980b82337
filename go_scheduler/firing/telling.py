"""Telling: what has come of firings that the store has taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.events.definition_events import (
    DefinitionCompleted,
    InstanceCreated,
    InstanceSkipped,
)
from go_scheduler.events.event import of_definition, of_skipped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from go_scheduler.events.hub import Teller
    from go_scheduler.stores.messages import Firing


def tell_fired(events: Teller, firings: Sequence[Firing]) -> None:
    """Tell of the instances of firings, and of definitions that fire no more."""
    events.count_fired(firings)
    if events.wanted(InstanceCreated):
        for firing in firings:
            _tell_created(events, firing)
    if events.wanted(InstanceSkipped):
        for firing in firings:
            _tell_skipped(events, firing)
    if events.wanted(DefinitionCompleted):
        for firing in firings:
            _tell_completed(events, firing)


def _tell_created(events: Teller, firing: Firing) -> None:
    ids = of_definition(firing.definition)
    for fire_time in firing.fire_times:
        events.tell(InstanceCreated(**ids, fire_time=fire_time))


def _tell_skipped(events: Teller, firing: Firing) -> None:
    if firing.skipped is not None:
        events.tell(InstanceSkipped(**of_skipped(firing.definition, firing.skipped)))


def _tell_completed(events: Teller, firing: Firing) -> None:
    definition = firing.definition
    if firing.next_fire_time is None and not definition.trigger.waits:
        events.tell(DefinitionCompleted(**of_definition(definition)))
