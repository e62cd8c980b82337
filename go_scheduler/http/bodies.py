"""Bodies of requests and answers; those of jobs and of work stand with their routes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, Self, TypeVar
from uuid import UUID

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    Strict,
    Tag,
    WithJsonSchema,
    model_validator,
)
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from go_scheduler.audit import AuditedDefinition, AuditedTime, Verdict
from go_scheduler.checks import KEY_LIMIT, parse_id
from go_scheduler.errors import ConfigurationError
from go_scheduler.formatting import shown
from go_scheduler.handlers.job_types import unmarked
from go_scheduler.http.problems import invalid
from go_scheduler.json import freeze
from go_scheduler.models import (
    Cancelled,
    Counted,
    DefinitionState,
    Outcome,
    RunEnd,
    Stage,
    State,
    TaskDefinition,
    TaskInstance,
)
from go_scheduler.policies import CatchUp, Overlap, RetryPolicy
from go_scheduler.triggers import (
    CronTrigger,
    DelayTrigger,
    ExecuteOnceTrigger,
    IntervalTrigger,
    OnDemandTrigger,
    PreviewedTime,
    RecurrenceTrigger,
    Trigger,
    UnknownTrigger,
    dump_trigger,
    load_trigger,
    parse_phrase,
    preview,
)
from go_scheduler.triggers.base import STATE_LIMIT, find, is_own, utc
from go_scheduler.triggers.previews import ask, describe_with_zone
from go_scheduler.why import Because, Why

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_Given = TypeVar("_Given")
_Item = TypeVar("_Item")
_Made = TypeVar("_Made")
_Model = TypeVar("_Model", bound=BaseModel)

_RFC_3339 = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_MOST = 10


def _read_seconds(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PydanticCustomError("seconds", "it must be a number of seconds")
    try:
        return timedelta(seconds=value)
    except (OverflowError, ValueError):
        raise PydanticCustomError(
            "seconds", "it is no number of seconds within 100 years"
        ) from None


def _read_definition(text: str) -> UUID:
    return parse_id(text) or TaskDefinition.id_for(text)


def _write_seconds(value: timedelta) -> float:
    seconds = value.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds


def _read_instant(value: object) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, str) and _RFC_3339.fullmatch(value.upper()):
        try:
            return datetime.fromisoformat(value.upper())
        except ValueError:
            # There is no such day or time of day.
            pass
    raise PydanticCustomError(
        "instant",
        "it must be a time as RFC 3339 has it, with its offset, such as"
        " 2030-01-01T09:00:00Z or 2030-01-01T09:00:00+02:00 (in a URL, %2B02:00)",
    )


Seconds = Annotated[
    timedelta,
    BeforeValidator(_read_seconds),
    PlainSerializer(_write_seconds, return_type=int | float),
    WithJsonSchema({"type": "number"}),
]
"""A duration, in seconds."""

SecondsCount = Annotated[float, Field(ge=0, le=3_155_760_000, allow_inf_nan=False)]
"""A duration of at most a century, in seconds, which a URL may have as well."""

Instant = Annotated[
    datetime,
    BeforeValidator(_read_instant),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A time as RFC 3339 has it, with its offset; answered in UTC."""

Id = Annotated[UUID, Strict(False)]
"""An id, as a text."""

DefinitionId = Annotated[
    UUID, BeforeValidator(_read_definition), WithJsonSchema({"type": "string"})
]
"""The id of a definition in a URL, given as it is or by its key."""

Key = Annotated[
    str, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": KEY_LIMIT})
]
"""The key of a definition, which the core validates."""

Name = Annotated[
    str, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 200})
]
"""A short text, which the core validates."""

Object = Annotated[dict[str, Any], WithJsonSchema({"type": "object"})]
"""Any JSON object, which the core validates."""

Limit = Annotated[int, Field(ge=1, le=1000)]
"""The most items of a page."""


def filled(model: type[_Model], value: object, **others: Any) -> _Model:
    """A model with the fields of a value.

    Args:
        model: The class of the model.
        value: The value, with attributes of the same names.
        **others: The fields that the value does not have as they are.
    """
    given = {
        field.alias or name: others[name] if name in others else getattr(value, name)
        for name, field in model.model_fields.items()
    }
    return model(**given)


def if_given(value: _Given | None, of: Callable[[_Given], _Made]) -> _Made | None:
    """Convert a value; None stays None."""
    return None if value is None else of(value)


def _unknown(name: str, names: list[str]) -> str:
    near = get_close_matches(name[:200], names, n=1)
    if near:
        return f"there is no such field: did you mean {near[0]}?"
    return f"there is no such field: known are {', '.join(names)}"


def _is_set(field: FieldInfo) -> bool:
    """Whether a field is writable, and not read-only."""
    extra = field.json_schema_extra
    return not (isinstance(extra, dict) and extra.get("readOnly"))


class Given(BaseModel):
    """A request: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _check_known(cls, value: object) -> object:
        if isinstance(value, dict):
            names = [each.alias or name for name, each in cls.model_fields.items()]
            unknown = [str(each) for each in value if each not in names]
            if unknown:
                # Read-only fields may be sent back, and are not suggested.
                own = cls.model_fields.items()
                known = [each.alias or name for name, each in own if _is_set(each)]
                fields = {each: _unknown(each, known) for each in unknown[:_MOST]}
                raise PydanticCustomError(
                    "unknown", "there are fields that nobody knows", {"fields": fields}
                )
        return value


class Body(Given):
    """A JSON body; no value is coerced."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class Query(Given):
    """The query of a URL; its texts are parsed."""


class PageQuery(Query):
    """Which page of a list."""

    after: Annotated[str | None, Field(max_length=500)] = Field(
        None, description="Read on from a page: its `next`."
    )
    limit: Limit = Field(100, description="The most items of a page.")


class Answer(BaseModel):
    """What is answered as JSON."""

    @classmethod
    def of(cls, value: Any) -> Self:
        """The answer for a value with the same fields."""
        return filled(cls, value)


class PageOf(Answer, Generic[_Item]):
    """A page of a list."""

    items: list[_Item]
    next: str | None = Field(
        description="Pass it on as `after` to read the next page; null: there is none."
    )


@contextmanager
def of_field(
    field: str, names: Sequence[str] = (), *, otherwise: str = ""
) -> Iterator[None]:
    """Turn errors of the core within the context into problems of a field.

    Args:
        field: The path of the field; empty: the whole body.
        names: The fields below it. An error that begins with one of these names is
            an error of that field.
        otherwise: The field of an error that begins with no name.
    """
    try:
        yield
    except ConfigurationError as error:
        text = str(error)
        path, _, rest = text.partition(": ")
        if field and path.startswith(f"{field}.") and " " not in path:
            raise invalid(path, rest) from None
        first = text.partition(" ")[0].partition("[")[0].rstrip(",:")
        below = first if first in names else otherwise
        raise invalid(".".join(filter(None, (field, below))), text) from None


def read_object(field: str, text: str) -> dict[str, Any]:
    """Parse a JSON object in a query.

    Raises:
        Problem: 422, it is no JSON object.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise invalid(
            field, f'it must be a JSON object such as {{"order": 7}}: {shown(text)}'
        )
    return found


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
            raise ConfigurationError(trigger.reason.removeprefix("the stored "))
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


def _add_definition(schema: dict[str, Any]) -> None:
    answer = DefinitionAnswer.of(example())
    schema["examples"] = [answer.model_dump(mode="json")]


class _Definition(Body):
    """What a definition has beside its settings; these fields are shown first."""

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


class DefinitionBody(Settings, _Definition):
    """A definition: what to run, and when."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

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

    model_config = ConfigDict(json_schema_extra=_add_definition)

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


class HealthAnswer(Answer):
    """The server is healthy."""

    status: Literal["ok"] = "ok"


class NodeAnswer(Answer):
    """A node: one start of a scheduler, with its queues and handlers; null: unknown."""

    id: UUID
    host: str | None
    pid: int | None
    version: str | None
    queues: list[str] | None
    names: list[str] | None = Field(description="null: any, or more than a thousand.")
    since: Instant
    seen_at: Instant
    stopping: bool
    alive: bool


class NodesAnswer(Answer):
    """The nodes that share the store."""

    items: list[NodeAnswer]


class StatsAnswer(Answer):
    """The numbers of instances, nodes and workers."""

    instances: dict[State, int] = Field(
        description="The number of instances in each state, up to a bound."
    )
    more: list[State] = Field(
        description="The states that have, or may have, more instances than the number."
    )
    nodes: int | None = Field(
        description="The number of live nodes; null: the caller is restricted."
    )
    workers: int | None = Field(
        description="The number of workers that wait for work of this server; null: it"
        " hands out no work, or the caller is restricted."
    )

    @classmethod
    def counted(
        cls,
        counts: Mapping[State, Counted],
        *,
        nodes: int | None,
        workers: int | None,
    ) -> Self:
        """The answer for bounded counts."""
        return cls(
            instances={state: each.count for state, each in counts.items()},
            more=[state for state, each in counts.items() if each.more],
            nodes=nodes,
            workers=workers,
        )


def _add_instance(schema: dict[str, Any]) -> None:
    definition = example()
    at = definition.next_fire_time
    assert at is not None
    instance = TaskInstance(
        id=UUID("36befd6f-c19e-4d9e-8ed3-f48f14fabf2c"),
        definition=definition,
        fire_time=at,
        execute_at=at,
        due_at=at,
        attempt=1,
        runs=1,
        claimed_by=UUID("a3e9a4f4-4a8e-4b0c-8b55-3b1d8f3c9d21"),
        created_at=at,
        started_at=at,
        completed_at=at,
        outcome=Outcome.COMPLETED,
    )
    answer = InstanceAnswer.of(instance)
    schema["examples"] = [answer.model_dump(mode="json")]


class SkippedAnswer(Answer):
    """The skipped fire times that an instance stands for, and the reason."""

    first: Instant
    last: Instant
    count: int
    reason: str


class InstanceAnswer(Answer):
    """An instance: one run of a definition, by its schedule or by hand."""

    model_config = ConfigDict(json_schema_extra=_add_instance)

    id: UUID
    definition_id: UUID
    definition_key: str | None
    name: str | None
    queue: str
    state: State
    fire_time: Instant | None
    execute_at: Instant
    due_at: Instant
    attempt: int
    runs: int
    max_attempts: int | None = Field(
        description="null: the server's default, or no end."
    )
    payload: Object | None
    metadata: Object
    key: str | None
    claimed_by: UUID | None
    worker: str | None
    created_at: Instant | None
    updated_at: Instant | None = Field(
        description="When it was last created, started, ended or retried."
    )
    started_at: Instant | None
    completed_at: Instant | None
    outcome: Outcome | None
    error: str | None
    result: Any
    client: Any = Field(
        description="The `started_at` and `ended_at` of the last run by the worker's"
        " clock; null: the worker sent none."
    )
    stage: Stage | None = Field(description="The progress of its run on a message bus.")
    accepted_at: Instant | None
    start_by: Instant | None
    progress: Any = Field(description="The last progress of the handler; null: none.")
    skipped: SkippedAnswer | None
    cancel_requested: bool
    parked: bool

    @classmethod
    def of(cls, instance: TaskInstance) -> Self:
        """The answer for an instance."""
        definition = instance.definition
        return filled(
            cls,
            instance,
            definition_id=definition.id,
            definition_key=definition.key,
            name=definition.name,
            queue=definition.queue,
            max_attempts=if_given(definition.retry, lambda it: it.max_attempts),
            payload=if_given(instance.payload, dict),
            metadata=unmarked(instance.metadata),
            updated_at=_updated_at(instance),
            skipped=if_given(instance.skipped, SkippedAnswer.of),
        )


def _updated_at(instance: TaskInstance) -> datetime | None:
    times = (
        instance.created_at,
        instance.reopened_at,
        instance.started_at,
        instance.completed_at,
    )
    return max((each for each in times if each is not None), default=None)


class RunAnswer(Answer):
    """A failed run."""

    attempt: int
    node: UUID | None
    worker: str | None
    started_at: Instant | None
    ended_at: Instant
    outcome: RunEnd
    error: str | None
    lost_in: Stage | None


class RunsAnswer(Answer):
    """The failed runs of an instance, the earliest first."""

    items: list[RunAnswer]


class InstancesQuery(PageQuery):
    """The filter of a list of instances."""

    definition_id: DefinitionId | None = None
    name: Name | None = None
    key: Name | None = None
    state: State | None = None
    since: Instant | None = Field(
        None, description="Only instances whose `execute_at` is not before."
    )
    newest_first: bool = False


class RunBody(Body):
    """The arguments of one more run of a definition."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"payload": {"order": 7}}]}
    )

    payload: Object | None = Field(None, description="At most 64 KiB.")
    at: Instant | None = Field(None, description="null: as soon as possible.")
    delay: Seconds | None = Field(None, description="Instead of `at`.")
    key: Name | None = Field(
        None, description="While an instance has this key, no second instance is made."
    )


class BackfillBody(Body):
    """The past period of a schedule that is to run."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"start": "2026-01-01T00:00:00Z", "end": "2026-02-01T00:00:00Z"}
            ]
        }
    )

    start: Instant
    end: Instant = Field(description="The end of the period; exclusive.")
    overlap: Overlapping | None = Field(None, description="null: the definition's.")
    limit: int = Field(1000, ge=1, le=10_000, description="The most instances to make.")


class BackfillAnswer(Answer):
    """The result of a backfill."""

    made: int = Field(description="How many instances were made.")
    there: int = Field(description="How many fire times had an instance already.")
    first: Instant | None
    last: Instant | None
    next: Instant | None = Field(
        description="Pass it on as `start` to go on after the limit; null: all is done."
    )


class CancelAnswer(Answer):
    """The result of a request to cancel."""

    cancelled: Cancelled = Field(
        description="`cancelled`: it will not run; `requested`: its run is to stop."
    )


Count = Annotated[int, Field(ge=1, le=1000, description="How many fire times.")]


class PreviewedAnswer(Answer):
    """One fire time, and the effect of a clock change on it."""

    at: Instant = Field(description="In UTC.")
    local: str = Field(description="In the time zone of the schedule.")
    effect: str | None

    @classmethod
    def of(cls, time: PreviewedTime) -> Self:
        """The answer for a previewed time."""
        at = utc(time.at, name="at")
        return cls(at=at, local=time.at.isoformat(), effect=time.effect)


class PreviewAnswer(Answer):
    """The next fire times of a trigger."""

    trigger: TriggerAnswer
    description: str | None
    times: list[PreviewedAnswer]
    warnings: list[str] = Field(
        description="Warnings about a trigger that its author may not have meant."
    )

    @classmethod
    def computed(cls, trigger: Trigger, n: int, after: datetime) -> Self:
        """The answer for a trigger, whose fire times are computed here."""
        times = ask(trigger, lambda: preview(trigger, n, after))
        return cls(
            trigger=TriggerAnswer.of(trigger),
            description=description_of(trigger),
            times=[PreviewedAnswer.of(each) for each in times],
            warnings=warnings_of(trigger, after),
        )


class PreviewQuery(Query):
    """How many fire times of a definition to preview, and from when on."""

    n: Count = 10
    after: Instant | None = Field(None, description="null: the present time.")


class PreviewBody(Body):
    """A trigger, and how many of its fire times to preview."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"trigger": {"phrase": "every weekday at 9:00"}, "n": 3}]
        }
    )

    trigger: TriggerBody
    n: Count = 10
    after: Instant | None = Field(None, description="null: the present time.")


class WhyQuery(Query):
    """The instant that is asked about."""

    at: Instant | None = Field(None, description="null: the present time.")


class WhyOfQuery(WhyQuery):
    """The definition or instance that is asked about, and the instant."""

    definition_id: DefinitionId = Field(
        description="The id or key of a definition, or the id of an instance."
    )


class AuditQuery(Query):
    """The past period that is audited."""

    since: Instant | None = Field(None, description="null: a day ago.")
    until: Instant | None = Field(
        None, description="The end of the period; exclusive. null: the present time."
    )
    retention: SecondsCount | None = Field(
        None, description="That of the schedulers, in seconds; null: the server's."
    )
    unchanged_since: Instant | None = Field(
        None, description="Since when nobody has changed its trigger; null: unknown."
    )
    late: SecondsCount = Field(
        1, description="What begins later by more seconds is late."
    )


class AuditedTimeAnswer(Answer):
    """A fire time, and what became of it."""

    fire_time: Instant
    verdict: Verdict
    late: Seconds | None
    reason: str | None
    instance_id: UUID | None

    @classmethod
    def of(cls, time: AuditedTime) -> Self:
        """The answer for an audited time."""
        return filled(cls, time, fire_time=time.at)


class AuditAnswer(Answer):
    """What became of every fire time of a definition in a past period."""

    counts: dict[str, int] = Field(description="How many there are of each verdict.")
    note: str | None = Field(
        description="Why nobody could name its fire times beforehand."
    )
    error: str | None = Field(description="Why the fire times are not known.")
    times: list[AuditedTimeAnswer]

    @classmethod
    def of(cls, audited: AuditedDefinition) -> Self:
        """The answer for an audited definition."""
        times = [AuditedTimeAnswer.of(each) for each in audited.times]
        return filled(cls, audited, counts=dict(audited.counts), times=times)


class WhyAnswer(Answer):
    """What happened, happens or will happen, and the reason."""

    definition_id: UUID
    at: Instant
    because: Because
    text: str = Field(description="The same in plain sentences.")
    instance: InstanceAnswer | None
    node: NodeAnswer | None = Field(description="Also null without the scope `admin`.")
    holder: InstanceAnswer | None = Field(description="The instance that it waits for.")
    since: Instant | None
    until: Instant | None
    reason: str | None
    nearest: list[PreviewedAnswer]

    @classmethod
    def of(cls, why: Why) -> Self:
        """The answer for an explanation."""
        return filled(
            cls,
            why,
            instance=if_given(why.instance, InstanceAnswer.of),
            node=if_given(why.node, NodeAnswer.of),
            holder=if_given(why.holder, InstanceAnswer.of),
            nearest=[PreviewedAnswer.of(each) for each in why.nearest],
        )
