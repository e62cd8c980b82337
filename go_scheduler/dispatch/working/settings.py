"""What a worker on a bus is like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from go_scheduler.clock import Clock, SystemClock
from go_scheduler.dispatch.bus import MessageBus
from go_scheduler.dispatch.topics import Topics
from go_scheduler.events.instrument import Instrument
from go_scheduler.running.overdue import GRACE


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a worker is like.

    Attributes:
        bus: The bus.
        handler: What it calls.
        topics: How topics are named.
        served: Which it takes runs from, each with the task whose own it is, or None.
        max_workers: The most handlers that run at once.
        limits: The most of some tasks.
        name: What it is known by.
        telemetry: Has a span around each call of a handler; None: there is none.
        patience: For how long after its stop it still tries to say what came of runs.
        short_patience: Likewise, that it has a run which it gives back then.
        grace: How long a handler has to end that was told to.
        clock: Tells the time.
    """

    bus: MessageBus
    handler: Callable[[Any], object]
    topics: Topics
    served: Mapping[str, str | None]
    max_workers: int
    limits: Mapping[str, int]
    name: str
    telemetry: Instrument | None = None
    patience: timedelta = timedelta(minutes=10)
    short_patience: timedelta = timedelta(seconds=5)
    grace: timedelta = GRACE
    clock: Clock = field(default_factory=SystemClock)
