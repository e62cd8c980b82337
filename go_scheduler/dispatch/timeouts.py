"""How long runs over the bus may take to begin, be silent, and last."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.checks import check_positive
from go_scheduler.models import Stage
from go_scheduler.running.defaults import Defaults

if TYPE_CHECKING:
    from go_scheduler.models import TaskInstance

_FIRST_DELAY, _LONGEST_DELAY = timedelta(seconds=1), timedelta(minutes=1)
_MOST_DOUBLED = 6


def offered_again_after(attempt: int) -> timedelta:
    """For how long what a worker gives back is nobody's: longer each time."""
    return min(_LONGEST_DELAY, _FIRST_DELAY * (1 << min(attempt - 1, _MOST_DOUBLED)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """What holds for runs of definitions that do not say.

    Attributes:
        start_timeout: How long one may wait to be accepted, and then to begin.
        heartbeat_timeout: How long one that has begun may be silent; None: as long as
            its ``expire_after``.
        defaults: What the scheduler says of the rest.

    Raises:
        ConfigurationError: One of them is no timedelta above zero.
    """

    start_timeout: timedelta = timedelta(minutes=1)
    heartbeat_timeout: timedelta | None = None
    defaults: Defaults = field(default_factory=Defaults)

    def __post_init__(self) -> None:
        check_positive("start_timeout", self.start_timeout)
        if self.heartbeat_timeout is not None:
            check_positive("heartbeat_timeout", self.heartbeat_timeout)

    def start_timeout_of(self, instance: TaskInstance) -> timedelta:
        """How long a run of it may wait to be accepted, and then to begin."""
        return instance.definition.start_timeout or self.start_timeout

    def heartbeat_timeout_of(self, instance: TaskInstance) -> timedelta:
        """How long a run of it may be silent."""
        return (
            instance.definition.heartbeat_timeout
            or self.heartbeat_timeout
            or self.defaults.expire_after_of(instance)
        )

    def kept(self, instance: TaskInstance, stage: Stage) -> timedelta:
        """How long a run that has come so far is kept until more is heard of it."""
        if stage is Stage.STARTED:
            return self.heartbeat_timeout_of(instance)
        return self.start_timeout_of(instance)
