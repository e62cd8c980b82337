"""What becomes instances: a step of a definition, and what is added to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from go_scheduler.checks import check_at_least, check_name, check_trace_context
from go_scheduler.clock import ZERO
from go_scheduler.json import JSON, freeze_and_write
from go_scheduler.models import PAYLOAD_LIMIT, Skipped, TaskDefinition, TaskInstance
from go_scheduler.models.trusted import trusted
from go_scheduler.triggers.base import utc

_instance = trusted(TaskInstance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """One step of a definition: the instances to create, and where it goes on.

    Attributes:
        definition: The definition as it was read; the step counts only if its
            ``next_fire_time`` and ``revision`` are still the same.
        fire_times: The fire times that become instances, earliest first.
        execute_times: When each of these is to run, no sooner; empty: at its fire time.
        skipped: The fire times before those that will not run.
        next_fire_time: The next fire time after all of these; None: there is none, or a
            run has to end first.
    """

    definition: TaskDefinition
    fire_times: tuple[datetime, ...]
    skipped: Skipped | None = None
    next_fire_time: datetime | None = None
    execute_times: tuple[datetime, ...] = ()

    def instances(self) -> Iterable[tuple[datetime, datetime]]:
        """Of each instance to create its fire time, and when it is to run."""
        return zip(self.fire_times, self.execute_times or self.fire_times, strict=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """An instance to be made that is no fire time's.

    Attributes:
        id: Its identity, by which it is made once, however often that is repeated.
        at: When it is to run; None: so long after the store's time.
        delay: How long that is, zero or more.
        payload: What it is for: a JSON object of at most 64 KiB.
        key: As long as an instance of its definition has this key, no second one is
            made; at most 200 characters.
        trace_context: In which trace it is asked for, see ``TaskDefinition``; None: in
            none. A store may leave it out.
        payload_text: The payload as JSON text; made of it.

    Raises:
        ConfigurationError: A value is of the wrong type, out of range, or one that no
            store can keep.
    """

    id: UUID = field(default_factory=uuid4)
    at: datetime | None = None
    delay: timedelta = ZERO
    payload: Mapping[str, JSON] | None = field(default=None, hash=False)
    key: str | None = None
    trace_context: str | None = None
    payload_text: str | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if self.at is not None:
            object.__setattr__(self, "at", utc(self.at, name="at"))
        check_at_least("delay", self.delay, ZERO)
        if self.payload is not None:
            frozen, text = freeze_and_write(
                self.payload, name="payload", limit=PAYLOAD_LIMIT
            )
            object.__setattr__(self, "payload", frozen)
            object.__setattr__(self, "payload_text", text)
        if self.key is not None:
            object.__setattr__(self, "key", check_name("key", self.key))
        if (context := self.trace_context) is not None:
            object.__setattr__(self, "trace_context", check_trace_context(context))

    def execute_at(self, now: datetime) -> datetime:
        """When it is to run, if it is made now."""
        return now + self.delay if self.at is None else self.at

    def made(self, definition: TaskDefinition, now: datetime) -> TaskInstance:
        """The instance that was made of it at this time."""
        execute_at = self.execute_at(now)
        return _instance(
            id=self.id,
            definition=definition,
            fire_time=None,
            execute_at=execute_at,
            due_at=execute_at,
            payload=self.payload,
            key=self.key,
            created_at=now,
            own_trace_context=self.trace_context,
        )
