"""A run as a worker has it: what its handler may ask, and what came of it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from go_scheduler.errors import ConfigurationError
from go_scheduler.http.working.work import instance_of, work_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from go_scheduler.json import JSON
    from go_scheduler.models import TaskInstance
    from go_scheduler.running.failure import Failure


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
        item: As the server sends it.
        extend: Asks the server for more time, without waiting for its answer.
    """

    joined = False

    def __init__(
        self, item: Mapping[str, Any], extend: Callable[[Given, timedelta], None]
    ) -> None:
        self.work = work_of(item)
        self.token: str = item["token"]
        self.lease: float = item["lease"]
        self.lost = False
        self.cancel_requested = False
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
        """Refuse: the store is the server's.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(
            "complete_in() is for handlers next to their store, and this one runs in a"
            " worker of an HTTP server: return, and the server records it"
        )
