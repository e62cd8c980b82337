"""A scheduler's settings, checked before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import timedelta

from go_scheduler.checks import check_name, check_positive, check_type
from go_scheduler.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a scheduler behaves; see ``Scheduler`` for what each one means."""

    schedule_window: timedelta
    runner_window: timedelta
    cleanup_window: timedelta
    queues: Sequence[str]
    max_workers: int
    max_held: int
    max_hangs: int | None
    expire_after: timedelta
    lease: timedelta
    retention: timedelta

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "queues":
                _check_queues(value)
            elif each.name in ("max_workers", "max_held", "max_hangs"):
                if each.name == "max_hangs" and value is None:
                    continue
                check_type(each.name, value, int)
                if value < 1:
                    raise ConfigurationError(f"{each.name} must be at least 1: {value}")
            else:
                check_positive(each.name, value)
        object.__setattr__(self, "queues", tuple(dict.fromkeys(self.queues)))


def _check_queues(queues: object) -> None:
    if isinstance(queues, str) or not isinstance(queues, tuple | list):
        raise ConfigurationError(f"queues must be a sequence of names, not {queues!r}")
    if not queues:
        raise ConfigurationError(
            "queues must name at least one; to serve none, pass handler=None"
        )
    for queue in queues:
        check_name("queue", queue)
