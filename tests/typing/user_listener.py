"""User code that must type-check: listeners."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, assert_type
from uuid import UUID

from go_scheduler import Scheduler
from go_scheduler.events import (
    Event,
    InstanceEvent,
    InstanceFinished,
    InstanceRetried,
    InstanceStarted,
    Listener,
    hears,
)

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence


def keep(event: Event) -> None: ...


@hears(InstanceFinished)
def count(event: InstanceFinished) -> None:
    assert_type(event.took, timedelta | None)


@hears(InstanceFinished, InstanceRetried)
def measure(event: InstanceFinished | InstanceRetried) -> str | None:
    return event.error


@hears(InstanceStarted, InstanceFinished, InstanceRetried)
def follow(event: Event) -> None:
    assert isinstance(event, InstanceEvent)
    assert_type(event.instance_id, UUID)


class Metrics:
    def __call__(self, event: Event) -> None: ...


def use(kept: list[Event], names: Counter[str]) -> Scheduler:
    listeners: Sequence[Listener] = [
        print,
        keep,
        kept.append,
        count,
        measure,
        follow,
        Metrics(),
        hears(InstanceStarted)(lambda event: names.update([event.name or ""])),
    ]
    return Scheduler(print, listeners=listeners)
