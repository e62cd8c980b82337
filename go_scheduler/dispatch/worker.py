"""A worker on a bus: runs handlers here for schedulers elsewhere."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from go_scheduler.checks import check_made
from go_scheduler.dispatch.bus import OPENER, MessageBus
from go_scheduler.dispatch.recording import Topics
from go_scheduler.dispatch.working.life import (
    Life,
    Settings,
    checked_limits,
    served_topics,
    unserved_texts,
)
from go_scheduler.working.worker import (
    LivingWorker,
    Work,
    check_arguments,
    checked_name,
    checked_queues,
    own_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from go_scheduler.events.listening import Instrument

_LOG = logging.getLogger("go_scheduler.dispatch.worker")

__all__ = ["DispatchWorker", "Work"]


class DispatchWorker(LivingWorker):
    """Takes runs from a message bus, and runs them here.

    ```python
    with open_bus("amqp://localhost") as bus:
        DispatchWorker(bus, handlers, queues=("mail",)).run()
    ```

    Sync handlers are called on threads, ``async def`` handlers on an event loop. The
    return value is the result, if it is JSON. An exception is the error; raise
    ``RetryAfter``, ``Fail`` or ``GiveBack`` to decide what follows, as in any handler.
    Inside a handler ``current_run()`` says whether the run was cancelled or lost. The
    worker sends heartbeats. The ``timeout`` of a definition cancels ``async def``
    handlers. While the bus is away handlers go on; their results are sent once the bus
    is back.

    Args:
        bus: The bus, which you open and close.
        handler: Called with ``Work``; or a ``HandlerRegistry``, whose handlers are
            called by the names of their tasks, as by a scheduler.
        queues: The queues from which it takes runs.
        max_workers: The most handlers that run at once.
        limits: The most runs at once of some tasks, by their names, such as
            ``{"resize": 2}``.
        topic_per_task: The tasks that have topics of their own, as for the
            ``Dispatcher``; true, with a registry: all of its tasks.
        namespace: The beginning of all topics, as for the ``Dispatcher``.
        name: The worker's name, in lists and for cancelling; different for each worker.
            None: the name of the machine, the process id, and a random part.
        telemetry: Puts a span around each call of a handler, in the trace of the run,
            such as a ``Telemetry``; None: no spans.

    Raises:
        ConfigurationError: An argument is wrong.
    """

    def __init__(
        self,
        bus: MessageBus,
        handler: Callable[[Any], object],
        *,
        queues: Iterable[str] = ("default",),
        max_workers: int = 32,
        limits: Mapping[str, int] | None = None,
        topic_per_task: bool | Collection[str] = False,
        namespace: str = "go_scheduler",
        name: str | None = None,
        telemetry: Instrument | None = None,
    ) -> None:
        check_made("bus", bus, MessageBus, opener=OPENER)
        check_arguments(handler, max_workers, telemetry)
        if name is None:
            # Some brokers do not allow blanks in the names of queues.
            name = f"{own_name()} {uuid4().hex[:6]}".replace(" ", "-")
        topics = Topics(namespace)
        # This checks its length.
        topics.control(checked_name(name))
        names = checked_queues(queues)
        settings = Settings(
            bus=bus,
            handler=handler,
            topics=topics,
            served=served_topics(topics, names, handler, topic_per_task),
            max_workers=max_workers,
            limits=checked_limits(limits, handler),
            name=name,
            telemetry=telemetry,
        )
        for text in unserved_texts(names, handler, topic_per_task):
            _LOG.warning(text)
        super().__init__(lambda: Life(settings))
