"""A scheduler's settings, checked before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING

from go_scheduler.checks import (
    LEAST_EXPIRE_AFTER,
    check_at_least,
    check_name,
    check_number,
    check_policy,
)
from go_scheduler.clock import ZERO
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.policies import CatchUp, RetryPolicy
from go_scheduler.stores.messages import Claimant, Retention

if TYPE_CHECKING:
    from uuid import UUID

_LEAST = {
    # Half a window is both the longest lead and the pause between two ticks.
    "schedule_window": timedelta(milliseconds=100),
    "runner_window": timedelta(milliseconds=100),
    "cleanup_window": timedelta(milliseconds=100),
    "expire_after": LEAST_EXPIRE_AFTER,
    "timeout": LEAST_EXPIRE_AFTER,
    # A renewal must succeed within a third of it, even on a busy machine.
    "lease": timedelta(seconds=1),
    "jitter": ZERO,
    "retention": ZERO,
    "retention_failed": ZERO,
    "remember": ZERO,
    "clock_error": ZERO,
    "lateness_objective": timedelta(milliseconds=1),
}
_POLICIES = {"retry": RetryPolicy, "catch_up": CatchUp}
_FAILED_KEPT = timedelta(days=7)
_LEAST_SPARES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a scheduler behaves; see ``Scheduler`` for what each one means."""

    schedule_window: timedelta
    runner_window: timedelta
    cleanup_window: timedelta
    queues: Sequence[str]
    max_workers: int
    max_held: int
    max_hung: int | None
    max_hangs: int | None
    expire_after: timedelta
    timeout: timedelta | None
    retry: RetryPolicy | None
    catch_up: CatchUp
    jitter: timedelta | None
    lease: timedelta
    retention: timedelta
    retention_failed: timedelta | None
    remember: timedelta
    clock_error: timedelta | None
    lateness_objective: timedelta | None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            # Annotations are kept as text.
            if value is None and str(each.type).endswith(" | None"):
                continue
            if each.name == "queues":
                object.__setattr__(self, "queues", checked_queues(value))
            elif each.name in _LEAST:
                check_at_least(each.name, value, _LEAST[each.name])
            elif each.name in _POLICIES:
                check_policy(each.name, value, _POLICIES[each.name])
            else:
                check_number(each.name, value, 1)

    @property
    def spares(self) -> int:
        """How many handlers may hang; by default some for few workers as well."""
        if self.max_hung is None:
            return max(_LEAST_SPARES, self.max_workers)
        return self.max_hung

    def claimant(self, node: UUID) -> Claimant:
        """What a store needs to know of a node with these settings."""
        return Claimant(
            node=node,
            queues=tuple(self.queues),
            lease=self.lease,
            expire_after=self.expire_after,
        )

    @property
    def kept(self) -> Retention:
        """How long what has ended is kept; by default, what failed at least as long.

        That is a lease at least: whoever reports an end again finds the first one.
        """
        failed = self.retention_failed
        if failed is None:
            failed = max(_FAILED_KEPT, self.retention) if self.retention else ZERO
        return Retention(
            ended=max(self.retention, self.lease),
            failed=max(failed, self.lease),
            remembered=self.remember,
        )


def checked_queues(queues: object) -> tuple[str, ...]:
    """The names of queues, each once.

    Raises:
        ConfigurationError: They are none, or there is none.
    """
    if isinstance(queues, str) or not isinstance(queues, tuple | list):
        raise ConfigurationError(
            f"queues must be a sequence of names, not {shown(queues)}"
        )
    if not queues:
        raise ConfigurationError(
            "queues must name at least one; to serve none, pass handler=None"
        )
    return tuple(dict.fromkeys(check_name("queue", each) for each in queues))
