"""Definitions over the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID, uuid4

from pydantic import ConfigDict, Field, Strict
from pydantic.config import JsonDict

from go_scheduler.http.bodies.body import (
    Answer,
    Body,
    Id,
    Instant,
    Name,
    Object,
    PageAsked,
    Seconds,
    if_given,
    of_field,
)
from go_scheduler.http.bodies.policies import CatchUpBody, RetryBody
from go_scheduler.http.bodies.triggers import (
    TriggerAnswer,
    TriggerBody,
    description_of,
    trigger_of,
)
from go_scheduler.models import DefinitionState, TaskDefinition
from go_scheduler.policies import Overlap

Overlapping = Annotated[Overlap, Strict(False)]
MaxQueue = Annotated[
    int | None,
    Field(
        description="How many of it may wait; null: any number.",
        json_schema_extra={"minimum": 1},
    ),
]
WhenFull = Annotated[
    Literal["refuse", "drop"],
    Field(description="What becomes of more that is added; drop: it is skipped."),
]

_EXAMPLE: JsonDict = {
    "name": "report",
    "trigger": {"cron": "0 9 * * mon-fri", "timezone": "Europe/Berlin"},
    "metadata": {"recipients": ["ann@example.org"]},
    "retry": {"max_attempts": 5, "delay": 10, "factor": 2},
}
_ANSWER: JsonDict = {
    "id": "7f2c6a52-0f5c-4b0e-9d5e-0f3c7c1b8e11",
    "name": "report",
    "queue": "default",
    "priority": 1,
    "trigger": {
        "kind": "cron",
        "state": {"expression": "0 9 * * MON-FRI", "timezone": "Europe/Berlin"},
    },
    "metadata": {"recipients": ["ann@example.org"]},
    "expire_after": None,
    "timeout": None,
    "start_timeout": None,
    "heartbeat_timeout": None,
    "retry": None,
    "catch_up": None,
    "jitter": None,
    "overlap": "allow",
    "lock": None,
    "max_per_node": None,
    "max_queue": None,
    "when_full": "refuse",
    "paused": False,
    "note": None,
    "state": "active",
    "next_fire_time": "2030-01-01T08:00:00Z",
    "paused_at": None,
    "completed_at": None,
    "owner": None,
    "revision": 1,
    "recurring": True,
    "description": "every weekday at 09:00",
}


class DefinitionBody(Body):
    """What to run, and when."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    trigger: TriggerBody
    id: Id | None = Field(None, description="null: one is made up.")
    name: Name | None = Field(None, description="Which handler or worker runs it.")
    queue: Name = "default"
    priority: int = Field(1, json_schema_extra={"minimum": 0, "maximum": 3})
    metadata: Object = Field(default_factory=dict, description="At most 64 KiB.")
    expire_after: Seconds | None = Field(
        None, description="How long a run may take before it is presumed hung."
    )
    timeout: Seconds | None = Field(None, description="When a run is told to end.")
    start_timeout: Seconds | None = Field(
        None, description="How long a bus may wait until it is accepted, then begun."
    )
    heartbeat_timeout: Seconds | None = Field(
        None, description="How long its worker on a bus may be silent."
    )
    retry: RetryBody | None = Field(None, description="null: the server's default.")
    catch_up: CatchUpBody | None = Field(
        None, description="null: the server's default."
    )
    jitter: Seconds | None = Field(None, description="How much later it runs, at most.")
    overlap: Overlapping = Overlap.ALLOW
    lock: Name | None = Field(None, description="One of all with this lock runs.")
    max_per_node: int | None = Field(
        None,
        description="How many of it one node has at once; null: any number.",
        json_schema_extra={"minimum": 1},
    )
    max_queue: MaxQueue = None
    when_full: WhenFull = "refuse"
    owner: Name | None = Field(None, description="In whose declared set it is.")
    paused: bool = Field(False, description="Of a new one; else pause and resume it.")
    note: str | None = Field(None, description="Why it is paused.")

    @classmethod
    def of(cls, definition: TaskDefinition) -> dict[str, Any]:
        """What would have to be sent to have a definition as it is."""
        answer = DefinitionAnswer.of(definition).model_dump(mode="json")
        return {each: answer[each] for each in cls.model_fields}

    def definition(
        self, now: datetime, *, id: UUID | None = None, revision: int | None = None
    ) -> TaskDefinition:
        """The definition, which is in no set yet.

        Args:
            now: The present time, from which some triggers count.
            id: That of the path; None: its own, or one that is made up.
            revision: The one that it must have in the store; None: any.

        Raises:
            Problem: 422, with the field that is wrong.
        """
        trigger = trigger_of(self.trigger, now)
        retry = if_given(self.retry, lambda it: it.policy("retry"))
        catch_up = if_given(self.catch_up, lambda it: it.policy("catch_up"))
        with of_field("", tuple(type(self).model_fields)):
            return TaskDefinition(
                trigger=trigger,
                id=id or self.id or uuid4(),
                named=(id or self.id) is not None,
                name=self.name,
                queue=self.queue,
                priority=self.priority,
                metadata=self.metadata,
                expire_after=self.expire_after,
                timeout=self.timeout,
                start_timeout=self.start_timeout,
                heartbeat_timeout=self.heartbeat_timeout,
                retry=retry,
                catch_up=catch_up,
                jitter=self.jitter,
                overlap=self.overlap,
                lock=self.lock,
                max_per_node=self.max_per_node,
                max_queue=self.max_queue,
                when_full=self.when_full,
                paused=self.paused,
                note=self.note,
                revision=revision,
            )


class DefinitionPut(DefinitionBody):
    """What to run, and when; what the server keeps may be sent back as it was read.

    Of that, the ``revision`` must be the stored one; the rest is not looked at.
    """

    revision: int | None = None
    state: Any = Field(None, json_schema_extra={"readOnly": True})
    next_fire_time: Any = Field(None, json_schema_extra={"readOnly": True})
    paused_at: Any = Field(None, json_schema_extra={"readOnly": True})
    completed_at: Any = Field(None, json_schema_extra={"readOnly": True})
    recurring: Any = Field(None, json_schema_extra={"readOnly": True})
    description: Any = Field(None, json_schema_extra={"readOnly": True})
    warnings: Any = Field(None, json_schema_extra={"readOnly": True})


class DefinitionAnswer(Answer):
    """A definition as the server keeps it."""

    model_config = ConfigDict(json_schema_extra={"examples": [_ANSWER]})

    id: UUID
    name: str | None
    queue: str
    priority: int
    trigger: TriggerAnswer
    metadata: Object
    expire_after: Seconds | None
    timeout: Seconds | None
    start_timeout: Seconds | None
    heartbeat_timeout: Seconds | None
    retry: RetryBody | None
    catch_up: CatchUpBody | None
    jitter: Seconds | None
    overlap: Overlap
    lock: str | None
    max_per_node: int | None
    max_queue: int | None
    when_full: Literal["refuse", "drop"]
    paused: bool
    note: str | None
    state: DefinitionState
    next_fire_time: Instant | None
    paused_at: Instant | None
    completed_at: Instant | None
    owner: str | None
    revision: int | None
    recurring: bool
    description: str | None = Field(description="The trigger in words.")

    @classmethod
    def of(cls, definition: TaskDefinition) -> Self:
        """That of a definition."""
        return cls(
            id=definition.id,
            name=definition.name,
            queue=definition.queue,
            priority=definition.priority,
            trigger=TriggerAnswer.of(definition.trigger),
            metadata=dict(definition.metadata),
            expire_after=definition.expire_after,
            timeout=definition.timeout,
            start_timeout=definition.start_timeout,
            heartbeat_timeout=definition.heartbeat_timeout,
            retry=if_given(definition.retry, RetryBody.of),
            catch_up=if_given(definition.catch_up, CatchUpBody.of),
            jitter=definition.jitter,
            overlap=definition.overlap,
            lock=definition.lock,
            max_per_node=definition.max_per_node,
            max_queue=definition.max_queue,
            when_full=definition.when_full,
            paused=definition.paused,
            note=definition.note,
            state=definition.state,
            next_fire_time=definition.next_fire_time,
            paused_at=definition.paused_at,
            completed_at=definition.completed_at,
            owner=definition.owner,
            revision=definition.revision,
            recurring=definition.recurring,
            description=description_of(definition.trigger),
        )


class PutAnswer(DefinitionAnswer):
    """A definition as it was put."""

    warnings: list[str] = Field(
        default_factory=list, description="What its author may not have meant."
    )


class PauseBody(Body):
    """Why a definition is paused."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"note": "the mail server moves"}]}
    )

    note: str | None = Field(None, description="At most 10,000 characters.")


class DeleteAnswer(Answer):
    """What the delete of a definition came to."""

    running: int = Field(
        description="How many of its instances had started. They run, or are about to;"
        " their results are dropped."
    )


class DefinitionsAsked(PageAsked):
    """Which definitions."""

    name: Name | None = None
    queue: Name | None = None
    owner: Name | None = None
    state: DefinitionState | None = None
    metadata: str | None = Field(
        None, description="What theirs contains, as JSON.", examples=['{"shop": 7}']
    )
    soonest_first: bool = Field(False, description="By their next fire time.")
