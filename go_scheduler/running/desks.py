"""Desks of a scheduler, which know the store's time without asking for it each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_scheduler.clock import StoreClock
from go_scheduler.running.desk import Desk
from go_scheduler.stores.slots import uses_slot

if TYPE_CHECKING:
    from collections.abc import Callable

    from go_scheduler.clock import Clock
    from go_scheduler.events.event import Event
    from go_scheduler.running.defaults import Defaults
    from go_scheduler.running.elsewhere import Success
    from go_scheduler.running.tally import Count
    from go_scheduler.stores.base import Store


class Desks:
    """Makes a desk for each batch that is written.

    Args:
        ready: Answers the store, once it has been made ready.
        clock: Measures what has passed since the store told its time.
        defaults: As for ``Desk``.
        tell: As for ``Desk``.
        count: As for ``Desk``.
    """

    def __init__(
        self,
        ready: Callable[[], Store],
        clock: Clock,
        *,
        defaults: Defaults,
        tell: Callable[[Event], None],
        count: Count,
    ) -> None:
        self._ready = ready
        self._base = clock
        self._clock: StoreClock | None = None
        self._defaults = defaults
        self._tell = tell
        self._count = count

    def desk(self) -> Desk:
        """One that knows what time it is.

        Raises:
            StoreUnavailableError: The store is away, and its time is not known.
        """
        store = self._ready()
        if self._clock is None:
            self._clock = StoreClock(self._base, store.now)
        self._clock.refresh(waits=True)
        return Desk(
            store,
            defaults=self._defaults,
            tell=self._tell,
            count=self._count,
            now=self._clock.now,
        )


def lets_others_run(run: Success) -> bool:
    """Whether the end of a run may let another begin, or its definition go on."""
    if run.instance is None:
        return True
    definition = run.instance.definition
    return definition.trigger.waits or uses_slot(definition)
