"""Jitter: how much later than its fire time an instance is to run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from go_scheduler.clock import ZERO

if TYPE_CHECKING:
    from go_scheduler.models import TaskDefinition

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def jitter_of(definition: TaskDefinition, fire_time: datetime) -> timedelta:
    """From zero up to its ``jitter``: the same on each node and at any time.

    Args:
        definition: By its id, so that many of one schedule are spread.
        fire_time: Each has its own.
    """
    if definition.jitter is None:
        return ZERO
    instant = (fire_time - _EPOCH) // _MICROSECOND
    key = definition.id.bytes + instant.to_bytes(8, signed=True)
    # Here, as few have any: it takes long to import.
    from hashlib import blake2b

    drawn = int.from_bytes(blake2b(key, digest_size=8).digest())
    return drawn % (definition.jitter // _MICROSECOND + 1) * _MICROSECOND
