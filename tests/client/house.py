"""A house in which something is asked about: a scheduler, and one definition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.models import TaskDefinition
from go_scheduler.scheduler import Scheduler
from go_scheduler.testing.builders import HOUR

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from go_scheduler.handlers.registry import Handler
    from go_scheduler.models import TaskInstance
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock
    from go_scheduler.triggers.base import Trigger
    from go_scheduler.why import Why


def fail(_: TaskInstance) -> None:
    raise ValueError("no paper")


class House:
    """A scheduler, and the definition that is asked about."""

    def __init__(
        self,
        store: Store,
        clock: ManualClock,
        handler: Handler | None = None,
        **settings: object,
    ) -> None:
        self.clock, self.store = clock, store
        handler = (lambda _: None) if handler is None else handler
        # Long windows: a day is soon over.
        windows = ("schedule_window", "runner_window", "cleanup_window", "lease")
        settings = {**dict.fromkeys(windows, 3 * HOUR), **settings}
        self.scheduler = Scheduler(handler, store, clock=clock, **settings)  # type: ignore[arg-type]

    def schedule(self, trigger: Trigger, **fields: object) -> TaskDefinition:
        made = TaskDefinition(trigger=trigger, **fields)  # type: ignore[arg-type]
        self.definition = self.scheduler.schedule(made)
        return self.definition

    def run_for(self, span: timedelta) -> None:
        self.scheduler.start()
        self.clock.advance(span)

    def why(self, at: datetime | None = None) -> Why:
        return self.scheduler.why(self.definition.id, at)
