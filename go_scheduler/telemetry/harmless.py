"""A span that cannot be begun or ended harms no run."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from go_scheduler.events.bounded_log import BoundedLog


class Harmless(AbstractContextManager[None]):
    """Enters and leaves another; what raises there is logged, and goes no further.

    What is raised within goes on.

    Args:
        make: Makes the other.
        log: Where that is told.
    """

    def __init__(
        self, make: Callable[[], AbstractContextManager[object]], log: BoundedLog
    ) -> None:
        self._make = make
        self._log = log
        self._entered: AbstractContextManager[object] | None = None

    def __enter__(self) -> None:
        try:
            made = self._make()
            made.__enter__()
            self._entered = made
        except Exception as error:
            self._tell("begun", error)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._entered is None:
            return
        try:
            self._entered.__exit__(kind, raised, traceback)
        except Exception as error:
            self._tell("ended", error)

    def _tell(self, what: str, error: Exception) -> None:
        self._log.write(
            logging.WARNING, "a span could not be %s", what, ids={}, error=error
        )
