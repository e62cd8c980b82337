"""Definitions over the wire, with their triggers and policies."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import ConfigDict, Discriminator, Field, Strict, Tag
from pydantic.config import JsonDict

from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.http.bodies.body import (
    Answer,
    Body,
    Id,
    Instant,
    Key,
    Name,
    Object,
    PageQuery,
    Seconds,
    filled,
    if_given,
    of_field,
)
from go_scheduler.json import freeze
from go_scheduler.models import DefinitionState, TaskDefinition
from go_scheduler.policies import CatchUp, Overlap, RetryPolicy
from go_scheduler.triggers import (
    CronTrigger,
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    OnDemandTrigger,
    RecurrenceTrigger,
    Trigger,
    UnknownTrigger,
    dump_trigger,
    load_trigger,
    parse_phrase,
)
from go_scheduler.triggers.base import STATE_LIMIT, find, is_own
from go_scheduler.triggers.previews import describe_with_zone


class Span(Body):
    """A jitter as a duration; a number would be a share of the delay."""

    seconds: Seconds


def _is_span(value: object) -> str:
    return "{span}" if isinstance(value, dict | Span) else "{part}"


Jitter = Annotated[
    Annotated[float, Field(ge=0, le=1), Tag("{part}")] | Annotated[Span, Tag("{span}")],
    Discriminator(_is_span),
]


class RetryBody(Body):
    """The retry policy."""

    max_attempts: int | None = Field(20, description="null: no end.")
    # Factories, as the schema has no defaults: they depend on whether there is a delay.
    delay: Seconds | None = Field(
        default_factory=lambda: timedelta(seconds=15),
        description="null: until `expire_after` has passed since the run began. The"
        " default is 15.",
    )
    factor: float = Field(
        default_factory=lambda: 2.0,
        description="1 to 1,000. The default is 2, or 1 beside a `delay`.",
    )
    max_delay: Seconds | None = Field(
        default_factory=lambda: timedelta(minutes=5),
        description="The default is 300, or null beside a `delay`.",
    )
    jitter: Jitter = Field(
        default_factory=lambda: 0.2,
        description='A part of the delay, or a time: `{"seconds": 5}`. The default is'
        " 0.2, or 0 beside a `delay`.",
    )
    stop_on: list[str] = Field(
        default_factory=list,
        description="The names of exceptions that are not retried.",
    )

    @classmethod
    def of(cls, policy: RetryPolicy) -> Self:
        """The body of a policy."""
        most = policy.jitter
        jitter = Span(seconds=most) if isinstance(most, timedelta) else most
        return filled(cls, policy, jitter=jitter, stop_on=[*map(str, policy.stop_on)])

    def policy(self, field: str) -> RetryPolicy:
        """The policy.

        Args:
            field: The path of this body in the request.

        Raises:
            Problem: 422.
        """
        said: dict[str, Any] = {
            name: getattr(self, name) for name in self.model_fields_set
        }
        if isinstance(jitter := said.get("jitter"), Span):
            said["jitter"] = jitter.seconds
        with of_field(field, tuple(type(self).model_fields)):
            return RetryPolicy(**said)


class CatchUpBody(Body):
    """The catch-up policy."""

    mode: Literal["latest", "all", "none"] = "latest"
    grace: Seconds = Field(
        timedelta(seconds=10), description="A fire time is missed after this delay."
    )
    within: Seconds | None = Field(
        None, description="A missed fire time runs up to this delay; null: always."
    )
    drop_after: Seconds | None = Field(
        None, description="Instances later than this never run; null: no limit."
    )

    @classmethod
    def of(cls, policy: CatchUp) -> Self:
        """The body of a policy."""
        return filled(cls, policy)

    def policy(self, field: str) -> CatchUp:
        """The policy.

        Args:
            field: The path of this body in the request.

        Raises:
            Problem: 422.
        """
        with of_field(field, tuple(type(self).model_fields)):
            return CatchUp(**dict(self))


Gap = Annotated[
    Literal["next", "skip"],
    Field(description="When a local time that does not exist fires."),
]
Twice = Annotated[
    Literal["first", "second", "both"],
    Field(description="Which of two equal local times fires."),
]
Zone = Annotated[str, Field(description="An IANA name.", examples=["Europe/Berlin"])]


class Cron(Body):
    """A cron expression."""

    cron: str = Field(examples=["0 9 * * mon-fri"])
    timezone: Zone = "UTC"
    gap: Gap = "next"
    overlap: Twice = "first"

    def trigger(self, now: datetime | None) -> Trigger:
        """The trigger."""
        return CronTrigger(self.cron, self.timezone, gap=self.gap, overlap=self.overlap)


class Every(Body):
    """Elapsed time from an anchor."""

    every: Seconds = Field(description="From one fire time to the next.", examples=[60])
    anchor: Instant | None = Field(None, description="The first fire time.")

    def trigger(self, now: datetime | None) -> Trigger:
        """The trigger."""
        return IntervalTrigger(self.every, self.anchor)


class At(Body):
    """Once."""

    at: Instant

    def trigger(self, now: datetime | None) -> Trigger:
        """The trigger."""
        return ExecuteOnceTrigger(self.at)


class AfterEnd(Body):
    """A delay after the end of each run."""

    after_end: Seconds = Field(examples=[60])

    def trigger(self, now: datetime | None) -> Trigger:
        """The trigger."""
        return DelayTrigger(self.after_end)


class Rule(Body):
    """A recurrence rule of RFC 5545."""

    rrule: str = Field(examples=["FREQ=MONTHLY;BYDAY=2TU;BYHOUR=10;BYMINUTE=0"])
    timezone: Zone | None = None
    start: Instant | None = Field(None, description="Instead of a DTSTART.")
    gap: Gap = "next"
    overlap: Twice = "first"

    def trigger(self, now: datetime | None) -> Trigger:
        """The trigger."""
        return RecurrenceTrigger(
            self.rrule,
            self.timezone,
            start=self.start,
            gap=self.gap,
            overlap=self.overlap,
        )


class Phrase(Body):
    """An English phrase."""

    phrase: str = Field(examples=["every other tuesday at 9:34am"])
    timezone: Zone = "UTC"

    def trigger(self, now: datetime | None) -> Trigger:
        """The trigger."""
        return parse_phrase(self.phrase, self.timezone, now)


class OnDemand(Body):
    """No schedule: runs are requested."""

    on_demand: Literal[True]

    def trigger(self, now: datetime | None) -> Trigger:
        """The trigger."""
        return OnDemandTrigger()


class ByKind(Body):
    """Any kind of trigger that the server knows, in the form of its answers."""

    kind: str = Field(examples=["interval"])
    state: dict[str, Any] = Field(
        default_factory=dict, examples=[{"every": {"microseconds": 60000000}}]
    )

    def trigger(self, now: datetime | None) -> Trigger:
        """The trigger."""
        state = freeze(self.state, name="state", limit=STATE_LIMIT)
        if find(self.kind) is None:
            raise ConfigurationError(f"kind {shown(self.kind)} is not known here")
        trigger = load_trigger(self.kind, state)
        if isinstance(trigger, UnknownTrigger):
            raise ConfigurationError(f"state {trigger.reason}")
        return trigger


_FORMS = ("cron", "every", "at", "after_end", "rrule", "phrase", "on_demand", "kind")


def _form_of(value: object) -> str | None:
    """The tag of a form; ``problems`` leaves it out of the path of a field."""
    if not isinstance(value, dict):
        return None
    return next((f"{{{each}}}" for each in _FORMS if each in value), None)


TriggerBody = Annotated[
    Annotated[Cron, Tag("{cron}")]
    | Annotated[Every, Tag("{every}")]
    | Annotated[At, Tag("{at}")]
    | Annotated[AfterEnd, Tag("{after_end}")]
    | Annotated[Rule, Tag("{rrule}")]
    | Annotated[Phrase, Tag("{phrase}")]
    | Annotated[OnDemand, Tag("{on_demand}")]
    | Annotated[ByKind, Tag("{kind}")],
    Discriminator(
        _form_of,
        custom_error_type="form",
        custom_error_message=(
            'it must be an object such as {"cron": "0 9 * * *"}, {"every": 60},'
            ' {"at": "2030-01-01T09:00:00Z"}, {"after_end": 60},'
            ' {"rrule": "FREQ=DAILY"}, {"phrase": "every day at noon"},'
            ' {"on_demand": true} or {"kind": "...", "state": {...}}'
        ),
    ),
]
"""A trigger in a request, in one of its forms."""


def trigger_of(body: TriggerBody, now: datetime, *, field: str = "trigger") -> Trigger:
    """The trigger of a body.

    Args:
        body: The form of the trigger.
        now: The present time, from which some phrases count.
        field: The path of the body in the request.

    Raises:
        Problem: 422, with the wrong field.
    """
    names = tuple(type(body).model_fields)
    # An error without a field is about the first one, which names the form.
    with of_field(field, names, otherwise=names[0]):
        return body.trigger(now)


class TriggerAnswer(Answer):
    """A trigger as it is stored."""

    kind: str
    state: Any

    @classmethod
    def of(cls, trigger: Trigger) -> Self:
        """The answer for a trigger."""
        kind, state = dump_trigger(trigger)
        return cls(kind=kind, state=state)


def description_of(trigger: Trigger) -> str | None:
    """A trigger in words; None: its kind is unknown, or it cannot be described."""
    if isinstance(trigger, UnknownTrigger):
        return None
    try:
        return describe_with_zone(trigger)
    # A user's trigger may raise anything.
    except Exception:
        return None


def warnings_of(trigger: Trigger, now: datetime) -> list[str]:
    """Warnings about a trigger that its author may not have meant."""
    return list(trigger.warnings(now)) if is_own(trigger) else []


Overlapping = Annotated[Overlap, Strict(False)]
JitterSpan = Annotated[
    Seconds | None,
    Field(description="The longest random delay of a run; null: the server's default."),
]
ReadOnly = Annotated[Any, Field(json_schema_extra={"readOnly": True})]


class RunSettings(Body):
    """The settings of runs, which a job may have of its own."""

    expire_after: Seconds | None = Field(
        None, description="After this time a run counts as hung."
    )
    timeout: Seconds | None = Field(
        None, description="After this time a run is asked to stop."
    )
    start_timeout: Seconds | None = Field(
        None,
        description="How long a run on a bus may wait to be accepted, then to begin.",
    )
    heartbeat_timeout: Seconds | None = Field(
        None, description="How long a worker on a bus may send no heartbeat."
    )
    lock: Name | None = Field(
        None, description="Of all instances with this lock, one runs at a time."
    )


class Settings(RunSettings):
    """The settings of a definition, which a type has as well."""

    queue: Name = "default"
    priority: int = Field(1, json_schema_extra={"minimum": 0, "maximum": 3})
    retry: RetryBody | None = Field(None, description="null: the server's default.")
    overlap: Overlapping = Overlap.ALLOW
    max_queue: int | None = Field(
        None,
        description="The most instances that may wait; null: any number.",
        json_schema_extra={"minimum": 1},
    )
    when_full: Literal["refuse", "drop"] = Field(
        "refuse",
        description="Whether a further instance is refused, or skipped (drop).",
    )
    owner: Name | None = Field(
        None, description="The owner of the declared set that it is in."
    )

    def settings(self) -> dict[str, Any]:
        """The arguments of a definition that it has, without an owner.

        Raises:
            Problem: 422, a policy is wrong.
        """
        said = {each: getattr(self, each) for each in Settings.model_fields}
        del said["owner"]
        return said | {"retry": if_given(self.retry, lambda it: it.policy("retry"))}


_EXAMPLE: JsonDict = {
    "name": "report",
    "trigger": {"cron": "0 9 * * mon-fri", "timezone": "Europe/Berlin"},
    "metadata": {"recipients": ["ann@example.org"]},
    "retry": {"max_attempts": 5, "delay": 10, "factor": 2},
}


def example() -> TaskDefinition:
    """The definition of the examples, as it is stored."""
    now = datetime(2030, 1, 1, 7, 59, 58, tzinfo=UTC)
    body = DefinitionBody.model_validate({**_EXAMPLE, "key": "nightly report"})
    made = body.definition(now, revision=1)
    return replace(made, next_fire_time=made.trigger.next_fire_time(now))


def _add_example(schema: dict[str, Any]) -> None:
    answer = DefinitionAnswer.of(example())
    schema["examples"] = [answer.model_dump(mode="json")]


class DefinitionBody(Settings):
    """A definition: what to run, and when."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    trigger: TriggerBody
    id: Id | None = Field(
        None, description="null: it is made of the key, or else by the server."
    )
    key: Key | None = Field(
        None, description="What its author calls it; no other definition has it."
    )
    name: Name | None = Field(
        None, description="The name of the handler, or the type for workers."
    )
    metadata: Object = Field(default_factory=dict, description="At most 64 KiB.")
    catch_up: CatchUpBody | None = Field(
        None, description="null: the server's default."
    )
    jitter: JitterSpan = None
    max_per_node: int | None = Field(
        None,
        description="The most instances on one node at once; null: any number.",
        json_schema_extra={"minimum": 1},
    )
    paused: bool = Field(
        False, description="For a new definition; otherwise pause and resume it."
    )
    note: str | None = Field(None, description="Why it is paused.")

    @classmethod
    def of(cls, definition: TaskDefinition) -> dict[str, Any]:
        """The body that would create a definition as it is."""
        answer = DefinitionAnswer.of(definition).model_dump(mode="json")
        return {each: answer[each] for each in cls.model_fields}

    def definition(
        self, now: datetime, *, id: UUID | None = None, revision: int | None = None
    ) -> TaskDefinition:
        """The definition, without an owner.

        Args:
            now: The present time, from which some triggers count.
            id: The id in the path; None: the id in the body, or a new one.
            revision: The revision that it must have in the store; None: any.

        Raises:
            Problem: 422, with the wrong field.
        """
        trigger, settings = trigger_of(self.trigger, now), self.settings()
        catch_up = if_given(self.catch_up, lambda it: it.policy("catch_up"))
        with of_field("", tuple(type(self).model_fields)):
            return TaskDefinition(
                trigger=trigger,
                id=id or self.id,  # type: ignore[arg-type]
                key=self.key,
                name=self.name,
                metadata=self.metadata,
                catch_up=catch_up,
                jitter=self.jitter,
                max_per_node=self.max_per_node,
                paused=self.paused,
                note=self.note,
                revision=revision,
                **settings,
            )


class DefinitionPut(DefinitionBody):
    """A definition, as it was created or as it was read.

    The ``revision`` must be the stored one; other read-only fields are ignored.
    """

    revision: int | None = None
    state: ReadOnly = None
    next_fire_time: ReadOnly = None
    paused_at: ReadOnly = None
    completed_at: ReadOnly = None
    recurring: ReadOnly = None
    description: ReadOnly = None
    warnings: ReadOnly = None


class DefinitionAnswer(Answer):
    """A definition as the server keeps it."""

    model_config = ConfigDict(json_schema_extra=_add_example)

    id: UUID
    key: str | None
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
        """The answer for a definition."""
        return filled(
            cls,
            definition,
            trigger=TriggerAnswer.of(definition.trigger),
            metadata=dict(definition.metadata),
            retry=if_given(definition.retry, RetryBody.of),
            catch_up=if_given(definition.catch_up, CatchUpBody.of),
            description=description_of(definition.trigger),
        )


class PutAnswer(DefinitionAnswer):
    """A definition after it was stored, with warnings."""

    warnings: list[str] = Field(
        default_factory=list, description="What its author may not have meant."
    )


class PauseBody(Body):
    """The note of a pause."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"note": "the mail server moves"}]}
    )

    note: str | None = Field(None, description="At most 10,000 characters.")


class DeleteAnswer(Answer):
    """The result of a delete."""

    running: int = Field(
        description="The number of its instances that have started. They go on; their"
        " results are dropped."
    )


class DefinitionsQuery(PageQuery):
    """The filter of a list of definitions."""

    name: Name | None = None
    queue: Name | None = None
    owner: Name | None = None
    state: DefinitionState | None = None
    metadata: str | None = Field(
        None,
        description="Only definitions whose metadata contains this JSON.",
        examples=['{"shop": 7}'],
    )
    soonest_first: bool = Field(False, description="Sort by the next fire time.")
