"""A line of the log, and who is asked for that of an event."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import singledispatch
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from go_scheduler.events.event import DefinitionEvent, Event, InstanceEvent

DEBUG, INFO = logging.DEBUG, logging.INFO
WARNING, ERROR = logging.WARNING, logging.ERROR


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the log.

    Attributes:
        level: One of the levels of ``logging``.
        message: With a place for each of ``args``.
        args: What goes there.
        ids: Given to the record as attributes, as text.
        error: Written with its traceback, if that is worth its lines.
    """

    level: int
    message: str
    args: tuple[object, ...] = ()
    ids: Mapping[str, object] = field(default_factory=dict)
    error: BaseException | None = None


@singledispatch
def line_of(event: Event) -> Line | None:
    """What the log says of an event; None: nothing."""


def definition_ids(event: DefinitionEvent) -> Mapping[str, object]:
    """The ids of a line about a definition."""
    return {"definition_id": event.definition_id}


def run_ids(event: InstanceEvent) -> Mapping[str, object]:
    """The ids of a line about an instance, or a run of it."""
    return {
        "instance_id": event.instance_id,
        "definition_id": event.definition_id,
        "attempt": event.attempt,
    }
