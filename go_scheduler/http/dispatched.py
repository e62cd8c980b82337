"""The message bus of a server: what it publishes there, and hears."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from go_scheduler.handlers.job_types import JobTypes
    from go_scheduler.http.configuration.configuration import Configuration
    from go_scheduler.scheduler import Scheduler


class Dispatched:
    """Has types of jobs run by workers on the bus that is set, if any is.

    Args:
        settings: All that is set.
        types: Gets those that are run there.

    Raises:
        ConfigurationError: A setting is wrong.
    """

    def __init__(self, settings: Configuration, types: JobTypes) -> None:
        self._stack = ExitStack()
        self._dispatcher = None
        bus = settings.dispatch.bus()
        if bus is not None:
            self._stack.callback(bus.close)
            self._dispatcher = settings.dispatch.dispatcher(
                bus, types, queue=settings.types.queue
            )

    def hear(self, scheduler: Scheduler) -> None:
        """Begin to hear what workers say."""
        if self._dispatcher is not None:
            self._stack.enter_context(self._dispatcher.hearing(scheduler))

    def close(self) -> None:
        """Hear no more, and let go of the bus."""
        self._stack.close()
