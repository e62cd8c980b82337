"""What is to be done by a task, one of many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from go_scheduler.instead import write_instead


@write_instead('Job(payload={"order": 7}, key="order 7")')
@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One of many for ``enqueue_all``, with a time or a key of its own.

    Attributes:
        payload: What it is to be done with.
        at: When; None: as soon as possible.
        delay: So long after the store's time, instead of ``at``; zero or more.
        key: As for ``enqueue``.
        id: Of the instance, if one is made. The answer has another id if there was one
            with the ``key`` already.
    """

    payload: Mapping[str, object] | None = field(default=None, hash=False)
    at: datetime | None = None
    delay: timedelta | None = None
    key: str | None = None
    id: UUID = field(default_factory=uuid4)
