"""Bodies of instances, runs, previews and explanations, of nodes and counts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import ConfigDict, Field

from go_scheduler.audit import AuditedDefinition, AuditedTime, Verdict
from go_scheduler.handlers.job_types import unmarked
from go_scheduler.http.bodies.body import (
    Answer,
    Body,
    DefinitionId,
    Instant,
    Name,
    Object,
    PageQuery,
    Query,
    Seconds,
    SecondsCount,
    filled,
    if_given,
)
from go_scheduler.http.bodies.definitions import (
    Overlapping,
    TriggerAnswer,
    TriggerBody,
    description_of,
    example,
    warnings_of,
)
from go_scheduler.models import (
    Cancelled,
    Counted,
    Outcome,
    RunEnd,
    Stage,
    State,
    TaskInstance,
)
from go_scheduler.triggers import PreviewedTime, Trigger, preview
from go_scheduler.triggers.base import utc
from go_scheduler.triggers.previews import ask
from go_scheduler.why import Because, Why


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


def _add_example(schema: dict[str, Any]) -> None:
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

    model_config = ConfigDict(json_schema_extra=_add_example)

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
