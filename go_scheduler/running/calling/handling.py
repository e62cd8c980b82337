"""What a node calls with due instances, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from go_scheduler.handlers.registry import Handler
    from go_scheduler.running.calling.event_loop import ApplicationLoop


def _none() -> None:
    """There is none."""


class Handling(NamedTuple):
    """A handler, and where it is called.

    Attributes:
        handler: What is called; None: nothing is, and the node claims nothing.
        executor: Calls it instead of the node's own threads; None: those.
        application: The event loop on which it is called if it is async; None: one of
            the node's own.
        beside: Has other nodes of the process look for instances.
    """

    handler: Handler | None
    executor: Executor | None = None
    application: ApplicationLoop | None = None
    beside: Callable[[], None] = _none
