"""A run as a worker has it: what its handler may ask, and what came of it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from go_scheduler.errors import ConfigurationError
from go_scheduler.working.work import instance_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from go_scheduler.json import JSON
    from go_scheduler.models import TaskInstance
    from go_scheduler.running.failure import Failure
    from go_scheduler.working.work import Work


class Ending(NamedTuple):
    """What came of a run.

    Attributes:
        failure: Why it did not succeed; None: it did.
        result: What its handler returned, a JSON value.
    """

    failure: Failure | None = None
    result: JSON = None


class Given:
    """What a worker was handed and still has, as ``current_run()`` shows it.

    Args:
        work: What it was handed.
        extend: Asks for more time, without waiting for an answer.

    Attributes:
        place: Where it runs, as errors name it.
        recorder: Who records what came of it, likewise.
        is_to_end: Whether its handler is to end, as far as it can be made to.
        was_ended: Whether it was cancelled for that.
    """

    joined = False
    place: ClassVar[str]
    recorder: ClassVar[str]

    def __init__(self, work: Work, extend: Callable[[Any, timedelta], None]) -> None:
        self.work = work
        self.lost = False
        self.cancel_requested = False
        self.is_to_end = self.was_ended = False
        self._extend = extend

    @cached_property
    def instance(self) -> TaskInstance:
        """What is run, as far as a worker knows it."""
        return instance_of(self.work)

    def extend(self, by: timedelta) -> bool:
        """Ask for more time; false: it is too late for that."""
        if self.lost:
            return False
        self._extend(self, by)
        return True

    def complete_in(self, connection: object) -> bool:
        """Refuse: the store is elsewhere.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(
            "complete_in() is for handlers next to their store, and this one runs in"
            f" {self.place}: return, and {self.recorder} records it"
        )
