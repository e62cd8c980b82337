"""A run that a worker has taken from a bus."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from go_scheduler.errors import SchedulerStateError
from go_scheduler.json import write_value
from go_scheduler.models import RESULT_LIMIT
from go_scheduler.models.changed import changed
from go_scheduler.run import run_here
from go_scheduler.working.given import Given
from go_scheduler.working.work import Work, frozen, instance_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from uuid import UUID

    from go_scheduler.dispatch.bus import Delivery
    from go_scheduler.dispatch.messages.actions import Run
    from go_scheduler.json import JSON
    from go_scheduler.models import TaskInstance


class Key(NamedTuple):
    """What a run is known by, everywhere."""

    instance_id: UUID
    attempt: int


class Taken(Given):
    """A run as a worker has it, from the moment it was delivered.

    Args:
        run: The message.
        topic: Where it came from.
        goes_on: Says that it goes on, and how far it has come.

    Attributes:
        deliveries: Those of its message that wait until it has been accepted.
        began_at: When its handler was called, by this machine's clock; None: not yet.
        stop_beating: Ends that it is said again and again that it goes on.

    Raises:
        ConfigurationError: Its payload or metadata are none.
    """

    place = "a worker on a bus"
    recorder = "the scheduler"

    def __init__(
        self, run: Run, topic: str, goes_on: Callable[[Taken, JSON], None]
    ) -> None:
        # As long as it says so, it is kept: how much longer is of no use.
        super().__init__(_work_of(run), lambda taken, by: goes_on(taken, None))
        self._goes_on = goes_on
        self.run = run
        self.key = Key(run.instance_id, run.attempt)
        self.topic = topic
        self.deliveries: list[Delivery] = []
        self.began_at: datetime | None = None
        self.stop_beating: Callable[[], None] = _nothing

    def tell(self, progress: JSON) -> None:
        """Say how far it has come."""
        self._goes_on(self, progress)

    @cached_property
    def instance(self) -> TaskInstance:
        """What is run, as far as a worker knows it."""
        run = self.run
        return changed(
            instance_of(self.work),
            fire_time=run.fire_time,
            key=run.key,
            runs=run.runs,
        )


def _nothing() -> None:
    """It is not said yet."""


def _work_of(run: Run) -> Work:
    return Work(
        instance_id=run.instance_id,
        type=run.task,
        payload=None if run.payload is None else frozen(run.payload, "payload"),
        metadata=frozen(run.metadata, "metadata"),
        attempt=run.attempt,
        execute_at=run.execute_at,
        definition_id=run.definition_id,
        queue=run.queue,
        traceparent=run.trace_context,
        tracestate=run.trace_state,
    )


def tell_progress(progress: JSON) -> None:
    """Say how far the run has come in which this is called.

    The scheduler keeps the last of it as the ``progress`` of the instance.

    Args:
        progress: Any JSON value, of at most 64 KiB as text.

    Raises:
        ConfigurationError: It is none.
        SchedulerStateError: No handler of a ``DispatchWorker`` is executing here.
    """
    taken = run_here()
    if not isinstance(taken, Taken):
        raise SchedulerStateError(
            "tell_progress() is for handlers that a DispatchWorker calls"
        )
    # A copy: what it was may change before it is sent.
    text = write_value(progress, name="progress", limit=RESULT_LIMIT)
    taken.tell(json.loads(text))
