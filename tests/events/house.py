"""A scheduler whose listener keeps all that it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from go_scheduler import Scheduler
from go_scheduler.events import Event

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor

    from go_scheduler.handlers.registry import Handler
    from go_scheduler.stores.base import Store
    from go_scheduler.testing import ManualClock

Told = TypeVar("Told", bound=Event)


class House:
    """A scheduler on a manual clock, and what its listener was told."""

    def __init__(
        self,
        clock: ManualClock,
        store: Store,
        handler: Handler | None = None,
        executor: Executor | None = None,
    ) -> None:
        self.told: list[Event] = []
        self.scheduler = Scheduler(
            (lambda _: None) if handler is None else handler,
            store,
            clock=clock,
            executor=executor,
            listeners=[self.told.append],
        )

    def of(self, kind: type[Told]) -> Sequence[Told]:
        """The events of one kind, in the order in which they were told."""
        return [each for each in self.told if isinstance(each, kind)]

    def one(self, kind: type[Told]) -> Told:
        """The only event of a kind."""
        [event] = self.of(kind)
        return event
